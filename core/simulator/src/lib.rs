//! The multi-tier system in virtual time.
//!
//! Place in the flow: joins the workload with the same cache, blocking and controller code that live runs use, and says what a policy would do to
//! the tail. Source: RobinHood (OSDI'18) sections 4 and 5; the testbed there is real, here only its queues are.
//!
//! From arrival to result: [`simulation`] lets time pass, `world` holds application servers and backends, `control` moves the limits,
//! `gauges` measure, [`outcome`] is the result; [`training`] finds limits to keep, [`mod@calibrate`] the servers for a
//! utilisation. A run is single-threaded; several runs at once are the caller's business.

mod app_server;
mod control;
mod fetches;
mod flight;
mod gauges;
mod insight;
mod queue;
mod recent;
mod reports;
mod sensors;
mod source;
mod thinned;
mod world;

pub mod calibrate;
pub mod growth;
pub mod options;
pub mod outcome;
pub mod simulation;
pub mod training;

pub use calibrate::{CalibratedBackend, Calibration, CalibrationError, calibrate};
pub use growth::LoadGrowth;
pub use options::Options;
pub use outcome::{
    BackendOutcome, ControlPoint, LatencyDistribution, LatencyPoint, Outcome, Series,
};
pub use simulation::{Progress, Simulation};
pub use source::SourceError;
pub use training::{static_limits, static_limits_from_run, static_limits_of, training_length};

use robinhood_stats::Nanos;

/// Why a run cannot begin.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimulationError {
    /// The workload cannot run.
    #[error(transparent)]
    Workload(#[from] robinhood_workload::WorkloadError),
    /// An option is outside its range.
    #[error("option `{option}` is {found}: allowed is {allowed}")]
    Option {
        /// The option.
        option: &'static str,
        /// What was given.
        found: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The part of a run that the limits of `static` come from is too short.
    #[error(
        "the limits of `static` come from the first fifth of the measured part: {part}, which is shorter than a control period of {period}; make the run longer"
    )]
    ShortTraining {
        /// A fifth of the measured part.
        part: Nanos,
        /// The control period.
        period: Nanos,
    },
    /// The recorded stream broke off in the training of `static`.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The limits at the start do not make an allocation.
    #[error(transparent)]
    Allocation(#[from] robinhood_controller::AllocationError),
    /// The controller refuses its settings.
    #[error(transparent)]
    Controller(#[from] robinhood_controller::ConfigError),
    /// The collector refuses its settings.
    #[error(transparent)]
    Collector(#[from] robinhood_blocking::ConfigError),
}

#[cfg(test)]
mod closed_forms;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod witness;
