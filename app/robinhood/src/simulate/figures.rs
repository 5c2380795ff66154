//! The figures of runs, and their medians over seeds.
//!
//! Keys that scripts rely on are here, each with what it reads; `docs/simulate.md` says what they mean.

use robinhood_controller::PolicyKind;
use robinhood_simulator::LoadGrowth;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::Run;

/// A figure of one run, or a median.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
enum Value {
    /// NaN, which becomes null, where there is none.
    Real(f64),
    Whole(u64),
}

/// A key and what it reads.
type Reading = (&'static str, fn(&Run) -> Value);

const FIGURES: &[Reading] = &[
    ("slo_violation_ratio", |run| Value::Real(observed(run, run.outcome.slo_violation_ratio))),
    ("tail_worst_ms", |run| Value::Real(observed(run, run.outcome.tail_worst_ms))),
    ("tail_median_ms", |run| Value::Real(observed(run, run.outcome.tail_median_ms))),
    ("p99_worst_ms", |run| Value::Real(observed(run, run.outcome.p99_worst_ms))),
    ("p99_mean_ms", |run| Value::Real(observed(run, run.outcome.p99_mean_ms))),
    ("p99_median_ms", |run| Value::Real(observed(run, run.outcome.p99_median_ms))),
    ("p90_violation_ratio", |run| Value::Real(observed(run, run.outcome.p90_violation_ratio))),
    ("p50_violation_ratio", |run| Value::Real(observed(run, run.outcome.p50_violation_ratio))),
    ("dominant_rbc_share_mean", |run| {
        Value::Real(controlled(run, run.outcome.dominant_rbc_share_mean))
    }),
    ("dominant_rbc_share_max", |run| {
        Value::Real(controlled(run, run.outcome.dominant_rbc_share_max))
    }),
    ("load_growth_mean", |run| Value::Real(largest(run, |growth| growth.mean))),
    ("load_growth_max", |run| Value::Real(largest(run, |growth| growth.max))),
    ("bytes_moved", |run| Value::Whole(run.outcome.bytes_moved)),
    ("requests", |run| Value::Whole(run.outcome.requests)),
    ("queries", |run| Value::Whole(run.outcome.queries)),
    ("timeouts", |run| Value::Whole(run.outcome.timeouts)),
    ("coalesced", |run| Value::Whole(run.outcome.coalesced)),
];

/// Below `latency_ms`.
const LATENCIES: &[Reading] = &[
    ("mean", |run| Value::Real(run.outcome.latency.mean_ms)),
    ("p50", |run| Value::Real(run.outcome.latency.p50_ms)),
    ("p75", |run| Value::Real(run.outcome.latency.p75_ms)),
    ("p90", |run| Value::Real(run.outcome.latency.p90_ms)),
    ("p95", |run| Value::Real(run.outcome.latency.p95_ms)),
    ("p99", |run| Value::Real(run.outcome.latency.p99_ms)),
    ("p99_9", |run| Value::Real(run.outcome.latency.p99_9_ms)),
    ("p99_99", |run| Value::Real(run.outcome.latency.p99_99_ms)),
    ("max", |run| Value::Real(run.outcome.latency.max_ms)),
];

/// The figures of one run, or their medians over the seeds, figure by figure.
pub(super) struct Figures {
    figures: Entries,
    latencies: Entries,
}

/// Keys with values, in order.
struct Entries(Vec<(&'static str, Value)>);

impl Figures {
    /// # Panics
    /// When there are no runs.
    pub(super) fn medians(runs: &[&Run]) -> Self {
        let medians = |readings: &[Reading]| {
            let median =
                |&(key, of): &Reading| (key, middle(runs.iter().map(|run| of(run)).collect()));
            Entries(readings.iter().map(median).collect())
        };
        Self { figures: medians(FIGURES), latencies: medians(LATENCIES) }
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.figures.0.len() + 1))?;
        for (key, value) in &self.figures.0 {
            map.serialize_entry(key, value)?;
        }
        map.serialize_entry("latency_ms", &self.latencies)?;
        map.end()
    }
}

impl Serialize for Entries {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

/// The runs that speak for a policy: those that reached their end, or all if none did.
pub(super) fn of_policy(runs: &[Run], policy: PolicyKind) -> Vec<&Run> {
    let all = || runs.iter().filter(|run| run.policy == policy);
    let complete: Vec<&Run> = all().filter(|run| run.outcome.complete).collect();
    if complete.is_empty() { all().collect() } else { complete }
}

/// The median of a figure over runs; the upper one of two.
///
/// # Panics
/// When there are no runs.
pub(super) fn median(runs: &[&Run], of: impl Fn(&Run) -> f64) -> f64 {
    match middle(runs.iter().map(|run| Value::Real(of(run))).collect()) {
        Value::Real(median) => median,
        Value::Whole(_) => unreachable!("the median of real numbers is one of them"),
    }
}

fn middle(mut values: Vec<Value>) -> Value {
    values.sort_by(|a, b| match (a, b) {
        (Value::Real(a), Value::Real(b)) => a.total_cmp(b),
        (Value::Whole(a), Value::Whole(b)) => a.cmp(b),
        _ => unreachable!("a figure is of one kind in all runs"),
    });
    values[values.len() / 2]
}

/// A figure of the observations of the service level; NaN when the run was too short for one.
pub(super) fn observed(run: &Run, figure: f64) -> f64 {
    if run.outcome.series.latency.is_empty() { f64::NAN } else { figure }
}

/// A figure of the control periods; NaN when the run was too short for one.
pub(super) fn controlled(run: &Run, figure: f64) -> f64 {
    if run.outcome.series.control.is_empty() { f64::NAN } else { figure }
}

/// The largest growth of any backend; NaN when there is nothing to compare with.
fn largest(run: &Run, of: fn(&LoadGrowth) -> Option<f64>) -> f64 {
    run.growth.iter().filter_map(of).fold(f64::NAN, f64::max)
}
