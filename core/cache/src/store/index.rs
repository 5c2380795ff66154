//! Where an item is: from the hash of its identity to its slot.
//!
//! Segments grow one at a time, so that no insert waits for the rehash of a whole shard. A bucket is five bytes (slot and
//! tag); 32 bits of each item's hash are kept by slot, so that a rehash and an eviction read no keys.

use hashbrown::HashTable;

/// Items in a segment when a shard is full of small items: what one rehash moves.
const SEGMENT_ITEMS: u64 = 4_096;
/// What a small item weighs, for the number of segments.
const SMALL_ITEM_BYTES: u64 = 256;
/// Bits of the kept hash that choose a segment, at most.
const SEGMENT_BITS_MAX: u32 = 12;

#[derive(Debug)]
pub(crate) struct Index {
    /// A power of two of them, each a table of slots.
    segments: Box<[HashTable<u32>]>,
    /// By slot: the part of the item's hash that is kept.
    hashes: Vec<u32>,
}

impl Index {
    /// An empty index for items of together at most `bytes`.
    pub(crate) fn new(bytes: u64) -> Self {
        let segments = (bytes / (SEGMENT_ITEMS * SMALL_ITEM_BYTES)).max(1);
        let segments = segments.min(1 << SEGMENT_BITS_MAX).next_power_of_two();
        Self { segments: (0..segments).map(|_| HashTable::new()).collect(), hashes: Vec::new() }
    }

    /// The slot of the item with this hash for which `is_item` is true.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_item: impl Fn(u32) -> bool) -> Option<u32> {
        let kept = kept(hash);
        self.segments[self.segment(kept)].find(spread(kept), |&slot| is_item(slot)).copied()
    }

    /// Adds an item that is not in the index.
    pub(crate) fn insert(&mut self, hash: u64, slot: u32) {
        let kept = kept(hash);
        if slot as usize >= self.hashes.len() {
            self.hashes.resize(slot as usize + 1, 0);
        }
        self.hashes[slot as usize] = kept;
        let (segment, hashes) = (self.segment(kept), &self.hashes);
        self.segments[segment]
            .insert_unique(spread(kept), slot, |&slot| spread(hashes[slot as usize]));
    }

    /// Removes an item.
    ///
    /// # Panics
    /// When it is not in the index.
    pub(crate) fn remove(&mut self, slot: u32) {
        let kept = self.hashes[slot as usize];
        let segment = self.segment(kept);
        self.segments[segment]
            .find_entry(spread(kept), |&other| other == slot)
            .expect("an item that is held is in the index")
            .remove();
    }

    #[inline]
    fn segment(&self, kept: u32) -> usize {
        (kept >> (u32::BITS - SEGMENT_BITS_MAX)) as usize & (self.segments.len() - 1)
    }
}

/// The half of the hash that chooses no shard.
#[inline]
const fn kept(hash: u64) -> u32 {
    hash as u32
}

/// The hash for a segment's table, which takes positions from the lowest bits and tags from the highest: all of them
/// depend on all bits kept, also on those that are equal within a segment.
#[inline]
const fn spread(kept: u32) -> u64 {
    let product = (kept as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}
