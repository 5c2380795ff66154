//! `equal`: the same bytes for everybody. The baseline of the baselines, from no paper; all partitioned systems start there.

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

#[cfg(test)]
mod tests {
    use super::super::cases::observation;
    use super::*;

    #[test]
    fn the_bytes_are_split_evenly_to_the_byte_whatever_is_seen() {
        let mut seen = observation(3, |index, backend| backend.rbc = index as f64);
        seen.budget = Bytes(101);
        let Proposal::Target(target) = Equal.propose(&seen) else { panic!("a target") };
        let limits: Vec<u64> = target.iter().map(|(_, limit)| limit.0).collect();
        assert_eq!(limits, [34, 34, 33]);
    }
}
