//! What can be wrong with bytes received and with requests to be written.
//!
//! Place in the flow: the load tester prints the first of either and counts the rest.

/// How many bytes of what was received an error shows.
const SHOWN_BYTES: usize = 48;

/// Bytes that are no message of the protocol, or one beyond a limit. The connection is of no use afterwards.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The bytes break the grammar of the protocol.
    #[error(
        "{protocol}: expected {expected}, got \"{found}\"; check that the target speaks {protocol}"
    )]
    Malformed {
        /// The protocol.
        protocol: &'static str,
        /// What should have been there.
        expected: &'static str,
        /// The start of what was there, escaped.
        found: String,
    },
    /// A line or head goes on without an end.
    #[error(
        "{protocol}: no end of {what} within {limit_bytes} bytes (it begins with \"{found}\"); check that the target speaks {protocol}"
    )]
    TooLong {
        /// The protocol.
        protocol: &'static str,
        /// What has no end.
        what: &'static str,
        /// How long it may be.
        limit_bytes: usize,
        /// Its start, escaped.
        found: String,
    },
    /// A message announces more than the caller accepts.
    #[error(
        "{protocol}: {what} of {announced} is above the limit of {limit}; raise the limit or ask for less at once"
    )]
    TooLarge {
        /// The protocol.
        protocol: &'static str,
        /// What is counted, with its unit.
        what: &'static str,
        /// How much was announced.
        announced: u64,
        /// How much is accepted.
        limit: u64,
    },
}

impl ProtocolError {
    #[cold]
    pub(crate) fn malformed(protocol: &'static str, expected: &'static str, found: &[u8]) -> Self {
        Self::Malformed { protocol, expected, found: shown(found) }
    }

    #[cold]
    pub(crate) fn too_long(
        protocol: &'static str,
        what: &'static str,
        limit_bytes: usize,
        found: &[u8],
    ) -> Self {
        Self::TooLong { protocol, what, limit_bytes, found: shown(found) }
    }

    #[cold]
    pub(crate) fn too_large(
        protocol: &'static str,
        what: &'static str,
        announced: u64,
        limit: u64,
    ) -> Self {
        Self::TooLarge { protocol, what, announced, limit }
    }
}

/// The start of some bytes, readable in one line.
fn shown(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let more = if bytes.len() > SHOWN_BYTES { "..." } else { "" };
    format!("{}{more}", start.escape_ascii())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_show_the_start_of_what_was_received_in_one_line() {
        let error = ProtocolError::malformed("memcached", "a response", b"HTTP/1.1 400\r\n\xff");
        let text = error.to_string();
        assert!(text.contains("expected a response, got \"HTTP/1.1 400\\r\\n\\xff\""), "{text}");
        assert!(text.contains("check that the target speaks memcached"), "{text}");
        let long = ProtocolError::too_long("HTTP/1.1", "head", 10, &[b'a'; 1_000]).to_string();
        assert!(long.contains("aaa...") && long.len() < 250, "{long}");
    }
}
