//! Production distributions published with CacheLib are read, and drawn from as they are. The data is not part of this repository: without it the test says so and passes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use robinhood_stats::BackendId;
use robinhood_workload::{
    Draws, Keys, ObjectSizes, Popularity, PopularityBucket, PopularityBuckets, Purpose, SizeSpec,
    cachelib,
};

/// Draws for each distribution, and the most standard errors that a share may be off.
const DRAWS: u64 = 2_000_000;
const STANDARD_ERRORS: f64 = 5.0;

/// Folders of the data, or none.
fn workloads() -> Vec<PathBuf> {
    let default = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let data = std::env::var_os("ROBINHOOD_REFERENCE_DATA").map_or_else(default, PathBuf::from);
    let folder = data.join("cachelib");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: there is no {}", folder.display());
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

fn assert_share(found: u64, share: f64, what: &str) {
    let expected = DRAWS as f64 * share;
    let error = (found as f64 - expected) / (expected * (1.0 - share)).max(1.0).sqrt();
    assert!(error.abs() <= STANDARD_ERRORS, "{what}: {found} instead of {expected}: {error}");
}

/// The share of accesses to the `keys` most popular keys.
fn share_below(buckets: &PopularityBuckets, keys: f64) -> f64 {
    let (mut before, mut below, mut total) = (0.0, 0.0, 0.0);
    for bucket in buckets.buckets() {
        below += bucket.accesses * ((keys - before) / bucket.keys).clamp(0.0, 1.0);
        before += bucket.keys;
        total += bucket.accesses;
    }
    below / total
}

/// Draws keys and compares the shares of queries between some keys with the shares of accesses between the keys that they stand for.
fn assert_popularity(buckets: &Arc<PopularityBuckets>, catalogue: u32, ends: &[u32], what: &str) {
    let keys = Keys::new(catalogue, &Popularity::Buckets(Arc::clone(buckets)));
    let sequence = Draws::new(1).at(Purpose::Key, 0, BackendId(0));
    let mut counts = vec![0_u64; catalogue as usize];
    (0..DRAWS).for_each(|i| counts[keys.key(sequence.bits(i)) as usize] += 1);
    let measured_keys = |end: u32| f64::from(end) * buckets.keys() / f64::from(catalogue);
    let mut start = 0;
    for &end in ends {
        let share =
            share_below(buckets, measured_keys(end)) - share_below(buckets, measured_keys(start));
        let found = counts[start as usize..end as usize].iter().sum();
        assert_share(found, share, &format!("{what}, {catalogue} keys, {start} to {end}"));
        start = end;
    }
    assert_eq!(start, catalogue, "the last end is the end of the catalogue");
}

#[test]
fn keys_are_drawn_from_each_bucket_as_often_as_they_were_accessed() {
    const SMALL: u32 = 200_000;
    for folder in workloads() {
        let text = std::fs::read_to_string(folder.join("pop.json")).unwrap();
        let buckets = Arc::new(cachelib::popularity(&text).unwrap());
        let mut all = 0;
        let end = |bucket: &PopularityBucket| {
            all += bucket.keys as u32;
            all
        };
        let ends: Vec<u32> = buckets.buckets().iter().map(end).collect();
        let what = folder.display().to_string();
        assert_popularity(&buckets, all, &ends, &what);
        let doubled = (0..).map(|power| 1 << power).take_while(|&end| end < SMALL);
        let ends: Vec<u32> = doubled.chain([SMALL]).collect();
        assert_popularity(&buckets, SMALL, &ends, &what);
    }
}

#[test]
fn sizes_are_drawn_as_often_as_they_were_measured() {
    for folder in workloads() {
        let text = std::fs::read_to_string(folder.join("sizes.json")).unwrap();
        let list = cachelib::sizes(&text).unwrap();
        let weights: f64 = list.sizes().iter().map(|size| size.weight).sum();
        let sizes = ObjectSizes::new(&SizeSpec::Discrete(Arc::new(list.clone())), BackendId(3));
        let mut counts = BTreeMap::new();
        (0..DRAWS as u32).for_each(|key| *counts.entry(sizes.bytes(key)).or_insert(0) += 1);
        let mut shares = BTreeMap::new();
        for size in list.sizes() {
            *shares.entry(size.bytes).or_insert(0.0) += size.weight / weights;
        }
        assert!(counts.keys().all(|bytes| shares.contains_key(bytes)), "a size that is not listed");
        // Neighbours are taken together until enough draws are expected for their number to be nearly normal.
        let (mut share_together, mut found) = (0.0, 0);
        for (bytes, share) in shares {
            share_together += share;
            found += counts.get(&bytes).copied().unwrap_or(0);
            if share_together * DRAWS as f64 >= 100.0 {
                let what = format!("{}, up to {bytes} bytes", folder.display());
                assert_share(found, share_together, &what);
                (share_together, found) = (0.0, 0);
            }
        }
    }
}
