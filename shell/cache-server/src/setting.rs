//! What a command wants to store, and whether that is done.
//!
//! Place in the flow: the engine asks while the item's shard is locked; the text and the meta protocol have the same rules.

use robinhood_cache::{Attributes, ItemView, Parts, Update};
use robinhood_protocol::memcached::server::{Verb, reply};

/// What a command wants to store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<'v> {
    pub(crate) verb: Verb,
    pub(crate) flags: u32,
    pub(crate) exptime: i64,
    pub(crate) value: &'v [u8],
}

impl<'v> Setting<'v> {
    /// Whether a value can come of it where there is none.
    pub(crate) const fn can_make_item(&self) -> bool {
        matches!(self.verb, Verb::Set | Verb::Add)
    }

    /// Whether the value is stored, as an answer.
    pub(crate) fn judge(
        &self,
        present: Option<&ItemView<'_>>,
        value_bytes_max: usize,
    ) -> &'static [u8] {
        match (self.verb, present) {
            (Verb::Set, _) | (Verb::Add, None) | (Verb::Replace, Some(_)) => reply::STORED,
            (Verb::Append | Verb::Prepend, Some(item)) => {
                match item.value().len() + self.value.len() <= value_bytes_max {
                    true => reply::STORED,
                    false => reply::TOO_LARGE,
                }
            }
            (Verb::Cas(version), Some(item)) if item.version() == version => reply::STORED,
            (Verb::Cas(_), Some(_)) => reply::EXISTS,
            (Verb::Cas(_), None) => reply::NOT_FOUND,
            (Verb::Add, Some(_)) | (Verb::Append | Verb::Prepend | Verb::Replace, None) => {
                reply::NOT_STORED
            }
        }
    }

    /// As [`Self::judge`], for a decision that is asked for again because room had to be made for the first, `accepted` one: the value that was
    /// there may be gone for it.
    pub(crate) fn judge_again(
        &self,
        accepted: bool,
        present: Option<&ItemView<'_>>,
        value_bytes_max: usize,
    ) -> &'static [u8] {
        match (accepted, present, self.verb) {
            (true, None, Verb::Set | Verb::Add | Verb::Replace | Verb::Cas(_)) => reply::STORED,
            _ => self.judge(present, value_bytes_max),
        }
    }

    /// The change of a value that is stored. `expires_s`: `None` when its time has passed.
    pub(crate) fn update(
        &self,
        present: Option<&ItemView<'_>>,
        expires_s: Option<u32>,
    ) -> Update<'v> {
        let (value, attributes) = match (self.verb, present, expires_s) {
            (Verb::Append, Some(item), _) => (Parts::AfterPresent(self.value), renewed(item)),
            (Verb::Prepend, Some(item), _) => (Parts::BeforePresent(self.value), renewed(item)),
            (_, Some(_), None) => return Update::Remove,
            (_, None, None) => return Update::Keep,
            (_, _, Some(expires_s)) => {
                let attributes =
                    Attributes { flags: self.flags, expires_s, ..Attributes::default() };
                (Parts::Whole(self.value), attributes)
            }
        };
        Update::Put { value, attributes, version: None }
    }
}

/// What is kept beside a value that is added to: its flags and its time, but nobody is to renew it any longer.
fn renewed(item: &ItemView<'_>) -> Attributes {
    Attributes { stale: false, win_sent: false, ..item.attributes() }
}
