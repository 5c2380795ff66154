//! The body of a response: in one piece, or in chunks.
//!
//! Place in the flow: after the head. Chunks stay in the bytes received; [`Body::parts`] walks over them.
//! Source: RFC 9112, section 7.1. Extensions of chunks and trailer fields are skipped.

use crate::{Parsed, ProtocolError, scan};

/// The longest line with the size of a chunk, or of a trailer field, in bytes with its end.
const LINE_BYTES_MAX: usize = 4_096;

/// What the length of a body counts, in errors.
const BODY_UNIT: &str = "bytes of a body";

/// Trailer fields after the last chunk.
const TRAILERS_MAX: usize = 64;

/// The body of a response, without what divides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body<'a> {
    /// The bytes, with the lines of the chunks when there are any.
    framed: &'a [u8],
    chunked: bool,
    bytes: usize,
}

impl<'a> Body<'a> {
    pub(super) const fn whole(bytes: &'a [u8]) -> Self {
        Self { framed: bytes, chunked: false, bytes: bytes.len() }
    }

    /// Its length in bytes.
    pub const fn len(self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    pub const fn is_empty(self) -> bool {
        self.bytes == 0
    }

    /// Its bytes, chunk by chunk.
    pub const fn parts(self) -> Parts<'a> {
        Parts(self)
    }
}

/// The parts of a body in order, none of them empty.
#[derive(Clone, Debug)]
pub struct Parts<'a>(Body<'a>);

impl<'a> Iterator for Parts<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let body = &mut self.0;
        if body.bytes == 0 {
            return None;
        }
        let part = if body.chunked {
            let parsed = chunk(body.framed, 0, body.bytes);
            let (part, used) = parsed.ok().flatten().expect("the chunks were checked when parsed");
            body.framed = &body.framed[used..];
            part
        } else {
            body.framed
        };
        body.bytes -= part.len();
        Some(part)
    }
}

/// The body of a stated length that begins at `start`, and where it ends.
pub(super) fn whole(
    bytes: &[u8],
    start: usize,
    length: u64,
    body_bytes_max: usize,
) -> Parsed<Body<'_>> {
    let end = start.saturating_add(scan::bounded(length, body_bytes_max, BODY_UNIT)?);
    Ok(bytes.get(start..end).map(|body| (Body::whole(body), end)))
}

/// The chunked body that begins at `start`, and where it ends.
pub(super) fn chunked(bytes: &[u8], start: usize, body_bytes_max: usize) -> Parsed<Body<'_>> {
    let (mut end, mut length) = (start, 0);
    loop {
        let Some((part, used)) = chunk(bytes, end, body_bytes_max - length)? else {
            return Ok(None);
        };
        end = used;
        length += part.len();
        if part.is_empty() {
            break;
        }
    }
    let framed = &bytes[start..end];
    for _ in 0..=TRAILERS_MAX {
        let line = scan::line(&bytes[end..], LINE_BYTES_MAX)?;
        let Some((trailer, used)) = line else { return Ok(None) };
        end += used;
        if trailer.is_empty() {
            return Ok(Some((Body { framed, chunked: true, bytes: length }, end)));
        }
    }
    let (what, limit) = ("trailer fields", TRAILERS_MAX as u64);
    Err(ProtocolError::TooLarge { what, announced: limit + 1, limit })
}

/// The chunk that begins at `start`, and where it ends; the last one is empty, and its end is that of its line.
fn chunk(bytes: &[u8], start: usize, chunk_bytes_max: usize) -> Parsed<&[u8]> {
    let line = scan::line(&bytes[start..], LINE_BYTES_MAX)?;
    let Some((line, used)) = line else { return Ok(None) };
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
    let length = hexadecimal(digits).ok_or_else(|| scan::malformed("the size of a chunk"))?;
    let data_start = start + used;
    match scan::bounded(length, chunk_bytes_max, BODY_UNIT)? {
        0 => Ok(Some((b"", data_start))),
        length => scan::block(bytes, data_start, length),
    }
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    if !(1..=16).contains(&digits.len()) {
        return None;
    }
    digits
        .iter()
        .try_fold(0, |number, byte| Some(number << 4 | u64::from(char::from(*byte).to_digit(16)?)))
}
