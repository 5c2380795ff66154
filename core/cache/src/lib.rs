//! Partitioned cache with limits that change at run time.
//!
//! Place in the flow: the client library and the cache server keep values in a [`Store`], the simulator keeps the same
//! bookkeeping without values in a [`Ledger`]; the controller moves bytes between their partitions with `set_limit`.
//!
//! Two layers, one algorithm. A [`Ledger`] knows partitions, limits, debt, the eviction order and bytes; it has no keys,
//! no values and no hash. A [`Store`] adds the hash index, the values and threads; each of its shards keeps the same
//! eviction order, and both call the same code to make room (`room.rs`), so that what the simulator predicts is what the
//! cache does.
//!
//! A limit changes in O(1). A partition that is then above its limit has a *debt*, which `reclaim` and later inserts pay
//! in bounded batches, coldest first. The bytes used in all partitions never exceed the budget.

use robinhood_stats::Bytes;

mod accounts;
mod curve;
mod ledger;
mod order;
mod room;
mod sample;
mod shadow;
mod store;

pub use curve::{DistanceCounts, FootprintConfig, Footprints, StackConfig, StackDistances};
pub use ledger::Ledger;
pub use order::Eviction;
pub use room::InsertError;
pub use sample::SAMPLING_SHIFT_MAX;
pub use shadow::{Shadow, ShadowCounts};
pub use store::{
    Attributes, ItemView, Outcome, PartitionStatistics, Parts, SHARDS_MAX, Store, StoreConfig,
    StoreConfigError, StoreMemory, Touch, Update, Updated,
};

/// The most partitions of one cache.
pub const PARTITIONS_MAX: usize = 1_024;

/// Evictions per visit to a partition in debt: the batch in which [`Ledger::reclaim`] and [`Store::reclaim`] work.
pub const RECLAIM_BATCH_ITEMS: usize = 32;

/// Extra evictions that each insert makes while any partition is in debt.
pub const DEBT_EVICTIONS_PER_INSERT: u32 = 2;

/// The longest key of a store, in bytes.
pub const KEY_BYTES_MAX: usize = 65_535;

/// The weight of an item in a store without attributes: links (8 bytes); the block that holds header (12 bytes), key and value, which is rounded up to 8
/// bytes and above 256 bytes by up to 6 %, above 4 KiB by up to 13 %; and a place in the index (12 bytes). Above 8 KiB key and value lie outside: their size,
/// 32 bytes for the block and 64 for handle and reference count. A simulator that gives a [`Ledger`] this weight evicts what
/// a store would.
pub const fn item_bytes(key_bytes: usize, value_bytes: usize) -> Bytes {
    Bytes(store::Shape::new(false).item_bytes(key_bytes + value_bytes))
}

/// A partition's number: dense, from 0, in the order of the caller's table of backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u16);

/// An item's number in one [`Ledger`]. Dense: a ledger's memory grows with the highest number it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemHandle(pub u32);

/// How partitions share the budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// Each partition has its own limit and its own eviction order.
    #[default]
    Partitioned,
    /// One limit and one eviction order for all partitions (the shared cache that the paper compares with). Bytes and
    /// items are still counted per partition.
    Shared,
}

impl PartitionId {
    /// The number as an index into per-partition vectors.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
