//! What Prometheus scrapes: `GET /metrics` of an aggregator. Labels are services, of which there are few, reasons, and backends, of which a
//! service has at most 1,025.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::refusals::Reason;
use crate::services::Services;
use crate::views::RbcView;

/// The figures, ready to be scraped.
#[derive(Clone, Debug)]
pub(crate) struct Metrics(Arc<Registry>);

#[derive(Debug)]
struct OfServices {
    services: Arc<Services>,
    connections: Arc<AtomicUsize>,
}

impl Metrics {
    /// `connections`: those of senders that are open.
    pub(crate) fn new(services: Arc<Services>, connections: Arc<AtomicUsize>) -> Self {
        let mut registry = Registry::with_prefix("robinhood_aggregator");
        registry.register_collector(Box::new(OfServices { services, connections }));
        Self(Arc::new(registry))
    }

    /// `GET /metrics`.
    pub(crate) async fn scrape(State(metrics): State<Self>) -> impl IntoResponse {
        let mut page = String::new();
        text::encode(&mut page, &metrics.0).expect("text can always be written");
        ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], page)
    }
}

impl Collector for OfServices {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let connections = ConstGauge::new(self.connections.load(Relaxed) as f64);
        let kind = connections.metric_type();
        connections.encode(to.encode_descriptor(
            "connections",
            "Connections of senders that are open.",
            None,
            kind,
        )?)?;
        let help = "Deltas and connections that were refused, by reason.";
        let mut family = to.encode_descriptor("refused", help, None, MetricType::Counter)?;
        for reason in Reason::ALL {
            let count = ConstCounter::new(self.services.refusals().of(reason));
            count.encode(family.encode_family(&[("reason", reason.as_str())])?)?;
        }
        let all = self
            .services
            .ask_all(|service, now| (service.view(now), service.rbc(now), service.names_over()));
        type Count = fn(&(crate::views::ServiceView, RbcView, u64)) -> u64;
        let counts: [(&str, &str, Count); 2] = [
            ("deltas", "Deltas that were counted.", |one| one.0.deltas),
            ("names_over", "Names of backends without a place, counted as `other`.", |one| one.2),
        ];
        for (name, help, count) in counts {
            let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
            for one in &all {
                let label = [("service", one.0.service.as_str())];
                ConstCounter::new(count(one)).encode(family.encode_family(&label)?)?;
            }
        }
        let rbc: Vec<RbcView> = all.into_iter().map(|one| one.1).collect();
        gauges(&mut to, &rbc)?;
        let help = "Share of the blocked requests of the tail band, by who blocked them.";
        let mut family = to.encode_descriptor("rbc_share", help, None, MetricType::Gauge)?;
        for service in &rbc {
            for (name, backend) in &service.backends {
                let label = [("service", service.service.as_str()), ("backend", name.as_str())];
                ConstGauge::new(backend.share).encode(family.encode_family(&label)?)?;
            }
        }
        Ok(())
    }
}

/// One gauge a service for each of its figures.
fn gauges(to: &mut DescriptorEncoder<'_>, services: &[RbcView]) -> fmt::Result {
    type Figure = fn(&RbcView) -> Option<f64>;
    let figures: [(&str, &str, Option<Unit>, Figure); 5] = [
        ("senders", "Senders, and starts of them, that are remembered.", None, |one| {
            Some(one.senders as f64)
        }),
        ("window_requests", "Requests in the window of the RBC.", None, |one| {
            Some(one.requests as f64)
        }),
        ("band_requests", "Requests in the tail band: what the RBC rests on.", None, |one| {
            Some(one.requests_in_band)
        }),
        ("request_p99", "P99 of the requests in the window.", Some(Unit::Seconds), |one| {
            Some(one.p99_ms / 1e3)
        }),
        ("input_age", "Age of the newest report.", Some(Unit::Seconds), |one| one.input_age_s),
    ];
    for (name, help, unit, figure) in figures {
        let mut family = to.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        for service in services {
            let Some(value) = figure(service) else { continue };
            let label = [("service", service.service.as_str())];
            ConstGauge::new(value).encode(family.encode_family(&label)?)?;
        }
    }
    Ok(())
}
