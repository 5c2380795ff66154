//! The one queue of a backend and the state that its servers share: who waits, who is served, what was counted.
//!
//! One lock: a backend handles hundreds of batches a second, each for milliseconds.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use robinhood_stats::{Instant, Nanos};
use tokio::sync::oneshot;

use super::statistics::{BackendStatistics, Counters};
use super::{BackendError, BackendSettings};
use crate::limit::BatchId;
use crate::work::WorkError;
use robinhood_load_tester::RunClock;

pub(super) type Answer = Result<Vec<Bytes>, WorkError>;

/// A batch on its way.
pub(super) struct Job {
    pub(super) batch: BatchId,
    pub(super) keys: Vec<u32>,
    pub(super) arrived: Instant,
    reply: oneshot::Sender<Answer>,
}

/// How a batch left its server.
pub(super) struct Served {
    pub(super) answer: Answer,
    /// When its service started.
    pub(super) start: Instant,
    /// When its server was free again.
    pub(super) end: Instant,
    /// How long its work really took.
    pub(super) work: Nanos,
    /// Whether the work outlasted the limit.
    pub(super) over_limit: bool,
}

/// What one server does now.
#[derive(Clone, Copy)]
struct Occupied {
    arrived: Instant,
    /// `None`: taken from the queue, not started for want of capacity.
    start: Option<Instant>,
}

struct State {
    waiting: VecDeque<Job>,
    servers: Vec<Option<Occupied>>,
    hung: bool,
    closed: bool,
    counters: Counters,
}

/// Queue, servers' states and counters of one backend.
pub(super) struct Queue {
    settings: BackendSettings,
    clock: RunClock,
    state: Mutex<State>,
    /// A batch has arrived, or the backend closes.
    arrival: Condvar,
    /// The backend hangs no longer, or closes.
    change: Condvar,
}

/// The backend is shutting down.
pub(super) struct Closed;

impl Job {
    pub(super) const fn new(
        batch: BatchId,
        keys: Vec<u32>,
        arrived: Instant,
        reply: oneshot::Sender<Answer>,
    ) -> Self {
        Self { batch, keys, arrived, reply }
    }
}

impl Queue {
    pub(super) fn new(settings: BackendSettings, clock: RunClock) -> Self {
        let state = State {
            waiting: VecDeque::new(),
            servers: vec![None; settings.servers],
            hung: false,
            closed: false,
            counters: Counters::new(clock.now(), settings.recent),
        };
        let (arrival, change) = (Condvar::new(), Condvar::new());
        Self { settings, clock, state: Mutex::new(state), arrival, change }
    }

    pub(super) const fn settings(&self) -> &BackendSettings {
        &self.settings
    }

    pub(super) const fn clock(&self) -> RunClock {
        self.clock
    }

    /// Every change under the lock is complete before anything that can panic, so a poisoned lock is still consistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn failed(&self, error: WorkError) -> BackendError {
        BackendError::Failed { backend: self.settings.name.clone(), error }
    }

    pub(super) fn closed(&self) -> BackendError {
        BackendError::Closed { backend: self.settings.name.clone() }
    }

    pub(super) fn push(&self, job: Job) -> Result<(), BackendError> {
        let mut state = self.state();
        if state.closed {
            return Err(self.closed());
        }
        state.counters.asked += 1;
        if state.waiting.len() >= self.settings.queue_max {
            state.counters.refused += 1;
            let (backend, queue_max) = (self.settings.name.clone(), self.settings.queue_max);
            return Err(BackendError::Refused { backend, queue_max });
        }
        state.waiting.push_back(job);
        drop(state);
        self.arrival.notify_one();
        Ok(())
    }

    /// The next batch for a free server; waits for one. `None` when the backend closes.
    pub(super) fn take(&self, server: usize) -> Option<Job> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.waiting.pop_front() {
                state.servers[server] = Some(Occupied { arrived: job.arrived, start: None });
                return Some(job);
            }
            state = self.arrival.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits while the backend hangs and says whether it did.
    pub(super) fn wait_while_hung(&self) -> Result<bool, Closed> {
        let mut state = self.state();
        let hung = state.hung;
        while state.hung && !state.closed {
            state = self.change.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed { Err(Closed) } else { Ok(hung) }
    }

    pub(super) fn start(&self, server: usize, start: Instant) {
        let mut state = self.state();
        let occupied = state.servers[server].as_mut().expect("a server starts what it has taken");
        occupied.start = Some(start);
    }

    /// Sleeps until `end`, to the precision of the calling thread's timers.
    pub(super) fn hold_until(&self, end: Instant) -> Result<(), Closed> {
        let mut state = self.state();
        loop {
            if state.closed {
                return Err(Closed);
            }
            let left = end.since(self.clock.now());
            if left == Nanos::ZERO {
                return Ok(());
            }
            let woken = self.change.wait_timeout(state, Duration::from_nanos(left.0));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Counts a served batch, frees its server and sends its answer.
    pub(super) fn finish(&self, server: usize, job: Job, served: Served) {
        let now = self.clock.now();
        let mut state = self.state();
        assert!(state.servers[server].take().is_some(), "a server finishes what it has taken");
        // A closed channel is seen before the count, so that whoever sees the answer sees it counted.
        let given_up = job.reply.is_closed();
        state.counters.handle_served(now, &job, &served, given_up);
        drop(state);
        let _ = job.reply.send(served.answer); // the asker may be gone
    }

    pub(super) fn set_hung(&self, hung: bool) {
        self.state().hung = hung;
        self.change.notify_all();
    }

    /// Drops what waits and lets every server end.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
        self.arrival.notify_all();
        self.change.notify_all();
    }

    pub(super) fn statistics(&self) -> BackendStatistics {
        let now = self.clock.now();
        let mut state = self.state();
        let occupied = state.servers.iter().flatten();
        let oldest =
            occupied.clone().map(|o| o.arrived).chain(state.waiting.front().map(|j| j.arrived));
        let oldest = oldest.min();
        let running: u64 = occupied.clone().filter_map(|o| o.start).map(|s| now.since(s).0).sum();
        let busy_servers = occupied.count();
        BackendStatistics {
            at: now,
            servers: self.settings.servers,
            busy_servers,
            queue_length: state.waiting.len(),
            oldest: oldest.map(|arrived| now.since(arrived)),
            running: Nanos(running),
            ..state.counters.statistics(now)
        }
    }
}
