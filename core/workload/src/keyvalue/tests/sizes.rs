//! Sizes against the closed forms of their distributions.

use std::sync::Arc;

use proptest::prelude::*;
use robinhood_stats::distributions::normal_quantile;

use super::super::size_table::SizesByKey;
use super::super::{KeyValueStream, KeyValues, SizeDistribution, etc};
use crate::draws::{Draws, Purpose};
use crate::sizes::{DiscreteSizes, WeightedSize};

const KEYS: u64 = 1 << 19;

fn sample(sizes: &SizeDistribution) -> Vec<u32> {
    sizes.validate().unwrap();
    let by_key = SizesByKey::new(sizes, Draws::new(1).of_request(Purpose::ValueBytes, 0));
    (0..KEYS).map(|key| by_key.bytes(key)).collect()
}

fn list(pairs: &[(u32, f64)]) -> Arc<DiscreteSizes> {
    let size = |&(bytes, weight): &(u32, f64)| WeightedSize { bytes, weight };
    Arc::new(DiscreteSizes::new(pairs.iter().map(size).collect()).unwrap())
}

/// Sizes have this mean and the given shares of them are at most a size, up to five standard errors of the sample.
fn check(sizes: &SizeDistribution, mean: f64, share_up_to: impl Fn(f64) -> f64) {
    let sample = sample(sizes);
    let count = KEYS as f64;
    let found = sample.iter().map(|&bytes| f64::from(bytes)).sum::<f64>() / count;
    let square = |&bytes: &u32| (f64::from(bytes) - found) * (f64::from(bytes) - found);
    let error = (sample.iter().map(square).sum::<f64>() / count / count).sqrt();
    assert!((found - mean).abs() <= 5.0 * error + 1e-9, "{sizes:?}: mean {found} for {mean}");
    let stated = sizes.mean_bytes();
    assert!((stated / mean - 1.0).abs() < 1e-4, "{sizes:?}: states {stated} for {mean}");
    let mut sorted = sample;
    sorted.sort_unstable();
    for share in [0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999] {
        // Rounded to the nearest, so half a byte above still belongs to a size.
        let bytes = sorted[(share * count) as usize];
        let expected = count * share_up_to(f64::from(bytes) + 0.5);
        let found = sorted.partition_point(|&size| size <= bytes) as f64;
        let error = (expected * (1.0 - expected / count)).max(1.0).sqrt();
        assert!(
            (found - expected).abs() < 5.0 * error + 1e-4 * count.min(expected),
            "{sizes:?}: {found} sizes up to {bytes} B instead of {expected}"
        );
    }
}

fn pareto_share(location: f64, scale: f64, shape: f64) -> impl Fn(f64) -> f64 {
    move |bytes| {
        let place = ((bytes - location) / scale).max(0.0);
        let above = if shape == 0.0 {
            libm::exp(-place)
        } else {
            libm::pow(1.0 + shape * place, -1.0 / shape)
        };
        1.0 - above
    }
}

#[test]
fn fixed_and_uniform_sizes_are_exact() {
    assert!(sample(&SizeDistribution::Fixed(30)).iter().all(|&bytes| bytes == 30));
    assert_eq!(SizeDistribution::Fixed(30).mean_bytes(), 30.0);
    let uniform = SizeDistribution::Uniform { bytes_min: 10, bytes_max: 19 };
    let mut counts = [0_u32; 10];
    for bytes in sample(&uniform) {
        counts[bytes as usize - 10] += 1;
    }
    let expected = KEYS as f64 / 10.0;
    for count in counts {
        assert!((f64::from(count) - expected).abs() < 5.0 * expected.sqrt(), "{counts:?}");
    }
    assert_eq!(uniform.mean_bytes(), 14.5);
    let all = SizeDistribution::Uniform { bytes_min: 0, bytes_max: u32::MAX };
    assert!(sample(&all).iter().any(|&bytes| bytes > u32::MAX / 100 * 99));
}

#[test]
fn pareto_sizes_agree_with_the_closed_forms() {
    let pareto = |location, scale, shape, bytes_max| SizeDistribution::GeneralisedPareto {
        location,
        scale,
        shape,
        bytes_max,
    };
    for (location, scale, shape) in
        [(15.0, 214.476, 0.348238), (0.0, 1_000.0, 0.0), (100.0, 50.0, 0.2)]
    {
        let mean = location + scale / (1.0 - shape);
        check(
            &pareto(location, scale, shape, 100_000_000),
            mean,
            pareto_share(location, scale, shape),
        );
    }
    // What is cut off at 1,000 B is a size of 1,000 B: the mean is the integral of the share above, up to there.
    let (location, scale, shape) = (15.0, 214.476, 0.348238);
    let above = libm::pow(1.0 + shape * (1_000.0 - location) / scale, 1.0 - 1.0 / shape);
    let mean = location + scale / (1.0 - shape) * (1.0 - above);
    let share = pareto_share(location, scale, shape);
    check(&pareto(location, scale, shape, 1_000), mean, |bytes| {
        if bytes > 1_000.0 { 1.0 } else { share(bytes) }
    });
}

#[test]
fn extreme_values_agree_with_the_closed_forms() {
    const EULER: f64 = 0.577_215_664_901_532_9;
    for (location, scale, shape) in
        [(30.7984, 8.20449, 0.078688), (500.0, 40.0, 0.0), (500.0, 40.0, -0.3), (300.0, 30.0, 0.25)]
    {
        let sizes = SizeDistribution::GeneralisedExtremeValue {
            location,
            scale,
            shape,
            bytes_min: 0,
            bytes_max: 10_000_000,
        };
        let mean = match shape {
            0.0 => location + EULER * scale,
            _ => location + scale * (libm::tgamma(1.0 - shape) - 1.0) / shape,
        };
        check(&sizes, mean, |bytes| {
            let place = (bytes - location) / scale;
            let power = match shape {
                0.0 => libm::exp(-place),
                _ => libm::pow((1.0 + shape * place).max(0.0), -1.0 / shape),
            };
            libm::exp(-power)
        });
    }
}

#[test]
fn log_normal_sizes_agree_with_the_closed_forms() {
    let normal = |z: f64| 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
    let (mu, sigma) = (6.0, 0.8);
    let share = |bytes: f64| normal((libm::log(bytes) - mu) / sigma);
    let sizes =
        |bytes_min, bytes_max| SizeDistribution::LogNormal { mu, sigma, bytes_min, bytes_max };
    let mean = libm::exp(mu + sigma * sigma / 2.0);
    check(&sizes(0, 10_000_000), mean, share);
    // Moved into bounds: those below, those between and those above.
    let (low, high) = (200.0, 1_000.0);
    let place = |bytes: f64| (libm::log(bytes) - mu) / sigma;
    let between = mean * (normal(place(high) - sigma) - normal(place(low) - sigma));
    let bounded = low * share(low) + between + high * (1.0 - share(high));
    check(&sizes(200, 1_000), bounded, |bytes| if bytes > high { 1.0 } else { share(bytes) });
    assert!((normal(normal_quantile(0.3)) - 0.3).abs() < 1e-12);
}

#[test]
fn listed_sizes_and_the_tail_of_a_mixture_have_their_probabilities() {
    let sizes = SizeDistribution::Discrete(list(&[(7, 3.0), (900, 1.0), (5, 0.0)]));
    check(&sizes, (7.0 * 3.0 + 900.0) / 4.0, |bytes| match bytes {
        ..7.0 => 0.0,
        7.0..900.0 => 0.75,
        _ => 1.0,
    });
    assert_eq!(sizes.bounds(), (7, 900));
    let tail = SizeDistribution::GeneralisedPareto {
        location: 15.0,
        scale: 100.0,
        shape: 0.1,
        bytes_max: 1_000_000,
    };
    let mixture =
        SizeDistribution::Mixture { head: list(&[(0, 0.1), (11, 0.3)]), tail: Box::new(tail) };
    let share = pareto_share(15.0, 100.0, 0.1);
    let mean = 0.3 * 11.0 + 0.6 * (15.0 + 100.0 / 0.9);
    check(&mixture, mean, |bytes| match bytes {
        ..11.0 => 0.1,
        11.0..15.0 => 0.4,
        _ => 0.4 + 0.6 * share(bytes),
    });
    assert_eq!(mixture.bounds(), (0, 1_000_000));
}

#[test]
fn etc_has_keys_of_36_bytes_and_values_of_194_bytes_in_the_mean() {
    let spec = etc();
    // The closed forms of the paper's distributions; the bounds of memcached change nothing.
    let key: f64 = 30.7984 + 8.20449 * (libm::tgamma(1.0 - 0.078688) - 1.0) / 0.078688;
    let value: f64 = 2.29836 + (1.0 - 0.44155) * (15.0 + 214.476 / (1.0 - 0.348238));
    assert!((key - 36.22).abs() < 0.01 && (value - 194.44).abs() < 0.01, "{key} {value}");
    assert!((spec.key_sizes.mean_bytes() / key - 1.0).abs() < 1e-3);
    assert!((spec.value_sizes.mean_bytes() / value - 1.0).abs() < 1e-3);
    let data = KeyValues::new(&spec).unwrap();
    let mean = |bytes: &dyn Fn(u64) -> u32| {
        (0..data.keys()).map(|key| f64::from(bytes(key))).sum::<f64>() / data.keys() as f64
    };
    let found = (mean(&|key| data.key_bytes(key)), mean(&|key| data.value_bytes(key)));
    assert!((found.0 - key).abs() < 0.2 && (found.1 - value).abs() < 6.0, "{found:?}");
    let short = (0..data.keys()).filter(|&key| data.value_bytes(key) == 2).count();
    assert!((17_200..18_400).contains(&short), "{short} values of 2 B instead of 17,820");
}

#[test]
fn reads_of_etc_have_the_sizes_of_the_model_though_a_few_keys_have_most_of_them() {
    const READS: usize = 1_000_000;
    let data = KeyValues::new(&etc()).unwrap();
    let (mut keys, mut values, mut short) = (0.0, 0.0, 0.0);
    for operation in KeyValueStream::new(&data, 1, 0).take(READS) {
        keys += f64::from(data.key_bytes(operation.key)) / READS as f64;
        values += f64::from(data.value_bytes(operation.key)) / READS as f64;
        short += f64::from(u8::from(data.value_bytes(operation.key) < 15)) / READS as f64;
    }
    let spec = etc();
    for (found, model) in [
        (keys, spec.key_sizes.mean_bytes()),
        (values, spec.value_sizes.mean_bytes()),
        (short, 0.44155),
    ] {
        assert!((found / model - 1.0).abs() < 0.015, "{found} instead of {model}");
    }
}

#[test]
fn parameters_that_describe_no_sizes_are_refused() {
    let pareto = |location, scale, shape, bytes_max| SizeDistribution::GeneralisedPareto {
        location,
        scale,
        shape,
        bytes_max,
    };
    let extreme = |location, scale, shape| SizeDistribution::GeneralisedExtremeValue {
        location,
        scale,
        shape,
        bytes_min: 0,
        bytes_max: 100,
    };
    let normal = |mu, sigma| SizeDistribution::LogNormal { mu, sigma, bytes_min: 0, bytes_max: 9 };
    let mixture = |head: &[(u32, f64)], tail| SizeDistribution::Mixture {
        head: list(head),
        tail: Box::new(tail),
    };
    let fixed = SizeDistribution::Fixed(9);
    let nested = mixture(&[(1, 0.5)], fixed.clone());
    for (sizes, words) in [
        (pareto(-1.0, 1.0, 0.1, 100), "`location` is -1: allowed is a size from 0"),
        (pareto(0.0, 0.0, 0.1, 100), "`scale` is 0: allowed is a number above 0"),
        (pareto(0.0, 1.0, 1.0, 100), "`shape` is 1: allowed is a number from 0 to 0.999"),
        (pareto(0.0, 1.0, f64::NAN, 100), "`shape` is NaN"),
        (pareto(200.0, 1.0, 0.1, 100), "the smallest size, 200 B, is above the largest, 100 B"),
        (extreme(f64::INFINITY, 1.0, 0.0), "`location` is inf"),
        (extreme(1.0, -1.0, 0.0), "`scale` is -1"),
        (extreme(1.0, 1.0, -1.5), "`shape` is -1.5: allowed is a number from -1 to 0.999"),
        (normal(f64::NAN, 1.0), "`mu` is NaN"),
        (normal(1.0, -0.1), "`sigma` is -0.1"),
        (
            mixture(&[(1, 0.5), (2, 0.5)], fixed.clone()),
            "the probabilities in the head add up to 1",
        ),
        (mixture(&[(1, 0.5)], nested), "the tail of a mixture is a mixture"),
        (mixture(&[(1, 0.5)], pareto(0.0, 0.0, 0.0, 1)), "`scale` is 0"),
        (SizeDistribution::Uniform { bytes_min: 9, bytes_max: 8 }, "the smallest size, 9 B"),
    ] {
        let message = sizes.validate().unwrap_err().to_string();
        assert!(message.starts_with(words), "{message}");
    }
}

fn bounds() -> impl Strategy<Value = (u32, u32)> {
    (any::<u32>(), any::<u32>()).prop_map(|(a, b)| (a.min(b), a.max(b)))
}

pub(super) fn sizes() -> impl Strategy<Value = SizeDistribution> {
    let scale = -300.0..12.0_f64;
    prop_oneof![
        any::<u32>().prop_map(SizeDistribution::Fixed),
        bounds().prop_map(|(bytes_min, bytes_max)| {
            SizeDistribution::Uniform { bytes_min, bytes_max }
        }),
        (-100.0..100.0, 0.0..10.0, bounds()).prop_map(|(mu, sigma, (bytes_min, bytes_max))| {
            SizeDistribution::LogNormal { mu, sigma, bytes_min, bytes_max }
        }),
        (0.0..4e9, scale.clone(), 0.0..0.999, Just(u32::MAX)).prop_map(
            |(location, scale, shape, bytes_max)| SizeDistribution::GeneralisedPareto {
                location,
                scale: libm::pow(10.0, scale),
                shape,
                bytes_max,
            }
        ),
        (-4e9..4e9, scale, -1.0..0.999, bounds()).prop_map(
            |(location, scale, shape, (bytes_min, bytes_max))| {
                let scale = libm::pow(10.0, scale);
                SizeDistribution::GeneralisedExtremeValue {
                    location,
                    scale,
                    shape,
                    bytes_min,
                    bytes_max,
                }
            }
        ),
    ]
}

proptest! {
    #[test]
    fn no_parameters_that_are_allowed_give_a_size_outside_the_bounds(sizes in sizes(), keys: u64) {
        let validated = sizes.validate();
        prop_assert!(validated.is_ok(), "{validated:?}");
        let (low, high) = sizes.bounds();
        let by_key = SizesByKey::new(&sizes, Draws::new(keys).of_request(Purpose::ValueBytes, 0));
        for key in 0..200 {
            let bytes = by_key.bytes(keys.wrapping_add(key));
            prop_assert!((low..=high).contains(&bytes), "{bytes}");
        }
        let mean = sizes.mean_bytes();
        let room = 1e-3 * f64::from(high);
        prop_assert!(mean >= f64::from(low) - room && mean <= f64::from(high) + room, "{mean}");
    }
}
