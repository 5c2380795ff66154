//! One command and one reply of the caches that a client can ask.
//!
//! Place in the flow: a link appends commands here and reads their replies in the same order. One key a command, however large the batch:
//! they leave in one write all the same, and no line or reply grows with the batch.

use robinhood_protocol::memcached::{self, Key, VALUE_BYTES_MAX, text};
use robinhood_protocol::{ProtocolError, resp};

/// What a cache speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheProtocol {
    /// memcached's text protocol, also spoken by our own server.
    Memcached,
    /// RESP: Redis and Valkey.
    Redis,
}

/// What a server said to one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply<'a> {
    Value {
        /// Whose value it is, where the protocol says it.
        key: Option<&'a [u8]>,
        data: &'a [u8],
    },
    /// There is none.
    Missing,
    Stored,
    /// It refuses, or says what nobody asked for.
    Refused,
}

/// The longest key that is sent to Redis; memcached has a limit of its own.
const REDIS_KEY_BYTES_MAX: usize = 1_024;

/// The key as it is sent; `None` when the protocol takes none so long. Different keys are different on the wire.
pub(super) fn key(protocol: CacheProtocol, prefix: &[u8], key: &[u8]) -> Option<Box<[u8]>> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let bytes_max = match protocol {
        CacheProtocol::Memcached => memcached::KEY_BYTES_MAX,
        CacheProtocol::Redis => REDIS_KEY_BYTES_MAX,
    };
    let mut sent = Vec::with_capacity(prefix.len() + 3 * key.len());
    sent.extend_from_slice(prefix);
    for &byte in key {
        match byte {
            b'%' | 0..=b' ' | 0x7f.. => {
                let [high, low] = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
                sent.extend_from_slice(&[b'%', high, low]);
            }
            _ => sent.push(byte),
        }
    }
    (sent.len() <= bytes_max).then(|| sent.into_boxed_slice())
}

impl CacheProtocol {
    /// Appends a question.
    pub(super) fn write_get(self, key: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Memcached => text::Request::Get { key: checked(key) }.write(out),
            Self::Redis => resp::write_command(out, &[b"GET", key]),
        }
    }

    /// Appends an order to keep a value for as long as there is room.
    pub(super) fn write_set(self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Memcached => {
                text::Request::Set { key: checked(key), flags: 0, expires_s: 0, value }.write(out);
            }
            Self::Redis => resp::write_command(out, &[b"SET", key, value]),
        }
    }

    /// The first reply in `bytes` and its length; `None` while a part is missing.
    pub(super) fn parse(self, bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, ProtocolError> {
        Ok(match self {
            Self::Memcached => {
                text::parse_single(bytes, VALUE_BYTES_MAX)?.map(|(response, used)| {
                    let reply = match response {
                        text::Response::Value { key, data, .. } => {
                            Reply::Value { key: Some(key), data }
                        }
                        text::Response::End => Reply::Missing,
                        text::Response::Stored => Reply::Stored,
                        _ => Reply::Refused,
                    };
                    (reply, used)
                })
            }
            Self::Redis => resp::parse(bytes, VALUE_BYTES_MAX)?.map(|(reply, used)| {
                let reply = match reply {
                    resp::Reply::Bulk(data) => Reply::Value { key: None, data },
                    resp::Reply::Null => Reply::Missing,
                    resp::Reply::Simple(b"OK") => Reply::Stored,
                    _ => Reply::Refused,
                };
                (reply, used)
            }),
        })
    }
}

/// Only [`key`] makes keys.
fn checked(key: &[u8]) -> Key<'_> {
    Key::new(key).expect("it was written to fit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_printable_and_stay_different() {
        let sent = |text: &[u8]| key(CacheProtocol::Memcached, b"ads:", text).unwrap();
        assert_eq!(&*sent(b"17"), b"ads:17");
        assert_eq!(&*sent(&[0, b' ', b'%', 0xff]), b"ads:%00%20%25%ff");
        assert_ne!(sent(b"%00"), sent(&[0]));
        assert_eq!(key(CacheProtocol::Memcached, b"ads:", &[b'x'; 247]), None, "251 bytes");
        assert!(key(CacheProtocol::Redis, b"ads:", &[b'x'; 247]).is_some());
    }

    #[test]
    fn what_servers_say_is_understood() {
        let value = |key| Reply::Value { key, data: b"hi" };
        let cases: [(CacheProtocol, &[u8], Reply<'_>); 8] = [
            (CacheProtocol::Memcached, b"VALUE a 0 2\r\nhi\r\nEND\r\n", value(Some(b"a"))),
            (CacheProtocol::Memcached, b"END\r\n", Reply::Missing),
            (CacheProtocol::Memcached, b"STORED\r\n", Reply::Stored),
            (CacheProtocol::Memcached, b"SERVER_ERROR out of memory\r\n", Reply::Refused),
            (CacheProtocol::Redis, b"$2\r\nhi\r\n", value(None)),
            (CacheProtocol::Redis, b"$-1\r\n", Reply::Missing),
            (CacheProtocol::Redis, b"+OK\r\n", Reply::Stored),
            (CacheProtocol::Redis, b"-OOM command not allowed\r\n", Reply::Refused),
        ];
        for (protocol, bytes, reply) in cases {
            assert_eq!(protocol.parse(bytes).unwrap(), Some((reply, bytes.len())));
            assert_eq!(
                protocol.parse(&bytes[..bytes.len() - 1]).unwrap(),
                None,
                "a part is missing"
            );
        }
        assert!(CacheProtocol::Redis.parse(b"HTTP/1.1 400\r\n").is_err());
    }
}
