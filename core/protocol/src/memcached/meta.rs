//! memcached's meta protocol: commands of two letters, with flags and a tag that comes back.
//!
//! Place in the flow: as [`super::text`]. The opaque tag tells which request a response belongs to.

use super::{Fault, Key, LINE_BYTES_MAX, VALUE_UNIT, append, append_number};
use crate::{Parsed, ProtocolError, scan};

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// `mg`: asks for a value: [`Response::Value`] or [`Response::Miss`].
    Get {
        /// The key.
        key: Key<'a>,
        /// Comes back with the response.
        opaque: Option<u64>,
        /// Whether the key comes back with a value.
        with_key: bool,
    },
    /// `ms`: stores a value: [`Response::Done`].
    Set {
        /// The key.
        key: Key<'a>,
        /// A number that is kept with the value.
        flags: u32,
        /// Seconds to live (a date in seconds since 1970 when above 30 days); 0 is for ever.
        expires_s: u32,
        /// Comes back with the response.
        opaque: Option<u64>,
        /// The value.
        value: &'a [u8],
    },
    /// `md`: removes a value: [`Response::Done`] or [`Response::NotFound`].
    Delete {
        /// The key.
        key: Key<'a>,
        /// Comes back with the response.
        opaque: Option<u64>,
    },
    /// `mn`: is answered by [`Response::NoOp`], after everything before it.
    NoOp,
}

impl Request<'_> {
    /// Appends the command.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Get { key, opaque, with_key } => {
                append(out, &[b"mg ", key.as_bytes(), if with_key { b" v k" } else { b" v" }]);
                append_opaque(out, opaque);
            }
            Self::Set { key, flags, expires_s, opaque, value } => {
                append(out, &[b"ms ", key.as_bytes()]);
                append_number(out, value.len());
                for (flag, number) in [(b" F", flags), (b" T", expires_s)] {
                    if number != 0 {
                        append(out, &[flag]);
                        scan::write_number(out, number);
                    }
                }
                append_opaque(out, opaque);
                append(out, &[b"\r\n", value]);
            }
            Self::Delete { key, opaque } => {
                append(out, &[b"md ", key.as_bytes()]);
                append_opaque(out, opaque);
            }
            Self::NoOp => append(out, &[b"mn"]),
        }
        append(out, &[b"\r\n"]);
    }
}

fn append_opaque(out: &mut Vec<u8>, opaque: Option<u64>) {
    if let Some(opaque) = opaque {
        append(out, &[b" O"]);
        scan::write_number(out, opaque);
    }
}

/// The flags of a response: words of one letter and what follows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags<'a>(&'a [u8]);

impl<'a> Flags<'a> {
    /// Flags as they stand in a response, divided by spaces.
    pub const fn new(words: &'a [u8]) -> Self {
        Self(words)
    }

    /// The flags as they stand in the response, divided by spaces.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// What follows the letter, where the flag is there.
    pub fn find(self, letter: u8) -> Option<&'a [u8]> {
        let mut words = self.0.split(|byte| *byte == b' ');
        words.find_map(|word| word.strip_prefix(&[letter]))
    }

    /// The tag of the request, where it had one of [`Request`]'s kind.
    pub fn opaque(self) -> Option<u64> {
        scan::number(self.find(b'O')?)
    }
}

/// A response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response<'a> {
    /// `VA`: a hit with its value.
    Value {
        /// What was asked to come back.
        flags: Flags<'a>,
        /// The value.
        data: &'a [u8],
    },
    /// `HD`: done, or a hit without its value.
    Done(Flags<'a>),
    /// `EN`: a miss.
    Miss(Flags<'a>),
    /// `NS`: not stored.
    NotStored(Flags<'a>),
    /// `EX`: there is another version.
    Exists(Flags<'a>),
    /// `NF`: there is none.
    NotFound(Flags<'a>),
    /// `MN`: the answer to a no-op.
    NoOp,
    /// The command failed.
    Fault(Fault<'a>),
}

impl Response<'_> {
    /// Appends the response, as a server sends it. Texts in it must not contain line ends.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (code, flags): (&[u8], _) = match *self {
            Self::Value { flags, data } => {
                append(out, &[b"VA"]);
                append_number(out, data.len());
                append_flags(out, flags);
                return append(out, &[b"\r\n", data, b"\r\n"]);
            }
            Self::Done(flags) => (b"HD", flags),
            Self::Miss(flags) => (b"EN", flags),
            Self::NotStored(flags) => (b"NS", flags),
            Self::Exists(flags) => (b"EX", flags),
            Self::NotFound(flags) => (b"NF", flags),
            Self::NoOp => (b"MN", Flags::default()),
            Self::Fault(fault) => return fault.write(out),
        };
        append(out, &[code]);
        append_flags(out, flags);
        append(out, &[b"\r\n"]);
    }
}

fn append_flags(out: &mut Vec<u8>, flags: Flags<'_>) {
    if !flags.as_bytes().is_empty() {
        append(out, &[b" ", flags.as_bytes()]);
    }
}

/// Parses a response. Values are bounded by `value_bytes_max`, for example [`super::VALUE_BYTES_MAX`].
///
/// # Errors
/// When the bytes are no response, or the value is larger.
pub fn parse(bytes: &[u8], value_bytes_max: usize) -> Parsed<Response<'_>> {
    let Some((line, used)) = scan::line(bytes, LINE_BYTES_MAX)? else { return Ok(None) };
    let (code, words) = match line {
        [_, _] => (line, &b""[..]),
        [_, _, b' ', words @ ..] => (&line[..2], words),
        _ => return Ok(Some((fault(line)?, used))),
    };
    let flags = Flags::new(words);
    let response = match code {
        b"VA" => {
            let (length, flags) = match scan::leading_number(words) {
                Some((length, [])) => (length, &b""[..]),
                Some((length, [b' ', flags @ ..])) => (length, flags),
                _ => return Err(scan::malformed("VA <bytes> <flags>")),
            };
            let length = scan::bounded(length, value_bytes_max, VALUE_UNIT)?;
            let block = scan::block(bytes, used, length)?;
            let flags = Flags::new(flags);
            return Ok(block.map(|(data, used)| (Response::Value { flags, data }, used)));
        }
        b"HD" => Response::Done(flags),
        b"EN" => Response::Miss(flags),
        b"NS" => Response::NotStored(flags),
        b"EX" => Response::Exists(flags),
        b"NF" => Response::NotFound(flags),
        b"MN" => Response::NoOp,
        _ => return Err(scan::malformed("a meta response")),
    };
    Ok(Some((response, used)))
}

#[cold]
fn fault(line: &[u8]) -> Result<Response<'_>, ProtocolError> {
    let fault = Fault::of_line(line).ok_or_else(|| scan::malformed("a meta response"))?;
    Ok(Response::Fault(fault))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memcached::{VALUE_BYTES_MAX, tests::escaped};

    fn written(request: Request<'_>) -> String {
        escaped(|out| request.write(out))
    }

    fn complete(bytes: &[u8]) -> Response<'_> {
        let (response, used) = parse(bytes, VALUE_BYTES_MAX).unwrap().expect("complete");
        assert_eq!(used, bytes.len());
        response
    }

    #[test]
    fn commands_are_the_bytes_of_the_protocol() {
        let key = Key::new(b"k").unwrap();
        assert_eq!(written(Request::Get { key, opaque: None, with_key: false }), r"mg k v\r\n");
        let tagged = Request::Get { key, opaque: Some(12), with_key: true };
        assert_eq!(written(tagged), r"mg k v k O12\r\n");
        let set = Request::Set { key, flags: 0, expires_s: 0, opaque: None, value: b"" };
        assert_eq!(written(set), r"ms k 0\r\n\r\n");
        let set = Request::Set { key, flags: 3, expires_s: 60, opaque: Some(0), value: b"ab" };
        assert_eq!(written(set), r"ms k 2 F3 T60 O0\r\nab\r\n");
        assert_eq!(written(Request::Delete { key, opaque: Some(1) }), r"md k O1\r\n");
        assert_eq!(written(Request::NoOp), r"mn\r\n");
    }

    #[test]
    fn a_hit_has_its_flags_and_its_value() {
        let Response::Value { flags, data } = complete(b"VA 2 kkey O77 s2\r\n\r\n\r\n") else {
            panic!("no value");
        };
        assert_eq!((data, flags.opaque()), (&b"\r\n"[..], Some(77)));
        assert_eq!(flags.find(b'k'), Some(&b"key"[..]));
        assert_eq!(flags.find(b't'), None);
        let bare = complete(b"VA 0\r\n\r\n");
        assert_eq!(bare, Response::Value { flags: Flags::default(), data: b"" });
        assert_eq!(Flags::new(b"Oabc").opaque(), None);
    }

    #[test]
    fn every_other_response_is_one_line() {
        for (line, expected) in [
            (&b"HD\r\n"[..], Response::Done(Flags::default())),
            (b"HD O1\r\n", Response::Done(Flags::new(b"O1"))),
            (b"EN\r\n", Response::Miss(Flags::default())),
            (b"NS O1\r\n", Response::NotStored(Flags::new(b"O1"))),
            (b"EX\r\n", Response::Exists(Flags::default())),
            (b"NF\r\n", Response::NotFound(Flags::default())),
            (b"MN\r\n", Response::NoOp),
            (b"ERROR\r\n", Response::Fault(Fault::Unknown)),
            (b"SERVER_ERROR no\r\n", Response::Fault(Fault::Server(b"no"))),
        ] {
            assert_eq!(complete(line), expected);
        }
    }

    #[test]
    fn what_is_no_response_is_an_error_and_not_a_wait() {
        for bytes in [
            &b"END\r\n"[..],
            b"hd\r\n",
            b"HDx\r\n",
            b"\r\n",
            b"VA\r\n",
            b"VA x\r\n",
            b"VA -1\r\n",
            b"VA 1\r\nab\r\n",
        ] {
            let outcome = parse(bytes, VALUE_BYTES_MAX);
            let malformed = matches!(outcome, Err(ProtocolError::Malformed { .. }));
            assert!(malformed, "{}: {outcome:?}", bytes.escape_ascii());
        }
        assert!(matches!(parse(b"VA 11 k\r\n", 10), Err(ProtocolError::TooLarge { .. })));
        assert_eq!(parse(b"VA 10 k\r\n0123", 10), Ok(None));
    }
}
