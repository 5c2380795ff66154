//! What a partition would gain from a little more space: the slope of its hit ratio at the present limit.
//!
//! Place in the flow: beside a partition, fed with every look-up; policies that maximise hits read its counts. Source:
//! two LRU caches without values, one with the present limit and one with a little more, as in the published code of
//! RobinHood (OSDI'18); keys are sampled by hash as in SHARDS (FAST'15), with limits scaled by the sampling rate.
//!
//! Both caches are one list: the larger one holds what the smaller one holds and the items behind it, because the bytes
//! above an item that is not used only grow. A mark divides the list, so that a look-up behind the mark is a hit that
//! only the larger cache has. Deviations: an item that a partition evicted before it grew counts as if it had been kept; and
//! the counts are held against all look-ups, not against the sampled ones, so that a hot key that happens to be sampled or
//! not changes nothing (the correction of SHARDS-adj).

use hashbrown::HashTable;
use robinhood_stats::{Bytes, mixed_bits};

use crate::sample::SAMPLING_SHIFT_MAX;

/// No node: the end of the list and of the list of free nodes.
const NONE: u32 = u32::MAX;

/// Look-ups of one partition since they were last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShadowCounts {
    /// All look-ups, sampled or not.
    pub queries: u64,
    /// Sampled look-ups that hit with the present limit.
    pub sampled_hits: u64,
    /// Sampled look-ups that hit with the larger limit only.
    pub sampled_extra_hits: u64,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u64,
    /// Towards the hottest.
    prev: u32,
    /// Towards the coldest; of a free node the next free one.
    next: u32,
    bytes: u32,
    /// Whether the smaller cache holds it.
    is_inner: bool,
}

/// Keys and sizes of a sample of a partition's items, in the order of use.
///
/// Memory: about 40 bytes for each sampled item that fits the larger limit.
#[derive(Clone, Debug)]
pub struct Shadow {
    sampling_shift: u32,
    limit_bytes: u64,
    extra_bytes: u64,
    index: HashTable<u32>,
    nodes: Vec<Node>,
    free: u32,
    hottest: u32,
    coldest: u32,
    /// The coldest item of the smaller cache.
    mark: u32,
    inner_bytes: u64,
    outer_bytes: u64,
    counts: ShadowCounts,
}

impl Shadow {
    /// An empty shadow of a partition with this limit, beside one that has `extra` more, with one key in
    /// 2^`sampling_shift`.
    ///
    /// # Panics
    /// When `sampling_shift` exceeds [`SAMPLING_SHIFT_MAX`] or `extra` is zero.
    pub fn new(limit: Bytes, extra: Bytes, sampling_shift: u32) -> Self {
        assert!(sampling_shift <= SAMPLING_SHIFT_MAX, "a sample of 1 in 2^{sampling_shift}");
        assert!(extra > Bytes::ZERO, "a slope needs two sizes");
        Self {
            sampling_shift,
            limit_bytes: limit.0 >> sampling_shift,
            extra_bytes: (extra.0 >> sampling_shift).max(1),
            index: HashTable::new(),
            nodes: Vec::new(),
            free: NONE,
            hottest: NONE,
            coldest: NONE,
            mark: NONE,
            inner_bytes: 0,
            outer_bytes: 0,
            counts: ShadowCounts::default(),
        }
    }

    /// Follows the limit of the partition. Costs as many steps as items change sides.
    pub fn set_limit(&mut self, limit: Bytes) {
        self.limit_bytes = limit.0 >> self.sampling_shift;
        self.settle();
    }

    /// A look-up of `key`, whose item weighs `bytes()`: only asked for when the key is in the sample. Whether only the
    /// larger cache has it.
    #[inline]
    pub fn handle_query(&mut self, key: u64, bytes: impl FnOnce() -> u32) -> bool {
        self.counts.queries += 1;
        let hash = mixed_bits(key);
        // Bits that the index uses neither for positions nor for tags: those of a sample are all equal.
        if (hash >> 32) & ((1 << self.sampling_shift) - 1) == 0 {
            self.use_item(key, hash, bytes())
        } else {
            false
        }
    }

    /// The counts since the last call.
    pub fn take_counts(&mut self) -> ShadowCounts {
        std::mem::take(&mut self.counts)
    }

    /// Sampled items in the larger cache.
    pub fn items(&self) -> usize {
        self.index.len()
    }

    fn use_item(&mut self, key: u64, hash: u64, bytes: u32) -> bool {
        let nodes = &self.nodes;
        let mut is_extra = false;
        let place = match self.index.find(hash, |&place| nodes[place as usize].key == key) {
            Some(&place) => {
                if self.nodes[place as usize].is_inner {
                    self.counts.sampled_hits += 1;
                } else {
                    self.counts.sampled_extra_hits += 1;
                    is_extra = true;
                }
                self.unlink(place);
                self.nodes[place as usize].bytes = bytes;
                place
            }
            None => {
                let place = self.new_node(key, bytes);
                let nodes = &self.nodes;
                self.index
                    .insert_unique(hash, place, |&other| mixed_bits(nodes[other as usize].key));
                place
            }
        };
        self.link_hottest(place);
        self.settle();
        is_extra
    }

    /// Moves the mark to where the smaller cache ends, and drops what the larger one cannot hold.
    fn settle(&mut self) {
        while self.inner_bytes > self.limit_bytes {
            let node = &mut self.nodes[self.mark as usize];
            node.is_inner = false;
            self.inner_bytes -= u64::from(node.bytes);
            self.outer_bytes += u64::from(node.bytes);
            self.mark = node.prev;
        }
        while self.outer_bytes > 0 {
            let first =
                if self.mark == NONE { self.hottest } else { self.nodes[self.mark as usize].next };
            let node = &mut self.nodes[first as usize];
            if self.inner_bytes + u64::from(node.bytes) > self.limit_bytes {
                break;
            }
            node.is_inner = true;
            self.inner_bytes += u64::from(node.bytes);
            self.outer_bytes -= u64::from(node.bytes);
            self.mark = first;
        }
        while self.inner_bytes + self.outer_bytes > self.limit_bytes + self.extra_bytes {
            let place = self.coldest;
            let key = self.nodes[place as usize].key;
            self.unlink(place);
            let entry = self.index.find_entry(mixed_bits(key), |&other| other == place);
            entry.expect("a linked item is in the index").remove();
            self.nodes[place as usize].next = std::mem::replace(&mut self.free, place);
        }
    }

    fn new_node(&mut self, key: u64, bytes: u32) -> u32 {
        let node = Node { key, prev: NONE, next: NONE, bytes, is_inner: true };
        if self.free == NONE {
            self.nodes.push(node);
            return u32::try_from(self.nodes.len() - 1)
                .expect("a sample has fewer than 2^32 items");
        }
        let place = self.free;
        self.free = std::mem::replace(&mut self.nodes[place as usize], node).next;
        place
    }

    fn link_hottest(&mut self, place: u32) {
        let second = std::mem::replace(&mut self.hottest, place);
        let node = &mut self.nodes[place as usize];
        (node.prev, node.next, node.is_inner) = (NONE, second, true);
        self.inner_bytes += u64::from(node.bytes);
        match self.nodes.get_mut(second as usize) {
            Some(second) => second.prev = place,
            None => self.coldest = place,
        }
        if self.mark == NONE {
            self.mark = place;
        }
    }

    fn unlink(&mut self, place: u32) {
        let Node { prev, next, bytes, is_inner, .. } = self.nodes[place as usize];
        if self.mark == place {
            self.mark = prev;
        }
        match self.nodes.get_mut(prev as usize) {
            Some(before) => before.next = next,
            None => self.hottest = next,
        }
        match self.nodes.get_mut(next as usize) {
            Some(after) => after.prev = prev,
            None => self.coldest = prev,
        }
        let side = if is_inner { &mut self.inner_bytes } else { &mut self.outer_bytes };
        *side -= u64::from(bytes);
    }
}

impl ShadowCounts {
    /// Adds the counts of another time or of another cache.
    pub fn add(&mut self, other: Self) {
        self.queries += other.queries;
        self.sampled_hits += other.sampled_hits;
        self.sampled_extra_hits += other.sampled_extra_hits;
    }

    /// The hit ratio gained with each byte between a limit and `extra` more, at the sampling of the shadow; `None` without
    /// queries.
    pub fn hit_slope_per_byte(&self, extra: Bytes, sampling_shift: u32) -> Option<f64> {
        let extra_hits = (self.sampled_extra_hits << sampling_shift) as f64;
        (self.queries > 0).then(|| extra_hits / self.queries as f64 / extra.as_f64())
    }
}

#[cfg(test)]
mod tests;
