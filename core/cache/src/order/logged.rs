//! The order as a log of uses: a use appends the item to its list's log, and what was not appended again is at the front.
//!
//! Place in the flow: in the ledger. A use reads and writes the item's own node and the end of the log: one place in memory that is hard to
//! foresee, where a linked list has three. The entry of the use before stays in the log; it is dead, because the node names another place. An
//! eviction takes the first living entry.
//!
//! Logs are chains of blocks of one pool. The front of a log is looked at in chunks; while one is used up the processor fetches what the next will
//! need. A log that has more than [`LOG_PER_ITEM`] entries an item is written anew, so that each use pays for a third of a move. Memory: 8 bytes
//! a handle, and up to 16 bytes (in the moment of growing 32) an item.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use prefetch_index::prefetch_index;

use super::{Order, Removed, Tallies};
use crate::accounts::{Layout, ListId};
use crate::{ItemHandle, PARTITIONS_MAX, PartitionId};

/// The place of a handle that is not in the order.
const ABSENT: u32 = u32::MAX;
/// Entries of a block.
const BLOCK: usize = 1_024;
/// Entries of a chunk: one line of the processor's cache, and as many bits.
const CHUNK: usize = 16;
/// Entries of a log for each item, beyond which it is written anew.
const LOG_PER_ITEM: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Where the last use is in the pool, or `ABSENT`.
    place: u32,
    weight: Weight,
}

/// The partition and the bytes of an item in 32 bits: with eight bytes a node, none lies across two lines of the processor's cache.
#[derive(Clone, Copy, Debug)]
struct Weight(u32);

#[derive(Clone, Debug)]
pub(crate) struct LoggedOrder {
    layout: Layout,
    tallies: Tallies,
    /// By handle.
    nodes: Vec<Node>,
    /// Bytes of the items that are too large for a [`Weight`], by handle.
    large: HashMap<u32, u32, FixedState>,
    pool: Pool,
    logs: Vec<Log>,
}

/// Blocks of all logs.
#[derive(Clone, Debug, Default)]
struct Pool {
    /// By place: the handle that was used.
    entries: Vec<u32>,
    free_blocks: Vec<usize>,
}

/// The log of one list. A place is a multiple of the block's length only before the block's first entry.
#[derive(Clone, Debug, Default)]
struct Log {
    /// The oldest in front.
    blocks: VecDeque<usize>,
    /// The place of the next entry; at a block's start when the last block is full.
    end: usize,
    items: usize,
    /// The place of the first entry that was not looked at.
    unseen: usize,
    /// The place of the chunk that was looked at last.
    chunk: usize,
    /// Which of its entries were alive then and were not passed since. They may be dead by now.
    chunk_alive: u16,
}

impl Node {
    const ABSENT: Self = Self { place: ABSENT, weight: Weight(0) };
}

impl Weight {
    const BYTES_BITS: u32 = 22;
    /// What stands for this size and all larger ones.
    const LARGE: u32 = (1 << Self::BYTES_BITS) - 1;

    #[inline]
    const fn new(partition: PartitionId, bytes: u32) -> Self {
        const { assert!(PARTITIONS_MAX <= 1 << (u32::BITS - Self::BYTES_BITS)) };
        let bytes = if bytes < Self::LARGE { bytes } else { Self::LARGE };
        Self((partition.0 as u32) << Self::BYTES_BITS | bytes)
    }

    #[inline]
    const fn partition(self) -> PartitionId {
        PartitionId((self.0 >> Self::BYTES_BITS) as u16)
    }

    /// The item's bytes; `None` when they do not fit.
    #[inline]
    const fn bytes(self) -> Option<u32> {
        let bytes = self.0 & Self::LARGE;
        if bytes < Self::LARGE { Some(bytes) } else { None }
    }
}

impl Pool {
    /// The first place of a free block.
    fn take(&mut self) -> usize {
        self.free_blocks.pop().unwrap_or_else(|| {
            let first = self.entries.len();
            self.entries.resize(first + BLOCK, 0);
            assert!(self.entries.len() <= ABSENT as usize, "a cache has fewer than 2^29 items");
            first
        })
    }
}

impl LoggedOrder {
    /// An empty order with memory for the handles `0..items`.
    pub(crate) fn new(layout: Layout, items: usize) -> Self {
        Self {
            layout,
            tallies: Tallies::new(layout),
            nodes: vec![Node::ABSENT; items],
            large: HashMap::default(),
            pool: Pool::default(),
            logs: vec![Log::default(); layout.lists()],
        }
    }

    #[inline]
    pub(crate) fn contains(&self, handle: ItemHandle) -> bool {
        self.nodes.get(handle.0 as usize).is_some_and(|node| node.place != ABSENT)
    }

    /// Has the processor fetch what an operation on the item will read.
    #[inline]
    pub(crate) fn prefetch(&self, handle: ItemHandle) {
        prefetch_index(&self.nodes, handle.0 as usize);
    }

    /// Makes the item the hottest of the list.
    #[inline]
    fn append(&mut self, list: ListId, handle: ItemHandle) {
        if self.logs[list.index()].end.is_multiple_of(BLOCK) {
            self.extend(list);
        }
        let log = &mut self.logs[list.index()];
        let place = log.end;
        log.end += 1;
        self.pool.entries[place] = handle.0;
        self.nodes[handle.0 as usize].place = place as u32; // `Pool::take` has asserted that it fits
    }

    /// Gives the list's log room at its end.
    #[cold]
    fn extend(&mut self, list: ListId) {
        let log = &self.logs[list.index()];
        if log.blocks.len() * BLOCK > LOG_PER_ITEM * log.items + 2 * BLOCK {
            self.write_anew(list);
        }
        let log = &mut self.logs[list.index()];
        if log.end.is_multiple_of(BLOCK) {
            self.push_block(list);
        }
    }

    fn push_block(&mut self, list: ListId) {
        let first = self.pool.take();
        let log = &mut self.logs[list.index()];
        log.blocks.push_back(first);
        log.end = first;
        if log.blocks.len() == 1 {
            log.unseen = first;
        }
    }

    /// Leaves the living entries of the list's log only.
    fn write_anew(&mut self, list: ListId) {
        let log = &mut self.logs[list.index()];
        let items = log.items;
        let blocks = std::mem::take(log).blocks;
        self.logs[list.index()].items = items;
        let mut living = Vec::with_capacity(BLOCK);
        for first in blocks {
            let is_alive = |place: &usize| self.is_alive(*place);
            let handles = (first..first + BLOCK).filter(is_alive).map(|p| self.pool.entries[p]);
            living.extend(handles.map(ItemHandle));
            self.pool.free_blocks.push(first);
            for handle in living.drain(..) {
                if self.logs[list.index()].end.is_multiple_of(BLOCK) {
                    self.push_block(list);
                }
                self.append(list, handle);
            }
        }
    }

    /// Whether the entry at a place is its item's last use. What is left in a block from before is dead as well.
    #[inline]
    fn is_alive(&self, place: usize) -> bool {
        self.nodes[self.pool.entries[place] as usize].place as usize == place
    }

    /// Looks at the next chunk of the front of a log that has items.
    fn look_at_chunk(&mut self, list: ListId) {
        let log = &mut self.logs[list.index()];
        if log.unseen.is_multiple_of(BLOCK) && log.unseen != log.blocks[0] {
            self.pool.free_blocks.extend(log.blocks.pop_front());
            log.unseen = log.blocks[0];
        }
        let (from, end) = (log.unseen, log.end);
        // Inside the last block entries end at `end`, in the others at a multiple of the chunk.
        let until = (from + 1).next_multiple_of(CHUNK);
        let until = if (from + 1..until).contains(&end) { end } else { until };
        let bits = (from..until).map(|place| u16::from(self.is_alive(place)) << (place - from));
        let alive = bits.fold(0, |all, bit| all | bit);
        let log = &mut self.logs[list.index()];
        (log.chunk, log.chunk_alive, log.unseen) = (from, alive, until);
        self.prefetch_chunk(list);
    }

    /// Has the processor fetch what looking at the next chunk will read, and the entries of the chunk behind it.
    fn prefetch_chunk(&self, list: ListId) {
        let log = &self.logs[list.index()];
        let next = if log.unseen.is_multiple_of(BLOCK) {
            let Some(&next) = log.blocks.get(1) else { return };
            next
        } else {
            log.unseen
        };
        prefetch_index(&self.pool.entries, next + CHUNK);
        for &handle in &self.pool.entries[next..(next + 1).next_multiple_of(CHUNK)] {
            prefetch_index(&self.nodes, handle as usize);
        }
    }

    /// The bytes of a large item that leaves.
    #[cold]
    fn forget_large(&mut self, handle: ItemHandle) -> u32 {
        self.large.remove(&handle.0).expect("a size that fits no weight is kept beside")
    }

    /// Takes an item out whose entry needs no more looking at.
    #[inline]
    fn forget(&mut self, handle: ItemHandle) -> Removed {
        let node = &mut self.nodes[handle.0 as usize];
        node.place = ABSENT;
        let weight = node.weight;
        let bytes = weight.bytes().unwrap_or_else(|| self.forget_large(handle));
        let removed = Removed { partition: weight.partition(), bytes };
        self.logs[self.layout.list_of(removed.partition).index()].items -= 1;
        self.tallies.subtract(removed);
        removed
    }
}

impl Order for LoggedOrder {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    #[inline]
    fn holds_items(&self, list: ListId) -> bool {
        self.logs[list.index()].items > 0
    }

    #[inline]
    fn touch(&mut self, handle: ItemHandle) -> bool {
        match self.nodes.get(handle.0 as usize) {
            None | Some(&Node { place: ABSENT, .. }) => false,
            Some(&Node { weight, .. }) => {
                self.append(self.layout.list_of(weight.partition()), handle);
                true
            }
        }
    }

    #[inline]
    fn insert(&mut self, partition: PartitionId, handle: ItemHandle, bytes: u32) {
        let index = handle.0 as usize;
        if index >= self.nodes.len() {
            self.nodes.resize(index + 1, Node::ABSENT);
        }
        assert_eq!(self.nodes[index].place, ABSENT, "an item is in the order at most once");
        let weight = Weight::new(partition, bytes);
        if weight.bytes().is_none() {
            self.large.insert(handle.0, bytes);
        }
        self.nodes[index] = Node { place: ABSENT, weight };
        self.tallies.add(partition, bytes);
        let list = self.layout.list_of(partition);
        self.logs[list.index()].items += 1;
        self.append(list, handle);
    }

    #[inline]
    fn remove(&mut self, handle: ItemHandle) -> Option<Removed> {
        self.contains(handle).then(|| self.forget(handle))
    }

    #[inline]
    fn remove_coldest(&mut self, list: ListId) -> Option<(ItemHandle, Removed)> {
        if !self.holds_items(list) {
            return None;
        }
        loop {
            let log = &mut self.logs[list.index()];
            if log.chunk_alive == 0 {
                self.look_at_chunk(list);
                continue;
            }
            let place = log.chunk + log.chunk_alive.trailing_zeros() as usize;
            log.chunk_alive &= log.chunk_alive - 1;
            if self.is_alive(place) {
                let handle = ItemHandle(self.pool.entries[place]);
                return Some((handle, self.forget(handle)));
            }
        }
    }
}
