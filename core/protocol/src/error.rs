//! What can be wrong with bytes received and with requests to be written.
//!
//! Place in the flow: the load tester prints the first of either and counts the rest.

/// Bytes that are no message of the protocol, or one beyond a limit. The connection is of no use afterwards. Whoever
/// called the parser knows the protocol and has the bytes, to say both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The bytes break the grammar of the protocol.
    #[error("expected {expected}")]
    Malformed {
        /// What should have been there.
        expected: &'static str,
    },
    /// A line or head goes on without an end.
    #[error("no end of a {what} within {limit_bytes} bytes; does the target speak the protocol?")]
    TooLong {
        /// What has no end.
        what: &'static str,
        /// How long it may be.
        limit_bytes: usize,
    },
    /// A message announces more than is accepted.
    #[error("{announced} {what}, above the limit of {limit}; raise the limit or ask for less")]
    TooLarge {
        /// What is counted: a unit and where.
        what: &'static str,
        /// How much was announced.
        announced: u64,
        /// How much is accepted.
        limit: u64,
    },
}

/// A request that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A memcached key without bytes.
    #[error("a memcached key is empty; it needs 1 to {limit_bytes} bytes")]
    KeyEmpty {
        /// The longest key.
        limit_bytes: usize,
    },
    /// A memcached key above the limit of the protocol.
    #[error(
        "a memcached key has {bytes} bytes, above the limit of {limit_bytes}; use shorter keys, or their hash"
    )]
    KeyTooLong {
        /// Its bytes.
        bytes: usize,
        /// The longest key.
        limit_bytes: usize,
    },
    /// A byte in a memcached key that would end or divide the command.
    #[error(
        "a memcached key has byte 0x{byte:02x} at position {position}; spaces and control characters are not allowed: encode the key"
    )]
    KeyByte {
        /// The byte.
        byte: u8,
        /// Its position, from 0.
        position: usize,
    },
    /// A value above the server's limit.
    #[error(
        "a memcached value has {bytes} bytes, above the limit of {limit_bytes}; use smaller values, or raise the server's limit (memcached -I) and the one here"
    )]
    ValueTooLarge {
        /// Its bytes.
        bytes: u64,
        /// The largest value.
        limit_bytes: u64,
    },
    /// An HTTP path that does not begin with a slash.
    #[error("the HTTP path \"{path}\" does not begin with `/`; write it from the root of the host")]
    PathStart {
        /// The path.
        path: String,
    },
    /// A byte in an HTTP path or host that would end or divide the request line or header.
    #[error(
        "the HTTP {part} \"{text}\" has byte 0x{byte:02x} at position {position}; percent-encode spaces, control characters and bytes beyond ASCII"
    )]
    HttpByte {
        /// "path" or "host".
        part: &'static str,
        /// The text.
        text: String,
        /// The byte.
        byte: u8,
        /// Its position, from 0.
        position: usize,
    },
    /// An HTTP path or host above the limit.
    #[error("the HTTP {part} has {bytes} bytes, it needs 1 to {limit_bytes}; shorten it")]
    HttpLength {
        /// "path" or "host".
        part: &'static str,
        /// Its bytes.
        bytes: usize,
        /// The longest.
        limit_bytes: usize,
    },
}
