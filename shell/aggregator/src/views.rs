//! What is said and heard over HTTP, as JSON. Keys stay; more may come.

use std::collections::BTreeMap;

use robinhood_blocking::{Delta, ServiceName, Snapshot};
use robinhood_stats::{BackendName, Nanos};
use serde::{Deserialize, Serialize};

/// The schema of [`DeltasPost`].
pub(crate) const DELTA_SCHEMA: &str = "robinhood.delta/1";
/// The schema of [`SnapshotView`].
pub(crate) const SNAPSHOT_SCHEMA: &str = "robinhood.snapshot/1";

/// What `POST /v1/deltas` takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeltasPost {
    /// `robinhood.delta/1`.
    pub schema: String,
    /// What one sender or several counted.
    pub deltas: Vec<Delta>,
}

impl DeltasPost {
    /// A post with these deltas.
    pub fn new(deltas: Vec<Delta>) -> Self {
        Self { schema: DELTA_SCHEMA.to_owned(), deltas }
    }
}

/// What it answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltasReceipt {
    /// Deltas that were counted.
    pub accepted: u64,
    /// Deltas of which nothing was counted.
    pub refused: u64,
    /// The first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_refused: Option<RefusedDelta>,
}

/// A delta of which nothing was counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedDelta {
    /// Its place in the post, from 1; 0 for the whole body.
    pub delta: usize,
    /// Why, as a word that the metrics have too.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

/// What `GET /v1/services` answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServicesView {
    /// `robinhood.services/1`.
    pub schema: String,
    /// In order of name.
    pub services: Vec<ServiceView>,
}

/// One service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceView {
    /// Its name.
    pub service: ServiceName,
    /// Senders, and starts of them, that are remembered.
    pub senders: usize,
    /// Deltas that were counted since the start of the aggregator.
    pub deltas: u64,
    /// Requests in the window.
    pub requests: u64,
    /// Seconds since the newest requests ended.
    pub input_age_s: Option<f64>,
}

/// What `GET /v1/snapshot` answers: all that a controller needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SnapshotView {
    /// `robinhood.snapshot/1`.
    pub schema: String,
    /// Whose requests.
    pub service: ServiceName,
    /// How long ago the snapshot was taken. Its moments are on the clock of the aggregator, of which only differences mean anything.
    pub age_ns: Nanos,
    /// The snapshot.
    pub snapshot: Snapshot,
}

/// What `GET /v1/rbc` answers, for people and programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RbcView {
    /// `robinhood.rbc/1`.
    pub schema: String,
    /// Whose requests.
    pub service: ServiceName,
    /// Senders, and starts of them, that are remembered.
    pub senders: usize,
    /// Requests in the window.
    pub requests: u64,
    /// Requests in the tail band, which may be a fraction: the confidence in the shares. Controllers move less below 30, nothing below 5.
    pub requests_in_band: f64,
    /// How far back the window reaches.
    pub window_s: f64,
    /// Seconds since the newest requests ended.
    pub input_age_s: Option<f64>,
    /// Median of the requests in the window, exact to 3.2 %, like the next two.
    pub p50_ms: f64,
    /// P90.
    pub p90_ms: f64,
    /// P99.
    pub p99_ms: f64,
    /// Share of the known RBC that falls on time outside all queries, 0 to 1.
    pub own_share: f64,
    /// Requests of the band of which only the latency is known, or that had no queries.
    pub nobody_rbc: f64,
    /// All backends that were ever reported.
    pub backends: BTreeMap<BackendName, BackendRbc>,
}

/// One backend of an [`RbcView`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackendRbc {
    /// Requests of the tail band that it blocked.
    pub rbc: f64,
    /// Share of the known RBC, 0 to 1.
    pub share: f64,
    /// Queries, over the statistics window of 12 periods.
    pub queries: u64,
    /// Queries that a cache answered.
    pub hits: u64,
    /// Misses that ended with an error.
    pub failures: u64,
    /// Misses that were given up.
    pub timeouts: u64,
    /// P99 of batches with a miss.
    pub miss_batch_p99_ms: Option<f64>,
}

/// What `GET /v1/scale` answers: how much each backend should grow, for autoscalers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleView {
    /// `robinhood.scale/1`.
    pub schema: String,
    /// Whose requests.
    pub service: ServiceName,
    /// What the P99 should stay below.
    pub objective_ms: f64,
    /// What it is.
    pub p99_ms: f64,
    /// By how much the P99 exceeds the objective, relative to it; 0 when it does not.
    pub excess: f64,
    /// Whether the numbers mean anything: at least 30 requests in the band, the newest at most 3 periods old. Otherwise all values are 0.
    pub confident: bool,
    /// RBC share times excess, by backend: above 0 for those that make requests miss the objective.
    pub backends: BTreeMap<BackendName, f64>,
}

/// What `GET /v1/daily` answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DailyView {
    /// `robinhood.daily/1`.
    pub schema: String,
    /// Whose requests.
    pub service: ServiceName,
    /// Hours since the aggregator's start, at most 24, oldest first.
    pub hours: Vec<HourView>,
    /// All of them together.
    pub day: HourView,
}

/// Who blocked requests in an hour, or a day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HourView {
    /// When it began, in seconds since 1970, UTC.
    pub start_unix_s: u64,
    /// Snapshots that were added up, one a minute.
    pub samples: u64,
    /// Requests in the tail band, on average over them.
    pub requests_in_band_mean: f64,
    /// Share of the RBC that falls on time outside all queries, 0 to 1.
    pub own_share: f64,
    /// Share of each backend that blocked any, 0 to 1.
    pub shares: BTreeMap<BackendName, f64>,
}
