//! What is under way: requests that wait for backends, and their batches.
//!
//! Place in the flow: between the arrival of a request and its report. Slots and their buffers are used again, so that a run allocates for its
//! largest number of waiting requests and no more.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use robinhood_blocking::Slowest;
use robinhood_stats::{BackendId, Instant};
use robinhood_workload::{Key, Request};

/// A request that waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestFlight {
    pub(crate) due: Instant,
    pub(crate) app_server: u16,
    /// Batches of the present stage that are not complete.
    pub(crate) outstanding: u32,
    pub(crate) slowest: Slowest,
    /// The present stage.
    pub(crate) stage: usize,
    /// The request itself, kept only when it has further stages.
    pub(crate) request: Request,
}

/// A batch with misses that a backend works on.
#[derive(Clone, Debug)]
pub(crate) struct BatchFlight {
    pub(crate) request: u32,
    pub(crate) backend: BackendId,
    pub(crate) queries: u32,
    pub(crate) hits: u32,
    /// When it was sent.
    pub(crate) issued: Instant,
    /// How many of its queries will be given up.
    pub(crate) timeouts: u32,
    /// Whether its own fetch is given up: the cache gets nothing.
    pub(crate) is_given_up: bool,
    /// A fetch whose batch waits for others beyond it and is counted then.
    pub(crate) is_alone: bool,
    /// Keys that it fetches and the cache may hold.
    pub(crate) fills: Vec<Key>,
}

impl Default for BatchFlight {
    fn default() -> Self {
        Self {
            request: 0,
            backend: BackendId(0),
            queries: 0,
            hits: 0,
            issued: Instant::ZERO,
            timeouts: 0,
            is_given_up: false,
            is_alone: false,
            fills: Vec::new(),
        }
    }
}

/// Everything under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flights {
    pub(crate) requests: Pool<RequestFlight>,
    pub(crate) batches: Pool<BatchFlight>,
    /// Completion times of batches; equal times in the order of slots.
    completions: BinaryHeap<Reverse<(Instant, u32)>>,
}

/// Values in slots that are used again.
#[derive(Clone, Debug)]
pub(crate) struct Pool<T> {
    slots: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Pool<T> {
    /// A slot with whatever its last user left.
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(T::default());
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 requests wait")
        })
    }

    pub(crate) fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }

    pub(crate) fn slot(&mut self, slot: u32) -> &mut T {
        &mut self.slots[slot as usize]
    }

    /// Slots in use.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl Flights {
    /// Sends a batch that will be complete at `at`.
    pub(crate) fn push(&mut self, at: Instant, batch: u32) {
        self.completions.push(Reverse((at, batch)));
    }

    /// The next batch if it is complete by `now`.
    #[inline]
    pub(crate) fn pop_until(&mut self, now: Instant) -> Option<(Instant, u32)> {
        let &Reverse((at, batch)) = self.completions.peek()?;
        if at > now {
            return None;
        }
        self.completions.pop();
        Some((at, batch))
    }
}
