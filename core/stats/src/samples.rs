//! How many samples a percentile needs, and between which ranks of the sorted samples it lies.
//!
//! Place in the flow: before a percentile is printed; one with too few samples is refused. The interval is the classical one of order
//! statistics (David and Nagaraja, "Order Statistics", third edition, section 7.1): the number of samples below the true quantile is binomial
//! whatever the distribution, so two ranks enclose it with a known probability. Equal tails: each end misses with at most half of what the
//! confidence leaves, so that neither the minimum nor the maximum serves as a bound for want of samples.
//!
//! The samples must be independent. Latencies behind a queue are not: at 80 % load such an interval is some seven times too short, and
//! [`crate::quantile_interval`] holds instead. The needed number of samples is a lower bound either way.

use serde::{Deserialize, Serialize};

use crate::distributions::binomial_cdf;

/// The ranks, from 1 for the smallest sample, of the two samples that enclose a quantile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankInterval {
    /// Rank of the lower end, at least 1.
    pub lower: u64,
    /// Rank of the upper end, at most the number of samples.
    pub upper: u64,
}

/// There is no two-sided interval of a quantile from so few samples.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "P{} with a {} % interval needs {needed} samples; there are {samples}",
    percent(*quantile), percent(*confidence)
)]
pub struct TooFewSamples {
    /// The quantile, between 0 and 1.
    pub quantile: f64,
    /// The confidence asked for, between 0 and 1.
    pub confidence: f64,
    /// Samples that there are.
    pub samples: u64,
    /// Samples that are needed.
    pub needed: u64,
}

/// In percent, without the noise of the last digits.
fn percent(share: f64) -> f64 {
    libm::round(share * 1e10) / 1e8
}

/// The smallest number of independent samples from which a two-sided interval of this quantile can be told: 368 for P99, 3,688 for P99.9 and
/// 36,887 for P99.99 at a confidence of 0.95.
///
/// # Panics
/// When `quantile` or `confidence` is not between 0 and 1, both excluded.
pub fn samples_needed(quantile: f64, confidence: f64) -> u64 {
    check(quantile, confidence);
    let miss = (1.0 - confidence) / 2.0;
    let extreme = quantile.max(1.0 - quantile);
    // All samples lie on one side of the quantile with probability extreme^n.
    let mut needed = libm::ceil(libm::log(miss) / libm::log(extreme)).max(1.0) as u64;
    let can_miss = |samples: u64| libm::pow(extreme, samples as f64) > miss;
    while can_miss(needed) {
        needed += 1; // the logarithms were rounded
    }
    while needed > 1 && !can_miss(needed - 1) {
        needed -= 1;
    }
    needed
}

/// The ranks that enclose a quantile with at least this confidence, exact for every number of samples.
///
/// # Errors
/// When there are fewer than [`samples_needed`].
///
/// # Panics
/// When `quantile` or `confidence` is not between 0 and 1, both excluded.
pub fn rank_interval(
    samples: u64,
    quantile: f64,
    confidence: f64,
) -> Result<RankInterval, TooFewSamples> {
    let needed = samples_needed(quantile, confidence);
    if samples < needed {
        return Err(TooFewSamples { quantile, confidence, samples, needed });
    }
    let miss = (1.0 - confidence) / 2.0;
    // Below the sample of rank r lies the quantile when fewer than r samples are below it.
    let lower = first_above(samples, |below| binomial_cdf(below, samples, quantile) > miss);
    // Above the sample of rank r lies it when at least r samples are below it.
    let upper = first_above(samples, |below| binomial_cdf(below, samples, quantile) >= 1.0 - miss);
    Ok(RankInterval { lower: lower.max(1), upper: upper + 1 })
}

/// The smallest of `0..=last` for which `holds`, which stays true once it is.
fn first_above(last: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, last);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

fn check(quantile: f64, confidence: f64) {
    assert!(quantile > 0.0 && quantile < 1.0, "a quantile is between 0 and 1, not {quantile}");
    assert!(
        confidence > 0.0 && confidence < 1.0,
        "a confidence is between 0 and 1, not {confidence}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::normal_quantile;
    use proptest::prelude::*;

    #[test]
    fn the_needed_numbers_are_those_that_percentiles_are_known_for() {
        for (quantile, needed) in
            [(0.5, 6), (0.9, 36), (0.99, 368), (0.999, 3_688), (0.9999, 36_887), (0.01, 368)]
        {
            assert_eq!(samples_needed(quantile, 0.95), needed, "{quantile}");
        }
    }

    #[test]
    fn one_sample_less_than_needed_is_refused_with_the_number() {
        let refused = rank_interval(367, 0.99, 0.95).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "P99 with a 95 % interval needs 368 samples; there are 367"
        );
        assert_eq!(rank_interval(368, 0.99, 0.95), Ok(RankInterval { lower: 360, upper: 368 }));
        let refused = rank_interval(5, 0.9999, 0.95).unwrap_err().to_string();
        assert!(refused.starts_with("P99.99 "), "{refused}");
    }

    #[test]
    fn ranks_are_those_of_another_implementation_of_the_binomial_distribution() {
        for (samples, quantile, lower, upper) in [
            (6, 0.5, 1, 6),
            (100, 0.5, 40, 61),
            (1_000, 0.99, 983, 997),
            (1_000_000, 0.99, 989_805, 990_196),
            (10_000_000, 0.999, 9_989_804, 9_990_196),
            (1_000_000_000, 0.9999, 999_899_380, 999_900_620),
        ] {
            assert_eq!(
                rank_interval(samples, quantile, 0.95),
                Ok(RankInterval { lower, upper }),
                "{samples} {quantile}"
            );
        }
    }

    #[test]
    fn many_samples_come_to_the_normal_approximation() {
        for (samples, quantile) in [(10_000_000u64, 0.9), (100_000_000, 0.99), (1_000_000_000, 0.5)]
        {
            let RankInterval { lower, upper } = rank_interval(samples, quantile, 0.95).unwrap();
            let half =
                normal_quantile(0.975) * (samples as f64 * quantile * (1.0 - quantile)).sqrt();
            assert!(((upper - lower) as f64 - 2.0 * half).abs() < 2.5, "{samples} {quantile}");
        }
    }

    proptest! {
        #[test]
        fn intervals_cover_with_the_confidence_and_could_not_be_shorter_at_either_end(
            more in 0u64..3_000, quantile in 0.01f64..0.995, confidence in 0.5f64..0.999,
        ) {
            let samples = samples_needed(quantile, confidence) + more;
            let RankInterval { lower, upper } = rank_interval(samples, quantile, confidence).unwrap();
            prop_assert!(1 <= lower && lower < upper && upper <= samples);
            let miss = (1.0 - confidence) / 2.0;
            let slack = 1e-9;
            let below = |rank: u64| binomial_cdf(rank - 1, samples, quantile); // fewer than `rank` below it
            prop_assert!(below(lower) <= miss + slack && below(lower + 1) >= miss - slack);
            prop_assert!(1.0 - below(upper) <= miss + slack);
            prop_assert!(upper == lower + 1 || 1.0 - below(upper - 1) >= miss - slack);
        }
    }
}
