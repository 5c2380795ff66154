//! Capacity of a backend over time: the share of its full speed that it has at a moment.
//!
//! Place in the flow: divides service times in the simulator and drives the resource limits of the testbed. Time counts from the start of the measured
//! part of a run. Source: the latency spikes of RobinHood (OSDI'18) sections 5.2 to 5.4.

use robinhood_stats::{BackendId, Instant, Nanos};

use crate::draws::{Draws, Purpose};

/// A capacity over time: constant between `points[i]` and `points[i + 1]` only if they are equal, else linear between them.
/// Before the first point it is the first one's, behind the last point the last one's; without points it is 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CapacityPath {
    points: Vec<(Instant, f64)>,
}

/// Points that are no capacity path.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum CapacityPathError {
    /// A point is earlier than the one before it.
    #[error("the times of a capacity path go forward")]
    TimeBack,
    /// A backend without capacity would never finish a query.
    #[error("the capacity at {at_s} s is a number above 0, not {capacity}")]
    NoCapacity {
        /// When, seconds.
        at_s: f64,
        /// The capacity there.
        capacity: f64,
    },
}

/// What a workload says about a backend's capacity.
#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// A path that is the same in every run.
    Path(CapacityPath),
    /// A random walk that is part of the run's seed: starts at 1, every `every` one step down or up with equal chance, a step being a
    /// `steps`-th of the range; a step that would leave the range is not made.
    RandomWalk {
        /// The lowest capacity, between 0 and 1.
        lowest: f64,
        /// Time between two steps.
        every: Nanos,
        /// Number of steps from the highest capacity to the lowest.
        steps: u32,
    },
}

impl Default for Capacity {
    fn default() -> Self {
        Self::Path(CapacityPath::default())
    }
}

/// A capacity with its loss multiplied.
fn deepened(capacity: f64, depth: f64) -> f64 {
    assert!(depth >= 0.0 && depth.is_finite(), "{depth} is no depth");
    (1.0 - (1.0 - capacity) * depth).max(CapacityPath::CAPACITY_MIN)
}

impl CapacityPath {
    /// The least that [`Self::deepened`] leaves.
    pub const CAPACITY_MIN: f64 = 0.01;

    /// A path through these points.
    ///
    /// # Panics
    /// When times go back, or a capacity is not a number above 0: a backend without capacity would never finish a query.
    pub fn new(points: Vec<(Instant, f64)>) -> Self {
        match Self::try_from(points) {
            Ok(path) => path,
            Err(error) => panic!("{error}"),
        }
    }

    /// One spike: 1 until `start`, falls linearly to `lowest` at `low_from`, stays until `low_to`, is 1 again from `end` on.
    pub fn dip(
        lowest: f64,
        start: Instant,
        low_from: Instant,
        low_to: Instant,
        end: Instant,
    ) -> Self {
        Self::new(vec![(start, 1.0), (low_from, lowest), (low_to, lowest), (end, 1.0)])
    }

    /// The capacity at a moment of the measured part.
    #[inline]
    pub fn at(&self, at: Instant) -> f64 {
        let next = self.points.partition_point(|&(time, _)| time <= at);
        let Some(&(end, high)) = self.points.get(next) else {
            return self.points.last().map_or(1.0, |&(_, capacity)| capacity);
        };
        if next == 0 {
            return high;
        }
        let (start, low) = self.points[next - 1];
        let passed = at.since(start).0 as f64 / end.since(start).0 as f64;
        low + (high - low) * passed
    }

    /// The points of the path.
    pub fn points(&self) -> &[(Instant, f64)] {
        &self.points
    }

    /// The lowest capacity of the path.
    pub fn lowest(&self) -> f64 {
        self.points.iter().map(|&(_, capacity)| capacity).fold(1.0, f64::min)
    }

    /// The highest capacity of the path.
    pub fn highest(&self) -> f64 {
        self.points.iter().map(|&(_, capacity)| capacity).fold(1.0, f64::max)
    }

    /// The path with all losses of capacity multiplied by `depth`: what it has at 0.6 it has at 0.4 with a depth of 1.5. No point falls below
    /// [`Self::CAPACITY_MIN`].
    ///
    /// # Panics
    /// When `depth` is not a number from 0 up.
    #[must_use]
    pub fn deepened(&self, depth: f64) -> Self {
        let point = |&(at, capacity): &(Instant, f64)| (at, deepened(capacity, depth));
        Self { points: self.points.iter().map(point).collect() }
    }

    /// The path with all times divided by `factor`.
    ///
    /// # Panics
    /// When `factor` is not a positive number.
    #[must_use]
    pub fn compressed(&self, factor: f64) -> Self {
        let point = |&(at, capacity): &(Instant, f64)| {
            (Instant::ZERO + at.since(Instant::ZERO).scaled_down(factor), capacity)
        };
        Self { points: self.points.iter().map(point).collect() }
    }
}

impl TryFrom<Vec<(Instant, f64)>> for CapacityPath {
    type Error = CapacityPathError;

    fn try_from(points: Vec<(Instant, f64)>) -> Result<Self, CapacityPathError> {
        if !points.is_sorted_by_key(|&(at, _)| at) {
            return Err(CapacityPathError::TimeBack);
        }
        match points.iter().find(|(_, capacity)| !(*capacity > 0.0 && capacity.is_finite())) {
            Some(&(at, capacity)) => {
                Err(CapacityPathError::NoCapacity { at_s: at.as_secs_f64(), capacity })
            }
            None => Ok(Self { points }),
        }
    }
}

impl Capacity {
    /// The path of one run.
    pub fn path(&self, draws: Draws, backend: BackendId, measured: Nanos) -> CapacityPath {
        match self {
            Self::Path(path) => path.clone(),
            &Self::RandomWalk { lowest, every, steps } => {
                random_walk(draws, backend, measured, lowest, every, steps)
            }
        }
    }

    /// The same with all losses multiplied, as by [`CapacityPath::deepened`].
    ///
    /// # Panics
    /// When `depth` is not a number from 0 up.
    #[must_use]
    pub fn deepened(&self, depth: f64) -> Self {
        match self {
            Self::Path(path) => Self::Path(path.deepened(depth)),
            &Self::RandomWalk { lowest, every, steps } => {
                Self::RandomWalk { lowest: deepened(lowest, depth), every, steps }
            }
        }
    }

    /// The same with all times divided by `factor`.
    #[must_use]
    pub fn compressed(&self, factor: f64) -> Self {
        match self {
            Self::Path(path) => Self::Path(path.compressed(factor)),
            &Self::RandomWalk { lowest, every, steps } => {
                Self::RandomWalk { lowest, every: every.scaled_down(factor), steps }
            }
        }
    }
}

fn random_walk(
    draws: Draws,
    backend: BackendId,
    measured: Nanos,
    lowest: f64,
    every: Nanos,
    steps: u32,
) -> CapacityPath {
    assert!(every > Nanos::ZERO && steps > 0, "a random walk moves by steps in time and capacity");
    let sequence = draws.at(Purpose::Capacity, 0, backend);
    let mut depth = 0; // steps below full capacity
    let mut points = vec![(Instant::ZERO, 1.0)];
    for step in 1..=measured.0 / every.0 {
        let before = points[points.len() - 1].1;
        let down = sequence.bits(step) & 1 == 0;
        depth = if down { (depth + 1).min(steps) } else { u32::saturating_sub(depth, 1) };
        let at = Instant(step * every.0);
        points.push((at, before)); // a jump is two points of one time
        points.push((at, 1.0 - (1.0 - lowest) * f64::from(depth) / f64::from(steps)));
    }
    CapacityPath::new(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(s: u64) -> Instant {
        Instant(s * 1_000_000_000)
    }

    #[test]
    fn a_dip_falls_stays_and_recovers_linearly() {
        let path = CapacityPath::dip(0.5, second(10), second(20), second(30), second(50));
        let expected = [
            (0, 1.0),
            (10, 1.0),
            (15, 0.75),
            (20, 0.5),
            (25, 0.5),
            (30, 0.5),
            (40, 0.75),
            (50, 1.0),
            (99, 1.0),
        ];
        for (s, capacity) in expected {
            assert!((path.at(second(s)) - capacity).abs() < 1e-12, "at {s} s");
        }
        assert!((path.compressed(10.0).at(second(4)) - 0.75).abs() < 1e-12);
        assert!((CapacityPath::default().at(second(1)) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_random_walk_stays_in_its_range_and_belongs_to_the_seed() {
        let walk = Capacity::RandomWalk { lowest: 0.6, every: Nanos::from_secs(20), steps: 12 };
        let path = |seed| walk.path(Draws::new(seed), BackendId(1), Nanos::from_secs(10_800));
        let (first, again, other) = (path(1), path(1), path(2));
        assert_eq!(first, again);
        assert_ne!(first, other);
        let values: Vec<f64> = (0..540).map(|i| first.at(second(i * 20 + 7))).collect();
        assert!(values.iter().all(|v| (0.6 - 1e-12..=1.0).contains(v)));
        assert!(values.windows(2).all(|w| (w[0] - w[1]).abs() < 0.4 / 12.0 + 1e-9));
        assert!(values.iter().any(|&v| v < 0.8), "the walk moved");
    }

    #[test]
    fn a_deeper_path_loses_so_many_times_as_much_and_never_all() {
        let path = CapacityPath::dip(0.5, second(10), second(20), second(30), second(50));
        let lowest = |depth| path.deepened(depth).lowest();
        for (depth, expected) in [(0.0, 1.0), (0.5, 0.75), (1.0, 0.5), (1.5, 0.25), (9.0, 0.01)] {
            assert!((lowest(depth) - expected).abs() < 1e-12, "{depth}");
        }
        let walk = Capacity::RandomWalk { lowest: 0.6, every: Nanos::from_secs(20), steps: 12 };
        let Capacity::RandomWalk { lowest, .. } = walk.deepened(2.0) else { unreachable!() };
        assert!((lowest - 0.2).abs() < 1e-12);
    }

    #[test]
    fn points_that_make_no_path_are_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let message = CapacityPath::try_from(vec![(second(1), bad)]).unwrap_err().to_string();
            assert!(message.contains("at 1 s is a number above 0"), "{message}");
        }
        let back = CapacityPath::try_from(vec![(second(2), 1.0), (second(1), 1.0)]);
        assert_eq!(back, Err(CapacityPathError::TimeBack));
    }

    #[test]
    #[should_panic(expected = "above 0")]
    fn no_capacity_at_all_is_refused() {
        CapacityPath::new(vec![(second(1), 0.0)]);
    }
}
