//! Popularity: Zipf ranks with any exponent from 0 up, in constant time.
//!
//! Place in the flow: the generator turns random bits into keys here, for every query. Key 0 is the most popular one, so popular keys are
//! neighbours in every table that is indexed by key.
//!
//! Method: the inverse of the distribution function is tabulated at 4,096 equal steps of probability and interpolated between them. Deviation from
//! the exact distribution: inside one step all ranks share the step's probability evenly. A step spans less than 1 % in rank where it holds many
//! ranks, and the most popular ranks span many steps, so that the distribution function is off by at most 1e-4 anywhere.

const STEP_BITS: u32 = 12;
const STEPS: usize = 1 << STEP_BITS;
/// Below this rank the weights are added one by one, above it by the integral, whose relative error is below 1e-6 there.
const EXACT_RANKS: u32 = 2_048;

/// A table that turns random bits into ranks: probability of rank k (from 0) proportional to 1 / (k + 1)^exponent.
#[derive(Clone, Debug, PartialEq)]
pub struct Zipf {
    /// The rank, with a fraction, below which a share of i / `STEPS` of the probability lies. Single precision: the tables of all backends share the
    /// processor's cache, and where ranks are too large for it a step holds thousands of them.
    knots: Vec<f32>,
    catalogue: u32,
}

impl Zipf {
    /// Ranks 0 to `catalogue - 1`.
    ///
    /// # Panics
    /// When the catalogue is empty, or the exponent is negative or not finite.
    pub fn new(catalogue: u32, exponent: f64) -> Self {
        assert!(catalogue > 0, "a catalogue has at least one key");
        assert!(
            exponent >= 0.0 && exponent.is_finite(),
            "a Zipf exponent is a number from 0 up, not {exponent}"
        );
        let mut cumulative = vec![0.0];
        for rank in 1..=catalogue.min(EXACT_RANKS) {
            let weight = libm::pow(f64::from(rank), -exponent);
            cumulative.push(cumulative[rank as usize - 1] + weight);
        }
        let tail = Tail::new(exponent, cumulative.len() - 1, cumulative[cumulative.len() - 1]);
        let total = tail.cumulative(f64::from(catalogue));
        let mut head = 0;
        let mut knot = |step: usize| {
            let target = total * step as f64 / STEPS as f64;
            if target >= cumulative[cumulative.len() - 1] {
                return tail.rank(target).min(f64::from(catalogue));
            }
            while cumulative[head + 1] <= target {
                head += 1;
            }
            head as f64 + (target - cumulative[head]) / (cumulative[head + 1] - cumulative[head])
        };
        let mut knots: Vec<f32> = (0..STEPS).map(|step| knot(step) as f32).collect();
        knots.push(catalogue as f32);
        Self { knots, catalogue }
    }

    /// The rank for 64 random bits.
    #[inline]
    pub fn rank(&self, bits: u64) -> u32 {
        let step = (bits >> (64 - STEP_BITS)) as usize;
        let fraction = ((bits << STEP_BITS) >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0);
        let (low, high) = (f64::from(self.knots[step]), f64::from(self.knots[step + 1]));
        ((low + fraction * (high - low)) as u32).min(self.catalogue - 1)
    }

    /// The probability of a rank below `rank`, by the table.
    pub(crate) fn share_below(&self, rank: u32) -> f64 {
        let rank = f64::from(rank);
        let step = self.knots.partition_point(|&knot| f64::from(knot) <= rank).clamp(1, STEPS);
        let (low, high) = (f64::from(self.knots[step - 1]), f64::from(self.knots[step]));
        let inside = if high > low { ((rank - low) / (high - low)).min(1.0) } else { 1.0 };
        (step as f64 - 1.0 + inside) / STEPS as f64
    }

    /// The number of keys.
    pub const fn catalogue(&self) -> u32 {
        self.catalogue
    }
}

/// Sums of weights beyond the exact part, by the integral of the weight from half a rank before to half a rank behind.
struct Tail {
    exponent: f64,
    start: f64,
    before: f64,
}

impl Tail {
    fn new(exponent: f64, start: usize, before: f64) -> Self {
        Self { exponent, start: start as f64, before }
    }

    /// Weights of ranks 1 to `rank`.
    fn cumulative(&self, rank: f64) -> f64 {
        self.before + self.integral(rank + 0.5) - self.integral(self.start + 0.5)
    }

    /// The rank at which the weights add up to `target`.
    fn rank(&self, target: f64) -> f64 {
        let integral = target - self.before + self.integral(self.start + 0.5);
        let power = 1.0 - self.exponent;
        let end = if power.abs() < 1e-9 {
            libm::exp(integral)
        } else {
            libm::pow(integral * power, 1.0 / power)
        };
        (end - 0.5).max(self.start)
    }

    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 { libm::log(x) } else { libm::pow(x, power) / power }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::{Draws, Purpose};
    use robinhood_stats::BackendId;

    #[test]
    fn the_table_agrees_with_the_exact_distribution_everywhere() {
        for (catalogue, exponent) in [
            (300_000, 1.05),
            (100_000, 0.5),
            (50_000, 1.0),
            (20_000, 1.1),
            (7, 0.6),
            (1_000, 0.0),
            (1, 0.9),
        ] {
            let zipf = Zipf::new(catalogue, exponent);
            let weight = |rank: u32| libm::pow(f64::from(rank + 1), -exponent);
            let total: f64 = (0..catalogue).map(weight).sum();
            let mut below = 0.0;
            for rank in 0..catalogue {
                let deviation = (zipf.share_below(rank) - below / total).abs();
                assert!(deviation < 1e-4, "{catalogue} {exponent} rank {rank}: {deviation}");
                below += weight(rank);
            }
        }
    }

    #[test]
    fn sampled_frequencies_match_and_ranks_stay_in_the_catalogue() {
        let zipf = Zipf::new(1_000, 0.9);
        let sequence = Draws::new(5).at(Purpose::Key, 0, BackendId(0));
        let mut counts = vec![0u32; 1_000];
        for i in 0..400_000 {
            counts[zipf.rank(sequence.bits(i)) as usize] += 1;
        }
        let total: f64 = (1..=1_000).map(|k| libm::pow(f64::from(k), -0.9)).sum();
        for rank in [0usize, 1, 2, 10, 99] {
            let expected = 400_000.0 * libm::pow(rank as f64 + 1.0, -0.9) / total;
            let error = (f64::from(counts[rank]) - expected).abs() / expected.sqrt();
            assert!(error < 5.0, "rank {rank}: {} instead of {expected}", counts[rank]);
        }
        assert_eq!(zipf.rank(0), 0);
        assert_eq!(zipf.rank(u64::MAX), 999);
    }
}
