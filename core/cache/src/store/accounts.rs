//! Limits and bytes that all shards of a store share.
//!
//! Every count is a separate atomic; what must never happen (the budget exceeded) is prevented by compare-and-swap on
//! one of them. All accesses are sequentially consistent: on the machines we run on a load costs the same, and the proof
//! below that no debt is overlooked needs a total order.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use robinhood_stats::Bytes;

use crate::accounts::{Accounts, Layout, ListId, Memory, Shortage};

#[derive(Debug)]
pub(crate) struct SharedAccounts {
    lists: Box<[ListAccount]>,
    budget: u64,
    /// Bytes of all lists and of evicted values that readers hold.
    used_total: AtomicU64,
    held: AtomicU64,
    /// How often a debt may have come up: a limit changed, or an insert that had read the limit before it was lowered.
    debts_noted: AtomicU64,
    /// The value of `debts_noted` before a scan that found no debt. While both are equal no list is in debt: who raises
    /// a debt writes `limit` or `used` first and notes it then, a scan reads in the opposite order.
    debts_settled: AtomicU64,
}

#[derive(Debug)]
struct ListAccount {
    limit: AtomicU64,
    used: AtomicU64,
}

impl ListAccount {
    fn debt(&self) -> u64 {
        self.used.load(SeqCst).saturating_sub(self.limit.load(SeqCst))
    }
}

impl SharedAccounts {
    pub(crate) fn new(layout: Layout, budget: Bytes) -> Self {
        let lists = layout
            .equal_limits(budget)
            .map(|limit| ListAccount { limit: AtomicU64::new(limit), used: AtomicU64::new(0) });
        Self {
            lists: lists.collect(),
            budget: budget.0,
            used_total: AtomicU64::new(0),
            held: AtomicU64::new(0),
            debts_noted: AtomicU64::new(0),
            debts_settled: AtomicU64::new(0),
        }
    }

    pub(crate) fn set_limit(&self, list: ListId, limit: Bytes) {
        self.lists[list.index()].limit.store(limit.0, SeqCst);
        self.debts_noted.fetch_add(1, SeqCst);
    }

    pub(crate) fn limit(&self, list: ListId) -> u64 {
        self.lists[list.index()].limit.load(SeqCst)
    }

    pub(crate) fn debt(&self, list: ListId) -> u64 {
        self.lists[list.index()].debt()
    }

    pub(crate) fn debt_total(&self) -> u64 {
        self.lists.iter().map(ListAccount::debt).sum()
    }

    /// Whether a reclaim may find anything to do.
    pub(crate) fn reclaimable(&self) -> bool {
        self.held() > 0 || self.debts_noted.load(SeqCst) != self.debts_settled.load(SeqCst)
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
        self.used_total.load(SeqCst)
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.load(SeqCst)
    }
}

impl Accounts for &SharedAccounts {
    fn limit(&self, list: ListId) -> u64 {
        SharedAccounts::limit(self, list)
    }

    fn used(&self, list: ListId) -> u64 {
        self.lists[list.index()].used.load(SeqCst)
    }

    fn debt(&self, list: ListId) -> u64 {
        SharedAccounts::debt(self, list)
    }

    fn reserve(&mut self, list: ListId, bytes: u64, in_place: bool) -> Result<(), Shortage> {
        let account = &self.lists[list.index()];
        let below_limit = |used: u64| {
            let sum = used + bytes;
            (in_place || sum <= account.limit.load(SeqCst)).then_some(sum)
        };
        let before =
            account.used.fetch_update(SeqCst, SeqCst, below_limit).map_err(|_| Shortage::Limit)?;
        let below_budget = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.budget);
        if self.used_total.fetch_update(SeqCst, SeqCst, below_budget).is_err() {
            subtract(&account.used, bytes);
            return Err(Shortage::Budget);
        }
        if before + bytes > account.limit.load(SeqCst) {
            self.debts_noted.fetch_add(1, SeqCst);
        }
        Ok(())
    }

    fn release(&mut self, list: ListId, bytes: u64, memory: Memory) {
        subtract(&self.lists[list.index()].used, bytes);
        match memory {
            Memory::Freed => subtract(&self.used_total, bytes),
            Memory::Held => {
                self.held.fetch_add(bytes, SeqCst);
            }
        }
    }

    fn largest_debt(&mut self, holds_items: impl Fn(ListId) -> bool) -> Option<ListId> {
        let noted = self.debts_noted.load(SeqCst);
        if noted == self.debts_settled.load(SeqCst) {
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
            self.debts_settled.fetch_max(noted, SeqCst);
        }
        largest.1
    }
}

fn subtract(count: &AtomicU64, bytes: u64) {
    let before = count.fetch_sub(bytes, SeqCst);
    assert!(before >= bytes, "no more bytes are given back than were booked");
}
