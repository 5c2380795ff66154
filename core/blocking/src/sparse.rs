//! Counts of one slot, to be taken out of the window again: a list of (row, bucket, amount), small and in no order.
//!
//! Deltas append; the list is sorted and summed whenever it has doubled, so that its size follows the number of different
//! cells and not the number of senders, at a cost per entry that hardly grows with the slot.

use std::collections::BTreeMap;

/// Below this many entries (32 KiB), of which only the slot being filled has so many, summing is not worth its time.
const SUM_FROM: usize = 4_096;

/// The usual entry: 8 bytes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    row: u16,
    bucket: u16,
    amount: u32,
}

/// A multiset of counts by (row, bucket).
#[derive(Clone, Debug, Default)]
pub(crate) struct SparseCounts {
    entries: Vec<Entry>,
    /// Amounts that need more than 32 bits. Few: that is over 65,535 requests in one cell of one slot.
    large: BTreeMap<(u16, u16), u64>,
    /// Entries after the last summing: that many are different.
    different: usize,
}

impl SparseCounts {
    pub(crate) fn add(&mut self, row: usize, bucket: usize, amount: u64) {
        let row = u16::try_from(row).expect("rows are bounded by the names of a table");
        let bucket = u16::try_from(bucket).expect("buckets are bounded by the scale");
        let Ok(amount) = u32::try_from(amount) else {
            *self.large.entry((row, bucket)).or_default() += amount;
            return;
        };
        if self.entries.len() >= SUM_FROM.max(2 * self.different) {
            self.sum();
        }
        self.entries.push(Entry { row, bucket, amount });
    }

    /// Sums entries of the same cell.
    fn sum(&mut self) {
        // The stable sort, because it finds the sorted runs: what was summed before, and most deltas.
        self.entries.sort_by_key(|entry| (entry.row, entry.bucket));
        let large = &mut self.large;
        self.entries.dedup_by(|next, kept| {
            let same = (next.row, next.bucket) == (kept.row, kept.bucket);
            if same {
                kept.amount = kept.amount.checked_add(next.amount).unwrap_or_else(|| {
                    *large.entry((kept.row, kept.bucket)).or_default() += u64::from(kept.amount);
                    next.amount
                });
            }
            same
        });
        self.different = self.entries.len();
    }

    /// Gives back the memory that further additions would use: for a slot that is over.
    pub(crate) fn close(&mut self) {
        self.sum();
        self.entries.shrink_to_fit();
    }

    /// Row, bucket and amount of all entries; a cell may come several times.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        let large = self.large.iter().map(|(&(row, bucket), &amount)| (row, bucket, amount));
        let entries = self.entries.iter();
        let small = entries.map(|entry| (entry.row, entry.bucket, u64::from(entry.amount)));
        small
            .chain(large)
            .map(|(row, bucket, amount)| (usize::from(row), usize::from(bucket), amount))
    }

    /// Bytes of heap memory held; nodes of the map are half full at least.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + 2 * self.large.len() * size_of::<((u16, u16), u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_additions_to_few_cells_stay_few_entries_and_lose_nothing() {
        let mut counts = SparseCounts::default();
        for i in 0..10_000 {
            counts.add(i % 3, 7, if i % 2 == 0 { 1 << 33 } else { 3_000_000_000 });
        }
        assert!(counts.entries.len() <= SUM_FROM, "{}", counts.entries.len());
        counts.close();
        assert!(counts.iter().count() <= 6, "a small and a large entry for each cell");
        let total: u64 = counts.iter().map(|(_, _, amount)| amount).sum();
        assert_eq!(total, 5_000 * ((1 << 33) + 3_000_000_000));
    }
}
