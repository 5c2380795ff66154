//! What a workload file looks like: one type for each table, as `serde` reads it.
//!
//! Place in the flow: between the text and `read`, which turns these types into a [`crate::Workload`]. Nothing is checked here that needs more than one value.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use robinhood_stats::{BackendName, Bytes, Nanos, Rate};
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use toml::Spanned;

use super::error::FileMistake;
use super::write::exact_bytes;
use crate::spec::{BATCH_QUERIES_MAX, BackendKind};

/// The longest name of a workload, in characters.
pub(crate) const NAME_CHARS_MAX: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadFile {
    pub(super) name: Title,
    pub(super) servers: u16,
    pub(super) rate_per_server: Quantity<Rate>,
    pub(super) cache_per_server: Quantity<Bytes>,
    #[serde(default)]
    pub(super) overhead: Quantity<Nanos>,
    #[serde(default = "batch_queries_max")]
    pub(super) batch_queries_max: u32,
    #[serde(default)]
    pub(super) prefill_requests: u64,
    #[serde(default)]
    pub(super) warmup: Quantity<Nanos>,
    pub(super) measured: Quantity<Nanos>,
    pub(super) backends: Vec<BackendFile>,
    pub(super) request_types: Vec<RequestTypeFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BackendFile {
    pub(super) name: Spanned<BackendName>,
    #[serde(default = "lookup")]
    pub(super) kind: BackendKind,
    pub(super) catalogue: u32,
    pub(super) popularity: Spanned<PopularityFile>,
    pub(super) sizes: Spanned<SizesFile>,
    pub(super) service: Quantity<Nanos>,
    #[serde(default)]
    pub(super) per_key: f64,
    #[serde(default)]
    pub(super) sigma: f64,
    pub(super) servers: u32,
    #[serde(default = "one")]
    pub(super) speed: f64,
    pub(super) utilisation_target: Option<f64>,
    #[serde(default = "timeout")]
    pub(super) timeout: Quantity<Nanos>,
    #[serde(default = "one")]
    pub(super) cacheable_share: f64,
    pub(super) capacity: Option<Spanned<CapacityFile>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PopularityFile {
    Zipf(f64),
    /// Path of a `pop.json`.
    Cachelib(String),
    /// Keys and accesses of each bucket.
    Buckets(Vec<(f64, f64)>),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SizesFile {
    LogNormal(LogNormalFile),
    Fixed(Quantity<Bytes>),
    /// Path of a `sizes.json`.
    Cachelib(String),
    /// Size and weight.
    List(Vec<(Quantity<Bytes>, f64)>),
}

#[derive(Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table of `median` or `mu`, `sigma`, `bytes_min` and `bytes_max`"
)]
pub(crate) struct LogNormalFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mu: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) median: Option<Quantity<Bytes>>,
    pub(crate) sigma: f64,
    pub(crate) bytes_min: Quantity<Bytes>,
    pub(crate) bytes_max: Quantity<Bytes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CapacityFile {
    /// Time in the measured part and capacity there.
    Path(Vec<(Quantity<Nanos>, f64)>),
    RandomWalk(RandomWalkFile),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RandomWalkFile {
    pub(super) lowest: f64,
    pub(super) every: Quantity<Nanos>,
    pub(super) steps: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestTypeFile {
    pub(super) weight: f64,
    pub(super) batches: BatchesFile,
}

/// Name of a backend and mean number of queries, in the order of the file.
pub(super) struct BatchesFile(pub(super) Vec<(Spanned<String>, f64)>);

/// A name for people: one line.
#[derive(Serialize)]
pub(crate) struct Title(pub(crate) String);

/// A number with its unit, written as text.
#[derive(Clone, Copy, Default)]
pub(crate) struct Quantity<T>(pub(crate) T);

const fn batch_queries_max() -> u32 {
    BATCH_QUERIES_MAX
}

const fn lookup() -> BackendKind {
    BackendKind::Lookup
}

const fn one() -> f64 {
    1.0
}

const fn timeout() -> Quantity<Nanos> {
    Quantity(Nanos::from_secs(10))
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Quantity<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(QuantityVisitor(PhantomData))
    }
}

impl Serialize for Quantity<Bytes> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&exact_bytes(self.0.0))
    }
}

impl Quantity<Bytes> {
    /// The size of one object.
    pub(crate) fn size(self) -> Result<u32, FileMistake> {
        let bytes = self.0.0;
        u32::try_from(bytes).map_err(|_| FileMistake::Size { bytes })
    }
}

impl LogNormalFile {
    /// Logarithm of the median, however it is written.
    pub(crate) fn mu(&self) -> Result<f64, FileMistake> {
        match (self.mu, self.median) {
            (Some(mu), None) => Ok(mu),
            (None, Some(median)) => Ok(libm::log(median.0.as_f64())),
            _ => Err(FileMistake::Median),
        }
    }
}

struct QuantityVisitor<T>(PhantomData<T>);

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for QuantityVisitor<T> {
    type Value = Quantity<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number with its unit in quotes, as in \"8ms\", \"32GB\" or \"217/s\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        text.parse().map(Quantity).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Title {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_short = (1..=NAME_CHARS_MAX).contains(&text.chars().count());
        if is_short && !text.chars().any(char::is_control) {
            Ok(Self(text))
        } else {
            Err(D::Error::custom(format!("a name is one line of 1 to {NAME_CHARS_MAX} characters")))
        }
    }
}

impl<'de> Deserialize<'de> for BatchesFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BatchesVisitor)
    }
}

struct BatchesVisitor;

impl<'de> Visitor<'de> for BatchesVisitor {
    type Value = BatchesFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("backends with their mean number of queries, as in { prices = 1.5 }")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut batches = Vec::new();
        while let Some(batch) = map.next_entry()? {
            batches.push(batch);
        }
        Ok(BatchesFile(batches))
    }
}
