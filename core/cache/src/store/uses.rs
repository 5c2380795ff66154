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

#[cfg(test)]
mod tests {
    use super::super::item::Parts;
    use super::super::items::{Identity, Label};
    use super::super::pool::PagePool;
    use super::super::shape::Shape;
    use crate::accounts::{Layout, ListId};
    use crate::{Eviction, PartitionId, Sharing};

    use super::*;

    const ITEMS: u64 = 2_000;
    const LIST: ListId = ListId(0);

    fn items() -> Items {
        let layout = Layout::new(1, Sharing::Partitioned);
        Items::new(layout, Eviction::Lru, Shape::new(false), 1 << 20, (PagePool::new(0), 0))
    }

    fn add(items: &mut Items, number: u64) -> u32 {
        let key = number.to_le_bytes();
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let identity = Identity { hash, partition: PartitionId(0), key: &key };
        let label =
            Label { attributes: Default::default(), version: 0, accessed_s: 0, generation: 0 };
        items.add(&identity, Parts::Whole(&[7; 200]), None, None, &label)
    }

    fn number(items: &Items, handle: u32) -> u64 {
        u64::from_le_bytes(items.view(handle).key().try_into().unwrap())
    }

    /// Takes all items out in the order of eviction.
    fn drain(mut items: Items) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let Some(handle) = items.victim(LIST) {
            numbers.push(number(&items, handle));
            items.detach(handle);
            items.discard(handle);
        }
        numbers
    }

    #[test]
    fn uses_that_are_noted_count_for_the_next_eviction_and_in_their_order() {
        for uses in 0..=2 * NOTED_MAX as u64 {
            let mut items = items();
            let handles: Vec<u32> = (0..100).map(|number| add(&mut items, number)).collect();
            // Not in the order of the items; the first of them again at the end.
            let used: Vec<u64> = (0..uses).map(|use_| (50 + use_ * 37) % 100).chain([50]).collect();
            let mut expected: Vec<u64> = (0..100).collect();
            for &number in &used {
                items.touch(handles[number as usize], None);
                expected.retain(|&other| other != number);
                expected.push(number);
            }
            assert_eq!(items.oldest(LIST), Some(handles[expected[0] as usize]));
            assert_eq!(drain(items), expected, "after {uses} uses");
        }
    }

    #[test]
    fn items_that_move_to_other_blocks_after_their_use_keep_their_place_in_the_order() {
        let mut items = items();
        let handles: Vec<u32> = (0..ITEMS).map(|number| add(&mut items, number)).collect();
        let (kept, others): (Vec<u64>, Vec<u64>) = (0..ITEMS).partition(|number| number % 7 == 0);
        for number in others {
            items.detach(handles[number as usize]);
            items.discard(handles[number as usize]);
        }
        let used = &kept[100..100 + NOTED_MAX - 1];
        used.iter().for_each(|&number| items.touch(handles[number as usize], None));
        assert!(items.squeeze(64) > 0, "sparse pages are emptied");
        let unused = kept.iter().filter(|number| !used.contains(number));
        assert_eq!(drain(items), unused.chain(used).copied().collect::<Vec<_>>());
    }
}
