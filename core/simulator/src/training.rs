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
use crate::outcome::{Outcome, Series};
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
    let shares = outcome.backends.iter().map(|backend| backend.cache_share_mean);
    Ok(Some(limits_in_proportion(workload, shares)?))
}

/// What [`static_limits`] would give, bit for bit, read off a whole run of `robinhood` on the same workload with the same seed and options. `None` when
/// it cannot be read there: the run was not that, not complete, or so long that its series is thinned.
pub fn static_limits_from_run(
    workload: &Workload,
    options: &Options,
    run: &Outcome,
) -> Option<Vec<Bytes>> {
    let is_thinned = run.series.control.len() >= Series::control_points_max(run.backends.len()) / 2;
    if run.policy != PolicyKind::Robinhood || !run.complete || is_thinned {
        return None;
    }
    let slot = options.slot();
    // The training ends with the slot in which its time is over.
    let end = Nanos(training_length(workload).0.div_ceil(slot.0) * slot.0);
    let end_s = (end - workload.length.warmup).as_secs_f64();
    let points = || run.series.control.iter().take_while(|point| point.at_s <= end_s);
    let periods = points().count();
    let mean = |backend: usize| {
        points().map(|point| point.cache_share[backend]).fold(0.0, |sum, share| sum + share)
            / periods as f64
    };
    if periods == 0 {
        return None;
    }
    limits_in_proportion(workload, (0..run.backends.len()).map(mean)).ok()
}

fn limits_in_proportion(
    workload: &Workload,
    shares: impl Iterator<Item = f64>,
) -> Result<Vec<Bytes>, SimulationError> {
    let shares = workload.names().cloned().zip(shares).collect();
    let limits = Allocation::in_proportion(workload.cache_per_server, shares)?;
    let limit = |name: &BackendName| limits.get(name).expect("an allocation of all backends");
    Ok(workload.names().map(limit).collect())
}
