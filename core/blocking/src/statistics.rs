//! Per backend: queries, hits, failures, timeouts and latencies of batches with a miss, over a fixed window.
//!
//! For policies and operators; RBC does not use them. The window moves in sixths: it covers its length and up to
//! a sixth more, less in the beginning.

use std::collections::VecDeque;

use robinhood_stats::{Instant, Nanos};

use crate::delta::BackendDelta;
use crate::grid::Grid;
use crate::report::BatchRecord;
use crate::scale::BATCHES;
use crate::sparse::SparseCounts;

/// Slots of the window that are over; one more is being filled.
const SLOTS: u64 = 6;

/// Sums over batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) queries: u64,
    pub(crate) hits: u64,
    pub(crate) failures: u64,
    pub(crate) timeouts: u64,
}

impl Counters {
    #[inline]
    pub(crate) fn add_batch(&mut self, batch: &BatchRecord) {
        self.queries += u64::from(batch.queries);
        self.hits += u64::from(batch.hits);
        self.failures += u64::from(batch.failures);
        self.timeouts += u64::from(batch.timeouts);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.queries += other.queries;
        self.hits += other.hits;
        self.failures += other.failures;
        self.timeouts += other.timeouts;
    }

    fn subtract(&mut self, other: &Self) {
        let less = |sum: u64, part: u64| sum.checked_sub(part).expect("a slot is part of the sums");
        self.queries = less(self.queries, other.queries);
        self.hits = less(self.hits, other.hits);
        self.failures = less(self.failures, other.failures);
        self.timeouts = less(self.timeouts, other.timeouts);
    }
}

#[derive(Clone, Debug, Default)]
struct Slot {
    index: u64,
    /// By backend id.
    counters: Vec<Counters>,
    miss_batches: SparseCounts,
}

/// The window over statistics of backends.
#[derive(Clone, Debug)]
pub(crate) struct Statistics {
    slot: Nanos,
    /// In order of index; slots without deltas are missing.
    slots: VecDeque<Slot>,
    /// Sums over the slots, by backend id.
    sums: Vec<Counters>,
    miss_batches: Grid<8>,
}

impl Statistics {
    /// Over at least `window`.
    pub(crate) fn new(window: Nanos) -> Self {
        let slot = Nanos((window.0 / SLOTS).max(1));
        Self { slot, slots: VecDeque::new(), sums: Vec::new(), miss_batches: Grid::new() }
    }

    /// Counts what a delta says about one backend, whose id is `backend`, in the slot of `at`; too late is lost.
    pub(crate) fn add(&mut self, now: Instant, at: Instant, backend: usize, delta: &BackendDelta) {
        self.forget(now);
        let index = at.0 / self.slot.0;
        if index + SLOTS < now.0 / self.slot.0 {
            return;
        }
        let counters = Counters {
            queries: delta.queries,
            hits: delta.hits,
            failures: delta.failures,
            timeouts: delta.timeouts,
        };
        merge_at(&mut self.sums, backend, &counters);
        let slot = self.slot_at(index);
        merge_at(&mut slot.counters, backend, &counters);
        for cell in &delta.miss_batches {
            slot.miss_batches.add(backend, usize::from(cell.bucket), cell.batches);
        }
        for cell in &delta.miss_batches {
            self.miss_batches.add(backend, usize::from(cell.bucket), cell.batches);
        }
    }

    fn slot_at(&mut self, index: u64) -> &mut Slot {
        let place = self.slots.partition_point(|slot| slot.index < index);
        if self.slots.get(place).is_none_or(|slot| slot.index != index) {
            if let Some(before) = place.checked_sub(1) {
                self.slots[before].miss_batches.close();
            }
            self.slots.insert(place, Slot { index, ..Slot::default() });
        }
        &mut self.slots[place]
    }

    /// Drops slots that are older than the window.
    pub(crate) fn forget(&mut self, now: Instant) {
        let newest = now.0 / self.slot.0;
        while self.slots.front().is_some_and(|slot| slot.index + SLOTS < newest) {
            let slot = self.slots.pop_front().expect("there is a first slot");
            for (sum, part) in self.sums.iter_mut().zip(&slot.counters) {
                sum.subtract(part);
            }
            for (row, bucket, batches) in slot.miss_batches.iter() {
                self.miss_batches.subtract(row, bucket, batches);
            }
        }
    }

    /// Sums of one backend.
    pub(crate) fn counters(&self, backend: usize) -> Counters {
        self.sums.get(backend).copied().unwrap_or_default()
    }

    /// P99 of the latencies of one backend's batches with a miss.
    pub(crate) fn miss_batch_p99(&self, backend: usize) -> Option<Nanos> {
        self.miss_batches.quantile(backend, 0.99).map(|position| BATCHES.latency(position))
    }

    /// The time that the sums cover: from the start of the oldest slot that holds something.
    pub(crate) fn span(&self, now: Instant) -> Nanos {
        let oldest = self.slots.front().map(|slot| Instant(slot.index * self.slot.0));
        oldest.map_or(Nanos::ZERO, |start| now.since(start))
    }

    /// Bytes of heap memory held.
    pub(crate) fn heap_bytes(&self) -> usize {
        let slot = |slot: &Slot| {
            slot.counters.capacity() * size_of::<Counters>() + slot.miss_batches.heap_bytes()
        };
        self.slots.iter().map(slot).sum::<usize>()
            + self.sums.capacity() * size_of::<Counters>()
            + self.miss_batches.heap_bytes()
    }
}

fn merge_at(counters: &mut Vec<Counters>, backend: usize, more: &Counters) {
    if backend >= counters.len() {
        counters.resize(backend + 1, Counters::default());
    }
    counters[backend].merge(more);
}
