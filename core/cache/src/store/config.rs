//! What a store is made of, and what is not accepted.
//!
//! Place in the flow: whoever makes a [`super::Store`] fills it in.

use robinhood_stats::Bytes;

use crate::{Eviction, PARTITIONS_MAX, RECLAIM_BATCH_ITEMS, Sharing};

/// The most shards of one store.
pub const SHARDS_MAX: usize = 1_024;

/// The most bytes of the budget for one shard. Handles reach twice as far, for keys do not fall into all shards alike.
const SHARD_BYTES_MAX: Bytes = Bytes::from_mib(32 * 1_024);

/// What a store is made of. [`Self::new`] gives the defaults; change fields before [`super::Store::new`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// The most bytes that all items together may use, overhead included. Above 0.
    pub budget: Bytes,
    /// The number of partitions, 1 to [`PARTITIONS_MAX`].
    pub partitions: usize,
    /// How partitions share the budget.
    pub sharing: Sharing,
    /// The number of shards, 1 to 1,024: several times the number of threads, and few enough that a partition has some hundred
    /// items in each. With 1, eviction is exact.
    pub shards: usize,
    /// The eviction rule.
    pub eviction: Eviction,
    /// The most items that one insert evicts for its own bytes, up to [`RECLAIM_BATCH_ITEMS`]: they bound how long
    /// an insert holds a lock.
    pub evictions_per_insert_max: u32,
    /// Whether items have [`crate::Attributes`], versions and times of use, as a server needs them: 20 bytes more an item.
    pub attributes: bool,
    /// Seed of the hash. Draw it at random where strangers choose keys; keep it fixed to repeat a run.
    pub seed: u64,
}

/// A configuration that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreConfigError {
    /// No bytes to hold anything.
    #[error("a cache needs a budget above 0 bytes")]
    NoBudget,
    /// Too few or too many partitions.
    #[error("a cache has 1 to {PARTITIONS_MAX} partitions, not {0}")]
    Partitions(usize),
    /// Too few or too many shards.
    #[error("a cache has 1 to {SHARDS_MAX} shards, not {0}")]
    Shards(usize),
    /// More memory in one shard than it can name places in.
    #[error("a shard has at most {SHARD_BYTES_MAX}, not {0}: take more shards")]
    ShardTooLarge(Bytes),
    /// Too many evictions under one lock.
    #[error("an insert evicts at most {RECLAIM_BATCH_ITEMS} items, not {0}")]
    Evictions(u32),
}

impl StoreConfig {
    /// A store of `budget` bytes in `partitions` partitions with 16 shards, LRU, at most 32 evictions an insert, no
    /// attributes and a fixed seed.
    pub const fn new(budget: Bytes, partitions: usize) -> Self {
        Self {
            budget,
            partitions,
            sharing: Sharing::Partitioned,
            shards: 16,
            eviction: Eviction::Lru,
            evictions_per_insert_max: 32,
            attributes: false,
            seed: 0x51ab_1e0f_7a11_0c8e,
        }
    }

    /// Checks that all is within its range.
    pub(super) fn check(&self) -> Result<(), StoreConfigError> {
        if self.budget == Bytes::ZERO {
            return Err(StoreConfigError::NoBudget);
        }
        if !(1..=PARTITIONS_MAX).contains(&self.partitions) {
            return Err(StoreConfigError::Partitions(self.partitions));
        }
        if !(1..=SHARDS_MAX).contains(&self.shards) {
            return Err(StoreConfigError::Shards(self.shards));
        }
        let shard_bytes = Bytes(self.budget.0 / self.shards as u64);
        if shard_bytes > SHARD_BYTES_MAX {
            return Err(StoreConfigError::ShardTooLarge(shard_bytes));
        }
        if self.evictions_per_insert_max as usize > RECLAIM_BATCH_ITEMS {
            return Err(StoreConfigError::Evictions(self.evictions_per_insert_max));
        }
        Ok(())
    }
}
