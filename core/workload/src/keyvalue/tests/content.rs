//! The text of keys and values.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::{KeyPopularity, SizeDistribution};
use super::data;

#[test]
fn keys_differ_and_have_their_length_and_no_character_that_needs_quotes() {
    for keys in [1, 2, 32, 33, 1_024, 1_025, 40_000] {
        let shortest = super::super::content::digits(keys);
        let data = data(|spec| {
            spec.keys = keys;
            spec.key_sizes =
                SizeDistribution::Uniform { bytes_min: shortest, bytes_max: shortest + 3 };
        });
        let mut seen = BTreeSet::new();
        for key in 0..keys {
            let mut text = Vec::new();
            data.write_key(key, &mut text);
            assert_eq!(text.len(), data.key_bytes(key) as usize);
            assert!(text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)));
            assert!(seen.insert(text), "key {key} of {keys} is not the first with this text");
        }
    }
}

#[test]
fn keys_need_one_character_for_each_five_bits_of_their_number() {
    let digits = super::super::content::digits;
    let counts = [1, 32, 33, 1_024, 1_025, 100_000, 1 << 20, (1 << 20) + 1, u32::MAX.into()];
    assert_eq!(counts.map(digits), [1, 1, 2, 2, 3, 4, 4, 5, 7]);
}

#[test]
fn the_last_of_four_billion_keys_can_be_written() {
    let data = data(|spec| {
        spec.keys = u32::MAX.into();
        spec.popularity = KeyPopularity::Zipf { exponent: 0.9 };
        spec.key_sizes = SizeDistribution::Fixed(7);
    });
    let mut text = Vec::new();
    data.write_key(data.keys() - 1, &mut text);
    assert_eq!(text, b"3vvvvvu");
}

#[test]
fn values_are_told_from_those_of_other_keys_and_from_damaged_ones() {
    let data = data(|spec| {
        spec.value_sizes = SizeDistribution::Uniform { bytes_min: 8, bytes_max: 20_000 };
    });
    let value = |key| {
        let mut value = Vec::new();
        data.write_value(key, &mut value);
        value
    };
    for key in 0..500 {
        let mut right = value(key);
        assert_eq!(right.len(), data.value_bytes(key) as usize);
        assert!(data.check_value(key, &right) && data.check_whole_value(key, &right));
        let mut other = value(key + 1);
        other.resize(right.len(), b'x');
        assert!(!data.check_value(key, &other) && !data.check_whole_value(key, &other));
        assert!(!data.check_value(key, &right[1..]), "too short");
        for place in [0, right.len() / 2, right.len() - 1] {
            right[place] ^= 1;
            assert!(!data.check_whole_value(key, &right), "byte {place} is damaged");
            let is_end = place < 16 || place + 16 >= right.len();
            assert_eq!(data.check_value(key, &right), !is_end, "the ends are checked");
            right[place] ^= 1;
        }
    }
    // One value ends with what another one begins with: appended, not replaced.
    let mut both = value(1);
    data.write_value(2, &mut both);
    assert!(data.check_whole_value(2, &both[data.value_bytes(1) as usize..]));
}

#[test]
fn an_empty_value_is_checked_by_its_length() {
    let data = data(|spec| spec.value_sizes = SizeDistribution::Fixed(0));
    let mut value = Vec::new();
    data.write_value(3, &mut value);
    assert!(value.is_empty() && data.check_value(3, b"") && data.check_whole_value(3, b""));
    assert!(!data.check_value(3, b"x") && !data.check_whole_value(3, b"x"));
}

#[test]
fn text_is_the_same_in_every_run_and_version() {
    let data = data(|_| {});
    let (mut key, mut value) = (Vec::new(), Vec::new());
    data.write_key(74_321, &mut key);
    data.write_value(74_321, &mut value);
    value.truncate(24);
    // A change makes caches that were filled before useless.
    assert_eq!(String::from_utf8(key).unwrap(), PINNED.0);
    assert_eq!(String::from_utf8(value).unwrap(), PINNED.1);
}

const PINNED: (&str, &str) = ("28ihDdGUM5tkDVl2V-nvE5lyFNKMRE", "u8t8pqv2W2bZalep3pchzgxX");

proptest! {
    #[test]
    fn values_of_any_size_are_recognised(bytes in 0..10_000_u32, key in 0..100_000_u64) {
        let data = data(|spec| spec.value_sizes = SizeDistribution::Fixed(bytes));
        let mut value = Vec::new();
        data.write_value(key, &mut value);
        prop_assert_eq!(value.len(), bytes as usize);
        prop_assert!(data.check_value(key, &value) && data.check_whole_value(key, &value));
    }
}
