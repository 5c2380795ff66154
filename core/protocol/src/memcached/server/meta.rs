//! The meta protocol: commands of two letters and flags of one letter each, and the answers to them.
//!
//! Place in the flow: [`super::parse`] reads a [`MetaCommand`]; after it has been done, [`MetaCommand::write_hit`] or
//! [`MetaCommand::write_status`] answers it. An answer repeats what was asked for in the order of the question.
//!
//! Flags `E` and `x` are of later releases of memcached than 1.6.18, which refuses them.

mod answer;
mod parse;

pub use answer::write_debug;
pub(super) use parse::{arithmetic, debug, delete, get, set};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::words::Words;
use super::{Key, Verb};
use crate::memcached::KEY_BYTES_MAX;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `mg`: reads, and touches.
    Get,
    /// `ms`: stores. With a version ([`MetaCommand::version`]), `S` and `R` are [`Verb::Cas`].
    Set(Verb),
    /// `md`: deletes, or marks as stale.
    Delete,
    /// `ma`: counts.
    Arithmetic {
        /// Whether the delta is added; subtracted otherwise.
        increase: bool,
    },
    /// `me`: shows what is known of a value; answered by [`write_debug`].
    Debug,
    /// `mn`: answered by [`super::reply::META_NO_OP`].
    NoOp,
}

/// A command with its flags. Flags that mean nothing to an operation may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaCommand<'a> {
    /// What to do.
    pub operation: Operation,
    /// The key; empty for [`Operation::NoOp`].
    pub key: Key<'a>,
    /// The value of [`Operation::Set`]; empty otherwise.
    pub value: &'a [u8],
    /// The flags as they stand in the command.
    words: Words<'a>,
    /// `v`: the answer has the value.
    pub with_value: bool,
    /// `q`: no answer when all went as usual.
    pub quiet: bool,
    /// `u`: the value does not count as used.
    pub no_bump: bool,
    /// `I`: marks as stale instead of deleting; stores in spite of a version that is too low, and marks as stale.
    pub invalidate: bool,
    /// `x`: deletes the value and keeps the key.
    pub remove_value: bool,
    /// `T`: a new time to live, for [`super::expiry_s`].
    pub exptime: Option<i64>,
    /// `N`: make a value when there is none, with this time to live. That of `T` where it stands behind `N`.
    pub vivify_exptime: Option<i64>,
    /// `R`: whoever finds less time to live than this is told to renew the value.
    pub renew_exptime: Option<i64>,
    /// Whether `R` looks at the time to live from before `T`, because it stands before it.
    pub renew_first: bool,
    /// `C`: only when the value has this version. Never 0 for [`Operation::Arithmetic`], where that means any.
    pub version: Option<u64>,
    /// `E`: the version to give to the value.
    pub new_version: Option<u64>,
    /// `F`: a number to keep with the value.
    pub flags: u32,
    /// `D`: how much to count; 1 when it is not said.
    pub delta: u64,
    /// `J`: where to begin to count; 0 when it is not said.
    pub initial: u64,
}

/// `mn`
pub(super) const NO_OP: MetaCommand<'static> =
    MetaCommand::new(Operation::NoOp, b"", Words::new(b""));

/// What an answer can repeat or show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    /// `O`: as it stands, with its letter.
    Opaque(&'a [u8]),
    /// `k`: the key.
    Key,
    /// `s`: the bytes of the value.
    Size,
    /// `t`: the seconds that the value has to live, as of its place in the command.
    TimeToLive {
        /// Whether it is asked for before the flag that changes it.
        before: bool,
    },
    /// `c`: the version.
    Version,
    /// `f`: the number that is kept with the value.
    Flags,
    /// `l`: the seconds since the value was last used.
    SinceUse,
    /// `h`: whether the value has been used before.
    UsedBefore,
}

/// What answers show of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The bytes of the value.
    pub bytes: usize,
    /// The number that is kept with it.
    pub flags: u32,
    /// Its version.
    pub version: u64,
    /// The seconds that it has to live after this command; without when it does not expire.
    pub ttl_s: Option<u32>,
    /// The same before this command; without, too, when this command made the value.
    pub ttl_before_s: Option<u32>,
    /// The seconds since it was last used, before this command.
    pub since_use_s: u32,
    /// Whether it has been used before this command.
    pub used_before: bool,
    /// `W`: whoever gets this answer is to renew the value.
    pub won: bool,
    /// `X`: the value is stale.
    pub stale: bool,
    /// `Z`: somebody else is renewing the value.
    pub taken: bool,
}

/// How a command ended that has nothing to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// `HD`: done.
    Done,
    /// `EN`: there is no such value to get.
    Miss,
    /// `NF`: there is no such value.
    NotFound,
    /// `NS`: not stored, because the condition did not hold.
    NotStored,
    /// `EX`: the value has another version.
    Exists,
}

impl<'a> MetaCommand<'a> {
    const fn new(operation: Operation, key: &'a [u8], words: Words<'a>) -> Self {
        Self {
            operation,
            key: Key::plain(key),
            value: b"",
            words,
            with_value: false,
            quiet: false,
            no_bump: false,
            invalidate: false,
            remove_value: false,
            exptime: None,
            vivify_exptime: None,
            renew_exptime: None,
            renew_first: false,
            version: None,
            new_version: None,
            flags: 0,
            delta: 1,
            initial: 0,
        }
    }

    /// What the answer is to repeat or show, in this order.
    #[inline]
    pub fn asked(&self) -> impl Iterator<Item = Asked<'a>> {
        let change = if self.exptime.is_some() { b'T' } else { b'N' };
        let mut before = true;
        self.words.filter_map(move |word| match word[0] {
            letter if letter == change => {
                before = false;
                None
            }
            b'O' => Some(Asked::Opaque(word)),
            b'k' => Some(Asked::Key),
            b's' => Some(Asked::Size),
            b't' => Some(Asked::TimeToLive { before }),
            b'c' => Some(Asked::Version),
            b'f' => Some(Asked::Flags),
            b'l' => Some(Asked::SinceUse),
            b'h' => Some(Asked::UsedBefore),
            _ => None,
        })
    }
}

/// The bytes that a word is the base64 of; `None` when it is not, or of nothing.
pub(super) fn decode<'b>(word: &[u8], room: &'b mut [u8; KEY_BYTES_MAX]) -> Option<&'b [u8]> {
    let bytes = STANDARD.decode_slice(word, room).ok()?;
    (bytes > 0).then(|| &room[..bytes])
}

#[cfg(test)]
mod tests;
