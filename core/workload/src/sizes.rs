//! Sizes of objects: log-normal with bounds, fixed per key.
//!
//! Place in the flow: asked when an object enters a cache. A size is computed from the key, not stored: a table of 4,096 quantiles, shared by
//! all keys, replaces four bytes for each of millions of keys.

use std::sync::Arc;

use robinhood_stats::BackendId;
use serde::{Deserialize, Serialize};

use crate::draws::{Draws, Purpose, normal_quantile};

const STEP_BITS: u32 = 12;
const STEPS: usize = 1 << STEP_BITS;

/// How the sizes of a backend's objects are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
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
}

impl SizeSpec {
    /// The mean size in bytes, bounds neglected.
    pub fn mean_bytes(&self) -> f64 {
        match *self {
            Self::LogNormal { mu, sigma, .. } => libm::exp(mu + sigma * sigma / 2.0),
            Self::Fixed(bytes) => f64::from(bytes),
        }
    }
}

/// The sizes of one backend's objects by key.
#[derive(Clone, Debug)]
pub struct LogNormalSizes {
    /// Size at each step of probability.
    quantiles: Arc<[f32]>,
    backend: BackendId,
}

impl LogNormalSizes {
    /// Sizes of `backend`. They do not depend on the seed of a run: they are part of the workload's structure.
    pub fn new(spec: SizeSpec, backend: BackendId) -> Self {
        let quantile = |step: usize| match spec {
            SizeSpec::Fixed(bytes) => bytes as f32,
            SizeSpec::LogNormal { bytes_min, .. } if step == 0 => bytes_min as f32,
            SizeSpec::LogNormal { bytes_max, .. } if step == STEPS => bytes_max as f32,
            SizeSpec::LogNormal { mu, sigma, bytes_min, bytes_max } => {
                let z = normal_quantile(step as f64 / STEPS as f64);
                let bytes = libm::exp(mu + sigma * z);
                bytes.clamp(f64::from(bytes_min), f64::from(bytes_max)) as f32
            }
        };
        Self { quantiles: (0..=STEPS).map(quantile).collect(), backend }
    }

    /// Sizes of another backend with the same distribution. The table is shared: all backends of a workload usually have one.
    #[must_use]
    pub fn for_backend(&self, backend: BackendId) -> Self {
        Self { quantiles: Arc::clone(&self.quantiles), backend }
    }

    /// The size of the object with this key, bytes.
    #[inline]
    pub fn bytes(&self, key: u32) -> u32 {
        const STRUCTURE_SEED: u64 = 0;
        let bits =
            Draws::new(STRUCTURE_SEED).at(Purpose::Size, 0, self.backend).bits(u64::from(key));
        let step = (bits >> (64 - STEP_BITS)) as usize;
        let fraction = ((bits >> 20) & 0xFF_FFFF) as f32 * (1.0 / 16_777_216.0);
        let (low, high) = (self.quantiles[step], self.quantiles[step + 1]);
        (low + fraction * (high - low)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONERF: SizeSpec =
        SizeSpec::LogNormal { mu: 9.6, sigma: 0.95, bytes_min: 8, bytes_max: 400_000 };

    #[test]
    fn sizes_have_the_mean_of_the_distribution_and_stay_in_bounds() {
        let sizes = LogNormalSizes::new(ONERF, BackendId(4));
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
            (LogNormalSizes::new(ONERF, BackendId(0)), LogNormalSizes::new(ONERF, BackendId(1)));
        assert_eq!(a.bytes(17), a.bytes(17));
        assert!((0..100).any(|key| a.bytes(key) != b.bytes(key)));
        assert_eq!(LogNormalSizes::new(SizeSpec::Fixed(1_000), BackendId(0)).bytes(3), 1_000);
    }
}
