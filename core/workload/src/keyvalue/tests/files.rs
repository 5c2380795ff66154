//! Key-value workload files: read, written, and refused with the line of the mistake.

use std::sync::Arc;

use proptest::prelude::*;
use robinhood_stats::Nanos;

use super::super::{
    KeyPopularity, KeyValueSpec, NAMES, SizeDistribution, SizeLimits, by_name, read, small,
    write_json, write_toml,
};
use super::sizes::sizes;
use crate::arrivals::{Arrivals, RecordedGaps};
use crate::file::FileError;
use crate::sizes::{DiscreteSizes, WeightedSize};

const MEMCACHED: SizeLimits =
    SizeLimits { whose: "memcached", key_bytes_max: 250, value_bytes_max: 1_048_576 };

/// The line of each key matters to the tests below.
const TOML: &str = r#"name = "sessions"
keys = 50_000 # of one region
popularity = { zipf = 0.9 }
get_share = 0.95
hit_share = 0.8
arrivals = "on-off:20ms/80ms"
key_sizes = { uniform = { bytes_min = "20B", bytes_max = "40B" } }

[value_sizes.mixture]
head = [["0B", 0.1], ["100B", 0.5]]
tail = { log_normal = { median = "1KB", sigma = 0.5, bytes_min = "64B", bytes_max = "16KiB" } }
"#;

const JSON: &str = r#"{
  "name": "sessions",
  "keys": 50000,
  "popularity": { "zipf": 0.9 },
  "get_share": 0.95,
  "hit_share": 0.8,
  "arrivals": "on-off:20ms/80ms",
  "key_sizes": { "uniform": { "bytes_min": "20B", "bytes_max": "40B" } },
  "value_sizes": {
    "mixture": {
      "head": [["0B", 0.1], ["100B", 0.5]],
      "tail": { "log_normal": { "median": "1KB", "sigma": 0.5, "bytes_min": "64B", "bytes_max": "16KiB" } }
    }
  }
}
"#;

fn resolve(path: &str) -> Result<String, String> {
    match path {
        "gaps.txt" => Ok("10us\n30us\n".to_owned()),
        _ => Err("No such file".to_owned()),
    }
}

fn try_read(text: &str) -> Result<KeyValueSpec, FileError> {
    read(text, "kv.toml", &MEMCACHED, &mut resolve)
}

#[test]
fn toml_and_json_describe_the_same_workload() {
    let spec = try_read(TOML).unwrap();
    assert_eq!((spec.name.as_str(), spec.keys), ("sessions", 50_000));
    assert_eq!(spec.popularity, KeyPopularity::Zipf { exponent: 0.9 });
    assert_eq!((spec.get_share, spec.hit_share), (0.95, Some(0.8)));
    assert_eq!(
        spec.arrivals,
        Arrivals::OnOff { on: Nanos::from_millis(20), off: Nanos::from_millis(80) }
    );
    assert_eq!(spec.key_sizes, SizeDistribution::Uniform { bytes_min: 20, bytes_max: 40 });
    assert_eq!(spec.value_sizes.bounds(), (0, 16_384));
    let SizeDistribution::Mixture { tail, .. } = &spec.value_sizes else { panic!("a mixture") };
    let SizeDistribution::LogNormal { mu, .. } = **tail else { panic!("log-normal") };
    assert!((libm::exp(mu) - 1_000.0).abs() < 1e-9);
    assert_eq!(try_read(JSON).unwrap(), spec);
}

#[test]
fn what_may_be_left_out_has_its_default() {
    let text = "name = \"x\"\nkeys = 9\npopularity = \"uniform\"\nget_share = 1\nkey_sizes.fixed = \"9B\"\nvalue_sizes.list = [[\"1KB\", 3], [\"2B\", 1]]";
    let spec = try_read(text).unwrap();
    assert_eq!((spec.popularity, spec.hit_share), (KeyPopularity::Uniform, None));
    assert_eq!(spec.arrivals, Arrivals::Poisson);
    assert_eq!(spec.value_sizes.mean_bytes(), 750.5);
}

#[test]
fn recorded_arrivals_are_taken_from_their_file() {
    let text = TOML.replace("on-off:20ms/80ms", "recorded:gaps.txt");
    let spec = try_read(&text).unwrap();
    let gaps = vec![Nanos::from_micros(10), Nanos::from_micros(30)];
    assert_eq!(spec.arrivals, Arrivals::Recorded(RecordedGaps::new("gaps.txt", gaps).unwrap()));
    for text in [write_toml(&spec), write_json(&spec)] {
        assert_eq!(try_read(&text).unwrap(), spec, "{text}");
    }
}

#[test]
fn presets_that_are_written_are_read_as_they_were() {
    for spec in NAMES.map(|name| by_name(name).unwrap()) {
        for text in [write_toml(&spec), write_json(&spec)] {
            let again = try_read(&text).unwrap();
            assert_eq!(again, spec, "{text}");
        }
    }
}

/// What stands in the good files, what is put there instead, the lines in TOML and in JSON, and words of the error.
const MISTAKES: &[(&str, &str, usize, usize, &str)] = &[
    ("hit_share", "hits_share", 5, 6, "there is no `hits_share`: did you mean `hit_share`?"),
    ("zipf", "zpif", 3, 4, "there is no `zpif`: did you mean `zipf`?"),
    ("bytes_max", "bytes_maxi", 7, 8, "there is no `bytes_maxi`: did you mean `bytes_max`?"),
    ("log_normal", "lognormal", 11, 12, "there is no `lognormal`: did you mean `log_normal`?"),
    ("0.95", "\"95%\"", 4, 5, "invalid type: string \"95%\", expected a number"),
    (
        "\"20B\"",
        "20",
        7,
        8,
        "invalid type: integer `20`, expected a number with its unit in quotes",
    ),
    ("\"20B\"", "\"20\"", 7, 8, "`20` has no unit: write B, KiB"),
    ("\"1KB\"", "\"1KB\", \"mu\" = 7", 9, 9, "`value_sizes`: say either `median`"),
    ("0.5]", "0.9]", 9, 9, "`value_sizes`: the probabilities in the head add up to 1"),
    ("0.95", "1.5", 4, 5, "`get_share` is 1.5: allowed is a number from 0 to 1"),
    ("0.8", "0", 5, 6, "`hit_share` is 0: allowed is a number from 0.01 to 1"),
    ("0.9 }", "-1 }", 3, 4, "the exponent of Zipf's law is -1: allowed is a number from 0 to 100"),
    ("on-off:20ms/80ms", "onoff", 6, 7, "`arrivals`: there are no arrivals `onoff`: write poisson"),
    ("on-off:20ms/80ms", "recorded:x", 6, 7, "`arrivals`: cannot read `x`: No such file"),
    ("\"40B\"", "\"300B\"", 7, 8, "`key_sizes` reach 300 B: memcached takes keys of up to 250 B"),
    (
        "16KiB",
        "2MB",
        9,
        9,
        "`value_sizes` reach 2000000 B: memcached takes values of up to 1048576 B",
    ),
    ("16KiB", "5GB", 9, 9, "`value_sizes`: 5000000000 bytes are too many for an object"),
    ("\"20B\"", "\"3B\"", 7, 8, "`key_sizes` begin at 3 B: 50000 different keys need 4 B or more"),
    ("0.1]", "-0.1]", 9, 9, "`value_sizes`: the weight of size 0 is -0.1"),
];

#[test]
fn mistakes_are_refused_with_line_and_advice() {
    for &(good, bad, in_toml, in_json, words) in MISTAKES {
        for (text, line) in [(TOML, in_toml), (JSON, in_json)] {
            // What TOML says with `=`, JSON says with `:`.
            let bad = if text == JSON { bad.replace(" =", ":") } else { bad.to_owned() };
            let bad = if text == TOML { bad.replace("\"mu\"", "mu") } else { bad };
            let changed = text.replacen(good, &bad, 1);
            assert_ne!(changed, text, "{good} is in the file");
            let message = try_read(&changed).unwrap_err().to_string();
            assert!(
                message.starts_with(&format!("kv.toml, line {line}: ")) && message.contains(words),
                "{good} -> {bad} must say line {line}, {words}: {message}"
            );
        }
    }
}

#[test]
fn keys_that_are_missing_and_texts_that_are_neither_are_refused() {
    for (text, words) in [
        ("", "kv.toml, line 1: missing field `name`"),
        ("{}", "kv.toml, line 1: missing field `name`"),
        ("{\"name\": \"x\",\n\"keys\" 3}", "kv.toml, line 2: expected `:`"),
        ("[1, 2]", "kv.toml, line 1: "),
        ("name = \"x\"\nkeys == 3", "kv.toml, line 2: "),
    ] {
        let message = try_read(text).unwrap_err().to_string();
        assert!(message.starts_with(words) && !message.contains('\n'), "{message}");
    }
}

fn listed(pairs: Vec<(u32, f64)>, total: f64) -> Arc<DiscreteSizes> {
    let sum: f64 = pairs.iter().map(|pair| pair.1).sum();
    let size = |(bytes, weight)| WeightedSize { bytes, weight: weight * total / sum };
    Arc::new(DiscreteSizes::new(pairs.into_iter().map(size).collect()).unwrap())
}

fn any_sizes() -> impl Strategy<Value = SizeDistribution> {
    let pairs = || prop::collection::vec((7..=u32::MAX, 1e-9..1.0), 1..20);
    prop_oneof![
        3 => sizes(),
        1 => pairs().prop_map(|pairs| SizeDistribution::Discrete(listed(pairs, 1e6))),
        1 => (pairs(), 0.01..0.99, sizes()).prop_map(|(pairs, share, tail)| {
            SizeDistribution::Mixture { head: listed(pairs, share), tail: Box::new(tail) }
        }),
    ]
}

proptest! {
    #[test]
    fn any_workload_that_is_written_is_read_as_it_was(
        keys in 1..=KeyValueSpec::KEYS_MAX,
        exponent in prop::option::of(0.0..100.0),
        get_share in 0.0..=1.0,
        hit_share in prop::option::of(0.01..=1.0),
        key_sizes in any_sizes(),
        value_sizes in any_sizes(),
    ) {
        let popularity = match exponent {
            Some(exponent) => KeyPopularity::Zipf { exponent },
            None => KeyPopularity::Uniform,
        };
        let fits = key_sizes.bounds().0 >= 7;
        let key_sizes = if fits { key_sizes } else { SizeDistribution::Fixed(7) };
        let spec = KeyValueSpec {
            keys, popularity, get_share, hit_share, key_sizes, value_sizes, ..small()
        };
        for text in [write_toml(&spec), write_json(&spec)] {
            let again = read(&text, "x", &SizeLimits::NONE, &mut resolve);
            prop_assert_eq!(again.unwrap(), spec.clone(), "{}", text);
        }
    }

    #[test]
    fn no_change_of_a_good_file_makes_the_reader_panic(
        json: bool,
        place in 0.0..1.0,
        removed in 0..12_usize,
        inserted in "[\\{\\}\\[\\]\",:=0-9a-z\n -]{0,6}",
    ) {
        let good: Vec<char> = if json { JSON } else { TOML }.chars().collect();
        let start = (place * good.len() as f64) as usize;
        let end = (start + removed).min(good.len());
        let text: String =
            good[..start].iter().copied().chain(inserted.chars()).chain(good[end..].iter().copied()).collect();
        if let Err(error) = try_read(&text) {
            let message = error.to_string();
            prop_assert!(message.starts_with("kv.toml, line ") && !message.contains('\n'), "{}", message);
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>(), json: bool) {
        let text = if json { format!("{{{text}") } else { text };
        if let Err(error) = try_read(&text) {
            prop_assert!(error.to_string().starts_with("kv.toml, line "));
        }
    }
}
