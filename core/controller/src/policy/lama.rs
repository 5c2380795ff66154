//! `lama`: everybody gets the same query latency. A backend whose P99 of batches that missed exceeds 0.9 times the
//! mean of these P99s weighs its P99; the others get nothing.
//!
//! Source: LAMA++ of RobinHood (OSDI'18) section 5.1, after LAMA (ATC'15), whose latency form minimises what misses
//! cost in time. The threshold of 0.9 is that of the paper's code. Deviations: the P99s are those of the statistics
//! span over all application servers, in buckets of an eighth of an octave; a backend without a miss in the span has
//! none and is not part of the mean (in the paper's code it counts as zero). LAMA's own dynamic programme on footprint
//! curves is `lama-curves`.

use robinhood_stats::Nanos;

use super::{Policy, Proposal};
use crate::observation::Observation;

/// The share of the mean P99 above which a backend receives.
const THRESHOLD: f64 = 0.9;

/// Equalises query latencies. Without state: the same observation always gives the same proposal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lama;

impl Policy for Lama {
    fn name(&self) -> &'static str {
        "lama"
    }

    fn propose(&mut self, observation: &Observation) -> Proposal {
        let ms = |p99: Option<Nanos>| p99.map(Nanos::as_millis_f64);
        let p99s_ms: Vec<Option<f64>> =
            observation.backends.iter().map(|backend| ms(backend.miss_batch_p99)).collect();
        let known = p99s_ms.iter().flatten().count().max(1);
        let mean_ms = p99s_ms.iter().flatten().sum::<f64>() / known as f64;
        let weight = |p99_ms: &Option<f64>| match *p99_ms {
            Some(p99_ms) if p99_ms > THRESHOLD * mean_ms => p99_ms,
            _ => 0.0,
        };
        Proposal::Weights(p99s_ms.iter().map(weight).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::{observation, weights};
    use super::*;

    fn with_p99s_ms(p99s_ms: &[Option<u64>]) -> Observation {
        observation(p99s_ms.len(), |index, backend| {
            backend.miss_batch_p99 = p99s_ms[index].map(Nanos::from_millis);
        })
    }

    #[test]
    fn backends_above_nine_tenths_of_the_mean_weigh_their_p99() {
        // The mean is 100 ms: 91 ms is above 90 ms, and 90 ms is not.
        let seen = with_p99s_ms(&[Some(91), Some(90), Some(169), Some(50)]);
        assert_eq!(weights(&mut Lama, &seen), [91.0, 0.0, 169.0, 0.0]);
    }

    #[test]
    fn a_backend_without_misses_is_no_part_of_the_mean_and_gets_nothing() {
        // The mean of the two is 100 ms; with a third of 0 ms it would be 67 ms, and 80 ms would receive.
        assert_eq!(
            weights(&mut Lama, &with_p99s_ms(&[Some(120), None, Some(80)])),
            [120.0, 0.0, 0.0]
        );
    }

    #[test]
    fn equal_p99s_weigh_the_same_and_no_misses_at_all_move_nothing() {
        assert_eq!(weights(&mut Lama, &with_p99s_ms(&[Some(40), Some(40)])), [40.0, 40.0]);
        assert_eq!(weights(&mut Lama, &with_p99s_ms(&[None, None])), [0.0, 0.0]);
    }
}
