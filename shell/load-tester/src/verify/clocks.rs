//! From the clock of a capture to the clock of a run.
//!
//! Place in the flow: a capture has the time of day, a run the monotonic clock. Linux steers both alike, so they stay at one distance until
//! somebody sets the time of day; pairs of readings before and after a run give the distance and show that it stayed.

use nix::time::ClockId;
use robinhood_stats::{Instant, Nanos};

use crate::clock::{RunClock, nanos_of};

/// Readings for one pair; the pair with the shortest time around it is kept.
const TRIES: usize = 200;

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPair {
    /// The monotonic clock of the system.
    pub monotonic: Nanos,
    /// The time of day.
    pub real: Nanos,
    /// How far the two may be from the same moment.
    pub error: Nanos,
}

impl ClockPair {
    /// Reads both clocks.
    ///
    /// # Panics
    /// When the system lacks one of them, which no Unix does.
    pub fn read() -> Self {
        let read = |clock| nanos_of(clock).expect("every Unix has both clocks");
        let pair = |_| {
            let before = read(ClockId::CLOCK_MONOTONIC);
            let real = read(ClockId::CLOCK_REALTIME);
            let around = read(ClockId::CLOCK_MONOTONIC).saturating_sub(before);
            let monotonic = before + Nanos(around.0 / 2);
            Self { monotonic, real, error: Nanos(around.0.div_ceil(2)) }
        };
        (0..TRIES).map(pair).min_by_key(|pair| pair.error).expect("more than none")
    }

    /// The time of day less the monotonic clock.
    const fn distance_ns(&self) -> i64 {
        self.real.0.wrapping_sub(self.monotonic.0).cast_signed()
    }
}

/// The time of day was set while a run was measured: its capture cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time of day was set by {} us while it was measured: measure again", .by_ns / 1_000)]
pub struct ClockStepped {
    /// How far it moved against the monotonic clock.
    pub by_ns: i64,
}

/// Translates moments of the time of day into moments of a run.
#[derive(Clone, Copy, Debug)]
pub struct ClockMap {
    /// What to take from a time of day.
    ahead_ns: i64,
    error: Nanos,
}

impl ClockMap {
    /// From pairs read before and after a run.
    ///
    /// # Errors
    /// When the time of day was set in between.
    pub fn new(first: ClockPair, last: ClockPair, run: RunClock) -> Result<Self, ClockStepped> {
        Self::between(first, last, run.started_at())
    }

    fn between(
        first: ClockPair,
        last: ClockPair,
        run_started: Nanos,
    ) -> Result<Self, ClockStepped> {
        let by_ns = last.distance_ns() - first.distance_ns();
        let error = first.error + last.error;
        if by_ns.unsigned_abs() > error.0 {
            return Err(ClockStepped { by_ns });
        }
        let best = if first.error <= last.error { first } else { last };
        Ok(Self { ahead_ns: best.distance_ns() + run_started.0.cast_signed(), error: best.error })
    }

    /// The moment of the run at which the time of day was `real_ns`; its start for all before it.
    pub fn to_run(&self, real_ns: u64) -> Instant {
        Instant(u64::try_from(real_ns.cast_signed() - self.ahead_ns).unwrap_or(0))
    }

    /// How far a translated moment may be wrong.
    pub const fn error(&self) -> Nanos {
        self.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(monotonic: u64, real: u64, error: u64) -> ClockPair {
        ClockPair { monotonic: Nanos(monotonic), real: Nanos(real), error: Nanos(error) }
    }

    #[test]
    fn moments_keep_the_distance_of_the_closest_pair() {
        let (first, last) = (pair(5_000, 900_000, 30), pair(15_000, 910_040, 20));
        let map = ClockMap::between(first, last, Nanos(4_000)).unwrap();
        assert_eq!(map.to_run(910_040), Instant(11_000));
        assert_eq!(map.to_run(900_040), Instant(1_000));
        assert_eq!(map.to_run(1), Instant::ZERO, "before the run");
        assert_eq!(map.error(), Nanos(20));
    }

    #[test]
    fn a_time_of_day_that_was_set_is_refused() {
        let (first, last) = (pair(0, 1_000, 20), pair(1_000_000, 11_001_000, 20));
        let error = ClockMap::between(first, last, Nanos(0)).unwrap_err();
        assert_eq!(error, ClockStepped { by_ns: 10_000_000 });
        assert!(error.to_string().contains("10000 us"), "{error}");
    }

    #[test]
    fn the_present_moment_is_the_same_on_both_clocks() {
        let (first, clock) = (ClockPair::read(), RunClock::start());
        let (before, now, after) = (clock.now(), ClockPair::read(), clock.now());
        let map = ClockMap::new(first, ClockPair::read(), clock).unwrap();
        let error = map.error() + now.error;
        let now = map.to_run(now.real.0);
        assert!(now + error >= before && now <= after + error, "{before:?} {now:?} {after:?}");
    }
}
