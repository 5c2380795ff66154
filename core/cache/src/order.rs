//! The eviction order: one per list, with counts per partition.
//!
//! Place in the flow: below [`crate::Ledger`] and below each shard of the store. It orders items and counts them; it decides nothing about room:
//! `room.rs` does, with the same code for both.
//!
//! [`Queues`] have a bound on each single operation, which a store under a lock needs. [`LoggedOrder`], for LRU only, reads one place in memory where
//! linked lists read three, which a simulator needs that spends its time waiting for memory; now and then one of its operations pays for
//! many. The tests drive store, ledger and a model with the same operations.

use crate::accounts::{Layout, ListId};
use crate::{ItemHandle, PartitionId};

mod any;
mod ghosts;
mod logged;
mod queued;
mod queues;
mod rings;

pub(crate) use any::{AnyOrder, with_order};
pub(crate) use logged::LoggedOrder;
pub(crate) use queued::QueuedOrder;
pub use queues::Eviction;
pub(crate) use queues::{MARK_BITS, Queues};
pub(crate) use rings::{HANDLES_MAX, Links, Nodes, item};

/// Items in the order in which they go.
pub(crate) trait Order {
    fn layout(&self) -> Layout;

    fn tallies(&self) -> &Tallies;

    /// Whether the list has items.
    fn holds_items(&self, list: ListId) -> bool;

    /// Counts a use of the item; false when it is not in the order.
    fn touch(&mut self, handle: ItemHandle) -> bool;

    /// Adds an item that is not in the order to its partition's list.
    fn insert(&mut self, partition: PartitionId, handle: ItemHandle, bytes: u32);

    /// Takes an item out; `None` when it is not in the order.
    fn remove(&mut self, handle: ItemHandle) -> Option<Removed>;

    /// Takes the item out that has to go first; `None` when the list is empty.
    fn remove_coldest(&mut self, list: ListId) -> Option<(ItemHandle, Removed)>;
}

/// Items and their bytes in one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) items: u64,
    pub(crate) bytes: u64,
}

/// An item that has left the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Removed {
    pub(crate) partition: PartitionId,
    pub(crate) bytes: u32,
}

/// Tallies of all partitions.
#[derive(Clone, Debug)]
pub(crate) struct Tallies(Vec<Tally>);

impl Tallies {
    pub(crate) fn new(layout: Layout) -> Self {
        Self(vec![Tally::default(); layout.partitions()])
    }

    #[inline]
    pub(crate) fn add(&mut self, partition: PartitionId, bytes: u32) {
        let tally = &mut self.0[partition.index()];
        tally.items += 1;
        tally.bytes += u64::from(bytes);
    }

    #[inline]
    pub(crate) fn subtract(&mut self, item: Removed) {
        let tally = &mut self.0[item.partition.index()];
        tally.items -= 1;
        tally.bytes -= u64::from(item.bytes);
    }

    pub(crate) fn of(&self, partition: PartitionId) -> Tally {
        self.0[partition.index()]
    }

    /// The bytes of a list's items.
    pub(crate) fn list_bytes(&self, layout: Layout, list: ListId) -> u64 {
        if layout.lists() == 1 {
            self.0.iter().map(|tally| tally.bytes).sum()
        } else {
            self.0[list.index()].bytes
        }
    }
}

#[cfg(test)]
mod tests;
