//! Distributions in the format of CacheLib's benchmark (github.com/facebook/CacheLib, `cachelib/cachebench/test_configs`): `pop.json` and `sizes.json`.
//!
//! Place in the flow: text of such a file in, a popularity or sizes out; the caller opens the file. Of `pop.json` only the buckets are taken. `oneHits`, the share of
//! accesses to keys that are asked for once, is for the user to subtract from the cacheable share.

use serde::Deserialize;

use crate::popularity::{PopularityBucket, PopularityBuckets, PopularityError};
use crate::sizes::{DiscreteSizes, SizesError, WeightedSize};

/// Text that is not such a file.
#[derive(Debug, thiserror::Error)]
pub enum CacheLibError {
    /// It is not JSON, or a list that must be there is not, or is not of numbers.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// Two lists that belong together differ in length.
    #[error(
        "`{first}` has {first_length} numbers and `{second}` has {second_length}: allowed is one for each"
    )]
    Lengths {
        /// Name of a list.
        first: &'static str,
        /// Its length.
        first_length: usize,
        /// Name of the other.
        second: &'static str,
        /// Its length.
        second_length: usize,
    },
    /// A size that no object has.
    #[error(
        "`valSizeRange` has the size {bytes} at place {place}: allowed is a number from 0 to {}",
        u32::MAX
    )]
    Bytes {
        /// Its place in the list, from 0.
        place: usize,
        /// What was found.
        bytes: f64,
    },
    /// `popularityBuckets` and `popularityWeights` describe no popularity.
    #[error("`popularityBuckets`: {0}")]
    Popularity(#[from] PopularityError),
    /// `valSizeRange` and `valSizeRangeProbability` describe no sizes.
    #[error("`valSizeRange`: {0}")]
    Sizes(#[from] SizesError),
}

#[derive(Deserialize)]
struct PopularityFile {
    #[serde(rename = "popularityBuckets")]
    keys: Vec<f64>,
    #[serde(rename = "popularityWeights")]
    accesses: Vec<f64>,
}

#[derive(Deserialize)]
struct SizesFile {
    #[serde(rename = "valSizeRange")]
    bytes: Vec<f64>,
    #[serde(rename = "valSizeRangeProbability")]
    weights: Vec<f64>,
}

/// Reads the text of a `pop.json`.
pub fn popularity(text: &str) -> Result<PopularityBuckets, CacheLibError> {
    let file: PopularityFile = serde_json::from_str(text)?;
    check_lengths(
        ("popularityBuckets", file.keys.len()),
        ("popularityWeights", file.accesses.len()),
    )?;
    let pairs = file.keys.into_iter().zip(file.accesses);
    let bucket = |(keys, accesses)| PopularityBucket { keys, accesses };
    Ok(PopularityBuckets::new(pairs.map(bucket).collect())?)
}

/// Reads the text of a `sizes.json`.
pub fn sizes(text: &str) -> Result<DiscreteSizes, CacheLibError> {
    let file: SizesFile = serde_json::from_str(text)?;
    check_lengths(
        ("valSizeRange", file.bytes.len()),
        ("valSizeRangeProbability", file.weights.len()),
    )?;
    let possible = |bytes: &f64| (0.0..=f64::from(u32::MAX)).contains(bytes);
    if let Some(place) = file.bytes.iter().position(|bytes| !possible(bytes)) {
        return Err(CacheLibError::Bytes { place, bytes: file.bytes[place] });
    }
    let pairs = file.bytes.into_iter().zip(file.weights);
    let size = |(bytes, weight)| WeightedSize { bytes: bytes as u32, weight };
    Ok(DiscreteSizes::new(pairs.map(size).collect())?)
}

fn check_lengths(
    (first, first_length): (&'static str, usize),
    (second, second_length): (&'static str, usize),
) -> Result<(), CacheLibError> {
    if first_length == second_length {
        Ok(())
    } else {
        Err(CacheLibError::Lengths { first, first_length, second, second_length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_with_buckets_in_the_order_of_popularity() {
        let text =
            r#"{"oneHits": 0.1, "popularityBuckets": [8, 1], "popularityWeights": [16, 40]}"#;
        let read = popularity(text).unwrap();
        let hot = PopularityBucket { keys: 1.0, accesses: 40.0 };
        assert_eq!((read.buckets()[0], read.keys()), (hot, 9.0));
        let text = r#"{"valSizeRange": [31, 63.0], "valSizeRangeProbability": [0.25, 0.75]}"#;
        assert_eq!(sizes(text).unwrap().mean_bytes(), 55.0);
    }

    #[test]
    fn what_is_wrong_in_a_file_is_said_with_the_name_of_the_list() {
        let cases = [
            (r#"{"popularityBuckets": [], "popularityWeights": []}"#, "0 buckets"),
            (r#"{"popularityWeights": [1]}"#, "missing field `popularityBuckets`"),
            (
                r#"{"popularityBuckets": [1, 2], "popularityWeights": [1]}"#,
                "`popularityWeights` has 1",
            ),
            (
                r#"{"popularityBuckets": [1, -2], "popularityWeights": [1, 1]}"#,
                "bucket 1 has -2 keys",
            ),
            (
                r#"{"popularityBuckets": [1], "popularityWeights": [-1]}"#,
                "bucket 0 has -1 accesses",
            ),
            (r#"{"popularityBuckets": [1], "popularityWeights": [NaN]}"#, "at line 1"),
            (r#"{"popularityBuckets": [1], "popularityWeights": [1e999]}"#, "out of range"),
            (r#"{"popularityBuckets": [1e20], "popularityWeights": [1]}"#, "up to 2^53"),
            (r#"{"popularityBuckets": [1], "popularityWeights": [0]}"#, "no accesses at all"),
            ("", "at line 1"),
        ];
        for (text, words) in cases {
            let message = popularity(text).unwrap_err().to_string();
            assert!(message.contains(words), "{words:?} is not in {message:?}");
        }
        let cases = [
            (r#"{"valSizeRange": [], "valSizeRangeProbability": []}"#, "0 sizes"),
            (r#"{"valSizeRange": [1, 2], "valSizeRangeProbability": [1]}"#, "has 1"),
            (r#"{"valSizeRange": [-1], "valSizeRangeProbability": [1]}"#, "size -1 at place 0"),
            (r#"{"valSizeRange": [1e12], "valSizeRangeProbability": [1]}"#, "0 to 4294967295"),
            (r#"{"valSizeRange": [1], "valSizeRangeProbability": [-1]}"#, "weight of size 0 is -1"),
            (r#"{"valSizeRange": [1], "valSizeRangeProbability": [0]}"#, "no weight at all"),
        ];
        for (text, words) in cases {
            let message = sizes(text).unwrap_err().to_string();
            assert!(message.contains(words), "{words:?} is not in {message:?}");
        }
    }
}
