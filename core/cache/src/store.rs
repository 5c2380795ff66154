//! The cache that holds values: hash index, bytes and threads around the ledger's algorithm.
//!
//! Place in the flow: the client library looks a query up here before it asks the backend; the controller sets limits
//! and a thread of the shell calls [`Store::reclaim`] until no debt is left.
//!
//! # Concurrency
//! An item belongs to the shard that its hash names; a shard is one mutex around index, values and eviction order. Limits
//! and bytes of a partition are atomic and common to all shards, so that a partition can use its whole limit whatever its
//! keys hash to. An insert reserves its bytes by compare-and-swap within the budget before the item is visible: the sum
//! never exceeds the budget in any interleaving. No lock is held for more than [`crate::RECLAIM_BATCH_ITEMS`] + 2 evictions, and
//! memory is given back to the allocator outside of it.
//!
//! With one shard eviction is exactly coldest first per partition; with more, each insert evicts the coldest of its own
//! shard's part of the partition (of another's when its own has none), and each reclaim takes from a shard in proportion
//! to what it holds. Partitions of fewer than some hundred items a shard are better served by fewer shards.
//!
//! # Bytes
//! A value is copied once, at insert, next to its key into one allocation of its exact size, so that a small value never
//! keeps a large network buffer alive. A `get` clones a handle and copies nothing. A value that a reader still holds
//! after its eviction stays booked on the budget (not on its partition) until the reader has dropped it and a later
//! insert or reclaim of the same shard has seen that.
//!
//! # Pauses
//! The index of a shard is cut into segments that grow one at a time, at some 4,096 items each when items weigh 256 bytes. The
//! vectors of nodes, hashes and values double as a whole, which copies nothing where the allocator remaps pages, as glibc's
//! does. Measured on Linux: the longest insert while a million items come in takes 0.17 ms (`docs/results/cache-bench.md`).
//! These vectors and the index do not shrink: after a change from small to large values they keep up to 70 bytes for each
//! item that was there, unbooked.

mod accounts;
mod config;
mod index;
mod shard;

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes as Value;
use foldhash::quality::FixedState;
use robinhood_stats::Bytes;

use crate::accounts::Layout;
use crate::room::Effort;
use crate::{InsertError, KEY_BYTES_MAX, PartitionId};
use accounts::SharedAccounts;
pub use config::{Eviction, SHARDS_MAX, StoreConfig, StoreConfigError};
use shard::{Identity, Leaving, Shard};

/// What a store knows about one partition. Counts are since the store was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionStatistics {
    /// Bytes allowed; in a shared cache those of all partitions together.
    pub limit: Bytes,
    /// Bytes of the partition's items.
    pub used: Bytes,
    /// Bytes above the limit; in a shared cache those of all partitions together.
    pub debt: Bytes,
    /// Items held.
    pub items: u64,
    /// Lookups that found their item.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Items accepted.
    pub inserts: u64,
    /// Items evicted, for whichever reason.
    pub evictions: u64,
    /// Inserts that were not accepted.
    pub refused: u64,
}

/// A partitioned cache for many threads.
///
/// # Panics
/// All methods that take a [`PartitionId`] panic when the cache has no such partition.
#[derive(Debug)]
pub struct Store {
    shards: Box<[Padded]>,
    accounts: SharedAccounts,
    layout: Layout,
    hasher: FixedState,
    evictions_per_insert_max: u32,
    /// Whose turn it is, see [`Self::shards_in_turn`].
    turn: AtomicUsize,
}

/// Two shards never share a cache line, nor a pair that is fetched together.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(Mutex<Shard>);

impl Store {
    /// An empty store. Limits start equal and sum to the budget.
    ///
    /// # Errors
    /// When the configuration is out of its ranges.
    pub fn new(config: &StoreConfig) -> Result<Self, StoreConfigError> {
        config.check()?;
        let Eviction::Lru = config.eviction;
        let layout = Layout::new(config.partitions, config.sharing);
        let shard_bytes = config.budget.0 / config.shards as u64;
        let shard = || Padded(Mutex::new(Shard::new(layout, shard_bytes)));
        Ok(Self {
            shards: (0..config.shards).map(|_| shard()).collect(),
            accounts: SharedAccounts::new(layout, config.budget),
            layout,
            hasher: FixedState::with_seed(config.seed),
            evictions_per_insert_max: config.evictions_per_insert_max,
            turn: AtomicUsize::new(0),
        })
    }

    /// The value of `key`, which becomes the last of its partition to be evicted. `None` is a miss.
    #[inline]
    pub fn get(&self, partition: PartitionId, key: &[u8]) -> Option<Value> {
        let identity = self.identity(partition, key);
        self.lock(identity.hash).get(&identity)
    }

    /// Keeps a copy of `value` under `key`, in place of an older one.
    ///
    /// # Errors
    /// When there is no room by the rules of [`InsertError`]. The store then holds nothing under this key.
    pub fn insert(
        &self,
        partition: PartitionId,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), InsertError> {
        self.insert_with(partition, key, value, |_, _| ())
    }

    /// Like [`Self::insert`], and calls `evicted` with partition and key of each item that left for it, in the order of
    /// eviction, after all locks are released.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_with(
        &self,
        partition: PartitionId,
        key: &[u8],
        value: &[u8],
        evicted: impl FnMut(PartitionId, &[u8]),
    ) -> Result<(), InsertError> {
        let identity = self.identity(partition, key);
        if key.len() > KEY_BYTES_MAX {
            self.lock(identity.hash).count_refused(partition);
            return Err(InsertError::KeyTooLong { bytes: key.len() });
        }
        let bytes = self.item_bytes(key, value).0;
        let mut leaving = Leaving::default();
        if let Err(error) = self.check_size(partition, bytes) {
            let mut shard = self.lock(identity.hash);
            shard.remove(&identity, &self.accounts, &mut leaving);
            shard.count_refused(partition);
            return Err(error);
        }
        let mut blob = Some(shard::blob(&identity, value)); // copies, and may wait for memory: before the lock
        let mut effort = Effort::new(self.evictions_per_insert_max);
        let kept = loop {
            let mut shard = self.lock(identity.hash);
            match shard.insert(&identity, &mut blob, &self.accounts, &mut effort, &mut leaving) {
                Ok(()) => break Ok(()),
                Err(error) => {
                    drop(shard);
                    let refused = matches!(error, InsertError::Refused { .. });
                    if !refused
                        || !self.evict_elsewhere(partition, bytes, &mut effort, &mut leaving)
                    {
                        self.lock(identity.hash).count_refused(partition);
                        break Err(error);
                    }
                }
            }
        };
        leaving.for_each_evicted(evicted);
        kept
    }

    /// Refuses what cannot fit under the limit of now, before it is copied.
    fn check_size(&self, partition: PartitionId, bytes: u64) -> Result<(), InsertError> {
        let limit = self.limit(partition).0.min(u32::MAX.into()); // an order counts an item's bytes in 32 bits
        if bytes > limit { Err(InsertError::TooLarge { bytes, limit }) } else { Ok(()) }
    }

    /// Evicts one item for an insert whose own shard has none left of its partition: the first that a shard has. One lock at a
    /// time. False when no shard has one, or the insert's evictions are used up.
    fn evict_elsewhere(
        &self,
        partition: PartitionId,
        bytes: u64,
        effort: &mut Effort,
        leaving: &mut Leaving,
    ) -> bool {
        let accounts = &self.accounts;
        self.shards_in_turn().any(|shard| {
            let mut shard = lock(shard);
            shard.evict_for_other_shard(partition, bytes, accounts, effort, leaving)
        })
    }

    /// Every shard once, for evictions that no key asks for. Each walk starts one further; walks at the same time do not
    /// make each other skip a shard.
    fn shards_in_turn(&self) -> impl Iterator<Item = &Padded> + Clone {
        let start = self.turn.fetch_add(1, Ordering::Relaxed) % self.shards.len();
        self.shards[start..].iter().chain(&self.shards[..start])
    }

    /// Forgets `key`. False when it was not there.
    pub fn remove(&self, partition: PartitionId, key: &[u8]) -> bool {
        let identity = self.identity(partition, key);
        let mut leaving = Leaving::default();
        self.lock(identity.hash).remove(&identity, &self.accounts, &mut leaving)
    }

    /// Changes the limit of a partition, in O(1): nothing is evicted now. A partition above its new limit is in debt until
    /// inserts or [`Self::reclaim`] have paid. In a shared cache this is the limit of all, whichever partition is named.
    ///
    /// Limits may sum to more than the budget for a while (a grow that comes before its shrink): the budget holds.
    pub fn set_limit(&self, partition: PartitionId, limit: Bytes) {
        self.check(partition);
        self.accounts.set_limit(self.layout.list_of(partition), limit);
    }

    /// Pays debt by evicting at most `items_max` items, and books what readers have dropped meanwhile. A shard is locked
    /// for at most [`crate::RECLAIM_BATCH_ITEMS`] evictions at a time; shards take turns. Gives the debt that is left, zero when
    /// none: call it again, after other work, until then.
    pub fn reclaim(&self, items_max: usize) -> Bytes {
        self.reclaim_with(items_max, |_, _| ())
    }

    /// Like [`Self::reclaim`], and calls `evicted` with partition and key of each evicted item, in the order of eviction,
    /// while no lock is held.
    pub fn reclaim_with(
        &self,
        items_max: usize,
        mut evicted: impl FnMut(PartitionId, &[u8]),
    ) -> Bytes {
        let mut items_left = items_max;
        let mut idle_shards = 0;
        let mut shards = self.shards_in_turn().cycle();
        while items_left > 0 && idle_shards < self.shards.len() && self.accounts.reclaimable() {
            let mut leaving = Leaving::default();
            let shard = shards.next().expect("a cycle over at least one shard");
            let evictions = lock(shard).reclaim_batch(&self.accounts, items_left, &mut leaving);
            leaving.for_each_evicted(&mut evicted);
            items_left -= evictions;
            idle_shards = if evictions == 0 { idle_shards + 1 } else { 0 };
        }
        Bytes(self.accounts.debt_total())
    }

    /// Counts of one partition. Locks each shard once, one after the other: counts of a busy store are of slightly
    /// different moments.
    pub fn statistics(&self, partition: PartitionId) -> PartitionStatistics {
        self.check(partition);
        let list = self.layout.list_of(partition);
        let mut statistics = PartitionStatistics {
            limit: self.limit(partition),
            debt: Bytes(self.accounts.debt(list)),
            ..PartitionStatistics::default()
        };
        for shard in &self.shards {
            lock(shard).add_statistics(partition, &mut statistics);
        }
        statistics
    }

    /// The partition's limit; in a shared cache the limit of all.
    pub fn limit(&self, partition: PartitionId) -> Bytes {
        self.check(partition);
        Bytes(self.accounts.limit(self.layout.list_of(partition)))
    }

    /// The bytes that all items use, those that readers still hold after eviction included: never above the budget.
    pub fn used_total(&self) -> Bytes {
        Bytes(self.accounts.used_total())
    }

    /// The bytes of evicted values that readers still held when last looked at.
    pub fn held_by_readers(&self) -> Bytes {
        Bytes(self.accounts.held())
    }

    /// The most bytes that all items together may use.
    pub fn budget(&self) -> Bytes {
        Bytes(self.accounts.budget())
    }

    /// The number of partitions.
    pub fn partitions(&self) -> usize {
        self.layout.partitions()
    }

    /// What an item of this key and value weighs.
    pub const fn item_bytes(&self, key: &[u8], value: &[u8]) -> Bytes {
        crate::item_bytes(key.len(), value.len())
    }

    #[inline]
    fn identity<'a>(&self, partition: PartitionId, key: &'a [u8]) -> Identity<'a> {
        self.check(partition);
        Identity { hash: hash(&self.hasher, partition, key), partition, key }
    }

    #[inline]
    fn lock(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // The highest bits choose the shard; the index uses others.
        let shard = ((hash >> 32) * self.shards.len() as u64) >> 32;
        lock(&self.shards[shard as usize])
    }

    #[inline]
    fn check(&self, partition: PartitionId) {
        let partitions = self.layout.partitions();
        assert!(
            partition.index() < partitions,
            "{partition:?} in a cache of {partitions} partitions"
        );
    }
}

#[inline]
fn lock(shard: &Padded) -> MutexGuard<'_, Shard> {
    shard.0.lock().expect("a thread panicked while it changed this shard: its counts are lost")
}

#[inline]
fn hash(hasher: &FixedState, partition: PartitionId, key: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(key);
    hasher.write_u16(partition.0);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_at_the_same_time_visit_every_shard_once_each_and_start_in_turn() {
        let store = Store::new(&StoreConfig::new(Bytes::from_mib(1), 1)).unwrap();
        let place = |shard: &Padded| store.shards.iter().position(|one| std::ptr::eq(one, shard));
        let (first, second) = (store.shards_in_turn(), store.shards_in_turn());
        let (mut by_first, mut by_second): (Vec<_>, Vec<_>) =
            first.zip(second).map(|(a, b)| (place(a), place(b))).unzip();
        assert_ne!(by_first[0], by_second[0]);
        for visited in [&mut by_first, &mut by_second] {
            visited.sort_unstable();
            assert!(visited.iter().copied().eq((0..16).map(Some)), "{visited:?}");
        }
    }
}
