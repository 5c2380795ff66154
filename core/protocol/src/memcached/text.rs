//! memcached's text protocol: commands and responses in words.
//!
//! Place in the flow: [`Request::write`] appends a command to a send buffer; [`parse`] and [`parse_single`] read the
//! response to it.

use super::{Fault, Key, LINE_BYTES_MAX, VALUE_UNIT, append, append_number};
use crate::{Parsed, ProtocolError, scan};

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Asks for one value: [`Response::Value`] and [`Response::End`], or [`Response::End`] alone.
    Get {
        /// The key.
        key: Key<'a>,
    },
    /// Stores a value: [`Response::Stored`].
    Set {
        /// The key.
        key: Key<'a>,
        /// A number that is kept with the value.
        flags: u32,
        /// Seconds to live (a date in seconds since 1970 when above 30 days); 0 is for ever.
        expires_s: u32,
        /// The value.
        value: &'a [u8],
    },
    /// Removes a value: [`Response::Deleted`] or [`Response::NotFound`].
    Delete {
        /// The key.
        key: Key<'a>,
    },
    /// Asks for the server's version: [`Response::Version`].
    Version,
    /// Asks for general statistics: any number of [`Response::Stat`], then [`Response::End`].
    Stats,
}

impl Request<'_> {
    /// Appends the command.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Get { key } => append(out, &[b"get ", key.as_bytes(), b"\r\n"]),
            Self::Set { key, flags, expires_s, value } => {
                append(out, &[b"set ", key.as_bytes()]);
                append_number(out, *flags);
                append_number(out, *expires_s);
                append_number(out, value.len());
                append(out, &[b"\r\n", value, b"\r\n"]);
            }
            Self::Delete { key } => append(out, &[b"delete ", key.as_bytes(), b"\r\n"]),
            Self::Version => append(out, &[b"version\r\n"]),
            Self::Stats => append(out, &[b"stats\r\n"]),
        }
    }
}

/// One part of a response; most responses have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response<'a> {
    /// `VALUE`: a hit.
    Value {
        /// The key.
        key: &'a [u8],
        /// The number that was stored with the value.
        flags: u32,
        /// The version of the value, where it was asked for.
        cas: Option<u64>,
        /// The value.
        data: &'a [u8],
    },
    /// `END` of values or statistics. Alone it is a miss.
    End,
    /// `STORED`.
    Stored,
    /// `NOT_STORED`: the condition of the command did not hold.
    NotStored,
    /// `DELETED`.
    Deleted,
    /// `NOT_FOUND`: there was nothing to delete.
    NotFound,
    /// `VERSION`, with its text.
    Version(&'a [u8]),
    /// `STAT`: one statistic.
    Stat {
        /// Its name.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// The command failed.
    Fault(Fault<'a>),
}

impl Response<'_> {
    /// Appends the response, as a server sends it. Texts in it must not contain line ends, nor a key or name spaces.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Value { key, flags, cas, data } => {
                append(out, &[b"VALUE ", key]);
                append_number(out, flags);
                append_number(out, data.len());
                if let Some(cas) = cas {
                    append_number(out, cas);
                }
                append(out, &[b"\r\n", data, b"\r\n"]);
            }
            Self::End => append(out, &[b"END\r\n"]),
            Self::Stored => append(out, &[b"STORED\r\n"]),
            Self::NotStored => append(out, &[b"NOT_STORED\r\n"]),
            Self::Deleted => append(out, &[b"DELETED\r\n"]),
            Self::NotFound => append(out, &[b"NOT_FOUND\r\n"]),
            Self::Version(text) => append(out, &[b"VERSION ", text, b"\r\n"]),
            Self::Stat { name, value } => append(out, &[b"STAT ", name, b" ", value, b"\r\n"]),
            Self::Fault(fault) => fault.write(out),
        }
    }
}

/// Parses one part of a response; a value's `END` is the next part. Values are bounded by `value_bytes_max`, for example
/// [`super::VALUE_BYTES_MAX`].
///
/// # Errors
/// When the bytes are no response, or the value is larger.
pub fn parse(bytes: &[u8], value_bytes_max: usize) -> Parsed<Response<'_>> {
    let Some((line, used)) = scan::line(bytes, LINE_BYTES_MAX)? else { return Ok(None) };
    if let Some(header) = line.strip_prefix(b"VALUE ") {
        return value(bytes, header, used, value_bytes_max);
    }
    let response = match line {
        b"END" => Response::End,
        b"STORED" => Response::Stored,
        b"NOT_STORED" => Response::NotStored,
        b"DELETED" => Response::Deleted,
        b"NOT_FOUND" => Response::NotFound,
        _ => uncommon(line)?,
    };
    Ok(Some((response, used)))
}

/// Parses the whole response to a command for at most one key: a value and its `END` count as one. Otherwise as
/// [`parse`].
///
/// # Errors
/// As [`parse`], and when a value is followed by anything but `END`.
pub fn parse_single(bytes: &[u8], value_bytes_max: usize) -> Parsed<Response<'_>> {
    const END: &[u8] = b"END\r\n";
    let Some((response, used)) = parse(bytes, value_bytes_max)? else { return Ok(None) };
    if !matches!(response, Response::Value { .. }) {
        return Ok(Some((response, used)));
    }
    match bytes.get(used..used + END.len()) {
        Some(END) => Ok(Some((response, used + END.len()))),
        Some(_) => Err(scan::malformed("END after the value of a single get")),
        None => Ok(None),
    }
}

/// Reads `<key> <flags> <bytes> [<cas>]` and the data that follows the line.
fn value<'a>(
    bytes: &'a [u8],
    header: &'a [u8],
    data_start: usize,
    value_bytes_max: usize,
) -> Parsed<Response<'a>> {
    let Some((key, flags, length, cas)) = value_header(header) else {
        return Err(scan::malformed("VALUE <key> <flags> <bytes> [<cas>]"));
    };
    let length = scan::bounded(length, value_bytes_max, VALUE_UNIT)?;
    let block = scan::block(bytes, data_start, length)?;
    Ok(block.map(|(data, used)| (Response::Value { key, flags, cas, data }, used)))
}

/// Key, flags, length and cas of a value.
#[inline]
fn value_header(header: &[u8]) -> Option<(&[u8], u32, u64, Option<u64>)> {
    let key_end = memchr::memchr(b' ', header)?;
    let (flags, rest) = scan::leading_number(&header[key_end + 1..])?;
    let (length, rest) = scan::leading_number(rest.strip_prefix(b" ")?)?;
    let cas = match rest {
        [] => None,
        [b' ', digits @ ..] => Some(scan::number(digits)?),
        _ => return None,
    };
    Some((&header[..key_end], u32::try_from(flags).ok()?, length, cas))
}

/// Responses that no measuring loop waits for.
#[cold]
fn uncommon(line: &[u8]) -> Result<Response<'_>, ProtocolError> {
    if let Some(fault) = Fault::of_line(line) {
        return Ok(Response::Fault(fault));
    }
    if let Some(text) = line.strip_prefix(b"VERSION ") {
        return Ok(Response::Version(text));
    }
    if let Some(pair) = line.strip_prefix(b"STAT ") {
        let space = pair.iter().position(|byte| *byte == b' ');
        let space = space.ok_or_else(|| scan::malformed("STAT <name> <value>"))?;
        return Ok(Response::Stat { name: &pair[..space], value: &pair[space + 1..] });
    }
    Err(scan::malformed("a response"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memcached::{VALUE_BYTES_MAX, tests::escaped};

    fn written(request: Request<'_>) -> String {
        escaped(|out| request.write(out))
    }

    fn single(bytes: &[u8]) -> Response<'_> {
        let (response, used) = parse_single(bytes, VALUE_BYTES_MAX).unwrap().expect("complete");
        assert_eq!(used, bytes.len());
        response
    }

    #[test]
    fn commands_are_the_bytes_of_the_protocol() {
        let key = Key::new(b"k:1").unwrap();
        assert_eq!(written(Request::Get { key }), r"get k:1\r\n");
        assert_eq!(written(Request::Delete { key }), r"delete k:1\r\n");
        assert_eq!(written(Request::Version), r"version\r\n");
        assert_eq!(written(Request::Stats), r"stats\r\n");
        let set = Request::Set { key, flags: 7, expires_s: 60, value: b"a\r\nb" };
        assert_eq!(written(set), r"set k:1 7 60 4\r\na\r\nb\r\n");
    }

    #[test]
    fn a_hit_is_a_value_and_its_end() {
        let hit = single(b"VALUE k:1 7 4\r\na\r\nb\r\nEND\r\n");
        let expected = Response::Value { key: b"k:1", flags: 7, cas: None, data: b"a\r\nb" };
        assert_eq!(hit, expected);
        let with_cas = single(b"VALUE k 0 0 18446744073709551615\r\n\r\nEND\r\n");
        let expected = Response::Value { key: b"k", flags: 0, cas: Some(u64::MAX), data: b"" };
        assert_eq!(with_cas, expected);
    }

    #[test]
    fn every_other_response_is_one_line() {
        for (line, expected) in [
            (&b"END\r\n"[..], Response::End),
            (b"STORED\r\n", Response::Stored),
            (b"NOT_STORED\r\n", Response::NotStored),
            (b"DELETED\r\n", Response::Deleted),
            (b"NOT_FOUND\r\n", Response::NotFound),
            (b"VERSION 1.6.18\r\n", Response::Version(b"1.6.18")),
            (b"STAT version 1 2\r\n", Response::Stat { name: b"version", value: b"1 2" }),
            (b"ERROR\r\n", Response::Fault(Fault::Unknown)),
            (b"CLIENT_ERROR bad data chunk\r\n", Response::Fault(Fault::Client(b"bad data chunk"))),
            (b"SERVER_ERROR out of memory\r\n", Response::Fault(Fault::Server(b"out of memory"))),
        ] {
            assert_eq!(single(line), expected);
        }
    }

    #[test]
    fn values_of_a_get_of_several_keys_come_one_by_one() {
        let mut rest = &b"VALUE a 0 1\r\n1\r\nVALUE b 0 1\r\n2\r\nEND\r\n"[..];
        let mut parts = Vec::new();
        while let Some((part, used)) = parse(rest, VALUE_BYTES_MAX).unwrap() {
            parts.push(part);
            rest = &rest[used..];
        }
        let value = |key, data| Response::Value { key, flags: 0, cas: None, data };
        assert_eq!(parts, [value(b"a", b"1"), value(b"b", b"2"), Response::End]);
        assert!(rest.is_empty());
    }

    #[test]
    fn what_is_no_response_is_an_error_and_not_a_wait() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"\r\n",
            b"end\r\n",
            b"END\n",
            b"VALUE\r\n",
            b"VALUE k 0\r\n",
            b"VALUE k 0 1 2 3\r\n",
            b"VALUE k 0 -1\r\n",
            b"VALUE k 0 1x\r\n",
            b"VALUE k 4294967296 1\r\n",
            b"VALUE k 0 1 x\r\n",
            b"VALUE k 0 1\r\nab\r\n",
            b"VALUE k 0 1\r\na\r\nSTORED\r\n",
            b"STAT name\r\n",
        ] {
            let outcome = parse_single(bytes, VALUE_BYTES_MAX);
            let malformed = matches!(outcome, Err(ProtocolError::Malformed { .. }));
            assert!(malformed, "{}: {outcome:?}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_value_above_the_bound_is_refused_by_its_header() {
        assert_eq!(parse(b"VALUE k 0 10\r\n", 10), Ok(None));
        let error = parse(b"VALUE k 0 11\r\n", 10).unwrap_err().to_string();
        assert!(error.contains("11 bytes of a value, above the limit of 10"), "{error}");
        assert!(parse(b"VALUE k 0 99999999999999999999\r\n", usize::MAX).is_err());
        assert_eq!(parse(b"VALUE k 0 18446744073709551615\r\n", usize::MAX), Ok(None));
        let endless = [b'x'; LINE_BYTES_MAX];
        assert_eq!(parse(&endless[1..], 10), Ok(None));
        assert!(matches!(parse(&endless, 10), Err(ProtocolError::TooLong { .. })));
    }
}
