//! One shard: index, values and eviction order behind one lock.

use std::collections::VecDeque;

use bytes::Bytes as Value;
use robinhood_stats::Bytes;

use super::PartitionStatistics;
use super::accounts::SharedAccounts;
use super::index::Index;
use crate::accounts::{Accounts, Layout, Memory, Shortage};
use crate::order::{LinkedOrder, Order};
use crate::room::{self, Effort, InsertError};
use crate::{ITEM_OVERHEAD_BYTES, ItemHandle, PartitionId, RECLAIM_BATCH_ITEMS};

/// Bytes in front of the key in a blob: partition and length of the key.
const HEADER_BYTES: usize = 4;
/// Values held by readers that an insert looks at.
const HELD_CHECKS_PER_INSERT: usize = 4;

/// What an item is known by, and its hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity<'a> {
    pub(crate) hash: u64,
    pub(crate) partition: PartitionId,
    pub(crate) key: &'a [u8],
}

/// Values that leave the shard: dropped by the caller, after the lock.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    evicted: Vec<Value>,
    others: Vec<Value>,
}

#[derive(Debug)]
pub(crate) struct Shard {
    order: LinkedOrder,
    contents: Contents,
}

/// All of a shard but its eviction order.
#[derive(Debug)]
struct Contents {
    index: Index,
    /// By slot: header, key and value in one allocation; empty when the slot is free.
    blobs: Vec<Value>,
    free_slots: Vec<u32>,
    counts: Vec<Counts>,
    /// Blobs that have left the index while a reader had a handle of them.
    held: VecDeque<Value>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    hits: u64,
    misses: u64,
    inserts: u64,
    evictions: u64,
    refused: u64,
}

/// Header, key and value in one allocation of exactly their size.
pub(crate) fn blob(identity: &Identity<'_>, value: &[u8]) -> Value {
    let header = header(identity.partition, identity.key).expect("the store refuses longer keys");
    let mut blob = Vec::with_capacity(HEADER_BYTES + identity.key.len() + value.len());
    blob.extend_from_slice(&header.to_le_bytes());
    blob.extend_from_slice(identity.key);
    blob.extend_from_slice(value);
    blob.into()
}

/// One number, so that it is compared at once: the partition in the lower half, the key's length in the upper. `None` for a
/// key that is longer than any item's.
#[inline]
fn header(partition: PartitionId, key: &[u8]) -> Option<u32> {
    let key_bytes = u16::try_from(key.len()).ok()?;
    Some(u32::from(partition.0) | u32::from(key_bytes) << 16)
}

/// A blob's header and what follows it.
#[inline]
fn split(blob: &[u8]) -> (u32, &[u8]) {
    let (header, rest) = blob.split_first_chunk().expect("a blob has a header");
    (u32::from_le_bytes(*header), rest)
}

/// What the item in a blob is booked with.
pub(crate) fn weight(blob: &[u8]) -> u64 {
    (blob.len() - HEADER_BYTES) as u64 + ITEM_OVERHEAD_BYTES
}

/// The partition and the key in a blob.
fn identity_of(blob: &[u8]) -> (PartitionId, &[u8]) {
    let (header, rest) = split(blob);
    (PartitionId(header as u16), &rest[..(header >> 16) as usize])
}

impl Leaving {
    /// Shows the evicted items, in the order of eviction, and drops everything.
    pub(crate) fn for_each_evicted(self, mut evicted: impl FnMut(PartitionId, &[u8])) {
        for blob in self.evicted {
            let (partition, key) = identity_of(&blob);
            evicted(partition, key);
        }
    }
}

impl Shard {
    /// An empty shard for some `bytes` of items.
    pub(crate) fn new(layout: Layout, bytes: u64) -> Self {
        let contents = Contents {
            index: Index::new(bytes),
            blobs: Vec::new(),
            free_slots: Vec::new(),
            counts: vec![Counts::default(); layout.partitions()],
            held: VecDeque::new(),
        };
        Self { order: LinkedOrder::new(layout), contents }
    }

    #[inline]
    pub(crate) fn get(&mut self, identity: &Identity<'_>) -> Option<Value> {
        let Some(slot) = self.contents.find(identity) else {
            self.contents.counts[identity.partition.index()].misses += 1;
            return None;
        };
        self.contents.counts[identity.partition.index()].hits += 1;
        self.order.touch(ItemHandle(slot));
        Some(self.contents.blobs[slot as usize].slice(HEADER_BYTES + identity.key.len()..))
    }

    /// Puts the blob in, the one with `identity`, and takes it from its option. If there is no room, an older version of
    /// the item is gone and the blob is where it was.
    pub(crate) fn insert(
        &mut self,
        identity: &Identity<'_>,
        blob: &mut Option<Value>,
        mut accounts: &SharedAccounts,
        effort: &mut Effort,
        leaving: &mut Leaving,
    ) -> Result<(), InsertError> {
        self.contents.release_held(HELD_CHECKS_PER_INSERT, accounts, leaving);
        self.remove(identity, accounts, leaving);
        let Self { order, contents } = self;
        let bytes = weight(blob.as_ref().expect("an insert brings a blob"));
        let weight = u32::try_from(bytes).expect("the store refuses larger items");
        let mut evict = |handle: ItemHandle| contents.evict(handle.0, leaving);
        room::make_room(order, &mut accounts, identity.partition, bytes, effort, &mut evict)?;
        let slot = contents.add(identity.hash, blob.take().expect("looked at above"));
        order.insert(identity.partition, ItemHandle(slot), weight);
        contents.counts[identity.partition.index()].inserts += 1;
        Ok(())
    }

    /// Evicts an item for an insert of `bytes` into another shard; false when there is none to evict here.
    pub(crate) fn evict_for_other_shard(
        &mut self,
        partition: PartitionId,
        bytes: u64,
        mut accounts: &SharedAccounts,
        effort: &mut Effort,
        leaving: &mut Leaving,
    ) -> bool {
        let Self { order, contents } = self;
        let own = order.layout().list_of(partition);
        let shortage = if accounts.used(own) + bytes > accounts.limit(own) {
            Shortage::Limit
        } else {
            Shortage::Budget
        };
        let mut evict = |handle: ItemHandle| contents.evict(handle.0, leaving);
        room::evict_for(order, &mut accounts, own, shortage, effort, &mut evict)
    }

    /// Counts an insert that was not accepted.
    pub(crate) fn count_refused(&mut self, partition: PartitionId) {
        self.contents.counts[partition.index()].refused += 1;
    }

    /// Takes an item out; false when it is not there.
    pub(crate) fn remove(
        &mut self,
        identity: &Identity<'_>,
        mut accounts: &SharedAccounts,
        leaving: &mut Leaving,
    ) -> bool {
        let Some(slot) = self.contents.find(identity) else { return false };
        let item =
            self.order.remove(ItemHandle(slot)).expect("what is in the index is in the order");
        let blob = self.contents.take(slot);
        let memory = self.contents.hold_if_read(&blob);
        leaving.others.push(blob);
        let list = self.order.layout().list_of(identity.partition);
        accounts.release(list, item.bytes.into(), memory);
        true
    }

    /// One batch of [`crate::Store::reclaim`]; gives the number of evictions.
    pub(crate) fn reclaim_batch(
        &mut self,
        mut accounts: &SharedAccounts,
        items_max: usize,
        leaving: &mut Leaving,
    ) -> usize {
        let Self { order, contents } = self;
        contents.release_held(RECLAIM_BATCH_ITEMS, accounts, leaving);
        let mut evict = |handle: ItemHandle| contents.evict(handle.0, leaving);
        room::reclaim_batch(order, &mut accounts, items_max, &mut evict)
    }

    /// Adds this shard's counts to those of others.
    pub(crate) fn add_statistics(&self, partition: PartitionId, sum: &mut PartitionStatistics) {
        let tally = self.order.tallies().of(partition);
        let counts = &self.contents.counts[partition.index()];
        sum.used += Bytes(tally.bytes);
        sum.items += tally.items;
        sum.hits += counts.hits;
        sum.misses += counts.misses;
        sum.inserts += counts.inserts;
        sum.evictions += counts.evictions;
        sum.refused += counts.refused;
    }
}

impl Contents {
    #[inline]
    fn find(&self, identity: &Identity<'_>) -> Option<u32> {
        let header = header(identity.partition, identity.key)?;
        self.index.find(identity.hash, |slot| {
            let (found, rest) = split(&self.blobs[slot as usize]);
            found == header && rest.starts_with(identity.key)
        })
    }

    /// Gives the blob a slot and a place in the index.
    fn add(&mut self, hash: u64, blob: Value) -> u32 {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            let slot = u32::try_from(self.blobs.len()).expect("a shard has fewer than 2^32 items");
            self.blobs.push(Value::new());
            slot
        });
        self.blobs[slot as usize] = blob;
        self.index.insert(hash, slot);
        slot
    }

    /// The opposite of [`Self::add`].
    fn take(&mut self, slot: u32) -> Value {
        self.index.remove(slot);
        self.free_slots.push(slot);
        std::mem::take(&mut self.blobs[slot as usize])
    }

    /// Takes out an item that has left the order because another needed its bytes.
    fn evict(&mut self, slot: u32, leaving: &mut Leaving) -> Memory {
        let (partition, _) = identity_of(&self.blobs[slot as usize]);
        self.counts[partition.index()].evictions += 1;
        let blob = self.take(slot);
        let memory = self.hold_if_read(&blob);
        leaving.evicted.push(blob);
        memory
    }

    /// Keeps track of a blob of which a reader has a handle. No new reader can come: the blob has left the index.
    fn hold_if_read(&mut self, blob: &Value) -> Memory {
        if blob.is_unique() {
            return Memory::Freed;
        }
        self.held.push_back(blob.clone());
        Memory::Held
    }

    /// Looks at the oldest `checks` held blobs: frees those that readers have dropped, puts the others back in line.
    fn release_held(&mut self, checks: usize, accounts: &SharedAccounts, leaving: &mut Leaving) {
        for _ in 0..checks.min(self.held.len()) {
            let blob = self.held.pop_front().expect("not more checks than blobs");
            if blob.is_unique() {
                accounts.release_held(weight(&blob));
                leaving.others.push(blob);
            } else {
                self.held.push_back(blob);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sharing;

    #[test]
    fn a_lookup_of_a_too_long_key_never_meets_another_item_of_the_same_hash() {
        let layout = Layout::new(1, Sharing::Partitioned);
        let accounts = SharedAccounts::new(layout, Bytes::from_mib(1));
        let mut shard = Shard::new(layout, 1 << 20);
        let mut leaving = Leaving::default();
        let with_key = |key| Identity { hash: 7, partition: PartitionId(0), key };
        // Key and value in a row start with the long key, and both lengths agree in their lower 16 bits.
        let long_key = vec![b'k'; 65_536 + 3];
        let kept = with_key(&long_key[..3]);
        let mut value = Some(blob(&kept, &long_key));
        let mut effort = Effort::new(0);
        shard.insert(&kept, &mut value, &accounts, &mut effort, &mut leaving).unwrap();
        let too_long = with_key(&long_key);
        assert_eq!(shard.get(&too_long), None);
        assert!(!shard.remove(&too_long, &accounts, &mut leaving));
        assert!(shard.get(&kept).is_some());
        let counts = shard.contents.counts[0];
        assert_eq!((counts.hits, counts.misses), (1, 1));
    }
}
