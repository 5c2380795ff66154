//! What a backend counts.

use robinhood_stats::{Histogram, Instant, Nanos};
use serde::Serialize;

use super::queue::{Job, Served};

/// Buckets at most 3.2 % wide.
const PRECISION_BITS: u32 = 5;

/// Counts since the start and the state at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BackendStatistics {
    /// The moment.
    pub at: Instant,
    /// Servers that there are.
    pub servers: usize,
    /// Servers that hold a batch.
    pub busy_servers: usize,
    /// Batches that wait for a server.
    pub queue_length: usize,
    /// Age of the oldest batch that waits or is served; `None` when there is none.
    pub oldest: Option<Nanos>,
    /// Batches that came, refused ones included.
    pub asked: u64,
    /// Batches answered to an asker that still waited.
    pub answered: u64,
    /// Batches served to the end for an asker that had given up.
    pub given_up: u64,
    /// Batches that found the queue full.
    pub refused: u64,
    /// Batches whose work failed.
    pub failed: u64,
    /// Keys of all served batches.
    pub keys: u64,
    /// Batches whose real work took longer than the limit allows: the machine was the bottleneck.
    pub over_limit: u64,
    /// Time that real work took, summed.
    pub work: Nanos,
    /// Server time of all batches that were served.
    pub served: Nanos,
    /// Server time of the batches in service so far.
    pub running: Nanos,
    /// P99 of the time from arrival to answer, over the recent past; `None` without answers in it.
    pub residence_p99: Option<Nanos>,
}

impl BackendStatistics {
    /// Batches that were served to their end.
    pub const fn batches(&self) -> u64 {
        self.answered + self.given_up + self.failed
    }

    /// Share of the servers' time that was in use between `earlier` and now, 0 to 1; 0 for no time.
    pub fn utilisation_since(&self, earlier: &Self) -> f64 {
        let available = self.at.since(earlier.at).0 as f64 * self.servers as f64;
        let used = (self.served + self.running).saturating_sub(earlier.served + earlier.running);
        if available > 0.0 { (used.0 as f64 / available).min(1.0) } else { 0.0 }
    }
}

/// The counting part of a backend's state.
pub(super) struct Counters {
    pub(super) asked: u64,
    pub(super) refused: u64,
    answered: u64,
    given_up: u64,
    failed: u64,
    keys: u64,
    over_limit: u64,
    work: Nanos,
    served: Nanos,
    residence: Recent,
}

impl Counters {
    pub(super) fn new(now: Instant, recent: Nanos) -> Self {
        Self {
            asked: 0,
            refused: 0,
            answered: 0,
            given_up: 0,
            failed: 0,
            keys: 0,
            over_limit: 0,
            work: Nanos::ZERO,
            served: Nanos::ZERO,
            residence: Recent::new(now, recent),
        }
    }

    pub(super) fn handle_served(
        &mut self,
        now: Instant,
        job: &Job,
        served: &Served,
        given_up: bool,
    ) {
        match (&served.answer, given_up) {
            (Err(_), _) => self.failed += 1,
            (Ok(_), true) => self.given_up += 1,
            (Ok(_), false) => self.answered += 1,
        }
        self.keys += job.keys.len() as u64;
        self.over_limit += u64::from(served.over_limit);
        self.work += served.work;
        self.served += served.end.since(served.start);
        self.residence.add(now, now.since(job.arrived));
    }

    pub(super) fn statistics(&mut self, now: Instant) -> BackendStatistics {
        BackendStatistics {
            at: now,
            asked: self.asked,
            answered: self.answered,
            given_up: self.given_up,
            refused: self.refused,
            failed: self.failed,
            keys: self.keys,
            over_limit: self.over_limit,
            work: self.work,
            served: self.served,
            residence_p99: self.residence.p99(now),
            ..BackendStatistics::default()
        }
    }
}

/// A histogram of the last one to two windows.
struct Recent {
    window: Nanos,
    window_start: Instant,
    current: Histogram,
    previous: Histogram,
}

impl Recent {
    fn new(now: Instant, window: Nanos) -> Self {
        let (current, previous) = (Histogram::new(PRECISION_BITS), Histogram::new(PRECISION_BITS));
        Self { window, window_start: now, current, previous }
    }

    fn roll(&mut self, now: Instant) {
        let age = now.since(self.window_start);
        if age < self.window {
            return;
        }
        std::mem::swap(&mut self.current, &mut self.previous);
        self.current.clear();
        if age >= self.window + self.window {
            self.previous.clear();
        }
        self.window_start = now;
    }

    fn add(&mut self, now: Instant, value: Nanos) {
        self.roll(now);
        self.current.add_nanos(value);
    }

    fn p99(&mut self, now: Instant) -> Option<Nanos> {
        self.roll(now);
        let mut both = self.current.clone();
        both.merge(&self.previous);
        both.quantile(0.99).map(Nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_percentiles_forget_what_is_older_than_two_windows() {
        let second = |s: u64| Instant(s * 1_000_000_000);
        let mut recent = Recent::new(Instant::ZERO, Nanos::from_secs(10));
        recent.add(second(1), Nanos::from_millis(900));
        recent.add(second(11), Nanos::from_millis(10));
        assert!(recent.p99(second(12)) >= Some(Nanos::from_millis(870)));
        assert!(recent.p99(second(21)) <= Some(Nanos::from_millis(11)));
        assert_eq!(recent.p99(second(45)), None);
    }

    #[test]
    fn utilisation_is_server_time_over_time() {
        let at = |s: u64, served_s: u64| BackendStatistics {
            at: Instant(s * 1_000_000_000),
            servers: 4,
            served: Nanos::from_secs(served_s),
            ..BackendStatistics::default()
        };
        assert_eq!(at(20, 25).utilisation_since(&at(10, 5)), 0.5);
        assert_eq!(at(20, 25).utilisation_since(&at(20, 25)), 0.0);
    }
}
