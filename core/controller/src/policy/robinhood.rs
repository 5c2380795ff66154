//! `robinhood`: the pot goes to the backends in proportion to the requests of the tail that they block.
//!
//! Source: RobinHood (OSDI'18) sections 3.1 and 3.2: weight = RBC. Deviations: RBC is a real number from bucketed
//! latencies (the paper counts single requests), and time outside all queries has a count but gets nothing. The
//! tax, the gap rule and the local decision are the controller's, for every policy alike.

use super::{Policy, Proposal};
use crate::observation::Observation;

/// The paper's policy. Without state: the same observation always gives the same proposal.
#[derive(Clone, Copy, Debug, Default)]
pub struct RobinHood;

impl Policy for RobinHood {
    fn name(&self) -> &'static str {
        "robinhood"
    }

    fn propose(&mut self, observation: &Observation) -> Proposal {
        Proposal::Weights(observation.backends.iter().map(|backend| backend.rbc).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{observation, weights};
    use super::*;

    #[test]
    fn weights_are_the_blocking_counts_whatever_else_is_seen() {
        // 40 requests in the band: the second blocked 24.5 of them, the first 8, nobody's own time and backends elsewhere the rest.
        let mut seen = observation(3, |index, backend| {
            backend.rbc = [8.0, 24.5, 0.0][index];
            (backend.queries, backend.misses) = ([1_000, 10, 1_000][index], 10);
        });
        (seen.own_rbc, seen.unpartitioned_rbc) = (5.0, 2.5);
        assert_eq!(weights(&mut RobinHood, &seen), [8.0, 24.5, 0.0]);
    }
}
