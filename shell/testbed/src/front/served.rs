//! A stack for a front: built from a workload, checked against the machine, filled and started.
//!
//! Place in the flow: before a front is opened. It is the stack of a demo with one difference: backends keep their capacity, so that what a
//! load sees does not depend on how long the server has been running.

use std::sync::Arc;

use robinhood_load_tester::RunClock;
use robinhood_stats::Bytes;
use robinhood_workload::{Capacity, Workload};

use crate::check::MachineCheck;
use crate::experiment::{ExperimentError, Phase, Prepared, QUEUE_MAX, Source};
use crate::stack::{CacheKind, ColdStack, Stack, StackConfig, StackKind};

/// What to serve.
#[derive(Clone, Debug)]
pub struct ServedStackConfig {
    /// The backends, their data and their limits; one application server. Capacities that change over time are left out.
    pub workload: Workload,
    /// Requests that fill the cache, and service factors.
    pub seed: u64,
    /// How the cache is divided.
    pub kind: StackKind,
    /// Bytes of the cache; `None`: what the workload says.
    pub budget: Option<Bytes>,
    /// All times of the paper (control period 5 s, SLO window 60 s, SLO step 5 s) are divided by this, 1 to 100.
    pub time_scale: f64,
}

/// A stack that runs, and what was measured before.
pub struct ServedStack {
    /// The stack.
    pub stack: Arc<Stack>,
    /// What the machine can do; the backends are slower by its slowdown.
    pub check: MachineCheck,
}

impl ServedStack {
    /// Builds the data, measures the machine, fills the cache and starts the stack; some seconds of work for the demo. `progress`
    /// is told each phase as it begins.
    ///
    /// # Errors
    /// Whatever is wrong with configuration, workload or machine.
    pub fn start(
        config: ServedStackConfig,
        progress: &mut dyn FnMut(Phase),
    ) -> Result<Self, ExperimentError> {
        let ServedStackConfig { mut workload, seed, kind, budget, time_scale } = config;
        if !(1.0..=100.0).contains(&time_scale) {
            return Err(ExperimentError::TimeScale(time_scale));
        }
        workload.capacities.fill(Capacity::default());
        progress(Phase::Building);
        let Prepared { dataset, prefix, requests_per_second, .. } =
            Source::Generated(workload).prepare(seed)?;
        let budget = budget.unwrap_or(dataset.workload().cache_per_server);
        let name = kind.policy().as_str().to_owned();
        let cache = CacheKind::Process;
        let config = StackConfig { name, kind, cache, budget, time_scale, queue_max: QUEUE_MAX };
        let stack = ColdStack::new(config, Arc::clone(&dataset))?;
        progress(Phase::Checking);
        let check = MachineCheck::run(&dataset, 1, requests_per_second)?;
        progress(Phase::Filling);
        stack.prefill(&prefix)?;
        let clock = RunClock::start();
        let stack = Arc::new(stack.start(check.slowdown, clock, clock.now())?);
        progress(Phase::Ready);
        Ok(Self { stack, check })
    }
}
