//! What one client counts and times.
//!
//! Place in the flow: the client adds, one thread, no lock; accounts of several clients merge exactly afterwards.

use robinhood_stats::{Histogram, Nanos};

use crate::summary::Counts;

/// The longest time whose bucket has its memory from the start, so that no request pays for growing a table.
const RESERVED: Nanos = Nanos::from_secs(3_600);

/// Counts and times of the measured part of a run. All histograms are in nanoseconds, buckets at most 0.1 % wide.
#[derive(Clone, Debug)]
pub struct Account {
    /// Where the requests went.
    pub counts: Counts,
    /// Of the completed requests: those that read a value that was there.
    pub hits: u64,
    /// Of the completed requests: those that read a key that was not there.
    pub misses: u64,
    /// End less due time, of completed requests.
    pub latency: Histogram,
    /// End less send, of completed requests.
    pub service: Histogram,
    /// Times between request and answer by the kernel's clock, of completed requests of which it told both; empty when not asked for.
    pub kernel_service: Histogram,
    /// Send less due time, of all requests sent.
    pub lateness: Histogram,
    /// The same for requests that the client waited for, with nothing else to do: what the timer adds.
    pub timer_lateness: Histogram,
    /// The same for requests that came due while the client was at work on another one.
    pub queue_lateness: Histogram,
}

impl Account {
    pub(crate) fn new() -> Self {
        let histogram = || {
            let mut histogram = Histogram::precise();
            histogram.reserve(RESERVED.0);
            histogram
        };
        Self {
            counts: Counts::default(),
            hits: 0,
            misses: 0,
            latency: histogram(),
            service: histogram(),
            kernel_service: histogram(),
            lateness: histogram(),
            timer_lateness: histogram(),
            queue_lateness: histogram(),
        }
    }

    /// Adds another client's account.
    pub fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.hits += other.hits;
        self.misses += other.misses;
        for (mine, theirs) in [
            (&mut self.latency, &other.latency),
            (&mut self.service, &other.service),
            (&mut self.kernel_service, &other.kernel_service),
            (&mut self.lateness, &other.lateness),
            (&mut self.timer_lateness, &other.timer_lateness),
            (&mut self.queue_lateness, &other.queue_lateness),
        ] {
            mine.merge(theirs);
        }
    }

    /// Requests that came due and have no answer that counts: they stand above every answer in the percentiles.
    pub const fn unanswered(&self) -> u64 {
        self.counts.scheduled - self.counts.completed
    }
}
