//! Hit ratios of an LRU cache under independent references.
//!
//! Place in the flow: the check for one cache partition of the simulator.
//!
//! Source: Che, Tung and Wang, "Hierarchical Web caching systems" (IEEE JSAC 20, 2002); why it is good: Fricker, Robert and Roberts, "A versatile and
//! accurate approximation for LRU cache performance" (ITC 24, 2012), whose section 5 also has objects of their own size. An object stays for
//! about the same time T after its last use, whichever it is: T follows from the cache being full, sum of size(i) (1 - exp(-p(i) T)) = capacity, and the hit ratio of
//! object i is 1 - exp(-p(i) T). An approximation: its error falls with the number of objects that the cache holds, and is far below a
//! point from some hundred on. With sizes it further needs that the largest object is small beside the cache.

use robinhood_stats::Bytes;

/// An LRU cache of known capacity under references to objects of known popularity.
#[derive(Clone, Debug, PartialEq)]
pub struct CheLru {
    /// Probability that a reference is to this object.
    popularity: Vec<f64>,
    /// How long an object stays after its last use, in references; infinite when all fit.
    stay: f64,
}

/// Popularities or sizes that no cache can be computed for.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PopularityError {
    /// A weight is negative or not finite.
    #[error("the popularity of object {object} is {found}: allowed is a finite number from 0 up")]
    Weight {
        /// Place of the object.
        object: usize,
        /// What was given.
        found: f64,
    },
    /// No object is ever referenced.
    #[error("the popularities sum to 0: at least one object must be popular")]
    Nothing,
    /// There must be one size for each object.
    #[error("{sizes} sizes for {objects} objects: give one for each")]
    Sizes {
        /// Sizes given.
        sizes: usize,
        /// Objects given.
        objects: usize,
    },
}

impl CheLru {
    /// A cache for `capacity_objects` objects of one size. `popularity` has a weight for each object, from 0 up; they need not sum to 1.
    ///
    /// # Errors
    /// When a weight is outside its range or none is above 0.
    pub fn of_equal_sizes(
        popularity: &[f64],
        capacity_objects: u64,
    ) -> Result<Self, PopularityError> {
        Self::new(popularity, |_| 1.0, capacity_objects as f64)
    }

    /// A cache of `capacity` for objects of these `sizes`, in the order of `popularity`, whose weights are from 0 up and need not sum to 1.
    ///
    /// # Errors
    /// When a weight is outside its range, none is above 0, or there is not one size for each.
    pub fn of_sizes(
        popularity: &[f64],
        sizes: &[Bytes],
        capacity: Bytes,
    ) -> Result<Self, PopularityError> {
        if sizes.len() != popularity.len() {
            let (sizes, objects) = (sizes.len(), popularity.len());
            return Err(PopularityError::Sizes { sizes, objects });
        }
        Self::new(popularity, |object| sizes[object].0 as f64, capacity.0 as f64)
    }

    fn new(
        weights: &[f64],
        size: impl Fn(usize) -> f64,
        capacity: f64,
    ) -> Result<Self, PopularityError> {
        let bad = weights.iter().position(|weight| !(*weight >= 0.0 && weight.is_finite()));
        if let Some(object) = bad {
            return Err(PopularityError::Weight { object, found: weights[object] });
        }
        let total: f64 = weights.iter().sum();
        if total <= 0.0 {
            return Err(PopularityError::Nothing);
        }
        let popularity: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
        let held = |stay: f64| -> f64 {
            let each = |(object, p): (usize, &f64)| size(object) * present(*p, stay);
            popularity.iter().enumerate().map(each).sum()
        };
        let stay = characteristic_time(held, capacity);
        Ok(Self { popularity, stay })
    }

    /// How long an object stays after its last use, in references: Che's characteristic time. Infinite when all objects fit.
    pub const fn characteristic_time(&self) -> f64 {
        self.stay
    }

    /// Share of references that the cache answers, 0 to 1.
    pub fn hit_ratio(&self) -> f64 {
        self.popularity.iter().map(|&p| p * present(p, self.stay)).sum()
    }

    /// Share of references to this object that the cache answers, which is also the share of time that it is in the cache; 0 to 1.
    ///
    /// # Panics
    /// When there is no such object.
    pub fn object_hit_ratio(&self, object: usize) -> f64 {
        present(self.popularity[object], self.stay)
    }
}

/// Probability that an object was used within the last `stay` references.
fn present(popularity: f64, stay: f64) -> f64 {
    if popularity > 0.0 { -libm::expm1(-popularity * stay) } else { 0.0 }
}

/// The time for which the objects in the cache fill it; `held` grows with it.
fn characteristic_time(held: impl Fn(f64) -> f64, capacity: f64) -> f64 {
    if held(f64::INFINITY) <= capacity {
        return f64::INFINITY;
    }
    let mut high = 1.0;
    while held(high) < capacity && high < f64::MAX / 2.0 {
        high *= 2.0;
    }
    let mut low = 0.0;
    // Each halving gives a binary digit.
    for _ in 0..60 {
        let middle = low + (high - low) / 2.0;
        if held(middle) < capacity { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zipf(objects: u32, exponent: f64) -> Vec<f64> {
        (1..=objects).map(|rank| libm::pow(f64::from(rank), -exponent)).collect()
    }

    #[test]
    fn equally_popular_objects_hit_by_the_share_that_fits() {
        for (objects, capacity) in [(1_000, 1), (1_000, 250), (1_000, 999), (3, 2)] {
            let cache = CheLru::of_equal_sizes(&vec![7.0; objects], capacity).unwrap();
            let expected = capacity as f64 / objects as f64;
            assert!((cache.hit_ratio() - expected).abs() < 1e-12);
            assert!((cache.object_hit_ratio(objects - 1) - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn an_empty_cache_hits_nothing_and_a_large_one_everything() {
        let popularity = zipf(500, 0.9);
        let hit_ratio =
            |capacity| CheLru::of_equal_sizes(&popularity, capacity).unwrap().hit_ratio();
        assert!(hit_ratio(0) < 1e-12);
        assert!((hit_ratio(500) - 1.0).abs() < 1e-12 && (hit_ratio(900) - 1.0).abs() < 1e-12);
        let ratios: Vec<f64> = (0..=500).map(hit_ratio).collect();
        assert!(ratios.is_sorted_by(|a, b| a < b), "more room, more hits");
    }

    #[test]
    fn the_objects_in_the_cache_fill_it_and_equal_sizes_are_a_special_case() {
        let popularity = zipf(2_000, 1.1);
        let sizes: Vec<Bytes> = (0..2_000).map(|i| Bytes(100 + i * 37 % 900)).collect();
        let cache = CheLru::of_sizes(&popularity, &sizes, Bytes(100_000)).unwrap();
        let held = |i: usize| sizes[i].0 as f64 * cache.object_hit_ratio(i);
        let sum: f64 = (0..2_000).map(held).sum();
        assert!((sum / 100_000.0 - 1.0).abs() < 1e-9, "{sum}");
        let alike = CheLru::of_sizes(&popularity, &[Bytes(50); 2_000], Bytes(5_000)).unwrap();
        let counted = CheLru::of_equal_sizes(&popularity, 100).unwrap();
        assert!((alike.hit_ratio() - counted.hit_ratio()).abs() < 1e-12);
    }

    /// With room for one, a reference hits when it repeats the one before it: exactly the sum of squares.
    #[test]
    fn with_room_for_one_of_many_objects_it_is_near_the_exact_ratio() {
        let popularity = zipf(10_000, 0.4);
        let total: f64 = popularity.iter().sum();
        let exact: f64 = popularity.iter().map(|w| (w / total) * (w / total)).sum();
        let found = CheLru::of_equal_sizes(&popularity, 1).unwrap().hit_ratio();
        assert!((found / exact - 1.0).abs() < 0.01, "{found} {exact}");
    }

    #[test]
    fn popularities_that_are_none_are_refused() {
        let refused = |popularity: &[f64]| CheLru::of_equal_sizes(popularity, 1).unwrap_err();
        assert!(matches!(refused(&[1.0, -1.0]), PopularityError::Weight { object: 1, .. }));
        assert!(matches!(refused(&[f64::NAN]), PopularityError::Weight { object: 0, .. }));
        assert_eq!(refused(&[]), PopularityError::Nothing);
        assert_eq!(refused(&[0.0, 0.0]), PopularityError::Nothing);
        let error = CheLru::of_sizes(&[1.0, 1.0], &[Bytes(1)], Bytes(1)).unwrap_err();
        assert_eq!(error, PopularityError::Sizes { sizes: 1, objects: 2 });
    }
}
