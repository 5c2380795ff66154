//! What a policy may know at one moment: RBC, the use of the cache, the state of the traffic.
//!
//! Place in the flow: the collector's snapshot (pooled over all application servers) joined with what the local cache
//! reports about its partitions.

use std::sync::Arc;

use robinhood_blocking::{BackendSnapshot, Snapshot};
use robinhood_stats::{BackendName, Bytes, Instant, Nanos, Rate};
use serde::{Deserialize, Serialize};

use crate::curve::MissRatioCurve;

/// One partition and the backend behind it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackendObservation {
    /// The backend.
    pub name: BackendName,
    /// The limit that the local cache holds the partition to now. It differs from the target while a resize is
    /// unfinished.
    pub limit: Bytes,
    /// Bytes that the partition holds in the local cache.
    pub used: Bytes,
    /// Queries in the statistics span, over all application servers.
    pub queries: u64,
    /// Those that the cache answered.
    pub hits: u64,
    /// Those that the backend had to answer.
    pub misses: u64,
    /// Request blocking count: requests of the tail band that this backend blocked. Real, because the band cuts
    /// buckets.
    pub rbc: f64,
    /// P99 of the batches with at least one miss, if there were any.
    pub miss_batch_p99: Option<Nanos>,
    /// The share of queries that one more byte would turn into hits, if somebody measures it.
    #[serde(default)]
    pub hit_slope_per_byte: Option<f64>,
    /// The share of queries that would miss at every limit, if somebody measures it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub miss_ratio_curve: Option<Arc<MissRatioCurve>>,
}

/// The input of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// When it was put together.
    pub at: Instant,
    /// Bytes of the local cache.
    pub budget: Bytes,
    /// One entry for each partition, sorted by name.
    pub backends: Vec<BackendObservation>,
    /// Tail-band requests that time outside all queries blocked; never granted.
    pub own_rbc: f64,
    /// Tail-band requests blocked by backends that have no partition in this cache; never granted.
    pub unpartitioned_rbc: f64,
    /// Effective number of requests in the tail band: the confidence of every RBC.
    pub requests_in_band: f64,
    /// Age of the newest report; `None` before the first one.
    pub age: Option<Nanos>,
    /// Finished requests in the window of the collector.
    pub requests: u64,
    /// The time that the counts of queries, hits and misses cover.
    pub statistics_span: Nanos,
    /// Median request latency.
    pub request_p50: Nanos,
    /// 90th percentile of request latency.
    pub request_p90: Nanos,
    /// 99th percentile of request latency.
    pub request_p99: Nanos,
}

/// What makes a snapshot unfit for any decision, if anything: numbers that no requests can lead to, or backends out of
/// order, which would be taken for others.
pub(crate) fn flaw(snapshot: &Snapshot) -> Option<String> {
    let rbc = snapshot.backends.iter().map(|backend| (backend.name.as_str(), backend.rbc));
    let counts = rbc.clone().chain([
        ("own RBC", snapshot.own_rbc),
        ("requests in the band", snapshot.requests_in_band),
    ]);
    let is_count = |count: f64| count.is_finite() && count >= 0.0;
    if let Some((what, count)) = counts.clone().find(|&(_, count)| !is_count(count)) {
        return Some(format!("`{what}` has {count}, which is no count"));
    }
    if !counts.map(|(_, count)| count).sum::<f64>().is_finite() {
        return Some("its RBCs have no finite sum".to_owned());
    }
    let mut pairs = snapshot.backends.windows(2);
    let pair = pairs.find(|pair| pair[0].name >= pair[1].name)?;
    Some(format!("`{}` comes before `{}`: backends go by name", pair[0].name, pair[1].name))
}

impl BackendObservation {
    /// A partition about which no application server said anything.
    pub(crate) fn silent(name: &BackendName, limit: Bytes, used: Bytes) -> Self {
        Self {
            name: name.clone(),
            limit,
            used,
            queries: 0,
            hits: 0,
            misses: 0,
            rbc: 0.0,
            miss_batch_p99: None,
            hit_slope_per_byte: None,
            miss_ratio_curve: None,
        }
    }

    /// The share of queries that the cache answered, 0 to 1; `None` without queries.
    pub fn hit_ratio(&self) -> Option<f64> {
        (self.queries > 0).then(|| self.hits as f64 / self.queries as f64)
    }

    /// Fills in what the application servers said.
    pub(crate) fn fill(&mut self, pooled: &BackendSnapshot) {
        (self.queries, self.hits, self.misses) = (pooled.queries, pooled.hits, pooled.misses);
        (self.rbc, self.miss_batch_p99) = (pooled.rbc, pooled.miss_batch_p99);
    }
}

impl Observation {
    /// Joins what the local cache holds (sorted by name) with what all application servers said.
    pub(crate) fn join(
        at: Instant,
        budget: Bytes,
        mut backends: Vec<BackendObservation>,
        snapshot: &Snapshot,
    ) -> Self {
        let mut unpartitioned_rbc = 0.0;
        let mut next = 0;
        for pooled in &snapshot.backends {
            while next < backends.len() && backends[next].name < pooled.name {
                next += 1;
            }
            match backends.get_mut(next).filter(|backend| backend.name == pooled.name) {
                Some(backend) => backend.fill(pooled),
                None => unpartitioned_rbc += pooled.rbc,
            }
        }
        Self {
            at,
            budget,
            backends,
            own_rbc: snapshot.own_rbc,
            unpartitioned_rbc,
            requests_in_band: snapshot.requests_in_band,
            age: snapshot.age(at),
            requests: snapshot.requests,
            statistics_span: snapshot.statistics_span,
            request_p50: snapshot.request_p50,
            request_p90: snapshot.request_p90,
            request_p99: snapshot.request_p99,
        }
    }

    /// Misses per second of one backend, over all application servers; `None` while no time is covered.
    pub fn misses_per_s(&self, index: usize) -> Option<Rate> {
        let seconds = self.statistics_span.as_secs_f64();
        (seconds > 0.0).then(|| Rate(self.backends[index].misses as f64 / seconds))
    }

    /// The position of a backend in [`Observation::backends`].
    pub fn position(&self, name: &BackendName) -> Option<usize> {
        self.backends.binary_search_by(|backend| backend.name.cmp(name)).ok()
    }
}
