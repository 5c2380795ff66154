//! Where an item is: from the hash of its identity to its handle.
//!
//! Segments grow and shrink one at a time, so that no insert waits for the rehash of a whole shard. 32 bits of each item's hash are kept in its block, so
//! that a rehash reads no keys; it waits for one line of memory an item, which is why segments are small.

use table::Table;

mod table;

/// Items in a segment when a shard is full of small items: what one rehash moves.
const SEGMENT_ITEMS: u64 = 1_024;
/// What a small item weighs, for the number of segments.
const SMALL_ITEM_BYTES: u64 = 256;
/// Bits of the kept hash that choose a segment, at most.
const SEGMENT_BITS_MAX: u32 = 16;

#[derive(Debug)]
pub(crate) struct Index {
    /// A power of two of them, each a table of handles.
    segments: Box<[Table]>,
}

impl Index {
    /// An empty index for items of together at most `bytes`.
    pub(crate) fn new(bytes: u64) -> Self {
        let segments = (bytes / (SEGMENT_ITEMS * SMALL_ITEM_BYTES)).max(1);
        let segments = segments.min(1 << SEGMENT_BITS_MAX).next_power_of_two();
        Self { segments: (0..segments).map(|_| Table::default()).collect() }
    }

    /// The item with this hash for which `is_item` is true.
    #[inline]
    pub(crate) fn find(&self, hash: u32, is_item: impl Fn(u32) -> bool) -> Option<u32> {
        self.segments[self.segment(hash)].find(spread(hash), is_item)
    }

    /// Adds an item that is not in the index. `hash_of` gives the hash of those that are.
    pub(crate) fn insert(&mut self, hash: u32, handle: u32, hash_of: impl Fn(u32) -> u32) {
        let segment = self.segment(hash);
        self.segments[segment].insert(spread(hash), handle, |other| spread(hash_of(other)));
    }

    /// Removes an item.
    ///
    /// # Panics
    /// When it is not in the index.
    pub(crate) fn remove(&mut self, hash: u32, handle: u32, hash_of: impl Fn(u32) -> u32) {
        let segment = self.segment(hash);
        let table = &mut self.segments[segment];
        assert!(table.remove(spread(hash), handle, |other| spread(hash_of(other))), "{HELD}");
    }

    /// Names an item's new handle.
    ///
    /// # Panics
    /// When it is not in the index.
    pub(crate) fn renumber(&mut self, hash: u32, from: u32, to: u32) {
        let segment = self.segment(hash);
        assert!(self.segments[segment].renumber(spread(hash), from, to), "{HELD}");
    }

    /// Memory of the tables.
    pub(crate) fn bytes(&self) -> u64 {
        let tables = self.segments.iter().map(Table::bytes).sum::<usize>();
        (tables + size_of_val(&*self.segments)) as u64
    }

    #[inline]
    fn segment(&self, hash: u32) -> usize {
        (hash >> (u32::BITS - SEGMENT_BITS_MAX)) as usize & (self.segments.len() - 1)
    }
}

const HELD: &str = "an item that is held is in the index";

/// The hash for a segment's table, which takes chunks from the highest bits and tags from the lowest: all of them
/// depend on all bits kept, also on those that are equal within a segment.
#[inline]
const fn spread(kept: u32) -> u64 {
    let product = (kept as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}
