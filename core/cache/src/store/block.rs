//! What is in a block: the only file that knows where.
//!
//! Place in the flow: the arena hands out blocks as bytes; index and look-ups read and write their fields through here. The links of the eviction
//! list are apart, see `pages.rs`.
//!
//! Numbers are little-endian. In a store without attributes the key starts at 12:
//!
//! | bytes | what |
//! | --- | --- |
//! | 0 | the part of the hash that is kept; in a free block the next free one |
//! | 4, 6 | length of the key; partition, or `FREE` |
//! | 8 | length of the value (of one outside: none) |
//! | 10, 11 | state: bits; generation |
//! | 12, 16, 20, 28 | with attributes: flags, expiry, version, second of the last use |
//! | then | key, value; or the number of the place outside |

use super::shape::{OUTSIDE_BYTES, Shape};
use crate::PartitionId;

const HASH: usize = 0;
const IDENTITY: usize = 4;
const PARTITION: usize = 6;
const VALUE_BYTES: usize = 8;
const STATE: usize = 10;
const GENERATION: usize = 11;
const FLAGS: usize = 12;
const EXPIRES: usize = 16;
const VERSION: usize = 20;
const ACCESSED: usize = 28;

/// Stands for the partition in a block that holds no item.
const FREE: u16 = u16::MAX;

/// Bits of an item's state.
pub(crate) mod state {
    /// Key and value are outside.
    pub(crate) const OUTSIDE: u8 = 1;
    /// The item was read since it was set.
    pub(crate) const FETCHED: u8 = 2;
    /// See `Attributes::stale`.
    pub(crate) const STALE: u8 = 4;
    /// See `Attributes::win_sent`.
    pub(crate) const WIN_SENT: u8 = 8;
    /// Where the bits of the rule of eviction start.
    pub(crate) const MARK_SHIFT: u32 = 4;
    pub(crate) const MARK: u8 = crate::order::MARK_BITS << MARK_SHIFT;
}

/// The fields of a new item that are not key and value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    pub(crate) hash: u32,
    pub(crate) identity: u32,
    pub(crate) value_bytes: usize,
    pub(crate) state: u8,
    pub(crate) generation: u8,
}

/// What a store with attributes keeps of an item besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extra {
    pub(crate) flags: u32,
    pub(crate) expires_s: u32,
    pub(crate) version: u64,
    pub(crate) accessed_s: u32,
}

/// Key length and partition as one number, so that both are compared at once. `None` for a key that is longer than any item's.
#[inline]
pub(crate) fn identity(partition: PartitionId, key: &[u8]) -> Option<u32> {
    let key_bytes = u16::try_from(key.len()).ok()?;
    Some(u32::from(key_bytes) | u32::from(partition.0) << 16)
}

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[inline]
fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

/// A block to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a>(pub(crate) &'a [u8]);

impl<'a> Block<'a> {
    #[inline]
    pub(crate) fn hash(self) -> u32 {
        u32_at(self.0, HASH)
    }

    #[inline]
    pub(crate) fn identity(self) -> u32 {
        u32_at(self.0, IDENTITY)
    }

    pub(crate) fn is_free(self) -> bool {
        u16_at(self.0, PARTITION) == FREE
    }

    /// The next free block of the page, as [`BlockMut::set_free`] has left it.
    pub(crate) fn next_free(self) -> u16 {
        u16_at(self.0, HASH)
    }

    #[inline]
    pub(crate) fn partition(self) -> PartitionId {
        PartitionId(u16_at(self.0, PARTITION))
    }

    #[inline]
    pub(crate) fn key_bytes(self) -> usize {
        usize::from(u16_at(self.0, IDENTITY))
    }

    #[inline]
    pub(crate) fn state(self) -> u8 {
        self.0[STATE]
    }

    #[inline]
    pub(crate) fn is(self, bit: u8) -> bool {
        self.state() & bit != 0
    }

    #[inline]
    pub(crate) fn generation(self) -> u8 {
        self.0[GENERATION]
    }

    #[inline]
    pub(crate) fn flags(self) -> u32 {
        u32_at(self.0, FLAGS)
    }

    #[inline]
    pub(crate) fn version(self) -> u64 {
        let version = self.0[VERSION..VERSION + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(version)
    }

    #[inline]
    pub(crate) fn expires_s(self) -> u32 {
        u32_at(self.0, EXPIRES)
    }

    #[inline]
    pub(crate) fn accessed_s(self) -> u32 {
        u32_at(self.0, ACCESSED)
    }

    /// Of an item that is not outside.
    #[inline]
    pub(crate) fn key(self, shape: Shape) -> &'a [u8] {
        &self.0[shape.header_bytes()..][..self.key_bytes()]
    }

    /// Of an item that is not outside.
    #[inline]
    pub(crate) fn value(self, shape: Shape) -> &'a [u8] {
        let value_bytes = usize::from(u16_at(self.0, VALUE_BYTES));
        &self.0[shape.header_bytes() + self.key_bytes()..][..value_bytes]
    }

    /// Of an item that is outside: the number of its place there.
    #[inline]
    pub(crate) fn outside(self, shape: Shape) -> u32 {
        u32_at(self.0, shape.header_bytes())
    }
}

/// A block to write.
#[derive(Debug)]
pub(crate) struct BlockMut<'a>(pub(crate) &'a mut [u8]);

impl BlockMut<'_> {
    pub(crate) fn set_free(self, next_free: u16) {
        put(self.0, PARTITION, &FREE.to_le_bytes());
        put(self.0, HASH, &next_free.to_le_bytes());
    }

    /// All fields but links and attributes.
    #[inline]
    pub(crate) fn set_fields(&mut self, fields: &Fields) {
        put(self.0, HASH, &fields.hash.to_le_bytes());
        put(self.0, IDENTITY, &fields.identity.to_le_bytes());
        self.set_value_bytes(fields.value_bytes);
        self.set_state(fields.state);
        self.set_generation(fields.generation);
    }

    pub(crate) fn set_value_bytes(&mut self, bytes: usize) {
        let bytes = u16::try_from(bytes).expect("a block is smaller than 64 KiB");
        put(self.0, VALUE_BYTES, &bytes.to_le_bytes());
    }

    #[inline]
    pub(crate) fn set_state(&mut self, state: u8) {
        self.0[STATE] = state;
    }

    pub(crate) fn set_generation(&mut self, generation: u8) {
        self.0[GENERATION] = generation;
    }

    pub(crate) fn set_extra(&mut self, extra: Extra) {
        put(self.0, FLAGS, &extra.flags.to_le_bytes());
        put(self.0, EXPIRES, &extra.expires_s.to_le_bytes());
        put(self.0, VERSION, &extra.version.to_le_bytes());
        self.set_accessed_s(extra.accessed_s);
    }

    #[inline]
    pub(crate) fn set_accessed_s(&mut self, second: u32) {
        put(self.0, ACCESSED, &second.to_le_bytes());
    }

    #[inline]
    pub(crate) fn set_bytes(&mut self, at: usize, bytes: &[u8]) {
        put(self.0, at, bytes);
    }

    pub(crate) fn set_outside(&mut self, shape: Shape, place: u32) {
        const { assert!(size_of::<u32>() == OUTSIDE_BYTES) };
        put(self.0, shape.header_bytes(), &place.to_le_bytes());
    }
}
