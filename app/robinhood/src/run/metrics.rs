//! What Prometheus scrapes: `GET /metrics` of `robinhood run`.
//!
//! Place in the flow: read from the control loop at each scrape; nothing is counted twice. Labels are names of partitions alone, which are
//! as many as the file says.

use std::fmt;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use robinhood_control::ControlLoop;
use robinhood_controller::PartitionUsage;

/// The figures of a loop, ready to be scraped.
#[derive(Clone)]
pub(crate) struct Metrics(Arc<Registry>);

struct OfLoop(Arc<ControlLoop>);

impl Metrics {
    pub(crate) fn new(control: Arc<ControlLoop>) -> Self {
        let mut registry = Registry::with_prefix("robinhood");
        registry.register_collector(Box::new(OfLoop(control)));
        Self(Arc::new(registry))
    }

    /// `GET /metrics`.
    pub(crate) async fn scrape(State(metrics): State<Self>) -> impl IntoResponse {
        let mut page = String::new();
        text::encode(&mut page, &metrics.0).expect("text can always be written");
        ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], page)
    }
}

impl fmt::Debug for OfLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OfLoop")
    }
}

impl Collector for OfLoop {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let control = &self.0;
        let build = [("version", env!("CARGO_PKG_VERSION"))];
        gauges(&mut to, "build_info", "The version that runs.", None, &[(&build, 1.0)])?;
        let (snapshot, rbc) = (control.snapshot(), control.rbc());
        let requests = snapshot.requests as f64;
        gauge(&mut to, "window_requests", "Requests in the window of the RBC.", None, requests)?;
        let help = "Requests in the tail band: what the RBC rests on.";
        gauge(&mut to, "band_requests", help, None, rbc.requests_in_band)?;
        let help = "P99 of the requests in the window.";
        let seconds = Some(&Unit::Seconds);
        gauge(&mut to, "request_p99", help, seconds, rbc.p99_ms / 1e3)?;
        if let Some(age) = snapshot.age(snapshot.at) {
            let help = "Age of the newest report.";
            gauge(&mut to, "input_age", help, Some(&Unit::Seconds), age.as_secs_f64())?;
        }
        let of_backend: Vec<_> =
            rbc.backends.iter().map(|(name, seen)| (name.to_string(), seen.share)).collect();
        let help = "Share of the blocked requests of the tail band, by who blocked them.";
        by_backend(&mut to, "rbc_share", help, None, &of_backend)?;
        self.encode_cache(&mut to)?;
        self.encode_controller(&mut to)
    }
}

impl OfLoop {
    fn encode_cache(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let usage = self.0.usage();
        let bytes = |of: fn(&PartitionUsage) -> u64| -> Vec<(String, f64)> {
            usage.iter().map(|held| (held.name.to_string(), of(held) as f64)).collect()
        };
        let limits = bytes(|held| held.limit.0);
        let help = "What a partition may hold.";
        by_backend(to, "allocation", help, Some(&Unit::Bytes), &limits)?;
        let used = bytes(|held| held.used.0);
        by_backend(to, "used", "What a partition holds.", Some(&Unit::Bytes), &used)?;
        let totals = self.0.totals();
        let counts = [
            ("queries", "Queries that were reported.", 0),
            ("hits", "Queries that a cache answered, as reported.", 1),
        ];
        for (name, help, which) in counts {
            let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (held, total) in usage.iter().zip(&totals) {
                let count = [total.queries, total.hits][which];
                let label = [("backend", held.name.as_str())];
                ConstCounter::new(count).encode(family.encode_family(&label)?)?;
            }
        }
        Ok(())
    }

    fn encode_controller(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let moves = self.0.moves();
        for (name, help, bytes) in [
            ("moved", "Bytes that decisions moved between partitions.", moves.active.0),
            ("advised", "Bytes that decisions would have moved.", moves.advised.0),
        ] {
            let counter = ConstCounter::new(bytes);
            let unit = Some(&Unit::Bytes);
            counter.encode(to.encode_descriptor(name, help, unit, counter.metric_type())?)?;
        }
        let Some(view) = self.0.view() else { return Ok(()) };
        let mode = view.mode.to_string();
        let mode = [("mode", mode.as_str())];
        let help = "1 for the mode in which the controller is: advise or active.";
        gauges(to, "controller_mode", help, None, &[(&mode, 1.0)])?;
        let paused = f64::from(u8::from(view.paused.is_some()));
        gauge(to, "controller_paused", "1 while somebody has paused it.", None, paused)
    }
}

type Label<'a> = [(&'a str, &'a str); 1];

fn gauge(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    value: f64,
) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(to.encode_descriptor(name, help, unit, gauge.metric_type())?)
}

fn gauges(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    values: &[(&Label<'_>, f64)],
) -> fmt::Result {
    let kind = ConstGauge::new(0.0).metric_type();
    let mut family = to.encode_descriptor(name, help, unit, kind)?;
    for (label, value) in values {
        ConstGauge::new(*value).encode(family.encode_family(*label)?)?;
    }
    Ok(())
}

fn by_backend(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    values: &[(String, f64)],
) -> fmt::Result {
    let labels: Vec<(Label<'_>, f64)> =
        values.iter().map(|(backend, value)| ([("backend", backend.as_str())], *value)).collect();
    let labelled: Vec<(&Label<'_>, f64)> =
        labels.iter().map(|(label, value)| (label, *value)).collect();
    gauges(to, name, help, unit, &labelled)
}
