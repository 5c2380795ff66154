//! What an experiment amounts to, for people and programs.
//!
//! Place in the flow: the end. The objective comes from the first stack's calm first third, the same rule for every run;
//! reasons to doubt the figures are data beside them.

use std::collections::BTreeMap;
use std::sync::Arc;

use robinhood_load_tester::{PacingReport, Percentiles};
use robinhood_stats::{BackendName, Bytes, Instant, Nanos};
use serde::Serialize;

use super::doubt::{self, Doubt};
use crate::check::MachineCheck;
use crate::stack::{BackendView, CacheKind, QueryCounts, SloPoint, Stack, StackView};

/// The objective is this many times the reference's median P99 of the calm third.
const OBJECTIVE_FACTOR: f64 = 1.5;

/// The result of a run, complete or interrupted.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// How it was run.
    #[serde(flatten)]
    pub setting: Setting,
    /// What every P99 should have stayed below: 1.5 times the first stack's median P99 of the calm first third; `None`
    /// when the run was too short for a whole window in it.
    pub objective_ms: Option<f64>,
    /// Name of the first stack, which sets the objective.
    pub reference: String,
    /// All stacks by name.
    pub stacks: BTreeMap<String, StackSummary>,
    /// The load generator.
    pub generator: GeneratorSummary,
    /// The machine.
    pub machine: MachineSummary,
    /// Whether no doubt invalidates the figures.
    pub valid: bool,
    /// Reasons for doubt.
    pub doubts: Vec<Doubt>,
}

/// How an experiment was run.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// The seed.
    pub seed: u64,
    /// Name of the workload or file of the trace.
    pub workload: String,
    /// Seconds in which requests were sent.
    pub seconds: f64,
    /// Intended length.
    #[serde(skip)]
    pub duration: Nanos,
    /// Times of the paper were divided by this.
    pub time_scale: f64,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// What holds the objects of each stack.
    pub cache: CacheKind,
    /// Bytes of each stack's cache.
    #[serde(rename = "budget_bytes")]
    pub budget: Bytes,
    /// The backend with the fewest bytes.
    pub smallest_catalogue: BackendName,
    /// Its bytes as a share of the budget: at most 1 would mean that a whole backend fits the cache.
    pub smallest_catalogue_to_budget: f64,
    /// Bad lines, or bad blocks, of the trace that were skipped.
    pub skipped_lines: u64,
}

/// One stack.
#[derive(Clone, Debug, Serialize)]
pub struct StackSummary {
    /// Its policy.
    pub policy: &'static str,
    /// Share of the whole windows whose P99 missed the objective; `None` without objective or window.
    pub slo_violation_ratio: Option<f64>,
    /// The highest P99 of a whole window.
    pub p99_worst_ms: Option<f64>,
    /// Median P99 of the whole windows in the calm first third.
    pub p99_calm_ms: Option<f64>,
    /// Median latency of all requests sent; unfinished ones with the time they had waited, like below.
    pub p50_ms: Option<f64>,
    /// 90th percentile.
    pub p90_ms: Option<f64>,
    /// 99th percentile.
    pub p99_ms: Option<f64>,
    /// Requests sent.
    pub requests: u64,
    /// Requests that ended in an error.
    pub errors: u64,
    /// Requests that ended in a timeout.
    pub timeouts: u64,
    /// Requests without an end.
    pub unfinished: u64,
    /// Requests that were due and not sent, because too many were in flight.
    pub refused: u64,
    /// Queries of all requests.
    pub queries: u64,
    /// Where these went.
    pub query_counts: QueryCounts,
    /// Queries that the cache answered, as far as reported.
    pub hits: u64,
    /// Bytes that its controller moved from some partitions to others.
    pub bytes_moved: Bytes,
    /// Bytes that its controller would have moved, in advise mode.
    pub bytes_advised: Bytes,
    /// The newest decisions in one line each, oldest first: mode, what moved and why, or the reason of a hold.
    pub decisions: Vec<String>,
    /// All backends by name.
    pub backends: BTreeMap<BackendName, BackendSummary>,
    /// Percentiles of all windows.
    pub windows: Vec<SloPoint>,
}

/// One backend of a stack.
#[derive(Clone, Debug, Serialize)]
pub struct BackendSummary {
    /// Queries.
    pub queries: u64,
    /// Share that the cache answered; `None` without queries.
    pub hit_ratio: Option<f64>,
    /// Misses that failed.
    pub failures: u64,
    /// Misses that timed out.
    pub timeouts: u64,
    /// Bytes that its partition may hold at the end; in a shared cache those of the whole cache.
    #[serde(rename = "limit_bytes")]
    pub limit: Bytes,
    /// Bytes that the cache holds for it at the end.
    #[serde(rename = "used_bytes")]
    pub used: Option<Bytes>,
    /// Share of its servers' time that was in use.
    pub utilisation: f64,
    /// Batches that it served.
    pub batches: u64,
    /// Batches that it refused.
    pub refused: u64,
    /// Batches whose real work outlasted the limit.
    pub over_limit: u64,
    /// Mean time of real work for a key, microseconds; `None` without keys.
    pub work_us_per_key: Option<f64>,
}

/// The load generator.
#[derive(Clone, Debug, Serialize)]
pub struct GeneratorSummary {
    /// Requests that came due.
    pub scheduled: u64,
    /// Requests handed to the stacks.
    pub sent: u64,
    /// How late they were sent.
    pub lateness_us: Percentiles,
    /// The part of it that timers made.
    pub timer_lateness_us: Percentiles,
}

/// The machine under the experiment.
#[derive(Clone, Debug, Serialize)]
pub struct MachineSummary {
    /// Share of the processors' time that the process used while requests came.
    pub cpu_share: f64,
    /// What was measured before.
    pub check: MachineCheck,
}

/// 1.5 times the median P99 of the whole windows in the calm first third of a run of this length.
pub(super) fn objective_ms(reference: &[SloPoint], duration: Nanos) -> Option<f64> {
    p99_calm_ms(reference, duration).map(|calm| OBJECTIVE_FACTOR * calm)
}

fn p99_calm_ms(points: &[SloPoint], duration: Nanos) -> Option<f64> {
    let calm_s = duration.as_secs_f64() / 3.0;
    let calm = points.iter().filter(|point| point.whole && point.seconds <= calm_s + 1e-9);
    let mut calm: Vec<f64> = calm.map(|point| point.p99_ms).collect();
    calm.sort_by(f64::total_cmp);
    let middle = calm.len() / 2;
    match calm.len() {
        0 => None,
        n if n % 2 == 1 => Some(calm[middle]),
        _ => Some((calm[middle - 1] + calm[middle]) / 2.0),
    }
}

/// The windows that are judged: whole, and over before requests stopped coming.
fn judged(points: &[SloPoint], duration: Nanos) -> impl Iterator<Item = &SloPoint> + Clone {
    let end_s = duration.as_secs_f64() + 1e-9;
    points.iter().filter(move |point| point.whole && point.seconds <= end_s)
}

/// Share of the judged windows whose P99 missed the objective.
pub(super) fn violation_ratio(
    points: &[SloPoint],
    duration: Nanos,
    objective_ms: Option<f64>,
) -> Option<f64> {
    let objective_ms = objective_ms?;
    let whole = judged(points, duration);
    let judged = whole.clone().count();
    let missed = whole.filter(|point| point.p99_ms > objective_ms).count();
    (judged > 0).then(|| missed as f64 / judged as f64)
}

impl Summary {
    pub(super) fn new(
        setting: Setting,
        stacks: &[Arc<Stack>],
        pacing: &PacingReport,
        machine: MachineSummary,
        now: Instant,
    ) -> Self {
        let views: Vec<StackView> = stacks.iter().map(|stack| stack.view()).collect();
        let objective_ms = objective_ms(&views[0].slo, setting.duration);
        let summaries = stacks.iter().zip(&views).map(|(stack, view)| {
            (view.name.clone(), stack_summary(stack, view, objective_ms, setting.duration, now))
        });
        let summaries: BTreeMap<_, _> = summaries.collect();
        let generator = GeneratorSummary {
            scheduled: pacing.scheduled,
            sent: pacing.sent,
            lateness_us: pacing.lateness_us(),
            timer_lateness_us: pacing.timer_lateness_us(),
        };
        let mut doubts = doubt::of(&setting, &summaries, &generator, &machine);
        if objective_ms.is_none() {
            doubts.push(Doubt::NoObjective);
        }
        Self {
            setting,
            objective_ms,
            reference: views[0].name.clone(),
            stacks: summaries,
            generator,
            machine,
            valid: !doubts.iter().any(Doubt::invalidates),
            doubts,
        }
    }
}

fn stack_summary(
    stack: &Stack,
    view: &StackView,
    objective_ms: Option<f64>,
    duration: Nanos,
    now: Instant,
) -> StackSummary {
    let recorded = stack.recorder().summary(now);
    let counts = recorded.counts;
    let ms = |us: Option<f64>| us.map(|us| us / 1e3);
    let whole = judged(&view.slo, duration).map(|point| point.p99_ms);
    let backends = view.backends.iter();
    StackSummary {
        policy: view.policy,
        slo_violation_ratio: violation_ratio(&view.slo, duration, objective_ms),
        p99_worst_ms: whole.max_by(f64::total_cmp),
        p99_calm_ms: p99_calm_ms(&view.slo, duration),
        p50_ms: ms(recorded.latency_us.p50),
        p90_ms: ms(recorded.latency_us.p90),
        p99_ms: ms(recorded.latency_us.p99),
        requests: counts.sent,
        errors: counts.failed,
        timeouts: counts.timed_out,
        unfinished: counts.unfinished,
        refused: counts.refused,
        queries: view.queries.asked,
        query_counts: view.queries,
        hits: backends.clone().map(|backend| backend.totals.hits).sum(),
        bytes_moved: view.bytes_moved,
        bytes_advised: view.bytes_advised,
        decisions: view.decisions.iter().map(ToString::to_string).collect(),
        backends: backends.map(|b| (b.name.clone(), backend_summary(b))).collect(),
        windows: view.slo.clone(),
    }
}

fn backend_summary(view: &BackendView) -> BackendSummary {
    let seen = &view.servers;
    let start = crate::backend::BackendStatistics { servers: seen.servers, ..Default::default() };
    BackendSummary {
        queries: view.totals.queries,
        hit_ratio: view.totals.hit_ratio(),
        failures: view.totals.failures,
        timeouts: view.totals.timeouts,
        limit: view.limit,
        used: view.used,
        utilisation: seen.utilisation_since(&start),
        batches: seen.batches(),
        refused: seen.refused,
        over_limit: seen.over_limit,
        work_us_per_key: (seen.keys > 0).then(|| seen.work.as_micros_f64() / seen.keys as f64),
    }
}
