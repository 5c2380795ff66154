//! Probabilities of the Poisson distribution without loss of digits.
//!
//! Place in the flow: under the M/D/c queue, which adds up very many of them. Source: the saddle-point form of Loader, "Fast and Accurate
//! Computation of Binomial Probabilities" (2000), section 3: large parts of the exponent are never computed, instead of cancelling.

/// Below this count the product is exact enough, and Stirling's series is not.
const SMALL: u64 = 16;

/// Probability of exactly `count` events when `mean` are expected.
pub(crate) fn probability(count: u64, mean: f64) -> f64 {
    if count < SMALL {
        return (1..=count).fold(libm::exp(-mean), |term, k| term * mean / k as f64);
    }
    let x = count as f64;
    let distance = (x - mean) / x;
    // x ln(x / mean) + mean - x
    let deviance = x * (-libm::log1p(-distance) - distance);
    libm::exp(-stirling_error(x) - deviance) / libm::sqrt(2.0 * std::f64::consts::PI * x)
}

/// ln(x!) minus Stirling's formula for it, for `x` from [`SMALL`] up.
fn stirling_error(x: f64) -> f64 {
    let square = x * x;
    let inner = 1.0 / 1_260.0 - (1.0 / 1_680.0 - 1.0 / (1_188.0 * square)) / square;
    (1.0 / 12.0 - (1.0 / 360.0 - inner / square) / square) / x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_sum_to_one_and_follow_the_recursion() {
        for mean in [0.01, 1.0, 15.5, 16.0, 400.0, 90_000.0] {
            let last = (mean + 40.0 * libm::sqrt(mean) + 40.0) as u64;
            let all: f64 = (0..last).map(|count| probability(count, mean)).sum();
            assert!((all - 1.0).abs() < 1e-11, "{mean}: {all}");
            for count in (0..30).chain([mean as u64]) {
                let next = probability(count, mean) * mean / (count + 1) as f64;
                let found = probability(count + 1, mean);
                // Where nobody looks, the distance from the mean costs digits.
                let allowed = if next > 1e-30 { 1e-12 } else { 1e-9 };
                assert!((found - next).abs() <= allowed * next, "{mean} {count}: {found} {next}");
            }
        }
    }
}
