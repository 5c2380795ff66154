//! The order of any rule of eviction, with links and marks in a vector.
//!
//! Place in the flow: the ledger's order for rules other than LRU, for which [`super::LoggedOrder`] is faster. A shard of the store has the same queues
//! with links and marks in its blocks.

use prefetch_index::prefetch_index;

use super::{Eviction, HANDLES_MAX, Links, Nodes, Order, Queues, Removed, Tallies};
use crate::accounts::{Layout, ListId};
use crate::{ItemHandle, PartitionId};

/// Stands in `Node::partition` for a handle that is not in the order.
const NO_PARTITION: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    links: Links,
    bytes: u32,
    partition: u16,
    mark: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct QueuedOrder {
    layout: Layout,
    queues: Queues,
    /// By handle.
    nodes: Vec<Node>,
    tallies: Tallies,
}

impl Node {
    const ABSENT: Self =
        Self { links: Links { prev: 0, next: 0 }, bytes: 0, partition: NO_PARTITION, mark: 0 };
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

    fn mark(&self, handle: u32) -> u8 {
        self[handle as usize].mark
    }

    fn set_mark(&mut self, handle: u32, mark: u8) {
        self[handle as usize].mark = mark;
    }

    fn fingerprint(&self, handle: u32) -> u32 {
        handle
    }
}

impl QueuedOrder {
    pub(crate) fn new(layout: Layout, eviction: Eviction) -> Self {
        let (queues, tallies) = (Queues::new(eviction, layout.lists()), Tallies::new(layout));
        Self { layout, queues, nodes: Vec::new(), tallies }
    }

    #[inline]
    pub(crate) fn contains(&self, handle: ItemHandle) -> bool {
        self.present(handle).is_some()
    }

    /// Has the processor fetch what an operation on the item will read.
    #[inline]
    pub(crate) fn prefetch(&self, handle: ItemHandle) {
        prefetch_index(&self.nodes, handle.0 as usize);
    }

    fn present(&self, handle: ItemHandle) -> Option<Node> {
        let node = self.nodes.get(handle.0 as usize)?;
        (node.partition != NO_PARTITION).then_some(*node)
    }
}

impl Order for QueuedOrder {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    fn holds_items(&self, list: ListId) -> bool {
        self.queues.last(list).is_some()
    }

    fn touch(&mut self, handle: ItemHandle) -> bool {
        let Some(node) = self.present(handle) else { return false };
        let list = self.layout.list_of(PartitionId(node.partition));
        self.queues.touch(&mut self.nodes, list, handle.0);
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
        self.queues.insert(&mut self.nodes, self.layout.list_of(partition), handle.0);
    }

    fn remove(&mut self, handle: ItemHandle) -> Option<Removed> {
        let Node { bytes, partition, .. } = self.present(handle)?;
        let list = self.layout.list_of(PartitionId(partition));
        self.queues.remove(&mut self.nodes, list, handle.0);
        self.nodes[handle.0 as usize].partition = NO_PARTITION;
        let removed = Removed { partition: PartitionId(partition), bytes };
        self.tallies.subtract(removed);
        Some(removed)
    }

    fn remove_coldest(&mut self, list: ListId) -> Option<(ItemHandle, Removed)> {
        let handle = self.queues.victim(&mut self.nodes, list)?;
        self.queues.note_evicted(&self.nodes, list, handle);
        let removed = self.remove(ItemHandle(handle)).expect("what goes next is in the order");
        Some((ItemHandle(handle), removed))
    }
}
