//! A run in equal slots of time: its course, and what the client tells others while it runs.
//!
//! Place in the flow: the client closes a slot and puts it where a live view and the controller of phases find it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use robinhood_stats::{Histogram, Instant};

/// What happened in a slot.
#[derive(Clone, Debug)]
pub struct Slot {
    /// When it began.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
    /// Requests sent in it.
    pub sent: u64,
    /// Requests completed in it.
    pub completed: u64,
    /// Requests that failed, timed out or were refused in it.
    pub unanswered: u64,
    /// Requests without answer at its end.
    pub in_flight: u64,
    /// End less due time of the requests completed in it, nanoseconds, buckets at most 0.8 % wide.
    pub latency: Histogram,
    /// Send less due time of the requests sent in it, nanoseconds.
    pub lateness: Histogram,
}

impl Slot {
    /// Empty.
    pub fn new(start: Instant) -> Self {
        Self {
            start,
            end: start,
            sent: 0,
            completed: 0,
            unanswered: 0,
            in_flight: 0,
            latency: Histogram::new(7),
            lateness: Histogram::new(7),
        }
    }

    /// Adds the same slot of another client.
    pub fn merge(&mut self, other: &Self) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.in_flight += other.in_flight;
        self.add(other);
    }

    /// Adds a later slot of the same client.
    pub fn append(&mut self, later: &Self) {
        self.end = later.end;
        self.in_flight = later.in_flight;
        self.add(later);
    }

    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.completed += other.completed;
        self.unanswered += other.unanswered;
        self.latency.merge(&other.latency);
        self.lateness.merge(&other.lateness);
    }
}

/// When the measured part begins and ends. May be moved while it lies ahead.
#[derive(Debug)]
pub struct Phases {
    measure_from: AtomicU64,
    measure_to: AtomicU64,
}

impl Phases {
    /// The measured part in the time of the run.
    pub const fn new(measure_from: Instant, measure_to: Instant) -> Self {
        Self {
            measure_from: AtomicU64::new(measure_from.0),
            measure_to: AtomicU64::new(measure_to.0),
        }
    }

    /// Moves the measured part.
    pub fn set(&self, measure_from: Instant, measure_to: Instant) {
        self.measure_to.store(measure_to.0, Ordering::Release);
        self.measure_from.store(measure_from.0, Ordering::Release);
    }

    /// The first moment that is measured.
    #[inline]
    pub fn measure_from(&self) -> Instant {
        Instant(self.measure_from.load(Ordering::Acquire))
    }

    /// Requests that are due from here on are not sent.
    #[inline]
    pub fn measure_to(&self) -> Instant {
        Instant(self.measure_to.load(Ordering::Acquire))
    }
}

/// Closed slots of one client, for whoever watches.
#[derive(Debug, Default)]
pub struct Slots {
    closed: Mutex<Vec<Slot>>,
}

impl Slots {
    /// Takes what was closed since the last call, oldest first.
    pub fn take(&self) -> Vec<Slot> {
        std::mem::take(&mut self.closed.lock().expect("no thread panicked with the lock"))
    }

    /// The watcher holds the lock for an exchange of pointers only.
    pub(crate) fn put(&self, slot: Slot) {
        self.closed.lock().expect("no thread panicked with the lock").push(slot);
    }
}
