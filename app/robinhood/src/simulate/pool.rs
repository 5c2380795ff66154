//! Runs on as many threads as asked for, one run never on two: the results do not depend on how many there are.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use robinhood_controller::PolicyKind;
use robinhood_simulator::{
    Progress, SimulationError, static_limits_from_run, static_limits_of, training_length,
};
use robinhood_stats::Bytes;

use super::plan::Plan;
use super::{Failed, Job, Run};

/// Progress is counted in millionths of a run.
const WHOLE_RUN: u64 = 1_000_000;

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
    let next = AtomicUsize::new(0);
    let done = AtomicU64::new(0);
    let finished = Results::default();
    let running = AtomicUsize::new(plan.threads.min(jobs.len()));
    std::thread::scope(|scope| {
        for _ in 0..running.load(Ordering::Relaxed) {
            scope.spawn(|| {
                while let Some(&job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let result = one(plan, job, stop, &done, &finished);
                    let result = result.map_err(|error| Failed { job, error });
                    finished.lock().expect("no thread panics with the lock").push(result);
                }
                running.fetch_sub(1, Ordering::Relaxed);
            });
        }
        if draw {
            show_progress(&done, jobs.len() as u64 * WHOLE_RUN, &running);
        }
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
    done: &AtomicU64,
    finished: &Results,
) -> Result<Option<Run>, SimulationError> {
    let mut options = plan.options.clone();
    let training = match policy {
        PolicyKind::Static => training_length(&plan.training).as_secs_f64(),
        _ => 0.0,
    };
    let length = (plan.workload.length.warmup + plan.workload.length.measured).as_secs_f64();
    let mut counted = 0;
    let mut count = |before_s: f64, progress: Progress| {
        let part_s = before_s + progress.now.as_secs_f64();
        let part = (part_s / (training + length) * WHOLE_RUN as f64) as u64;
        done.fetch_add(part.saturating_sub(counted), Ordering::Relaxed);
        counted = part.max(counted);
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

/// One line on standard error, drawn over itself, with the time left.
fn show_progress(done: &AtomicU64, whole: u64, running: &AtomicUsize) {
    let started = Instant::now();
    let mut error = std::io::stderr();
    while running.load(Ordering::Relaxed) > 0 {
        std::thread::sleep(Duration::from_millis(100));
        let share = done.load(Ordering::Relaxed) as f64 / whole as f64;
        if share > 0.0 {
            let left_s = started.elapsed().as_secs_f64() * (1.0 - share) / share;
            let _ = write!(error, "\r{:40}", progress_line(share, left_s));
            let _ = error.flush();
        }
    }
    let _ = write!(error, "\r{:40}\r", "");
}

fn progress_line(share: f64, left_s: f64) -> String {
    let left = match left_s {
        ..100.0 => format!("{left_s:.0} s"),
        ..6_000.0 => format!("{:.0} min", left_s / 60.0),
        _ => format!("{:.1} h", left_s / 3_600.0),
    };
    format!("{:3.0} %, {left} left", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_in_a_unit_that_people_read() {
        assert_eq!(progress_line(0.031, 14_400.0), "  3 %, 4.0 h left");
        assert_eq!(progress_line(0.5, 600.0), " 50 %, 10 min left");
        assert_eq!(progress_line(0.999, 0.7), "100 %, 1 s left");
    }
}
