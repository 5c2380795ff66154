//! Both structures against a plain list of items, over so many uses that logs are written anew.

use super::*;
use crate::Sharing;

const HANDLES: u32 = 3_000;
const PARTITIONS: u16 = 3;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % u64::from(bound)) as u32
    }
}

/// Items of all lists, the coldest first.
#[derive(Default)]
struct Plain(Vec<(ListId, ItemHandle, Removed)>);

impl Plain {
    fn remove(
        &mut self,
        is_it: impl Fn(ListId, ItemHandle) -> bool,
    ) -> Option<(ItemHandle, Removed)> {
        let place = self.0.iter().position(|&(list, handle, _)| is_it(list, handle))?;
        let (_, handle, removed) = self.0.remove(place);
        Some((handle, removed))
    }
}

/// `share_used` of 10 operations are uses, mostly of few items.
fn agree(mut order: impl Order, share_used: u32) {
    let (mut plain, mut random) = (Plain::default(), Random(u64::from(share_used) + 1));
    let layout = order.layout();
    for step in 0..60_000 {
        let handle = ItemHandle(random.below(HANDLES) * random.below(HANDLES) / HANDLES);
        let partition = PartitionId((handle.0 % u32::from(PARTITIONS)) as u16);
        let list = layout.list_of(partition);
        match random.below(10) {
            kind if kind < share_used => {
                let known = plain.remove(|_, other| other == handle);
                plain.0.extend(known.map(|(handle, removed)| (list, handle, removed)));
                assert_eq!(order.touch(handle), known.is_some(), "step {step}");
            }
            9 if random.below(3) == 0 => {
                let removed = plain.remove(|_, other| other == handle).map(|(_, removed)| removed);
                assert_eq!(order.remove(handle), removed, "step {step}");
            }
            9 => {
                let coldest = plain.remove(|other, _| other == list);
                assert_eq!(order.remove_coldest(list), coldest, "step {step}");
            }
            _ if plain.0.iter().all(|&(_, other, _)| other != handle) => {
                // One in ten is so large that a log keeps its size apart.
                let bytes = random.below(1_000) << (random.below(10) / 9 * 20);
                plain.0.push((list, handle, Removed { partition, bytes }));
                order.insert(partition, handle, bytes);
            }
            _ => {}
        }
    }
    for partition in (0..PARTITIONS).map(PartitionId) {
        let own = || plain.0.iter().filter(|(_, _, item)| item.partition == partition);
        let bytes = own().map(|(_, _, item)| u64::from(item.bytes)).sum();
        assert_eq!(order.tallies().of(partition), Tally { items: own().count() as u64, bytes });
        let list = layout.list_of(partition);
        let left = plain.0.iter().filter(|(other, _, _)| *other == list);
        let left: Vec<_> = left.map(|&(_, handle, removed)| (handle, removed)).collect();
        plain.0.retain(|(other, _, _)| *other != list);
        assert_eq!(std::iter::from_fn(|| order.remove_coldest(list)).collect::<Vec<_>>(), left);
        assert!(!order.holds_items(list));
    }
}

#[test]
fn queued_and_logged_orders_evict_what_was_not_used_for_the_longest_time() {
    for sharing in [Sharing::Partitioned, Sharing::Shared] {
        let layout = Layout::new(PARTITIONS.into(), sharing);
        for share_used in [2, 5, 8] {
            agree(QueuedOrder::new(layout, Eviction::Lru), share_used);
            agree(LoggedOrder::new(layout, 100), share_used);
        }
    }
}
