//! One shard: index, values and eviction order behind one lock.

use std::collections::VecDeque;

use bytes::Bytes as Value;
use foldhash::quality::FixedState;
use robinhood_stats::Bytes;

use super::accounts::SharedAccounts;
use super::index::Index;
use super::{PartitionStatistics, hash};
use crate::accounts::{Accounts, Layout, Memory};
use crate::order::Order;
use crate::room::{self, InsertError};
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
    order: Order,
    contents: Contents,
}

/// All of a shard but its eviction order.
#[derive(Debug)]
struct Contents {
    hasher: FixedState,
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
    let mut blob = Vec::with_capacity(HEADER_BYTES + identity.key.len() + value.len());
    blob.extend_from_slice(&header(identity.partition, identity.key));
    blob.extend_from_slice(identity.key);
    blob.extend_from_slice(value);
    blob.into()
}

#[inline]
fn header(partition: PartitionId, key: &[u8]) -> [u8; HEADER_BYTES] {
    let [p0, p1] = partition.0.to_le_bytes();
    let [k0, k1] = (key.len() as u16).to_le_bytes(); // a longer key is in no blob and not looked up
    [p0, p1, k0, k1]
}

/// What the item in a blob is booked with.
fn weight(blob: &[u8]) -> u64 {
    (blob.len() - HEADER_BYTES) as u64 + ITEM_OVERHEAD_BYTES
}

/// The partition and the key in a blob.
fn identity_of(blob: &[u8]) -> (PartitionId, &[u8]) {
    let (&[p0, p1, k0, k1], rest) = blob.split_first_chunk().expect("a blob has a header");
    (PartitionId(u16::from_le_bytes([p0, p1])), &rest[..u16::from_le_bytes([k0, k1]).into()])
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
    pub(crate) fn new(layout: Layout, hasher: FixedState, bytes: u64) -> Self {
        let contents = Contents {
            hasher,
            index: Index::new(bytes),
            blobs: Vec::new(),
            free_slots: Vec::new(),
            counts: vec![Counts::default(); layout.partitions()],
            held: VecDeque::new(),
        };
        Self { order: Order::new(layout, 0), contents }
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

    /// Puts a blob in; `identity` is the one in it.
    pub(crate) fn insert(
        &mut self,
        identity: &Identity<'_>,
        blob: Value,
        mut accounts: &SharedAccounts,
        evictions_max: u32,
        leaving: &mut Leaving,
    ) -> Result<(), InsertError> {
        self.contents.release_held(HELD_CHECKS_PER_INSERT, accounts, leaving);
        self.remove(identity, accounts, leaving);
        let Self { order, contents } = self;
        let bytes = weight(&blob);
        let room = match u32::try_from(bytes) {
            Ok(weight) => room::make_room(
                order,
                &mut accounts,
                identity.partition,
                bytes,
                evictions_max,
                &mut |handle| contents.evict(handle.0, leaving),
            )
            .map(|()| weight),
            Err(_) => Err(InsertError::TooLarge { bytes, limit: u32::MAX.into() }),
        };
        let counts = &mut contents.counts[identity.partition.index()];
        match room {
            Ok(weight) => {
                counts.inserts += 1;
                let slot = contents.add(identity.hash, blob);
                order.insert(identity.partition, ItemHandle(slot), weight);
                Ok(())
            }
            Err(error) => {
                counts.refused += 1;
                leaving.others.push(blob);
                Err(error)
            }
        }
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
        let blob = self.contents.take(identity.hash, slot);
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
        let tally = self.order.tally(partition);
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
        let header = header(identity.partition, identity.key);
        self.index.find(identity.hash, |slot| {
            let key = self.blobs[slot as usize].strip_prefix(&header);
            key.is_some_and(|rest| rest.starts_with(identity.key))
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
    fn take(&mut self, hash: u64, slot: u32) -> Value {
        self.index.remove(hash, slot);
        self.free_slots.push(slot);
        std::mem::take(&mut self.blobs[slot as usize])
    }

    /// Takes out an item that has left the order because another needed its bytes.
    fn evict(&mut self, slot: u32, leaving: &mut Leaving) -> Memory {
        let (partition, key) = identity_of(&self.blobs[slot as usize]);
        let hash = hash(&self.hasher, partition, key);
        self.counts[partition.index()].evictions += 1;
        let blob = self.take(hash, slot);
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
