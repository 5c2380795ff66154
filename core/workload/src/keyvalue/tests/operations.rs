//! Operations: their mix, their keys, and the share of reads that hit.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::{
    KeyPopularity, KeyValueError, KeyValueSpec, KeyValueStream, KeyValues, Operation,
    OperationKind, SizeDistribution, SizeLimits, by_name, etc, small, summary,
};
use super::data;

const ZIPF: KeyPopularity = KeyPopularity::Zipf { exponent: 0.99 };

fn operations(data: &Arc<KeyValues>, seed: u64, client: u32, count: usize) -> Vec<Operation> {
    KeyValueStream::new(data, seed, client).take(count).collect()
}

#[test]
fn reads_and_keys_have_their_shares() {
    const COUNT: usize = 400_000;
    for popularity in [KeyPopularity::Uniform, ZIPF] {
        let data = data(|spec| {
            (spec.keys, spec.popularity, spec.get_share) = (1_000, popularity, 0.75);
        });
        let weight = |key: u64| match popularity {
            KeyPopularity::Uniform => 1.0,
            KeyPopularity::Zipf { exponent } => libm::pow(key as f64 + 1.0, -exponent),
        };
        let weights: f64 = (0..1_000).map(weight).sum();
        let all = operations(&data, 7, 0, COUNT);
        let near = |found: usize, share: f64| {
            let expected = share * COUNT as f64;
            let error = (expected * (1.0 - share)).sqrt() + 1e-4 * COUNT as f64 * share.min(0.1);
            assert!((found as f64 - expected).abs() < 5.0 * error, "{found} for {expected}");
        };
        near(all.iter().filter(|one| one.kind == OperationKind::Get).count(), 0.75);
        for key in [0, 1, 2, 10, 99, 999] {
            near(all.iter().filter(|one| one.key == key).count(), weight(key) / weights);
        }
        assert!(all.iter().all(|one| one.key < 1_000));
    }
}

#[test]
fn clients_and_seeds_have_operations_of_their_own() {
    let data = data(|_| {});
    let base = operations(&data, 1, 0, 1_000);
    assert_eq!(base, operations(&data, 1, 0, 1_000));
    for (seed, client) in [(2, 0), (1, 1), (1, 2)] {
        let other = operations(&data, seed, client, 1_000);
        let alike = base.iter().zip(&other).filter(|(a, b)| a.key == b.key).count();
        assert!(alike < 5, "{alike} of 1,000 keys of 100,000 are the same");
    }
}

#[test]
fn all_or_nothing_is_read() {
    for (share, kind) in [(1.0, OperationKind::Get), (0.0, OperationKind::Set)] {
        let data = data(|spec| spec.get_share = share);
        assert!(operations(&data, 1, 0, 10_000).iter().all(|one| one.kind == kind));
    }
}

#[test]
fn the_share_of_hits_is_what_was_asked_for_and_writes_keep_it() {
    for (keys, popularity) in [(1_000, KeyPopularity::Uniform), (20_000, ZIPF), (3_000_000, ZIPF)] {
        for hits in [0.01, 0.2, 0.5, 0.814, 0.95, 1.0] {
            let data = data(|spec| {
                (spec.keys, spec.popularity) = (keys, popularity);
                (spec.hit_share, spec.get_share) = (Some(hits), 0.9);
            });
            let stated = data.expected_hit_share();
            assert!((stated - hits).abs() < 0.002, "{keys} {popularity:?} {hits}: {stated}");
            let all = operations(&data, 3, 0, 200_000);
            let (reads, writes): (Vec<&Operation>, Vec<&Operation>) =
                all.iter().partition(|one| one.kind == OperationKind::Get);
            let found = reads.iter().filter(|one| data.is_preloaded(one.key)).count() as f64
                / reads.len() as f64;
            let error = (hits * (1.0 - hits) / reads.len() as f64).sqrt();
            assert!((found - stated).abs() < 5.0 * error + 0.001, "{keys} {hits}: {found}");
            assert!(writes.iter().all(|one| data.is_preloaded(one.key)));
        }
    }
}

#[test]
fn missing_keys_are_of_all_popularities() {
    let data = data(|spec| {
        (spec.keys, spec.popularity, spec.hit_share) = (100_000, ZIPF, Some(0.8));
    });
    for range in [0..1_000, 1_000..10_000, 10_000..100_000_u64] {
        let keys = (range.end - range.start) as f64;
        let missing = range.clone().filter(|&key| !data.is_preloaded(key)).count() as f64;
        assert!((0.1..0.3).contains(&(missing / keys)), "{missing} of keys {range:?}");
    }
}

#[test]
fn without_hits_nothing_is_preloaded_and_only_reads_are_possible() {
    let mut spec = small();
    (spec.hit_share, spec.get_share) = (Some(0.0), 1.0);
    let data = KeyValues::new(&spec).unwrap();
    assert_eq!((data.expected_hit_share(), data.preloaded_keys().count()), (0.0, 0));
    assert_eq!(operations(&data, 1, 0, 100).len(), 100);
    spec.get_share = 0.99;
    let message = KeyValues::new(&spec).unwrap_err().to_string();
    assert_eq!(
        message,
        "`hit_share` is 0: allowed is a number from 0.01 to 1 (only keys that are there are written)"
    );
}

#[test]
fn a_share_of_hits_that_cannot_be_reached_is_refused_with_the_nearest() {
    let mut spec = small();
    (spec.keys, spec.hit_share) = (10, Some(0.75));
    let message = KeyValues::new(&spec).unwrap_err().to_string();
    assert_eq!(
        message,
        "no choice of keys gives a hit share of 0.75, the nearest is 0.8000: take more keys, or a popularity that is more even"
    );
    spec.hit_share = Some(0.7);
    assert!((KeyValues::new(&spec).unwrap().expected_hit_share() - 0.7).abs() < 1e-9);
}

#[test]
fn preloading_visits_each_key_once_and_no_neighbours_in_a_row() {
    for keys in [1, 2, 3, 10, 1_000, 4_096, 100_003] {
        let data = data(|spec| spec.keys = keys);
        let order: Vec<u64> = data.preloaded_keys().collect();
        assert_eq!(order.iter().collect::<BTreeSet<_>>().len() as u64, keys);
        if keys > 100 {
            assert!(order.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > keys / 4), "{keys}");
        }
    }
    let some = data(|spec| (spec.keys, spec.hit_share) = (1_000, Some(0.3)));
    let order: BTreeSet<u64> = some.preloaded_keys().collect();
    assert_eq!(order.len(), 300);
    assert!((0..1_000).all(|key| some.is_preloaded(key) == order.contains(&key)));
}

#[test]
fn specs_that_cannot_run_are_refused_with_the_field() {
    type Change = fn(&mut KeyValueSpec);
    let changes: [(Change, &str, &str); 8] = [
        (|s| s.keys = 0, "keys", "0 keys: allowed are 1 to 4294967295"),
        (|s| s.keys = 1 << 32, "keys", "4294967296 keys"),
        (
            |s| s.popularity = KeyPopularity::Zipf { exponent: f64::NAN },
            "popularity",
            "the exponent of Zipf's law is NaN: allowed is a number from 0 to 100",
        ),
        (|s| s.get_share = 1.1, "get_share", "`get_share` is 1.1: allowed is a number from 0 to 1"),
        (|s| s.hit_share = Some(f64::NAN), "hit_share", "`hit_share` is NaN: allowed is"),
        (
            |s| s.key_sizes = SizeDistribution::Fixed(3),
            "key_sizes",
            "`key_sizes` begin at 3 B: 100000 different keys need 4 B or more",
        ),
        (
            |s| s.value_sizes = SizeDistribution::Uniform { bytes_min: 2, bytes_max: 1 },
            "value_sizes",
            "`value_sizes`: the smallest size, 2 B, is above the largest, 1 B",
        ),
        (
            |s| s.arrivals = crate::Arrivals::GeneralisedPareto { shape: 2.0 },
            "arrivals",
            "`arrivals`: the shape of the Pareto gaps is 2",
        ),
    ];
    for (change, field, words) in changes {
        let mut spec = small();
        change(&mut spec);
        let error = KeyValues::new(&spec).unwrap_err();
        assert_eq!(error.field(), field);
        assert!(error.to_string().starts_with(words), "{error}");
    }
}

#[test]
fn sizes_over_the_limit_of_a_protocol_are_refused_with_the_limit() {
    let limits = SizeLimits { whose: "memcached", key_bytes_max: 250, value_bytes_max: 1_048_576 };
    for name in super::super::NAMES {
        let spec = by_name(name).unwrap();
        assert_eq!((spec.name.as_str(), spec.check_limits(&limits)), (name, Ok(())));
        assert!(summary(name).unwrap().len() <= 100, "one line of a terminal");
    }
    let mut spec = small();
    spec.key_sizes = SizeDistribution::Fixed(251);
    let error = spec.check_limits(&limits).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`key_sizes` reach 251 B: memcached takes keys of up to 250 B, so bound them by it"
    );
    spec = etc();
    let small_values = SizeLimits { value_bytes_max: 1_000, ..limits };
    let error = spec.check_limits(&small_values).unwrap_err();
    assert!(matches!(error, KeyValueError::Limit { field: "value_sizes", found: 1_000_000, .. }));
    assert_eq!(
        by_name("ect").unwrap_err().to_string(),
        "there is no key-value workload `ect`: the presets are etc, small"
    );
    assert!(summary("ect").is_err());
}

proptest! {
    #[test]
    fn any_hit_share_is_reached_or_refused(
        keys in 1..5_000_u64,
        exponent in 0.0..3.0,
        hits in 0.0..=1.0,
    ) {
        let mut spec = small();
        spec.keys = keys;
        spec.popularity = KeyPopularity::Zipf { exponent };
        (spec.hit_share, spec.get_share) = (Some(hits), 1.0);
        match KeyValues::new(&spec) {
            Ok(data) => {
                prop_assert!((data.expected_hit_share() - hits).abs() <= 0.005);
                spec.get_share = 0.5;
                if hits >= KeyValueSpec::HIT_SHARE_MIN {
                    let data = KeyValues::new(&spec).unwrap();
                    let all = operations(&data, 1, 0, 200);
                    let mut writes = all.iter().filter(|one| one.kind == OperationKind::Set);
                    prop_assert!(writes.all(|one| data.is_preloaded(one.key)));
                }
            }
            Err(KeyValueError::HitShare { nearest, .. }) => {
                prop_assert!((nearest - hits).abs() > 0.005);
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
