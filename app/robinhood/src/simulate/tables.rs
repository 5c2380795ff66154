//! What a simulation says to people: the comparison, the tail over time, the backends.

use robinhood_stats::Bytes;

use super::figures::{controlled, median, observed, of_policy};
use super::plan::Plan;
use super::{Run, chart};
use crate::table::Table;

/// More columns of backends do not fit on a screen.
const POLICIES_SIDE_BY_SIDE: usize = 3;
/// The table of backends shows those that block most.
const BACKENDS_MAX: usize = 10;

/// `1..5` as it was typed, or the list.
pub(crate) fn seed_list(seeds: &[u64]) -> String {
    let (first, last) = (seeds[0], seeds[seeds.len() - 1]);
    let is_range = seeds.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1));
    if seeds.len() > 1 && is_range {
        return format!("{first}..{last}");
    }
    seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

/// All that is printed of the runs.
pub(super) fn of(plan: &Plan, runs: &[Run]) -> String {
    let first: Vec<&Run> = runs.iter().filter(|run| run.seed == runs[0].seed).collect();
    let (table, note) = comparison(plan, runs);
    let (by_backend, left_out) = backend_tables(&first);
    let by_backend: Vec<String> = by_backend.iter().map(Table::render).collect();
    format!(
        "{}{note}\nseed {}\n{}\n{}{left_out}",
        table.render(),
        runs[0].seed,
        chart::of(&first, plan.options.percentile),
        by_backend.join("\n")
    )
}

/// One row for each policy, medians over the seeds, and a line that explains it.
pub(super) fn comparison(plan: &Plan, runs: &[Run]) -> (Table, &'static str) {
    let tail = format!("P{}", plan.options.percentile);
    let headings = [
        "policy".to_owned(),
        format!("{tail} violations"),
        "by seed".to_owned(),
        format!("worst {tail}"),
        format!("median {tail}"),
        "P90 viol.".to_owned(),
        "P50 viol.".to_owned(),
        "dominant RBC".to_owned(),
        "load growth".to_owned(),
        "moved".to_owned(),
    ];
    let mut table = Table::new(headings);
    let rows: Vec<(String, Vec<&Run>)> = plan
        .policies
        .iter()
        .map(|&policy| (policy.to_string(), of_policy(runs, policy)))
        .filter(|(_, runs)| !runs.is_empty())
        .collect();
    let best = best(&rows).filter(|_| rows.len() == plan.policies.len());
    for (place, (policy, runs)) in rows.iter().enumerate() {
        let mark = if best == Some(place) { " *" } else { "" };
        let part = part(runs, plan.seeds.len());
        let each = runs.iter().map(|run| observed(run, run.outcome.slo_violation_ratio * 100.0));
        let each = each.map(|percent| or_dash(percent, |percent| format!("{percent:.1}")));
        let share =
            |of: fn(&Run) -> f64| or_dash(median(runs, |run| observed(run, of(run))), percent);
        let time = |of: fn(&Run) -> f64| {
            or_dash(median(runs, |run| observed(run, of(run))), |ms| format!("{ms:.0} ms"))
        };
        let growth = median(runs, |run| {
            run.growth.iter().filter_map(|growth| growth.max).fold(f64::NAN, f64::max)
        });
        let dominant = median(runs, |run| controlled(run, run.outcome.dominant_rbc_share_mean));
        table.row([
            format!("{policy}{mark}{part}"),
            share(|run| run.outcome.slo_violation_ratio),
            each.collect::<Vec<_>>().join(" "),
            time(|run| run.outcome.tail_worst_ms),
            time(|run| run.outcome.tail_median_ms),
            share(|run| run.outcome.p90_violation_ratio),
            share(|run| run.outcome.p50_violation_ratio),
            or_dash(dominant, |share| format!("{share:.2}")),
            or_dash(growth, |growth| format!("{growth:.2} x")),
            Bytes(median(runs, |run| run.outcome.bytes_moved as f64) as u64).to_string(),
        ]);
    }
    let note = if best.is_some() {
        "* fewest violations, of equals the lowest worst; load growth: the most of any backend, as a multiple of its load under shared\n"
    } else {
        ""
    };
    (table, note)
}

/// What the figures of a policy lack, after its name: seeds, or the ends of runs.
fn part(runs: &[&Run], seeds: usize) -> String {
    let lacking = (runs.len() < seeds).then(|| format!("{} of {seeds} seeds", runs.len()));
    let cut = (!runs[0].outcome.complete).then(|| "in part".to_owned());
    let all: Vec<String> = lacking.into_iter().chain(cut).collect();
    if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
}

/// The policy with the fewest violations, of equals the one with the lowest worst; `None` of fewer than two, or when they are not complete with the same seeds.
fn best(rows: &[(String, Vec<&Run>)]) -> Option<usize> {
    let figures = |(_, runs): &(String, Vec<&Run>)| {
        (
            median(runs, |run| run.outcome.slo_violation_ratio),
            median(runs, |run| run.outcome.tail_worst_ms),
        )
    };
    let seeds = |runs: &[&Run]| runs.iter().map(|run| run.seed).collect::<Vec<_>>();
    let is_fair = rows.iter().all(|(_, runs)| {
        let is_seen = |run: &&Run| run.outcome.complete && !run.outcome.series.latency.is_empty();
        runs.iter().all(is_seen) && seeds(runs) == seeds(&rows[0].1)
    });
    let all: Vec<(f64, f64)> = rows.iter().map(figures).collect();
    let least = |a: &usize, b: &usize| {
        let (a, b) = (all[*a], all[*b]);
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    };
    (is_fair && all.len() > 1).then(|| (0..all.len()).min_by(least))?
}

/// A figure, or a dash where there is none.
fn or_dash(figure: f64, show: impl Fn(f64) -> String) -> String {
    if figure.is_nan() { "-".to_owned() } else { show(figure) }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The policies of one seed by backend, a few side by side, and a line about the backends that are left out.
pub(super) fn backend_tables(runs: &[&Run]) -> (Vec<Table>, String) {
    let blocks_most = |id: usize| {
        runs.iter().map(|run| run.outcome.backends[id].rbc_share_mean).fold(0.0, f64::max)
    };
    let all = runs[0].outcome.backends.len();
    let mut shown: Vec<usize> = (0..all).collect();
    shown.sort_by(|&a, &b| blocks_most(b).total_cmp(&blocks_most(a)));
    shown.truncate(BACKENDS_MAX);
    shown.sort_unstable();
    let tables = runs.chunks(POLICIES_SIDE_BY_SIDE).map(|some| backend_table(some, &shown));
    let left_out = match all - shown.len() {
        0 => String::new(),
        more => format!("{more} backends that block less are in --json\n"),
    };
    (tables.collect(), left_out)
}

fn backend_table(runs: &[&Run], shown: &[usize]) -> Table {
    let has_growth = runs.iter().all(|run| !run.growth.is_empty());
    let columns = if has_growth { 4 } else { 3 };
    let headings = runs.iter().flat_map(|run| {
        let names = [format!("hits {}", run.policy), "cache".into(), "RBC".into(), "load".into()];
        names.into_iter().take(columns)
    });
    let mut table = Table::new(["backend".to_owned()].into_iter().chain(headings));
    for &id in shown {
        let cells = runs.iter().flat_map(|run| {
            let backend = &run.outcome.backends[id];
            let percent = |share: f64| or_dash(share, |share| format!("{:.0} %", share * 100.0));
            let growth = run.growth.get(id).and_then(|growth| growth.mean);
            let cells = [
                percent(backend.hit_ratio),
                percent(controlled(run, backend.cache_share_mean)),
                percent(controlled(run, backend.rbc_share_mean)),
                growth.map_or("-".to_owned(), |growth| format!("{growth:.2} x")),
            ];
            cells.into_iter().take(columns)
        });
        let name = runs[0].outcome.backends[id].name.to_string();
        table.row([name].into_iter().chain(cells));
    }
    table
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use robinhood_controller::PolicyKind;
    use robinhood_simulator::{LatencyPoint, Options, Simulation};
    use robinhood_stats::Nanos;

    use super::*;

    /// A run of the demo that is over at once, with these observations made up.
    fn run(seed: u64, policy: PolicyKind, complete: bool, violations: f64) -> Run {
        let workload = robinhood_workload::presets::demo(Nanos::from_millis(600));
        let simulation = Simulation::new(&workload, policy, seed, Options::default()).unwrap();
        let mut outcome = simulation.run(&mut |_| ControlFlow::Continue(()));
        let (p50_ms, p90_ms, p99_ms, tail_ms) = (1.0, 2.0, 3.0, 3.0);
        outcome.series.latency = vec![LatencyPoint { at_s: 1.0, p50_ms, p90_ms, p99_ms, tail_ms }];
        (outcome.complete, outcome.slo_violation_ratio) = (complete, violations);
        Run { seed, policy, outcome, objective: None, growth: Vec::new(), wall_seconds: 0.0 }
    }

    #[test]
    fn a_best_policy_is_marked_only_among_the_same_complete_seeds() {
        let (shared, equal) = (PolicyKind::Shared, PolicyKind::Equal);
        let first = [run(1, shared, true, 0.5), run(2, shared, true, 0.5)];
        let second = [run(1, equal, true, 0.1), run(2, equal, true, 0.1)];
        let all = [
            ("shared".to_owned(), first.iter().collect()),
            ("equal".to_owned(), second.iter().collect()),
        ];
        assert_eq!(best(&all), Some(1));
        let [shared, equal] = all;
        let fewer = ("shared".to_owned(), shared.1[..1].to_vec());
        assert_eq!(best(&[fewer, equal.clone()]), None, "one seed against two");
        let other = run(2, PolicyKind::Shared, false, 0.0);
        let cut = ("shared".to_owned(), vec![&first[0], &other]);
        assert_eq!(best(&[cut, equal]), None, "one did not reach its end");
        assert_eq!(part(&shared.1, 2), "");
        assert_eq!(part(&shared.1, 6), " (2 of 6 seeds)");
        assert_eq!(part(&[&other], 6), " (1 of 6 seeds, in part)");
    }

    #[test]
    fn seeds_print_as_they_are_typed() {
        assert_eq!(seed_list(&[7]), "7");
        assert_eq!(seed_list(&[1, 2, 3]), "1..3");
        assert_eq!(seed_list(&[1, 4]), "1,4");
    }
}
