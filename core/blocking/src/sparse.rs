//! Counts of one slot, to be taken out of the window again: a list of (row, bucket, amount), small and in no order.
//!
//! Deltas append; the list is sorted and summed whenever it has doubled, so that its size follows the number of different
//! cells and not the number of senders, at a cost per entry that does not grow with the slot.

/// Below this many entries, summing is not worth it.
const SUM_FROM: usize = 64;

/// 12 bytes: a 64-bit amount in two halves keeps the alignment of the key.
#[derive(Clone, Copy, Debug)]
struct Entry {
    row: u16,
    bucket: u16,
    amount: [u32; 2],
}

impl Entry {
    const fn amount(&self) -> u64 {
        (self.amount[0] as u64) << 32 | self.amount[1] as u64
    }
}

/// A multiset of counts by (row, bucket).
#[derive(Clone, Debug, Default)]
pub(crate) struct SparseCounts {
    entries: Vec<Entry>,
    /// Entries after the last summing: that many are different.
    different: usize,
}

impl SparseCounts {
    pub(crate) fn add(&mut self, row: usize, bucket: usize, amount: u64) {
        if self.entries.len() >= SUM_FROM.max(2 * self.different) {
            self.sum();
        }
        let row = u16::try_from(row).expect("rows are bounded by the names of a table");
        let bucket = u16::try_from(bucket).expect("buckets are bounded by the scale");
        self.entries.push(Entry { row, bucket, amount: [(amount >> 32) as u32, amount as u32] });
    }

    /// Sums entries of the same cell.
    fn sum(&mut self) {
        self.entries.sort_unstable_by_key(|entry| (entry.row, entry.bucket));
        self.entries.dedup_by(|next, kept| {
            let same = (next.row, next.bucket) == (kept.row, kept.bucket);
            if same {
                let sum = kept.amount() + next.amount();
                kept.amount = [(sum >> 32) as u32, sum as u32];
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
        let entries = self.entries.iter();
        entries.map(|entry| (usize::from(entry.row), usize::from(entry.bucket), entry.amount()))
    }

    /// Bytes of heap memory held.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_additions_to_few_cells_stay_few_entries_and_lose_nothing() {
        let mut counts = SparseCounts::default();
        for i in 0..10_000 {
            counts.add(i % 3, 7, 1 << 33);
        }
        assert!(counts.entries.len() <= SUM_FROM, "{}", counts.entries.len());
        counts.close();
        let rows: Vec<_> = counts.iter().collect();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows.iter().map(|&(_, _, amount)| amount).sum::<u64>(), 10_000 << 33);
    }
}
