//! Key-value workloads: what a load tester reads from a cache and writes to it.
//!
//! Place in the flow: a preset, or text of a file, becomes a [`KeyValueSpec`]; [`KeyValues`] builds its tables once; every client draws its operations from a
//! [`KeyValueStream`] and has `KeyValues` write out their keys and values.
//!
//! Keys are numbers from 0, the most popular one first. Their text, their sizes and their values are functions of the key and do not depend on the seed of a run: whoever fills the
//! cache, whoever reads from it and the next run agree. The seed changes which keys are asked for.

use std::sync::Arc;

use crate::draws::{Draws, Purpose};

mod content;
mod file;
mod operations;
mod popularity;
mod preload;
mod presets;
mod size_table;
mod sizes;
mod spec;

#[cfg(test)]
mod tests;

pub use file::{read, write_json, write_toml};
pub use operations::{KeyValueStream, Operation, OperationKind};
pub use presets::{NAMES, UnknownKeyValuePreset, by_name, etc, small, summary};
pub use sizes::{SizeDistribution, SizeError};
pub use spec::{KeyPopularity, KeyValueError, KeyValueSpec, SizeLimits};

use content::Content;
use popularity::KeysByPopularity;
use preload::Preload;
use size_table::SizesByKey;

/// How far the share of hits may be from what was asked for.
const HIT_SHARE_ERROR_MAX: f64 = 0.005;

/// The keys and values of a workload: their sizes, their text, and which are there before the load begins.
#[derive(Clone, Debug)]
pub struct KeyValues {
    get_share: f64,
    popularity: KeysByPopularity,
    preload: Preload,
    key_sizes: SizesByKey,
    value_sizes: SizesByKey,
    content: Content,
}

impl KeyValues {
    /// Builds the tables: milliseconds, a tenth of a second when there is a hit share.
    ///
    /// # Errors
    /// When the spec is not valid, or no choice of keys comes within 0.005 of the hit share.
    pub fn new(spec: &KeyValueSpec) -> Result<Arc<Self>, KeyValueError> {
        /// Keys and values are part of the workload's structure. The hottest key of `etc` has a twelfth of the reads: with this seed it and those behind it have
        /// such sizes that the means over the reads are those of the model, too.
        const STRUCTURE_SEED: u64 = 1_677;
        spec.validate()?;
        let draws = Draws::new(STRUCTURE_SEED);
        let keys = u32::try_from(spec.keys).expect("a valid spec has no more keys");
        let popularity = KeysByPopularity::new(keys, spec.popularity);
        let preload = Preload::new(&popularity, spec.hit_share, draws);
        let (asked, nearest) = (spec.hit_share.unwrap_or(1.0), preload.hit_share());
        if (asked - nearest).abs() > HIT_SHARE_ERROR_MAX {
            return Err(KeyValueError::HitShare { asked, nearest });
        }
        Ok(Arc::new(Self {
            get_share: spec.get_share,
            popularity,
            preload,
            key_sizes: SizesByKey::new(&spec.key_sizes, draws.of_request(Purpose::KeyBytes, 0)),
            value_sizes: SizesByKey::new(
                &spec.value_sizes,
                draws.of_request(Purpose::ValueBytes, 0),
            ),
            content: Content::new(spec.keys, draws),
        }))
    }

    /// Number of keys: they are 0 to `keys - 1`.
    pub fn keys(&self) -> u64 {
        self.popularity.count()
    }

    /// Length of a key.
    #[inline]
    pub fn key_bytes(&self, key: u64) -> u32 {
        self.key_sizes.bytes(key)
    }

    /// Size of a key's value.
    #[inline]
    pub fn value_bytes(&self, key: u64) -> u32 {
        self.value_sizes.bytes(key)
    }

    /// Appends the text of a key, [`Self::key_bytes`] long: letters, digits, `-` and `_`, different for each key.
    #[inline]
    pub fn write_key(&self, key: u64, out: &mut Vec<u8>) {
        self.content.write_key(key, self.key_bytes(key), out);
    }

    /// Appends the value of a key, [`Self::value_bytes`] long: letters, digits, `-` and `_`.
    #[inline]
    pub fn write_value(&self, key: u64, out: &mut Vec<u8>) {
        self.content.write_value(key, self.value_bytes(key), out);
    }

    /// Whether this is the value of the key, as far as its length and 16 bytes at each end show: cheap enough for every response.
    #[inline]
    pub fn check_value(&self, key: u64, value: &[u8]) -> bool {
        self.content.has_ends_of_value(key, self.value_bytes(key), value)
    }

    /// Whether this is the value of the key, byte by byte.
    pub fn check_whole_value(&self, key: u64, value: &[u8]) -> bool {
        self.content.is_value(key, self.value_bytes(key), value)
    }

    /// Whether the key must be in the cache before the load begins. Reads of others miss.
    #[inline]
    pub fn is_preloaded(&self, key: u64) -> bool {
        self.preload.has(key)
    }

    /// The share of reads that find a value in a cache that holds all preloaded keys and evicts none. More than 2^20 keys: to 0.001.
    pub fn expected_hit_share(&self) -> f64 {
        self.preload.hit_share()
    }

    /// The keys to preload, in an order that has nothing to do with their popularity, so that popular ones are not neighbours in the server's memory.
    pub fn preloaded_keys(&self) -> impl Iterator<Item = u64> + '_ {
        let keys = self.keys();
        let stride = scattering_stride(keys);
        (0..keys).map(move |place| place * stride % keys).filter(|&key| self.is_preloaded(key))
    }
}

/// A number without a common divisor with `keys`, near its golden section: steps of it visit all keys once, and neighbours late.
fn scattering_stride(keys: u64) -> u64 {
    let golden = (keys as f64 * 0.618_033_988_749_895) as u64;
    let divisor = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (golden.max(1)..)
        .find(|&stride| divisor(stride, keys) == 1)
        .expect("the next prime, at the latest")
}
