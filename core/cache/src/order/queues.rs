//! Which item of a list goes first: LRU, SIEVE and S3-FIFO over rings of items.
//!
//! Place in the flow: one code below each shard of the store, whose items keep links and marks in their blocks, and below [`super::QueuedOrder`] of the
//! ledger, so that both evict alike.
//!
//! - LRU: a use moves an item to the front, the last goes.
//! - SIEVE (Zhang et al., "SIEVE is simpler than LRU", NSDI'24, algorithm 1): a use marks; a hand walks from the last item to the first, takes marks away
//!   and stops at an item without one, which goes. New items come in front.
//! - S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP'23, algorithm 1): new items pass a small queue; those that were
//!   used at least twice in it move to the main queue, the others go and leave a ghost. An item that has a ghost comes into the main queue at
//!   once. The main queue's last item goes unless it was used, which takes a use off and brings it to the front.
//!
//! Deviations, which bound the work under a lock: a search for an item to evict passes at most [`SEARCH_MAX`] others and then takes
//! what it has come to; a list remembers at most [`GHOSTS_MAX`] ghosts. Shares of S3-FIFO's queues are of items, not bytes.

use super::ghosts::Ghosts;
use super::rings::{Nodes, Rings, item};
use crate::accounts::ListId;

/// Which item of a partition goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Eviction {
    /// The one that was used least recently: what the paper's testbed does.
    #[default]
    Lru,
    /// By a hand that passes what was used since its last visit. Uses write less than with LRU.
    Sieve,
    /// From a small queue first, unless items were used there: new items that are used once leave fast.
    S3Fifo,
}

/// Items that a search for one to evict passes.
const SEARCH_MAX: usize = 128;
/// Ghosts that a list remembers, if its main queue has as many items.
const GHOSTS_MAX: usize = 1 << 14;
/// The small queue is at least this part of a list when items go from it: one in ten.
const SMALL_PART: usize = 10;
/// Bits of a mark that count uses.
const USES: u8 = 3;
/// The bit of an item in the main queue.
const MAIN: u8 = 4;
/// Bits that a mark needs.
pub(crate) const MARK_BITS: u8 = USES | MAIN;

/// The lists' items in the order in which they go.
#[derive(Clone, Debug)]
pub(crate) struct Queues {
    eviction: Eviction,
    /// One for each list; with S3-FIFO two, the small and the main queue.
    rings: Rings,
    /// Of LRU none.
    lists: Vec<List>,
}

#[derive(Clone, Debug, Default)]
struct List {
    /// SIEVE: where the search goes on; `None`: from the last item.
    hand: Option<u32>,
    /// S3-FIFO: items, and those of them in the small queue.
    items: usize,
    small: usize,
    ghosts: Ghosts,
}

impl Queues {
    pub(crate) fn new(eviction: Eviction, lists: usize) -> Self {
        let (rings, states) = match eviction {
            Eviction::Lru => (lists, 0),
            Eviction::Sieve => (lists, lists),
            Eviction::S3Fifo => (2 * lists, lists),
        };
        Self { eviction, rings: Rings::new(rings), lists: vec![List::default(); states] }
    }

    /// The item that was added or, with LRU, used the longest time ago; with S3-FIFO of the main queue if that has any.
    #[inline]
    pub(crate) fn last(&self, list: ListId) -> Option<u32> {
        match self.eviction {
            Eviction::Lru | Eviction::Sieve => self.rings.last(list.index()),
            Eviction::S3Fifo => {
                self.rings.last(main(list)).or_else(|| self.rings.last(small(list)))
            }
        }
    }

    /// Adds an item that is in no list.
    #[inline]
    pub(crate) fn insert(&mut self, nodes: &mut impl Nodes, list: ListId, handle: u32) {
        nodes.set_mark(handle, 0);
        match self.eviction {
            Eviction::Lru | Eviction::Sieve => self.rings.push_front(nodes, list.index(), handle),
            Eviction::S3Fifo => {
                let state = &mut self.lists[list.index()];
                state.items += 1;
                if state.ghosts.take(nodes.fingerprint(handle)) {
                    self.push_main(nodes, list, handle);
                } else {
                    state.small += 1;
                    self.rings.push_front(nodes, small(list), handle);
                }
            }
        }
    }

    fn push_main(&mut self, nodes: &mut impl Nodes, list: ListId, handle: u32) {
        nodes.set_mark(handle, MAIN);
        self.rings.push_front(nodes, main(list), handle);
    }

    /// Whether a use changes the item's place, and with it the links of its neighbours.
    #[inline]
    pub(crate) fn move_on_use(&self) -> bool {
        self.eviction == Eviction::Lru
    }

    /// Counts a use of an item.
    #[inline]
    pub(crate) fn touch(&mut self, nodes: &mut impl Nodes, list: ListId, handle: u32) {
        match self.eviction {
            Eviction::Lru => self.rings.move_to_front(nodes, list.index(), handle),
            Eviction::Sieve => {
                if nodes.mark(handle) == 0 {
                    nodes.set_mark(handle, 1);
                }
            }
            Eviction::S3Fifo => {
                let mark = nodes.mark(handle);
                if mark & USES < USES {
                    nodes.set_mark(handle, mark + 1);
                }
            }
        }
    }

    /// Takes an item out.
    #[inline]
    pub(crate) fn remove(&mut self, nodes: &mut impl Nodes, list: ListId, handle: u32) {
        match self.eviction {
            Eviction::Lru => {}
            Eviction::Sieve => {
                let state = &mut self.lists[list.index()];
                if state.hand == Some(handle) {
                    state.hand = item(nodes.links(handle).prev);
                }
            }
            Eviction::S3Fifo => {
                let state = &mut self.lists[list.index()];
                state.items -= 1;
                state.small -= usize::from(nodes.mark(handle) & MAIN == 0);
            }
        }
        self.rings.unlink(nodes, handle);
    }

    /// The item to evict next, which stays where it is: the caller takes it out, or the next search comes to the same. `None` when the list is empty.
    #[inline]
    pub(crate) fn victim(&mut self, nodes: &mut impl Nodes, list: ListId) -> Option<u32> {
        match self.eviction {
            Eviction::Lru => self.rings.last(list.index()),
            Eviction::Sieve => self.sieve(nodes, list),
            Eviction::S3Fifo => self.pass_queues(nodes, list),
        }
    }

    /// Where the search for the next item to evict begins; those in front of it may come next.
    pub(crate) fn next_victim(&self, list: ListId) -> Option<u32> {
        match self.eviction {
            Eviction::Lru => self.rings.last(list.index()),
            Eviction::Sieve => {
                self.lists[list.index()].hand.or_else(|| self.rings.last(list.index()))
            }
            Eviction::S3Fifo => self.last_of_queues(list),
        }
    }

    fn sieve(&mut self, nodes: &mut impl Nodes, list: ListId) -> Option<u32> {
        let last = self.rings.last(list.index())?;
        let mut at = self.lists[list.index()].hand.unwrap_or(last);
        for _ in 0..SEARCH_MAX {
            if nodes.mark(at) == 0 {
                break;
            }
            nodes.set_mark(at, 0);
            at = item(nodes.links(at).prev).unwrap_or(last);
        }
        self.lists[list.index()].hand = Some(at);
        Some(at)
    }

    fn pass_queues(&mut self, nodes: &mut impl Nodes, list: ListId) -> Option<u32> {
        for _ in 0..SEARCH_MAX {
            let handle = self.last_of_queues(list)?;
            let mark = nodes.mark(handle);
            let uses = mark & USES;
            if mark & MAIN != 0 {
                if uses == 0 {
                    return Some(handle);
                }
                nodes.set_mark(handle, mark - 1);
                self.rings.move_to_front(nodes, main(list), handle);
            } else {
                if uses < 2 {
                    return Some(handle);
                }
                self.rings.unlink(nodes, handle);
                self.lists[list.index()].small -= 1;
                self.push_main(nodes, list, handle);
            }
        }
        self.last_of_queues(list)
    }

    /// The last item of the queue from which one should go.
    fn last_of_queues(&self, list: ListId) -> Option<u32> {
        let &List { items, small: in_small, .. } = &self.lists[list.index()];
        let from_small = in_small == items || in_small * SMALL_PART >= items;
        self.rings.last(if from_small { small(list) } else { main(list) })
    }

    /// Remembers an item that is evicted, before it is taken out.
    #[inline]
    pub(crate) fn note_evicted(&mut self, nodes: &impl Nodes, list: ListId, handle: u32) {
        if self.eviction == Eviction::S3Fifo && nodes.mark(handle) & MAIN == 0 {
            let state = &mut self.lists[list.index()];
            let ghosts_max = (state.items - state.small).clamp(1, GHOSTS_MAX);
            state.ghosts.add(nodes.fingerprint(handle), ghosts_max);
        }
    }

    /// Follows an item that was copied to another handle.
    pub(crate) fn renumber(
        &mut self,
        nodes: &mut impl Nodes,
        list: ListId,
        (from, to): (u32, u32),
    ) {
        self.rings.renumber(nodes, to);
        if let Some(state) = self.lists.get_mut(list.index())
            && state.hand == Some(from)
        {
            state.hand = Some(to);
        }
    }
}

const fn small(list: ListId) -> usize {
    2 * list.index()
}

const fn main(list: ListId) -> usize {
    2 * list.index() + 1
}
