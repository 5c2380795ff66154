use proptest::prelude::*;

use super::*;

/// Sizes of four keys of the hand-made traces.
fn size(key: u64) -> u32 {
    [10, 10, 10, 10, 25][key as usize]
}

fn counts(limit: u64, extra: u64, trace: &[u64]) -> (u64, u64) {
    let mut shadow = Shadow::new(Bytes(limit), Bytes(extra), 0);
    for &key in trace {
        shadow.handle_query(key, || size(key));
    }
    let counts = shadow.take_counts();
    assert_eq!(counts.queries, trace.len() as u64);
    (counts.sampled_hits, counts.sampled_extra_hits)
}

/// Look-ups whose bytes in more recently used items, with the item's own, fit `limit`, and those that fit `extra` more:
/// the exact stack distances, computed for each look-up from the whole trace before it.
fn exact(limit: u64, extra: u64, trace: &[(u64, u32)]) -> (u64, u64) {
    let (mut hits, mut extra_hits) = (0, 0);
    for (now, &(key, _)) in trace.iter().enumerate() {
        let Some(last) = trace[..now].iter().rposition(|&(other, _)| other == key) else {
            continue;
        };
        let mut seen = std::collections::BTreeMap::new();
        seen.extend(trace[last..now].iter().copied());
        let distance: u64 = seen.values().map(|&bytes| u64::from(bytes)).sum();
        hits += u64::from(distance <= limit);
        extra_hits += u64::from(limit < distance && distance <= limit + extra);
    }
    (hits, extra_hits)
}

#[test]
fn a_look_up_just_beyond_the_limit_is_an_extra_hit() {
    // 0 comes back with 1 and 2 above it: 30 bytes. 1 comes back with 2 and 0 above it, and so on.
    assert_eq!(counts(20, 10, &[0, 1, 2, 0, 1, 2]), (0, 3));
    assert_eq!(counts(30, 10, &[0, 1, 2, 0, 1, 2]), (3, 0));
    assert_eq!(counts(10, 10, &[0, 1, 2, 0, 1, 2]), (0, 0));
    assert_eq!(counts(20, 10, &[0, 1, 0, 1, 2, 0]), (2, 1));
}

#[test]
fn an_item_that_fits_neither_limit_is_never_held_and_clears_what_is_colder() {
    assert_eq!(counts(10, 10, &[4, 4, 4]), (0, 0));
    assert_eq!(counts(10, 10, &[0, 4, 0]), (0, 0));
    assert_eq!(counts(10, 25, &[0, 4, 0]), (0, 1));
}

#[test]
fn the_mark_follows_the_limit() {
    let mut shadow = Shadow::new(Bytes(20), Bytes(20), 0);
    let look_up = |shadow: &mut Shadow, key: u64| {
        let is_extra = shadow.handle_query(key, || 10);
        let counts = shadow.take_counts();
        assert_eq!(is_extra, counts.sampled_extra_hits == 1);
        (counts.sampled_hits, counts.sampled_extra_hits)
    };
    for key in 0..4 {
        assert_eq!(look_up(&mut shadow, key), (0, 0));
    }
    assert_eq!(look_up(&mut shadow, 1), (0, 1), "30 bytes of 20");
    shadow.set_limit(Bytes(40));
    assert_eq!(look_up(&mut shadow, 0), (1, 0), "all four fit");
    shadow.set_limit(Bytes(10));
    assert_eq!(shadow.items(), 3, "10 and 20 bytes");
    assert_eq!(look_up(&mut shadow, 2), (0, 0), "the coldest is gone");
    assert_eq!(look_up(&mut shadow, 0), (0, 1));
}

#[test]
fn a_slope_is_extra_hits_of_all_queries_by_byte() {
    let counts = ShadowCounts { queries: 1_000, sampled_hits: 7, sampled_extra_hits: 5 };
    let slope = counts.hit_slope_per_byte(Bytes(200), 2).unwrap();
    assert!((slope - 5.0 * 4.0 / 1_000.0 / 200.0).abs() < 1e-18);
    assert_eq!(ShadowCounts::default().hit_slope_per_byte(Bytes(1), 0), None);
}

#[test]
fn a_sample_of_an_eighth_finds_the_slope_of_all_keys() {
    // A popularity with a heavy tail: a key below n with density falling as n^-0.8.
    let mut state = 7_u64;
    let mut next_key = || {
        state = mixed_bits(state);
        let unit = (state >> 11) as f64 / (1_u64 << 53) as f64;
        (unit * unit * unit * unit * unit * 40_000.0) as u64
    };
    let trace: Vec<u64> = (0..1_000_000).map(|_| next_key()).collect();
    let slope = |shift: u32| {
        let mut shadow = Shadow::new(Bytes(4_000_000), Bytes(1_000_000), shift);
        for &key in &trace {
            shadow.handle_query(key, || 500 + (mixed_bits(key) % 1_000) as u32);
        }
        shadow.take_counts().hit_slope_per_byte(Bytes(1_000_000), shift).unwrap()
    };
    let (all, sampled) = (slope(0), slope(3));
    assert!(all > 0.0 && (sampled / all - 1.0).abs() < 0.1, "{sampled} of {all}");
}

proptest! {
    #[test]
    fn the_counts_equal_exact_stack_distances(
        limit in 0_u64..200,
        extra in 1_u64..100,
        sizes in proptest::collection::vec(1_u32..60, 12),
        keys in proptest::collection::vec(0_usize..12, 1..120),
    ) {
        let trace: Vec<(u64, u32)> =
            keys.into_iter().map(|key| (key as u64, sizes[key])).collect();
        let mut shadow = Shadow::new(Bytes(limit), Bytes(extra), 0);
        for &(key, bytes) in &trace {
            shadow.handle_query(key, || bytes);
        }
        let counts = shadow.take_counts();
        prop_assert_eq!(
            (counts.sampled_hits, counts.sampled_extra_hits),
            exact(limit, extra, &trace)
        );
    }
}
