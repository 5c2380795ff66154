//! The order as linked lists: one ring per list, least recently used last, with the nodes in a vector.
//!
//! Place in the flow: beside the shards of the store, whose nodes are in the items' blocks. Every operation reads and writes a fixed number of nodes.

use super::{HANDLES_MAX, Links, Nodes, Order, Removed, Rings, Tallies};
use crate::accounts::{Layout, ListId};
use crate::{ItemHandle, PartitionId};

/// Stands in `Node::partition` for a handle that is not in the order.
const NO_PARTITION: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    links: Links,
    bytes: u32,
    partition: u16,
}

#[derive(Clone, Debug)]
pub(crate) struct LinkedOrder {
    layout: Layout,
    rings: Rings,
    /// By handle.
    nodes: Vec<Node>,
    tallies: Tallies,
}

impl Node {
    const ABSENT: Self =
        Self { links: Links { prev: 0, next: 0 }, bytes: 0, partition: NO_PARTITION };
}

impl Nodes for Vec<Node> {
    fn links(&self, handle: u32) -> Links {
        self[handle as usize].links
    }

    fn set_prev(&mut self, handle: u32, link: u32) {
        self[handle as usize].links.prev = link;
    }

    fn set_next(&mut self, handle: u32, link: u32) {
        self[handle as usize].links.next = link;
    }
}

impl LinkedOrder {
    pub(crate) fn new(layout: Layout) -> Self {
        let (rings, tallies) = (Rings::new(layout.lists()), Tallies::new(layout));
        Self { layout, rings, nodes: Vec::new(), tallies }
    }

    fn present(&self, handle: ItemHandle) -> Option<Node> {
        let node = self.nodes.get(handle.0 as usize)?;
        (node.partition != NO_PARTITION).then_some(*node)
    }
}

impl Order for LinkedOrder {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    fn holds_items(&self, list: ListId) -> bool {
        self.rings.last(list.index()).is_some()
    }

    fn touch(&mut self, handle: ItemHandle) -> bool {
        let Some(node) = self.present(handle) else { return false };
        let list = self.layout.list_of(PartitionId(node.partition));
        self.rings.move_to_front(&mut self.nodes, list.index(), handle.0);
        true
    }

    fn insert(&mut self, partition: PartitionId, handle: ItemHandle, bytes: u32) {
        assert!(handle.0 < HANDLES_MAX, "a handle is below {HANDLES_MAX}");
        assert!(self.present(handle).is_none(), "an item is in the order at most once");
        let index = handle.0 as usize;
        if index >= self.nodes.len() {
            self.nodes.resize(index + 1, Node::ABSENT);
        }
        self.nodes[index] = Node { bytes, partition: partition.0, ..Node::ABSENT };
        self.tallies.add(partition, bytes);
        self.rings.push_front(&mut self.nodes, self.layout.list_of(partition).index(), handle.0);
    }

    fn remove(&mut self, handle: ItemHandle) -> Option<Removed> {
        let Node { bytes, partition, .. } = self.present(handle)?;
        self.rings.unlink(&mut self.nodes, handle.0);
        self.nodes[handle.0 as usize].partition = NO_PARTITION;
        let removed = Removed { partition: PartitionId(partition), bytes };
        self.tallies.subtract(removed);
        Some(removed)
    }

    fn remove_coldest(&mut self, list: ListId) -> Option<(ItemHandle, Removed)> {
        let handle = ItemHandle(self.rings.last(list.index())?);
        let removed = self.remove(handle).expect("the coldest item is in the order");
        Some((handle, removed))
    }
}
