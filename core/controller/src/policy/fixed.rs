//! `static`: limits that somebody chose, kept for ever.
//!
//! Source: TAO++ of RobinHood (OSDI'18) section 5.1, where they are what RobinHood chose on average in a training
//! run. A cache that starts elsewhere goes there by the step.

use super::{Policy, Proposal};
use crate::allocation::Allocation;
use crate::observation::Observation;

/// Keeps one allocation.
#[derive(Clone, Debug)]
pub struct Fixed {
    allocation: Allocation,
}

impl Fixed {
    /// Keeps `allocation`. Backends that it does not know keep what they have, and another budget scales it: the
    /// controller fits it to the partitions there are.
    pub const fn new(allocation: Allocation) -> Self {
        Self { allocation }
    }
}

impl Policy for Fixed {
    fn name(&self) -> &'static str {
        "static"
    }

    fn propose(&mut self, _observation: &Observation) -> Proposal {
        Proposal::Target(self.allocation.clone())
    }
}
