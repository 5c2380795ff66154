//! The miss ratio of a backend at every size of its partition, as a policy sees it.
//!
//! Place in the flow: measured beside the caches (crate `robinhood-cache`), pooled over application servers by whoever drives the
//! controllers, and part of the observation where a policy asks for it.

use robinhood_stats::Bytes;
use serde::{Deserialize, Serialize};

/// The most points of a curve.
pub const CURVE_POINTS_MAX: usize = 512;

/// A miss ratio by size: straight lines between points. Size zero misses all, and beyond the last point nothing changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(Bytes, f64)>", into = "Vec<(Bytes, f64)>")]
pub struct MissRatioCurve {
    points: Vec<(Bytes, f64)>,
}

/// Points that are no curve.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum CurveError {
    /// None, or too many.
    #[error("a miss-ratio curve has 1 to {CURVE_POINTS_MAX} points, not {0}")]
    Count(usize),
    /// A ratio that is none.
    #[error("the miss ratio at {size} is {ratio}: allowed is 0 to 1")]
    Ratio {
        /// The size.
        size: Bytes,
        /// What was given.
        ratio: f64,
    },
    /// Sizes out of order.
    #[error("the sizes of a miss-ratio curve rise: {after} comes after {before}")]
    Order {
        /// A size.
        before: Bytes,
        /// The next one.
        after: Bytes,
    },
}

/// One of several curves that become one.
#[derive(Clone, Copy, Debug)]
pub struct CurvePart<'a> {
    /// The curve.
    pub curve: &'a MissRatioCurve,
    /// How many queries it speaks for, from 0 up.
    pub queries: f64,
    /// The share of the whole size that it gets, above 0 and up to 1: 1 for the same backend in another cache, less for a member of
    /// a group that shares a size.
    pub share: f64,
}

impl MissRatioCurve {
    /// A curve through points in the order of sizes.
    ///
    /// # Errors
    /// No points or more than [`CURVE_POINTS_MAX`], ratios outside 0 to 1, sizes that do not rise.
    pub fn new(points: Vec<(Bytes, f64)>) -> Result<Self, CurveError> {
        if points.is_empty() || points.len() > CURVE_POINTS_MAX {
            return Err(CurveError::Count(points.len()));
        }
        if let Some(&(size, ratio)) = points.iter().find(|(_, ratio)| !(0.0..=1.0).contains(ratio))
        {
            return Err(CurveError::Ratio { size, ratio });
        }
        match points.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            Some(pair) => Err(CurveError::Order { before: pair[0].0, after: pair[1].0 }),
            None => Ok(Self { points }),
        }
    }

    /// The share of queries that miss at this size, 0 to 1.
    pub fn at(&self, size: Bytes) -> f64 {
        let above = self.points.partition_point(|&(point, _)| point <= size);
        let (left, left_ratio) = match above.checked_sub(1) {
            Some(below) => self.points[below],
            None => (Bytes::ZERO, 1.0),
        };
        let Some(&(right, right_ratio)) = self.points.get(above) else { return left_ratio };
        let part = (size.0 - left.0) as f64 / (right.0 - left.0) as f64;
        left_ratio + part * (right_ratio - left_ratio)
    }

    /// One curve for several: at every size the misses of all parts, each at its share of the size. `None` without queries.
    ///
    /// # Panics
    /// When a share is outside its range.
    pub fn combined(parts: &[CurvePart<'_>]) -> Option<Self> {
        let queries: f64 = parts.iter().map(|part| part.queries).sum();
        if queries.is_nan() || queries <= 0.0 {
            return None;
        }
        let mut sizes: Vec<Bytes> = Vec::new();
        for part in parts {
            assert!(part.share > 0.0 && part.share <= 1.0, "a share of {}", part.share);
            let whole = |&(size, _): &(Bytes, f64)| Bytes((size.as_f64() / part.share) as u64);
            sizes.extend(part.curve.points.iter().map(whole));
        }
        sizes.sort_unstable();
        sizes.dedup();
        let every = sizes.len().div_ceil(CURVE_POINTS_MAX);
        let last = sizes.len() - 1;
        let kept =
            sizes.iter().enumerate().filter(|(place, _)| (last - place).is_multiple_of(every));
        let ratio = |size: Bytes| {
            let misses = |part: &CurvePart<'_>| {
                part.queries * part.curve.at(Bytes((size.as_f64() * part.share) as u64))
            };
            (parts.iter().map(misses).sum::<f64>() / queries).clamp(0.0, 1.0)
        };
        Some(Self { points: kept.map(|(_, &size)| (size, ratio(size))).collect() })
    }
}

impl TryFrom<Vec<(Bytes, f64)>> for MissRatioCurve {
    type Error = CurveError;
    fn try_from(points: Vec<(Bytes, f64)>) -> Result<Self, CurveError> {
        Self::new(points)
    }
}

impl From<MissRatioCurve> for Vec<(Bytes, f64)> {
    fn from(curve: MissRatioCurve) -> Self {
        curve.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(u64, f64)]) -> MissRatioCurve {
        MissRatioCurve::new(points.iter().map(|&(size, ratio)| (Bytes(size), ratio)).collect())
            .unwrap()
    }

    #[test]
    fn a_curve_is_straight_between_its_points_and_flat_beyond_them() {
        let curve = curve(&[(100, 0.5), (300, 0.1)]);
        let at = [0, 50, 100, 200, 300, 1_000].map(|size| curve.at(Bytes(size)));
        let expected = [1.0, 0.75, 0.5, 0.3, 0.1, 0.1];
        assert!(
            at.iter().zip(expected).all(|(at, expected)| (at - expected).abs() < 1e-12),
            "{at:?}"
        );
    }

    #[test]
    fn the_same_backend_in_two_caches_has_the_mean_by_queries() {
        let (a, b) = (curve(&[(0, 1.0), (100, 0.2)]), curve(&[(0, 1.0), (50, 0.8), (100, 0.6)]));
        let part = |curve, queries| CurvePart { curve, queries, share: 1.0 };
        let both = MissRatioCurve::combined(&[part(&a, 30.0), part(&b, 10.0)]).unwrap();
        assert!((both.at(Bytes(100)) - 0.3).abs() < 1e-12, "(30 * 0.2 + 10 * 0.6) / 40");
        assert!((both.at(Bytes(50)) - 0.65).abs() < 1e-12, "(30 * 0.6 + 10 * 0.8) / 40");
        assert_eq!(MissRatioCurve::combined(&[part(&a, 0.0)]), None);
        assert_eq!(MissRatioCurve::combined(&[]), None);
    }

    #[test]
    fn members_of_a_group_each_have_their_share_of_its_size() {
        let (a, b) = (curve(&[(0, 1.0), (75, 0.0)]), curve(&[(0, 1.0), (100, 0.0)]));
        let part = |curve, share| CurvePart { curve, queries: 1.0, share };
        let group = MissRatioCurve::combined(&[part(&a, 0.75), part(&b, 0.25)]).unwrap();
        // At 100: 75 bytes of 75 for `a`, and 25 of 100 for `b`.
        assert!((group.at(Bytes(100)) - 0.375).abs() < 1e-12);
        assert_eq!(group.at(Bytes(400)), 0.0);
    }

    #[test]
    fn many_points_become_as_many_as_allowed_and_the_last_one_stays() {
        let curves: Vec<MissRatioCurve> = (0..10_u64)
            .map(|shift| {
                let size = |i: u64| (Bytes(i * 100 + shift), 1.0 - i as f64 / 500.0);
                MissRatioCurve::new((0..500).map(size).collect()).unwrap()
            })
            .collect();
        let part = |curve| CurvePart { curve, queries: 1.0, share: 1.0 };
        let parts: Vec<_> = curves.iter().map(part).collect();
        let sum = MissRatioCurve::combined(&parts).unwrap();
        assert_eq!(sum.points.len(), 500);
        assert_eq!(sum.points.last(), Some(&(Bytes(49_909), 1.0 - 499.0 / 500.0)));
        assert!((sum.at(Bytes(25_004)) - 0.5).abs() < 0.002);
    }

    #[test]
    fn points_that_are_no_curve_are_refused_and_curves_are_read_back() {
        let wrong: [(&[(u64, f64)], &str); 4] = [
            (&[], "1 to 512 points, not 0"),
            (&[(0, 1.5)], "allowed is 0 to 1"),
            (&[(0, f64::NAN)], "allowed is 0 to 1"),
            (&[(5, 1.0), (5, 0.5)], "sizes of a miss-ratio curve rise"),
        ];
        for (points, message) in wrong {
            let points = points.iter().map(|&(size, ratio)| (Bytes(size), ratio)).collect();
            let error = MissRatioCurve::new(points).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let good = curve(&[(0, 1.0), (10, 0.25)]);
        let text = serde_json::to_string(&good).unwrap();
        assert_eq!(serde_json::from_str::<MissRatioCurve>(&text).unwrap(), good);
        assert!(serde_json::from_str::<MissRatioCurve>("[[10, 0.5], [3, 0.5]]").is_err());
    }
}
