//! The description of a key-value workload. Data only.
//!
//! Place in the flow: a preset or a file makes one, [`super::KeyValues`] builds its tables from it.

use robinhood_stats::Bytes;

use super::sizes::{SizeDistribution, SizeError};
use crate::arrivals::{Arrivals, ArrivalsError};

/// Which keys are asked for how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyPopularity {
    /// All alike.
    Uniform,
    /// The k-th key gets a share proportional to `1 / k^exponent`.
    Zipf {
        /// From 0 to 100.
        exponent: f64,
    },
}

/// A key-value workload: what is read and written, not how fast.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyValueSpec {
    /// Its name, for people.
    pub name: String,
    /// Number of keys: they are 0 to `keys - 1`, most popular first.
    pub keys: u64,
    /// Which of them are asked for.
    pub popularity: KeyPopularity,
    /// Length of each key.
    pub key_sizes: SizeDistribution,
    /// Size of each key's value.
    pub value_sizes: SizeDistribution,
    /// Share of operations that read; the others write.
    pub get_share: f64,
    /// Share of reads that shall find a value. `None`: all keys are there before the load begins. Else as many of them, the hottest and the coldest alike, that this share
    /// of reads goes to them; only they are written, so that the share stays.
    pub hit_share: Option<f64>,
    /// When operations are due.
    pub arrivals: Arrivals,
}

/// What a protocol or a server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimits {
    /// Who has these limits, for messages: `memcached`.
    pub whose: &'static str,
    /// The longest key.
    pub key_bytes_max: u64,
    /// The largest value.
    pub value_bytes_max: u64,
}

impl SizeLimits {
    /// Takes whatever can be described.
    pub const NONE: Self =
        Self { whose: "nobody", key_bytes_max: u64::MAX, value_bytes_max: u64::MAX };
}

/// A key-value workload that cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KeyValueError {
    /// No keys, or more than can be numbered.
    #[error("{found} keys: allowed are 1 to {}", KeyValueSpec::KEYS_MAX)]
    Keys {
        /// What was found.
        found: u64,
    },
    /// An exponent of no popularity.
    #[error("the exponent of Zipf's law is {found}: allowed is a number from 0 to 100")]
    Exponent {
        /// What was found.
        found: f64,
    },
    /// Something that is no share.
    #[error("`{field}` is {found}: allowed is {allowed}")]
    Share {
        /// The field.
        field: &'static str,
        /// What was found.
        found: f64,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A share of hits that no choice of these keys comes near to.
    #[error(
        "no choice of keys gives a hit share of {asked}, the nearest is {nearest:.4}: take more keys, or a popularity that is more even"
    )]
    HitShare {
        /// What was asked for.
        asked: f64,
        /// The nearest that was found.
        nearest: f64,
    },
    /// Parameters that describe no sizes.
    #[error("`{field}`: {error}")]
    Sizes {
        /// The field.
        field: &'static str,
        /// What is wrong.
        error: SizeError,
    },
    /// Keys too short to differ.
    #[error("`key_sizes` begin at {found} B: {keys} different keys need {needed} B or more")]
    KeysTooShort {
        /// Number of keys.
        keys: u64,
        /// The shortest key.
        found: u32,
        /// What it takes.
        needed: u32,
    },
    /// Keys or values that a protocol does not take.
    #[error(
        "`{field}` reach {found} B: {whose} takes {what} of up to {limit} B, so bound them by it"
    )]
    Limit {
        /// The field.
        field: &'static str,
        /// The largest of them.
        found: u32,
        /// Keys or values.
        what: &'static str,
        /// Whose limit it is.
        whose: &'static str,
        /// The limit, bytes.
        limit: u64,
    },
    /// Arrivals that cannot be.
    #[error("`arrivals`: {0}")]
    Arrivals(#[from] ArrivalsError),
}

impl KeyValueError {
    /// The field of the spec that is wrong.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Keys { .. } => "keys",
            Self::Exponent { .. } => "popularity",
            Self::HitShare { .. } => "hit_share",
            Self::KeysTooShort { .. } => "key_sizes",
            Self::Share { field, .. } | Self::Sizes { field, .. } | Self::Limit { field, .. } => {
                field
            }
            Self::Arrivals(_) => "arrivals",
        }
    }
}

impl KeyValueSpec {
    /// The most keys.
    pub const KEYS_MAX: u64 = u32::MAX as u64;
    /// The smallest hit share of a workload that writes: a key to write is found by drawing until one is there.
    pub const HIT_SHARE_MIN: f64 = 0.01;

    /// Checks what can be checked without a table.
    ///
    /// # Errors
    /// When a field is outside its range, or keys would not differ.
    pub fn validate(&self) -> Result<(), KeyValueError> {
        if !(1..=Self::KEYS_MAX).contains(&self.keys) {
            return Err(KeyValueError::Keys { found: self.keys });
        }
        if let KeyPopularity::Zipf { exponent: found } = self.popularity
            && !(0.0..=100.0).contains(&found)
        {
            return Err(KeyValueError::Exponent { found });
        }
        let share = |field, found: f64, low, allowed| {
            let fits = (low..=1.0).contains(&found);
            if fits { Ok(()) } else { Err(KeyValueError::Share { field, found, allowed }) }
        };
        share("get_share", self.get_share, 0.0, "a number from 0 to 1")?;
        if let Some(hits) = self.hit_share {
            if self.get_share < 1.0 {
                let allowed = "a number from 0.01 to 1 (only keys that are there are written)";
                share("hit_share", hits, Self::HIT_SHARE_MIN, allowed)?;
            } else {
                share("hit_share", hits, 0.0, "a number from 0 to 1")?;
            }
        }
        for (field, sizes) in [("key_sizes", &self.key_sizes), ("value_sizes", &self.value_sizes)] {
            sizes.validate().map_err(|error| KeyValueError::Sizes { field, error })?;
        }
        let (found, needed) = (self.key_sizes.bounds().0, super::content::digits(self.keys));
        if found < needed {
            return Err(KeyValueError::KeysTooShort { keys: self.keys, found, needed });
        }
        Ok(self.arrivals.validate()?)
    }

    /// Checks that no key and no value is too large for a protocol.
    ///
    /// # Errors
    /// When one can be, with the limit.
    pub fn check_limits(&self, limits: &SizeLimits) -> Result<(), KeyValueError> {
        let whose = limits.whose;
        for (field, sizes, what, limit) in [
            ("key_sizes", &self.key_sizes, "keys", limits.key_bytes_max),
            ("value_sizes", &self.value_sizes, "values", limits.value_bytes_max),
        ] {
            let found = sizes.bounds().1;
            if u64::from(found) > limit {
                return Err(KeyValueError::Limit { field, found, what, whose, limit });
            }
        }
        Ok(())
    }

    /// Bytes of all keys and values together, about: a server that shall hold them needs this and its own overhead.
    pub fn bytes_mean(&self) -> Bytes {
        let each = self.key_sizes.mean_bytes() + self.value_sizes.mean_bytes();
        Bytes((each * self.keys as f64) as u64)
    }
}
