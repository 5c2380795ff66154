//! The runs of a reproduction: read from the state folder where they are done, else made and kept there.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use robinhood_controller::{Allocation, PolicyKind};
use robinhood_simulator::{
    Simulation, SimulationError, static_limits, static_limits_from_run, training_length,
};
use robinhood_stats::Bytes;
use robinhood_workload::Workload;

use super::experiments::{Experiment, Job, Plan};
use super::state::{Record, State};
use crate::failure::Failure;
use crate::workers::{self, Part};

/// Why a lock can be had.
const UNHARMED: &str = "no thread panics with the lock";

/// Everything that is known of the runs.
pub(super) type Records = BTreeMap<Job, Record>;

/// Makes runs and remembers them.
pub(super) struct Runner<'a> {
    pub(super) plan: &'a Plan,
    pub(super) state: &'a State,
    pub(super) threads: usize,
    pub(super) stop: &'a AtomicBool,
}

/// Why a run was not made.
enum Unmade {
    Stopped,
    Failed(Failure),
}

impl From<SimulationError> for Unmade {
    fn from(error: SimulationError) -> Self {
        Self::Failed(Failure::configuration(error))
    }
}

impl From<Failure> for Unmade {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Runner<'_> {
    /// Adds the records of these jobs to those that are there.
    ///
    /// # Errors
    /// When the user stopped it before all were made; what is made is kept.
    pub(super) fn obtain(&self, jobs: &[Job], records: &mut Records) -> Result<(), Failure> {
        let mut missing = Vec::new();
        for &job in jobs {
            match self.state.load(self.plan, job, &self.plan.workload(job.experiment)) {
                Some(record) => drop(records.insert(job, record)),
                None => missing.push(job),
            }
        }
        let known = Mutex::new(std::mem::take(records));
        let draw = std::io::stderr().is_terminal();
        let results = workers::run(&missing, self.threads, self.stop, draw, |&job, part| {
            let record = self.make(job, part, &known)?;
            known.lock().expect(UNHARMED).insert(job, record);
            Ok(())
        });
        *records = known.into_inner().expect("no thread panicked");
        for result in results {
            if let Err(Unmade::Failed(failure)) = result {
                return Err(failure);
            }
        }
        let done = jobs.iter().filter(|job| records.contains_key(job)).count();
        if done < jobs.len() {
            return Err(Failure::failed(format!(
                "interrupted: {done} of {} runs are kept; the same command goes on with the others",
                jobs.len()
            )));
        }
        Ok(())
    }

    fn make(
        &self,
        job: Job,
        part: &mut Part<'_>,
        known: &Mutex<Records>,
    ) -> Result<Record, Unmade> {
        let workload = self.plan.workload(job.experiment);
        let mut budgeted = workload.clone();
        let mut options = self.plan.options.clone();
        // Limits that were not learned yet take a part of the time.
        let mut before_s = 0.0;
        if job.policy == PolicyKind::Static {
            let given = self.given_limits(job, &workload, &known.lock().expect(UNHARMED))?;
            let (limits, budget) = match given {
                Some(given) => given,
                None => {
                    let training = self.plan.workload(Experiment::Spikes);
                    before_s = training_length(&training).as_secs_f64();
                    let all_s = before_s + length_s(&workload);
                    (self.train(&training, job.seed, part, all_s)?, workload.cache_per_server)
                }
            };
            (options.limits, budgeted.cache_per_server) = (Some(limits), budget);
        }
        let all_s = before_s + length_s(&workload);
        let simulation = Simulation::new(&budgeted, job.policy, job.seed, options)?;
        let outcome = simulation.run(&mut |progress| {
            part.reach((before_s + progress.now.as_secs_f64()) / all_s);
            self.go_on()
        });
        if !outcome.complete {
            return Err(Unmade::Stopped);
        }
        let is_teacher =
            (job.experiment, job.policy) == (Experiment::Spikes, PolicyKind::Robinhood);
        let learned = || static_limits_from_run(&workload, &self.plan.options, &outcome);
        let limits = is_teacher.then(learned).flatten();
        let record = Record::new(outcome, limits);
        Ok(self.state.store(self.plan, job, &workload, &record)?)
    }

    /// The limits of `static` and what they sum to, where the runs that they come from are there.
    fn given_limits(
        &self,
        job: Job,
        workload: &Workload,
        known: &Records,
    ) -> Result<Option<(Vec<Bytes>, Bytes)>, Unmade> {
        if let Some(percent) = job.maxima_percent {
            return maxima(known, job, workload, percent).map(Some);
        }
        let teacher = Job::new(Experiment::Spikes, PolicyKind::Robinhood, job.seed);
        let learned = known.get(&teacher).and_then(|record| record.static_limits.clone());
        Ok(learned.map(|limits| (limits, workload.cache_per_server)))
    }

    /// The limits of `static`, where the run that has them was not made.
    fn train(
        &self,
        training: &Workload,
        seed: u64,
        part: &mut Part<'_>,
        all_s: f64,
    ) -> Result<Vec<Bytes>, Unmade> {
        let limits = static_limits(training, seed, &self.plan.options, &mut |progress| {
            part.reach(progress.now.as_secs_f64() / all_s);
            self.go_on()
        })?;
        limits.ok_or(Unmade::Stopped)
    }

    fn go_on(&self) -> ControlFlow<()> {
        if self.stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

fn length_s(workload: &Workload) -> f64 {
    (workload.length.warmup + workload.length.measured).as_secs_f64()
}

/// Limits in proportion to the highest that `robinhood` had in this experiment, and what they sum to: so many percent of the cache.
fn maxima(
    known: &Records,
    job: Job,
    workload: &Workload,
    percent: u32,
) -> Result<(Vec<Bytes>, Bytes), Unmade> {
    let robinhood = Job::new(job.experiment, PolicyKind::Robinhood, job.seed);
    let record = known.get(&robinhood).expect("the run of `robinhood` comes first");
    let budget = Bytes(workload.cache_per_server.0 / 100 * u64::from(percent));
    let shares = workload.names().cloned().zip(record.cache_share_max.iter().copied()).collect();
    let limits = Allocation::in_proportion(budget, shares)
        .map_err(|error| Unmade::from(SimulationError::from(error)))?;
    let limit = |name| limits.get(name).expect("an allocation of all backends");
    Ok((workload.names().map(limit).collect(), budget))
}
