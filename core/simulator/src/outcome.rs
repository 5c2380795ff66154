//! What a run shows.
//!
//! Place in the flow: the end. Numbers cover the measured part unless they say otherwise.

use robinhood_controller::PolicyKind;
use robinhood_stats::{BackendName, Histogram, Nanos};
use serde::{Deserialize, Serialize};

use crate::source::SourceError;

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the workload.
    pub workload: String,
    /// The policy.
    pub policy: PolicyKind,
    /// The seed.
    pub seed: u64,
    /// Whether the run reached its end; if not, the numbers cover what there is.
    pub complete: bool,
    /// Why a recorded stream broke off, if it did; the run is then not complete.
    #[serde(skip)]
    pub source_error: Option<SourceError>,
    /// Share of observations in which the percentile of the objective (the P99 unless [`crate::Options::percentile`] says another) is above it, 0
    /// to 1.
    pub slo_violation_ratio: f64,
    /// The highest observation of that percentile, ms.
    pub tail_worst_ms: f64,
    /// Median of its observations, ms.
    pub tail_median_ms: f64,
    /// The highest P99 observation, ms.
    pub p99_worst_ms: f64,
    /// Mean of the P99 observations, ms.
    pub p99_mean_ms: f64,
    /// Median of the P99 observations, ms.
    pub p99_median_ms: f64,
    /// Share of P90 observations above the second objective, 0 to 1.
    pub p90_violation_ratio: f64,
    /// Share of P50 observations above the third objective, 0 to 1.
    pub p50_violation_ratio: f64,
    /// Mean over control periods of the largest backend's share of the RBC, 0 to 1.
    pub dominant_rbc_share_mean: f64,
    /// The largest share that any backend had of the RBC in any control period, 0 to 1.
    pub dominant_rbc_share_max: f64,
    /// Latencies of all requests that were answered in the measured part.
    pub latency: LatencyDistribution,
    /// Bytes granted by the controllers of all servers together, warm-up included.
    pub bytes_moved: u64,
    /// Requests that arrived in the whole run.
    pub requests: u64,
    /// Requests that were answered in the whole run. The others were waiting at its end.
    pub finished: u64,
    /// Queries that were answered or given up in the whole run.
    pub queries: u64,
    /// Queries that were given up in the whole run.
    pub timeouts: u64,
    /// Queries that waited for a fetch which another request had begun, in the whole run. 0 unless misses are coalesced.
    pub coalesced: u64,
    /// Objects that were larger than their partition's limit and not cached, in the whole run.
    pub refused: u64,
    /// By backend, in the order of the workload.
    pub backends: Vec<BackendOutcome>,
    /// The course of the run, for charts.
    pub series: Series,
}

/// The result for one backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackendOutcome {
    /// Its name.
    pub name: BackendName,
    /// Queries.
    pub queries: u64,
    /// Share of queries that the cache answered, 0 to 1.
    pub hit_ratio: f64,
    /// Share of time that its servers worked. Work counts when it arrives, so that more work than they can do gives more than 1.
    pub utilisation: f64,
    /// The same with batches that were cancelled counted whole: the work that was offered.
    pub utilisation_offered: f64,
    /// Servers of speed 1 that its work would have kept busy all the time at full capacity: what was asked of it, however fast it was.
    pub load: f64,
    /// Median over control periods of the P99 of its batches with a miss, ms, as the collector sees it; `None` without such batches.
    pub miss_p99_median_ms: Option<f64>,
    /// The highest of these, ms.
    pub miss_p99_worst_ms: Option<f64>,
    /// Mean share of the RBC over control periods, 0 to 1.
    pub rbc_share_mean: f64,
    /// Mean share of the cache over control periods, 0 to 1: of limits, or of use where the cache is shared.
    pub cache_share_mean: f64,
}

/// Percentiles of latencies, ms; 0 without requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyDistribution {
    /// Requests.
    pub requests: u64,
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 75th percentile.
    pub p75_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// 99.9th percentile.
    pub p99_9_ms: f64,
    /// 99.99th percentile.
    pub p99_99_ms: f64,
    /// Maximum.
    pub max_ms: f64,
}

/// Values over time. At most [`Series::POINTS_MAX`] points, fewer with very many backends: of longer runs every n-th is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Observations of the service level.
    pub latency: Vec<LatencyPoint>,
    /// States of the control loop.
    pub control: Vec<ControlPoint>,
}

/// One observation of the service level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyPoint {
    /// Seconds since the start of the measured part.
    pub at_s: f64,
    /// Median latency over the window, ms.
    pub p50_ms: f64,
    /// P90 over the window, ms.
    pub p90_ms: f64,
    /// P99 over the window, ms.
    pub p99_ms: f64,
    /// The percentile of the objective over the window, ms.
    pub tail_ms: f64,
}

/// One state of the control loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlPoint {
    /// Seconds since the start of the measured part.
    pub at_s: f64,
    /// Share of the cache by backend, mean over servers: of limits, or of use where the cache is shared.
    pub cache_share: Vec<f64>,
    /// Share of the RBC by backend.
    pub rbc_share: Vec<f64>,
    /// Share of the queries that the cache answered by backend, over the time of the service level's window; `None` without queries.
    pub hit_ratio: Vec<Option<f64>>,
    /// Servers of speed 1 at full capacity that the work of each backend would keep busy, over the same time.
    pub load: Vec<f64>,
    /// P99 of the batches with a miss by backend, ms, as the collector sees it; exact to 12.5 %, `None` without such batches.
    pub miss_p99_ms: Vec<Option<f64>>,
    /// Capacity of each backend at that moment, as a share of its full speed.
    pub capacity: Vec<f64>,
}

impl LatencyDistribution {
    pub(crate) fn of(latencies: &Histogram) -> Self {
        let ms = |quantile| latencies.quantile_nanos(quantile).as_millis_f64();
        Self {
            requests: latencies.count(),
            mean_ms: latencies.mean().unwrap_or(0.0) / 1e6,
            p50_ms: ms(0.50),
            p75_ms: ms(0.75),
            p90_ms: ms(0.90),
            p95_ms: ms(0.95),
            p99_ms: ms(0.99),
            p99_9_ms: ms(0.999),
            p99_99_ms: ms(0.9999),
            max_ms: Nanos(latencies.max().unwrap_or(0)).as_millis_f64(),
        }
    }
}

impl Outcome {
    /// Share of observations of the objective's percentile above another objective.
    pub fn violation_ratio(&self, objective: Nanos) -> f64 {
        share(&self.series.latency, |point| point.tail_ms > objective.as_millis_f64())
    }

    /// Median of the observations of the objective's percentile between two moments of the measured part; `None` when there are none.
    pub fn tail_median_between(&self, from_s: f64, to_s: f64) -> Option<Nanos> {
        let inside = |point: &&LatencyPoint| (from_s..to_s).contains(&point.at_s);
        let tails = self.series.latency.iter().filter(inside).map(|point| point.tail_ms);
        median(tails.collect()).map(|ms| Nanos::from_secs_f64(ms / 1e3))
    }
}

impl Series {
    /// The most points of each kind.
    pub const POINTS_MAX: usize = 20_000;
    /// The most points with one value for each backend, all backends together.
    const BACKEND_POINTS_MAX: usize = 2_000_000;

    /// The most states of the control loop for so many backends.
    pub(crate) fn control_points_max(backends: usize) -> usize {
        (Self::BACKEND_POINTS_MAX / backends.max(1)).clamp(2, Self::POINTS_MAX)
    }
}

/// The share of values for which `holds`; 0 of none.
pub(crate) fn share<T>(values: &[T], holds: impl Fn(&T) -> bool) -> f64 {
    ratio(values.iter().filter(|value| holds(value)).count() as f64, values.len() as f64)
}

/// A quotient; 0 when there is nothing to divide by.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The middle value, the upper one of two; `None` of none.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
