//! Where an item is: from the hash of its identity to its handle.
//!
//! Segments grow and shrink one at a time, so that no insert waits for the rehash of a whole shard. A bucket is five bytes (handle and tag). 32 bits
//! of each item's hash are kept in its block, so that a rehash reads no keys; it waits for one line of memory an item, which is why segments
//! are small.

use hashbrown::HashTable;

/// Items in a segment when a shard is full of small items: what one rehash moves.
const SEGMENT_ITEMS: u64 = 1_024;
/// What a small item weighs, for the number of segments.
const SMALL_ITEM_BYTES: u64 = 256;
/// Bits of the kept hash that choose a segment, at most.
const SEGMENT_BITS_MAX: u32 = 16;
/// A segment that could hold so many times its items gives memory back.
const SPARSE: usize = 4;

#[derive(Debug)]
pub(crate) struct Index {
    /// A power of two of them, each a table of handles.
    segments: Box<[HashTable<u32>]>,
}

impl Index {
    /// An empty index for items of together at most `bytes`.
    pub(crate) fn new(bytes: u64) -> Self {
        let segments = (bytes / (SEGMENT_ITEMS * SMALL_ITEM_BYTES)).max(1);
        let segments = segments.min(1 << SEGMENT_BITS_MAX).next_power_of_two();
        Self { segments: (0..segments).map(|_| HashTable::new()).collect() }
    }

    /// The item with this hash for which `is_item` is true.
    #[inline]
    pub(crate) fn find(&self, hash: u32, is_item: impl Fn(u32) -> bool) -> Option<u32> {
        self.segments[self.segment(hash)].find(spread(hash), |&handle| is_item(handle)).copied()
    }

    /// Adds an item that is not in the index. `hash_of` gives the hash of those that are.
    pub(crate) fn insert(&mut self, hash: u32, handle: u32, hash_of: impl Fn(u32) -> u32) {
        let segment = self.segment(hash);
        self.segments[segment]
            .insert_unique(spread(hash), handle, |&handle| spread(hash_of(handle)));
    }

    /// Removes an item.
    ///
    /// # Panics
    /// When it is not in the index.
    pub(crate) fn remove(&mut self, hash: u32, handle: u32, hash_of: impl Fn(u32) -> u32) {
        let segment = self.segment(hash);
        let table = &mut self.segments[segment];
        table.find_entry(spread(hash), |&other| other == handle).expect(HELD).remove();
        if table.capacity() > SPARSE * (table.len() + 1) {
            table.shrink_to(2 * table.len(), |&handle| spread(hash_of(handle)));
        }
    }

    /// Names an item's new handle.
    ///
    /// # Panics
    /// When it is not in the index.
    pub(crate) fn renumber(&mut self, hash: u32, from: u32, to: u32) {
        let segment = self.segment(hash);
        let found = self.segments[segment].find_mut(spread(hash), |&other| other == from);
        *found.expect(HELD) = to;
    }

    /// Memory of the tables.
    pub(crate) fn bytes(&self) -> u64 {
        let tables = self.segments.iter().map(HashTable::allocation_size).sum::<usize>();
        (tables + size_of_val(&*self.segments)) as u64
    }

    #[inline]
    fn segment(&self, hash: u32) -> usize {
        (hash >> (u32::BITS - SEGMENT_BITS_MAX)) as usize & (self.segments.len() - 1)
    }
}

const HELD: &str = "an item that is held is in the index";

/// The hash for a segment's table, which takes positions from the lowest bits and tags from the highest: all of them
/// depend on all bits kept, also on those that are equal within a segment.
#[inline]
const fn spread(kept: u32) -> u64 {
    let product = (kept as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}
