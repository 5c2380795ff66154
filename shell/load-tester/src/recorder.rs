//! Keeps account of every request of a run: latency, service, lateness, and where each one went.
//!
//! Place in the flow: the pacer's callback says `sent` and gets a ticket; whoever sees the end gives it back with
//! `finish`. A ticket cannot be copied, so no request ends twice; one that never comes back is *unfinished*. Start
//! times of requests in flight are kept, so that a request that hangs is seen before it returns, and counts with the
//! time it has waited. Work is spread over shards by turns; each takes a lock for tens of nanoseconds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use robinhood_stats::{Histogram, Instant, Nanos};

use crate::summary::{Counts, Summary};

/// Bounds of a recorder.
#[derive(Clone, Copy, Debug)]
pub struct RecorderConfig {
    /// Independent parts, at least 1 and by default 8: more than threads that record at once makes waiting unlikely.
    pub shards: usize,
    /// Requests in flight beyond which further ones are refused, at least 1 and by default 100,000. A generator that
    /// lets requests wait without bound dies of memory; one that waits itself is no longer open loop. 24 bytes each.
    pub in_flight_max: usize,
}

impl Default for RecorderConfig {
    fn default() -> Self {
        Self { shards: 8, in_flight_max: 100_000 }
    }
}

/// A request was not recorded as sent and must not be sent: too many are in flight. It is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{in_flight_max} requests are in flight: the request is refused; lower the rate or raise in_flight_max"
)]
pub struct Refused {
    /// The bound that was reached.
    pub in_flight_max: usize,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With an answer.
    Completed,
    /// With an error.
    Failed,
    /// Given up after its timeout.
    TimedOut,
}

/// A request in flight. Give it to [`Recorder::finish`]; a dropped ticket leaves its request unfinished.
#[derive(Debug)]
#[must_use = "a request whose ticket is dropped counts as unfinished"]
pub struct Ticket {
    shard: usize,
    slot: usize,
    start: Start,
}

impl Ticket {
    /// When the request was due.
    pub const fn due(&self) -> Instant {
        self.start.due
    }

    /// When it was sent.
    pub const fn sent(&self) -> Instant {
        self.start.sent
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Start {
    due: Instant,
    sent: Instant,
}

/// Counts and times of one stretch of a run.
#[derive(Clone, Debug)]
pub struct Step {
    /// When the stretch began: the end of the one before it.
    pub start: Instant,
    /// When it ended.
    pub end: Instant,
    /// What was sent, refused and ended in it. `unfinished` are those in flight at its end, whenever they were sent.
    pub counts: Counts,
    /// Time waited so far by the oldest request in flight, from its due time; zero with none in flight.
    pub oldest: Nanos,
    /// Latency of requests that ended in it.
    pub latency: Histogram,
    /// Service time of requests that ended in it.
    pub service: Histogram,
    /// Lateness of requests sent in it.
    pub lateness: Histogram,
}

/// What one shard or a whole run has counted.
#[derive(Clone, Debug)]
struct Account {
    sent: u64,
    refused: u64,
    completed: u64,
    failed: u64,
    timed_out: u64,
    latency: Histogram,
    service: Histogram,
    lateness: Histogram,
}

impl Account {
    const fn new() -> Self {
        Self {
            sent: 0,
            refused: 0,
            completed: 0,
            failed: 0,
            timed_out: 0,
            latency: Histogram::precise(),
            service: Histogram::precise(),
            lateness: Histogram::precise(),
        }
    }

    fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.refused += other.refused;
        self.completed += other.completed;
        self.failed += other.failed;
        self.timed_out += other.timed_out;
        self.latency.merge(&other.latency);
        self.service.merge(&other.service);
        self.lateness.merge(&other.lateness);
    }

    fn clear(&mut self) {
        let Self { latency, service, lateness, .. } = self;
        for histogram in [latency, service, lateness] {
            histogram.clear();
        }
        (self.sent, self.refused) = (0, 0);
        (self.completed, self.failed, self.timed_out) = (0, 0, 0);
    }

    fn counts(&self, unfinished: u64) -> Counts {
        Counts {
            scheduled: self.sent + self.refused,
            sent: self.sent,
            completed: self.completed,
            failed: self.failed,
            timed_out: self.timed_out,
            refused: self.refused,
            unsent: 0, // who gives a request to a recorder sends it at once
            unfinished,
        }
    }
}

/// On its own cache lines, so that two shards never wait for each other.
#[repr(align(128))]
struct Shard(Mutex<ShardState>);

struct ShardState {
    account: Account,
    /// Requests in flight by slot; free slots are listed in `free`.
    in_flight: Vec<Option<Start>>,
    free: Vec<usize>,
}

impl ShardState {
    fn insert(&mut self, start: Start) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.in_flight.push(None);
            self.in_flight.len() - 1
        });
        assert!(self.in_flight[slot].replace(start).is_none(), "slot {slot} was taken");
        slot
    }

    fn remove(&mut self, slot: usize, start: Start) {
        let held = self.in_flight.get_mut(slot).and_then(Option::take);
        assert_eq!(held, Some(start), "the ticket is not from this recorder");
        self.free.push(slot);
    }
}

/// Sums of closed steps.
struct Totals {
    account: Account,
    /// Empty between calls: exchanged with a shard's account, so that no lock of a shard is held while merging.
    spare: Account,
    step_start: Instant,
}

/// Records requests of one run; shared by all threads that send or see ends.
pub struct Recorder {
    shards: Box<[Shard]>,
    turn: AtomicUsize,
    in_flight: AtomicUsize,
    in_flight_max: usize,
    totals: Mutex<Totals>,
}

impl Recorder {
    /// An empty recorder; the first step begins at [`Instant::ZERO`].
    ///
    /// # Panics
    /// When a bound of the configuration is zero.
    pub fn new(config: RecorderConfig) -> Self {
        assert!(config.shards > 0 && config.in_flight_max > 0, "a bound is zero: {config:?}");
        let shard = || {
            let account = Account::new();
            Shard(Mutex::new(ShardState { account, in_flight: Vec::new(), free: Vec::new() }))
        };
        Self {
            shards: std::iter::repeat_with(shard).take(config.shards).collect(),
            turn: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            in_flight_max: config.in_flight_max,
            totals: Mutex::new(Totals {
                account: Account::new(),
                spare: Account::new(),
                step_start: Instant::ZERO,
            }),
        }
    }

    /// A request is sent at `now` that was due at `due`.
    ///
    /// # Errors
    /// When as many requests as allowed are in flight. The request is counted as refused; do not send it.
    pub fn sent(&self, due: Instant, now: Instant) -> Result<Ticket, Refused> {
        // Reserved first and given back, so that no interleaving of senders gets over the bound.
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        if before >= self.in_flight_max {
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
            self.refuse();
            return Err(Refused { in_flight_max: self.in_flight_max });
        }
        let shard = self.next_shard();
        let start = Start { due, sent: now };
        let mut state = self.lock(shard);
        state.account.sent += 1;
        state.account.lateness.add_nanos(now.since(due));
        let slot = state.insert(start);
        Ok(Ticket { shard, slot, start })
    }

    /// A request that was due cannot be sent: no connection, no route, a full queue.
    pub fn refuse(&self) {
        self.lock(self.next_shard()).account.refused += 1;
    }

    /// A request has ended. Gives its latency, from its due time.
    ///
    /// # Panics
    /// When the ticket is from another recorder.
    #[expect(clippy::needless_pass_by_value, reason = "a ticket is used up: no request ends twice")]
    pub fn finish(&self, ticket: Ticket, now: Instant, end: End) -> Nanos {
        let Ticket { shard, slot, start } = ticket;
        let latency = now.since(start.due);
        let mut state = self.lock(shard);
        state.remove(slot, start);
        let account = &mut state.account;
        account.latency.add_nanos(latency);
        account.service.add_nanos(now.since(start.sent));
        *match end {
            End::Completed => &mut account.completed,
            End::Failed => &mut account.failed,
            End::TimedOut => &mut account.timed_out,
        } += 1;
        drop(state);
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        latency
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Closes the present step at `now` and begins the next. Called by one thread, once per line of a live view.
    pub fn take_step(&self, now: Instant) -> Step {
        let mut totals = self.lock_totals();
        let mut step = Account::new();
        let mut waiting = Vec::new();
        self.collect(&mut totals, Some(&mut step), &mut waiting);
        let start = std::mem::replace(&mut totals.step_start, now);
        let oldest = waiting.iter().map(|waiting| waiting.due).min();
        Step {
            start,
            end: now,
            counts: step.counts(waiting.len() as u64),
            oldest: oldest.map_or(Nanos::ZERO, |due| now.since(due)),
            latency: step.latency,
            service: step.service,
            lateness: step.lateness,
        }
    }

    /// Everything from the start to `now`. The run may go on.
    ///
    /// # Panics
    /// When the counts do not add up, which would be an error in this module.
    pub fn summary(&self, now: Instant) -> Summary {
        let mut waiting = Vec::new();
        let mut account = {
            let mut totals = self.lock_totals();
            self.collect(&mut totals, None, &mut waiting);
            totals.account.clone()
        };
        for start in &waiting {
            account.latency.add_nanos(now.since(start.due));
            account.service.add_nanos(now.since(start.sent));
        }
        let counts = account.counts(waiting.len() as u64);
        Summary::new(counts, &account.latency, &account.service, &account.lateness)
    }

    /// Moves what the shards have counted into the totals, and to `step`; lists the requests in flight.
    ///
    /// Each shard is read at one moment, so its counts and its requests in flight belong together, and so do the sums.
    fn collect(
        &self,
        totals: &mut Totals,
        mut step: Option<&mut Account>,
        waiting: &mut Vec<Start>,
    ) {
        for shard in 0..self.shards.len() {
            {
                let mut state = self.lock(shard);
                std::mem::swap(&mut state.account, &mut totals.spare);
                waiting.extend(state.in_flight.iter().flatten());
            }
            totals.account.merge(&totals.spare);
            if let Some(step) = &mut step {
                step.merge(&totals.spare);
            }
            totals.spare.clear();
        }
    }

    /// By turns: two requests in a row never wait for the same lock.
    fn next_shard(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed) % self.shards.len()
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, ShardState> {
        self.shards[shard].0.lock().expect("no thread panicked while it recorded")
    }

    fn lock_totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().expect("no thread panicked while it summed up")
    }
}

#[cfg(test)]
mod tests;
