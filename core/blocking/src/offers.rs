//! No sender counts for more than so many times the median sender, whatever it sends.
//!
//! Place in the flow: beside the window. All deltas are added there as they come; this module keeps apart what each sender offered in the
//! control periods that are not over for good, and says what has to be taken out of each slot again.
//!
//! The rule, for one control period of the receiver's clock: let W be the weights that the senders offered in it, of those that offered any. From
//! three senders on, who offered more than `times` the lower median of W counts as if each of its requests weighed less, by one factor, so
//! that all of them together weigh that much. The number of its reports is cut the same way by itself, because the window holds a number of reports.
//! All of it follows from the deltas of the period, in whatever order they came. Fractions of 2^-16 requests are dropped.
//!
//! A period is over for good three seconds after its end, or two slots if they are longer; what comes later is refused as late. The counters of backends are not cut: RBC does
//! not use them.

use std::collections::BTreeMap;

use robinhood_stats::Nanos;

use crate::delta::{Delta, DeltaError};
use crate::histogram::RawCell;
use crate::sparse::SparseCounts;
use crate::weight::Weight;
use crate::window::{Correction, Totals, Window, add_by_bucket};

/// Time after the end of a period in which its deltas are still taken: a sender may send only once a second, and be late.
const GRACE: Nanos = Nanos::from_secs(3);
/// The same in slots, at least.
const GRACE_SLOTS_MIN: u64 = 2;
/// Senders from which on there is a median that one of them alone cannot move.
const SENDERS_MIN: usize = 3;
/// Deltas of a sender in one period, times the slots of it.
const DELTAS_PER_SLOT: u64 = 16;
/// Cells and squares of a sender in one period, as they come.
const CELLS_OF_SENDER_MAX: usize = 1 << 16;
/// Memory for what all senders offer; one more delta may go beyond it. Enough for 16,384 senders that each report 400 cells of 8 bytes a
/// second, in the 8 slots of 1 s that are open at most.
const BYTES_MAX: usize = 512 << 20;
/// The weight of one sender in one period, in 2^-16 requests: 2^28 requests. Its squares are then below 2^77, and times a limit, which is
/// less, they fit 128 bits.
const WEIGHT_OF_SENDER_MAX: u64 = 1 << 44;

/// What all senders offered in the newest periods.
#[derive(Clone, Debug)]
pub(crate) struct Offers {
    times: u64,
    slots_per_period: u64,
    grace_slots: u64,
    periods: BTreeMap<u64, Period>,
    /// Heap memory that the periods hold.
    bytes: usize,
    bytes_max: usize,
    /// How often a sender's period was cut.
    cut: u64,
}

#[derive(Clone, Debug, Default)]
struct Period {
    senders: BTreeMap<u64, Offer>,
    /// Whether something came since the corrections were made.
    is_dirty: bool,
}

/// What one sender offered in one period.
#[derive(Clone, Debug, Default)]
struct Offer {
    weight: u64,
    reports: u64,
    deltas: u64,
    /// Cells and squares, as they came.
    cells: usize,
    /// In order of index.
    slots: Vec<(u64, SlotOffer)>,
    /// Heap memory held.
    bytes: usize,
}

/// And in one slot of it.
#[derive(Clone, Debug, Default)]
struct SlotOffer {
    cells: SparseCounts,
    /// (bucket, excess of squared weights), in order of buckets.
    excess: Vec<(u16, i128)>,
    totals: Totals,
}

/// A factor below one.
#[derive(Clone, Copy, Debug)]
struct Cut {
    limit: u64,
    offered: u64,
}

impl Cut {
    /// `None` when nothing is above the limit.
    const fn new(limit: u64, offered: u64) -> Option<Self> {
        if offered > limit { Some(Self { limit, offered }) } else { None }
    }

    const fn of(self, amount: u64) -> u64 {
        // At most `amount`, so it fits.
        (amount as u128 * self.limit as u128 / self.offered as u128) as u64
    }
}

impl Offers {
    pub(crate) fn new(times: u32, slots_per_period: u32, slot: Nanos) -> Self {
        Self {
            times: u64::from(times),
            slots_per_period: u64::from(slots_per_period),
            grace_slots: GRACE.0.div_ceil(slot.0).max(GRACE_SLOTS_MIN),
            periods: BTreeMap::new(),
            bytes: 0,
            bytes_max: BYTES_MAX,
            cut: 0,
        }
    }

    /// Whether a delta for a slot may be counted when it is `now` that slot's time.
    pub(crate) fn admit(&self, now_slot: u64, slot: u64, delta: &Delta) -> Result<(), DeltaError> {
        let period = slot / self.slots_per_period;
        if self.is_over(period, now_slot) {
            return Err(DeltaError::Late);
        }
        let offer = self.periods.get(&period).and_then(|period| period.senders.get(&delta.sender));
        let (weight, deltas, cells) =
            offer.map_or((0, 0, 0), |offer| (offer.weight, offer.deltas, offer.cells));
        // A well formed delta weighs 2^62 at most.
        if weight + weight_of(delta) > WEIGHT_OF_SENDER_MAX {
            return Err(DeltaError::Overflow);
        }
        if deltas >= DELTAS_PER_SLOT * self.slots_per_period
            || cells + cells_of(delta) > CELLS_OF_SENDER_MAX
        {
            return Err(DeltaError::TooOften);
        }
        if self.bytes >= self.bytes_max { Err(DeltaError::TooManySenders) } else { Ok(()) }
    }

    fn is_over(&self, period: u64, now_slot: u64) -> bool {
        (period + 1) * self.slots_per_period + self.grace_slots <= now_slot
    }

    /// Notes what an admitted delta adds to a slot; `cells` are its cells with the receiver's rows.
    pub(crate) fn note(
        &mut self,
        slot: u64,
        delta: &Delta,
        cells: impl Iterator<Item = RawCell>,
        totals: &Totals,
    ) {
        let period = self.periods.entry(slot / self.slots_per_period).or_default();
        period.is_dirty = true;
        let offer = period.senders.entry(delta.sender).or_default();
        offer.weight += weight_of(delta);
        offer.reports += delta.reports;
        offer.deltas += 1;
        offer.cells += cells_of(delta);
        let noted = offer.slot(slot);
        cells.for_each(|(row, bucket, weight)| noted.cells.add(row, bucket, weight));
        delta
            .excess()
            .for_each(|(bucket, excess)| add_by_bucket(&mut noted.excess, bucket, excess));
        noted.totals.add(totals);
        noted.close();
        let bytes = offer.heap_bytes();
        self.bytes = self.bytes - offer.bytes + bytes;
        offer.bytes = bytes;
    }

    /// Takes out of the window what is above the limits, and forgets the periods that are over for good.
    pub(crate) fn settle(&mut self, now_slot: u64, window: &mut Window) {
        for period in self.periods.values_mut().filter(|period| period.is_dirty) {
            period.is_dirty = false;
            for (slot, correction) in period.corrections(self.times) {
                window.correct(slot, correction);
            }
        }
        while let Some(oldest) = self.periods.first_entry()
            && (oldest.key() + 1) * self.slots_per_period + self.grace_slots <= now_slot
        {
            let period = oldest.remove();
            self.bytes -= period.senders.values().map(|offer| offer.bytes).sum::<usize>();
            self.cut += period.cut(self.times);
        }
    }

    /// Whether a period waits to be forgotten.
    pub(crate) fn has_over(&self, now_slot: u64) -> bool {
        self.periods.keys().next().is_some_and(|&period| self.is_over(period, now_slot))
    }

    /// How often a sender's period was cut, of those that are over.
    pub(crate) const fn cut(&self) -> u64 {
        self.cut
    }

    /// Bytes of heap memory held.
    pub(crate) const fn heap_bytes(&self) -> usize {
        self.bytes
    }
}

fn weight_of(delta: &Delta) -> u64 {
    delta.cells.iter().map(|cell| cell.weight.0).sum()
}

fn cells_of(delta: &Delta) -> usize {
    delta.cells.len() + delta.squares.len()
}

impl Offer {
    /// What is offered in one slot.
    fn slot(&mut self, slot: u64) -> &mut SlotOffer {
        let place = match self.slots.binary_search_by_key(&slot, |&(known, _)| known) {
            Ok(place) => place,
            Err(place) => {
                self.slots.insert(place, (slot, SlotOffer::default()));
                place
            }
        };
        &mut self.slots[place].1
    }

    /// With its own place in the map, whose nodes are half full at least.
    fn heap_bytes(&self) -> usize {
        let slots = self.slots.iter().map(|(_, slot)| {
            slot.cells.heap_bytes() + slot.excess.capacity() * size_of::<(u16, i128)>()
        });
        2 * size_of::<(u64, Self)>()
            + self.slots.capacity() * size_of::<(u64, SlotOffer)>()
            + slots.sum::<usize>()
    }
}

impl Period {
    /// The most weight, and the most reports, that one sender may have; `None` with too few senders.
    fn limits(&self, times: u64) -> Option<(u64, u64)> {
        let offered = |of: fn(&Offer) -> u64| {
            let mut all: Vec<u64> = self.senders.values().map(of).filter(|&one| one > 0).collect();
            all.sort_unstable();
            (all.len() >= SENDERS_MIN).then(|| all[(all.len() - 1) / 2].saturating_mul(times))
        };
        Some((offered(|offer| offer.weight)?, offered(|offer| offer.reports)?))
    }

    /// How many senders are above a limit.
    fn cut(&self, times: u64) -> u64 {
        let Some((weight, reports)) = self.limits(times) else { return 0 };
        let above = |offer: &&Offer| offer.weight > weight || offer.reports > reports;
        self.senders.values().filter(above).count() as u64
    }

    /// What has to be taken out of each slot, also where that is nothing.
    fn corrections(&self, times: u64) -> BTreeMap<u64, Correction> {
        let mut corrections = BTreeMap::new();
        for (slot, _) in self.senders.values().flat_map(|offer| &offer.slots) {
            corrections.entry(*slot).or_insert_with(Correction::default);
        }
        let Some((weight_max, reports_max)) = self.limits(times) else { return corrections };
        for offer in self.senders.values() {
            let weight = Cut::new(weight_max, offer.weight);
            let reports = Cut::new(reports_max, offer.reports);
            for (slot, offered) in &offer.slots {
                let correction = corrections.entry(*slot).or_default();
                if let Some(cut) = weight {
                    offered.cut_weight(cut, correction);
                }
                if let Some(cut) = reports {
                    offered.cut_totals(cut, correction);
                }
            }
        }
        corrections
    }
}

impl SlotOffer {
    /// At the end of a delta: no memory for more.
    fn close(&mut self) {
        self.cells.close();
        self.excess.shrink_to_fit();
    }

    fn cut_weight(&self, cut: Cut, correction: &mut Correction) {
        // By bucket: weight before and after.
        let mut columns: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
        for (row, bucket, amount) in self.cells.iter() {
            let kept = cut.of(amount);
            correction.cells.add(row, bucket, amount - kept);
            let column = columns.entry(bucket as u16).or_default();
            *column = (column.0 + amount, column.1 + kept);
        }
        // Each request weighs less by the factor, so its square less by the factor squared.
        let one = i128::from(Weight::ONE.0);
        for (bucket, (before, after)) in columns {
            let known = self.excess.binary_search_by_key(&bucket, |&(known, _)| known);
            let excess = known.map_or(0, |place| self.excess[place].1);
            let all = i128::from(before) * one + excess;
            let kept = cut.of_square(u128::try_from(all).expect("squares are not negative"));
            let kept = i128::try_from(kept).expect("it is no more than before");
            correction.add_excess(bucket, excess - (kept - i128::from(after) * one));
        }
    }

    fn cut_totals(&self, cut: Cut, correction: &mut Correction) {
        let Totals { reports, cancelled, rejected } = self.totals;
        let removed = |count: u64| count - cut.of(count);
        correction.totals.add(&Totals {
            reports: removed(reports),
            cancelled: removed(cancelled),
            rejected: removed(rejected),
        });
    }
}

impl Cut {
    /// The factor squared, of a sum of squares below 2^77: that of one sender in one slot, see `WEIGHT_OF_SENDER_MAX`.
    const fn of_square(self, squares: u128) -> u128 {
        let once = squares * self.limit as u128 / self.offered as u128;
        once * self.limit as u128 / self.offered as u128
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::{Detail, Recorder, RecorderConfig};
    use crate::report::{Blocker, Report};
    use crate::tail_band::Band;
    use crate::window::Reach;

    /// A delta of 20 cells.
    fn delta(sender: u64) -> Delta {
        let config = RecorderConfig { detail: Detail::All, sender, ..RecorderConfig::default() };
        let mut recorder = Recorder::new(config);
        for millis in 1..=20 {
            recorder.record(Report::complete(Nanos::from_millis(millis), Blocker::Own)).unwrap();
        }
        recorder.take_delta(Nanos::ZERO)
    }

    #[test]
    fn memory_is_bounded_for_all_senders_together_and_comes_free_with_the_period() {
        let mut offers = Offers { bytes_max: 10_000, ..Offers::new(3, 5, Nanos::from_secs(1)) };
        let mut window = Window::new(Reach {
            slot: Nanos::from_secs(1),
            slots_min: 0,
            slots_max: 600,
            requests_in_band_min: 30.0,
            requests_max: 1_000,
            bands: vec![Band::default()],
        });
        for slot in [10, 18] {
            let refused = (0..100).map(delta).find_map(|delta| {
                let refused = offers.admit(slot, slot, &delta).err();
                let cells =
                    delta.cells.iter().map(|cell| (0, usize::from(cell.bucket), cell.weight.0));
                if refused.is_none() {
                    offers.note(slot, &delta, cells, &Totals::default());
                }
                refused
            });
            assert_eq!(refused, Some(DeltaError::TooManySenders), "slot {slot}");
            assert!((10_000..12_000).contains(&offers.heap_bytes()), "{}", offers.heap_bytes());
            offers.settle(slot + 8, &mut window);
            assert_eq!(offers.heap_bytes(), 0);
        }
    }
}
