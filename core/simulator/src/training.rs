//! The limits of `static`, found by the paper's way.
//!
//! Place in the flow: before a run of `static`, whose [`Options::limits`] they become. Source: RobinHood (OSDI'18) section 5.1, TAO++: what
//! `robinhood` chose on average in the first 20 % of the main experiment, used for all experiments. Here the 20 % are of the measured part: the
//! warm-up is where a cache still finds its balance.

use std::ops::ControlFlow;

use robinhood_controller::{Allocation, PolicyKind};
use robinhood_stats::{BackendName, Bytes, Instant, Nanos};
use robinhood_workload::Workload;

use crate::SimulationError;
use crate::options::Options;
use crate::simulation::{Progress, Simulation};

/// The training takes one in so many parts of the measured part.
const PARTS: u64 = 5;

/// The virtual time that [`static_limits`] simulates: the warm-up and a fifth of the measured part.
pub fn training_length(workload: &Workload) -> Nanos {
    workload.length.warmup + Nanos(workload.length.measured.0 / PARTS)
}

/// The mean limits of `robinhood` over the first fifth of the measured part, in the order of the workload's backends; they sum to the cache of a
/// server. `None` when `progress` stopped the training; its end is that of [`training_length`].
///
/// # Errors
/// When the workload or the options cannot work, or when the fifth is shorter than a control period.
pub fn static_limits(
    workload: &Workload,
    seed: u64,
    options: &Options,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Option<Vec<Bytes>>, SimulationError> {
    let simulation = Simulation::new(workload, PolicyKind::Robinhood, seed, options.clone())?;
    static_limits_of(simulation, workload, options, progress)
}

/// Like [`static_limits`], of a run that is given: of `workload` under `robinhood` with these options.
///
/// # Errors
/// When the fifth is shorter than a control period, or the recorded stream breaks off in it.
pub fn static_limits_of(
    simulation: Simulation,
    workload: &Workload,
    options: &Options,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Option<Vec<Bytes>>, SimulationError> {
    let end = Instant::ZERO + training_length(workload);
    let mut is_stopped = false;
    let outcome = simulation.run(&mut |so_far| {
        is_stopped |= progress(Progress { end, ..so_far }).is_break();
        if is_stopped || so_far.now >= end {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    if is_stopped {
        return Ok(None);
    }
    if let Some(error) = outcome.source_error {
        return Err(error.into());
    }
    if outcome.series.control.is_empty() {
        return Err(SimulationError::ShortTraining {
            part: end.since(Instant::ZERO + workload.length.warmup),
            period: options.scaled(options.period),
        });
    }
    let share = |backend: &crate::BackendOutcome| (backend.name.clone(), backend.cache_share_mean);
    let mean = outcome.backends.iter().map(share).collect();
    let mean = Allocation::in_proportion(workload.cache_per_server, mean)?;
    let limit = |name: &BackendName| mean.get(name).expect("an outcome has all backends");
    Ok(Some(workload.names().map(limit).collect()))
}
