//! `fair`: everybody gets the same hit ratio. A backend below the mean hit ratio of all backends is granted in
//! proportion to how far it is below, mean over own; one at or above it gets nothing.
//!
//! Source: FAIR++ of RobinHood (OSDI'18) section 5.1, which equalises what FairRide (NSDI'16) equalises among users.
//! As in the paper's code the mean is over backends, not over queries, and a backend that never hits gets nothing:
//! space does not help who asks each key once. Deviations: a backend without queries in the statistics span has no
//! hit ratio and is not part of the mean, and one under the gap rule counts with its own, where the paper's code takes
//! it for one that never hits. Blocking of users who do not pay (FairRide itself) has no counterpart here.

use super::{Policy, Proposal};
use crate::observation::{BackendObservation, Observation};

/// Equalises hit ratios. Without state: the same observation always gives the same proposal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fair;

impl Policy for Fair {
    fn name(&self) -> &'static str {
        "fair"
    }

    fn propose(&mut self, observation: &Observation) -> Proposal {
        let ratios: Vec<Option<f64>> =
            observation.backends.iter().map(BackendObservation::hit_ratio).collect();
        let known = ratios.iter().flatten().count().max(1);
        let mean = ratios.iter().flatten().sum::<f64>() / known as f64;
        let weight = |ratio: &Option<f64>| match *ratio {
            Some(ratio) if 0.0 < ratio && ratio < mean => mean / ratio,
            _ => 0.0,
        };
        Proposal::Weights(ratios.iter().map(weight).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{observation, weights};
    use super::*;

    fn with_hits(counts: &[(u64, u64)]) -> Observation {
        observation(counts.len(), |index, backend| {
            (backend.queries, backend.hits) = counts[index];
            backend.misses = backend.queries - backend.hits;
        })
    }

    #[test]
    fn backends_below_the_mean_hit_ratio_weigh_mean_over_own() {
        // Hit ratios 0.9, 0.4 and 0.2: their mean is 0.5, however many queries each has.
        let seen = with_hits(&[(1_000, 900), (10, 4), (100, 20)]);
        assert_eq!(weights(&mut Fair, &seen), [0.0, 1.25, 2.5]);
    }

    #[test]
    fn a_backend_without_hits_lowers_the_mean_and_gets_nothing() {
        // 0.8, 0.2 and 0: the mean is 1/3.
        let weights = weights(&mut Fair, &with_hits(&[(10, 8), (10, 2), (10, 0)]));
        assert_eq!((weights[0], weights[2]), (0.0, 0.0));
        assert!((weights[1] - 5.0 / 3.0).abs() < 1e-12, "{weights:?}");
    }

    #[test]
    fn a_backend_without_queries_is_no_part_of_the_mean() {
        // 0.8 and 0.2: the mean is 0.5.
        assert_eq!(weights(&mut Fair, &with_hits(&[(10, 8), (0, 0), (10, 2)])), [0.0, 0.0, 2.5]);
    }

    #[test]
    fn equal_hit_ratios_and_no_queries_at_all_move_nothing() {
        for counts in [[(10, 5), (20, 10)], [(0, 0), (0, 0)]] {
            assert_eq!(weights(&mut Fair, &with_hits(&counts)), [0.0, 0.0]);
        }
    }
}
