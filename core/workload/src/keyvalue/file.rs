//! Key-value workloads as TOML or JSON text that people write and edit: the same keys in both.
//!
//! Place in the flow: text of a file in, a [`KeyValueSpec`] out, and back; who calls opens and writes the files. What one function writes the other reads as an equal
//! spec, bit for bit. All keys: `docs/key-value-files.md`.

use std::sync::Arc;

use robinhood_stats::Bytes;
use serde::{Deserialize, Serialize};

use super::sizes::SizeDistribution;
use super::spec::{KeyPopularity, KeyValueError, KeyValueSpec, SizeLimits};
use crate::arrivals::Arrivals;
use crate::file::{Errors, FileError, FileMistake, LogNormalFile, Quantity, Resolver, Title};
use crate::sizes::{DiscreteSizes, WeightedSize};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyValueFile {
    name: Title,
    keys: u64,
    popularity: PopularityFile,
    get_share: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hit_share: Option<f64>,
    #[serde(default = "poisson")]
    arrivals: String,
    key_sizes: SizesFile,
    value_sizes: SizesFile,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", expecting = "\"uniform\" or { zipf = 0.99 }")]
enum PopularityFile {
    Uniform,
    Zipf(f64),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", expecting = "sizes, as in { fixed = \"100B\" }")]
enum SizesFile {
    Fixed(Quantity<Bytes>),
    Uniform(UniformFile),
    LogNormal(LogNormalFile),
    GeneralisedPareto(ParetoFile),
    GeneralisedExtremeValue(ExtremeValueFile),
    /// Size and weight.
    List(Vec<(Quantity<Bytes>, f64)>),
    Mixture(MixtureFile),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table of `bytes_min` and `bytes_max`")]
struct UniformFile {
    bytes_min: Quantity<Bytes>,
    bytes_max: Quantity<Bytes>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table of `location`, `scale`, `shape` and `bytes_max`")]
struct ParetoFile {
    location: f64,
    scale: f64,
    shape: f64,
    bytes_max: Quantity<Bytes>,
}

#[derive(Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table of `location`, `scale`, `shape`, `bytes_min` and `bytes_max`"
)]
struct ExtremeValueFile {
    location: f64,
    scale: f64,
    shape: f64,
    bytes_min: Quantity<Bytes>,
    bytes_max: Quantity<Bytes>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table of `head` and `tail`")]
struct MixtureFile {
    /// Size and probability.
    head: Vec<(Quantity<Bytes>, f64)>,
    tail: Box<SizesFile>,
}

fn poisson() -> String {
    Arrivals::Poisson.to_string()
}

/// Reads a key-value workload in TOML or JSON; a text that begins with `{` is JSON. `file` is its name in messages; a file with recorded gaps is asked from
/// `resolver`.
///
/// # Errors
/// When the text is no key-value workload that can run within the limits, with the line of the mistake.
pub fn read(
    text: &str,
    file: &str,
    limits: &SizeLimits,
    resolver: &mut Resolver<'_>,
) -> Result<KeyValueSpec, FileError> {
    let errors = Errors { file, text };
    errors.check_length()?;
    let parsed: KeyValueFile = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| errors.of_json(&error))?
    } else {
        toml::from_str(text).map_err(|error| errors.of_toml(&error))?
    };
    let invalid = |error: KeyValueError| {
        // The message says the key.
        FileError { key: String::new(), ..errors.of_key(error.field(), error.into()) }
    };
    let sizes = |key, sizes| distribution(sizes).map_err(|mistake| errors.of_key(key, mistake));
    let spec = KeyValueSpec {
        name: parsed.name.0,
        keys: parsed.keys,
        popularity: match parsed.popularity {
            PopularityFile::Uniform => KeyPopularity::Uniform,
            PopularityFile::Zipf(exponent) => KeyPopularity::Zipf { exponent },
        },
        key_sizes: sizes("key_sizes", parsed.key_sizes)?,
        value_sizes: sizes("value_sizes", parsed.value_sizes)?,
        get_share: parsed.get_share,
        hit_share: parsed.hit_share,
        arrivals: Arrivals::read(&parsed.arrivals, resolver).map_err(|e| invalid(e.into()))?,
    };
    spec.validate().and_then(|()| spec.check_limits(limits)).map_err(invalid)?;
    Ok(spec)
}

fn distribution(file: SizesFile) -> Result<SizeDistribution, FileMistake> {
    Ok(match file {
        SizesFile::Fixed(bytes) => SizeDistribution::Fixed(bytes.size()?),
        SizesFile::Uniform(file) => SizeDistribution::Uniform {
            bytes_min: file.bytes_min.size()?,
            bytes_max: file.bytes_max.size()?,
        },
        SizesFile::LogNormal(file) => SizeDistribution::LogNormal {
            mu: file.mu()?,
            sigma: file.sigma,
            bytes_min: file.bytes_min.size()?,
            bytes_max: file.bytes_max.size()?,
        },
        SizesFile::GeneralisedPareto(file) => SizeDistribution::GeneralisedPareto {
            location: file.location,
            scale: file.scale,
            shape: file.shape,
            bytes_max: file.bytes_max.size()?,
        },
        SizesFile::GeneralisedExtremeValue(file) => SizeDistribution::GeneralisedExtremeValue {
            location: file.location,
            scale: file.scale,
            shape: file.shape,
            bytes_min: file.bytes_min.size()?,
            bytes_max: file.bytes_max.size()?,
        },
        SizesFile::List(pairs) => SizeDistribution::Discrete(list(pairs)?),
        SizesFile::Mixture(file) => SizeDistribution::Mixture {
            head: list(file.head)?,
            tail: Box::new(distribution(*file.tail)?),
        },
    })
}

fn list(pairs: Vec<(Quantity<Bytes>, f64)>) -> Result<Arc<DiscreteSizes>, FileMistake> {
    let size =
        |(bytes, weight): (Quantity<Bytes>, f64)| Ok(WeightedSize { bytes: bytes.size()?, weight });
    let sizes = pairs.into_iter().map(size).collect::<Result<_, FileMistake>>()?;
    Ok(Arc::new(DiscreteSizes::new(sizes)?))
}

/// The text of a TOML file that [`read`] reads as an equal workload, if the workload can run.
pub fn write_toml(spec: &KeyValueSpec) -> String {
    let text = toml::to_string(&file(spec)).expect("text and numbers are TOML");
    format!(
        "# A key-value workload for RobinHood. docs/key-value-files.md says what the keys mean.\n\n{text}"
    )
}

/// The text of a JSON file that [`read`] reads as an equal workload, if the workload can run.
pub fn write_json(spec: &KeyValueSpec) -> String {
    let text = serde_json::to_string_pretty(&file(spec)).expect("text and numbers are JSON");
    text + "\n"
}

fn file(spec: &KeyValueSpec) -> KeyValueFile {
    KeyValueFile {
        name: Title(spec.name.clone()),
        keys: spec.keys,
        popularity: match spec.popularity {
            KeyPopularity::Uniform => PopularityFile::Uniform,
            KeyPopularity::Zipf { exponent } => PopularityFile::Zipf(exponent),
        },
        get_share: spec.get_share,
        hit_share: spec.hit_share,
        arrivals: spec.arrivals.to_string(),
        key_sizes: sizes_file(&spec.key_sizes),
        value_sizes: sizes_file(&spec.value_sizes),
    }
}

fn sizes_file(sizes: &SizeDistribution) -> SizesFile {
    let quantity = |bytes: u32| Quantity(Bytes(bytes.into()));
    let pairs = |list: &DiscreteSizes| {
        list.sizes().iter().map(|size| (quantity(size.bytes), size.weight)).collect()
    };
    match *sizes {
        SizeDistribution::Fixed(bytes) => SizesFile::Fixed(quantity(bytes)),
        SizeDistribution::Uniform { bytes_min, bytes_max } => SizesFile::Uniform(UniformFile {
            bytes_min: quantity(bytes_min),
            bytes_max: quantity(bytes_max),
        }),
        SizeDistribution::LogNormal { mu, sigma, bytes_min, bytes_max } => {
            SizesFile::LogNormal(LogNormalFile {
                mu: Some(mu),
                median: None,
                sigma,
                bytes_min: quantity(bytes_min),
                bytes_max: quantity(bytes_max),
            })
        }
        SizeDistribution::GeneralisedPareto { location, scale, shape, bytes_max } => {
            let bytes_max = quantity(bytes_max);
            SizesFile::GeneralisedPareto(ParetoFile { location, scale, shape, bytes_max })
        }
        SizeDistribution::GeneralisedExtremeValue {
            location,
            scale,
            shape,
            bytes_min,
            bytes_max,
        } => SizesFile::GeneralisedExtremeValue(ExtremeValueFile {
            location,
            scale,
            shape,
            bytes_min: quantity(bytes_min),
            bytes_max: quantity(bytes_max),
        }),
        SizeDistribution::Discrete(ref list) => SizesFile::List(pairs(list)),
        SizeDistribution::Mixture { ref head, ref tail } => {
            SizesFile::Mixture(MixtureFile { head: pairs(head), tail: Box::new(sizes_file(tail)) })
        }
    }
}
