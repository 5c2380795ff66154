//! What can be seen of a running stack.

use robinhood_cache::PartitionId;
use robinhood_control::{BackendTotals, ControlView};
use robinhood_controller::Decision;
use robinhood_load_tester::Counts;
use robinhood_stats::{BackendId, BackendName, Bytes, Instant, Nanos};
use serde::Serialize;

use super::{QueryCounts, SloPoint, Stack};
use crate::backend::BackendStatistics;
use crate::experiment::Doubt;

/// A stack at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct StackView {
    /// Its name.
    pub name: String,
    /// Its policy.
    pub policy: &'static str,
    /// How its controller stands; `None` without one.
    pub control: Option<ControlView>,
    /// The moment.
    pub at: Instant,
    /// Percentiles of all windows so far, oldest first.
    pub slo: Vec<SloPoint>,
    /// Where all requests went.
    pub requests: Counts,
    /// Where all queries went.
    pub queries: QueryCounts,
    /// All backends, in the order of the workload.
    pub backends: Vec<BackendView>,
    /// Share of the RBC that falls on time outside all queries.
    pub own_rbc_share: f64,
    /// Requests in the tail band: the confidence of the RBC.
    pub requests_in_band: f64,
    /// Bytes that the controller has moved from some partitions to others.
    pub bytes_moved: Bytes,
    /// Bytes that it would have moved, in advise mode.
    pub bytes_advised: Bytes,
    /// The newest decision records, oldest first; empty without a controller.
    pub decisions: Vec<Decision>,
}

/// One backend of a stack at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct BackendView {
    /// Its name.
    pub name: BackendName,
    /// Share of its full capacity that it has now.
    pub capacity: f64,
    /// Share of the known RBC.
    pub rbc_share: f64,
    /// Bytes that its partition may hold; in a shared cache those of the whole cache.
    pub limit: Bytes,
    /// Bytes that the cache holds for it; `None` when nobody can say: several share a cache outside of this process.
    pub used: Option<Bytes>,
    /// Share of queries that the cache answered lately; `None` without queries.
    pub hit_ratio: Option<f64>,
    /// Counts since the start.
    pub totals: BackendTotals,
    /// Queries that the application has sent and that have not ended.
    pub in_flight: u64,
    /// How long the oldest of these has lasted.
    pub oldest: Option<Nanos>,
    /// Queue and servers.
    pub servers: BackendStatistics,
}

impl StackView {
    /// The backends that real work has made slow, and not their limits: the machine was the bottleneck.
    pub fn doubts(&self) -> Vec<Doubt> {
        let doubt = |backend: &BackendView| {
            let seen = &backend.servers;
            Doubt::over_limit(&self.name, &backend.name, seen.over_limit, seen.batches())
        };
        self.backends.iter().filter_map(doubt).collect()
    }
}

pub(super) fn of(stack: &Stack) -> StackView {
    let now = stack.clock.now();
    let snapshot = stack.control.snapshot();
    let known: f64 =
        snapshot.backends.iter().map(|backend| backend.rbc).sum::<f64>() + snapshot.own_rbc;
    let share = |rbc: f64| if known > 0.0 { rbc / known } else { 0.0 };
    let client = stack.application.client();
    let mut gauges = client.gauges().into_iter();
    let usage = stack.control.usage();
    let mut totals = stack.control.totals().into_iter();
    let backend = |id: BackendId| {
        let gauge = gauges.next().expect("a gauge for each backend");
        let cached = match client.store() {
            Some(store) => {
                let seen = store.statistics(PartitionId(id.0));
                Some((seen.limit, seen.used))
            }
            None => usage.get(id.index()).map(|seen| (seen.limit, seen.used)),
        };
        let seen = snapshot.backend(gauge.name.as_str());
        let recent = seen.map(|seen| (seen.hits, seen.queries)).filter(|&(_, queries)| queries > 0);
        BackendView {
            capacity: stack.dataset.limit(id, stack.slowdown).capacity(now),
            rbc_share: share(seen.map_or(0.0, |seen| seen.rbc)),
            limit: cached.map_or(stack.config.budget, |(limit, _)| limit),
            used: cached.map(|(_, used)| used),
            hit_ratio: recent.map(|(hits, queries)| hits as f64 / queries as f64),
            totals: totals.next().expect("totals for each backend"),
            in_flight: gauge.in_flight,
            oldest: gauge.oldest_age,
            servers: stack.application.backends()[id.index()].statistics(),
            name: gauge.name,
        }
    };
    let moves = stack.control.moves();
    StackView {
        name: stack.config.name.clone(),
        policy: stack.config.kind.policy().as_str(),
        control: stack.control.view(),
        at: now,
        slo: stack.service_level.points(now),
        backends: stack.dataset.ids().map(backend).collect(),
        own_rbc_share: share(snapshot.own_rbc),
        requests_in_band: snapshot.requests_in_band,
        bytes_moved: moves.active,
        bytes_advised: moves.advised,
        decisions: stack.control.decisions(),
        queries: stack.application.query_counts(),
        requests: stack.recorder.summary(now).counts,
    }
}
