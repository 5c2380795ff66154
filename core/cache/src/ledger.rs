//! The bookkeeping of a partitioned cache without its values: what is in it, what it weighs, what goes next.
//!
//! Place in the flow: the simulator drives one ledger per application server with dense key numbers; each shard of the store makes room by the same
//! code (`room.rs`), with another structure of the same order (`order.rs`). Single-threaded. Operations take constant time on average: now and then
//! one tidies up after as many others as there are items.
//!
//! Eviction is exact LRU per partition (what memcached's tail approximates and the paper's testbed uses), or another rule of [`Eviction`].

use robinhood_stats::Bytes;

use crate::accounts::{Accounts, Layout, ListId, LocalAccounts, Memory};
use crate::order::{AnyOrder, Eviction, Order, Tallies, with_order};
use crate::room::{self, Effort, InsertError, Victims};
use crate::{ItemHandle, PartitionId, Sharing};

/// Partitions, limits, debt, eviction order and byte counts of one cache.
///
/// # Panics
/// All methods that take a [`PartitionId`] panic when the cache has no such partition.
#[derive(Clone, Debug)]
pub struct Ledger {
    layout: Layout,
    order: AnyOrder,
    accounts: LocalAccounts,
    sharing: Sharing,
    evictions_max: u32,
}

impl Ledger {
    /// An empty cache of `budget` bytes in `partitions` partitions, with equal limits that sum to the budget.
    ///
    /// An insert evicts as many items as it needs: it fails only when the item exceeds its partition's limit, or when
    /// the limits sum to more than the budget. [`Self::with_evictions_max`] bounds its work instead.
    ///
    /// # Panics
    /// When `partitions` is 0 or above [`crate::PARTITIONS_MAX`].
    pub fn new(partitions: usize, sharing: Sharing, budget: Bytes) -> Self {
        Self::with_items_capacity(partitions, sharing, budget, 0)
    }

    /// Like [`Self::new`], with memory for the handles `0..items` taken at once.
    ///
    /// # Panics
    /// When `partitions` is 0 or above [`crate::PARTITIONS_MAX`].
    pub fn with_items_capacity(
        partitions: usize,
        sharing: Sharing,
        budget: Bytes,
        items: usize,
    ) -> Self {
        let layout = Layout::new(partitions, sharing);
        Self {
            layout,
            order: AnyOrder::new(layout, Eviction::Lru, items),
            accounts: LocalAccounts::new(layout, budget),
            sharing,
            evictions_max: u32::MAX,
        }
    }

    /// Bounds the evictions that one insert may make for its own bytes (those that pay debt come on top). An insert that
    /// needs more is refused, as in the store.
    #[must_use]
    pub const fn with_evictions_max(mut self, evictions_max: u32) -> Self {
        self.evictions_max = evictions_max;
        self
    }

    /// Evicts by another rule. The items in the cache are forgotten.
    #[must_use]
    pub fn with_eviction(self, eviction: Eviction) -> Self {
        Self {
            order: AnyOrder::new(self.layout, eviction, 0),
            accounts: LocalAccounts::new(self.layout, Bytes(self.accounts.budget())),
            ..self
        }
    }

    /// Whether the item is in the cache. Does not count as a use.
    #[inline]
    pub fn contains(&self, item: ItemHandle) -> bool {
        with_order!(&self.order, order => order.contains(item))
    }

    /// Has the processor fetch the memory that an operation on the item will need, without waiting for it. Changes nothing else. A caller that
    /// knows its next items long before it uses them saves most of the time of their look-ups.
    #[inline]
    pub fn prefetch(&self, item: ItemHandle) {
        with_order!(&self.order, order => order.prefetch(item));
    }

    /// Uses the item: with LRU it becomes the last to be evicted. False, a miss, when it is not in the cache.
    #[inline]
    pub fn touch(&mut self, item: ItemHandle) -> bool {
        with_order!(&mut self.order, order => order.touch(item))
    }

    /// Puts an item of `bytes` (its whole weight, see [`crate::item_bytes`]) into the cache as the hottest of its
    /// partition. An item that is there already is replaced. `evicted` is called for each item that leaves for it, in the order of eviction.
    ///
    /// # Errors
    /// When there is no room by the rules of [`InsertError`]. The item is then not in the cache.
    #[inline]
    pub fn insert(
        &mut self,
        partition: PartitionId,
        item: ItemHandle,
        bytes: u32,
        evicted: &mut impl FnMut(ItemHandle),
    ) -> Result<(), InsertError> {
        self.check(partition);
        let effort = Effort::new(self.evictions_max);
        let accounts = &mut self.accounts;
        with_order!(&mut self.order, order => {
            insert(order, accounts, (partition, item, bytes), effort, evicted)
        })
    }

    /// Takes an item out. False when it is not in the cache.
    #[inline]
    pub fn remove(&mut self, item: ItemHandle) -> bool {
        let accounts = &mut self.accounts;
        with_order!(&mut self.order, order => remove(order, accounts, item))
    }

    /// Changes the limit of a partition, in O(1): nothing is evicted now. A partition above its new limit is in debt until
    /// inserts or [`Self::reclaim`] have paid. In a shared cache this is the limit of all, whichever partition is named.
    ///
    /// Limits may sum to more than the budget for a while (a grow that comes before its shrink): the budget holds.
    pub fn set_limit(&mut self, partition: PartitionId, limit: Bytes) {
        self.check(partition);
        self.accounts.set_limit(self.layout.list_of(partition), limit);
    }

    /// Pays debt by evicting at most `items_max` items, in batches of [`crate::RECLAIM_BATCH_ITEMS`] from the partition with
    /// the largest debt. Gives the debt that is left, zero when none.
    pub fn reclaim(&mut self, items_max: usize, evicted: &mut impl FnMut(ItemHandle)) -> Bytes {
        let mut items_left = items_max;
        while items_left > 0 {
            let accounts = &mut self.accounts;
            let evictions = with_order!(&mut self.order, order => {
                room::reclaim_batch(&mut Evicting { order, evicted }, accounts, items_left)
            });
            if evictions == 0 {
                break;
            }
            items_left -= evictions;
        }
        Bytes(self.accounts.debt_total())
    }

    /// The partition's limit; in a shared cache the limit of all.
    pub fn limit(&self, partition: PartitionId) -> Bytes {
        self.check(partition);
        Bytes(self.accounts.limit(self.layout.list_of(partition)))
    }

    /// The bytes that the partition's items use.
    pub fn used(&self, partition: PartitionId) -> Bytes {
        Bytes(self.tallies().of(partition).bytes)
    }

    /// The number of the partition's items.
    pub fn items(&self, partition: PartitionId) -> u64 {
        self.tallies().of(partition).items
    }

    /// The bytes by which the partition exceeds its limit; in a shared cache those of all.
    pub fn debt(&self, partition: PartitionId) -> Bytes {
        self.check(partition);
        Bytes(self.accounts.debt(self.layout.list_of(partition)))
    }

    /// The bytes that all items use: never above the budget.
    pub fn used_total(&self) -> Bytes {
        Bytes(self.accounts.used_total())
    }

    /// The most bytes that all items together may use.
    pub fn budget(&self) -> Bytes {
        Bytes(self.accounts.budget())
    }

    /// The number of partitions.
    pub fn partitions(&self) -> usize {
        self.layout.partitions()
    }

    /// How partitions share the budget.
    pub const fn sharing(&self) -> Sharing {
        self.sharing
    }

    fn tallies(&self) -> &Tallies {
        with_order!(&self.order, order => order.tallies())
    }

    fn check(&self, partition: PartitionId) {
        let partitions = self.partitions();
        assert!(
            partition.index() < partitions,
            "{partition:?} in a cache of {partitions} partitions"
        );
    }
}

/// [`Ledger::insert`], once it is known which order it has.
#[inline]
fn insert<O: Order>(
    order: &mut O,
    accounts: &mut LocalAccounts,
    (partition, item, bytes): (PartitionId, ItemHandle, u32),
    mut effort: Effort,
    evicted: &mut impl FnMut(ItemHandle),
) -> Result<(), InsertError> {
    remove(order, accounts, item);
    let mut victims = Evicting { order, evicted };
    room::make_room(&mut victims, accounts, partition, bytes.into(), &mut effort)?;
    order.insert(partition, item, bytes);
    Ok(())
}

/// [`Ledger::remove`], once it is known which order it has.
#[inline]
fn remove(order: &mut impl Order, accounts: &mut LocalAccounts, item: ItemHandle) -> bool {
    let Some(gone) = order.remove(item) else { return false };
    let list = order.layout().list_of(gone.partition);
    accounts.release(list, gone.bytes.into(), Memory::Freed);
    true
}

/// The order, and who wants to know what leaves it.
struct Evicting<'a, O, F> {
    order: &'a mut O,
    evicted: &'a mut F,
}

impl<O: Order, F: FnMut(ItemHandle)> Victims for Evicting<'_, O, F> {
    fn layout(&self) -> Layout {
        self.order.layout()
    }

    #[inline]
    fn holds_items(&self, list: ListId) -> bool {
        self.order.holds_items(list)
    }

    fn list_bytes(&self, list: ListId) -> u64 {
        self.order.tallies().list_bytes(self.order.layout(), list)
    }

    #[inline]
    fn evict(&mut self, list: ListId) -> Option<(u64, Memory)> {
        let (handle, item) = self.order.remove_coldest(list)?;
        (self.evicted)(handle);
        Some((item.bytes.into(), Memory::Freed)) // in a ledger there are no readers
    }
}
