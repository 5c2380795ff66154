//! What the load tester must know of a protocol: how a request looks in bytes, and where its answer ends.
//!
//! Place in the flow: between the engine, which moves bytes and takes times, and a server. An implementation does no I/O and
//! reads no clock. [`protocols::null`](crate::protocols::null) is the shortest one and serves as template.
//!
//! Answers of a stream protocol come in the order of the requests of their connection; those of a datagram protocol name their
//! request.

use std::ops::Range;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Read the value of a key.
    Get,
    /// Read the values of so many keys at once: they stand in [`Request::key`] with a space between each two. For protocols that
    /// [can](Protocol::reads_many).
    GetMany(u16),
    /// Write the value of a key.
    Set,
    /// Neither: the bytes of the request stand in [`Request::value`].
    Call,
}

/// One request, before it is bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Number of the request at its client, from 0.
    pub index: u64,
    /// What it asks for.
    pub kind: Kind,
    /// The key; empty for a call.
    pub key: &'a [u8],
    /// The value to write, or the bytes of a call; empty for a read.
    pub value: &'a [u8],
}

/// What is known of a request when its answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Number of the request at its client.
    pub index: u64,
    /// What it asked for.
    pub kind: Kind,
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The value was there.
    Hit,
    /// The key was not there.
    Miss,
    /// Several keys were looked for: so many were there, and so many were not.
    Read(u16, u16),
    /// The request was done: a write, or a call.
    Done,
    /// The server says that it did not do it. Counts as failed.
    Error,
}

/// One whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Bytes that it takes, from the start of what was given.
    pub bytes: usize,
    /// What it says.
    pub outcome: Outcome,
    /// Where the value of a hit lies in these bytes.
    pub value: Range<usize>,
    /// The request that it answers, where the protocol says so. Datagram protocols must.
    pub index: Option<u64>,
    /// Whether the server closes the connection after it.
    pub closes: bool,
}

impl Answer {
    /// An answer without value that the connection outlives.
    pub const fn new(bytes: usize, outcome: Outcome) -> Self {
        Self { bytes, outcome, value: 0..0, index: None, closes: false }
    }
}

/// Bytes that are no answer. The connection is closed: where the next answer begins is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{protocol}: {reason}; got {}", shown(.bytes))]
pub struct Garbage {
    /// The protocol that was expected.
    pub protocol: &'static str,
    /// What is wrong.
    pub reason: String,
    /// The beginning of what came, at most 64 bytes.
    pub bytes: Vec<u8>,
}

impl Garbage {
    /// With the beginning of what came.
    pub fn new(protocol: &'static str, reason: impl Into<String>, bytes: &[u8]) -> Self {
        let shown = &bytes[..bytes.len().min(64)];
        Self { protocol, reason: reason.into(), bytes: shown.to_vec() }
    }
}

/// Bytes from the network, safe to print.
fn shown(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

/// How bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A stream: answers may come in pieces and several at once.
    Tcp,
    /// One request and one answer a datagram. Both may be lost.
    Udp,
}

/// The largest key and value that a protocol or its server takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of a key.
    pub key_bytes_max: usize,
    /// Of a value.
    pub value_bytes_max: usize,
}

/// A protocol. One value serves one client, for all its connections.
pub trait Protocol: Send {
    /// As typed on the command line.
    fn name(&self) -> &'static str;

    /// TCP where not said otherwise.
    fn transport(&self) -> Transport {
        Transport::Tcp
    }

    /// The most requests that may wait for their answers on one connection; without bound where servers take requests one after
    /// another from a connection. Beyond it a request waits at the client, and its latency counts on.
    fn depth_max(&self) -> usize {
        usize::MAX
    }

    /// Whether one request can read several keys.
    fn reads_many(&self) -> bool {
        false
    }

    /// Sizes that requests must keep to. Checked before a run.
    fn limits(&self) -> Limits;

    /// Appends the bytes of a request. Its sizes are within the [`limits`](Self::limits).
    fn encode(&mut self, request: &Request<'_>, out: &mut Vec<u8>);

    /// Looks for a whole answer at the start of `bytes`; `None` when more bytes are needed. `asked` is the oldest request of the
    /// connection; for a datagram protocol it is nobody in particular.
    ///
    /// # Errors
    /// When the bytes cannot become an answer, however many follow.
    fn decode(&mut self, asked: Asked, bytes: &[u8]) -> Result<Option<Answer>, Garbage>;
}
