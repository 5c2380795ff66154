//! Log-linear histograms: every octave of values is cut into the same number of equal buckets.
//!
//! The relative width of a bucket is at most `1 / 2^precision_bits`; values below `2^precision_bits` are exact. Counts are
//! integers, so merging is associative, commutative and exact.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// The mapping from values to buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLinear {
    precision_bits: u32,
}

impl LogLinear {
    /// Buckets at most `2^-precision_bits` wide, relative to their value.
    ///
    /// # Panics
    /// When `precision_bits` is over 16.
    pub const fn new(precision_bits: u32) -> Self {
        assert!(precision_bits <= 16, "more than 65,536 buckets an octave are not needed");
        Self { precision_bits }
    }

    /// The bucket that holds `value`.
    #[inline]
    pub const fn bucket(self, value: u64) -> usize {
        let bits = self.precision_bits;
        let magnitude = 63 - (value | 1).leading_zeros();
        if magnitude < bits {
            return value as usize;
        }
        let shift = magnitude - bits;
        (((shift as u64) << bits) + (value >> shift)) as usize
    }

    /// The smallest value of a bucket.
    pub const fn low(self, bucket: usize) -> u64 {
        let bits = self.precision_bits;
        let bucket = bucket as u64;
        let octave = bucket >> bits;
        if octave <= 1 {
            return bucket;
        }
        let shift = octave - 1;
        ((1 << bits) + (bucket & ((1 << bits) - 1))) << shift
    }

    /// The number of values in a bucket.
    pub const fn width(self, bucket: usize) -> u64 {
        let octave = bucket as u64 >> self.precision_bits;
        if octave <= 1 { 1 } else { 1 << (octave - 1) }
    }
}

/// Counts of values, with exact sum, minimum and maximum.
///
/// Memory grows with the largest value: 8 bytes for each bucket up to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    scale: LogLinear,
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Histogram {
    /// An empty histogram with buckets at most `2^-precision_bits` wide.
    pub const fn new(precision_bits: u32) -> Self {
        Self {
            scale: LogLinear::new(precision_bits),
            counts: Vec::new(),
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }

    /// For latencies: buckets at most 0.1 % wide.
    pub const fn precise() -> Self {
        Self::new(10)
    }

    /// Takes the memory for values up to `value` now, so that no later addition has to.
    pub fn reserve(&mut self, value: u64) {
        let buckets = self.scale.bucket(value) + 1;
        if buckets > self.counts.len() {
            self.counts.resize(buckets, 0);
        }
    }

    /// Adds one value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    /// Adds one length of time, in nanoseconds.
    #[inline]
    pub fn add_nanos(&mut self, value: Nanos) {
        self.add(value.0);
    }

    /// Adds `count` equal values.
    #[inline]
    pub fn add_many(&mut self, value: u64, count: u64) {
        if count == 0 {
            return;
        }
        let bucket = self.scale.bucket(value);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += count;
        self.count += count;
        self.sum += u128::from(value) * u128::from(count);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all values of another histogram.
    ///
    /// # Panics
    /// When the two have different precision.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(
            self.scale, other.scale,
            "histograms of different precision do not merge exactly"
        );
        if other.is_empty() {
            return;
        }
        let filled = self.scale.bucket(other.min)..self.scale.bucket(other.max) + 1;
        if filled.end > self.counts.len() {
            self.counts.resize(filled.end, 0);
        }
        for (mine, theirs) in self.counts[filled.clone()].iter_mut().zip(&other.counts[filled]) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets all values and keeps the memory.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        *self = Self {
            counts: std::mem::take(&mut self.counts),
            ..Self::new(self.scale.precision_bits)
        };
    }

    /// How many values were added.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Whether no value was added.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The exact sum of all values.
    pub const fn sum(&self) -> u128 {
        self.sum
    }

    /// The exact mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The exact maximum; `None` without values.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The exact minimum; `None` without values.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The value at a quantile from 0 to 1: the value of rank `ceil(q n)`, read off the bucket that holds it as if its
    /// values were spread evenly; never outside [minimum, maximum]. `None` without values.
    ///
    /// # Panics
    /// When `quantile` is outside 0..=1.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        assert!((0.0..=1.0).contains(&quantile), "a quantile is from 0 to 1, not {quantile}");
        if self.count == 0 {
            return None;
        }
        let rank = ((quantile * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut before = 0;
        let lowest = self.scale.bucket(self.min);
        for (bucket, &count) in self.counts.iter().enumerate().skip(lowest) {
            if before + count >= rank {
                let inside = (rank - before) as f64 - 0.5;
                let offset = self.scale.width(bucket) as f64 * inside / count as f64;
                return Some((self.scale.low(bucket) + offset as u64).clamp(self.min, self.max));
            }
            before += count;
        }
        unreachable!("the counts of all buckets add up to {}", self.count)
    }

    /// [`quantile`](Self::quantile) of lengths of time; zero without values.
    pub fn quantile_nanos(&self, quantile: f64) -> Nanos {
        Nanos(self.quantile(quantile).unwrap_or(0))
    }

    /// Non-empty buckets in rising order: smallest value of the bucket, width of the bucket, count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        filled.map(|(bucket, &count)| (self.scale.low(bucket), self.scale.width(bucket), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::precise();
        for &value in values {
            histogram.add(value);
        }
        histogram
    }

    proptest! {
        #[test]
        fn every_value_lies_in_its_bucket_and_buckets_are_narrow(value: u64, bits in 0u32..=16) {
            let scale = LogLinear::new(bits);
            let bucket = scale.bucket(value);
            let (low, width) = (scale.low(bucket), scale.width(bucket));
            prop_assert!(low <= value && value - low < width);
            prop_assert!(width == 1 || width as f64 <= low as f64 / f64::from(1u32 << bits));
        }

        #[test]
        fn buckets_follow_each_other_without_gap(
            (bits, bucket) in (0u32..=16).prop_flat_map(|b| (Just(b), 0..LogLinear::new(b).bucket(u64::MAX))),
        ) {
            let scale = LogLinear::new(bits);
            prop_assert_eq!(scale.low(bucket) + scale.width(bucket), scale.low(bucket + 1));
        }

        #[test]
        fn merging_is_adding(a in prop::collection::vec(any::<u64>().prop_map(|v| v >> 20), 0..50),
                             b in prop::collection::vec(any::<u64>().prop_map(|v| v >> 30), 0..50)) {
            let mut merged = filled(&a);
            merged.merge(&filled(&b));
            let both = filled(&[a.clone(), b.clone()].concat());
            prop_assert!(merged.buckets().eq(both.buckets()));
            prop_assert_eq!((merged.count(), merged.sum(), merged.min(), merged.max()),
                            (both.count(), both.sum(), both.min(), both.max()));
        }

        #[test]
        fn quantiles_are_within_a_tenth_of_a_percent_of_the_sorted_list(
            mut values in prop::collection::vec(1_000u64..10_000_000_000, 1..200), quantile in 0.0f64..=1.0,
        ) {
            let got = filled(&values).quantile(quantile).unwrap() as f64;
            values.sort_unstable();
            let rank = ((quantile * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1] as f64;
            prop_assert!((got - exact).abs() <= exact / 1_000.0, "{got} for {exact}");
        }
    }

    #[test]
    fn clear_forgets_everything() {
        let mut histogram = filled(&[1, 5_000_000]);
        histogram.clear();
        assert_eq!((histogram.count(), histogram.max(), histogram.quantile(0.5)), (0, None, None));
        histogram.add(7);
        assert_eq!((histogram.min(), histogram.max()), (Some(7), Some(7)));
    }
}
