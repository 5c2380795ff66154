//! The tail band: which requests count as the tail, and how many they are.
//!
//! Source: OSDI'18, section 3.1, "Choosing the set S": requests between P98.5 and P99.5, near the objective and without
//! the extreme outliers. Deviations: a bucket at the edge of the band contributes the fraction of it that lies inside, so
//! that RBC is a real number; there may be several bands with weights (P50 and P99 together, say).

use serde::{Deserialize, Serialize};

use crate::weight::Weight;

/// The most bands that one evaluation takes.
pub(crate) const BANDS_MAX: usize = 16;

/// The requests whose latency lies between two quantiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// Lower edge, from 0 to 1.
    pub low: f64,
    /// Upper edge, above the lower one, up to 1.
    pub high: f64,
    /// What one request in the band counts: positive, 1 by default. Matters only between several bands.
    pub weight: f64,
}

/// A band that contains nothing, or bands that are too many or none.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum BandError {
    /// Edges or weight outside their ranges.
    #[error("a band from {} to {} with weight {} is empty: use 0 <= low < high <= 1 and a positive weight", .0.low, .0.high, .0.weight)]
    Empty(Band),
    /// None, or too many.
    #[error("{0} bands: use 1 to {BANDS_MAX}")]
    Count(usize),
}

impl Default for Band {
    fn default() -> Self {
        Self { low: 0.985, high: 0.995, weight: 1.0 }
    }
}

impl Band {
    /// The band around a percentile other than the paper's: half of what lies above it, to both sides. P98.5 to P99.5 for 99, P99.85 to P99.95 for
    /// 99.9, P25 to P75 for 50.
    ///
    /// # Panics
    /// When `percentile` is not from 50 to below 100.
    pub fn around_percentile(percentile: f64) -> Self {
        assert!((50.0..100.0).contains(&percentile), "{percentile} is no percentile of a tail");
        let above = 100.0 - percentile;
        Self {
            low: (100.0 - 1.5 * above) / 100.0,
            high: (100.0 - 0.5 * above) / 100.0,
            weight: 1.0,
        }
    }

    /// Checks a list of bands that came from outside.
    ///
    /// # Errors
    /// When there are none or more than 16, or one has edges or a weight outside their ranges.
    pub fn check_all(bands: &[Self]) -> Result<(), BandError> {
        if !(1..=BANDS_MAX).contains(&bands.len()) {
            return Err(BandError::Count(bands.len()));
        }
        let good = |band: &Self| {
            0.0 <= band.low
                && band.low < band.high
                && band.high <= 1.0
                && band.weight > 0.0
                && band.weight.is_finite()
        };
        bands.iter().find(|band| !good(band)).map_or(Ok(()), |&bad| Err(BandError::Empty(bad)))
    }
}

/// What each bucket contributes to the bands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shares {
    /// The bucket of the first share.
    pub(crate) first: usize,
    /// Per bucket: the sum over the bands of the fraction inside times the band's weight.
    pub(crate) shares: Vec<f64>,
    /// Effective number of requests in the bands.
    pub(crate) requests: f64,
}

/// Ranks `from..to`, in units of the counts, all of whose requests count `weight`.
struct Segment {
    from: f64,
    to: f64,
    weight: f64,
}

/// The bands cut at every edge, in rising order: inside a segment all requests count the same, also where bands overlap.
fn segments(bands: &[Band], total: f64) -> Vec<Segment> {
    let mut edges: Vec<f64> = bands.iter().flat_map(|band| [band.low, band.high]).collect();
    edges.sort_unstable_by(f64::total_cmp);
    edges.dedup();
    let pieces = edges.windows(2).map(|edge| {
        let covering = bands.iter().filter(|band| band.low <= edge[0] && edge[1] <= band.high);
        let weight = covering.map(|band| band.weight).sum();
        Segment { from: edge[0] * total, to: edge[1] * total, weight }
    });
    pieces.filter(|segment| segment.weight > 0.0).collect()
}

/// The share of each bucket in the bands. `columns` are the buckets' weights in fixed point; `squares(bucket)` is the sum
/// of the squared weights of a bucket's requests, in requests squared. The effective number of requests is Kish's:
/// (sum w)^2 / sum w^2, which is the plain number when all weights are equal.
///
/// # Panics
/// When a band is empty or there are none.
pub(crate) fn shares(columns: &[u64], squares: impl Fn(usize) -> f64, bands: &[Band]) -> Shares {
    Band::check_all(bands).expect("bands are checked where they are configured");
    let total: u64 = columns.iter().sum();
    let segments = segments(bands, total as f64);
    let lowest = segments.first().map_or(0.0, |segment| segment.from);
    let mut result = Shares { first: 0, shares: Vec::new(), requests: 0.0 };
    let (mut sum, mut sum_of_squares) = (0.0, 0.0);
    let mut before = 0_u64;
    for (bucket, &count) in columns.iter().enumerate() {
        let (from, to) = (before as f64, (before + count) as f64);
        before += count;
        if count == 0 || to <= lowest {
            if !result.shares.is_empty() {
                result.shares.push(0.0);
            }
            continue;
        }
        let mut share = 0.0;
        for segment in &segments {
            let inside = (to.min(segment.to) - from.max(segment.from)).max(0.0) / count as f64;
            let weight = Weight(count).as_f64();
            share += inside * segment.weight;
            sum += inside * segment.weight * weight;
            sum_of_squares += inside * segment.weight * segment.weight * squares(bucket);
        }
        if result.shares.is_empty() {
            result.first = bucket;
        }
        result.shares.push(share);
    }
    while result.shares.last() == Some(&0.0) {
        result.shares.pop();
    }
    if sum_of_squares > 0.0 {
        result.requests = sum * sum / sum_of_squares;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_band_around_the_p99_is_the_papers_and_others_keep_its_proportions() {
        assert_eq!(Band::around_percentile(99.0), Band::default());
        for (percentile, low, high) in
            [(99.9, 0.9985, 0.9995), (95.0, 0.925, 0.975), (50.0, 0.25, 0.75)]
        {
            let band = Band::around_percentile(percentile);
            assert!((band.low - low).abs() < 1e-12 && (band.high - high).abs() < 1e-12, "{band:?}");
            assert_eq!(Band::check_all(&[band]), Ok(()));
        }
    }
}
