//! Rings of items: what a list of an eviction order is made of, wherever the links are kept.
//!
//! Place in the flow: a shard keeps the links in the items' blocks, [`super::QueuedOrder`] in a vector.
//!
//! A ring goes through its anchor: `anchor.next` is the first item, `anchor.prev` the last. A ring has no ends, so that moving an item has no
//! special cases.

/// Links from this number on are anchors: the ring's number added.
const ANCHORS: u32 = 0xffff_0000;

/// Handles are below this.
pub(crate) const HANDLES_MAX: u32 = ANCHORS;

/// Neighbours in a ring: handles or anchors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Links {
    pub(crate) prev: u32,
    pub(crate) next: u32,
}

/// Where links and marks of items are kept.
pub(crate) trait Nodes {
    fn links(&self, handle: u32) -> Links;
    fn set_prev(&mut self, handle: u32, link: u32);
    fn set_next(&mut self, handle: u32, link: u32);
    /// Some bits for the rule of eviction, see `queues.rs`.
    fn mark(&self, handle: u32) -> u8;
    fn set_mark(&mut self, handle: u32, mark: u8);
    /// What an item has in common with its return after eviction, and rarely with another item.
    fn fingerprint(&self, handle: u32) -> u32;
}

/// The anchors of some rings.
#[derive(Clone, Debug)]
pub(crate) struct Rings(Box<[Links]>);

impl Rings {
    pub(crate) fn new(rings: usize) -> Self {
        let anchor = |ring| Links { prev: anchor(ring), next: anchor(ring) };
        Self((0..rings).map(anchor).collect())
    }

    /// The item at the end of the ring.
    #[inline]
    pub(crate) fn last(&self, ring: usize) -> Option<u32> {
        item(self.0[ring].prev)
    }

    #[inline]
    pub(crate) fn push_front(&mut self, nodes: &mut impl Nodes, ring: usize, handle: u32) {
        let second = std::mem::replace(&mut self.0[ring].next, handle);
        nodes.set_prev(handle, anchor(ring));
        nodes.set_next(handle, second);
        self.set_prev(nodes, second, handle);
    }

    #[inline]
    pub(crate) fn unlink(&mut self, nodes: &mut impl Nodes, handle: u32) {
        let Links { prev, next } = nodes.links(handle);
        self.set_next(nodes, prev, next);
        self.set_prev(nodes, next, prev);
    }

    #[inline]
    pub(crate) fn move_to_front(&mut self, nodes: &mut impl Nodes, ring: usize, handle: u32) {
        if self.0[ring].next != handle {
            self.unlink(nodes, handle);
            self.push_front(nodes, ring, handle);
        }
    }

    /// Has the neighbours of an item that was copied to another handle name the new one.
    pub(crate) fn renumber(&mut self, nodes: &mut impl Nodes, handle: u32) {
        let Links { prev, next } = nodes.links(handle);
        self.set_next(nodes, prev, handle);
        self.set_prev(nodes, next, handle);
    }

    #[inline]
    fn set_prev(&mut self, nodes: &mut impl Nodes, link: u32, prev: u32) {
        match item(link) {
            Some(handle) => nodes.set_prev(handle, prev),
            None => self.0[(link - ANCHORS) as usize].prev = prev,
        }
    }

    #[inline]
    fn set_next(&mut self, nodes: &mut impl Nodes, link: u32, next: u32) {
        match item(link) {
            Some(handle) => nodes.set_next(handle, next),
            None => self.0[(link - ANCHORS) as usize].next = next,
        }
    }
}

#[inline]
fn anchor(ring: usize) -> u32 {
    ANCHORS + ring as u32 // a cache has at most 1,024 lists of two rings
}

/// The handle that a link names; `None` when it is an anchor.
#[inline]
pub(crate) const fn item(link: u32) -> Option<u32> {
    if link < ANCHORS { Some(link) } else { None }
}
