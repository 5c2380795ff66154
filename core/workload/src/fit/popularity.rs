//! Popularity from counts: how often each key of a backend was asked for.
//!
//! Keys are anonymous and their true ranks are not known, and most keys of a large catalogue were seen once or never: a line through counts over ranks is steeper or
//! flatter than the popularity that made them. So the *profile* is fitted: how many keys were asked for once, twice, and so on. Under a popularity with
//! shares p, the count of a key is close to Poisson with mean n p, and the profile's expectation is the sum of these over all keys, seen or not. The exponent of a Zipf
//! law is the one of greatest likelihood of the profile; for each exponent the catalogue is the one with which as many keys are seen as were. Where no Zipf law comes
//! near the profile, keys are put into buckets of equal popularity: a mixture of Poisson laws on a grid of means, by the iteration of Richardson and Lucy.

use std::sync::Arc;

use crate::popularity::{Popularity, PopularityBucket, PopularityBuckets};

/// Exponents are looked for from 0 to this one.
const EXPONENT_MAX: f64 = 2.5;
/// Steps of the first look.
const EXPONENT_STEP: f64 = 0.05;
/// A Zipf law is taken if the cumulated queries by count differ from the stream's by no more than this share of all queries.
const GAP_MAX: f64 = 0.02;
/// Catalogues are at most so many times the keys that were seen.
const UNSEEN_MAX: f64 = 1_000.0;
/// Ranks below this one are looked at one by one, the others in groups.
const RANKS_SINGLE: f64 = 64.0;
/// Growth of the groups of ranks, of the bins of counts, and of the grid of means.
const RANK_GROWTH: f64 = 1.05;
const BIN_GROWTH: f64 = 1.3;
const MEAN_GROWTH: f64 = 1.1;
/// The least mean of the grid: of keys that are hardly ever seen nothing is known.
const MEAN_MIN: f64 = 0.1;
/// Steps of the iteration; later ones change hit ratios by less than a thousandth.
const ITERATIONS: usize = 300;

/// How popularity is described.
#[derive(Clone, Debug, PartialEq)]
pub struct PopularityFit {
    /// Keys, seen or not.
    pub catalogue: u32,
    /// How queries are distributed over them.
    pub popularity: Popularity,
    /// How far the cumulated queries by count that are expected are from the stream's, as a share of all queries.
    pub gap: f64,
}

/// Bins of counts, and how many keys of the stream are in each.
struct Profile {
    /// The largest count of each bin; the first bin is 1 alone.
    last: Vec<u32>,
    keys: Vec<f64>,
    /// Queries of these keys.
    queries: Vec<f64>,
    /// All queries, and all keys with one.
    all_queries: f64,
    seen: f64,
}

/// The popularity of keys with these counts; zeros are keys that were not asked for. `None` without any query.
pub(super) fn fit(counts: &[u32]) -> Option<PopularityFit> {
    let profile = Profile::of(counts)?;
    let zipf = profile.zipf();
    if zipf.gap <= GAP_MAX {
        return Some(zipf);
    }
    let buckets = profile.buckets();
    Some(if buckets.gap < zipf.gap { buckets } else { zipf })
}

impl Profile {
    fn of(counts: &[u32]) -> Option<Self> {
        let most = counts.iter().copied().max().filter(|&most| most > 0)?;
        let mut last = vec![1_u32];
        while last[last.len() - 1] < most {
            let before = last[last.len() - 1];
            last.push(((f64::from(before) * BIN_GROWTH) as u32).max(before + 1));
        }
        let mut profile = Self {
            keys: vec![0.0; last.len()],
            queries: vec![0.0; last.len()],
            last,
            all_queries: 0.0,
            seen: 0.0,
        };
        for &count in counts.iter().filter(|count| **count > 0) {
            let bin = profile.last.partition_point(|&last| last < count);
            profile.keys[bin] += 1.0;
            profile.queries[bin] += f64::from(count);
            profile.all_queries += f64::from(count);
            profile.seen += 1.0;
        }
        Some(profile)
    }

    /// Chance of each bin for a key with this mean count.
    fn chances(&self, mean: f64) -> Vec<f64> {
        let mut below = libm::exp(-mean); // of a count of 0
        // The last bin is open: no count lies above it, and none could.
        let open = self.last[self.last.len() - 1];
        let bin = |&last: &u32| {
            let to = if last == open { 1.0 } else { poisson_at_most(last, mean) };
            let chance = (to - below).max(0.0);
            below = to.max(below);
            chance
        };
        self.last.iter().map(bin).collect()
    }

    /// Keys expected in each bin, from groups of (keys, mean count).
    fn expected(&self, groups: &[(f64, f64)]) -> Vec<f64> {
        let mut expected = vec![0.0; self.last.len()];
        for &(keys, mean) in groups {
            for (sum, chance) in expected.iter_mut().zip(self.chances(mean)) {
                *sum += keys * chance;
            }
        }
        expected
    }

    /// Up to a constant; larger is better.
    fn log_likelihood(&self, expected: &[f64]) -> f64 {
        let of_bin = |(&keys, &expected): (&f64, &f64)| {
            let expected = expected.max(1e-12);
            if keys > 0.0 { keys * libm::log(expected) - expected } else { -expected }
        };
        self.keys.iter().zip(expected).map(of_bin).sum()
    }

    /// How far the cumulated queries by count are from the stream's: the least that, with a bin more or less, is not exceeded anywhere. (Of the one most popular key
    /// it is chance on which side of an edge its count falls.)
    fn gap(&self, expected: &[f64]) -> f64 {
        let (mut own, mut model) = (Vec::new(), Vec::new());
        let (mut own_sum, mut model_sum) = (0.0, 0.0);
        for (bin, &expected) in expected.iter().enumerate() {
            // Queries of a key in the bin: as in the stream, or the middle of the bin.
            let first = if bin == 0 { 1 } else { self.last[bin - 1] + 1 };
            let middle = f64::midpoint(f64::from(first), f64::from(self.last[bin]));
            let each =
                if self.keys[bin] > 0.0 { self.queries[bin] / self.keys[bin] } else { middle };
            own_sum += self.queries[bin] / self.all_queries;
            model_sum += expected * each / self.all_queries;
            own.push(own_sum);
            model.push(model_sum);
        }
        let last = own.len() - 1;
        let beyond = |bin: usize| {
            let below = if bin == 0 { 0.0 } else { own[bin - 1] };
            (below - model[bin]).max(model[bin] - own[(bin + 1).min(last)])
        };
        (0..=last).map(beyond).fold(0.0, f64::max)
    }

    fn zipf(&self) -> PopularityFit {
        let likelihood = |exponent: f64| {
            let groups = self.zipf_groups(self.zipf_catalogue(exponent), exponent);
            self.log_likelihood(&self.expected(&groups))
        };
        let steps = (EXPONENT_MAX / EXPONENT_STEP) as u32;
        let all = (0..=steps).map(|step| f64::from(step) * EXPONENT_STEP);
        let best = all
            .map(|exponent| (exponent, likelihood(exponent)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .expect("there are steps")
            .0;
        let (low, high) = ((best - EXPONENT_STEP).max(0.0), best + EXPONENT_STEP);
        let exponent = maximum(low, high, likelihood);
        let catalogue = self.zipf_catalogue(exponent).round();
        let expected = self.expected(&self.zipf_groups(catalogue, exponent));
        PopularityFit {
            catalogue: catalogue.clamp(1.0, f64::from(u32::MAX)) as u32,
            popularity: Popularity::Zipf { exponent },
            gap: self.gap(&expected),
        }
    }

    /// The catalogue with which as many keys are seen as were.
    fn zipf_catalogue(&self, exponent: f64) -> f64 {
        let seen = |catalogue: f64| {
            let groups = self.zipf_groups(catalogue, exponent);
            groups.iter().map(|&(keys, mean)| keys * -libm::expm1(-mean)).sum::<f64>()
        };
        // Half a key less: that many are seen as often as not.
        let wanted = self.seen - 0.5;
        let (mut low, mut high) = (self.seen, self.seen * UNSEEN_MAX);
        if seen(low) >= wanted {
            return low;
        }
        for _ in 0..40 {
            let middle = libm::sqrt(low * high);
            if seen(middle) < wanted {
                low = middle;
            } else {
                high = middle;
            }
        }
        high.min(f64::from(u32::MAX))
    }

    /// Keys and their mean counts, in groups of neighbouring ranks.
    fn zipf_groups(&self, catalogue: f64, exponent: f64) -> Vec<(f64, f64)> {
        let mut groups = Vec::new();
        let mut first = 1.0;
        while first <= catalogue {
            let wide = if first < RANKS_SINGLE { 1.0 } else { first * (RANK_GROWTH - 1.0) };
            let keys = wide.floor().min(catalogue - first + 1.0).max(f64::MIN_POSITIVE);
            let middle = first + (keys - 1.0).max(0.0) / 2.0;
            groups.push((keys, libm::pow(middle, -exponent)));
            first += wide.floor();
        }
        let sum: f64 = groups.iter().map(|(keys, share)| keys * share).sum();
        groups.iter_mut().for_each(|group| group.1 *= self.all_queries / sum);
        groups
    }

    /// Buckets of keys that are alike.
    fn buckets(&self) -> PopularityFit {
        let most = f64::from(self.last[self.last.len() - 1]);
        let mut means = vec![MEAN_MIN];
        while means[means.len() - 1] < most {
            means.push(means[means.len() - 1] * MEAN_GROWTH);
        }
        let chances: Vec<Vec<f64>> = means.iter().map(|&mean| self.chances(mean)).collect();
        let mut keys = vec![self.seen / means.len() as f64; means.len()];
        for _ in 0..ITERATIONS {
            let mut expected = vec![1e-12; self.last.len()];
            for (keys, chances) in keys.iter().zip(&chances) {
                expected.iter_mut().zip(chances).for_each(|(sum, chance)| *sum += keys * chance);
            }
            let ratio: Vec<f64> =
                self.keys.iter().zip(&expected).map(|(keys, expected)| keys / expected).collect();
            for (keys, chances) in keys.iter_mut().zip(&chances) {
                let seen: f64 = chances.iter().sum();
                let factor: f64 = ratio.iter().zip(chances).map(|(r, chance)| r * chance).sum();
                *keys *= factor / seen;
            }
        }
        let groups: Vec<(f64, f64)> = keys.into_iter().zip(means).collect();
        let gap = self.gap(&self.expected(&groups));
        let bucket = |&(keys, mean): &(f64, f64)| PopularityBucket { keys, accesses: keys * mean };
        // What stands for a thousandth of a key is none.
        let buckets: Vec<PopularityBucket> =
            groups.iter().map(bucket).filter(|bucket| bucket.keys > 1e-3).collect();
        let buckets = PopularityBuckets::new(buckets).expect("keys with counts make buckets");
        PopularityFit {
            catalogue: buckets.keys().round().clamp(1.0, f64::from(u32::MAX)) as u32,
            popularity: Popularity::Buckets(Arc::new(buckets)),
            gap,
        }
    }
}

/// Where a function with one maximum between two places has it, by the golden section.
fn maximum(mut low: f64, mut high: f64, of: impl Fn(f64) -> f64) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    for _ in 0..20 {
        let reach = (high - low) * GOLDEN;
        if of(high - reach) < of(low + reach) {
            low = high - reach;
        } else {
            high = low + reach;
        }
    }
    f64::midpoint(low, high)
}

/// Chance that a Poisson number with this mean is at most so large: summed up for small means, else by Wilson and Hilferty's cube root.
fn poisson_at_most(most: u32, mean: f64) -> f64 {
    const SUMMED_MAX: f64 = 20.0;
    if mean < SUMMED_MAX {
        if f64::from(most) > 6.0 * SUMMED_MAX {
            return 1.0;
        }
        let mut term = libm::exp(-mean);
        let mut sum = term;
        for count in 1..=most {
            term *= mean / f64::from(count);
            sum += term;
        }
        return sum.min(1.0);
    }
    let freedom = 2.0 * (f64::from(most) + 1.0);
    let spread = 2.0 / (9.0 * freedom);
    let z = (libm::cbrt(2.0 * mean / freedom) - (1.0 - spread)) / libm::sqrt(spread);
    0.5 * libm::erfc(z / core::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chance_of_a_poisson_number_is_the_same_both_ways() {
        // Summed in logarithms, for means where the cube root is used.
        let summed = |most: u32, mean: f64| -> f64 {
            let term = |k: u32| {
                let k = f64::from(k);
                libm::exp(k * libm::log(mean) - mean - libm::lgamma(k + 1.0))
            };
            (0..=most).map(term).sum()
        };
        for mean in [20.0, 50.0, 300.0] {
            for deviations in [-3.0, -1.0, 0.0, 1.0, 3.0] {
                let most = (mean + deviations * libm::sqrt(mean)) as u32;
                let (found, expected) = (poisson_at_most(most, mean), summed(most, mean));
                assert!((found - expected).abs() < 1e-3, "{most} {mean}: {found} {expected}");
            }
        }
        assert!((poisson_at_most(3, 2.0) - summed(3, 2.0)).abs() < 1e-12);
        assert_eq!(poisson_at_most(1_000, 2.0), 1.0);
    }

    #[test]
    fn without_queries_there_is_no_popularity() {
        assert_eq!(fit(&[]), None);
        assert_eq!(fit(&[0, 0]), None);
        let one = fit(&[0, 7]).unwrap();
        assert_eq!(one.catalogue, 1, "{one:?}");
    }
}
