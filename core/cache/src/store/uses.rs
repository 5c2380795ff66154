//! Uses of items: an order that moves items on use is changed for some uses at once.
//!
//! Place in the flow: a look-up that finds its item ends here, while the shard is locked.
//!
//! With LRU a use writes to the links of the item, of its two neighbours and of the first item, which all are anywhere in memory: done at once, each look-up
//! waits for them before it can give the lock back. So uses are noted, and every [`NOTED_MAX`] of them the processor is asked for all links before
//! the first is written. Whatever looks at the order or changes it otherwise settles the uses first: nobody can tell the difference.

use super::block::state;
use super::items::Items;

/// Uses that are noted before the order is changed for all of them: what one look-up may have to do besides its own.
const NOTED_MAX: usize = 32;

/// Items that were used, in the order of use, which are not moved yet.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    noted: [u32; NOTED_MAX],
    count: usize,
}

impl Items {
    /// Uses the item; in a store with attributes at this second.
    #[inline]
    pub(crate) fn touch(&mut self, handle: u32, second: Option<u32>) {
        self.order_use(handle);
        // A line that is only read needs no writing back, and two processors can have it at once.
        let block = self.arena.block(handle);
        if !block.is(state::FETCHED) {
            let state = block.state() | state::FETCHED;
            self.arena.block_mut(handle).set_state(state);
        }
        if let Some(second) = second.filter(|_| self.shape.has_attributes()) {
            self.arena.block_mut(handle).set_accessed_s(second);
        }
    }

    /// Has the order know of a use, now or later.
    #[inline]
    pub(crate) fn order_use(&mut self, handle: u32) {
        if !self.queues.move_on_use() {
            let list = self.layout.list_of(self.arena.block(handle).partition());
            return self.queues.touch(&mut self.arena, list, handle);
        }
        self.uses.noted[self.uses.count] = handle;
        self.uses.count += 1;
        if self.uses.count == NOTED_MAX {
            self.settle_uses();
        }
    }

    /// Changes the order for all uses that are noted. To be called before anything else looks at the order or changes it.
    pub(crate) fn settle_uses(&mut self) {
        let Self { arena, queues, uses, layout, .. } = self;
        let noted = &uses.noted[..std::mem::take(&mut uses.count)];
        for &handle in noted {
            arena.prefetch_links(handle);
        }
        for &handle in noted {
            arena.prefetch_neighbours(handle);
        }
        for &handle in noted {
            let list = layout.list_of(arena.block(handle).partition());
            queues.touch(arena, list, handle);
        }
    }
}
