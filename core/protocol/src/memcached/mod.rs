//! memcached: what its text and meta protocols share. Keys, limits, faults.
//!
//! Place in the flow: [`text`] and [`meta`] write requests from validated keys and parse responses; [`server`] is the
//! other side of both. A server answers in the order of the requests of a connection, and both protocols can be mixed on
//! one.
//!
//! Source: the server's own `protocol.txt`, as of 1.6.

pub mod meta;
pub mod server;
pub mod text;

use crate::{RequestError, scan};

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 250;

/// The largest value of a server with default settings, in bytes. (Its own limit, `-I`, counts key and header too.)
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// The longest line of a response, in bytes with its end.
pub const LINE_BYTES_MAX: usize = 2_048;

/// A key that can be written into a command: 1 to [`KEY_BYTES_MAX`] bytes without spaces and control characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<'a>(&'a [u8]);

impl<'a> Key<'a> {
    /// Checks the bytes of a key.
    ///
    /// # Errors
    /// When the key is empty, too long or has a byte that is not allowed.
    pub fn new(key: &'a [u8]) -> Result<Self, RequestError> {
        if key.is_empty() {
            return Err(RequestError::KeyEmpty { limit_bytes: KEY_BYTES_MAX });
        }
        if key.len() > KEY_BYTES_MAX {
            let (bytes, limit_bytes) = (key.len(), KEY_BYTES_MAX);
            return Err(RequestError::KeyTooLong { bytes, limit_bytes });
        }
        match key.iter().position(|byte| *byte <= b' ' || *byte == 0x7f) {
            Some(position) => Err(RequestError::KeyByte { byte: key[position], position }),
            None => Ok(Self(key)),
        }
    }

    /// Its bytes.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Checks the size of a value against the server's limit, [`VALUE_BYTES_MAX`] unless it was told otherwise. Writers do
/// not: one check of the largest value of a workload is enough.
///
/// # Errors
/// When it is larger.
pub const fn check_value_bytes(bytes: u64, limit_bytes: u64) -> Result<(), RequestError> {
    if bytes > limit_bytes {
        return Err(RequestError::ValueTooLarge { bytes, limit_bytes });
    }
    Ok(())
}

/// A command that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault<'a> {
    /// `ERROR`: the server does not know the command.
    Unknown,
    /// `CLIENT_ERROR`: the command was wrong; with the server's reason.
    Client(&'a [u8]),
    /// `SERVER_ERROR`: the server could not; with its reason.
    Server(&'a [u8]),
}

impl<'a> Fault<'a> {
    fn of_line(line: &'a [u8]) -> Option<Self> {
        match line.strip_prefix(b"CLIENT_ERROR ") {
            Some(reason) => Some(Self::Client(reason)),
            None => match line.strip_prefix(b"SERVER_ERROR ") {
                Some(reason) => Some(Self::Server(reason)),
                None => (line == b"ERROR").then_some(Self::Unknown),
            },
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        let (word, reason): (&[u8], &[u8]) = match self {
            Self::Unknown => (b"ERROR", b""),
            Self::Client(reason) => (b"CLIENT_ERROR ", reason),
            Self::Server(reason) => (b"SERVER_ERROR ", reason),
        };
        append(out, &[word, reason, b"\r\n"]);
    }
}

/// Appends all parts.
#[inline]
fn append(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Appends a space and a number.
#[inline]
fn append_number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.push(b' ');
    scan::write_number(out, number);
}

/// What a value's length counts, in errors.
const VALUE_UNIT: &str = "bytes of a value";

#[cfg(test)]
mod tests {
    use super::*;

    /// What a writer appends, readable.
    pub(super) fn escaped(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        out.escape_ascii().to_string()
    }

    #[test]
    fn keys_are_refused_with_the_limit_and_what_to_do() {
        assert_eq!(Key::new(b"").unwrap_err(), RequestError::KeyEmpty { limit_bytes: 250 });
        let longest = [b'k'; 250];
        assert_eq!(Key::new(&longest).unwrap().as_bytes(), longest);
        let error = Key::new(&[b'k'; 251]).unwrap_err().to_string();
        assert!(error.contains("251 bytes, above the limit of 250; use shorter keys"), "{error}");
        for byte in [b' ', b'\r', b'\n', b'\t', 0, 0x7f] {
            let error = Key::new(&[b'k', byte]).unwrap_err();
            assert_eq!(error, RequestError::KeyByte { byte, position: 1 });
        }
        assert!(Key::new("schlüssel".as_bytes()).is_ok());
    }

    #[test]
    fn the_largest_value_is_accepted_and_one_more_byte_is_not() {
        let limit = VALUE_BYTES_MAX as u64;
        assert_eq!(check_value_bytes(limit, limit), Ok(()));
        let error = check_value_bytes(limit + 1, limit).unwrap_err().to_string();
        assert!(error.contains("1048577 bytes, above the limit of 1048576"), "{error}");
    }
}
