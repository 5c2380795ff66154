//! The plain way to the same curves, for tests: every look-up against the whole stack of keys.

use std::collections::BTreeMap;

/// One look-up: key and bytes of its item.
pub(super) type LookUp = (u64, u32);

/// The stack distance of each look-up: the bytes of the items used since the last use of its key, and its own. `None` for a first use.
pub(super) fn distances(trace: &[LookUp]) -> Vec<Option<u64>> {
    let mut stack: Vec<LookUp> = Vec::new(); // the hottest last
    let distance = |&(key, bytes): &LookUp| {
        let depth = stack.iter().rev().position(|&(other, _)| other == key);
        let distance = depth.map(|depth| {
            let above = stack[stack.len() - depth..].iter().map(|&(_, bytes)| u64::from(bytes));
            above.sum::<u64>() + u64::from(bytes)
        });
        if let Some(depth) = depth {
            stack.remove(stack.len() - 1 - depth);
        }
        stack.push((key, bytes));
        distance
    };
    trace.iter().map(distance).collect()
}

/// Misses of an LRU cache of this size, by key.
pub(super) fn misses_by_key(
    trace: &[LookUp],
    distances: &[Option<u64>],
    size: u64,
) -> BTreeMap<u64, f64> {
    let mut misses = BTreeMap::new();
    for (&(key, _), distance) in trace.iter().zip(distances) {
        *misses.entry(key).or_default() += f64::from(distance.is_none_or(|bytes| bytes > size));
    }
    misses
}

/// The share of look-ups that an LRU cache of this size misses.
pub(super) fn miss_ratio(distances: &[Option<u64>], size: u64) -> f64 {
    let misses = distances.iter().filter(|distance| distance.is_none_or(|bytes| bytes > size));
    misses.count() as f64 / distances.len() as f64
}

/// Look-ups whose keys follow Zipf's law, the same on every machine; sizes of `mean_bytes` on average, up to twice that.
pub(super) fn zipf(exponent: f64, keys: u64, length: usize, mean_bytes: u32) -> Vec<LookUp> {
    use robinhood_stats::mixed_bits;
    let mut cumulative = Vec::new();
    let mut sum = 0.0;
    for rank in 1..=keys {
        sum += libm::pow(rank as f64, -exponent);
        cumulative.push(sum);
    }
    let look_up = |at: usize| {
        let unit = (mixed_bits(mixed_bits(at as u64) ^ 77) >> 11) as f64 / (1_u64 << 53) as f64;
        let key = cumulative.partition_point(|&below| below < unit * sum) as u64;
        (key, 1 + (mixed_bits(key ^ 0xabcd) % u64::from(2 * mean_bytes - 1)) as u32)
    };
    (0..length).map(look_up).collect()
}

/// Whether a sampled curve is within four standard errors of the exact one, at the sizes where the sample holds 30 items or more.
///
/// Two errors come with a sample of one key in `weight`: misses are those of the sampled keys only, and so are the bytes that
/// a distance sums up. The first has the variance of a sum over keys that are drawn with probability 1 / weight; the second
/// moves the size at which the curve is read by the relative error of a sum of as many sizes as the sample has within it.
pub(super) fn assert_within_sampling_error(
    trace: &[LookUp],
    points: &[(robinhood_stats::Bytes, f64)],
    weight: f64,
    bias: f64,
) {
    let distances = distances(trace);
    let sizes: BTreeMap<u64, u32> = trace.iter().copied().collect();
    let mean = |power: i32| {
        let raised = |&bytes: &u32| (0..power).fold(1.0, |product, _| product * f64::from(bytes));
        sizes.values().map(raised).sum::<f64>() / sizes.len() as f64
    };
    let mut checked = 0;
    for &(size, ratio) in points {
        let items = size.0 as f64 / weight / mean(1);
        if items < 30.0 {
            continue;
        }
        let spread = 4.0 * libm::sqrt((1.0 - 1.0 / weight) / items * mean(2)) / mean(1);
        let at = |factor: f64| (size.0 as f64 * factor) as u64;
        let squares = misses_by_key(trace, &distances, size.0).values().map(|n| n * n).sum::<f64>();
        let error = 4.0 * libm::sqrt(squares * (weight - 1.0)) / trace.len() as f64 + bias;
        let low = miss_ratio(&distances, at(1.0 + spread)) - error;
        let high = miss_ratio(&distances, at((1.0 - spread).max(0.0))) + error;
        assert!((low..=high).contains(&ratio), "{ratio} at {size} is not {low} to {high}");
        checked += 1;
    }
    assert!(checked >= 5, "the sample is large enough to say something: {checked} points");
}
