//! One shard: the rules of eviction, expiry and booking around its items, behind one lock.
//!
//! Place in the flow: `store.rs` locks the shard that an item's hash names and calls one of these methods.

use std::collections::VecDeque;

use bytes::Bytes as Value;
use robinhood_stats::Bytes;

use super::arena::Visit;
use super::call::{Call, Leaving, Moment};
use super::item::{Parts, Touch};
use super::items::{Identity, Items, Label};
use super::{ItemView, PartitionStatistics, StoreMemory};
use crate::accounts::{Accounts, Layout, ListId, Memory, Shortage};
use crate::room::{self, InsertError, Victims};
use crate::{PartitionId, RECLAIM_BATCH_ITEMS};

/// Values held by readers that an insert looks at.
const HELD_CHECKS_PER_INSERT: usize = 4;
/// Items that one operation moves to other blocks, at most: about twice what it may evict.
const MOVES_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Shard {
    items: Items,
    counts: Vec<Counts>,
    /// Keys and values that have left the index while a reader had a handle of them.
    held: VecDeque<Value>,
    /// The last version given, and what the next one is larger by.
    version: u64,
    version_step: u64,
    /// The latest second that a caller has named.
    latest_s: u32,
    /// Where the next sweep goes on.
    swept_to: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    hits: u64,
    misses: u64,
    inserts: u64,
    evictions: u64,
    expired: u64,
    refused: u64,
}

/// A shard's lists, and where what is evicted goes.
struct Evicting<'a> {
    shard: &'a mut Shard,
    leaving: &'a mut Leaving,
}

impl Victims for Evicting<'_> {
    fn layout(&self) -> Layout {
        self.shard.items.layout
    }

    #[inline]
    fn holds_items(&self, list: ListId) -> bool {
        self.shard.items.holds_items(list)
    }

    fn list_bytes(&self, list: ListId) -> u64 {
        self.shard.items.tallies.list_bytes(self.layout(), list)
    }

    fn prepare(&self, list: ListId, items: usize) {
        self.shard.items.prefetch_victims(list, items);
    }

    fn evict(&mut self, list: ListId) -> Option<(u64, Memory)> {
        let handle = self.shard.items.victim(list)?;
        let item = self.shard.items.detach(handle);
        self.shard.counts[item.partition.index()].evictions += 1;
        self.leaving.note(item.partition, &self.shard.items.view(handle));
        let memory = self.shard.discard(handle, self.leaving);
        Some((item.bytes.into(), memory))
    }
}

impl Shard {
    /// An empty shard, the `number`th of `shards`.
    pub(crate) fn new(items: Items, (number, shards): (u64, u64)) -> Self {
        Self {
            counts: vec![Counts::default(); items.layout.partitions()],
            items,
            held: VecDeque::new(),
            version: number,
            version_step: shards,
            latest_s: 0,
            swept_to: 0,
        }
    }

    /// Looks an item up and shows it. One that is absent by the `moment` is taken out.
    #[inline]
    pub(crate) fn read<R>(
        &mut self,
        identity: &Identity<'_>,
        moment: Moment,
        touch: Touch,
        call: &mut Call<'_, '_>,
        see: impl FnOnce(&ItemView<'_>) -> R,
    ) -> Option<R> {
        let found = self.find(identity, moment, call);
        let counts = &mut self.counts[identity.partition.index()];
        let uses = touch == Touch::Use;
        let Some(handle) = found else {
            counts.misses += u64::from(uses);
            return None;
        };
        counts.hits += u64::from(uses);
        let seen = see(&self.items.view(handle));
        if uses {
            self.items.touch(handle, moment.now_s);
        }
        Some(seen)
    }

    /// The item, unless it is absent by the `moment`: then it is taken out.
    #[inline]
    pub(super) fn find(
        &mut self,
        identity: &Identity<'_>,
        moment: Moment,
        call: &mut Call<'_, '_>,
    ) -> Option<u32> {
        self.latest_s = self.latest_s.max(moment.now_s.unwrap_or(0));
        let handle = self.items.find(identity)?;
        if self.is_absent(handle, moment) {
            self.expire(handle, call);
            return None;
        }
        Some(handle)
    }

    #[inline]
    fn is_absent(&self, handle: u32, moment: Moment) -> bool {
        let block = self.items.block(handle);
        block.generation() != moment.generation
            || self.items.shape.has_attributes()
                && moment.now_s.is_some_and(|now_s| (1..=now_s).contains(&block.expires_s()))
    }

    /// Puts an item in, in place of `present`. If there is no room, the present one is gone too.
    pub(super) fn put(
        &mut self,
        identity: &Identity<'_>,
        value: Parts<'_>,
        present: Option<u32>,
        label: &Label,
        call: &mut Call<'_, '_>,
    ) -> Result<(), InsertError> {
        self.release_held(HELD_CHECKS_PER_INSERT, call);
        self.items.settle_uses();
        let present_bytes = present.map_or(0, |handle| self.items.view(handle).value().len());
        if let Some(present) = present {
            self.release(present, call);
        }
        let payload_bytes = identity.key.len() + value.bytes(present_bytes);
        let bytes = self.items.shape.item_bytes(payload_bytes);
        let mut accounts = call.accounts;
        let mut victims = Evicting { shard: self, leaving: &mut call.leaving };
        let effort = &mut call.effort;
        let room = room::make_room(&mut victims, &mut accounts, identity.partition, bytes, effort);
        if room.is_ok() {
            let blob = call.blob.take().map(|(_, blob)| blob);
            self.items.add(identity, value, blob, present, label);
            self.counts[identity.partition.index()].inserts += 1;
        }
        if let Some(present) = present {
            call.leaving.blobs.extend(self.items.discard(present));
        }
        self.items.tidy(MOVES_MAX);
        room
    }

    /// [`Self::put`] in place of whatever is there.
    pub(crate) fn insert(
        &mut self,
        identity: &Identity<'_>,
        value: &[u8],
        generation: u8,
        call: &mut Call<'_, '_>,
    ) -> Result<(), InsertError> {
        let label = self.label(generation);
        let present = self.items.find(identity);
        self.put(identity, Parts::Whole(value), present, &label, call)
    }

    /// What a library item has beside key and value.
    fn label(&mut self, generation: u8) -> Label {
        Label {
            attributes: super::Attributes::default(),
            version: self.next_version(),
            accessed_s: self.latest_s,
            generation,
        }
    }

    /// A number that this shard has not given before, and no other shard gives.
    pub(super) const fn next_version(&mut self) -> u64 {
        self.version += self.version_step;
        self.version
    }

    /// Evicts an item for an insert of `bytes` into another shard; false when there is none to evict here.
    pub(crate) fn evict_for_other_shard(
        &mut self,
        partition: PartitionId,
        bytes: u64,
        call: &mut Call<'_, '_>,
    ) -> bool {
        let mut accounts = call.accounts;
        let own = self.items.layout.list_of(partition);
        let shortage = if accounts.used(own) + bytes > accounts.limit(own) {
            Shortage::Limit
        } else {
            Shortage::Budget
        };
        let mut victims = Evicting { shard: self, leaving: &mut call.leaving };
        let evicted = room::evict_for(&mut victims, &mut accounts, own, shortage, &mut call.effort);
        self.items.tidy(MOVES_MAX);
        evicted
    }

    /// Counts an insert that was not accepted.
    pub(crate) fn count_refused(&mut self, partition: PartitionId) {
        self.counts[partition.index()].refused += 1;
    }

    /// Takes an item out; false when it is not there, or absent by the `moment`.
    pub(crate) fn remove(
        &mut self,
        identity: &Identity<'_>,
        moment: Moment,
        call: &mut Call<'_, '_>,
    ) -> bool {
        let Some(handle) = self.find(identity, moment, call) else { return false };
        self.take_out(handle, call);
        true
    }

    pub(super) fn take_out(&mut self, handle: u32, call: &mut Call<'_, '_>) {
        self.release(handle, call);
        call.leaving.blobs.extend(self.items.discard(handle));
        self.items.tidy(MOVES_MAX);
    }

    fn expire(&mut self, handle: u32, call: &mut Call<'_, '_>) {
        let partition = self.items.block(handle).partition();
        self.take_out(handle, call);
        self.counts[partition.index()].expired += 1;
    }

    /// Takes an item out of everything but its block, and its bytes off the accounts.
    fn release(&mut self, handle: u32, call: &Call<'_, '_>) {
        let item = self.items.detach(handle);
        let memory =
            Self::hold_if_read(&mut self.held, &self.items, self.items.view(handle).outside);
        let list = self.items.layout.list_of(item.partition);
        let mut accounts = call.accounts;
        accounts.release(list, item.bytes.into(), memory);
    }

    /// Frees the block of an evicted item.
    fn discard(&mut self, handle: u32, leaving: &mut Leaving) -> Memory {
        let blob = self.items.discard(handle);
        let memory = Self::hold_if_read(&mut self.held, &self.items, blob.as_ref());
        leaving.blobs.extend(blob);
        memory
    }

    /// Keeps track of a blob of which a reader has a handle. No new reader can come: the item has left the index.
    fn hold_if_read(held: &mut VecDeque<Value>, items: &Items, blob: Option<&Value>) -> Memory {
        let Some(blob) = blob else { return Memory::Freed };
        if blob.is_unique() {
            items.note_large_gone(blob);
            return Memory::Freed;
        }
        held.push_back(blob.clone());
        Memory::Held
    }

    /// Looks at the oldest `checks` held blobs: frees those that readers have dropped, puts the others back in line.
    fn release_held(&mut self, checks: usize, call: &mut Call<'_, '_>) {
        for _ in 0..checks.min(self.held.len()) {
            let blob = self.held.pop_front().expect("not more checks than blobs");
            if blob.is_unique() {
                call.accounts.release_held(self.items.shape.item_bytes(blob.len()));
                self.items.note_large_gone(&blob);
                call.leaving.blobs.push(blob);
            } else {
                self.held.push_back(blob);
            }
        }
    }

    /// One batch of [`crate::Store::reclaim`]; gives the number of evictions.
    pub(crate) fn reclaim_batch(&mut self, items_max: usize, call: &mut Call<'_, '_>) -> usize {
        self.release_held(RECLAIM_BATCH_ITEMS, call);
        self.items.settle_uses();
        let mut accounts = call.accounts;
        let mut victims = Evicting { shard: self, leaving: &mut call.leaving };
        let evictions = room::reclaim_batch(&mut victims, &mut accounts, items_max);
        self.items.tidy(MOVES_MAX);
        evictions
    }

    /// Takes out what is absent by the `moment` among the next `places` places of this shard's walk, and counts the places off. Gives the
    /// number of items taken out.
    pub(crate) fn sweep(
        &mut self,
        moment: Moment,
        places: &mut usize,
        call: &mut Call<'_, '_>,
    ) -> usize {
        let mut removed = 0;
        loop {
            match self.items.occupied_from(self.swept_to, places) {
                Visit::Item { at, next } => {
                    self.swept_to = next;
                    if self.is_absent(at, moment) {
                        self.expire(at, call);
                        removed += 1;
                    }
                }
                Visit::Paused(next) => {
                    self.swept_to = next;
                    return removed;
                }
                Visit::End => {
                    self.swept_to = 0;
                    return removed;
                }
            }
        }
    }

    /// Whether there are items of the generation.
    pub(crate) fn holds_generation(&self, generation: u8) -> bool {
        self.items.of_generation(generation) > 0
    }

    /// Moves items together; false when no more pages become free by that.
    pub(crate) fn trim_batch(&mut self) -> bool {
        let goes_on = self.items.squeeze(MOVES_MAX) == MOVES_MAX;
        self.items.trim();
        goes_on
    }

    /// Adds this shard's counts to those of others.
    pub(crate) fn add_statistics(&self, partition: PartitionId, sum: &mut PartitionStatistics) {
        let tally = self.items.tallies.of(partition);
        let counts = &self.counts[partition.index()];
        sum.used += Bytes(tally.bytes);
        sum.items += tally.items;
        sum.hits += counts.hits;
        sum.misses += counts.misses;
        sum.inserts += counts.inserts;
        sum.evictions += counts.evictions;
        sum.expired += counts.expired;
        sum.refused += counts.refused;
    }

    /// The second at which the coldest item of the partition's list was used, and the latest that this shard knows of. `None` without items.
    pub(crate) fn coldest_and_latest_s(&mut self, partition: PartitionId) -> (Option<u32>, u32) {
        let coldest = self.items.oldest(self.items.layout.list_of(partition));
        (coldest.map(|coldest| self.items.block(coldest).accessed_s()), self.latest_s)
    }

    /// Adds this shard's memory to that of others.
    pub(crate) fn add_memory(&self, sum: &mut StoreMemory) {
        self.items.add_memory(sum);
    }
}

pub(super) mod update;

#[cfg(test)]
mod tests;
