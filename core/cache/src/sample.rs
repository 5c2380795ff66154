//! Which keys a sample holds: those whose hash falls below a threshold, so that all uses of a key are sampled or none.
//!
//! Place in the flow: under everything that watches a partition through a sample of its keys. Source: spatial sampling of
//! SHARDS (FAST'15).

/// The largest sampling shift: 1 key in 65,536.
pub const SAMPLING_SHIFT_MAX: u32 = 16;

/// Bits of a hash that are held against the threshold.
const THRESHOLD_BITS: u32 = 24;

/// A sample of keys that may get smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    threshold: u32,
}

impl Sample {
    /// One key in 2^`shift`.
    ///
    /// # Panics
    /// When `shift` exceeds [`SAMPLING_SHIFT_MAX`].
    pub(crate) const fn one_in_power_of_two(shift: u32) -> Self {
        assert!(shift <= SAMPLING_SHIFT_MAX, "a sample of at least 1 key in 65,536");
        Self { threshold: (1 << THRESHOLD_BITS) >> shift }
    }

    /// Whether the key with this hash is in the sample.
    #[inline]
    pub(crate) const fn has(self, hash: u64) -> bool {
        // Bits that hash tables use neither for positions nor for tags: those of a sample are alike.
        let bits = (hash >> 32) as u32 & ((1 << THRESHOLD_BITS) - 1);
        bits < self.threshold
    }

    /// How many keys one of the sample stands for, from 1 up.
    pub(crate) fn weight(self) -> f64 {
        f64::from(1_u32 << THRESHOLD_BITS) / f64::from(self.threshold)
    }

    /// The sample without an eighth of its keys; `None` when it cannot get smaller.
    pub(crate) fn smaller(self) -> Option<Self> {
        let threshold = self.threshold - self.threshold.div_ceil(8);
        (threshold > 0).then_some(Self { threshold })
    }
}

#[cfg(test)]
mod tests {
    use robinhood_stats::mixed_bits;

    use super::*;

    #[test]
    fn a_sample_has_its_share_of_the_keys_and_a_smaller_one_is_part_of_it() {
        let whole = Sample::one_in_power_of_two(0);
        assert!((0..1_000).all(|key| whole.has(mixed_bits(key))));
        let mut sample = Sample::one_in_power_of_two(3);
        for _ in 0..5 {
            let keys = 200_000;
            let held = (0..keys).filter(|&key| sample.has(mixed_bits(key))).count() as f64;
            let expected = keys as f64 / sample.weight();
            assert!((held - expected).abs() < 4.0 * libm::sqrt(expected), "{held} of {expected}");
            let smaller = sample.smaller().unwrap();
            assert!(
                (0..keys).all(|key| sample.has(mixed_bits(key)) || !smaller.has(mixed_bits(key)))
            );
            assert!((sample.weight() / smaller.weight() - 7.0 / 8.0).abs() < 1e-4);
            sample = smaller;
        }
    }

    #[test]
    fn a_sample_gets_smaller_until_it_would_be_empty() {
        let mut sample = Sample::one_in_power_of_two(SAMPLING_SHIFT_MAX);
        while let Some(smaller) = sample.smaller() {
            assert!(smaller.weight() > sample.weight());
            sample = smaller;
        }
        assert_eq!(sample.weight(), f64::from(1 << THRESHOLD_BITS));
    }
}
