//! The runs of a plan, several at once.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use robinhood_controller::PolicyKind;
use robinhood_simulator::{
    Progress, SimulationError, static_limits_from_run, static_limits_of, training_length,
};
use robinhood_stats::Bytes;

use super::plan::Plan;
use super::{Failed, Job, Run};
use crate::workers::{self, Part};

/// What became of the jobs so far; nothing of one that was stopped before it began.
type Results = Mutex<Vec<Result<Option<Run>, Failed>>>;

/// Executes all runs of some plans, those that need the result of another last; after `stop` is set, the runs under way end with what they have and no other
/// begins. A run that cannot be made does not keep the others from it. Gives for each plan its runs, as they are typed, and what could not be made.
pub(super) fn run(plans: &[Plan], stop: &AtomicBool, draw: bool) -> Vec<(Vec<Run>, Vec<Failed>)> {
    let of_plan = |(number, plan): (usize, &Plan)| {
        plan.jobs().into_iter().map(move |job| (number, job)).collect::<Vec<_>>()
    };
    let mut jobs: Vec<(usize, Job)> = plans.iter().enumerate().flat_map(of_plan).collect();
    jobs.sort_by_key(|&(_, (_, policy))| policy == PolicyKind::Static);
    let finished: Vec<Results> = plans.iter().map(|_| Results::default()).collect();
    workers::run(&jobs, plans[0].threads, stop, draw, |&(number, job), part| {
        let finished = &finished[number];
        let result = one(&plans[number], job, stop, part, finished);
        let result = result.map_err(|error| Failed { job, error });
        finished.lock().expect("no thread panics with the lock").push(result);
    });
    finished.into_iter().zip(plans).map(|(results, plan)| sorted(results, plan)).collect()
}

/// Seed by seed, and of each seed its policies, whichever thread was first.
fn sorted(results: Results, plan: &Plan) -> (Vec<Run>, Vec<Failed>) {
    let (mut runs, mut failed) = (Vec::new(), Vec::new());
    for result in results.into_inner().expect("no thread panicked") {
        match result {
            Ok(run) => runs.extend(run),
            Err(error) => failed.push(error),
        }
    }
    let jobs = plan.jobs();
    let place = |wanted: Job| jobs.iter().position(|&job| job == wanted);
    runs.sort_by_key(|run: &Run| place((run.seed, run.policy)));
    failed.sort_by_key(|failed: &Failed| place(failed.job));
    (runs, failed)
}

fn one(
    plan: &Plan,
    job: Job,
    stop: &AtomicBool,
    part: &mut Part<'_>,
    finished: &Results,
) -> Result<Option<Run>, SimulationError> {
    made(plan, job, finished, &mut |share| {
        part.reach(share);
        if stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
}

/// One run for itself. `reach` hears how much of it is done, from 0 to 1, and may stop it.
pub(super) fn alone(
    plan: &Plan,
    job: Job,
    reach: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> Result<Option<Run>, SimulationError> {
    made(plan, job, &Results::default(), reach)
}

/// One run, after its training if the policy is `static`. `None` when it was stopped before the run itself began.
fn made(
    plan: &Plan,
    (seed, policy): Job,
    finished: &Results,
    reach: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> Result<Option<Run>, SimulationError> {
    let mut options = plan.options.clone();
    let training = match policy {
        PolicyKind::Static => training_length(&plan.training).as_secs_f64(),
        _ => 0.0,
    };
    let length = (plan.workload.length.warmup + plan.workload.length.measured).as_secs_f64();
    let mut count = |before_s: f64, progress: Progress| {
        reach((before_s + progress.now.as_secs_f64()) / (training + length))
    };
    if policy == PolicyKind::Static {
        let mut train = || {
            let robinhood = (seed, PolicyKind::Robinhood);
            let simulation = plan.simulation(&plan.training, robinhood, options.clone())?;
            static_limits_of(simulation, &plan.training, &options, &mut |progress| {
                count(0.0, progress)
            })
        };
        let limits = match known_limits(plan, seed, finished) {
            Some(limits) => Some(limits),
            None => train()?,
        };
        let Some(limits) = limits else { return Ok(None) };
        options.limits = Some(limits);
    }
    let started = Instant::now();
    let simulation = plan.simulation(&plan.workload, (seed, policy), options)?;
    let outcome = simulation.run(&mut |progress| count(training, progress));
    Ok(Some(Run {
        seed,
        policy,
        outcome,
        objective: None,
        growth: Vec::new(),
        wall_seconds: started.elapsed().as_secs_f64(),
    }))
}

/// What the training of `static` would give, when `robinhood` has already run what it would simulate.
fn known_limits(plan: &Plan, seed: u64, finished: &Results) -> Option<Vec<Bytes>> {
    if plan.workload != plan.training {
        return None;
    }
    let finished = finished.lock().expect("no thread panics with the lock");
    let mut runs = finished.iter().filter_map(|result| result.as_ref().ok()?.as_ref());
    let robinhood = runs.find(|run| (run.seed, run.policy) == (seed, PolicyKind::Robinhood))?;
    static_limits_from_run(&plan.workload, &plan.options, &robinhood.outcome)
}
