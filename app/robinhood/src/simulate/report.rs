//! What a simulation says: a table for people, a document for programs.

use std::collections::BTreeMap;
use std::fmt;

use robinhood_controller::PolicyKind;
use robinhood_simulator::{BackendOutcome, Outcome};
use robinhood_stats::Nanos;
use serde::Serialize;

use super::{Plan, Run};
use crate::table::Table;

/// More columns of backends do not fit on a screen.
const POLICIES_SIDE_BY_SIDE: usize = 4;

/// The JSON document; keys of [`Figures`] are stable.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    schema: &'static str,
    workload: &'a str,
    seed: u64,
    scale: String,
    time_scale: f64,
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
struct Figures {
    slo_violation_ratio: f64,
    p99_worst_ms: f64,
    p99_mean_ms: f64,
    p99_median_ms: f64,
    p90_violation_ratio: f64,
    dominant_rbc_share_mean: f64,
    bytes_moved: u64,
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
            p99_worst_ms: outcome.p99_worst_ms,
            p99_mean_ms: outcome.p99_mean_ms,
            p99_median_ms: outcome.p99_median_ms,
            p90_violation_ratio: outcome.p90_violation_ratio,
            dominant_rbc_share_mean: outcome.dominant_rbc_share_mean,
            bytes_moved: outcome.bytes_moved,
            requests: outcome.requests,
            queries: outcome.queries,
        }
    }
}

/// Medians over the seeds, figure by figure; the upper one of two.
fn median_figures(runs: &[Run], policy: PolicyKind) -> Option<Figures> {
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
        p99_worst_ms: real(|f| f.p99_worst_ms),
        p99_mean_ms: real(|f| f.p99_mean_ms),
        p99_median_ms: real(|f| f.p99_median_ms),
        p90_violation_ratio: real(|f| f.p90_violation_ratio),
        dominant_rbc_share_mean: real(|f| f.dominant_rbc_share_mean),
        bytes_moved: whole(|f| f.bytes_moved),
        requests: whole(|f| f.requests),
        queries: whole(|f| f.queries),
    })
}

/// `1..5` as it was typed, or the list.
pub(super) fn seed_list(seeds: &[u64]) -> String {
    let (first, last) = (seeds[0], seeds[seeds.len() - 1]);
    let is_range = seeds.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1));
    if seeds.len() > 1 && is_range {
        return format!("{first}..{last}");
    }
    seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// The comparison of the policies, and hit ratios by backend of the first seed.
pub(super) fn tables(plan: &Plan, runs: &[Run]) -> String {
    let mut policies = Table::new([
        "policy",
        "violations",
        "by seed",
        "worst P99",
        "median P99",
        "dominant RBC",
        "moved",
    ]);
    for &policy in &plan.policies {
        let Some(median) = median_figures(runs, policy) else { continue };
        let each: Vec<String> = runs
            .iter()
            .filter(|run| run.policy == policy)
            .map(|run| format!("{:.1}", run.outcome.slo_violation_ratio * 100.0))
            .collect();
        policies.row([
            policy.to_string(),
            format!("{:.1} %", median.slo_violation_ratio * 100.0),
            each.join(" "),
            format!("{:.0} ms", median.p99_worst_ms),
            format!("{:.0} ms", median.p99_median_ms),
            format!("{:.2}", median.dominant_rbc_share_mean),
            format!("{:.1} GB", median.bytes_moved as f64 / 1e9),
        ]);
    }
    format!("{}\n{}", policies.render(), backend_tables(plan, runs))
}

/// The policies of the first seed by backend, a few side by side.
fn backend_tables(plan: &Plan, runs: &[Run]) -> String {
    let first: Vec<&Run> = runs.iter().filter(|run| run.seed == runs[0].seed).collect();
    let tables: Vec<String> =
        first.chunks(POLICIES_SIDE_BY_SIDE).map(|some| backend_table(plan, some)).collect();
    format!("seed {}\n{}", runs[0].seed, tables.join("\n"))
}

fn backend_table(plan: &Plan, runs: &[&Run]) -> String {
    let headings =
        runs.iter().flat_map(|run| [format!("hits {}", run.policy), "cache".into(), "RBC".into()]);
    let mut table = Table::new(["backend".to_owned()].into_iter().chain(headings));
    for (index, name) in plan.workload.names().enumerate() {
        let cells = runs.iter().flat_map(|run| {
            let backend = &run.outcome.backends[index];
            let percent = |share: f64| format!("{:.0} %", share * 100.0);
            [
                percent(backend.hit_ratio),
                percent(backend.cache_share_mean),
                percent(backend.rbc_share_mean),
            ]
        });
        table.row([name.to_string()].into_iter().chain(cells));
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_print_as_they_are_typed() {
        assert_eq!(seed_list(&[7]), "7");
        assert_eq!(seed_list(&[1, 2, 3]), "1..3");
        assert_eq!(seed_list(&[1, 4]), "1,4");
    }
}
