//! The server's side of memcached: bytes of a connection to commands, results to the bytes of an answer.
//!
//! Place in the flow: a server gives the bytes it has received to [`parse`], does what the [`Command`] says, and appends
//! the answer with [`reply`] and [`meta`]. [`Expiry`] and [`arithmetic`] are the two rules of the protocol that are
//! neither storage nor bytes.
//!
//! Source: `protocol.txt` of memcached 1.6, and the behaviour of its server where that says nothing. A server that uses
//! this differs from it in what cannot be seen from one packet to the next, and in what the protocol forbids and
//! memcached does not look at:
//!
//! - How a command is divided into packets never matters. memcached takes lines above 2 KiB when they arrive in one
//!   piece; here they end the connection unless they ask for keys.
//! - Control characters in a key are refused.
//! - Numbers that do not fit are refused; memcached takes their lowest 32 bits. Times have 64 bits.
//! - The binary protocol ends the connection.

mod counting;
mod expiry;
pub mod meta;
pub mod reply;
mod text;
mod words;

pub use counting::{Changed, NotANumber, arithmetic};
pub use expiry::{Expiry, expiry_s};
pub use meta::MetaCommand;

use super::KEY_BYTES_MAX;
use words::Words;

/// The longest line that is not a list of keys, in bytes before its line feed, as memcached has it.
pub const COMMAND_BYTES_MAX: usize = 2_048;

/// The largest length of a value that can be announced, in bytes. Above, a command is malformed and not too large.
const ANNOUNCED_BYTES_MAX: i64 = (i32::MAX - 2) as i64;

/// What begins a message of the binary protocol.
const BINARY_REQUEST: u8 = 0x80;

/// What a server accepts. Lines that are not lists of keys have [`COMMAND_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest value, in bytes. A larger one is thrown away as it comes.
    pub value_bytes_max: usize,
    /// The most keys in one command.
    pub keys_per_command_max: usize,
    /// The longest list of keys, in bytes with its end. A longer one ends the connection.
    pub line_bytes_max: usize,
}

/// What the bytes at the front of a connection's buffer are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// More bytes are needed before anything can be said.
    Incomplete {
        /// With fewer bytes than these in total, the outcome is the same. Always more than there are.
        bytes_min: usize,
    },
    /// One command.
    Command {
        /// The command.
        command: Command<'a>,
        /// How many bytes of the buffer belong to it.
        bytes: usize,
    },
    /// Not a command, or one that is refused.
    Bad {
        /// The answer, as it is to be sent; empty when none was asked for.
        reply: &'static [u8],
        /// How many bytes of the buffer belong to it.
        bytes: usize,
        /// How many bytes after those belong to it and are to be thrown away; 0 unless `bytes` is the whole buffer.
        swallow: u64,
        /// The key whose value must not be served any longer: it should have been replaced by one that is too large.
        forget: Option<Key<'a>>,
        /// Whether the connection is of no use afterwards.
        close: bool,
    },
}

/// A key as a command has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// As it stands in the command: 1 to 250 bytes without spaces and control characters.
    pub word: &'a [u8],
    /// Whether the key is what the word is the base64 of.
    pub base64: bool,
}

impl<'a> Key<'a> {
    /// A key that is its word.
    const fn plain(word: &'a [u8]) -> Self {
        Self { word, base64: false }
    }

    /// The bytes of the key. `room` is written to when they have to be decoded.
    ///
    /// # Panics
    /// When the word is not what [`parse`] gave.
    #[inline]
    pub fn bytes<'b>(&self, room: &'b mut [u8; KEY_BYTES_MAX]) -> &'b [u8]
    where
        'a: 'b,
    {
        if !self.base64 {
            return self.word;
        }
        meta::decode(self.word, room).expect("the parser has decoded it once")
    }
}

/// How a value is to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// In any case.
    Set,
    /// When there is none.
    Add,
    /// When there is one.
    Replace,
    /// After the one that is there.
    Append,
    /// Before the one that is there.
    Prepend,
    /// When the one that is there has this version.
    Cas(u64),
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command<'a> {
    /// `get`, `gets`: [`reply::value_header`] and the value for every key that is there, then [`reply::END`].
    Get {
        /// The keys.
        keys: Keys<'a>,
        /// Whether the versions of the values are asked for.
        with_version: bool,
    },
    /// `gat`, `gats`: as [`Command::Get`], and gives the values a new time to live.
    GetAndTouch {
        /// The keys; there may be none.
        keys: Keys<'a>,
        /// The time to live, for [`expiry_s`].
        exptime: i64,
        /// Whether the versions of the values are asked for.
        with_version: bool,
    },
    /// `set` and its kin: [`reply::STORED`], [`reply::NOT_STORED`], [`reply::EXISTS`] or [`reply::NOT_FOUND`].
    Store {
        /// How.
        verb: Verb,
        /// The key.
        key: &'a [u8],
        /// A number to keep with the value.
        flags: u32,
        /// The time to live, for [`expiry_s`].
        exptime: i64,
        /// The value.
        value: &'a [u8],
        /// Whether there is to be no answer.
        noreply: bool,
    },
    /// `delete`: [`reply::DELETED`] or [`reply::NOT_FOUND`].
    Delete {
        /// The key.
        key: &'a [u8],
        /// Whether there is to be no answer.
        noreply: bool,
    },
    /// `incr`, `decr`: [`reply::number`], [`reply::NOT_FOUND`] or [`reply::NOT_A_NUMBER`].
    Arithmetic {
        /// The key.
        key: &'a [u8],
        /// How much.
        delta: u64,
        /// Whether it is added; subtracted otherwise.
        increase: bool,
        /// Whether there is to be no answer.
        noreply: bool,
    },
    /// `touch`: [`reply::TOUCHED`] or [`reply::NOT_FOUND`].
    Touch {
        /// The key.
        key: &'a [u8],
        /// The time to live, for [`expiry_s`].
        exptime: i64,
        /// Whether there is to be no answer.
        noreply: bool,
    },
    /// `flush_all`: [`reply::OK`].
    FlushAll {
        /// When, as a time to live; 0 and below is now.
        delay_s: i64,
        /// Whether there is to be no answer.
        noreply: bool,
    },
    /// `verbosity`: [`reply::OK`].
    Verbosity {
        /// Whether there is to be no answer.
        noreply: bool,
    },
    /// `cache_memlimit`: [`reply::OK`], or [`reply::MEMLIMIT_REFUSED`].
    CacheMemlimit {
        /// The new budget of all values, in bytes; at least 8 MiB.
        bytes: u64,
        /// Whether there is to be no answer.
        noreply: bool,
    },
    /// `version`: [`reply::version`].
    Version,
    /// `stats`: [`reply::stat`] any number of times, then [`reply::END`]; or [`reply::RESET`], or [`reply::ERROR`].
    Stats {
        /// What follows the word, without spaces around it.
        arguments: &'a [u8],
    },
    /// `quit`: closes the connection.
    Quit,
    /// `robinhood limit`, which memcached does not have: [`reply::OK`] or [`reply::NOT_FOUND`].
    Limit {
        /// The name of a partition.
        partition: &'a [u8],
        /// Its new limit, in bytes.
        bytes: u64,
        /// Whether there is to be no answer.
        noreply: bool,
    },
    /// A command of the meta protocol.
    Meta(MetaCommand<'a>),
}

/// The keys of a command. [`parse`] has looked at each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys<'a>(Words<'a>);

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.0.next()
    }
}

/// Says what the bytes at the front of a connection's buffer are. An attempt costs what the line costs, however much of a
/// large value is there or missing.
pub fn parse<'a>(buffer: &'a [u8], limits: &Limits) -> Parsed<'a> {
    if buffer.first() == Some(&BINARY_REQUEST) {
        return close(buffer, reply::BINARY);
    }
    let window = &buffer[..buffer.len().min(limits.line_bytes_max)];
    let Some(end) = memchr::memchr(b'\n', window) else {
        return without_end(buffer, limits);
    };
    let line = &buffer[..end];
    if end > COMMAND_BYTES_MAX && !asks_for_keys(line) {
        return close(buffer, reply::LINE_TOO_LONG);
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    text::command(line, Frame { buffer, line_bytes: end + 1, limits })
}

/// A buffer without the end of a line.
#[cold]
fn without_end<'a>(buffer: &'a [u8], limits: &Limits) -> Parsed<'a> {
    let too_long = buffer.len() >= limits.line_bytes_max
        || (buffer.len() > COMMAND_BYTES_MAX && !asks_for_keys(buffer));
    match too_long {
        true => close(buffer, reply::LINE_TOO_LONG),
        false => Parsed::Incomplete { bytes_min: buffer.len() + 1 },
    }
}

/// Whether a long line is one of those that may be long. Says the same of every beginning of it that is long.
#[cold]
fn asks_for_keys(line: &[u8]) -> bool {
    let name = Words::new(&line[..line.len().min(COMMAND_BYTES_MAX)]).next();
    matches!(name, Some(b"get" | b"gets" | b"gat" | b"gats"))
}

#[cold]
const fn close<'a>(buffer: &[u8], reply: &'static [u8]) -> Parsed<'a> {
    Parsed::Bad { reply, bytes: buffer.len(), swallow: 0, forget: None, close: true }
}

/// Where a line was found.
#[derive(Clone, Copy)]
struct Frame<'a, 'l> {
    /// From the beginning of the line on.
    buffer: &'a [u8],
    /// The line with its end.
    line_bytes: usize,
    limits: &'l Limits,
}

impl<'a> Frame<'a, '_> {
    /// The line is a command.
    #[inline]
    const fn command(self, command: Command<'a>) -> Parsed<'a> {
        Parsed::Command { command, bytes: self.line_bytes }
    }

    /// The line is not a command.
    #[cold]
    const fn bad(self, reply: &'static [u8]) -> Parsed<'a> {
        Parsed::Bad { reply, bytes: self.line_bytes, swallow: 0, forget: None, close: false }
    }

    /// The line is not a command, and nobody reads an answer when `noreply`.
    #[cold]
    const fn bad_unless(self, noreply: bool, reply: &'static [u8]) -> Parsed<'a> {
        self.bad(if noreply { b"" } else { reply })
    }

    /// The line is not a command, nor is the value after it.
    #[cold]
    fn bad_with_value(
        self,
        reply: &'static [u8],
        value_bytes: usize,
        forget: Option<Key<'a>>,
    ) -> Parsed<'a> {
        let all = self.line_bytes + value_bytes + 2;
        let bytes = all.min(self.buffer.len());
        Parsed::Bad { reply, bytes, swallow: (all - bytes) as u64, forget, close: false }
    }

    /// The command with the value after the line.
    #[inline]
    fn with_value(
        self,
        value_bytes: usize,
        bad_end: &'static [u8],
        command: impl FnOnce(&'a [u8]) -> Command<'a>,
    ) -> Parsed<'a> {
        let value_end = self.line_bytes + value_bytes;
        let bytes = value_end + 2;
        match self.buffer.get(value_end..bytes) {
            None => Parsed::Incomplete { bytes_min: bytes },
            Some(b"\r\n") => Parsed::Command {
                command: command(&self.buffer[self.line_bytes..value_end]),
                bytes,
            },
            Some(_) => {
                Parsed::Bad { reply: bad_end, bytes, swallow: 0, forget: None, close: false }
            }
        }
    }
}

/// Whether a word can be a key.
#[inline]
fn is_key(word: &[u8]) -> bool {
    // Without an early exit, so that many bytes are looked at at a time.
    let bad = word.iter().fold(false, |bad, byte| bad | (*byte <= b' ') | (*byte == 0x7f));
    !bad && word.len() <= KEY_BYTES_MAX && !word.is_empty()
}

#[cfg(test)]
mod tests;
