//! `robinhood simulate`: policies on the same requests in virtual time, side by side.

mod document;
mod plan;
mod pool;
mod tables;

use std::io::IsTerminal;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use robinhood_controller::PolicyKind;
use robinhood_simulator::Outcome;
use robinhood_stats::Nanos;

use crate::cli::SimulateArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use plan::{DEMO_OBJECTIVE_FACTOR, Objective, Plan};

/// One finished run.
struct Run {
    seed: u64,
    policy: PolicyKind,
    outcome: Outcome,
    /// What the percentile was held against; `None` when the run that sets it was interrupted.
    objective: Option<Nanos>,
    wall_seconds: f64,
}

/// Runs the command.
pub(crate) fn run(args: &SimulateArgs) -> Result<(), Failure> {
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    let plan = Plan::new(args)?;
    let stop = interrupt::stop_flag()?;
    eprintln!(
        "workload {}, {} application servers, {} cache each, seed {}",
        plan.workload.name,
        plan.workload.servers,
        plan.workload.cache_per_server,
        tables::seed_list(&plan.seeds)
    );
    let started = Instant::now();
    let mut runs = execute(&plan, stop)?;
    hold_against_objective(&mut runs, plan.objective);
    let timing = document::Timing::new(started.elapsed().as_secs_f64(), &runs);
    eprintln!("{timing}");
    if let Some(path) = &args.json {
        output::write_json(
            path,
            &document::Document::new(&plan, &runs, (!args.no_timing).then_some(timing)),
        )?;
    }
    output::say(&tables::of(&plan, &runs));
    if runs.iter().all(|run| run.outcome.complete) {
        Ok(())
    } else {
        Err(Failure::failed("interrupted: the numbers cover what was simulated until then"))
    }
}

/// All runs, two or more at a time; those that were not begun when the user stopped are missing.
fn execute(plan: &Plan, stop: &'static AtomicBool) -> Result<Vec<Run>, Failure> {
    let mut runs = pool::run(plan, &plan.jobs(), stop, std::io::stderr().is_terminal())?;
    let place = |policy| plan.policies.iter().position(|&other| other == policy);
    runs.sort_by_key(|run| (run.seed, place(run.policy)));
    if runs.is_empty() {
        Err(Failure::failed("interrupted before the first result"))
    } else {
        Ok(runs)
    }
}

fn hold_against_objective(runs: &mut [Run], objective: Objective) {
    if let Objective::Fixed(objective) = objective {
        runs.iter_mut().for_each(|run| run.objective = Some(objective));
        return;
    }
    let calm: Vec<(u64, Nanos)> = runs
        .iter()
        .filter(|run| run.policy == PolicyKind::Shared && run.outcome.complete)
        .filter_map(|run| Some((run.seed, calm_tail(&run.outcome)?)))
        .collect();
    for run in runs {
        let of_seed = calm.iter().find(|(seed, _)| *seed == run.seed);
        run.objective = of_seed
            .map(|(_, tail)| Nanos::from_secs_f64(tail.as_secs_f64() * DEMO_OBJECTIVE_FACTOR));
        // Without an objective there is no ratio: JSON shows null.
        run.outcome.slo_violation_ratio =
            run.objective.map_or(f64::NAN, |objective| run.outcome.violation_ratio(objective));
    }
}

/// Median of the objective's percentile in the first third.
fn calm_tail(outcome: &Outcome) -> Option<Nanos> {
    let end_s = outcome.series.latency.last()?.at_s;
    outcome.tail_median_between(0.0, end_s / 3.0)
}
