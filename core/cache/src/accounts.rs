//! Limits and bytes of the eviction lists: the interface that `room.rs` works on, and the single-threaded form of it.
//!
//! A *list* is what has a limit: one per partition, or one for all when the cache is shared.

use robinhood_stats::Bytes;

use crate::{PARTITIONS_MAX, PartitionId, Sharing};

/// The number of an eviction list: the partition's, or 0 for the only list of a shared cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListId(pub(crate) u16);

/// Which partition's items are in which list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    partitions: u16,
    /// All ones, or zero in a shared cache: a list's number without a branch.
    mask: u16,
}

/// Why bytes cannot be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// The list would exceed its limit.
    Limit,
    /// All lists together would exceed the budget.
    Budget,
}

/// What became of an evicted item's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// It is free for others.
    Freed,
    /// A reader still holds it: it counts against the budget until the reader drops it.
    Held,
}

/// Limits and bytes of all lists.
pub(crate) trait Accounts {
    /// The bytes that the list may hold.
    fn limit(&self, list: ListId) -> u64;
    /// The bytes that the list holds.
    fn used(&self, list: ListId) -> u64;
    /// The bytes that the list holds above its limit.
    fn debt(&self, list: ListId) -> u64;
    /// Books `bytes` on the list and on the budget, or neither. `in_place`: the caller has freed as many bytes of this
    /// list before, so that the list may stay above its limit.
    fn reserve(&mut self, list: ListId, bytes: u64, in_place: bool) -> Result<(), Shortage>;
    /// Takes an item's bytes off the list, and off the budget when its memory is free.
    fn release(&mut self, list: ListId, bytes: u64, memory: Memory);
    /// The list with the largest debt among those that pass `holds_items`, the lowest number among equals. Costs one
    /// comparison while no list is in debt, else a scan of the lists.
    fn largest_debt(&mut self, holds_items: impl Fn(ListId) -> bool) -> Option<ListId>;
}

impl Layout {
    /// # Panics
    /// When there are no partitions or more than [`PARTITIONS_MAX`].
    pub(crate) fn new(partitions: usize, sharing: Sharing) -> Self {
        assert!(
            (1..=PARTITIONS_MAX).contains(&partitions),
            "a cache has 1 to {PARTITIONS_MAX} partitions, not {partitions}"
        );
        let mask = match sharing {
            Sharing::Partitioned => u16::MAX,
            Sharing::Shared => 0,
        };
        Self { partitions: u16::try_from(partitions).expect("at most 1,024"), mask }
    }

    pub(crate) const fn partitions(self) -> usize {
        self.partitions as usize
    }

    pub(crate) const fn lists(self) -> usize {
        if self.mask == 0 { 1 } else { self.partitions as usize }
    }

    #[inline]
    pub(crate) const fn list_of(self, partition: PartitionId) -> ListId {
        ListId(partition.0 & self.mask)
    }

    /// The limits at the start: equal shares, the bytes that are left over to the first lists.
    pub(crate) fn equal_limits(self, budget: Bytes) -> impl Iterator<Item = u64> {
        let lists = self.lists() as u64;
        (0..lists).map(move |list| budget.0 / lists + u64::from(list < budget.0 % lists))
    }
}

impl ListId {
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Accounts of one thread.
#[derive(Clone, Debug)]
pub(crate) struct LocalAccounts {
    lists: Vec<ListAccount>,
    budget: u64,
    used_total: u64,
    /// False when no list is in debt; only a lowered limit makes it true again.
    debt_possible: bool,
}

#[derive(Clone, Copy, Debug)]
struct ListAccount {
    limit: u64,
    used: u64,
}

impl LocalAccounts {
    pub(crate) fn new(layout: Layout, budget: Bytes) -> Self {
        let lists = layout.equal_limits(budget).map(|limit| ListAccount { limit, used: 0 });
        Self { lists: lists.collect(), budget: budget.0, used_total: 0, debt_possible: false }
    }

    pub(crate) fn set_limit(&mut self, list: ListId, limit: Bytes) {
        self.lists[list.index()].limit = limit.0;
        self.debt_possible = true;
    }

    pub(crate) const fn budget(&self) -> u64 {
        self.budget
    }

    pub(crate) const fn used_total(&self) -> u64 {
        self.used_total
    }

    /// The debts of all lists.
    pub(crate) fn debt_total(&self) -> u64 {
        self.lists.iter().map(ListAccount::debt).sum()
    }
}

impl ListAccount {
    fn debt(&self) -> u64 {
        self.used.saturating_sub(self.limit)
    }
}

impl Accounts for LocalAccounts {
    #[inline]
    fn limit(&self, list: ListId) -> u64 {
        self.lists[list.index()].limit
    }

    fn used(&self, list: ListId) -> u64 {
        self.lists[list.index()].used
    }

    #[inline]
    fn debt(&self, list: ListId) -> u64 {
        self.lists[list.index()].debt()
    }

    #[inline]
    fn reserve(&mut self, list: ListId, bytes: u64, in_place: bool) -> Result<(), Shortage> {
        let account = &mut self.lists[list.index()];
        if account.used + bytes > account.limit && !in_place {
            return Err(Shortage::Limit);
        }
        if self.used_total + bytes > self.budget {
            return Err(Shortage::Budget);
        }
        account.used += bytes;
        self.used_total += bytes;
        Ok(())
    }

    #[inline]
    fn release(&mut self, list: ListId, bytes: u64, memory: Memory) {
        let account = &mut self.lists[list.index()];
        assert!(account.used >= bytes, "a list gives back no more than it holds");
        account.used -= bytes;
        match memory {
            Memory::Freed => self.used_total -= bytes,
            Memory::Held => {}
        }
    }

    #[inline]
    fn largest_debt(&mut self, holds_items: impl Fn(ListId) -> bool) -> Option<ListId> {
        if !self.debt_possible {
            return None;
        }
        let mut largest = (0, None);
        let mut any = false;
        for (list, account) in (0..).map(ListId).zip(&self.lists) {
            let debt = account.debt();
            any |= debt > 0;
            if debt > largest.0 && holds_items(list) {
                largest = (debt, Some(list));
            }
        }
        self.debt_possible = any;
        largest.1
    }
}
