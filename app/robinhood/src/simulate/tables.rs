//! What a simulation says to people: tables.

use super::Run;
use super::document::median_figures;
use super::plan::Plan;
use crate::table::Table;

/// More columns of backends do not fit on a screen.
const POLICIES_SIDE_BY_SIDE: usize = 4;

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
pub(super) fn of(plan: &Plan, runs: &[Run]) -> String {
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
