//! What a client's thread does with its time.
//!
//! Place in the flow: the client says what it turns to; one reading of the clock a turn ends the one before. From it follows the time
//! that one request costs the client, and with it how late requests must be at a rate.

use robinhood_stats::{Instant, Nanos};

/// What a thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Writing a request, and making the next one ready.
    Send,
    /// Reading answers.
    Receive,
    /// Asking for answers that are not there yet.
    Poll,
    /// Waiting on the clock.
    Spin,
    /// Waiting without the processor.
    Sleep,
    /// Timeouts, slots, connections.
    Check,
}

const KINDS: usize = 6;

/// Time by what was done.
#[derive(Clone, Copy, Debug)]
pub struct Busy {
    times: [Nanos; KINDS],
    doing: Doing,
    since: Instant,
    stopped: bool,
}

impl Busy {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { times: [Nanos::ZERO; KINDS], doing: Doing::Check, since: now, stopped: false }
    }

    /// The present turn ends at `now`; says what it was.
    #[inline]
    pub(crate) fn end(&mut self, now: Instant) -> (Doing, Nanos) {
        let took = now.since(self.since);
        if !self.stopped {
            self.times[self.doing as usize] += took;
        }
        self.since = now;
        (self.doing, took)
    }

    /// What comes after `now` does not count.
    pub(crate) fn stop(&mut self, now: Instant) {
        self.end(now);
        self.stopped = true;
    }

    /// What the next turn is.
    #[inline]
    pub(crate) const fn begin(&mut self, doing: Doing) {
        self.doing = doing;
    }

    /// Time spent so.
    pub const fn time(&self, doing: Doing) -> Nanos {
        self.times[doing as usize]
    }

    /// All time.
    pub fn total(&self) -> Nanos {
        self.times.iter().fold(Nanos::ZERO, |sum, &time| sum + time)
    }
}
