//! What an application shows of its loop: who makes its requests slow, and what the cache gives to whom.

use std::collections::BTreeMap;

use robinhood_blocking::Snapshot;
use robinhood_controller::{Mode, PartitionUsage};
use robinhood_stats::BackendName;
use serde::Serialize;

/// How a controller stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ControlView {
    /// Whether its decisions are carried out.
    pub mode: Mode,
    /// Why it is paused; `None` when it is not.
    pub paused: Option<String>,
}

/// RBC as of the last step, ready to be served as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RbcView {
    /// Requests in the window.
    pub requests: u64,
    /// Requests in the tail band, which may be a fraction: the confidence in the shares.
    pub requests_in_band: f64,
    /// P99 of the requests in the window, exact to 3.2 %.
    pub p99_ms: f64,
    /// Share of the known RBC that falls on time outside all queries, 0 to 1.
    pub own_share: f64,
    /// All backends that were ever reported.
    pub backends: BTreeMap<BackendName, BackendRbc>,
}

/// One backend of an [`RbcView`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BackendRbc {
    /// Requests of the tail band that it blocked.
    pub rbc: f64,
    /// Share of the known RBC, 0 to 1.
    pub share: f64,
    /// Queries, over the statistics window.
    pub queries: u64,
    /// Those that a cache answered.
    pub hits: u64,
    /// Bytes that its partition may hold; `None` when it has none here.
    pub limit_bytes: Option<u64>,
    /// Bytes that its partition holds; `None` when it has none here.
    pub used_bytes: Option<u64>,
}

impl RbcView {
    pub(crate) fn new(seen: &Snapshot, usage: &[PartitionUsage]) -> Self {
        let known = seen.own_rbc + seen.backends.iter().map(|backend| backend.rbc).sum::<f64>();
        let share = |rbc: f64| if known > 0.0 { rbc / known } else { 0.0 };
        let backends = seen.backends.iter().map(|backend| {
            let cached = usage.iter().find(|partition| partition.name == backend.name);
            let of = BackendRbc {
                rbc: backend.rbc,
                share: share(backend.rbc),
                queries: backend.queries,
                hits: backend.hits,
                limit_bytes: cached.map(|cached| cached.limit.0),
                used_bytes: cached.map(|cached| cached.used.0),
            };
            (backend.name.clone(), of)
        });
        Self {
            requests: seen.requests,
            requests_in_band: seen.requests_in_band,
            p99_ms: seen.request_p99.as_millis_f64(),
            own_share: share(seen.own_rbc),
            backends: backends.collect(),
        }
    }
}
