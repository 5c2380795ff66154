//! The items of a shard: blocks, index, lists and counts of bytes, without rules about what may stay.
//!
//! Place in the flow: `shard.rs` looks items up here, adds and discards them.

use bytes::Bytes as Value;
use robinhood_stats::Bytes;

use super::StoreMemory;
use super::arena::{Arena, Visit};
use super::block::{self, Block, Extra, Fields, state};
use super::index::Index;
use super::item::{Attributes, ItemView, Parts};
use super::pool::PagePool;
use super::shape::{self, Shape};
use super::uses::Uses;
use crate::accounts::{Layout, ListId};
use crate::order::{Eviction, Nodes, Queues, Removed, Tallies, item};
use crate::{PartitionId, RECLAIM_BATCH_ITEMS};

/// What an item is known by, and its hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity<'a> {
    pub(crate) hash: u64,
    pub(crate) partition: PartitionId,
    pub(crate) key: &'a [u8],
}

/// What a new item has beside key and value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) attributes: Attributes,
    pub(crate) version: u64,
    pub(crate) accessed_s: u32,
    pub(crate) generation: u8,
}

#[derive(Debug)]
pub(crate) struct Items {
    pub(crate) layout: Layout,
    pub(crate) shape: Shape,
    pub(crate) tallies: Tallies,
    pub(super) arena: Arena,
    pub(super) queues: Queues,
    pub(super) index: Index,
    pub(super) uses: Uses,
    outside: Outside,
    /// By generation: how many items were set in it.
    generations: Box<[u32; 256]>,
}

/// Keys and values that are too large for a block, by place.
#[derive(Debug)]
struct Outside {
    blobs: Vec<Value>,
    free: Vec<u32>,
    bytes: u64,
    /// Their bytes are none for pages, until nobody reads them any more either.
    pool: PagePool,
}

impl Outside {
    const fn new(pool: PagePool) -> Self {
        Self { blobs: Vec::new(), free: Vec::new(), bytes: 0, pool }
    }

    fn add(&mut self, blob: Value) -> u32 {
        self.bytes += blob.len() as u64;
        self.pool.note_large(blob.len() as u64);
        let place = self.free.pop().unwrap_or_else(|| {
            self.blobs.push(Value::new());
            self.blobs.len() as u32 - 1 // fewer than handles
        });
        self.blobs[place as usize] = blob;
        place
    }

    fn take(&mut self, place: u32) -> Value {
        let blob = std::mem::take(&mut self.blobs[place as usize]);
        self.bytes -= blob.len() as u64;
        self.free.push(place);
        blob
    }
}

/// Key and value in one allocation of exactly their size.
pub(crate) fn blob(key: &[u8], value: Parts<'_>, present: &[u8]) -> Value {
    let mut blob = Vec::with_capacity(key.len() + value.bytes(present.len()));
    blob.extend_from_slice(key);
    match value {
        Parts::Whole(value) => blob.extend_from_slice(value),
        Parts::BeforePresent(part) => blob.extend([part, present].into_iter().flatten()),
        Parts::AfterPresent(part) => blob.extend([present, part].into_iter().flatten()),
        Parts::Small(bytes, length) => blob.extend_from_slice(&bytes[..length]),
    }
    blob.into()
}

impl Items {
    /// No items yet, of together some `bytes`, in pages of the pool; `waste_slack_bytes` of them may lie idle.
    pub(crate) fn new(
        layout: Layout,
        eviction: Eviction,
        shape: Shape,
        bytes: u64,
        (pool, waste_slack_bytes): (PagePool, u64),
    ) -> Self {
        Self {
            layout,
            shape,
            tallies: Tallies::new(layout),
            arena: Arena::new(pool.clone(), waste_slack_bytes),
            queues: Queues::new(eviction, layout.lists()),
            index: Index::new(bytes),
            uses: Uses::default(),
            outside: Outside::new(pool),
            generations: Box::new([0; 256]),
        }
    }

    #[inline]
    pub(crate) fn find(&self, identity: &Identity<'_>) -> Option<u32> {
        let known_by = block::identity(identity.partition, identity.key)?;
        self.index.find(kept(identity.hash), |handle| {
            self.arena.prefetch_item(handle);
            let block = self.arena.block(handle);
            block.identity() == known_by && self.view_of(block).key() == identity.key
        })
    }

    #[inline]
    pub(crate) fn block(&self, handle: u32) -> Block<'_> {
        self.arena.block(handle)
    }

    #[inline]
    pub(crate) fn view(&self, handle: u32) -> ItemView<'_> {
        self.view_of(self.arena.block(handle))
    }

    #[inline]
    fn view_of<'a>(&'a self, block: Block<'a>) -> ItemView<'a> {
        let outside = block
            .is(state::OUTSIDE)
            .then(|| &self.outside.blobs[block.outside(self.shape) as usize]);
        ItemView { block, shape: self.shape, outside }
    }

    /// What the item is booked with.
    #[inline]
    pub(crate) fn weight(&self, handle: u32) -> u64 {
        match self.view(handle).outside {
            None => shape::weight(self.arena.class(handle)),
            Some(blob) => self.shape.item_bytes(blob.len()),
        }
    }

    /// Whether the list has items.
    #[inline]
    pub(crate) fn holds_items(&self, list: ListId) -> bool {
        self.queues.last(list).is_some()
    }

    /// The item at the end of the list's order: with LRU the coldest.
    pub(crate) fn oldest(&mut self, list: ListId) -> Option<u32> {
        self.settle_uses();
        self.queues.last(list)
    }

    /// The item that the list evicts now: the caller does.
    pub(crate) fn victim(&mut self, list: ListId) -> Option<u32> {
        self.settle_uses();
        let handle = self.queues.victim(&mut self.arena, list)?;
        self.queues.note_evicted(&self.arena, list, handle);
        Some(handle)
    }

    /// Has the processor fetch what evicting the next `items` of the list, at most [`RECLAIM_BATCH_ITEMS`], will read and write. One eviction waits
    /// for memory four times, item and place in the index at random places; here only the links of the list wait for each other.
    pub(crate) fn prefetch_victims(&self, list: ListId, items: usize) {
        let mut victims = [0; RECLAIM_BATCH_ITEMS];
        let (mut next, mut count) = (self.queues.next_victim(list), 0);
        for victim in victims.iter_mut().take(items) {
            let Some(handle) = next else { break };
            self.arena.prefetch_header(handle);
            next = item(self.arena.links(handle).prev);
            *victim = handle;
            count += 1;
        }
        // Nothing here depends on the look-up before, so that they wait for memory together.
        for &victim in &victims[..count] {
            let found = self.index.find(self.arena.block(victim).hash(), |other| other == victim);
            assert!(found.is_some(), "an item that is held is in the index");
        }
    }

    /// Takes an item out of index, order and counts. Its block stays until [`Self::discard`].
    pub(crate) fn detach(&mut self, handle: u32) -> Removed {
        self.settle_uses();
        let Self { arena, queues, index, .. } = self;
        let list = self.layout.list_of(arena.block(handle).partition());
        queues.remove(arena, list, handle);
        let block = arena.block(handle);
        index.remove(block.hash(), handle, |other| arena.block(other).hash());
        self.generations[usize::from(block.generation())] -= 1;
        let bytes = u32::try_from(self.weight(handle)).expect("the store refuses larger items");
        let removed = Removed { partition: self.block(handle).partition(), bytes };
        self.tallies.subtract(removed);
        removed
    }

    /// Frees the block of an item that was detached. Gives what it kept outside.
    pub(crate) fn discard(&mut self, handle: u32) -> Option<Value> {
        let block = self.arena.block(handle);
        let place = block.is(state::OUTSIDE).then(|| block.outside(self.shape));
        self.arena.free(handle);
        place.map(|place| self.outside.take(place))
    }

    /// Adds an item that is not there. `blob` has key and value where they are too large for a block; `present` is the item, detached, of whose
    /// value the new one takes a part.
    pub(crate) fn add(
        &mut self,
        identity: &Identity<'_>,
        value: Parts<'_>,
        blob: Option<Value>,
        present: Option<u32>,
        label: &Label,
    ) -> u32 {
        let present_bytes = present.map_or(0, |present| self.view(present).value().len());
        let value_bytes = value.bytes(present_bytes);
        let (handle, fields_state, value_bytes) = match blob {
            None => {
                let class = self.shape.class(identity.key.len() + value_bytes);
                let handle = self.arena.allocate(class.expect("larger ones come with a blob"));
                self.arena.block_mut(handle).set_bytes(self.shape.header_bytes(), identity.key);
                self.write_value(handle, identity.key.len(), value, present);
                (handle, 0, value_bytes)
            }
            Some(blob) => {
                let handle = self.arena.allocate(self.shape.class_outside());
                let place = self.outside.add(blob);
                self.arena.block_mut(handle).set_outside(self.shape, place);
                (handle, state::OUTSIDE, 0)
            }
        };
        let known_by = block::identity(identity.partition, identity.key);
        self.arena.block_mut(handle).set_fields(&Fields {
            hash: kept(identity.hash),
            identity: known_by.expect("the store refuses longer keys"),
            value_bytes,
            state: fields_state | label.attributes.state(),
            generation: label.generation,
        });
        self.set_extra(handle, label);
        self.attach(handle, identity.partition);
        handle
    }

    /// Adds an item whose block is written, or was detached, to index, order and counts.
    pub(crate) fn attach(&mut self, handle: u32, partition: PartitionId) {
        self.settle_uses();
        let Self { arena, queues, index, .. } = self;
        let (hash, generation) = (arena.block(handle).hash(), arena.block(handle).generation());
        index.insert(hash, handle, |other| arena.block(other).hash());
        queues.insert(arena, self.layout.list_of(partition), handle);
        self.generations[usize::from(generation)] += 1;
        let bytes = u32::try_from(self.weight(handle)).expect("the store refuses larger items");
        self.tallies.add(partition, bytes);
    }

    /// Writes a value behind the key.
    fn write_value(
        &mut self,
        handle: u32,
        key_bytes: usize,
        value: Parts<'_>,
        present: Option<u32>,
    ) {
        let start = self.shape.header_bytes() + key_bytes;
        let copy_present = |arena: &mut Arena, at: usize| {
            let Some(present) = present else { return };
            let bytes = arena.block(present).value(self.shape).len();
            arena.copy((present, start), (handle, at), bytes);
        };
        let arena = &mut self.arena;
        match value {
            Parts::Whole(value) => arena.block_mut(handle).set_bytes(start, value),
            Parts::Small(bytes, length) => {
                arena.block_mut(handle).set_bytes(start, &bytes[..length]);
            }
            Parts::BeforePresent(part) => {
                copy_present(arena, start + part.len());
                arena.block_mut(handle).set_bytes(start, part);
            }
            Parts::AfterPresent(part) => {
                copy_present(arena, start);
                let length = present.map_or(0, |it| arena.block(it).value(self.shape).len());
                arena.block_mut(handle).set_bytes(start + length, part);
            }
        }
    }

    /// Gives an item another value if that needs a block of the same size; false when it does not.
    pub(crate) fn replace(&mut self, handle: u32, value: Parts<'_>, label: &Label) -> bool {
        let view = self.view(handle);
        let key_bytes = view.block.key_bytes();
        let value_bytes = value.bytes(view.value().len());
        let class = self.shape.class(key_bytes + value_bytes);
        if view.outside.is_some() || class != Some(self.arena.class(handle)) {
            return false;
        }
        self.write_value(handle, key_bytes, value, Some(handle));
        self.arena.block_mut(handle).set_value_bytes(value_bytes);
        self.renew(handle, label);
        true
    }

    /// Makes an item count as set now.
    pub(crate) fn renew(&mut self, handle: u32, label: &Label) {
        self.generations[usize::from(self.block(handle).generation())] -= 1;
        self.generations[usize::from(label.generation)] += 1;
        self.relabel(handle, label);
        self.order_use(handle);
    }

    /// Sets all that an item has beside key and value. It then counts as not read.
    pub(crate) fn relabel(&mut self, handle: u32, label: &Label) {
        let stays = self.block(handle).state() & (state::OUTSIDE | state::MARK);
        let mut block = self.arena.block_mut(handle);
        block.set_state(stays | label.attributes.state());
        block.set_generation(label.generation);
        self.set_extra(handle, label);
    }

    fn set_extra(&mut self, handle: u32, label: &Label) {
        let &Label { attributes, version, accessed_s, .. } = label;
        if self.shape.has_attributes() {
            let Attributes { flags, expires_s, .. } = attributes;
            let extra = Extra { flags, expires_s, version, accessed_s };
            self.arena.block_mut(handle).set_extra(extra);
        } else {
            assert!(
                attributes.flags == 0 && attributes.expires_s == 0,
                "a store without attributes keeps no flags and no times to live"
            );
        }
    }

    /// The items that were set in a generation.
    pub(crate) fn of_generation(&self, generation: u8) -> u32 {
        self.generations[usize::from(generation)]
    }

    /// The next item in a walk over all of them, see [`Arena::occupied_from`].
    pub(crate) fn occupied_from(&self, handle: u32, places: &mut usize) -> Visit {
        self.arena.occupied_from(handle, places)
    }

    /// Adds this shard's memory to that of others.
    pub(crate) fn add_memory(&self, sum: &mut StoreMemory) {
        sum.page_bytes += Bytes(self.arena.page_bytes());
        sum.live_bytes += Bytes(self.arena.live_bytes());
        sum.large_bytes += Bytes(self.outside.bytes);
        sum.index_bytes += Bytes(self.index.bytes());
    }

    /// The memory of a value that was kept outside is free.
    pub(crate) fn note_large_gone(&self, blob: &Value) {
        self.outside.pool.note_large_gone(blob.len() as u64);
    }

    /// Gives memory back that holds no items.
    pub(crate) fn trim(&mut self) {
        self.arena.trim();
    }
}

/// The half of the hash that chooses no shard.
#[inline]
const fn kept(hash: u64) -> u32 {
    hash as u32
}
