//! Sizes of objects: one size, a log-normal law with bounds, or a list.

use std::sync::Arc;

use robinhood_stats::distributions::normal_quantile;

use crate::sizes::{DiscreteSizes, SizeSpec, WeightedSize};

/// Entries of a list.
const LIST_MAX: usize = 200;
/// Quantiles at which a log-normal law is held against the sizes.
const QUANTILES: [f64; 9] = [0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98];
/// It is taken if it is so close at all of them, beyond three standard errors of a quantile of so many sizes.
const ERROR_MAX: f64 = 0.02;

/// The sizes of the objects that were asked for, each once, in any order; at least one.
pub(super) fn fit(mut bytes: Vec<u32>) -> SizeSpec {
    assert!(!bytes.is_empty(), "sizes of no object");
    bytes.sort_unstable();
    let (least, most) = (bytes[0], bytes[bytes.len() - 1]);
    if least == most {
        return SizeSpec::Fixed(least);
    }
    log_normal(&bytes).unwrap_or_else(|| list(&bytes))
}

fn quantile(sorted: &[u32], quantile: f64) -> f64 {
    f64::from(sorted[((sorted.len() as f64 * quantile) as usize).min(sorted.len() - 1)])
}

/// Logarithms of the sizes over quantiles of the normal law, a line by least squares; `None` when it is not close.
fn log_normal(sorted: &[u32]) -> Option<SizeSpec> {
    let (least, most) = (sorted[0].max(1), sorted[sorted.len() - 1]);
    // Sizes at the bounds were moved there: they say nothing of the line.
    let inside = |&q: &f64| {
        let bytes = quantile(sorted, q);
        bytes > f64::from(least) && bytes < f64::from(most)
    };
    let places = || (1..100).map(|percent| f64::from(percent) / 100.0).filter(inside);
    let points: Vec<(f64, f64)> =
        places().map(|q| (normal_quantile(q), libm::log(quantile(sorted, q)))).collect();
    let count = points.len() as f64;
    if points.len() < QUANTILES.len() {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (z, log) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - z) * (point.0 - z)).sum();
    let sigma = points.iter().map(|point| (point.0 - z) * (point.1 - log)).sum::<f64>() / spread;
    let mu = log - sigma * z;
    let bounded = |q: f64| {
        libm::exp(mu + sigma * normal_quantile(q)).clamp(f64::from(least), f64::from(most))
    };
    let chance = |q: f64| {
        let z = normal_quantile(q);
        let density = libm::exp(-z * z / 2.0) / libm::sqrt(2.0 * core::f64::consts::PI);
        sigma * libm::sqrt(q * (1.0 - q) / sorted.len() as f64) / density
    };
    let is_close = QUANTILES.iter().all(|&q| {
        let error = (bounded(q) / quantile(sorted, q) - 1.0).abs();
        error <= ERROR_MAX + 3.0 * chance(q)
    });
    is_close.then_some(SizeSpec::LogNormal { mu, sigma, bytes_min: least, bytes_max: most })
}

/// Every size with its number where they are few, else so many quantiles.
fn list(sorted: &[u32]) -> SizeSpec {
    let mut sizes: Vec<WeightedSize> = Vec::new();
    let mut push = |bytes: u32, weight: f64| match sizes.last_mut() {
        Some(last) if last.bytes == bytes => last.weight += weight,
        _ => sizes.push(WeightedSize { bytes, weight }),
    };
    let mut distinct = sorted.to_vec();
    distinct.dedup();
    if distinct.len() <= LIST_MAX {
        sorted.iter().for_each(|&bytes| push(bytes, 1.0));
    } else {
        let middle = |part: usize| (part as f64 + 0.5) / LIST_MAX as f64;
        (0..LIST_MAX).for_each(|part| push(quantile(sorted, middle(part)) as u32, 1.0));
    }
    SizeSpec::Discrete(Arc::new(DiscreteSizes::new(sizes).expect("a list with weights")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_one_a_law_or_a_list() {
        assert_eq!(fit(vec![7, 7, 7]), SizeSpec::Fixed(7));
        let normal = |n: u32| {
            let q = (f64::from(n) + 0.5) / 10_000.0;
            libm::exp(9.6 + 0.95 * normal_quantile(q)).clamp(8.0, 100_000.0) as u32
        };
        let SizeSpec::LogNormal { mu, sigma, bytes_min: _, bytes_max } =
            fit((0..10_000).map(normal).collect())
        else {
            panic!("a log-normal law")
        };
        assert!((mu - 9.6).abs() < 0.01 && (sigma - 0.95).abs() < 0.01, "{mu} {sigma}");
        assert_eq!(bytes_max, 100_000);
        let SizeSpec::Discrete(list) = fit(vec![500, 10, 10, 500, 10]) else { panic!("a list") };
        let pairs: Vec<(u32, f64)> = list.sizes().iter().map(|s| (s.bytes, s.weight)).collect();
        assert_eq!(pairs, [(10, 3.0), (500, 2.0)]);
        let two_hills: Vec<u32> = (1..=1_000).chain(1_000_000..1_001_000).collect();
        let SizeSpec::Discrete(list) = fit(two_hills) else { panic!("a list") };
        assert_eq!(list.sizes().len(), LIST_MAX);
    }
}
