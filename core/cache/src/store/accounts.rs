//! Limits and bytes that all shards of a store share.
//!
//! Every count is a separate atomic; what must never happen (the budget exceeded) is prevented by compare-and-swap on
//! one of them. All accesses are sequentially consistent: on the machines we run on a load costs the same, and the proof
//! below that no debt is overlooked needs a total order. The tests go through many interleavings of small cases, with shuttle's counters in
//! place of the processor's.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use robinhood_stats::Bytes;

use crate::accounts::{Accounts, Layout, ListId, Memory, Shortage};

/// An atomic number.
pub(crate) trait Counter {
    fn new(count: u64) -> Self;
    fn load(&self) -> u64;
    fn store(&self, count: u64);
    fn add(&self, count: u64);
    /// Gives the number before.
    fn subtract(&self, count: u64) -> u64;
    fn raise_to(&self, count: u64);
    /// Gives the number before, or `None` when `change` refuses the present one.
    fn update(&self, change: impl FnMut(u64) -> Option<u64>) -> Option<u64>;
}

/// One implementation for each kind of atomic, which have no trait in common.
macro_rules! implement_counter {
    ($atomic:ty) => {
        impl Counter for $atomic {
            fn new(count: u64) -> Self {
                Self::new(count)
            }

            fn load(&self) -> u64 {
                self.load(SeqCst)
            }

            fn store(&self, count: u64) {
                self.store(count, SeqCst);
            }

            fn add(&self, count: u64) {
                self.fetch_add(count, SeqCst);
            }

            fn subtract(&self, count: u64) -> u64 {
                self.fetch_sub(count, SeqCst)
            }

            fn raise_to(&self, count: u64) {
                self.fetch_max(count, SeqCst);
            }

            fn update(&self, change: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
                self.fetch_update(SeqCst, SeqCst, change).ok()
            }
        }
    };
}

implement_counter!(AtomicU64);

#[derive(Debug)]
pub(crate) struct SharedAccounts<C = AtomicU64> {
    lists: Box<[ListAccount<C>]>,
    budget: u64,
    /// Bytes of all lists and of evicted values that readers hold.
    used_total: C,
    held: C,
    /// How often a debt may have come up: a limit changed, or an insert that had read the limit before it was lowered.
    debts_noted: C,
    /// The value of `debts_noted` before a scan that found no debt. While both are equal no list is in debt: who raises
    /// a debt writes `limit` or `used` first and notes it then, a scan reads in the opposite order.
    debts_settled: C,
}

#[derive(Debug)]
struct ListAccount<C> {
    limit: C,
    used: C,
}

impl<C: Counter> ListAccount<C> {
    fn debt(&self) -> u64 {
        self.used.load().saturating_sub(self.limit.load())
    }
}

impl<C: Counter> SharedAccounts<C> {
    pub(crate) fn new(layout: Layout, budget: Bytes) -> Self {
        let lists = layout
            .equal_limits(budget)
            .map(|limit| ListAccount { limit: C::new(limit), used: C::new(0) });
        Self {
            lists: lists.collect(),
            budget: budget.0,
            used_total: C::new(0),
            held: C::new(0),
            debts_noted: C::new(0),
            debts_settled: C::new(0),
        }
    }

    pub(crate) fn set_limit(&self, list: ListId, limit: Bytes) {
        self.lists[list.index()].limit.store(limit.0);
        self.debts_noted.add(1);
    }

    pub(crate) fn limit(&self, list: ListId) -> u64 {
        self.lists[list.index()].limit.load()
    }

    pub(crate) fn debt(&self, list: ListId) -> u64 {
        self.lists[list.index()].debt()
    }

    pub(crate) fn debt_total(&self) -> u64 {
        self.lists.iter().map(ListAccount::debt).sum()
    }

    /// Whether a reclaim may find anything to do.
    pub(crate) fn reclaimable(&self) -> bool {
        self.held() > 0 || self.debts_noted.load() != self.debts_settled.load()
    }

    /// A reader has dropped an evicted value.
    pub(crate) fn release_held(&self, bytes: u64) {
        subtract(&self.held, bytes);
        subtract(&self.used_total, bytes);
    }

    pub(crate) const fn budget(&self) -> u64 {
        self.budget
    }

    pub(crate) fn used_total(&self) -> u64 {
        self.used_total.load()
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.load()
    }
}

impl<C: Counter> Accounts for &SharedAccounts<C> {
    fn limit(&self, list: ListId) -> u64 {
        SharedAccounts::limit(self, list)
    }

    fn used(&self, list: ListId) -> u64 {
        self.lists[list.index()].used.load()
    }

    fn debt(&self, list: ListId) -> u64 {
        SharedAccounts::debt(self, list)
    }

    fn reserve(&mut self, list: ListId, bytes: u64, in_place: bool) -> Result<(), Shortage> {
        let account = &self.lists[list.index()];
        let below_limit = |used: u64| {
            let sum = used + bytes;
            (in_place || sum <= account.limit.load()).then_some(sum)
        };
        let before = account.used.update(below_limit).ok_or(Shortage::Limit)?;
        let below_budget = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.budget);
        if self.used_total.update(below_budget).is_none() {
            subtract(&account.used, bytes);
            return Err(Shortage::Budget);
        }
        if before + bytes > account.limit.load() {
            self.debts_noted.add(1);
        }
        Ok(())
    }

    fn release(&mut self, list: ListId, bytes: u64, memory: Memory) {
        subtract(&self.lists[list.index()].used, bytes);
        match memory {
            Memory::Freed => subtract(&self.used_total, bytes),
            Memory::Held => {
                self.held.add(bytes);
            }
        }
    }

    fn largest_debt(&mut self, holds_items: impl Fn(ListId) -> bool) -> Option<ListId> {
        let noted = self.debts_noted.load();
        if noted == self.debts_settled.load() {
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
        if !any {
            self.debts_settled.raise_to(noted);
        }
        largest.1
    }
}

fn subtract(count: &impl Counter, bytes: u64) {
    let before = count.subtract(bytes);
    assert!(before >= bytes, "no more bytes are given back than were booked");
}

#[cfg(test)]
mod tests;
