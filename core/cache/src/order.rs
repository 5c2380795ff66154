//! The eviction order: one circular list per partition, least recently used last.
//!
//! Place in the flow: below [`crate::Ledger`] and below each shard of the store. It orders items and counts them per
//! partition; it decides nothing.
//!
//! A node is 16 bytes in one vector that is indexed by the item's handle; the first nodes of the vector are the
//! anchors of the lists. A list is a ring through its anchor: `anchor.next` is the hottest item, `anchor.prev` the
//! coldest. A ring has no ends, so that moving an item has no special cases.

use crate::accounts::{Layout, ListId};
use crate::{ItemHandle, PartitionId};

/// Stands in `Node::partition` for an anchor and for a handle that is not in the order.
const NO_PARTITION: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    prev: u32,
    next: u32,
    bytes: u32,
    partition: u16,
}

/// Items and their bytes in one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) items: u64,
    pub(crate) bytes: u64,
}

/// An item that has left the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unlinked {
    pub(crate) partition: PartitionId,
    pub(crate) bytes: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Order {
    layout: Layout,
    /// The number of anchors, which is what a handle and its node's position differ by.
    anchors: u32,
    nodes: Vec<Node>,
    tallies: Vec<Tally>,
}

impl Node {
    const ABSENT: Self = Self { prev: 0, next: 0, bytes: 0, partition: NO_PARTITION };
}

impl Order {
    pub(crate) fn new(layout: Layout, items_capacity: usize) -> Self {
        let anchors = u32::try_from(layout.lists()).expect("at most 1,024 lists");
        let mut nodes = Vec::with_capacity(layout.lists() + items_capacity);
        nodes.extend((0..anchors).map(|anchor| Node {
            prev: anchor,
            next: anchor,
            ..Node::ABSENT
        }));
        Self { layout, anchors, nodes, tallies: vec![Tally::default(); layout.partitions()] }
    }

    pub(crate) const fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) fn tally(&self, partition: PartitionId) -> Tally {
        self.tallies[partition.index()]
    }

    /// The bytes of a list's items.
    pub(crate) fn list_bytes(&self, list: ListId) -> u64 {
        if self.layout.lists() == 1 {
            self.tallies.iter().map(|tally| tally.bytes).sum()
        } else {
            self.tallies[list.index()].bytes
        }
    }

    #[inline]
    pub(crate) fn contains(&self, handle: ItemHandle) -> bool {
        self.nodes.get(self.position(handle)).is_some_and(|node| node.partition != NO_PARTITION)
    }

    /// Makes the item the hottest of its list; false when it is not in the order.
    #[inline]
    pub(crate) fn touch(&mut self, handle: ItemHandle) -> bool {
        let position = self.position(handle);
        let Some(&Node { prev, next, partition, .. }) = self.nodes.get(position) else {
            return false;
        };
        if partition == NO_PARTITION {
            return false;
        }
        let anchor = u32::from(self.layout.list_of(PartitionId(partition)).0);
        if prev != anchor {
            self.nodes[prev as usize].next = next;
            self.nodes[next as usize].prev = prev;
            self.link_hottest(anchor, position);
        }
        true
    }

    /// Adds an item that is not in the order as the hottest of its partition's list.
    pub(crate) fn insert(&mut self, partition: PartitionId, handle: ItemHandle, bytes: u32) {
        let position = self.position(handle);
        if position >= self.nodes.len() {
            assert!(u32::try_from(position).is_ok(), "a handle is below 2^32 less the lists");
            self.nodes.resize(position + 1, Node::ABSENT);
        }
        let node = &mut self.nodes[position];
        assert_eq!(node.partition, NO_PARTITION, "an item is in the order at most once");
        node.bytes = bytes;
        node.partition = partition.0;
        let tally = &mut self.tallies[partition.index()];
        tally.items += 1;
        tally.bytes += u64::from(bytes);
        self.link_hottest(u32::from(self.layout.list_of(partition).0), position);
    }

    /// Takes an item out; `None` when it is not in the order.
    pub(crate) fn remove(&mut self, handle: ItemHandle) -> Option<Unlinked> {
        let position = self.position(handle);
        let &Node { prev, next, bytes, partition } = self.nodes.get(position)?;
        if partition == NO_PARTITION {
            return None;
        }
        self.nodes[prev as usize].next = next;
        self.nodes[next as usize].prev = prev;
        self.nodes[position].partition = NO_PARTITION;
        let tally = &mut self.tallies[partition as usize];
        tally.items -= 1;
        tally.bytes -= u64::from(bytes);
        Some(Unlinked { partition: PartitionId(partition), bytes })
    }

    /// The item that is evicted next from the list.
    #[inline]
    pub(crate) fn coldest(&self, list: ListId) -> Option<ItemHandle> {
        let position = self.nodes[list.index()].prev;
        position.checked_sub(self.anchors).map(ItemHandle)
    }

    #[inline]
    const fn position(&self, handle: ItemHandle) -> usize {
        handle.0 as usize + self.anchors as usize
    }

    #[inline]
    fn link_hottest(&mut self, anchor: u32, position: usize) {
        let link = position as u32; // `insert` has asserted that it fits
        let second = std::mem::replace(&mut self.nodes[anchor as usize].next, link);
        self.nodes[second as usize].prev = link;
        let node = &mut self.nodes[position];
        node.prev = anchor;
        node.next = second;
    }
}
