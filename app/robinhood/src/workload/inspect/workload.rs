//! The expected figures of a workload.

use robinhood_stats::{BackendId, Bytes};
use robinhood_workload::Workload;
use serde::Serialize;

use super::{Facts, percent};
use crate::table::Table;

/// What a workload's requests look like; the document of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    schema: &'static str,
    kind: &'static str,
    name: String,
    servers: u16,
    rate_per_s: f64,
    queries_per_request: f64,
    queries_per_s: f64,
    fanout_mean: f64,
    request_types: usize,
    cache_per_server_bytes: u64,
    catalogue_bytes: u64,
    warmup_s: f64,
    measured_s: f64,
    backends: Vec<Backend>,
}

#[derive(Debug, Serialize)]
struct Backend {
    name: String,
    query_share: f64,
    request_share: f64,
    batch_queries_mean: f64,
    catalogue_keys: u32,
    catalogue_bytes: u64,
    object_bytes_mean: f64,
    cacheable_share: f64,
}

impl Figures {
    pub(super) fn of(workload: &Workload) -> Self {
        let expected = workload.expected();
        let backend = |place: usize| {
            let (spec, expected_of) = (&workload.backends[place], &expected.backends[place]);
            Backend {
                name: spec.name.to_string(),
                query_share: expected_of.queries_per_request / expected.queries_per_request,
                request_share: expected_of.request_share,
                batch_queries_mean: expected_of.batch_queries_mean(),
                catalogue_keys: spec.catalogue,
                catalogue_bytes: workload.catalogue_bytes(BackendId(place as u16)).0,
                object_bytes_mean: spec.sizes.mean_bytes(),
                cacheable_share: spec.cacheable_share,
            }
        };
        let backends: Vec<Backend> = (0..workload.backends.len()).map(backend).collect();
        Self {
            schema: "robinhood.inspect/1",
            kind: "workload",
            name: workload.name.clone(),
            servers: workload.servers,
            rate_per_s: workload.rate().0,
            queries_per_request: expected.queries_per_request,
            queries_per_s: workload.rate().0 * expected.queries_per_request,
            fanout_mean: expected.fanout_mean,
            request_types: workload.request_types.len(),
            cache_per_server_bytes: workload.cache_per_server.0,
            catalogue_bytes: backends.iter().map(|backend| backend.catalogue_bytes).sum(),
            warmup_s: workload.length.warmup.as_secs_f64(),
            measured_s: workload.length.measured.as_secs_f64(),
            backends,
        }
    }

    /// The figures for people.
    pub(super) fn tables(&self) -> String {
        let mut facts = Facts::new(&format!("workload {}", self.name));
        facts.add("application servers", self.servers);
        facts.add("rate", format!("{:.1}/s", self.rate_per_s));
        facts.add(
            "queries",
            format!("{:.2} a request, {:.0}/s", self.queries_per_request, self.queries_per_s),
        );
        facts.add("mean fanout of a request", format!("{:.2}", self.fanout_mean));
        facts.add("request types", self.request_types);
        facts.add("cache of each server", Bytes(self.cache_per_server_bytes));
        facts.add("all catalogues", Bytes(self.catalogue_bytes));
        facts.add(
            "length",
            format!(
                "{:.0} s, of it {:.0} s warm-up",
                self.warmup_s + self.measured_s,
                self.warmup_s
            ),
        );
        let mut table = Table::new([
            "backend",
            "queries",
            "in requests",
            "batch mean",
            "keys",
            "catalogue",
            "mean size",
            "cacheable",
        ]);
        for backend in &self.backends {
            table.row([
                backend.name.clone(),
                percent(backend.query_share),
                percent(backend.request_share),
                format!("{:.2}", backend.batch_queries_mean),
                backend.catalogue_keys.to_string(),
                Bytes(backend.catalogue_bytes).to_string(),
                Bytes(backend.object_bytes_mean as u64).to_string(),
                percent(backend.cacheable_share),
            ]);
        }
        format!("{}\n{}", facts.0, table.render())
    }
}
