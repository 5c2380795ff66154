//! What a reproduction says to programs: the JSON document. `docs/reproduce.md` describes it.

use serde::Serialize;

use super::check::{Check, Rule};
use super::experiments::Plan;
use super::runs::Records;

/// The document.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    schema: &'static str,
    version: &'static str,
    scale: String,
    time_scale: f64,
    seeds: &'a [u64],
    parts: Vec<PartDocument<'a>>,
    runs: Vec<RunDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timing: Option<Timing>,
}

#[derive(Serialize)]
struct PartDocument<'a> {
    name: String,
    checks: Vec<CheckDocument<'a>>,
}

#[derive(Serialize)]
struct CheckDocument<'a> {
    what: &'a str,
    source: &'static str,
    paper: &'static str,
    unit: &'static str,
    at_least: Option<f64>,
    at_most: Option<f64>,
    /// Null where there is no such moment.
    ours: Option<f64>,
    ours_by_seed: Vec<Option<f64>>,
    agrees: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    likely_reason: Option<&'static str>,
}

#[derive(Serialize)]
struct RunDocument<'a> {
    workload: &'static str,
    policy: &'static str,
    seed: u64,
    /// Of `static` with the highest limits of `robinhood`: what they sum to, in percent of the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_percent: Option<u32>,
    slo_violation_ratio: f64,
    p99_median_ms: f64,
    p99_worst_ms: f64,
    p90_violation_ratio: f64,
    dominant_rbc_share_mean: f64,
    queries: &'a u64,
}

/// How long it took: the only part that differs between equal runs.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Timing {
    pub(super) wall_seconds: f64,
}

impl<'a> Document<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        checks: &'a [Check],
        records: &'a Records,
        timing: Option<Timing>,
    ) -> Self {
        let part = |&part: &super::args::Part| PartDocument {
            name: super::page::name(part),
            checks: checks.iter().filter(|c| c.claim.part == part).map(check).collect(),
        };
        let run = |(job, record): (&super::experiments::Job, &'a super::state::Record)| {
            let outcome = &record.outcome;
            RunDocument {
                workload: job.experiment.preset(),
                policy: job.policy.as_str(),
                seed: job.seed,
                budget_percent: job.maxima_percent,
                slo_violation_ratio: outcome.slo_violation_ratio,
                p99_median_ms: outcome.p99_median_ms,
                p99_worst_ms: outcome.p99_worst_ms,
                p90_violation_ratio: outcome.p90_violation_ratio,
                dominant_rbc_share_mean: outcome.dominant_rbc_share_mean,
                queries: &outcome.queries,
            }
        };
        Self {
            schema: "robinhood.reproduce/1",
            version: env!("CARGO_PKG_VERSION"),
            scale: plan.scale.to_string(),
            time_scale: plan.options.time_scale,
            seeds: &plan.seeds,
            parts: plan.parts.iter().map(part).collect(),
            runs: records.iter().map(run).collect(),
            timing,
        }
    }
}

fn check(check: &Check) -> CheckDocument<'_> {
    let claim = &check.claim;
    let (at_least, at_most) = match claim.rule {
        Rule::AtMost(most) => (None, Some(most)),
        Rule::AtLeast(least) => (Some(least), None),
        Rule::Between(least, most) => (Some(least), Some(most)),
    };
    let finite = |value: f64| value.is_finite().then_some(value);
    CheckDocument {
        what: &claim.what,
        source: claim.source,
        paper: claim.paper,
        unit: claim.measure.unit().trim_start(),
        at_least,
        at_most,
        ours: finite(check.median()),
        ours_by_seed: check.ours.iter().map(|&value| finite(value)).collect(),
        agrees: check.agrees(),
        likely_reason: check.reason(),
    }
}
