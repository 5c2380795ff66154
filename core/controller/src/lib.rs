//! Observation to policy to allocation to resizes: what to do about the backends that make requests slow.
//!
//! Source: RobinHood (OSDI'18), sections 3.1 to 3.3 and 4.2. This is the paper's second half; the first, who makes
//! the tail slow, is the crate `robinhood-blocking`. Read the modules in the order of the flow:
//!
//! 1. [`observation`]: what is known at one moment, from all application servers and from the local cache.
//! 2. [`holds`]: when not to act, and why.
//! 3. [`policy`]: observation to proposal, one file for each policy.
//! 4. [`inputs`] and [`redistribution`]: proposal to new limits, a pure function with all the arithmetic.
//! 5. [`controller`]: the state machine around these: periods, modes, resizes that take their time.
//! 6. [`decision`]: the record of every period.
//!
//! Nothing here touches a cache, a clock or a socket. Agents and the simulator drive the same [`Controller`].

mod apportion;
mod granules;
mod groups;
mod membership;
mod period;

pub mod allocation;
pub mod config;
pub mod controller;
pub mod curve;
pub mod decision;
pub mod floors;
pub mod holds;
pub mod inputs;
pub mod observation;
pub mod partition;
pub mod policy;
pub mod protection;
pub mod redistribution;

pub use allocation::{Allocation, AllocationError, LimitChange};
pub use config::{ConfigError, ControllerConfig, MadeItWorseRule, Mode, PARTITIONS_MAX};
pub use controller::Controller;
pub use curve::{CURVE_POINTS_MAX, CurveError, CurvePart, MissRatioCurve};
pub use decision::Decision;
pub use floors::FloorRule;
pub use holds::HoldReason;
pub use inputs::{Inputs, Outcome, SkipReason, Standing, Terms, Wish};
pub use observation::{BackendObservation, Observation};
pub use partition::{PartitionUsage, Resize};
pub use policy::{
    Cliffhanger, CliffhangerCredits, Equal, Fair, Fixed, Lama, LamaCurves, Miss, Policy,
    PolicyKind, Proposal, RobinHood, Sight, UnknownPolicy,
};
pub use protection::{LoadBounds, Protected, Protection};
pub use redistribution::decide;
