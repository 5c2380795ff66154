//! Keys by popularity, for more keys than a backend of the simulator has.
//!
//! Place in the flow: turns random bits into the keys of operations.

use super::spec::KeyPopularity;
use crate::zipf::Zipf;

/// Turns random bits into keys, the most popular one being 0.
#[derive(Clone, Debug)]
pub(super) enum KeysByPopularity {
    Uniform { keys: u32 },
    Zipf(Zipf),
}

impl KeysByPopularity {
    /// # Panics
    /// When there is no key, or the exponent is none.
    pub(super) fn new(keys: u32, popularity: KeyPopularity) -> Self {
        match popularity {
            KeyPopularity::Uniform => Self::Uniform { keys },
            KeyPopularity::Zipf { exponent } => Self::Zipf(Zipf::new(keys, exponent)),
        }
    }

    /// The key for 64 random bits.
    #[inline]
    pub(super) fn key(&self, bits: u64) -> u64 {
        match self {
            Self::Uniform { keys } => ((u128::from(bits) * u128::from(*keys)) >> 64) as u64,
            Self::Zipf(zipf) => zipf.rank(bits).into(),
        }
    }

    /// Number of keys.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Uniform { keys } => (*keys).into(),
            Self::Zipf(zipf) => zipf.catalogue().into(),
        }
    }

    /// The probability of a key below this one.
    pub(super) fn share_below(&self, key: u64) -> f64 {
        match self {
            Self::Uniform { keys } => key as f64 / f64::from(*keys),
            Self::Zipf(zipf) => zipf.share_below(key as u32),
        }
    }
}
