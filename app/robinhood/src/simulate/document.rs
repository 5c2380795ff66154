//! What a simulation says to programs: the JSON document.

use std::collections::BTreeMap;
use std::fmt;

use robinhood_controller::PolicyKind;
use robinhood_simulator::BackendOutcome;
use robinhood_stats::Nanos;
use serde::Serialize;

use super::figures::{Figures, of_policy};
use super::plan::{Objective, Plan};
use super::sweep::Point;
use super::warnings::Warning;
use super::{Job, Run};

/// The document. `docs/simulate.md` describes it.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    schema: &'static str,
    workload: &'a str,
    seed: u64,
    seeds: &'a [u64],
    scale: String,
    time_scale: f64,
    percentile: f64,
    slo_ms: Option<f64>,
    p90_objective_ms: f64,
    p50_objective_ms: f64,
    coalesce: bool,
    cancel: bool,
    report_delay_ms: f64,
    report_loss: f64,
    warmup_seconds: f64,
    measured_seconds: f64,
    cache_bytes_per_server: u64,
    complete: bool,
    missing: Vec<Missing>,
    warnings: &'a [Warning],
    policies: BTreeMap<&'static str, Figures>,
    runs: Vec<RunDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timing: Option<Timing>,
}

/// A run that was not begun or could not be made.
#[derive(Serialize)]
struct Missing {
    seed: u64,
    policy: &'static str,
}

#[derive(Serialize)]
struct RunDocument<'a> {
    seed: u64,
    policy: &'static str,
    complete: bool,
    objective_ms: Option<f64>,
    #[serde(flatten)]
    figures: Figures,
    backends: Vec<BackendDocument<'a>>,
}

#[derive(Serialize)]
struct BackendDocument<'a> {
    #[serde(flatten)]
    outcome: &'a BackendOutcome,
    load_growth_mean: Option<f64>,
    load_growth_max: Option<f64>,
}

/// How long it took: the only part that differs between equal runs.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Timing {
    wall_seconds: f64,
    queries_per_second: f64,
}

impl Timing {
    /// `wall_seconds` for all runs; the rate is per core: queries over the sum of the runs' own times.
    pub(super) fn new<'r>(wall_seconds: f64, runs: impl Iterator<Item = &'r Run> + Clone) -> Self {
        let queries: u64 = runs.clone().map(|run| run.outcome.queries).sum();
        let busy: f64 = runs.map(|run| run.wall_seconds).sum();
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
    pub(super) fn new(
        plan: &'a Plan,
        runs: &'a [Run],
        missing: &[Job],
        warnings: &'a [Warning],
        timing: Option<Timing>,
    ) -> Self {
        let medians = |&policy: &PolicyKind| {
            let runs = of_policy(runs, policy);
            (!runs.is_empty()).then(|| (policy.as_str(), Figures::medians(&runs)))
        };
        let options = &plan.options;
        Self {
            schema: "robinhood.simulate/1",
            workload: &plan.workload.name,
            seed: plan.seeds[0],
            seeds: &plan.seeds,
            scale: plan.scale.to_string(),
            time_scale: options.time_scale,
            percentile: options.percentile,
            slo_ms: match plan.objective {
                Objective::Fixed(objective) => Some(objective.as_millis_f64()),
                Objective::CalmShared => None,
            },
            p90_objective_ms: options.p90_objective.as_millis_f64(),
            p50_objective_ms: options.p50_objective.as_millis_f64(),
            coalesce: options.coalesce,
            cancel: options.cancel,
            report_delay_ms: options.report_delay.as_millis_f64(),
            report_loss: options.report_loss,
            warmup_seconds: plan.workload.length.warmup.as_secs_f64(),
            measured_seconds: plan.workload.length.measured.as_secs_f64(),
            cache_bytes_per_server: plan.workload.cache_per_server.0,
            complete: missing.is_empty() && runs.iter().all(|run| run.outcome.complete),
            missing: missing
                .iter()
                .map(|&(seed, policy)| Missing { seed, policy: policy.as_str() })
                .collect(),
            warnings,
            policies: plan.policies.iter().filter_map(medians).collect(),
            runs: runs.iter().map(RunDocument::new).collect(),
            timing,
        }
    }
}

impl<'a> RunDocument<'a> {
    fn new(run: &'a Run) -> Self {
        let backend = |(place, outcome): (usize, &'a BackendOutcome)| {
            let growth = run.growth.get(place);
            BackendDocument {
                outcome,
                load_growth_mean: growth.and_then(|growth| growth.mean),
                load_growth_max: growth.and_then(|growth| growth.max),
            }
        };
        Self {
            seed: run.seed,
            policy: run.policy.as_str(),
            complete: run.outcome.complete,
            objective_ms: run.objective.map(Nanos::as_millis_f64),
            figures: Figures::medians(&[run]),
            backends: run.outcome.backends.iter().enumerate().map(backend).collect(),
        }
    }
}

/// The document of a sweep.
#[derive(Serialize)]
pub(super) struct SweepDocument<'a> {
    schema: &'static str,
    workload: &'a str,
    seeds: &'a [u64],
    scale: String,
    parameter: &'static str,
    complete: bool,
    values: Vec<ValueDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timing: Option<Timing>,
}

#[derive(Serialize)]
struct ValueDocument<'a> {
    value: &'a str,
    number: f64,
    cache_bytes_per_server: u64,
    policies: BTreeMap<&'static str, Figures>,
    slo_violation_ratio_by_seed: BTreeMap<&'static str, Vec<f64>>,
}

impl<'a> SweepDocument<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        parameter: &'static str,
        points: &'a [Point],
        complete: bool,
        timing: Option<Timing>,
    ) -> Self {
        Self {
            schema: "robinhood.simulate-sweep/1",
            workload: &plan.workload.name,
            seeds: &plan.seeds,
            scale: plan.scale.to_string(),
            parameter,
            complete,
            values: points.iter().map(ValueDocument::new).collect(),
            timing,
        }
    }
}

impl<'a> ValueDocument<'a> {
    fn new(point: &'a Point) -> Self {
        let policies = || point.plan.policies.iter().copied();
        let runs = |policy| of_policy(&point.runs, policy);
        let medians = |policy: PolicyKind| {
            let runs = runs(policy);
            (!runs.is_empty()).then(|| (policy.as_str(), Figures::medians(&runs)))
        };
        let by_seed = |policy: PolicyKind| {
            let ratios = runs(policy).iter().map(|run| run.outcome.slo_violation_ratio).collect();
            (policy.as_str(), ratios)
        };
        Self {
            value: &point.value,
            number: point.number,
            cache_bytes_per_server: point.plan.workload.cache_per_server.0,
            policies: policies().filter_map(medians).collect(),
            slo_violation_ratio_by_seed: policies().map(by_seed).collect(),
        }
    }
}
