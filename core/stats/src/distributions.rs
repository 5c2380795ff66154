//! Distribution functions and quantiles that tests and intervals ask for: normal, Student, chi-squared, binomial.
//!
//! Place in the flow: under every verdict of this crate. Everything comes from two functions, the regularised incomplete beta and gamma
//! functions, by the continued fractions of the NIST handbook (dlmf.nist.gov, 8.17.22 and 8.9.2; the series 8.7.1 where the fraction is slow),
//! evaluated as in Thompson and Barnett, "Coulomb and Bessel functions of complex arguments and order" (1986). Relative errors stay below
//! 1e-10 up to degrees of freedom or counts of 10^5 and below 1e-5 up to 10^9. Functions beyond the four operations and the square root come
//! from `libm`, so that every machine computes the same bits.

mod normal;

pub use normal::{normal_cdf, normal_quantile};

/// Terms after which a series or fraction must have settled: counts of 10^9 need some 10^5.
const TERMS_MAX: u32 = 10_000_000;

/// Changes below this end a series or fraction.
const SETTLED: f64 = 1e-15;

/// The probability that a Student-distributed number is at least as far from 0 as `t`: the two-sided p-value of a t statistic.
///
/// # Panics
/// When `degrees_of_freedom` is not positive.
pub fn student_two_sided(t: f64, degrees_of_freedom: f64) -> f64 {
    assert!(degrees_of_freedom > 0.0, "degrees of freedom are positive, not {degrees_of_freedom}");
    incomplete_beta(
        degrees_of_freedom / (degrees_of_freedom + t * t),
        degrees_of_freedom / 2.0,
        0.5,
    )
}

/// The number that a Student-distributed number stays below with this probability.
///
/// # Panics
/// When `probability` is not between 0 and 1, both excluded, or `degrees_of_freedom` is not positive.
pub fn student_quantile(probability: f64, degrees_of_freedom: f64) -> f64 {
    assert!(probability > 0.0 && probability < 1.0, "no quantile of probability {probability}");
    if probability < 0.5 {
        return -student_quantile(1.0 - probability, degrees_of_freedom);
    }
    let beyond = 2.0 * (1.0 - probability);
    let (mut low, mut high) = (0.0, 1.0);
    while student_two_sided(high, degrees_of_freedom) > beyond {
        (low, high) = (high, 2.0 * high);
    }
    // Each halving adds a bit; 60 of them reach the last one.
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        let bound = if student_two_sided(middle, degrees_of_freedom) > beyond {
            &mut low
        } else {
            &mut high
        };
        *bound = middle;
    }
    0.5 * (low + high)
}

/// The probability that a chi-squared number exceeds `x`.
///
/// # Panics
/// When `degrees_of_freedom` is not positive or `x` is negative.
pub fn chi_squared_exceeds(x: f64, degrees_of_freedom: f64) -> f64 {
    assert!(degrees_of_freedom > 0.0, "degrees of freedom are positive, not {degrees_of_freedom}");
    assert!(x >= 0.0, "a sum of squares is not negative: {x}");
    upper_incomplete_gamma(degrees_of_freedom / 2.0, x / 2.0)
}

/// The probability that at most `successes` of `trials` independent trials succeed, each with probability `share`.
///
/// # Panics
/// When `share` is outside 0..=1.
pub fn binomial_cdf(successes: u64, trials: u64, share: f64) -> f64 {
    assert!((0.0..=1.0).contains(&share), "a probability is from 0 to 1, not {share}");
    if successes >= trials {
        return 1.0;
    }
    incomplete_beta(1.0 - share, (trials - successes) as f64, successes as f64 + 1.0)
}

/// The regularised incomplete beta function I(x; a, b).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction settles fast below the mean; above it the mirrored one does.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta_below(1.0 - x, b, a);
    }
    incomplete_beta_below(x, a, b)
}

fn incomplete_beta_below(x: f64, a: f64, b: f64) -> f64 {
    let log_scale = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b)
        + a * libm::log(x)
        + b * libm::log1p(-x);
    let fraction = continued_fraction(1.0, |term| {
        let m = f64::from(term / 2);
        let numerator = if term % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        (numerator, 1.0)
    });
    libm::exp(log_scale) / (a * fraction)
}

/// The regularised upper incomplete gamma function Q(a, x).
fn upper_incomplete_gamma(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 1.0;
    }
    let scale = libm::exp(a * libm::log(x) - x - libm::lgamma(a));
    if x < a + 1.0 {
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for n in 1..TERMS_MAX {
            term *= x / (a + f64::from(n));
            sum += term;
            if term < sum * SETTLED {
                break;
            }
        }
        return 1.0 - scale * sum;
    }
    let fraction = continued_fraction(x + 1.0 - a, |term| {
        let n = f64::from(term);
        (-n * (n - a), x + 2.0 * n + 1.0 - a)
    });
    scale / fraction
}

/// `first + n1 / (d1 + n2 / (d2 + ...))`, with `(n, d)` by term from 1 up.
fn continued_fraction(first: f64, terms: impl Fn(u32) -> (f64, f64)) -> f64 {
    /// Stands for a denominator that comes out as zero.
    const TINY: f64 = 1e-300;
    let away_from_zero = |x: f64| if x.abs() < TINY { TINY } else { x };
    let mut value = away_from_zero(first);
    let (mut forward, mut backward) = (value, 0.0);
    for term in 1..TERMS_MAX {
        let (numerator, denominator) = terms(term);
        backward = 1.0 / away_from_zero(denominator + numerator * backward);
        forward = away_from_zero(denominator + numerator / forward);
        value *= forward * backward;
        if (forward * backward - 1.0).abs() < SETTLED {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(found: f64, expected: f64, relative: f64) {
        assert!((found / expected - 1.0).abs() < relative, "{found} is not {expected}");
    }

    #[test]
    fn incomplete_beta_and_gamma_have_the_values_of_a_30_digit_computation() {
        for (a, b, x, expected) in [
            (2.0, 3.0, 0.4, 0.5248),
            (0.5, 0.5, 0.3, 0.369_010_119_565_545_38),
            (30.0, 70.0, 0.25, 0.135_814_904_283_427_44),
            (1_000.0, 10.0, 0.985, 0.064_181_370_239_722_76),
            (36_887.0, 1.0, 0.9999, 0.024_999_875_170_745_333),
        ] {
            assert_near(incomplete_beta(x, a, b), expected, 1e-10);
        }
        for (a, x, expected) in [
            (0.5, 1.2, 0.121_335_250_358_482_15),
            (3.0, 2.5, 0.543_813_115_883_329_5),
            (16.0, 10.0, 0.951_259_596_696_021_3),
            (15.7, 30.0, 0.001_565_913_214_167_750_8),
            (500.0, 450.0, 0.989_282_761_908_710_2),
        ] {
            assert_near(upper_incomplete_gamma(a, x), expected, 1e-11);
        }
    }

    #[test]
    fn student_quantiles_are_those_of_the_printed_tables() {
        for (degrees_of_freedom, probability, expected) in [
            (1.0, 0.975, 12.706_204_736_174_694),
            (2.0, 0.975, 4.302_652_729_749_462),
            (5.0, 0.975, 2.570_581_835_636_314_6),
            (10.0, 0.995, 3.169_272_672_616_95),
            (19.0, 0.6, 0.256_922_819_796_154_67),
            (30.0, 0.1, -1.310_415_025_391_395_5),
            (120.0, 0.975, 1.979_930_405_082_440_2),
        ] {
            assert_near(student_quantile(probability, degrees_of_freedom), expected, 1e-12);
            let beyond = 2.0 * f64::min(probability, 1.0 - probability);
            assert_near(student_two_sided(expected, degrees_of_freedom), beyond, 1e-12);
        }
        assert_near(student_two_sided(-2.570_581_835_636_314_6, 5.0), 0.05, 1e-12);
    }

    #[test]
    fn binomial_probabilities_are_sums_of_their_terms() {
        let choose = [1.0, 10.0, 45.0, 120.0, 210.0, 252.0, 210.0, 120.0, 45.0, 10.0, 1.0];
        for share in [0.1, 0.5, 0.93] {
            let mut sum = 0.0;
            for (successes, ways) in (0..).zip(choose) {
                sum += ways
                    * libm::pow(share, f64::from(successes))
                    * libm::pow(1.0 - share, f64::from(10 - successes));
                assert_near(binomial_cdf(successes as u64, 10, share), sum, 1e-12);
            }
        }
        assert_near(binomial_cdf(985, 1_000, 0.99), 0.082_412_319_516_089_2, 1e-11);
        assert_near(binomial_cdf(998_950, 1_000_000, 0.999), 0.059_535_717_315_681_3, 1e-8);
    }

    #[test]
    fn chi_squared_with_two_degrees_of_freedom_is_exponential() {
        for x in [0.0, 0.1, 1.0, 2.0, 5.0, 60.0] {
            assert_near(chi_squared_exceeds(x, 2.0), libm::exp(-x / 2.0), 1e-12);
        }
    }
}
