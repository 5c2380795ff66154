//! Sizes of objects: log-normal with bounds or from a list, fixed per key.
//!
//! Place in the flow: asked when an object enters a cache. A size is computed from the key, not stored: a table of 4,096 quantiles, or of the sizes that
//! occur, shared by all keys, replaces four bytes for each of millions of keys.

use std::sync::Arc;

use robinhood_stats::BackendId;
use robinhood_stats::distributions::normal_quantile;

use crate::alias::AliasTable;
use crate::draws::{Draws, Purpose, Sequence};

const STEP_BITS: u32 = 12;
const STEPS: usize = 1 << STEP_BITS;

/// How the sizes of a backend's objects are distributed.
#[derive(Clone, Debug, PartialEq)]
pub enum SizeSpec {
    /// `exp(mu + sigma z)` bytes with z normal, moved into the bounds.
    LogNormal {
        /// Logarithm of the median size in bytes.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// The smallest size, bytes.
        bytes_min: u32,
        /// The largest size, bytes.
        bytes_max: u32,
    },
    /// Every object has this many bytes.
    Fixed(u32),
    /// Measured: each size with its weight.
    Discrete(Arc<DiscreteSizes>),
}

/// Sizes that occur, and how often.
#[derive(Clone, Debug, PartialEq)]
pub struct DiscreteSizes {
    sizes: Vec<WeightedSize>,
}

/// A size and how often it occurs, relative to the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightedSize {
    /// Bytes of an object.
    pub bytes: u32,
    /// From 0 up.
    pub weight: f64,
}

/// A list that describes no sizes.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SizesError {
    /// None, or too many.
    #[error("{found} sizes: allowed are 1 to {}", DiscreteSizes::SIZES_MAX)]
    Count {
        /// How many.
        found: usize,
    },
    /// A weight that no share can be made of.
    #[error("the weight of size {place} is {weight}: allowed is a number from 0 to 2^53")]
    Weight {
        /// Its place in the list, from 0.
        place: usize,
        /// What was found.
        weight: f64,
    },
    /// No size ever occurs.
    #[error("the sizes have no weight at all: at least one must be above 0")]
    NoWeight,
}

impl DiscreteSizes {
    /// The most sizes.
    pub const SIZES_MAX: usize = 1 << 20;

    /// Checks and keeps a list.
    pub fn new(sizes: Vec<WeightedSize>) -> Result<Self, SizesError> {
        const WEIGHT_MAX: f64 = 9_007_199_254_740_992.0;
        if !(1..=Self::SIZES_MAX).contains(&sizes.len()) {
            return Err(SizesError::Count { found: sizes.len() });
        }
        let bad = |size: &WeightedSize| !(0.0..=WEIGHT_MAX).contains(&size.weight);
        if let Some(place) = sizes.iter().position(bad) {
            return Err(SizesError::Weight { place, weight: sizes[place].weight });
        }
        if sizes.iter().all(|size| size.weight == 0.0) {
            return Err(SizesError::NoWeight);
        }
        Ok(Self { sizes })
    }

    /// The sizes, in the order in which they were given.
    pub fn sizes(&self) -> &[WeightedSize] {
        &self.sizes
    }

    /// The mean size in bytes.
    pub fn mean_bytes(&self) -> f64 {
        let weights: f64 = self.sizes.iter().map(|size| size.weight).sum();
        self.sizes.iter().map(|size| f64::from(size.bytes) * (size.weight / weights)).sum()
    }
}

impl SizeSpec {
    /// The mean size in bytes, bounds neglected.
    pub fn mean_bytes(&self) -> f64 {
        match self {
            Self::LogNormal { mu, sigma, .. } => libm::exp(mu + sigma * sigma / 2.0),
            Self::Fixed(bytes) => f64::from(*bytes),
            Self::Discrete(sizes) => sizes.mean_bytes(),
        }
    }
}

/// The sizes of one backend's objects by key.
#[derive(Clone, Debug)]
pub struct ObjectSizes {
    table: Table,
    /// By key.
    draws: Sequence,
}

#[derive(Clone, Debug)]
enum Table {
    /// Size at each step of probability.
    Quantiles(Arc<[f32]>),
    Discrete(Arc<(AliasTable, Vec<u32>)>),
}

impl ObjectSizes {
    /// Sizes of `backend`. They do not depend on the seed of a run: they are part of the workload's structure.
    pub fn new(spec: &SizeSpec, backend: BackendId) -> Self {
        let quantile = |step: usize| match *spec {
            SizeSpec::LogNormal { bytes_min, .. } if step == 0 => bytes_min as f32,
            SizeSpec::LogNormal { bytes_max, .. } if step == STEPS => bytes_max as f32,
            SizeSpec::LogNormal { mu, sigma, bytes_min, bytes_max } => {
                let z = normal_quantile(step as f64 / STEPS as f64);
                let bytes = libm::exp(mu + sigma * z);
                bytes.clamp(f64::from(bytes_min), f64::from(bytes_max)) as f32
            }
            SizeSpec::Fixed(bytes) => bytes as f32,
            SizeSpec::Discrete(_) => unreachable!("a list has no quantiles"),
        };
        let table = if let SizeSpec::Discrete(list) = spec {
            let weights: Vec<f64> = list.sizes.iter().map(|size| size.weight).collect();
            let bytes = list.sizes.iter().map(|size| size.bytes).collect();
            Table::Discrete(Arc::new((AliasTable::new(&weights), bytes)))
        } else {
            Table::Quantiles((0..=STEPS).map(quantile).collect())
        };
        Self { table, draws: draws(backend) }
    }

    /// Sizes of another backend with the same distribution. The table is shared: all backends of a workload usually have one.
    #[must_use]
    pub fn for_backend(&self, backend: BackendId) -> Self {
        Self { table: self.table.clone(), draws: draws(backend) }
    }

    /// The size of the object with this key, bytes.
    #[inline]
    pub fn bytes(&self, key: u32) -> u32 {
        let bits = self.draws.bits(u64::from(key));
        match &self.table {
            Table::Quantiles(quantiles) => {
                let step = (bits >> (64 - STEP_BITS)) as usize;
                let fraction = ((bits >> 20) & 0xFF_FFFF) as f32 * (1.0 / 16_777_216.0);
                let (low, high) = (quantiles[step], quantiles[step + 1]);
                (low + fraction * (high - low)) as u32
            }
            Table::Discrete(list) => list.1[list.0.choose(bits).0],
        }
    }
}

/// What decides the sizes of a backend's objects, the same in every run.
const fn draws(backend: BackendId) -> Sequence {
    const STRUCTURE_SEED: u64 = 0;
    Draws::new(STRUCTURE_SEED).at(Purpose::Size, 0, backend)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONERF: SizeSpec =
        SizeSpec::LogNormal { mu: 9.6, sigma: 0.95, bytes_min: 8, bytes_max: 400_000 };

    #[test]
    fn sizes_have_the_mean_of_the_distribution_and_stay_in_bounds() {
        let sizes = ObjectSizes::new(&ONERF, BackendId(4));
        let all: Vec<u32> = (0..400_000).map(|key| sizes.bytes(key)).collect();
        let mean = all.iter().map(|&b| f64::from(b)).sum::<f64>() / all.len() as f64;
        assert!((mean / ONERF.mean_bytes() - 1.0).abs() < 0.01, "{mean}");
        assert!(all.iter().all(|b| (8..=400_000).contains(b)));
        let above_median = all.iter().filter(|&&b| f64::from(b) > libm::exp(9.6)).count();
        assert!((198_000..202_000).contains(&above_median), "{above_median}");
    }

    #[test]
    fn a_key_keeps_its_size_and_backends_differ() {
        let (a, b) =
            (ObjectSizes::new(&ONERF, BackendId(0)), ObjectSizes::new(&ONERF, BackendId(1)));
        assert_eq!(a.bytes(17), a.bytes(17));
        assert!((0..100).any(|key| a.bytes(key) != b.bytes(key)));
        assert_eq!(ObjectSizes::new(&SizeSpec::Fixed(1_000), BackendId(0)).bytes(3), 1_000);
    }

    #[test]
    fn listed_sizes_occur_as_often_as_their_weights_say_and_no_others() {
        let weighted = |(bytes, weight)| WeightedSize { bytes, weight };
        let list = [(100, 6.0), (5_000, 3.0), (77, 0.0), (4_000_000, 1.0)].map(weighted);
        let list = DiscreteSizes::new(list.to_vec()).unwrap();
        assert!((list.mean_bytes() - (60.0 + 1_500.0 + 400_000.0)).abs() < 1e-6);
        let sizes = ObjectSizes::new(&SizeSpec::Discrete(Arc::new(list)), BackendId(2));
        let counted = |bytes| (0..100_000).filter(|&key| sizes.bytes(key) == bytes).count();
        let counts = [100, 5_000, 77, 4_000_000].map(counted);
        assert_eq!((counts.iter().sum::<usize>(), counts[2]), (100_000, 0));
        for (count, expected) in [(counts[0], 6e4), (counts[1], 3e4), (counts[3], 1e4)] {
            assert!((count as f64 - expected).abs() < 5.0 * expected.sqrt(), "{counts:?}");
        }
    }

    #[test]
    fn impossible_lists_are_refused_with_the_place() {
        let error = |weights: &[f64]| {
            let sizes = weights.iter().map(|&weight| WeightedSize { bytes: 1, weight }).collect();
            DiscreteSizes::new(sizes).unwrap_err().to_string()
        };
        assert!(error(&[]).contains("0 sizes: allowed are 1 to"));
        for bad in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert!(error(&[1.0, bad]).contains("the weight of size 1 is"), "{bad}");
        }
        assert!(error(&[0.0, 0.0]).contains("at least one must be above 0"));
    }
}
