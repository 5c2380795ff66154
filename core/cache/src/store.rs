//! The cache that holds values: hash index, bytes and threads around the ledger's algorithm.
//!
//! Place in the flow: the client library looks a query up here before it asks the backend; the controller sets limits
//! and a thread of the shell calls [`Store::reclaim`] until no debt is left.
//!
//! # Concurrency
//! An item belongs to the shard that its hash names; a shard is one mutex around index, values and eviction order. Limits
//! and bytes of a partition are atomic and common to all shards, so that a partition can use its whole limit whatever its
//! keys hash to. An insert reserves its bytes by compare-and-swap within the budget before the item is visible: the sum
//! never exceeds the budget in any interleaving. No lock is held for more than [`crate::RECLAIM_BATCH_ITEMS`] + 2 evictions. What
//! large values took goes back to the allocator outside of it, pages of small ones under it.
//!
//! With one shard eviction is exactly coldest first per partition; with more, each insert evicts the coldest of its own
//! shard's part of the partition (of another's when its own has none), and each reclaim takes from a shard in proportion
//! to what it holds. Partitions of fewer than some hundred items a shard are better served by fewer shards.
//!
//! # Bytes
//! Items lie in pages of 64 KiB that are cut into blocks of one size each (`arena.rs`): header of 12 bytes (hash, lengths, state),
//! key and value in a row. With [`StoreConfig::attributes`] the header has 20 bytes more. The links of the eviction list are 8 bytes at the front of the page. What is booked covers the rounded block and the
//! item's place in the index. A `get` copies the value; [`Store::read`] shows it in place. Above 8 KiB key and value have an allocation of their
//! own, made before the lock, and a `get` clones a handle. Such a value that a reader still holds after its eviction stays booked on the budget (not
//! on its partition) until the reader has dropped it and a later insert or reclaim of the same shard has seen that.
//!
//! When sizes change, free blocks of one size are of no use for another. A shard of which more than one byte in 32 and some slack (16 MiB of all shards
//! together) lies idle empties its sparsest pages, some items with each operation (`compact.rs`). Empty pages wait for the next shard that needs one (`pool.rs`);
//! [`Store::trim`] gives them to the allocator.
//!
//! # Pauses
//! The index of a shard is cut into segments that grow and shrink one at a time, at some 1,024 items each. Nothing else grows in steps that depend on
//! the number of items, but for the table of pages (32 bytes each).

mod accounts;
mod arena;
mod block;
mod call;
mod compact;
mod config;
mod index;
mod item;
mod items;
mod pages;
mod pool;
mod serve;
mod shape;
mod shard;
mod statistics;
mod uses;

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes as Value;
use foldhash::quality::FixedState;
use robinhood_stats::Bytes;

use crate::accounts::Layout;
use crate::room::Effort;
use crate::{InsertError, KEY_BYTES_MAX, PartitionId};
use accounts::SharedAccounts;
use call::{Call, Leaving, Moment};
pub use config::{SHARDS_MAX, StoreConfig, StoreConfigError};
pub use item::{Attributes, ItemView, Outcome, Parts, Touch, Update, Updated};
use items::{Identity, Items};
use pool::PagePool;
pub(crate) use shape::Shape;
use shard::Shard;
pub use statistics::{PartitionStatistics, StoreMemory};

/// Of the bytes of all pages, the part that may lie idle in any case: one in 32.
const WASTE_SHARE: u64 = 32;
/// What may lie idle in the pages of all shards together, beyond that.
const WASTE_SLACK_BYTES: u64 = 16 << 20;

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
    shape: Shape,
    /// Items of other generations are invalidated.
    generation: AtomicU8,
    /// Held while the generation changes.
    invalidating: Mutex<()>,
    pool: PagePool,
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
        let layout = Layout::new(config.partitions, config.sharing);
        let (shape, shards) = (Shape::new(config.attributes), config.shards as u64);
        let (bytes, slack) = (config.budget.0 / shards, WASTE_SLACK_BYTES / shards);
        let pages_bytes_max = config.budget.0 + config.budget.0 / WASTE_SHARE + WASTE_SLACK_BYTES;
        let pool = PagePool::new(pages_bytes_max);
        let items = || Items::new(layout, config.eviction, shape, bytes, (pool.clone(), slack));
        let shard = |number| Padded(Mutex::new(Shard::new(items(), (number, shards))));
        Ok(Self {
            shards: (0..shards).map(shard).collect(),
            accounts: SharedAccounts::new(layout, config.budget),
            layout,
            hasher: FixedState::with_seed(config.seed),
            evictions_per_insert_max: config.evictions_per_insert_max,
            shape,
            generation: AtomicU8::new(0),
            invalidating: Mutex::new(()),
            pool,
            turn: AtomicUsize::new(0),
        })
    }

    /// The value of `key`, which becomes the last of its partition to be evicted. `None` is a miss. Knows no time: an item that is expired by a
    /// clock is still found.
    #[inline]
    pub fn get(&self, partition: PartitionId, key: &[u8]) -> Option<Value> {
        let identity = self.identity(partition, key);
        let mut call = self.call(Leaving::default());
        let mut shard = self.lock(identity.hash);
        shard.read(&identity, self.moment(None), Touch::Use, &mut call, |item| {
            item.shared_value().unwrap_or_else(|| Value::copy_from_slice(item.value()))
        })
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
        self.insert_for(partition, key, value, Leaving::default()).0
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
        let (kept, leaving) = self.insert_for(partition, key, value, Leaving::recording());
        leaving.for_each_evicted(evicted);
        kept
    }

    fn insert_for(
        &self,
        partition: PartitionId,
        key: &[u8],
        value: &[u8],
        leaving: Leaving,
    ) -> (Result<(), InsertError>, Leaving) {
        let identity = self.identity(partition, key);
        let mut call = self.call(leaving);
        if let Err(error) = self.check_size(partition, key, value) {
            let mut shard = self.lock(identity.hash);
            shard.remove(&identity, self.moment(None), &mut call);
            shard.count_refused(partition);
            return (Err(error), call.leaving);
        }
        if self.shape.class(key.len() + value.len()).is_none() {
            // Copies much, and may wait for memory: before the lock.
            call.blob = Some((value, items::blob(key, Parts::Whole(value), &[])));
        }
        let kept = loop {
            let mut shard = self.lock(identity.hash);
            let Err(error) =
                shard.insert(&identity, value, self.moment(None).generation, &mut call)
            else {
                break Ok(());
            };
            drop(shard);
            let InsertError::Refused { bytes, .. } = error else { break Err(error) };
            if !self.evict_elsewhere(&identity, bytes, &mut call) {
                break Err(error);
            }
        };
        if kept.is_err() {
            self.lock(identity.hash).count_refused(partition);
        }
        (kept, call.leaving)
    }

    /// Refuses what is too long, and what cannot fit under the limit of now before it is copied.
    fn check_size(
        &self,
        partition: PartitionId,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), InsertError> {
        if key.len() > KEY_BYTES_MAX {
            return Err(InsertError::KeyTooLong { bytes: key.len() });
        }
        let bytes = self.item_bytes(key, value).0;
        let limit = self.limit(partition).0.min(u32::MAX.into()); // an order counts an item's bytes in 32 bits
        if bytes > limit { Err(InsertError::TooLarge { bytes, limit }) } else { Ok(()) }
    }

    fn call<'v>(&self, leaving: Leaving) -> Call<'_, 'v> {
        let effort = Effort::new(self.evictions_per_insert_max);
        Call { accounts: &self.accounts, effort, leaving, blob: None }
    }

    /// To be asked for while the shard is locked: what it then holds of this generation is valid.
    #[inline]
    fn moment(&self, now_s: Option<u32>) -> Moment {
        Moment { now_s, generation: self.generation.load(Ordering::Acquire) }
    }

    /// Evicts one item for an insert whose own shard has none left of its partition, but perhaps the one that it is to replace: the first that
    /// another shard has. One lock at a time. False when no shard has one, or the insert's evictions are used up.
    fn evict_elsewhere(&self, of: &Identity<'_>, bytes: u64, call: &mut Call<'_, '_>) -> bool {
        let own = self.shard(of.hash);
        let mut others = self.shards_in_turn().filter(|shard| !std::ptr::eq(*shard, own));
        others.any(|shard| lock(shard).evict_for_other_shard(of.partition, bytes, call))
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
        let mut call = self.call(Leaving::default());
        self.lock(identity.hash).remove(&identity, self.moment(None), &mut call)
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
        self.reclaim_for(items_max, Leaving::default, |_| ())
    }

    /// Like [`Self::reclaim`], and calls `evicted` with partition and key of each evicted item, in the order of eviction,
    /// while no lock is held.
    pub fn reclaim_with(
        &self,
        items_max: usize,
        mut evicted: impl FnMut(PartitionId, &[u8]),
    ) -> Bytes {
        self.reclaim_for(items_max, Leaving::recording, |leaving| {
            leaving.for_each_evicted(&mut evicted);
        })
    }

    fn reclaim_for(
        &self,
        items_max: usize,
        leaving: impl Fn() -> Leaving,
        mut done: impl FnMut(Leaving),
    ) -> Bytes {
        let mut items_left = items_max;
        let mut idle_shards = 0;
        let mut shards = self.shards_in_turn().cycle();
        while items_left > 0 && idle_shards < self.shards.len() && self.accounts.reclaimable() {
            let mut call = self.call(leaving());
            let shard = shards.next().expect("a cycle over at least one shard");
            let evictions = lock(shard).reclaim_batch(items_left, &mut call);
            done(call.leaving);
            items_left -= evictions;
            idle_shards = if evictions == 0 { idle_shards + 1 } else { 0 };
        }
        Bytes(self.accounts.debt_total())
    }

    /// Gives memory back to the allocator: moves items together until no more pages become empty. Takes time in proportion to the memory that is
    /// given back; a shard is locked for 64 moves at a time.
    pub fn trim(&self) {
        for shard in &self.shards {
            while lock(shard).trim_batch() {}
        }
        self.pool.trim();
    }

    /// What an item of this key and value weighs.
    pub const fn item_bytes(&self, key: &[u8], value: &[u8]) -> Bytes {
        Bytes(self.shape.item_bytes(key.len() + value.len()))
    }

    #[inline]
    fn identity<'a>(&self, partition: PartitionId, key: &'a [u8]) -> Identity<'a> {
        self.check(partition);
        Identity { hash: hash(&self.hasher, partition, key), partition, key }
    }

    #[inline]
    fn lock(&self, hash: u64) -> MutexGuard<'_, Shard> {
        lock(self.shard(hash))
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Padded {
        // The highest bits choose the shard; the index uses others.
        let shard = ((hash >> 32) * self.shards.len() as u64) >> 32;
        &self.shards[shard as usize]
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
