//! RESP, the protocol of Redis and Valkey: version 2 and the null of version 3.
//!
//! Place in the flow: [`write_command`] appends a command to a send buffer; [`parse`] reads the reply to it. A server
//! answers in the order of the commands of a connection. An array stays in the bytes received: [`Elements`] walks over
//! it, so that neither depth nor number costs memory.

use crate::{Parsed, ProtocolError, scan};

/// What the length of a reply counts, in errors.
const REPLY_UNIT: &str = "bytes of a reply";

/// The longest line (status, error, length), in bytes with its end.
pub const LINE_BYTES_MAX: usize = 65_536;

/// How deep arrays may lie in each other; 1 is an array of no arrays.
pub const DEPTH_MAX: usize = 8;

/// Elements of one reply, of all its arrays together.
pub const ELEMENTS_MAX: u64 = 1 << 20;

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// `+`: a status, mostly `OK`.
    Simple(&'a [u8]),
    /// `-`: the command failed; the first word is the kind of error.
    Error(&'a [u8]),
    /// `:`: a number.
    Integer(i64),
    /// `$`: a value.
    Bulk(&'a [u8]),
    /// `$-1`, `*-1` or `_`: no value. A miss.
    Null,
    /// `*`: several replies.
    Array(Elements<'a>),
}

impl Reply<'_> {
    /// Appends the reply in version 2. Statuses and errors must not contain line ends.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Simple(text) => append_line(out, b'+', text),
            Self::Error(text) => append_line(out, b'-', text),
            Self::Integer(number) => append_header(out, b':', number),
            Self::Bulk(data) => append_bulk(out, data),
            Self::Null => out.extend_from_slice(b"$-1\r\n"),
            Self::Array(elements) => {
                append_header(out, b'*', elements.count);
                out.extend_from_slice(elements.bytes);
            }
        }
    }
}

/// The elements of an array, in order. They have been checked: none is missing or malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements<'a> {
    bytes: &'a [u8],
    count: u64,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Reply<'a>;

    fn next(&mut self) -> Option<Reply<'a>> {
        self.count = self.count.checked_sub(1)?;
        let parsed = parse(self.bytes, usize::MAX);
        let (reply, used) =
            parsed.ok().flatten().expect("the array was checked when it was parsed");
        self.bytes = &self.bytes[used..];
        Some(reply)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = usize::try_from(self.count).expect("elements are bounded");
        (count, Some(count))
    }
}

impl ExactSizeIterator for Elements<'_> {}

/// Appends a command: its name and arguments as an array of values.
pub fn write_command(out: &mut Vec<u8>, words: &[&[u8]]) {
    append_header(out, b'*', words.len());
    for word in words {
        append_bulk(out, word);
    }
}

fn append_line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn append_header(out: &mut Vec<u8>, kind: u8, number: impl itoa::Integer) {
    out.push(kind);
    scan::write_number(out, number);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn append_bulk(out: &mut Vec<u8>, data: &[u8]) {
    append_header(out, b'$', data.len());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Parses a reply. A value, or an array with all that is in it, is bounded by `reply_bytes_max`.
///
/// # Errors
/// When the bytes are no reply, or the reply is larger, deeper than [`DEPTH_MAX`] or of more than [`ELEMENTS_MAX`].
pub fn parse(bytes: &[u8], reply_bytes_max: usize) -> Parsed<Reply<'_>> {
    match step(bytes, reply_bytes_max)? {
        None => Ok(None),
        Some((Step::Whole(reply), used)) => Ok(Some((reply, used))),
        Some((Step::Array(count), start)) => {
            let end = array_end(bytes, start, count, reply_bytes_max)?;
            Ok(end.map(|end| (Reply::Array(Elements { bytes: &bytes[start..end], count }), end)))
        }
    }
}

/// What the bytes begin with.
enum Step<'a> {
    /// A reply that is no array.
    Whole(Reply<'a>),
    /// The header of an array of so many elements.
    Array(u64),
}

#[inline]
fn step(bytes: &[u8], bulk_bytes_max: usize) -> Parsed<Step<'_>> {
    let Some((line, used)) = scan::line(bytes, LINE_BYTES_MAX)? else { return Ok(None) };
    let reply = match *line {
        [b'$', b'-', b'1'] | [b'*', b'-', b'1'] | [b'_'] => Reply::Null,
        [b'$', ref digits @ ..] => {
            let length = scan::number(digits).ok_or_else(|| scan::malformed("a length"))?;
            let length = scan::bounded(length, bulk_bytes_max, REPLY_UNIT)?;
            let block = scan::block(bytes, used, length)?;
            return Ok(block.map(|(data, used)| (Step::Whole(Reply::Bulk(data)), used)));
        }
        [b'*', ref digits @ ..] => {
            let count =
                scan::number(digits).ok_or_else(|| scan::malformed("a number of elements"))?;
            return Ok(Some((Step::Array(count), used)));
        }
        [b'+', ref text @ ..] => Reply::Simple(text),
        [b'-', ref text @ ..] => Reply::Error(text),
        [b':', ref digits @ ..] => {
            Reply::Integer(integer(digits).ok_or_else(|| scan::malformed("a number of 64 bits"))?)
        }
        _ => return Err(scan::malformed("a reply of RESP2")),
    };
    Ok(Some((Step::Whole(reply), used)))
}

/// Where an array ends whose `count` elements begin at `start`; `None` when it is not all there.
fn array_end(
    bytes: &[u8],
    start: usize,
    count: u64,
    reply_bytes_max: usize,
) -> Result<Option<usize>, ProtocolError> {
    let mut missing = [0; DEPTH_MAX]; // elements still to come, per array that is open
    missing[0] = count;
    let mut depth = 1;
    let (mut elements, mut end) = (count, start);
    check_elements(elements)?;
    loop {
        while missing[depth - 1] == 0 {
            depth -= 1;
            if depth == 0 {
                return Ok(Some(end));
            }
        }
        missing[depth - 1] -= 1;
        let room = reply_bytes_max.saturating_sub(end - start);
        let Some((item, used)) = step(&bytes[end..], room)? else { return Ok(None) };
        end += used;
        scan::bounded((end - start) as u64, reply_bytes_max, REPLY_UNIT)?;
        if let Step::Array(count) = item {
            if depth == DEPTH_MAX {
                let (what, limit) = ("arrays in each other", DEPTH_MAX as u64);
                return Err(ProtocolError::TooLarge { what, announced: limit + 1, limit });
            }
            missing[depth] = count;
            depth += 1;
            elements = elements.saturating_add(count);
            check_elements(elements)?;
        }
    }
}

fn check_elements(elements: u64) -> Result<(), ProtocolError> {
    if elements > ELEMENTS_MAX {
        let what = "elements of an array";
        return Err(ProtocolError::TooLarge { what, announced: elements, limit: ELEMENTS_MAX });
    }
    Ok(())
}

fn integer(text: &[u8]) -> Option<i64> {
    match text {
        [b'-', digits @ ..] => 0i64.checked_sub_unsigned(scan::number(digits)?),
        [b'+', digits @ ..] | digits => i64::try_from(scan::number(digits)?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY_BYTES_MAX: usize = 1 << 20;

    fn complete(bytes: &[u8]) -> Reply<'_> {
        let (reply, used) = parse(bytes, REPLY_BYTES_MAX).unwrap().expect("complete");
        assert_eq!(used, bytes.len(), "{}", bytes.escape_ascii());
        reply
    }

    fn elements(bytes: &[u8]) -> Vec<Reply<'_>> {
        let Reply::Array(elements) = complete(bytes) else { panic!("no array") };
        elements.collect()
    }

    #[test]
    fn a_command_is_an_array_of_values() {
        let mut out = Vec::new();
        write_command(&mut out, &[b"SET", b"k", b"a\r\nb"]);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n");
        let words: &[&[u8]] = &[b"SET", b"k", b"a\r\nb"];
        let expected: Vec<_> = words.iter().copied().map(Reply::Bulk).collect();
        assert_eq!(elements(&out), expected);
    }

    #[test]
    fn every_kind_of_reply_is_read() {
        for (bytes, expected) in [
            (&b"+OK\r\n"[..], Reply::Simple(b"OK")),
            (b"-ERR unknown command\r\n", Reply::Error(b"ERR unknown command")),
            (b":0\r\n", Reply::Integer(0)),
            (b":+7\r\n", Reply::Integer(7)),
            (b":-9223372036854775808\r\n", Reply::Integer(i64::MIN)),
            (b":9223372036854775807\r\n", Reply::Integer(i64::MAX)),
            (b"$0\r\n\r\n", Reply::Bulk(b"")),
            (b"$4\r\na\r\nb\r\n", Reply::Bulk(b"a\r\nb")),
            (b"$-1\r\n", Reply::Null),
            (b"*-1\r\n", Reply::Null),
            (b"_\r\n", Reply::Null),
        ] {
            assert_eq!(complete(bytes), expected);
        }
    }

    #[test]
    fn arrays_lie_in_each_other_up_to_the_depth() {
        assert_eq!(elements(b"*0\r\n"), []);
        let parts = elements(b"*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n_\r\n");
        assert_eq!((parts.len(), parts[0], parts[2]), (3, Reply::Integer(1), Reply::Null));
        let Reply::Array(inner) = parts[1] else { panic!("no array: {parts:?}") };
        assert_eq!(inner.len(), 2);
        assert_eq!(inner.clone().next(), Some(Reply::Bulk(b"a")));

        let deep = |depth: usize| format!("{}:1\r\n", "*1\r\n".repeat(depth));
        assert!(parse(deep(DEPTH_MAX).as_bytes(), 1_000).unwrap().is_some());
        let error = parse(deep(DEPTH_MAX + 1).as_bytes(), 1_000).unwrap_err().to_string();
        assert!(error.contains("9 arrays in each other, above the limit of 8"), "{error}");
    }

    #[test]
    fn replies_above_a_bound_are_refused_by_their_header() {
        assert_eq!(parse(b"$10\r\n", 10), Ok(None));
        assert!(matches!(parse(b"$11\r\n", 10), Err(ProtocolError::TooLarge { limit: 10, .. })));
        assert_eq!(parse(b"*1048576\r\n", 10), Ok(None));
        assert!(matches!(parse(b"*1048577\r\n", 10), Err(ProtocolError::TooLarge { .. })));
        let twice = b"*2\r\n*1048574\r\n:1\r\n";
        assert_eq!(parse(twice, 100), Ok(None));
        let twice = b"*2\r\n*1048575\r\n:1\r\n";
        assert!(matches!(parse(twice, 100), Err(ProtocolError::TooLarge { .. })));
        // Each value fits and all of them do not.
        assert!(parse(b"*2\r\n$5\r\n01234\r\n$5\r\n", 20).unwrap().is_none());
        let error = parse(b"*2\r\n$5\r\n01234\r\n$5\r\n01234\r\n", 20).unwrap_err();
        assert!(matches!(error, ProtocolError::TooLarge { .. }));
    }

    #[test]
    fn what_is_no_reply_is_an_error_and_not_a_wait() {
        for bytes in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b"\r\n",
            b"+OK\n",
            b"$\r\n",
            b"$-2\r\n",
            b"$1x\r\n",
            b"$1\r\nab\r\n",
            b"*-2\r\n",
            b"*\r\n",
            b":\r\n",
            b":--1\r\n",
            b":9223372036854775808\r\n",
            b"__\r\n",
            b"%1\r\n",
            b"*1\r\nx\r\n",
        ] {
            let outcome = parse(bytes, REPLY_BYTES_MAX);
            let malformed = matches!(outcome, Err(ProtocolError::Malformed { .. }));
            assert!(malformed, "{}: {outcome:?}", bytes.escape_ascii());
        }
    }
}
