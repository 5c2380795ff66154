//! The window over reports: slots of a fifth of the control period, reaching back as far as confidence needs.
//!
//! Deviation from the paper (OSDI'18, 3.3), which keeps the last million requests whatever their age: the window reaches
//! back until the tail band holds enough requests, within a least and a most number of periods, and never beyond a number
//! of requests. At high rates it is short, so RBC follows the present; at low rates it is long, so RBC is not noise.
//!
//! Slots leave for good, and the sums over the window are kept by adding and subtracting integers. With weights of one that
//! loses nothing: what is newer only grows, so a slot that is not needed now is never needed again. With unequal weights
//! the band's effective number of requests (Kish) can fall as heavy reports come in. The window then holds fewer than it
//! should until new slots have filled it; the snapshot says how many. A delta for a slot that has left is late.

use std::collections::VecDeque;

use robinhood_stats::{Instant, Nanos};

use crate::histogram::BlockingHistogram;
use crate::sparse::SparseCounts;
use crate::tail_band::Band;

/// How far the window reaches.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    /// Length of a slot.
    pub(crate) slot: Nanos,
    /// Slots before the present one that are always kept.
    pub(crate) slots_min: u64,
    /// Slots before the present one that are kept at most.
    pub(crate) slots_max: u64,
    /// The band should hold this many requests.
    pub(crate) requests_in_band_min: f64,
    /// The window holds no more requests than this, and the newest slot.
    pub(crate) requests_max: u64,
    /// The tail band.
    pub(crate) bands: Vec<Band>,
}

/// What a slot counts besides the cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) reports: u64,
    pub(crate) cancelled: u64,
    pub(crate) rejected: u64,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    index: u64,
    cells: SparseCounts,
    /// (bucket, excess of squared weights), in order of buckets; empty for traffic that is not sampled.
    excess: Vec<(u16, i128)>,
    totals: Totals,
    /// What of all this is not in the sum.
    correction: Correction,
}

/// What is taken out of a slot again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Correction {
    pub(crate) cells: SparseCounts,
    excess: Vec<(u16, i128)>,
    pub(crate) totals: Totals,
}

/// Slots and their sum.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    reach: Reach,
    /// In order of index; slots without deltas are missing.
    slots: VecDeque<Slot>,
    /// Slots before this index have left for good.
    first: u64,
    sum: BlockingHistogram,
    totals: Totals,
    /// The weight of all cells in the slots, also of what is corrected: more than the sum ever holds.
    weight: u64,
}

/// One slot of a window, open for additions that the sum sees too.
pub(crate) struct OpenSlot<'a> {
    slot: &'a mut Slot,
    sum: &'a mut BlockingHistogram,
    totals: &'a mut Totals,
    weight: &'a mut u64,
}

impl Window {
    pub(crate) fn new(reach: Reach) -> Self {
        let sum = BlockingHistogram::new();
        Self { reach, slots: VecDeque::new(), first: 0, sum, totals: Totals::default(), weight: 0 }
    }

    /// The number of the slot of a moment.
    pub(crate) fn index(&self, at: Instant) -> u64 {
        at.0 / self.reach.slot.0
    }

    /// Whether the slot of `at` is older than the window can reach at `now`, or has left before: opened again it would lack what it held,
    /// and what is to be taken out of it counts that too.
    pub(crate) fn is_late(&self, now: Instant, at: Instant) -> bool {
        let index = self.index(at);
        index < self.first || index + self.reach.slots_max < self.index(now)
    }

    /// The moment before which nothing is in the window any more.
    pub(crate) fn horizon(&self, now: Instant) -> Instant {
        Instant(self.index(now).saturating_sub(self.reach.slots_max) * self.reach.slot.0)
    }

    /// The slot of `at`, for a delta.
    pub(crate) fn open(&mut self, at: Instant) -> OpenSlot<'_> {
        let index = self.index(at);
        let place = self.slots.partition_point(|slot| slot.index < index);
        if self.slots.get(place).is_none_or(|slot| slot.index != index) {
            if let Some(before) = place.checked_sub(1) {
                self.slots[before].cells.close();
            }
            self.slots.insert(place, Slot { index, ..Slot::default() });
        }
        let slot = &mut self.slots[place];
        let Self { sum, totals, weight, .. } = self;
        OpenSlot { slot, sum, totals, weight }
    }

    /// Drops what is beyond the most periods.
    pub(crate) fn bound_age(&mut self, now: Instant) {
        let newest = self.index(now);
        while self.slots.front().is_some_and(|slot| slot.index + self.reach.slots_max < newest) {
            self.drop_oldest();
        }
    }

    /// Drops what is beyond the most periods or the most requests.
    pub(crate) fn bound(&mut self, now: Instant) {
        let newest = self.index(now);
        while let Some(oldest) = self.slots.front() {
            let too_old = oldest.index + self.reach.slots_max < newest;
            let too_many = self.totals.reports > self.reach.requests_max && self.slots.len() > 1;
            if !(too_old || too_many) {
                break;
            }
            self.drop_oldest();
        }
    }

    /// Drops also what the window need not reach back to.
    pub(crate) fn trim(&mut self, now: Instant) {
        self.bound(now);
        let newest = self.index(now);
        while self.slots.front().is_some_and(|slot| slot.index + self.reach.slots_min < newest) {
            let oldest = self.drop_oldest();
            if self.sum.shares(&self.reach.bands).requests < self.reach.requests_in_band_min {
                self.restore(oldest);
                break;
            }
        }
    }

    /// Takes something out of a slot that was added to it, in place of what was taken out before. A slot that has left is left alone.
    pub(crate) fn correct(&mut self, index: u64, correction: Correction) {
        let place = self.slots.partition_point(|slot| slot.index < index);
        let Some(slot) = self.slots.get_mut(place).filter(|slot| slot.index == index) else {
            return;
        };
        let before = std::mem::replace(&mut slot.correction, correction);
        // For a moment the sum holds all that the slot does: see `weight`.
        before.undo(&mut self.sum, &mut self.totals);
        slot.correction.apply(&mut self.sum, &mut self.totals);
    }

    fn drop_oldest(&mut self) -> Slot {
        let slot = self.slots.pop_front().expect("there is an oldest slot");
        slot.correction.undo(&mut self.sum, &mut self.totals);
        for (row, bucket, weight) in slot.cells.iter() {
            self.sum.subtract_cell(row, bucket, weight);
            self.weight -= weight;
        }
        for &(bucket, excess) in &slot.excess {
            self.sum.add_excess(usize::from(bucket), -excess);
        }
        self.totals.subtract(&slot.totals);
        self.first = slot.index + 1;
        slot
    }

    fn restore(&mut self, slot: Slot) {
        for (row, bucket, weight) in slot.cells.iter() {
            self.sum.add_cell(row, bucket, weight);
            self.weight += weight;
        }
        for &(bucket, excess) in &slot.excess {
            self.sum.add_excess(usize::from(bucket), excess);
        }
        self.totals.add(&slot.totals);
        self.first = slot.index;
        slot.correction.apply(&mut self.sum, &mut self.totals);
        self.slots.push_front(slot);
    }

    /// Sums over the window.
    pub(crate) const fn sum(&self) -> &BlockingHistogram {
        &self.sum
    }

    /// Totals over the window.
    pub(crate) const fn totals(&self) -> Totals {
        self.totals
    }

    /// The weight of all that was added and has not left, without corrections, in 2^-16 requests.
    pub(crate) const fn weight(&self) -> u64 {
        self.weight
    }

    /// How far back the window reaches at `now`: from the start of its oldest slot.
    pub(crate) fn span(&self, now: Instant) -> Nanos {
        let oldest = self.slots.front().map(|slot| Instant(slot.index * self.reach.slot.0));
        oldest.map_or(Nanos::ZERO, |start| now.since(start))
    }

    /// Bytes of heap memory held.
    pub(crate) fn heap_bytes(&self) -> usize {
        let slot = |slot: &Slot| {
            size_of::<Slot>()
                + slot.cells.heap_bytes()
                + slot.correction.cells.heap_bytes()
                + (slot.excess.capacity() + slot.correction.excess.capacity())
                    * size_of::<(u16, i128)>()
        };
        self.slots.iter().map(slot).sum::<usize>() + self.sum.heap_bytes()
    }
}

impl OpenSlot<'_> {
    /// Adds to one cell.
    pub(crate) fn add(&mut self, row: usize, bucket: usize, weight: u64) {
        self.slot.cells.add(row, bucket, weight);
        self.sum.add_cell(row, bucket, weight);
        *self.weight += weight;
    }

    /// Adds to the excess of squared weights of a bucket.
    pub(crate) fn add_excess(&mut self, bucket: u16, excess: i128) {
        self.sum.add_excess(usize::from(bucket), excess);
        add_by_bucket(&mut self.slot.excess, bucket, excess);
    }

    /// Adds what is not in cells.
    pub(crate) fn add_totals(&mut self, totals: &Totals) {
        self.slot.totals.add(totals);
        self.totals.add(totals);
    }
}

impl Correction {
    pub(crate) fn add_excess(&mut self, bucket: u16, excess: i128) {
        if excess != 0 {
            add_by_bucket(&mut self.excess, bucket, excess);
        }
    }

    fn apply(&self, sum: &mut BlockingHistogram, totals: &mut Totals) {
        for (row, bucket, weight) in self.cells.iter() {
            sum.subtract_cell(row, bucket, weight);
        }
        for &(bucket, excess) in &self.excess {
            sum.add_excess(usize::from(bucket), -excess);
        }
        totals.subtract(&self.totals);
    }

    fn undo(&self, sum: &mut BlockingHistogram, totals: &mut Totals) {
        for (row, bucket, weight) in self.cells.iter() {
            sum.add_cell(row, bucket, weight);
        }
        for &(bucket, excess) in &self.excess {
            sum.add_excess(usize::from(bucket), excess);
        }
        totals.add(&self.totals);
    }
}

/// Adds to the excess of a bucket, in a list in order of buckets.
pub(crate) fn add_by_bucket(list: &mut Vec<(u16, i128)>, bucket: u16, excess: i128) {
    match list.binary_search_by_key(&bucket, |&(known, _)| known) {
        Ok(place) => list[place].1 += excess,
        Err(place) => list.insert(place, (bucket, excess)),
    }
}

impl Totals {
    pub(crate) fn add(&mut self, more: &Self) {
        self.reports += more.reports;
        self.cancelled += more.cancelled;
        self.rejected += more.rejected;
    }
    fn subtract(&mut self, less: &Self) {
        self.reports -= less.reports;
        self.cancelled -= less.cancelled;
        self.rejected -= less.rejected;
    }
}
