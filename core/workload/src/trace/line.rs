//! One line of a trace as data, with errors that name the key and what is allowed.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use robinhood_stats::BackendTable;

use super::Fault;

/// A request as its line has it.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line<'a> {
    /// Seconds.
    #[serde(deserialize_with = "seconds")]
    pub(super) t: f64,
    /// Stages.
    #[serde(borrow)]
    pub(super) d: Vec<StageLine<'a>>,
}

/// A request as a line has it that nobody needs the time of.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with the stages of a request as `d`")]
struct UntimedLine<'a> {
    #[serde(default, rename = "t")]
    _t: IgnoredAny,
    #[serde(borrow)]
    d: Vec<StageLine<'a>>,
}

/// A text of the line, copied only where it has escapes.
#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

/// The batches of a stage in the order of the line.
#[derive(Debug)]
pub(super) struct StageLine<'a>(pub(super) Vec<(Text<'a>, BatchLine<'a>)>);

impl<'a> StageLine<'a> {
    /// The batches that query anything.
    pub(super) fn batches(&self) -> impl Iterator<Item = &(Text<'a>, BatchLine<'a>)> {
        self.0.iter().filter(|(_, batch)| !batch.keys.is_empty())
    }
}

/// A batch as its line has it.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchLine<'a> {
    #[serde(rename = "S", deserialize_with = "sizes")]
    pub(super) sizes_bytes: Vec<u32>,
    #[serde(borrow, rename = "U", deserialize_with = "keys")]
    pub(super) keys: Vec<Text<'a>>,
    #[serde(rename = "C", deserialize_with = "flags")]
    pub(super) cacheable: Vec<bool>,
}

/// The bytes of a line as text.
pub(super) fn text(bytes: &[u8]) -> Result<&str, Fault> {
    str::from_utf8(bytes).map_err(|error| Fault::NotJson {
        column: error.valid_up_to() + 1,
        reason: "not UTF-8".to_owned(),
    })
}

/// Reads a line and checks everything that the line alone can show.
pub(super) fn parse(text: &str) -> Result<Line<'_>, Fault> {
    let line: Line<'_> = serde_json::from_str(text).map_err(|error| fault(&error))?;
    check_lengths(&line.d)?;
    Ok(line)
}

/// Reads the stages of a line and checks them; its time may be anything, or missing.
pub(super) fn parse_stages(text: &str) -> Result<Vec<StageLine<'_>>, Fault> {
    let line: UntimedLine<'_> = serde_json::from_str(text).map_err(|error| fault(&error))?;
    check_lengths(&line.d)?;
    Ok(line.d)
}

fn check_lengths(stages: &[StageLine<'_>]) -> Result<(), Fault> {
    for (backend, batch) in stages.iter().flat_map(|stage| &stage.0) {
        let (sizes, keys, cacheable) =
            (batch.sizes_bytes.len(), batch.keys.len(), batch.cacheable.len());
        if sizes != keys || sizes != cacheable {
            return Err(Fault::Lengths { backend: backend.to_string(), sizes, keys, cacheable });
        }
    }
    Ok(())
}

fn fault(error: &serde_json::Error) -> Fault {
    let column = error.column();
    // The reader appends the place once for each level; we say it once, with the number of the line in the file.
    let reason =
        error.to_string().replace(&format!(" at line {} column {column}", error.line()), "");
    if error.is_data() {
        Fault::Content { column, reason }
    } else {
        Fault::NotJson { column, reason }
    }
}

fn explain<E: Error>(key: &str, allowed: &str, error: &E) -> E {
    E::custom(format_args!("`{key}` is allowed to be {allowed}: {error}"))
}

fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    const ALLOWED: &str = "a time in seconds from 0 up to 1e9";
    let t = f64::deserialize(from).map_err(|e| explain("t", ALLOWED, &e))?;
    if (0.0..=1e9).contains(&t) {
        Ok(t)
    } else {
        Err(explain("t", ALLOWED, &D::Error::custom(format_args!("found {t}"))))
    }
}

fn sizes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u32>, D::Error> {
    Vec::deserialize(from).map_err(|e| {
        explain("S", "a list of sizes in bytes, whole numbers from 0 to 4294967295", &e)
    })
}

fn keys<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Text<'de>>, D::Error> {
    Vec::deserialize(from).map_err(|e| explain("U", "a list of keys, each a text", &e))
}

fn flags<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<bool>, D::Error> {
    const ALLOWED: &str = "a list of 0 (not cacheable) and 1 (cacheable)";
    let numbers: Vec<u8> = Vec::deserialize(from).map_err(|e| explain("C", ALLOWED, &e))?;
    match numbers.iter().find(|&&n| n > 1) {
        Some(n) => Err(explain("C", ALLOWED, &D::Error::custom(format_args!("found {n}")))),
        None => Ok(numbers.iter().map(|&n| n == 1).collect()),
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for StageLine<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(StageVisitor)
    }
}

/// Reads the map by hand: a map type would silently lose the first of two batches for one backend.
struct StageVisitor;

impl<'de> Visitor<'de> for StageVisitor {
    type Value = StageLine<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a stage in `d`, which is a map of backend to batch")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StageLine<'de>, A::Error> {
        let mut batches: Vec<(Text<'de>, BatchLine<'de>)> = Vec::new();
        while let Some(backend) = map.next_key::<Text<'de>>()? {
            let named =
                |e: A::Error| A::Error::custom(format_args!("backend `{}`: {e}", backend.0));
            if batches.len() == BackendTable::CAPACITY {
                return Err(named(A::Error::custom(format_args!(
                    "one more than the {} batches that a stage may have",
                    BackendTable::CAPACITY
                ))));
            }
            let batch = map.next_value().map_err(named)?;
            if batches.iter().any(|(other, _)| *other == backend) {
                return Err(named(A::Error::custom("twice in one stage, once is allowed")));
            }
            batches.push((backend, batch));
        }
        Ok(StageLine(batches))
    }
}
