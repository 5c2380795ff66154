//! What the RBC server answers: RBC over the window, and statistics per backend.

use robinhood_stats::{BackendName, Instant, Nanos};
use serde::{Deserialize, Serialize};

/// The answer of a [`Collector`](crate::Collector) at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When it was taken.
    pub at: Instant,
    /// When the newest requests ended that were ever reported, on the receiver's clock; `None` before the first.
    pub newest: Option<Instant>,
    /// Requests in the window, cancelled ones included.
    pub requests: u64,
    /// Requests in the window whose user left.
    pub cancelled: u64,
    /// Reports that senders refused in the window.
    pub rejected: u64,
    /// How far back the window over requests reaches.
    pub window: Nanos,
    /// Effective number of requests in the tail band: n, the confidence in RBC.
    pub requests_in_band: f64,
    /// All backends ever heard of, in order of name.
    pub backends: Vec<BackendSnapshot>,
    /// Requests of the band that waited for nothing but themselves. Shown, never granted.
    pub own_rbc: f64,
    /// Requests of the band that blocked nobody, or of which only the latency is known.
    pub nobody_rbc: f64,
    /// Median latency of the requests in the window; zero without requests. Exact to 3.2 %, like the next two.
    pub request_p50: Nanos,
    /// P90 of the requests in the window.
    pub request_p90: Nanos,
    /// P99 of the requests in the window.
    pub request_p99: Nanos,
    /// The time that the backends' counters cover.
    pub statistics_span: Nanos,
}

/// One backend in a [`Snapshot`]. Counters are over the statistics window, RBC over the window of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackendSnapshot {
    /// Its name; `other` holds all beyond the first 1,024.
    pub name: BackendName,
    /// Requests of the tail band that it blocked.
    pub rbc: f64,
    /// Queries.
    pub queries: u64,
    /// Queries that a cache answered.
    pub hits: u64,
    /// Queries that no cache answered.
    pub misses: u64,
    /// Misses that ended with an error.
    pub failures: u64,
    /// Misses that were given up.
    pub timeouts: u64,
    /// P99 of the latencies of batches with at least one miss, exact to 12.5 %; `None` without such batches.
    pub miss_batch_p99: Option<Nanos>,
}

impl Snapshot {
    /// Time since the newest reported request ended; `None` before the first.
    pub fn age(&self, now: Instant) -> Option<Nanos> {
        self.newest.map(|newest| now.since(newest))
    }

    /// A backend by name.
    pub fn backend(&self, name: &str) -> Option<&BackendSnapshot> {
        let place =
            self.backends.binary_search_by(|backend| backend.name.as_str().cmp(name)).ok()?;
        Some(&self.backends[place])
    }
}
