//! Section 5.5 beyond the paper's count: the least cache with which fixed limits violate the objective as seldom as `robinhood` does.
//!
//! The limits are clairvoyant: in proportion to the highest that `robinhood` had in the same run, so that a budget that is the sum of these gives each
//! backend what it had at most. Found by bisection; each run on the way is kept like any other.

use std::ops::RangeInclusive;

use robinhood_controller::PolicyKind;

use super::experiments::{Experiment, Job, Plan};
use super::measure::Source;
use super::runs::{Records, Runner};
use crate::failure::Failure;
use crate::search::least_percent;
use crate::table::Table;

/// Budgets that are tried, in percent of the cache.
const RANGE: RangeInclusive<u32> = 50..=250;
/// The experiments of Figure 13.
const EXPERIMENTS: [Experiment; 2] = [Experiment::Spikes, Experiment::Random];

/// Makes all runs that the search needs, those of different experiments and seeds side by side.
pub(super) fn search(runner: &Runner<'_>, records: &mut Records) -> Result<(), Failure> {
    loop {
        let next: Vec<Job> = searches(runner.plan)
            .filter_map(|(of, seed)| needed(records, of, seed).err())
            .collect();
        if next.is_empty() {
            return Ok(());
        }
        runner.obtain(&next, records)?;
    }
}

fn searches(plan: &Plan) -> impl Iterator<Item = (Experiment, u64)> + '_ {
    plan.seeds.iter().flat_map(|&seed| EXPERIMENTS.map(|experiment| (experiment, seed)))
}

/// The least budget that is enough, `None` when none is, or the run that is missing to know it.
fn needed(records: &Records, experiment: Experiment, seed: u64) -> Result<Option<u32>, Job> {
    let violations =
        |job: Job| records.get(&job).map(|record| record.outcome.slo_violation_ratio).ok_or(job);
    let mark = violations(Job::new(experiment, PolicyKind::Robinhood, seed))?;
    least_percent(RANGE, |percent| {
        let job = Job::new(experiment, PolicyKind::Static, seed);
        Ok(violations(Job { maxima_percent: Some(percent), ..job })? <= mark)
    })
}

/// What was found.
pub(super) fn table(source: &Source<'_>) -> Table {
    let headings = ["run", "seed", "robinhood", "sum of its highest limits", "static needs"];
    let mut table = Table::new(headings);
    for (experiment, seed) in searches(source.plan) {
        let Ok(needed) = needed(source.records, experiment, seed) else { continue };
        let robinhood = &source.records[&Job::new(experiment, PolicyKind::Robinhood, seed)];
        let highest: f64 = robinhood.cache_share_max.iter().sum();
        table.row([
            experiment.preset().to_owned(),
            seed.to_string(),
            format!("{:.1} %", robinhood.outcome.slo_violation_ratio * 100.0),
            format!("{:.0} %", highest * 100.0),
            needed.map_or_else(
                || format!("over {} %", RANGE.end()),
                |percent| format!("{percent} %"),
            ),
        ]);
    }
    table
}
