//! Where an item is: from the hash of its identity to its slot.
//!
//! Segments grow one at a time, so that no insert waits for the rehash of a whole shard. A place keeps 32 bits of the
//! hash, so that a rehash reads no values.

use hashbrown::HashTable;

/// Items in a segment when a shard is full of small items: what one rehash moves at most.
const SEGMENT_ITEMS: u64 = 16_384;
/// What a small item weighs, for the number of segments.
const SMALL_ITEM_BYTES: u64 = 128;
/// Bits of the hash that choose a segment.
const SEGMENT_BITS_MAX: u32 = 12;

#[derive(Debug)]
pub(crate) struct Index {
    /// A power of two of them.
    segments: Box<[HashTable<Place>]>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u32,
    slot: u32,
}

impl Place {
    /// The table takes its position from the lowest bits of a hash and its tag from the highest: give it the 32 bits
    /// that we keep in both halves.
    #[inline]
    fn spread(hash: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(hash)
    }
}

impl Index {
    /// An empty index for items of together at most `bytes`.
    pub(crate) fn new(bytes: u64) -> Self {
        let segments = (bytes / (SEGMENT_ITEMS * SMALL_ITEM_BYTES)).max(1);
        let segments = segments.min(1 << SEGMENT_BITS_MAX).next_power_of_two();
        Self { segments: (0..segments).map(|_| HashTable::new()).collect() }
    }

    /// The slot of the item with this hash for which `is_item` is true.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_item: impl Fn(u32) -> bool) -> Option<u32> {
        let kept = hash as u32;
        let is_place = |place: &Place| place.hash == kept && is_item(place.slot);
        self.segments[self.segment(hash)]
            .find(Place::spread(kept), is_place)
            .map(|place| place.slot)
    }

    /// Adds an item that is not in the index.
    pub(crate) fn insert(&mut self, hash: u64, slot: u32) {
        let kept = hash as u32;
        let segment = self.segment(hash);
        self.segments[segment].insert_unique(
            Place::spread(kept),
            Place { hash: kept, slot },
            |place| Place::spread(place.hash),
        );
    }

    /// Removes an item.
    ///
    /// # Panics
    /// When it is not in the index.
    pub(crate) fn remove(&mut self, hash: u64, slot: u32) {
        let segment = self.segment(hash);
        let place = self.segments[segment]
            .find_entry(Place::spread(hash as u32), |place| place.slot == slot)
            .expect("an item that is held is in the index");
        place.remove();
    }

    #[inline]
    fn segment(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.segments.len() - 1)
    }
}
