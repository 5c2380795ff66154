//! What the machine takes from a thread that wants nothing but the time.
//!
//! Place in the flow: while a client spins on the clock, two readings that lie far apart say that something else ran on its processor:
//! an interrupt, another program, or the host of a virtual machine. No pacing can be better than that, so results tell it beside
//! the lateness, and [`lateness_floor`](crate::lateness_floor) builds on it.

use robinhood_stats::{Histogram, Nanos};
use serde::{Deserialize, Serialize};

/// Two readings of the clock are some tens of nanoseconds apart; what is above this was taken.
const UNDISTURBED_MAX: Nanos = Nanos(1_000);

/// Interruptions of a spinning thread, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Interruptions {
    /// Time that was watched, interruptions included.
    pub watched: Nanos,
    /// Length of each interruption.
    pub lengths: Histogram,
}

/// Interruptions in figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InterruptionSummary {
    /// Time that was watched: what the clients spun, in seconds.
    pub watched_s: f64,
    /// Interruptions in a second of that time.
    pub per_s: f64,
    /// Share of that time that they took, from 0 to 1.
    pub share: f64,
    /// Median length.
    pub p50_us: Option<f64>,
    /// The longest.
    pub max_us: Option<f64>,
    /// Lateness that they alone make, at P99: of requests due at any moment of that time.
    pub lateness_p99_us: Option<f64>,
}

impl Interruptions {
    pub(crate) const fn new() -> Self {
        Self { watched: Nanos::ZERO, lengths: Histogram::precise() }
    }

    /// The thread read the clock twice, so far apart, and did nothing in between.
    #[inline]
    pub(crate) fn watch(&mut self, apart: Nanos) {
        self.watched += apart;
        if apart > UNDISTURBED_MAX {
            self.lengths.add_nanos(apart);
        }
    }

    /// Adds those of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.watched += other.watched;
        self.lengths.merge(&other.lengths);
    }

    /// In a second of watched time.
    pub fn per_s(&self) -> f64 {
        self.over_watched(self.lengths.count() as f64)
    }

    /// Share of watched time, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.over_watched(self.lengths.sum() as f64 / 1e9)
    }

    fn over_watched(&self, amount: f64) -> f64 {
        if self.watched > Nanos::ZERO { amount / self.watched.as_secs_f64() } else { 0.0 }
    }

    /// How late a request is at this quantile that comes due at any moment and leaves at the end of the interruption that it falls into, in nanoseconds.
    /// `None` when nothing was watched.
    pub fn lateness_quantile_ns(&self, quantile: f64) -> Option<f64> {
        if self.watched == Nanos::ZERO {
            return None;
        }
        // Time in which less than the wanted lateness is left of an interruption; it falls as the lateness rises.
        let beyond = |late_ns: f64| {
            let parts = self.lengths.buckets().map(|(low, width, count)| {
                let length = low as f64 + width as f64 / 2.0;
                (length - late_ns).max(0.0) * count as f64
            });
            parts.sum::<f64>()
        };
        let wanted = (1.0 - quantile) * self.watched.0 as f64;
        let (mut low, mut high) = (0.0, self.lengths.max().map_or(0.0, |max| max as f64));
        for _ in 0..50 {
            let middle = (low + high) / 2.0;
            if beyond(middle) > wanted {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(high)
    }

    /// The figures.
    pub fn summary(&self) -> InterruptionSummary {
        let us = |nanos: u64| nanos as f64 / 1e3;
        InterruptionSummary {
            watched_s: self.watched.as_secs_f64(),
            per_s: self.per_s(),
            share: self.share(),
            p50_us: self.lengths.quantile(0.5).map(us),
            max_us: self.lengths.max().map(us),
            lateness_p99_us: self.lateness_quantile_ns(0.99).map(|nanos| nanos / 1e3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_close_together_are_no_interruption() {
        let mut found = Interruptions::new();
        (0..1_000).for_each(|_| found.watch(Nanos(40)));
        assert_eq!((found.per_s(), found.share()), (0.0, 0.0));
        assert_eq!(found.lateness_quantile_ns(0.99), Some(0.0));
        assert_eq!(Interruptions::new().lateness_quantile_ns(0.99), None);
        assert_eq!(Interruptions::new().summary().per_s, 0.0);
    }

    #[test]
    fn lateness_is_what_is_left_of_the_interruption() {
        // 10 us in every 100: a tenth of the moments is late, evenly from 0 to 10 us.
        let mut found = Interruptions::new();
        for _ in 0..1_000 {
            (0..90).for_each(|_| found.watch(Nanos(1_000)));
            found.watch(Nanos(10_000));
        }
        assert!((found.share() - 0.1).abs() < 1e-9, "{}", found.share());
        assert!((found.per_s() - 10_000.0).abs() < 1e-6);
        assert!(found.lateness_quantile_ns(0.89).unwrap() < 1e-3);
        assert!((found.lateness_quantile_ns(0.95).unwrap() - 5_000.0).abs() < 20.0);
        assert!((found.lateness_quantile_ns(0.99).unwrap() - 9_000.0).abs() < 20.0);
        assert_eq!(found.summary().max_us, Some(10.0));
    }

    #[test]
    fn threads_are_watched_together() {
        let (mut one, mut other) = (Interruptions::new(), Interruptions::new());
        one.watch(Nanos(50_000));
        other.watch(Nanos(500));
        other.watch(Nanos(49_500));
        one.merge(&other);
        assert_eq!(one.watched, Nanos(100_000));
        assert!((one.per_s() - 20_000.0).abs() < 1e-6);
    }
}
