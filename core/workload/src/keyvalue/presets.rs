//! Built-in key-value workloads.
//!
//! Place in the flow: the command line asks for them by name; they can be written to a file, edited and read back.

use std::sync::Arc;

use super::sizes::SizeDistribution;
use super::spec::{KeyPopularity, KeyValueSpec};
use crate::arrivals::Arrivals;
use crate::sizes::{DiscreteSizes, WeightedSize};

/// Names of all presets.
pub const NAMES: [&str; 2] = ["etc", "small"];

/// A name that no preset has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no key-value workload `{name}`: the presets are {}", NAMES.join(", "))]
pub struct UnknownKeyValuePreset {
    /// What was given.
    pub name: String,
}

/// The preset with this name.
///
/// # Errors
/// When there is none.
pub fn by_name(name: &str) -> Result<KeyValueSpec, UnknownKeyValuePreset> {
    match name {
        "etc" => Ok(etc()),
        "small" => Ok(small()),
        _ => Err(UnknownKeyValuePreset { name: name.chars().take(64).collect() }),
    }
}

/// What a preset is, in one line.
///
/// # Errors
/// When there is none.
pub fn summary(name: &str) -> Result<&'static str, UnknownKeyValuePreset> {
    match name {
        "etc" => Ok(
            "Facebook's ETC pool (SIGMETRICS'12): keys of 36 B, values of 194 B in the mean, 30 reads a write",
        ),
        "small" => Ok("keys of 30 B, values of 100 B, all alike; 9 reads a write"),
        _ => Err(UnknownKeyValuePreset { name: name.chars().take(64).collect() }),
    }
}

/// Probabilities of the value sizes 0 to 14 B. They add up to 0.44155.
const ETC_SHORT_VALUES: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837,
    0.00837, 0.08989, 0.00092, 0.00326, 0.01980,
];

/// The general pool of Facebook's memcached, as modelled by Atikoglu et al., "Workload Analysis of a Large-Scale Key-Value Store" (SIGMETRICS'12): sizes of keys
/// (generalised extreme value) and values (a list below 15 B, generalised Pareto above), gaps between arrivals (generalised Pareto, shape 0.154971; the scale follows from
/// the rate) and 30 reads to a write. The mean key has 36.2 B, the mean value 194.4 B, over the keys and, to 1.5 %, over the reads.
///
/// The model has no popularity: Zipf's law with exponent 0.99 is our choice, and so is the number of keys, of which memcached holds all in its default 64 MB. The pool's own
/// hit ratio was 0.814, which `hit_share` can ask for. Sizes are bounded by what memcached takes.
pub fn etc() -> KeyValueSpec {
    let weighted = |(bytes, &weight): (u32, &f64)| WeightedSize { bytes, weight };
    let head = (0..).zip(&ETC_SHORT_VALUES).map(weighted).collect();
    let tail = SizeDistribution::GeneralisedPareto {
        location: 15.0,
        scale: 214.476,
        shape: 0.348238,
        bytes_max: 1_000_000,
    };
    KeyValueSpec {
        name: "etc".to_owned(),
        keys: 100_000,
        popularity: KeyPopularity::Zipf { exponent: 0.99 },
        key_sizes: SizeDistribution::GeneralisedExtremeValue {
            location: 30.7984,
            scale: 8.20449,
            shape: 0.078688,
            bytes_min: 8,
            bytes_max: 250,
        },
        value_sizes: SizeDistribution::Mixture {
            head: Arc::new(DiscreteSizes::new(head).expect("fifteen sizes with weights")),
            tail: Box::new(tail),
        },
        get_share: 30.0 / 31.0,
        hit_share: None,
        arrivals: Arrivals::GeneralisedPareto { shape: 0.154971 },
    }
}

/// Small objects of one size, all equally popular: what a cache server is fastest with, and what its documentation usually measures.
pub fn small() -> KeyValueSpec {
    KeyValueSpec {
        name: "small".to_owned(),
        keys: 100_000,
        popularity: KeyPopularity::Uniform,
        key_sizes: SizeDistribution::Fixed(30),
        value_sizes: SizeDistribution::Fixed(100),
        get_share: 0.9,
        hit_share: None,
        arrivals: Arrivals::Poisson,
    }
}
