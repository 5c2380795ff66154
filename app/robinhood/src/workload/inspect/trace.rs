//! The figures of a trace.

use std::path::Path;

use robinhood_stats::{Bytes, Histogram};
use robinhood_workload::{
    Request, RequestStream, Survey, Surveyor, TraceFormat, TraceOptions, TraceReader,
};
use serde::Serialize;

use super::{Facts, percent};
use crate::failure::Failure;
use crate::table::Table;
use crate::workload::trace_file::{Input, Progress};

/// What is in a trace; the document of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    schema: &'static str,
    kind: &'static str,
    file: String,
    format: &'static str,
    file_bytes: u64,
    /// Bad lines or blocks that were skipped, and the requests that are missing for it.
    skipped: u64,
    requests_lost: u64,
    /// False when the user ended the reading.
    complete: bool,
    requests: u64,
    queries: u64,
    span_s: f64,
    /// Requests per second; `null` when all came at once.
    rate_per_s: Option<f64>,
    queries_per_request: f64,
    stages: Spread,
    fanout: Spread,
    /// Share of requests by number of distinct backends, from 0.
    fanout_shares: Vec<f64>,
    batch_queries: Spread,
    top_percent_query_share: f64,
    backends: Vec<Backend>,
}

#[derive(Debug, Serialize)]
struct Spread {
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    max: u64,
}

#[derive(Debug, Serialize)]
struct Backend {
    name: String,
    queries: u64,
    query_share: f64,
    request_share: f64,
    batch_queries_mean: f64,
    distinct_keys: u64,
    distinct_bytes: u64,
    query_bytes_mean: f64,
    cacheable_share: f64,
    reuse_share: f64,
}

/// Reads a trace to its end, or until the user has seen enough.
pub(super) fn read(path: &Path, skip_bad: bool) -> Result<Figures, Failure> {
    let input = Input::open(path)?;
    let file = path.display().to_string();
    let options = TraceOptions { skip_bad, ..TraceOptions::default() };
    let mut stream = TraceReader::new(input.reader, &file, options);
    let mut progress = Progress::new()?;
    let (mut surveyor, mut request) = (Surveyor::new(), Request::new());
    let mut goes_on = true;
    while goes_on && stream.next_into(&mut request).map_err(Failure::failed)? {
        surveyor.add(&request, &stream);
        goes_on = progress.goes_on(|| input.meter.share());
    }
    drop(progress);
    let survey = surveyor.finish(&stream);
    Ok(Figures {
        schema: "robinhood.inspect/1",
        kind: "trace",
        file,
        format: match stream.format() {
            Some(TraceFormat::Binary) => "rht",
            _ => "jsonl",
        },
        file_bytes: input.meter.file_bytes,
        skipped: stream.skipped(),
        requests_lost: stream.requests_lost(),
        complete: goes_on,
        requests: survey.requests,
        queries: survey.queries,
        span_s: survey.span().as_secs_f64(),
        rate_per_s: survey.rate().map(|rate| rate.0),
        queries_per_request: survey.queries_per_request(),
        stages: Spread::of(&survey.stages),
        fanout: Spread::of(&survey.fanout),
        fanout_shares: shares(&survey.fanout),
        batch_queries: Spread::of(&survey.batch_queries),
        top_percent_query_share: survey.top_percent_query_share,
        backends: backends(&survey),
    })
}

impl Spread {
    /// Zeros of a histogram without values.
    fn of(histogram: &Histogram) -> Self {
        let quantile = |q| histogram.quantile(q).unwrap_or(0);
        Self {
            mean: histogram.mean().unwrap_or(0.0),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max: histogram.max().unwrap_or(0),
        }
    }

    fn text(&self) -> String {
        let Self { mean, p50, p90, p99, max } = self;
        format!("mean {mean:.2}, P50 {p50}, P90 {p90}, P99 {p99}, largest {max}")
    }
}

fn shares(histogram: &Histogram) -> Vec<f64> {
    let mut shares = vec![0.0; histogram.max().map_or(0, |max| max as usize + 1)];
    for (value, _, count) in histogram.buckets() {
        shares[value as usize] = count as f64 / histogram.count() as f64;
    }
    shares
}

fn backends(survey: &Survey) -> Vec<Backend> {
    let whole = |count: u64| count.max(1) as f64;
    let backends = survey.backends.iter().map(|backend| Backend {
        name: backend.name.to_string(),
        queries: backend.queries,
        query_share: backend.queries as f64 / whole(survey.queries),
        request_share: backend.requests as f64 / whole(survey.requests),
        batch_queries_mean: backend.batch_queries_mean(),
        distinct_keys: backend.distinct_keys,
        distinct_bytes: backend.distinct_bytes.0,
        query_bytes_mean: backend.query_bytes_mean(),
        cacheable_share: backend.cacheable_share(),
        reuse_share: backend.reuse_share(),
    });
    let mut backends: Vec<Backend> = backends.collect();
    backends.sort_by(|a, b| b.queries.cmp(&a.queries).then_with(|| a.name.cmp(&b.name)));
    backends
}

impl Figures {
    /// The figures for people.
    pub(super) fn tables(&self) -> String {
        let mut facts = Facts::new(&format!("trace {}", self.file));
        let kind = if self.format == "rht" { "binary" } else { "JSON lines" };
        let per_query = self.file_bytes as f64 / self.queries.max(1) as f64;
        facts.add(
            "file",
            format!("{kind}, {}, {per_query:.2} bytes a query", Bytes(self.file_bytes)),
        );
        facts.add("requests", self.requests);
        facts
            .add("queries", format!("{}, {:.2} a request", self.queries, self.queries_per_request));
        facts.add("time span", format!("{:.3} s", self.span_s));
        let rate = self.rate_per_s.map_or("all at once".to_owned(), |rate| format!("{rate:.1}/s"));
        facts.add("rate", rate);
        facts.add("stages of a request", self.stages.text());
        facts.add("fanout of a request", self.fanout.text());
        facts.add("queries of a batch", self.batch_queries.text());
        facts.add("queries to the top 1 % of keys", percent(self.top_percent_query_share));
        if self.skipped > 0 {
            let (skipped, lost) = (self.skipped, self.requests_lost);
            facts.add("bad and skipped", format!("{skipped}, at least {lost} requests are lost"));
        }
        if !self.complete {
            facts.add("interrupted", "the figures are those of the beginning");
        }
        format!("{}\n{}\n{}", facts.0, self.fanout_table(), self.backend_table())
    }

    fn fanout_table(&self) -> String {
        const ROWS_MAX: usize = 20;
        let mut table = Table::new(["fanout", "requests"]);
        for (fanout, &share) in self.fanout_shares.iter().enumerate().take(ROWS_MAX) {
            if share > 0.0 {
                table.row([fanout.to_string(), percent(share)]);
            }
        }
        let more: f64 = self.fanout_shares.iter().skip(ROWS_MAX).sum();
        if more > 0.0 {
            table.row(["more".to_owned(), percent(more)]);
        }
        table.render()
    }

    fn backend_table(&self) -> String {
        let mut table = Table::new([
            "backend",
            "queries",
            "share",
            "in requests",
            "batch mean",
            "keys",
            "objects",
            "mean size",
            "cacheable",
            "asked before",
        ]);
        for backend in &self.backends {
            table.row([
                backend.name.clone(),
                backend.queries.to_string(),
                percent(backend.query_share),
                percent(backend.request_share),
                format!("{:.2}", backend.batch_queries_mean),
                backend.distinct_keys.to_string(),
                Bytes(backend.distinct_bytes).to_string(),
                Bytes(backend.query_bytes_mean as u64).to_string(),
                percent(backend.cacheable_share),
                percent(backend.reuse_share),
            ]);
        }
        table.render()
    }
}
