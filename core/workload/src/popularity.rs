//! Popularity: which keys of a backend are asked for how often.
//!
//! Place in the flow: a workload says it, the generator turns random bits into keys by it, for every query. Key 0 is the most popular one, so
//! popular keys are neighbours in every table that is indexed by key.

use std::sync::Arc;

use crate::alias::AliasTable;
use crate::zipf::Zipf;

/// How a backend's queries are distributed over its keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Popularity {
    /// The k-th most popular key gets a share proportional to `1 / k^exponent`.
    Zipf {
        /// From 0 (all keys alike) up.
        exponent: f64,
    },
    /// Measured: groups of keys that are alike, scaled to the catalogue.
    Buckets(Arc<PopularityBuckets>),
}

/// Keys in groups, most popular keys first.
#[derive(Clone, Debug, PartialEq)]
pub struct PopularityBuckets {
    buckets: Vec<PopularityBucket>,
}

/// Some keys that are equally popular.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PopularityBucket {
    /// How many keys it has.
    pub keys: f64,
    /// Accesses to all of them together.
    pub accesses: f64,
}

/// Buckets that describe no popularity.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PopularityError {
    /// None, or too many.
    #[error("{found} buckets: allowed are 1 to {}", PopularityBuckets::BUCKETS_MAX)]
    Count {
        /// How many.
        found: usize,
    },
    /// A bucket without keys.
    #[error("bucket {bucket} has {keys} keys: allowed is a number above 0 and up to 2^53")]
    Keys {
        /// Its place in the list, from 0.
        bucket: usize,
        /// What was found.
        keys: f64,
    },
    /// A bucket with an impossible number of accesses.
    #[error("bucket {bucket} has {accesses} accesses: allowed is a number from 0 to 2^53")]
    Accesses {
        /// Its place in the list, from 0.
        bucket: usize,
        /// What was found.
        accesses: f64,
    },
    /// Nobody is ever asked for.
    #[error("the buckets have no accesses at all: at least one must be above 0")]
    NoAccesses,
}

/// The largest count that a bucket holds: up to it doubles count exactly.
const COUNT_MAX: f64 = 9_007_199_254_740_992.0;

impl PopularityBuckets {
    /// The most buckets.
    pub const BUCKETS_MAX: usize = 1 << 20;

    /// Sorts buckets by the accesses to each of their keys, most first; those that are alike keep their order.
    pub fn new(mut buckets: Vec<PopularityBucket>) -> Result<Self, PopularityError> {
        if !(1..=Self::BUCKETS_MAX).contains(&buckets.len()) {
            return Err(PopularityError::Count { found: buckets.len() });
        }
        for (bucket, &PopularityBucket { keys, accesses }) in buckets.iter().enumerate() {
            if !(keys > 0.0 && keys <= COUNT_MAX) {
                return Err(PopularityError::Keys { bucket, keys });
            }
            if !(0.0..=COUNT_MAX).contains(&accesses) {
                return Err(PopularityError::Accesses { bucket, accesses });
            }
        }
        if buckets.iter().all(|bucket| bucket.accesses == 0.0) {
            return Err(PopularityError::NoAccesses);
        }
        let density = |bucket: &PopularityBucket| bucket.accesses / bucket.keys;
        buckets.sort_by(|a, b| density(b).total_cmp(&density(a)));
        Ok(Self { buckets })
    }

    /// The buckets, most popular keys first.
    pub fn buckets(&self) -> &[PopularityBucket] {
        &self.buckets
    }

    /// Keys of all buckets together.
    pub fn keys(&self) -> f64 {
        self.buckets.iter().map(|bucket| bucket.keys).sum()
    }
}

/// Turns random bits into keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Keys {
    /// By a table of quantiles.
    Zipf(Zipf),
    /// By a table of buckets.
    Buckets(BucketKeys),
}

impl Keys {
    /// Keys 0 to `catalogue - 1`.
    ///
    /// # Panics
    /// When the catalogue is empty, or a Zipf exponent is negative or not finite.
    pub fn new(catalogue: u32, popularity: &Popularity) -> Self {
        match popularity {
            Popularity::Zipf { exponent } => Self::Zipf(Zipf::new(catalogue, *exponent)),
            Popularity::Buckets(buckets) => Self::Buckets(BucketKeys::new(catalogue, buckets)),
        }
    }

    /// The key for 64 random bits. Who draws many does better to match once and ask the variant.
    #[inline]
    pub fn key(&self, bits: u64) -> u32 {
        match self {
            Self::Zipf(zipf) => zipf.rank(bits),
            Self::Buckets(buckets) => buckets.key(bits),
        }
    }
}

/// Keys by buckets.
///
/// The catalogue stands for all keys of the buckets: each bucket takes the share of the catalogue that it has of all keys, and gets the share of
/// queries that it has of all accesses. In a catalogue smaller than what was measured, several of the most popular keys become one with the accesses
/// of all of them, so that a cache for a given share of the keys gets the share of accesses that it would have got.
#[derive(Clone, Debug, PartialEq)]
pub struct BucketKeys {
    table: AliasTable,
    spans: Vec<Span>,
    catalogue: u32,
}

/// The part of the catalogue that a bucket takes, as ranks with a fraction.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    start: f64,
    length: f64,
}

impl BucketKeys {
    /// # Panics
    /// When the catalogue is empty.
    pub fn new(catalogue: u32, buckets: &PopularityBuckets) -> Self {
        assert!(catalogue > 0, "a catalogue has at least one key");
        let scale = f64::from(catalogue) / buckets.keys();
        let mut before = 0.0;
        let span = |bucket: &PopularityBucket| {
            let start = before;
            before += bucket.keys;
            Span { start: start * scale, length: bucket.keys * scale }
        };
        let spans = buckets.buckets.iter().map(span).collect();
        let accesses: Vec<f64> = buckets.buckets.iter().map(|bucket| bucket.accesses).collect();
        Self { table: AliasTable::new(&accesses), spans, catalogue }
    }

    /// The key for 64 random bits.
    #[inline]
    pub fn key(&self, bits: u64) -> u32 {
        let (bucket, place) = self.table.choose(bits);
        let span = self.spans[bucket];
        ((span.start + place * span.length) as u32).min(self.catalogue - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::{Draws, Purpose};
    use robinhood_stats::BackendId;

    fn buckets(pairs: &[(f64, f64)]) -> PopularityBuckets {
        let bucket = |&(keys, accesses): &(f64, f64)| PopularityBucket { keys, accesses };
        PopularityBuckets::new(pairs.iter().map(bucket).collect()).unwrap()
    }

    fn counts(catalogue: u32, buckets: &PopularityBuckets, draws: u64) -> Vec<u32> {
        let keys = BucketKeys::new(catalogue, buckets);
        let sequence = Draws::new(7).at(Purpose::Key, 0, BackendId(0));
        let mut counts = vec![0; catalogue as usize];
        (0..draws).for_each(|i| counts[keys.key(sequence.bits(i)) as usize] += 1);
        counts
    }

    #[test]
    fn buckets_get_their_share_of_queries_and_their_keys_are_alike() {
        let buckets = buckets(&[(90.0, 100.0), (1.0, 500.0), (9.0, 400.0)]);
        let counts = counts(100, &buckets, 1_000_000);
        for (keys, share) in [(0..1, 0.5), (1..10, 0.4), (10..100, 0.1)] {
            let each = 1e6 * share / keys.len() as f64;
            for key in keys {
                let error = (f64::from(counts[key]) - each) / each.sqrt();
                assert!(error.abs() < 5.0, "key {key}: {} instead of {each}", counts[key]);
            }
        }
    }

    #[test]
    fn a_smaller_catalogue_keeps_the_shares_of_keys_and_of_accesses() {
        let buckets = buckets(&[(1.0, 500.0), (9.0, 400.0), (90.0, 100.0)]);
        let counts = counts(10, &buckets, 100_000);
        // The ten most popular of a hundred keys are the first of ten, and get what they got together.
        assert!((f64::from(counts[0]) / 1e5 - 0.9).abs() < 0.005, "{counts:?}");
        for &count in &counts[1..] {
            assert!((f64::from(count) / 1e5 - 0.1 / 9.0).abs() < 0.002, "{counts:?}");
        }
        assert_eq!(BucketKeys::new(1, &buckets).key(u64::MAX), 0);
    }

    #[test]
    fn impossible_buckets_are_refused_with_their_place() {
        let error = |pairs: &[(f64, f64)]| {
            let bucket = |&(keys, accesses): &(f64, f64)| PopularityBucket { keys, accesses };
            PopularityBuckets::new(pairs.iter().map(bucket).collect()).unwrap_err().to_string()
        };
        assert!(error(&[]).contains("0 buckets: allowed are 1 to"));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            let message = error(&[(1.0, 1.0), (bad, 1.0)]);
            assert!(message.starts_with("bucket 1 has") && message.contains("keys"), "{message}");
        }
        for bad in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
            let message = error(&[(1.0, bad)]);
            assert!(message.starts_with("bucket 0 has") && message.contains("accesses"));
        }
        assert!(error(&[(1.0, 0.0), (3.0, 0.0)]).contains("at least one must be above 0"));
    }
}
