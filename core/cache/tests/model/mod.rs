//! A cache as one would explain it: deques of items, sums taken afresh each time. Slow, and obvious enough to be right.
//! With it the operation lists that the property tests make up.

use std::collections::VecDeque;

use proptest::prelude::*;
use robinhood_cache::{DEBT_EVICTIONS_PER_INSERT, PartitionId, RECLAIM_BATCH_ITEMS, Sharing};

pub(crate) const PARTITIONS: u16 = 4;
pub(crate) const ITEMS_PER_PARTITION: u32 = 24;

/// One operation on a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Use { item: u32 },
    Insert { item: u32, bytes: u32 },
    Remove { item: u32 },
    SetLimit { partition: PartitionId, limit: u64 },
    Reclaim { items_max: usize },
}

/// The partition to which an item of the operation lists belongs.
pub(crate) fn partition_of(item: u32) -> PartitionId {
    PartitionId(u16::try_from(item / ITEMS_PER_PARTITION).expect("few items"))
}

/// Operations whose items weigh `bytes_min..=10 * bytes_min` in a cache of `budget` bytes.
pub(crate) fn operations(budget: u64, bytes_min: u32) -> impl Strategy<Value = Vec<Operation>> {
    let item = 0..u32::from(PARTITIONS) * ITEMS_PER_PARTITION;
    let operation = prop_oneof![
        4 => item.clone().prop_map(|item| Operation::Use { item }),
        8 => (item.clone(), bytes_min..=10 * bytes_min)
            .prop_map(|(item, bytes)| Operation::Insert { item, bytes }),
        1 => item.prop_map(|item| Operation::Remove { item }),
        1 => (0..PARTITIONS, 0..=budget).prop_map(|(partition, limit)| Operation::SetLimit {
            partition: PartitionId(partition),
            limit
        }),
        1 => (0..2 * RECLAIM_BATCH_ITEMS)
            .prop_map(|items_max| Operation::Reclaim { items_max }),
    ];
    prop::collection::vec(operation, 1..400)
}

/// One deque of (item, bytes) per list, the hottest in front.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    sharing: Sharing,
    budget: u64,
    evictions_max: u32,
    lists: Vec<(u64, VecDeque<(u32, u64)>)>,
    /// What the last insert or reclaim evicted, in order.
    pub(crate) evicted: Vec<u32>,
}

impl Model {
    pub(crate) fn new(sharing: Sharing, budget: u64, evictions_max: u32) -> Self {
        let lists = match sharing {
            Sharing::Partitioned => u64::from(PARTITIONS),
            Sharing::Shared => 1,
        };
        let limit = |list| budget / lists + u64::from(list < budget % lists);
        let lists = (0..lists).map(|list| (limit(list), VecDeque::new())).collect();
        Self { sharing, budget, evictions_max, lists, evicted: Vec::new() }
    }

    pub(crate) fn use_item(&mut self, item: u32) -> bool {
        let Some(bytes) = self.take(item) else { return false };
        let list = self.list_of(partition_of(item));
        self.lists[list].1.push_front((item, bytes));
        true
    }

    pub(crate) fn remove(&mut self, item: u32) -> bool {
        self.take(item).is_some()
    }

    pub(crate) fn insert(&mut self, item: u32, bytes: u64) -> bool {
        self.evicted.clear();
        self.take(item);
        let own = self.list_of(partition_of(item));
        if bytes > self.lists[own].0 {
            return false;
        }
        if let Some(debtor) = self.largest_debtor() {
            self.evict_while_in_debt(debtor, DEBT_EVICTIONS_PER_INSERT as usize);
        }
        let list_bytes_max = self.lists[own].0.max(self.list_used(own));
        let mut evictions = 0;
        loop {
            let fits = self.list_used(own) + bytes <= list_bytes_max;
            if fits && self.used_total() + bytes <= self.budget {
                self.lists[own].1.push_front((item, bytes));
                return true;
            }
            let victim = if fits { self.largest_debtor().unwrap_or(own) } else { own };
            if self.lists[victim].1.is_empty() || evictions == self.evictions_max {
                return false;
            }
            self.evict(victim);
            evictions += 1;
        }
    }

    pub(crate) fn set_limit(&mut self, partition: PartitionId, limit: u64) {
        let list = self.list_of(partition);
        self.lists[list].0 = limit;
    }

    pub(crate) fn reclaim(&mut self, items_max: usize) -> u64 {
        self.evicted.clear();
        while let Some(debtor) = self.largest_debtor().filter(|_| self.evicted.len() < items_max) {
            let items_left = items_max - self.evicted.len();
            let batch = items_left.div_ceil(items_left.div_ceil(RECLAIM_BATCH_ITEMS));
            self.evict_while_in_debt(debtor, batch);
        }
        (0..self.lists.len()).map(|list| self.list_debt(list)).sum()
    }

    pub(crate) fn used_total(&self) -> u64 {
        (0..self.lists.len()).map(|list| self.list_used(list)).sum()
    }

    /// Items and bytes of a partition.
    pub(crate) fn tally(&self, partition: PartitionId) -> (u64, u64) {
        let items = &self.lists[self.list_of(partition)].1;
        let own = items.iter().filter(|(item, _)| partition_of(*item) == partition);
        own.fold((0, 0), |(items, used), (_, bytes)| (items + 1, used + bytes))
    }

    pub(crate) fn limit(&self, partition: PartitionId) -> u64 {
        self.lists[self.list_of(partition)].0
    }

    pub(crate) fn debt(&self, partition: PartitionId) -> u64 {
        self.list_debt(self.list_of(partition))
    }

    fn list_of(&self, partition: PartitionId) -> usize {
        match self.sharing {
            Sharing::Partitioned => partition.index(),
            Sharing::Shared => 0,
        }
    }

    fn list_used(&self, list: usize) -> u64 {
        self.lists[list].1.iter().map(|(_, bytes)| bytes).sum()
    }

    fn list_debt(&self, list: usize) -> u64 {
        self.list_used(list).saturating_sub(self.lists[list].0)
    }

    fn largest_debtor(&self) -> Option<usize> {
        let debtors = (0..self.lists.len()).filter(|&list| self.list_debt(list) > 0);
        debtors.max_by_key(|&list| (self.list_debt(list), std::cmp::Reverse(list)))
    }

    fn evict_while_in_debt(&mut self, list: usize, items_max: usize) {
        for _ in 0..items_max {
            if self.list_debt(list) > 0 {
                self.evict(list);
            }
        }
    }

    fn evict(&mut self, list: usize) {
        let (item, _) = self.lists[list].1.pop_back().expect("the caller has looked");
        self.evicted.push(item);
    }

    fn position(&self, item: u32) -> Option<usize> {
        let items = &self.lists[self.list_of(partition_of(item))].1;
        items.iter().position(|(key, _)| *key == item)
    }

    fn take(&mut self, item: u32) -> Option<u64> {
        let position = self.position(item)?;
        let list = self.list_of(partition_of(item));
        self.lists[list].1.remove(position).map(|(_, bytes)| bytes)
    }
}
