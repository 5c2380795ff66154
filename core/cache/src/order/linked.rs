//! The order as linked lists: one circular list per partition, least recently used last.
//!
//! Place in the flow: in each shard of the store. Every operation reads and writes a fixed number of nodes.
//!
//! A node is 16 bytes in one vector that is indexed by the item's handle; the first nodes of the vector are the
//! anchors of the lists. A list is a ring through its anchor: `anchor.next` is the hottest item, `anchor.prev` the
//! coldest. A ring has no ends, so that moving an item has no special cases.

use super::{Order, Removed, Tallies};
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

#[derive(Clone, Debug)]
pub(crate) struct LinkedOrder {
    layout: Layout,
    /// The number of anchors, which is what a handle and its node's position differ by.
    anchors: u32,
    nodes: Vec<Node>,
    tallies: Tallies,
}

impl Node {
    const ABSENT: Self = Self { prev: 0, next: 0, bytes: 0, partition: NO_PARTITION };
}

impl LinkedOrder {
    pub(crate) fn new(layout: Layout) -> Self {
        let anchors = u32::try_from(layout.lists()).expect("at most 1,024 lists");
        let nodes = (0..anchors)
            .map(|anchor| Node { prev: anchor, next: anchor, ..Node::ABSENT })
            .collect();
        Self { layout, anchors, nodes, tallies: Tallies::new(layout) }
    }

    #[inline]
    const fn position(&self, handle: ItemHandle) -> usize {
        handle.0 as usize + self.anchors as usize
    }

    /// The item that is evicted next from the list.
    #[inline]
    fn coldest(&self, list: ListId) -> Option<ItemHandle> {
        let position = self.nodes[list.index()].prev;
        position.checked_sub(self.anchors).map(ItemHandle)
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

impl Order for LinkedOrder {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    #[inline]
    fn holds_items(&self, list: ListId) -> bool {
        self.coldest(list).is_some()
    }

    #[inline]
    fn touch(&mut self, handle: ItemHandle) -> bool {
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

    fn insert(&mut self, partition: PartitionId, handle: ItemHandle, bytes: u32) {
        let position = self.position(handle);
        if position >= self.nodes.len() {
            assert!(u32::try_from(position).is_ok(), "a handle is below 2^32 less the lists");
            self.nodes.resize(position + 1, Node::ABSENT);
        }
        let node = &mut self.nodes[position];
        assert_eq!(node.partition, NO_PARTITION, "an item is in the order at most once");
        node.bytes = bytes;
        node.partition = partition.0;
        self.tallies.add(partition, bytes);
        self.link_hottest(u32::from(self.layout.list_of(partition).0), position);
    }

    fn remove(&mut self, handle: ItemHandle) -> Option<Removed> {
        let position = self.position(handle);
        let &Node { prev, next, bytes, partition } = self.nodes.get(position)?;
        if partition == NO_PARTITION {
            return None;
        }
        self.nodes[prev as usize].next = next;
        self.nodes[next as usize].prev = prev;
        self.nodes[position].partition = NO_PARTITION;
        let removed = Removed { partition: PartitionId(partition), bytes };
        self.tallies.subtract(removed);
        Some(removed)
    }

    #[inline]
    fn remove_coldest(&mut self, list: ListId) -> Option<(ItemHandle, Removed)> {
        let handle = self.coldest(list)?;
        let removed = self.remove(handle).expect("the coldest item is in the order");
        Some((handle, removed))
    }
}
