//! The course of a run: slots on a grid of equal times, of which there are never too many.
//!
//! Place in the flow: each client's closed slots in, one series out, for the result and for those who draw it. A slot takes some ten
//! kilobytes, so a run of an hour cannot keep them all: when there are too many, the slots become twice as long. The histograms of
//! the whole run are elsewhere and know nothing of this.

use std::collections::BTreeMap;

use robinhood_stats::{Instant, Nanos};

use crate::engine::slot::Slot;

/// The most slots that are kept of all clients together: some hundred megabytes.
const SLOTS_OF_ALL_MAX: usize = 9_600;
/// The most slots that are kept of one client, and the fewest that are of any.
const SLOTS_MAX: usize = 600;
const SLOTS_MIN: usize = 60;

/// How many slots of each client are kept when there are so many clients.
pub(crate) fn slots_max(clients: usize) -> usize {
    (SLOTS_OF_ALL_MAX / clients.max(1)).clamp(SLOTS_MIN, SLOTS_MAX)
}

/// Slots in rising order, each within its own cell of a grid of equal times. A cell in which no slot was closed has none.
#[derive(Clone, Debug)]
pub struct Course {
    origin: Instant,
    length: Nanos,
    slots_max: usize,
    slots: Vec<Slot>,
}

impl Course {
    /// Without slots. Cells of this length begin at `origin`; they become longer when there would be more than `slots_max`.
    ///
    /// # Panics
    /// When `length` or `slots_max` is zero.
    pub fn new(origin: Instant, length: Nanos, slots_max: usize) -> Self {
        assert!(length > Nanos::ZERO && slots_max > 0, "cells of {length:?}, {slots_max} of them");
        Self { origin, length, slots_max, slots: Vec::new() }
    }

    /// Slots, oldest first.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The slot whose cell holds this moment.
    pub fn slot_at(&self, moment: Instant) -> Option<&Slot> {
        let cell = moment.since(self.origin).0 / self.length.0;
        self.slots
            .binary_search_by_key(&cell, |slot| self.cell(slot))
            .ok()
            .map(|at| &self.slots[at])
    }

    /// Length of a cell.
    pub const fn length(&self) -> Nanos {
        self.length
    }

    /// When the first cell begins.
    pub const fn origin(&self) -> Instant {
        self.origin
    }

    /// Adds the next slot of the same client.
    ///
    /// # Panics
    /// When it begins before the newest one.
    pub fn push(&mut self, slot: Slot) {
        let cell = self.cell(&slot);
        match self.slots.last_mut() {
            Some(newest) if cell_of(self.origin, self.length, newest) == cell => {
                newest.append(&slot);
            }
            newest => {
                assert!(
                    newest.is_none_or(|newest| newest.start < slot.start),
                    "slots are in order"
                );
                self.slots.push(slot);
            }
        }
        while self.slots.len() > self.slots_max {
            *self = Self { slots_max: self.slots_max, ..self.coarser(Nanos(self.length.0 * 2)) };
        }
    }

    /// The same course in cells of at least this length: a multiple of the present one.
    pub fn coarser(&self, length_min: Nanos) -> Self {
        let times = length_min.0.div_ceil(self.length.0).max(1);
        let mut coarse = Self::new(self.origin, Nanos(self.length.0 * times), usize::MAX);
        for slot in &self.slots {
            coarse.push(slot.clone());
        }
        coarse
    }

    /// All clients together, in the cells of the one with the longest. Where a client has no slot, the others count.
    ///
    /// # Panics
    /// When there is none, or when they do not share a grid.
    pub fn together(clients: &[&Self]) -> Self {
        let length = clients.iter().map(|course| course.length).max().expect("there is a client");
        let origin = clients[0].origin;
        let mut sums: BTreeMap<u64, Slot> = BTreeMap::new();
        for course in clients {
            let course = course.coarser(length);
            assert!(
                course.origin == origin && course.length == length,
                "one client's cells begin at {:?} and are {:?} long, another's at {origin:?} and {length:?}",
                course.origin,
                course.length
            );
            for slot in course.slots {
                sums.entry(cell_of(origin, length, &slot))
                    .and_modify(|sum| sum.merge(&slot))
                    .or_insert(slot);
            }
        }
        let slots = sums.into_values().collect();
        Self { origin, length, slots_max: usize::MAX, slots }
    }

    fn cell(&self, slot: &Slot) -> u64 {
        cell_of(self.origin, self.length, slot)
    }
}

fn cell_of(origin: Instant, length: Nanos, slot: &Slot) -> u64 {
    slot.start.since(origin).0 / length.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CELL: Nanos = Nanos::from_millis(100);
    const ORIGIN: Instant = Instant(7_000);

    fn slot(cell: u64, sent: u64) -> Slot {
        let mut slot = Slot::new(ORIGIN + Nanos(CELL.0 * cell));
        slot.end = slot.start + CELL;
        (slot.sent, slot.completed, slot.in_flight) = (sent, sent / 2, cell);
        slot.latency.add_many(1_000 * (cell + 1), sent / 2);
        slot.lateness.add_many(50, sent);
        slot
    }

    fn course(cells: impl IntoIterator<Item = u64>) -> Course {
        let mut course = Course::new(ORIGIN, CELL, 600);
        cells.into_iter().for_each(|cell| course.push(slot(cell, 10)));
        course
    }

    #[test]
    fn an_hour_stays_within_its_bound_and_loses_no_request() {
        let hour = course(0..36_000);
        assert_eq!(hour.length(), Nanos(CELL.0 * 64));
        assert_eq!(hour.slots().len(), 563, "36,000 by 64");
        assert_eq!(hour.slots().iter().map(|slot| slot.sent).sum::<u64>(), 360_000);
        let latencies: u64 = hour.slots().iter().map(|slot| slot.latency.count()).sum();
        assert_eq!(latencies, 180_000);
        assert!(hour.slots().windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(hour.slots()[0].in_flight, 63, "as at the end of the last of them");
        assert_eq!(hour.slots()[562].end, ORIGIN + Nanos(CELL.0 * 36_000));
    }

    #[test]
    fn a_minute_keeps_every_slot() {
        let minute = course(0..600);
        assert_eq!((minute.length(), minute.slots().len()), (CELL, 600));
    }

    #[test]
    fn clients_with_many_and_few_slots_add_up_in_time() {
        // One is one slot ahead, which made its slots twice as long; one was given up; one stood still for a while.
        let ahead = course(0..601);
        let behind = course(0..600);
        let ended = course(0..100);
        let stalled = course((0..300).chain(500..600));
        assert_eq!((ahead.length(), behind.length()), (Nanos(CELL.0 * 2), CELL));
        let sum = Course::together(&[&ahead, &behind, &ended, &stalled]);
        assert_eq!((sum.length(), sum.slots().len()), (Nanos(CELL.0 * 2), 301));
        let sent: Vec<u64> = sum.slots().iter().map(|slot| slot.sent).collect();
        assert_eq!((sent[0], sent[49], sent[50], sent[149]), (80, 80, 60, 60));
        assert_eq!((sent[150], sent[249], sent[250], sent[300]), (40, 40, 60, 10));
        assert_eq!(sum.slots()[0].in_flight, 4, "of all clients at its end");
        let at =
            |cell| stalled.slot_at(ORIGIN + Nanos(CELL.0 * cell + 1)).map(|slot| slot.in_flight);
        assert_eq!((at(299), at(300), at(499), at(500)), (Some(299), None, None, Some(500)));
    }

    #[test]
    fn many_clients_keep_fewer_slots_each() {
        assert_eq!(
            (slots_max(1), slots_max(16), slots_max(32), slots_max(256)),
            (600, 600, 300, 60)
        );
    }

    proptest! {
        #[test]
        fn slots_lie_in_their_cells_and_hold_everything_whatever_is_missing(
            gaps in prop::collection::vec(1u64..50, 1..400), slots_max in 1usize..20, coarser in 1u64..100,
        ) {
            let mut course = Course::new(ORIGIN, CELL, slots_max);
            let mut cell = 0;
            for gap in &gaps {
                cell += gap;
                course.push(slot(cell, 3));
                prop_assert!(course.slots().len() <= slots_max);
            }
            let coarse = course.coarser(Nanos(CELL.0 * coarser));
            prop_assert!(coarse.length() >= Nanos(CELL.0 * coarser));
            for course in [&course, &coarse, &Course::together(&[&course])] {
                prop_assert_eq!(course.slots().iter().map(|slot| slot.sent).sum::<u64>(), 3 * gaps.len() as u64);
                let cells: Vec<_> = course.slots().iter().map(|slot| course.cell(slot)).collect();
                prop_assert!(cells.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", cells);
                for slot in course.slots() {
                    let last = slot.end.since(ORIGIN).0 - 1;
                    prop_assert_eq!(last / course.length().0, course.cell(slot));
                }
            }
        }
    }
}
