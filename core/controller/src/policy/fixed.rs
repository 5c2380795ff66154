//! `static`: limits that somebody chose, kept for ever.
//!
//! Source: TAO++ of RobinHood (OSDI'18) section 5.1, where they are what RobinHood chose on average in a training
//! run. Deviation: a cache that starts elsewhere goes there by the step. Finding the limits is the simulator's work (crate `robinhood-simulator`, `training`).

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

#[cfg(test)]
mod tests {
    use robinhood_stats::Bytes;

    use super::super::cases::observation;
    use super::*;

    #[test]
    fn the_limits_stay_whatever_is_seen() {
        let seen = observation(2, |index, backend| backend.rbc = index as f64);
        let limits =
            seen.backends.iter().map(|backend| backend.name.clone()).zip([70, 130].map(Bytes));
        let chosen = Allocation::new(Bytes(200), limits.collect(), |_| Bytes::ZERO).unwrap();
        let mut policy = Fixed::new(chosen.clone());
        assert_eq!(policy.propose(&seen), Proposal::Target(chosen.clone()));
        let later = observation(2, |index, backend| backend.rbc = 9.0 - index as f64);
        assert_eq!(policy.propose(&later), Proposal::Target(chosen));
    }
}
