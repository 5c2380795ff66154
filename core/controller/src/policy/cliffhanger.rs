//! `cliffhanger`: the most hits. A byte goes where it turns most queries into hits: weight = queries x slope of the hit
//! ratio at the present limit.
//!
//! Source: Cliffhgr++ of RobinHood (OSDI'18) section 5.1, after Cliffhanger (NSDI'16), whose hill climbing compares these
//! gradients one miss at a time (`cliffhanger-credits`). Deviations: the gradient comes as a number with the observation, and the step is the
//! controller's, not a credit for each hit in a shadow queue; Cliffhanger's second half, which splits queues to climb over cliffs of
//! the hit ratio curve, is not here.

use super::{Policy, Proposal};
use crate::holds::HoldReason;
use crate::observation::{BackendObservation, Observation};

/// Maximises hits. Without state: the same observation always gives the same proposal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cliffhanger;

impl Policy for Cliffhanger {
    fn name(&self) -> &'static str {
        "cliffhanger"
    }

    fn propose(&mut self, observation: &Observation) -> Proposal {
        let backends = &observation.backends;
        if backends.iter().all(|backend| backend.hit_slope_per_byte.is_none()) {
            let reason = "nobody measures the slope of the hit ratios here: choose another policy";
            return Proposal::Hold(HoldReason::Policy(reason.to_owned()));
        }
        let weight = |backend: &BackendObservation| {
            backend.queries as f64 * backend.hit_slope_per_byte.unwrap_or(0.0).max(0.0)
        };
        Proposal::Weights(backends.iter().map(weight).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{observation, weights};
    use super::*;

    fn with_slopes(slopes: &[(u64, Option<f64>)]) -> Observation {
        observation(slopes.len(), |index, backend| {
            (backend.queries, backend.hit_slope_per_byte) = slopes[index];
        })
    }

    #[test]
    fn weights_are_the_hits_that_one_more_byte_brings() {
        // 1,000 queries with a flat curve gain less than 10 with a steep one.
        let seen = with_slopes(&[(1_000, Some(0.25)), (10, Some(50.0)), (1_000, Some(0.0))]);
        assert_eq!(weights(&mut Cliffhanger, &seen), [250.0, 500.0, 0.0]);
    }

    #[test]
    fn a_backend_that_is_not_measured_or_has_no_queries_gets_nothing() {
        let seen = with_slopes(&[(1_000, None), (0, Some(1.0)), (2, Some(1.0))]);
        assert_eq!(weights(&mut Cliffhanger, &seen), [0.0, 0.0, 2.0]);
    }

    #[test]
    fn a_falling_curve_is_no_gain() {
        let seen = with_slopes(&[(10, Some(-1.0)), (10, Some(1.0))]);
        assert_eq!(weights(&mut Cliffhanger, &seen), [0.0, 10.0]);
    }

    #[test]
    fn without_any_slope_it_holds_and_says_why() {
        let proposal = Cliffhanger.propose(&with_slopes(&[(1_000, None), (10, None)]));
        let Proposal::Hold(reason) = proposal else { panic!("a hold, not {proposal:?}") };
        assert!(reason.to_string().contains("nobody measures the slope"), "{reason}");
    }
}
