//! What a server sees of an item and says about it.
//!
//! Place in the flow: the arguments and results of [`super::Store::read`] and [`super::Store::update`].

use bytes::Bytes as Value;

use super::block::{Block, state};
use super::shape::Shape;

/// What a server keeps beside a value. All zero and false for a library item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// The client's own number.
    pub flags: u32,
    /// The second of the caller's clock from which on the item counts as absent; 0: never.
    pub expires_s: u32,
    /// The value is known to be old.
    pub stale: bool,
    /// Somebody was told to bring a new value.
    pub win_sent: bool,
}

/// An item in place, while its shard is locked.
#[derive(Clone, Copy, Debug)]
pub struct ItemView<'a> {
    pub(super) block: Block<'a>,
    pub(super) shape: Shape,
    /// Key and value, of an item that keeps them outside of its block.
    pub(super) outside: Option<&'a Value>,
}

/// Whether a look-up counts as a use: in the order of eviction, the second of the last use, [`ItemView::fetched`], and the counts of hits and
/// misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// It counts.
    Use,
    /// Nobody can tell that it happened, but for the count of misses by age when it finds an expired item.
    Leave,
}

/// The pieces of a new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts<'v> {
    /// This and nothing else.
    Whole(&'v [u8]),
    /// This, then the present value. The present value alone is nothing where no item is present.
    BeforePresent(&'v [u8]),
    /// The present value, then this.
    AfterPresent(&'v [u8]),
    /// The first bytes of an array, for values that `decide` has worked out itself.
    Small([u8; 20], usize),
}

/// What becomes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update<'v> {
    /// Nothing happens, nor does it count as a use.
    Keep,
    /// It goes.
    Remove,
    /// It gets another value and counts as not read. Makes the item if there is none.
    Put {
        /// The new value.
        value: Parts<'v>,
        /// Kept beside it.
        attributes: Attributes,
        /// The item's version from now on; `None`: a new unique one.
        version: Option<u64>,
    },
    /// It keeps its value. Counts as a use and as a read. Nothing happens where no item is present.
    Mark {
        /// Kept beside the value from now on.
        attributes: Attributes,
        /// The item's version from now on; `None`: the present one.
        version: Option<u64>,
    },
}

/// What [`super::Store::update`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The item is as it was.
    Kept,
    /// The item is gone.
    Removed,
    /// The item has its new value.
    Stored,
    /// The item has its new attributes.
    Marked,
    /// There is no item, as before.
    Nothing,
}

/// What [`super::Store::update`] has done, and the version that the item has now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Updated {
    /// What was done.
    pub outcome: Outcome,
    /// The item's version; of one that was removed, the last. 0 where there is none, and in a store without attributes.
    pub version: u64,
}

impl<'a> ItemView<'a> {
    /// The value.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        match self.outside {
            None => self.block.value(self.shape),
            Some(blob) => &blob[self.block.key_bytes()..],
        }
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        match self.outside {
            None => self.block.key(self.shape),
            Some(blob) => &blob[..self.block.key_bytes()],
        }
    }

    /// A handle of the value that copies nothing, for values of more than some 8 KiB. The bytes of one that is evicted meanwhile count against the
    /// budget until the handle is dropped. `None` for smaller values: copy them.
    pub fn shared_value(&self) -> Option<Value> {
        self.outside.map(|blob| blob.slice(self.block.key_bytes()..))
    }

    /// What was kept beside the value.
    #[inline]
    pub fn attributes(&self) -> Attributes {
        let (flags, expires_s) = if self.shape.has_attributes() {
            (self.block.flags(), self.block.expires_s())
        } else {
            (0, 0)
        };
        let is = |bit| self.block.is(bit);
        Attributes { flags, expires_s, stale: is(state::STALE), win_sent: is(state::WIN_SENT) }
    }

    /// A number that no other change of a value in this store has had, unless a caller has set it; larger at each change of the same item. 0 in a
    /// store without attributes.
    #[inline]
    pub fn version(&self) -> u64 {
        if self.shape.has_attributes() { self.block.version() } else { 0 }
    }

    /// The second of the caller's clock at which the item was set or last used. 0 in a store without attributes.
    #[inline]
    pub fn accessed_s(&self) -> u32 {
        if self.shape.has_attributes() { self.block.accessed_s() } else { 0 }
    }

    /// Whether the item was read since it was set, before this look-up.
    #[inline]
    pub fn fetched(&self) -> bool {
        self.block.is(state::FETCHED)
    }
}

impl Parts<'_> {
    /// Whether the value stays as it is.
    pub(super) const fn is_present_alone(&self) -> bool {
        matches!(self, Self::BeforePresent(b"") | Self::AfterPresent(b""))
    }

    /// The length of the new value where the present one has `present_bytes`.
    pub(super) const fn bytes(&self, present_bytes: usize) -> usize {
        match self {
            Self::Whole(value) => value.len(),
            Self::BeforePresent(part) | Self::AfterPresent(part) => part.len() + present_bytes,
            Self::Small(_, bytes) => *bytes,
        }
    }
}

impl Attributes {
    /// The bits of the item's state.
    pub(super) const fn state(self) -> u8 {
        (if self.stale { state::STALE } else { 0 })
            | (if self.win_sent { state::WIN_SENT } else { 0 })
    }
}
