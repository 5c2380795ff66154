//! What the loop needs of a cache: limits to set, and a reading of what it holds.
//!
//! Place in the flow: between the loop and a cache, which may be in this process ([`StoreCache`]), or one or several servers that an
//! adapter speaks to. The loop never waits for a cache: whatever takes time happens on a thread of the adapter, and the next reading shows it.

use std::sync::Arc;

use robinhood_cache::{PartitionId, RECLAIM_BATCH_ITEMS, Store};
use robinhood_controller::PartitionUsage;
use robinhood_stats::{BackendName, Bytes};

/// Batches in which one reading pays debts: 32 items each. What is left waits for the next.
const RECLAIM_BATCHES_MAX: usize = 1_000;

/// What a cache says when it is asked what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// What all partitions hold, read after every limit that was set before took effect. A partition that still holds more than its limit
    /// is freeing it.
    Current(Vec<PartitionUsage>),
    /// It has not been read yet since the last limit was set.
    Pending,
    /// It cannot be read, or lost or refused a limit. The controller holds until there is a reading again.
    Failed {
        /// Whose partition.
        backend: BackendName,
        /// What is wrong, for the decision record.
        reason: String,
    },
}

/// A cache in partitions whose limits can be moved. No call waits for the cache.
pub trait ManagedCache: Send {
    /// The backends that have a partition; a partition's number is the place of its backend.
    fn names(&self) -> &[BackendName];

    /// Bytes of all partitions together.
    fn budget(&self) -> Bytes;

    /// Limits change in multiples of this.
    fn granule(&self) -> Bytes {
        Bytes(1)
    }

    /// The least limit that a partition can have.
    fn limit_min(&self) -> Bytes {
        Bytes::ZERO
    }

    /// The limits that the cache holds its partitions to now, by number, as it last said.
    fn limits(&self) -> Vec<Bytes>;

    /// What the cache holds now, or why that is not known.
    fn read(&mut self) -> Reading;

    /// Holds a partition to `limit` bytes from now on, a multiple of [`Self::granule`] if the limits so far were. Shrinking may take time.
    fn set_limit(&mut self, partition: usize, limit: Bytes);
}

/// A [`Store`] in this process, or behind a server in this process.
pub struct StoreCache {
    store: Arc<Store>,
    /// Where the partitions begin.
    first: u16,
    budget: Bytes,
    names: Vec<BackendName>,
    item_bytes_max: Vec<Bytes>,
    pays_debts: bool,
}

impl StoreCache {
    /// Partition `i` of `store` is that of backend number `i`. `item_bytes_max` is, by number, what the largest object takes; where it is
    /// missing it is not known.
    pub fn new(store: Arc<Store>, names: Vec<BackendName>, mut item_bytes_max: Vec<Bytes>) -> Self {
        item_bytes_max.resize(names.len(), Bytes::ZERO);
        Self { budget: store.budget(), store, first: 0, names, item_bytes_max, pays_debts: true }
    }

    /// The partitions begin with this one; what those before it may hold is not moved.
    #[must_use]
    pub fn from_partition(mut self, first: PartitionId) -> Self {
        self.first = first.0;
        self.budget = self.limits().into_iter().sum();
        self
    }

    /// Leaves it to somebody else to evict what is above a limit: to the housekeeper of a server, which gives way to its workers.
    #[must_use]
    pub fn debts_are_paid_elsewhere(mut self) -> Self {
        self.pays_debts = false;
        self
    }

    /// Evicts what is over its limit, in batches, and stops when all is paid or the debt does not fall.
    fn pay_debts(&self) {
        let mut debt = Bytes(u64::MAX);
        for _ in 0..RECLAIM_BATCHES_MAX {
            let left = self.store.reclaim(RECLAIM_BATCH_ITEMS);
            if left == Bytes::ZERO || left >= debt {
                return;
            }
            debt = left;
        }
    }
}

impl ManagedCache for StoreCache {
    fn names(&self) -> &[BackendName] {
        &self.names
    }

    fn budget(&self) -> Bytes {
        self.budget
    }

    fn limits(&self) -> Vec<Bytes> {
        (self.first..).zip(&self.names).map(|(id, _)| self.store.limit(PartitionId(id))).collect()
    }

    fn read(&mut self) -> Reading {
        if self.pays_debts {
            self.pay_debts();
        }
        let usage = |((id, name), &item_bytes_max): ((u16, &BackendName), &Bytes)| {
            let seen = self.store.statistics(PartitionId(id));
            PartitionUsage {
                name: name.clone(),
                limit: seen.limit,
                used: seen.used,
                item_bytes_max,
            }
        };
        Reading::Current(
            (self.first..).zip(&self.names).zip(&self.item_bytes_max).map(usage).collect(),
        )
    }

    fn set_limit(&mut self, partition: usize, limit: Bytes) {
        let id = u16::try_from(partition).expect("a partition of the store");
        self.store.set_limit(PartitionId(self.first + id), limit);
    }
}
