//! `robinhood simulate`: policies on the same requests in virtual time, side by side.

mod pool;
mod report;

use std::io::IsTerminal;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use robinhood_controller::PolicyKind;
use robinhood_simulator::{Options, Outcome};
use robinhood_stats::Nanos;
use robinhood_workload::Workload;
use robinhood_workload::presets::{self, Scale};

use crate::cli::SimulateArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output;

/// The objective of the demo follows its shared stack: this many times the median P99 of the calm first third.
const DEMO_OBJECTIVE_FACTOR: f64 = 1.5;
/// How many times faster than the paper the demo's control loop runs.
const DEMO_TIME_SCALE: f64 = 10.0;

/// What a P99 is held against.
#[derive(Clone, Copy, Debug)]
enum Objective {
    Fixed(Nanos),
    /// [`DEMO_OBJECTIVE_FACTOR`] times what `shared` shows in the calm first third, seed by seed.
    CalmShared,
}

/// All runs of one command.
struct Plan {
    workload: Workload,
    /// Where `static` learns its limits.
    training: Workload,
    policies: Vec<PolicyKind>,
    seeds: Vec<u64>,
    scale: Scale,
    options: Options,
    objective: Objective,
}

/// One finished run.
struct Run {
    seed: u64,
    policy: PolicyKind,
    outcome: Outcome,
    /// What its P99 was held against; `None` when the run that sets it was interrupted.
    objective: Option<Nanos>,
    wall_seconds: f64,
}

/// Runs the command.
pub(crate) fn run(args: &SimulateArgs) -> Result<(), Failure> {
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    let plan = plan(args)?;
    let stop = interrupt::stop_flag()?;
    eprintln!(
        "workload {}, {} application servers, {} cache each, seed {}",
        plan.workload.name,
        plan.workload.servers,
        plan.workload.cache_per_server,
        report::seed_list(&plan.seeds)
    );
    let started = Instant::now();
    let mut runs = execute(&plan, stop)?;
    hold_against_objective(&mut runs, plan.objective);
    let timing = report::Timing::new(started.elapsed().as_secs_f64(), &runs);
    eprintln!("{timing}");
    if let Some(path) = &args.json {
        output::write_json(
            path,
            &report::Document::new(&plan, &runs, (!args.no_timing).then_some(timing)),
        )?;
    }
    output::say(&report::tables(&plan, &runs));
    if runs.iter().all(|run| run.outcome.complete) {
        Ok(())
    } else {
        Err(Failure::failed("interrupted: the numbers cover what was simulated until then"))
    }
}

fn plan(args: &SimulateArgs) -> Result<Plan, Failure> {
    let workload = presets::by_name(&args.workload, args.scale).map_err(Failure::usage)?;
    let training = presets::main_experiment(&args.workload, args.scale).map_err(Failure::usage)?;
    let (workload, training) = (shaped(workload, args)?, shaped(training, args)?);
    let is_demo = workload.name == "demo";
    let policies = args.policy.0.clone();
    let objective = match args.slo {
        Some(objective) => Objective::Fixed(objective),
        None if is_demo => Objective::CalmShared,
        None => Objective::Fixed(Options::default().p99_objective),
    };
    if matches!(objective, Objective::CalmShared) && !policies.contains(&PolicyKind::Shared) {
        return Err(Failure::usage(
            "the objective of `demo` is taken from `shared`: add it to --policy, or say --slo",
        ));
    }
    let mut options =
        Options { time_scale: if is_demo { DEMO_TIME_SCALE } else { 1.0 }, ..Options::default() };
    if let Objective::Fixed(objective) = objective {
        options.p99_objective = objective;
    }
    Ok(Plan {
        workload,
        training,
        policies,
        seeds: args.seed.0.clone(),
        scale: args.scale,
        options,
        objective,
    })
}

/// A preset with what the command line says about its cache and its length.
fn shaped(mut workload: Workload, args: &SimulateArgs) -> Result<Workload, Failure> {
    if let Some(budget) = args.budget {
        workload.cache_per_server = budget;
    }
    let length = &mut workload.length;
    let warmup = args.warmup.unwrap_or(length.warmup);
    if let Some(duration) = args.duration {
        if duration <= warmup {
            return Err(Failure::usage(format!(
                "--duration {duration} does not go beyond the warm-up of {warmup}: make it longer, or --warmup shorter"
            )));
        }
        length.measured = duration - warmup;
    }
    length.warmup = warmup;
    Ok(workload)
}

/// All runs, two or more at a time; those that were not begun when the user stopped are missing.
fn execute(plan: &Plan, stop: &'static AtomicBool) -> Result<Vec<Run>, Failure> {
    let jobs =
        plan.seeds.iter().flat_map(|&seed| plan.policies.iter().map(move |&policy| (seed, policy)));
    let mut runs =
        pool::run(plan, &jobs.collect::<Vec<_>>(), stop, std::io::stderr().is_terminal())?;
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
        .filter_map(|run| Some((run.seed, calm_p99(&run.outcome)?)))
        .collect();
    for run in runs {
        let of_seed = calm.iter().find(|(seed, _)| *seed == run.seed);
        run.objective =
            of_seed.map(|(_, p99)| Nanos::from_secs_f64(p99.as_secs_f64() * DEMO_OBJECTIVE_FACTOR));
        // Without an objective there is no ratio: JSON shows null.
        run.outcome.slo_violation_ratio =
            run.objective.map_or(f64::NAN, |objective| run.outcome.violation_ratio(objective));
    }
}

/// Median P99 of the first third.
fn calm_p99(outcome: &Outcome) -> Option<Nanos> {
    let end_s = outcome.series.latency.last()?.at_s;
    outcome.p99_median_between(0.0, end_s / 3.0)
}
