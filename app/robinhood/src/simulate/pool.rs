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

/// Executes all jobs, those that need the result of another last; after `stop` is set, the runs under way end with what they have and no other begins.
/// A job that cannot be done does not keep the others from it.
pub(super) fn run(
    plan: &Plan,
    jobs: &[Job],
    stop: &AtomicBool,
    draw: bool,
) -> (Vec<Run>, Vec<Failed>) {
    let mut jobs = jobs.to_vec();
    jobs.sort_by_key(|&(_, policy)| policy == PolicyKind::Static);
    let finished = Results::default();
    workers::run(&jobs, plan.threads, stop, draw, |&job, part| {
        let result = one(plan, job, stop, part, &finished);
        let result = result.map_err(|error| Failed { job, error });
        finished.lock().expect("no thread panics with the lock").push(result);
    });
    let (mut runs, mut failed) = (Vec::new(), Vec::new());
    for result in finished.into_inner().expect("no thread panicked") {
        match result {
            Ok(run) => runs.extend(run),
            Err(error) => failed.push(error),
        }
    }
    let place = |failed: &Failed| jobs.iter().position(|&job| job == failed.job);
    failed.sort_by_key(place); // which thread was first is chance
    (runs, failed)
}

/// One run, after its training if the policy is `static`. `None` when the user stopped before the run itself began.
fn one(
    plan: &Plan,
    (seed, policy): Job,
    stop: &AtomicBool,
    part: &mut Part<'_>,
    finished: &Results,
) -> Result<Option<Run>, SimulationError> {
    let mut options = plan.options.clone();
    let training = match policy {
        PolicyKind::Static => training_length(&plan.training).as_secs_f64(),
        _ => 0.0,
    };
    let length = (plan.workload.length.warmup + plan.workload.length.measured).as_secs_f64();
    let mut count = |before_s: f64, progress: Progress| {
        part.reach((before_s + progress.now.as_secs_f64()) / (training + length));
        if stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
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
