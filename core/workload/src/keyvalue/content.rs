//! The characters of keys and values.
//!
//! Place in the flow: written into requests, compared with responses. They are functions of the key alone: every client, every run and whoever filled the cache
//! agree on them without a word.
//!
//! A key begins with its number, five bits a character, and goes on with characters that are the same for all keys. A value begins with eight
//! characters that are its key's own and goes on with a part of 4 KiB of random characters that begins where the key says. All are letters, digits, `-` and `_`: they need no quotes in any
//! protocol and can be read in a packet capture.

use std::ops::Range;
use std::sync::Arc;

use crate::draws::{Draws, Purpose, Sequence};

/// Random characters, then as many of them again: a piece of up to this length can begin anywhere.
const NOISE_BYTES: usize = 4_096;
/// So many characters at the beginning of a value are its own.
const MARK_BYTES: usize = 8;
/// So many at each end are compared by a check that must be cheap.
const CHECKED_BYTES: usize = 16;
const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
const CHARACTERS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

/// Characters that it takes to tell so many keys apart.
pub(super) const fn digits(keys: u64) -> u32 {
    let bits = u64::BITS - keys.saturating_sub(1).leading_zeros();
    let digits = bits.div_ceil(5);
    if digits == 0 { 1 } else { digits }
}

/// Writes keys and values.
#[derive(Clone, Debug)]
pub(super) struct Content {
    noise: Arc<[u8]>,
    key_digits: u32,
    /// What is a value's own, by key.
    marks: Sequence,
}

impl Content {
    pub(super) fn new(keys: u64, draws: Draws) -> Self {
        let characters = draws.of_request(Purpose::Content, 0);
        let character = |place: usize| {
            CHARACTERS[(characters.bits((place % NOISE_BYTES) as u64) >> 58) as usize]
        };
        Self {
            noise: (0..2 * NOISE_BYTES).map(character).collect(),
            key_digits: digits(keys),
            marks: draws.of_request(Purpose::Content, 1),
        }
    }

    /// Appends a key of so many bytes.
    #[inline]
    pub(super) fn write_key(&self, key: u64, bytes: u32, out: &mut Vec<u8>) {
        assert!(bytes >= self.key_digits, "{bytes} B cannot tell the keys apart");
        for digit in (0..self.key_digits).rev() {
            out.push(DIGITS[(key >> (5 * digit)) as usize % 32]);
        }
        self.write_noise(0, 0..(bytes - self.key_digits) as usize, out);
    }

    /// Appends the value of a key, of so many bytes.
    #[inline]
    pub(super) fn write_value(&self, key: u64, bytes: u32, out: &mut Vec<u8>) {
        let bytes = bytes as usize;
        let (mark, start) = self.mark(key);
        let marked = bytes.min(MARK_BYTES);
        out.extend_from_slice(&mark[..marked]);
        self.write_noise(start, marked..bytes, out);
    }

    /// Whether these are the value's bytes, as far as length and both ends show.
    #[inline]
    pub(super) fn has_ends_of_value(&self, key: u64, bytes: u32, value: &[u8]) -> bool {
        let length = bytes as usize;
        if value.len() != length {
            return false;
        }
        let (mark, start) = self.mark(key);
        let marked = length.min(MARK_BYTES);
        let head = marked..length.min(CHECKED_BYTES);
        let tail = length.saturating_sub(CHECKED_BYTES).max(head.end)..length;
        value[..marked] == mark[..marked]
            && value[head.clone()] == *self.noise(start, head)
            && value[tail.clone()] == *self.noise(start, tail)
    }

    /// Whether these are the value's bytes, all of them.
    pub(super) fn is_value(&self, key: u64, bytes: u32, value: &[u8]) -> bool {
        let start = self.mark(key).1;
        let same = |(piece, at): (&[u8], usize)| *piece == *self.noise(start, at..at + piece.len());
        self.has_ends_of_value(key, bytes, value)
            && value.chunks(NOISE_BYTES).zip((0..).step_by(NOISE_BYTES)).all(|(piece, at)| {
                let skipped = if at == 0 { piece.len().min(MARK_BYTES) } else { 0 };
                same((&piece[skipped..], at + skipped))
            })
    }

    /// The characters at the beginning of a value, and where in the noise the value would have begun without them.
    #[inline]
    fn mark(&self, key: u64) -> ([u8; MARK_BYTES], usize) {
        let bits = self.marks.bits(key);
        let mark = std::array::from_fn(|place| DIGITS[(bits >> (5 * place)) as usize % 32]);
        (mark, (bits >> 48) as usize % NOISE_BYTES)
    }

    /// The noise at these places of a value; at most [`NOISE_BYTES`] long.
    #[inline]
    fn noise(&self, start: usize, places: Range<usize>) -> &[u8] {
        let at = (start + places.start) % NOISE_BYTES;
        &self.noise[at..at + places.len()]
    }

    fn write_noise(&self, start: usize, mut places: Range<usize>, out: &mut Vec<u8>) {
        while !places.is_empty() {
            let end = places.end.min(places.start + NOISE_BYTES);
            out.extend_from_slice(self.noise(start, places.start..end));
            places.start = end;
        }
    }
}
