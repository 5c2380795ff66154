//! What a store tells of itself: limits, counts and memory.
//!
//! Place in the flow: the controller, the pages of measurements and the tests ask.

use robinhood_stats::Bytes;

use super::{Store, lock};
use crate::PartitionId;

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
    /// Items taken out because their time was over or because they were invalidated.
    pub expired: u64,
    /// Inserts that were not accepted.
    pub refused: u64,
    /// How long before the latest second of the caller's clock the coldest item was used, in seconds; in a shared cache the coldest of all
    /// partitions. `None` where there are no items and in a store without attributes.
    pub age_of_coldest_s: Option<u32>,
}

/// Where a store's memory is. What a malloc adds to it is not known here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreMemory {
    /// Pages of blocks.
    pub page_bytes: Bytes,
    /// Empty pages that wait for a use; [`Store::trim`] gives them back.
    pub idle_bytes: Bytes,
    /// The part of them in blocks that hold items: the rest is fragmentation, up to one byte in 32 and 16 MiB.
    pub live_bytes: Bytes,
    /// Keys and values that are too large for a block, without those that only readers hold.
    pub large_bytes: Bytes,
    /// Tables of the index.
    pub index_bytes: Bytes,
}

impl Store {
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
        let (mut coldest_s, mut latest_s) = (None, 0);
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.add_statistics(partition, &mut statistics);
            if self.shape.has_attributes() {
                let (coldest, latest) = shard.coldest_and_latest_s(partition);
                coldest_s = coldest_s.into_iter().chain(coldest).min();
                latest_s = latest_s.max(latest);
            }
        }
        statistics.age_of_coldest_s = coldest_s.map(|second| latest_s.saturating_sub(second));
        statistics
    }

    /// Where the store's memory is. Locks each shard once, one after the other.
    pub fn memory(&self) -> StoreMemory {
        let idle_bytes = Bytes(self.pool.idle_bytes());
        let mut memory = StoreMemory { idle_bytes, ..StoreMemory::default() };
        for shard in &self.shards {
            lock(shard).add_memory(&mut memory);
        }
        memory
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
}
