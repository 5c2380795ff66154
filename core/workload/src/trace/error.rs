//! What can be wrong with a trace, and where.

use std::fmt;

use super::binary::VERSION;
use super::{BLOCK_BYTES_MAX, FORMAT, GROUP_REQUESTS_MAX, LINE_BYTES_MAX};

/// A trace that cannot be read, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{place}: {fault}")]
pub struct TraceError {
    /// The file as the caller named it.
    pub file: String,
    /// Where in the file.
    pub place: Place,
    /// What is wrong.
    pub fault: Fault,
}

/// A place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    File,
    /// A line of JSON, from 1.
    Line(u64),
    /// A byte of a binary trace.
    Block {
        /// The block, from 1; bad ones are counted.
        block: u64,
        /// Bytes of the file up to which it was read: the head of a damaged block, or what is wrong inside an intact one.
        offset_bytes: u64,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => Ok(()),
            Self::Line(line) => write!(f, ", line {line}"),
            Self::Block { block, offset_bytes } => {
                write!(f, ", block {block}, byte {offset_bytes}")
            }
        }
    }
}

/// What is wrong with a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// There is no request in the file.
    #[error(
        "the trace has no request: allowed is one JSON object a line, {FORMAT}, or a binary trace"
    )]
    Empty,
    /// Time goes back.
    #[error("`t` is {found} s after {before} s: allowed is a time in seconds that never goes back")]
    TimeBack {
        /// Time of the request before, as text.
        before: String,
        /// Time of this request, as text.
        found: String,
    },
    /// Too many requests have the same time.
    #[error("more than {GROUP_REQUESTS_MAX} requests with the same `t`")]
    Crowded,
    /// A backend has a name that we cannot use.
    #[error("{0}")]
    Name(robinhood_stats::NameError),
    /// There are too many backends.
    #[error("backend `{0}` is one more than the 1,024 that are allowed")]
    ManyBackends(String),
    /// There are too many keys.
    #[error("a backend has more than 4,294,967,294 keys")]
    ManyKeys,

    /// The line is longer than any request.
    #[error("the line is longer than {} MiB", LINE_BYTES_MAX >> 20)]
    LongLine,
    /// The line is not JSON.
    #[error("column {column}: not JSON ({reason}): allowed is {FORMAT}")]
    NotJson {
        /// Where, from 1.
        column: usize,
        /// What the JSON reader says.
        reason: String,
    },
    /// A key is missing, unknown, twice there, or has a value of the wrong type.
    #[error("column {column}: {reason}")]
    Content {
        /// Where, from 1.
        column: usize,
        /// The key, what was found and what is allowed.
        reason: String,
    },
    /// The lists of a batch disagree.
    #[error(
        "backend `{backend}`: `S` has {sizes} entries, `U` {keys} and `C` {cacheable}: one of each for every query is allowed"
    )]
    Lengths {
        /// The backend of the batch.
        backend: String,
        /// Length of `S`.
        sizes: usize,
        /// Length of `U`.
        keys: usize,
        /// Length of `C`.
        cacheable: usize,
    },

    /// The file begins like a binary trace and is none.
    #[error("this is no trace: the first 7 bytes of a binary one are 89 52 48 54 0d 0a 1a")]
    Magic,
    /// The format is newer, or does not exist.
    #[error("a binary trace of version {found}: version {VERSION} can be read")]
    Version {
        /// What the file says.
        found: u8,
    },
    /// The file ends before its end mark.
    #[error("the file ends here, before its end mark: it was cut off, or was never finished")]
    Truncated,
    /// The head of a block is damaged.
    #[error("the head of the block is damaged: its mark or its checksum is wrong")]
    Head,
    /// The head of a block is intact and claims what no writer writes.
    #[error("the block claims {0} bytes: at most {BLOCK_BYTES_MAX} are allowed")]
    LongBlock(u32),
    /// The bytes of a block are damaged.
    #[error("the block is damaged: its checksum is {found:08x} instead of {noted:08x}")]
    Checksum {
        /// The checksum in the head.
        noted: u32,
        /// That of the bytes.
        found: u32,
    },
    /// A block is missing, or there twice.
    #[error(
        "the block begins with request {found} where {expected} is next: a block is missing or misplaced"
    )]
    Order {
        /// Requests before the block.
        expected: u64,
        /// What its head says.
        found: u64,
    },
    /// A block is intact and has no meaning.
    #[error("{0}")]
    Malformed(&'static str),
    /// There is something behind the end mark.
    #[error("bytes follow the end mark, where the file must end")]
    AfterEnd,
}
