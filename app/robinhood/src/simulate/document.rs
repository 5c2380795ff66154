//! What a simulation says to programs: the JSON document.

use std::collections::BTreeMap;
use std::fmt;

use robinhood_controller::PolicyKind;
use robinhood_simulator::{BackendOutcome, Outcome};
use robinhood_stats::Nanos;
use serde::Serialize;

use super::Run;
use super::plan::Plan;

/// The JSON document; keys of [`Figures`] are stable.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    schema: &'static str,
    workload: &'a str,
    seed: u64,
    scale: String,
    time_scale: f64,
    percentile: f64,
    warmup_seconds: f64,
    measured_seconds: f64,
    cache_bytes_per_server: u64,
    complete: bool,
    policies: BTreeMap<&'static str, Figures>,
    runs: Vec<RunDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timing: Option<Timing>,
}

#[derive(Serialize)]
struct RunDocument<'a> {
    seed: u64,
    policy: &'static str,
    objective_ms: Option<f64>,
    #[serde(flatten)]
    figures: Figures,
    backends: &'a [BackendOutcome],
}

/// The figures of one run, or medians over seeds.
#[derive(Clone, Serialize)]
pub(super) struct Figures {
    pub(super) slo_violation_ratio: f64,
    tail_worst_ms: f64,
    tail_median_ms: f64,
    pub(super) p99_worst_ms: f64,
    p99_mean_ms: f64,
    pub(super) p99_median_ms: f64,
    pub(super) p90_violation_ratio: f64,
    pub(super) p50_violation_ratio: f64,
    pub(super) dominant_rbc_share_mean: f64,
    pub(super) bytes_moved: u64,
    requests: u64,
    queries: u64,
}

/// How long it took: the only part that differs between equal runs.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Timing {
    wall_seconds: f64,
    queries_per_second: f64,
}

impl Timing {
    /// `wall_seconds` for all runs; the rate is per core: queries over the sum of the runs' own times.
    pub(super) fn new(wall_seconds: f64, runs: &[Run]) -> Self {
        let queries: u64 = runs.iter().map(|run| run.outcome.queries).sum();
        let busy: f64 = runs.iter().map(|run| run.wall_seconds).sum();
        Self { wall_seconds, queries_per_second: queries as f64 / busy }
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} s, {:.1} M queries/s on one core",
            self.wall_seconds,
            self.queries_per_second / 1e6
        )
    }
}

impl<'a> Document<'a> {
    pub(super) fn new(plan: &'a Plan, runs: &'a [Run], timing: Option<Timing>) -> Self {
        let medians = |&policy: &PolicyKind| Some((policy.as_str(), median_figures(runs, policy)?));
        Self {
            schema: "robinhood.simulate/1",
            workload: &plan.workload.name,
            seed: plan.seeds[0],
            scale: plan.scale.to_string(),
            time_scale: plan.options.time_scale,
            percentile: plan.options.percentile,
            warmup_seconds: plan.workload.length.warmup.as_secs_f64(),
            measured_seconds: plan.workload.length.measured.as_secs_f64(),
            cache_bytes_per_server: plan.workload.cache_per_server.0,
            complete: runs.len() == plan.seeds.len() * plan.policies.len()
                && runs.iter().all(|run| run.outcome.complete),
            policies: plan.policies.iter().filter_map(medians).collect(),
            runs: runs.iter().map(RunDocument::new).collect(),
            timing,
        }
    }
}

impl<'a> RunDocument<'a> {
    fn new(run: &'a Run) -> Self {
        let Run { seed, policy, outcome, objective, .. } = run;
        Self {
            seed: *seed,
            policy: policy.as_str(),
            objective_ms: objective.map(Nanos::as_millis_f64),
            figures: Figures::of(outcome),
            backends: &outcome.backends,
        }
    }
}

impl Figures {
    const fn of(outcome: &Outcome) -> Self {
        Self {
            slo_violation_ratio: outcome.slo_violation_ratio,
            tail_worst_ms: outcome.tail_worst_ms,
            tail_median_ms: outcome.tail_median_ms,
            p99_worst_ms: outcome.p99_worst_ms,
            p99_mean_ms: outcome.p99_mean_ms,
            p99_median_ms: outcome.p99_median_ms,
            p90_violation_ratio: outcome.p90_violation_ratio,
            p50_violation_ratio: outcome.p50_violation_ratio,
            dominant_rbc_share_mean: outcome.dominant_rbc_share_mean,
            bytes_moved: outcome.bytes_moved,
            requests: outcome.requests,
            queries: outcome.queries,
        }
    }
}

/// Medians over the seeds, figure by figure; the upper one of two.
pub(super) fn median_figures(runs: &[Run], policy: PolicyKind) -> Option<Figures> {
    let all: Vec<Figures> = runs
        .iter()
        .filter(|run| run.policy == policy)
        .map(|run| Figures::of(&run.outcome))
        .collect();
    let real = |figure: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = all.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let whole = |figure: fn(&Figures) -> u64| {
        let mut values: Vec<u64> = all.iter().map(figure).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    (!all.is_empty()).then(|| Figures {
        slo_violation_ratio: real(|f| f.slo_violation_ratio),
        tail_worst_ms: real(|f| f.tail_worst_ms),
        tail_median_ms: real(|f| f.tail_median_ms),
        p99_worst_ms: real(|f| f.p99_worst_ms),
        p99_mean_ms: real(|f| f.p99_mean_ms),
        p99_median_ms: real(|f| f.p99_median_ms),
        p90_violation_ratio: real(|f| f.p90_violation_ratio),
        p50_violation_ratio: real(|f| f.p50_violation_ratio),
        dominant_rbc_share_mean: real(|f| f.dominant_rbc_share_mean),
        bytes_moved: whole(|f| f.bytes_moved),
        requests: whole(|f| f.requests),
        queries: whole(|f| f.queries),
    })
}
