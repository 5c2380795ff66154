//! Making room: how an insert gets its bytes, and how debt is paid.
//!
//! Place in the flow: called by [`crate::Ledger`] with the accounts of one thread and by each shard of the store with
//! accounts that all shards share. A store of one shard that one thread uses evicts the same items in the same order as a
//! ledger. With more shards or threads the rules are the same and the order is approximate: a shard sees its own part of a
//! list, and limits, debts and room may change between two steps of an insert.
//!
//! The rules:
//! 1. An item larger than its partition's limit is refused at once.
//! 2. While any partition is in debt, an insert first evicts two items of the one with the largest debt.
//! 3. Then it evicts the coldest items of its own partition until the item fits under the limit. A partition that is in
//!    debt itself has to free as many bytes as the item brings: an insert never makes a debt larger.
//! 4. If the budget has no bytes left although the partition is below its limit, another partition is in debt (or the
//!    limits sum to more than the budget): the partition with the largest debt loses its coldest item, else the own one.
//! 5. Rules 3 and 4 together evict at most a number of items that the caller sets; if that is not enough, the item is
//!    refused. What was evicted until then stays evicted, so that a repeated insert gets further.
//!
//! An order may be one shard's part of the lists. The store then lets the same effort go on in other shards.

use crate::accounts::{Accounts, Layout, ListId, Memory, Shortage};
use crate::{DEBT_EVICTIONS_PER_INSERT, PartitionId, RECLAIM_BATCH_ITEMS};

/// Lists of items that can be evicted.
pub(crate) trait Victims {
    fn layout(&self) -> Layout;

    /// Whether the list has items.
    fn holds_items(&self, list: ListId) -> bool;

    /// The bytes of the list's items.
    fn list_bytes(&self, list: ListId) -> u64;

    /// Told before so many items, about, are evicted from the list one after the other: a chance to have their memory fetched all at once.
    fn prepare(&self, _list: ListId, _items: usize) {}

    /// Evicts the item of the list that has to go first. Gives its bytes and what became of them; `None` when the list is empty.
    fn evict(&mut self, list: ListId) -> Option<(u64, Memory)>;
}

/// Why an item was not kept. The cache then does not hold the item, also not an older version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InsertError {
    /// The item alone exceeds the limit of its partition.
    #[error(
        "an item of {bytes} bytes never fits under its partition's limit of {limit} bytes: raise the limit or do not cache it"
    )]
    TooLarge {
        /// The item's size, overhead included.
        bytes: u64,
        /// The limit that it exceeds.
        limit: u64,
    },
    /// The evictions that one insert may make did not free enough.
    #[error(
        "no room for {bytes} bytes after {evictions} evictions: go on without, insert it at its next miss"
    )]
    Refused {
        /// The item's size, overhead included.
        bytes: u64,
        /// The items that were evicted in vain.
        evictions: u32,
    },
    /// The key is longer than a store keeps.
    #[error("a key of {bytes} bytes is too long: the most is {}", crate::KEY_BYTES_MAX)]
    KeyTooLong {
        /// The key's length.
        bytes: usize,
    },
}

/// What one insert has done and may still do to get its bytes; it may go on in another shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    evictions: u32,
    evictions_max: u32,
    /// Bytes evicted from the insert's own list.
    own_freed: u64,
    debt_paid: bool,
}

impl Effort {
    pub(crate) const fn new(evictions_max: u32) -> Self {
        Self { evictions: 0, evictions_max, own_freed: 0, debt_paid: false }
    }

    pub(crate) const fn refused(&self, bytes: u64) -> InsertError {
        InsertError::Refused { bytes, evictions: self.evictions }
    }
}

/// Reserves `bytes` for an item of `partition`, evicting by the rules in the module's header. After `Ok` the caller
/// adds the item to the order.
#[inline]
pub(crate) fn make_room(
    victims: &mut impl Victims,
    accounts: &mut impl Accounts,
    partition: PartitionId,
    bytes: u64,
    effort: &mut Effort,
) -> Result<(), InsertError> {
    let own = victims.layout().list_of(partition);
    let limit = accounts.limit(own);
    if bytes > limit {
        return Err(InsertError::TooLarge { bytes, limit });
    }
    if !effort.debt_paid {
        effort.debt_paid = true;
        pay_debt(victims, accounts);
    }
    while let Err(shortage) = accounts.reserve(own, bytes, effort.own_freed >= bytes) {
        if !evict_for(victims, accounts, own, shortage, effort) {
            return Err(effort.refused(bytes));
        }
    }
    Ok(())
}

/// Evicts one item that an insert into the list `own` may evict; false when there is none or the insert's evictions are
/// used up.
pub(crate) fn evict_for(
    victims: &mut impl Victims,
    accounts: &mut impl Accounts,
    own: ListId,
    shortage: Shortage,
    effort: &mut Effort,
) -> bool {
    if effort.evictions == effort.evictions_max {
        return false;
    }
    let victim = match shortage {
        Shortage::Limit => own,
        Shortage::Budget => accounts.largest_debt(|list| victims.holds_items(list)).unwrap_or(own),
    };
    let Some(freed) = evict(victims, accounts, victim) else { return false };
    effort.evictions += 1;
    if victim == own {
        effort.own_freed += freed;
    }
    true
}

/// The share of an insert in paying debts: two evictions from the list with the largest debt.
#[inline]
fn pay_debt(victims: &mut impl Victims, accounts: &mut impl Accounts) {
    if let Some(debtor) = accounts.largest_debt(|list| victims.holds_items(list)) {
        let items_max = DEBT_EVICTIONS_PER_INSERT as usize;
        evict_while_in_debt(victims, accounts, debtor, items_max, u128::MAX);
    }
}

/// Evicts one batch of items of the list with the largest debt, as long as it is in debt: at most
/// [`RECLAIM_BATCH_ITEMS`], less where `items_left` is then divided into equal batches, so that shards that take turns
/// pay alike. Gives the number of evictions: zero when no list that holds items is in debt.
///
/// `victims` may be a part of the list only (one shard's): it then pays its share of the debt, at least one item, so that
/// a small partition does not lose all it has in one shard.
pub(crate) fn reclaim_batch(
    victims: &mut impl Victims,
    accounts: &mut impl Accounts,
    items_left: usize,
) -> usize {
    let batches = items_left.div_ceil(RECLAIM_BATCH_ITEMS).max(1);
    let items_max = items_left.div_ceil(batches);
    let Some(debtor) = accounts.largest_debt(|list| victims.holds_items(list)) else {
        return 0;
    };
    let (debt, used) = (accounts.debt(debtor), accounts.used(debtor).max(1));
    let share = u128::from(debt) * u128::from(victims.list_bytes(debtor)) / u128::from(used);
    victims.prepare(debtor, items_max);
    evict_while_in_debt(victims, accounts, debtor, items_max, share.max(1))
}

/// Evicts at most `items_max` items, while the list is in debt and until `bytes_max` are freed.
fn evict_while_in_debt(
    victims: &mut impl Victims,
    accounts: &mut impl Accounts,
    debtor: ListId,
    items_max: usize,
    bytes_max: u128,
) -> usize {
    let (mut evictions, mut freed) = (0, 0);
    while evictions < items_max && freed < bytes_max && accounts.debt(debtor) > 0 {
        let Some(bytes) = evict(victims, accounts, debtor) else { break };
        freed += u128::from(bytes);
        evictions += 1;
    }
    evictions
}

/// Evicts the item of the list that has to go first and gives its bytes; `None` when the list is empty.
fn evict(victims: &mut impl Victims, accounts: &mut impl Accounts, list: ListId) -> Option<u64> {
    let (bytes, memory) = victims.evict(list)?;
    accounts.release(list, bytes, memory);
    Some(bytes)
}
