//! `equal`: the same bytes for everybody. The baseline of the baselines.

use robinhood_stats::Bytes;

use super::{Policy, Proposal};
use crate::allocation::Allocation;
use crate::holds::HoldReason;
use crate::observation::Observation;

/// Splits the bytes evenly among the partitions there are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Equal;

impl Policy for Equal {
    fn name(&self) -> &'static str {
        "equal"
    }

    fn propose(&mut self, observation: &Observation) -> Proposal {
        let names = observation.backends.iter().map(|backend| &backend.name);
        match Allocation::equal(observation.budget, names, Bytes::ZERO) {
            Ok(split) => Proposal::Target(split),
            Err(error) => Proposal::Hold(HoldReason::Policy(error.to_string())),
        }
    }
}
