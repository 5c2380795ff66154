//! What one call of a store carries through the shards that it locks.

use bytes::Bytes as Value;

use super::ItemView;
use super::accounts::SharedAccounts;
use crate::PartitionId;
use crate::room::Effort;

/// What one call brings along to the shards that it locks.
#[derive(Debug)]
pub(crate) struct Call<'s, 'v> {
    pub(crate) accounts: &'s SharedAccounts,
    pub(crate) effort: Effort,
    pub(crate) leaving: Leaving,
    /// Key and value for outside of a block, and the value that they were made of.
    pub(crate) blob: Option<(&'v [u8], Value)>,
}

/// Since when which items count as absent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The second of the caller's clock; `None`: the caller has none, no item is expired.
    pub(crate) now_s: Option<u32>,
    /// Items of other generations are invalidated.
    pub(crate) generation: u8,
}

/// What leaves the shard: shown and dropped by the caller, after the lock.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    /// Partition of each evicted item and where its key ends in `keys`; empty when nobody wants to know.
    evicted: Vec<(PartitionId, usize)>,
    keys: Vec<u8>,
    wanted: bool,
    pub(super) blobs: Vec<Value>,
}

impl Leaving {
    /// Keeps the keys of evicted items.
    pub(crate) fn recording() -> Self {
        Self { wanted: true, ..Self::default() }
    }

    /// Shows the evicted items, in the order of eviction, and drops everything.
    pub(crate) fn for_each_evicted(self, mut evicted: impl FnMut(PartitionId, &[u8])) {
        let mut start = 0;
        for (partition, end) in self.evicted {
            evicted(partition, &self.keys[start..end]);
            start = end;
        }
    }

    pub(super) fn note(&mut self, partition: PartitionId, item: &ItemView<'_>) {
        if self.wanted {
            self.keys.extend_from_slice(item.key());
            self.evicted.push((partition, self.keys.len()));
        }
    }
}
