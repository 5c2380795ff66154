//! The names and objects that a trace has shown so far: numbers in place of text, and back.
//!
//! Place in the flow: both formats are read into it. Backends and keys are numbered in the order of first use, in both formats alike. Memory: for each
//! key 4 bytes for its size; where texts are kept 8 more, its text unless it is a number, and about 5 for finding it.

use std::fmt;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use robinhood_stats::{BackendId, BackendName, BackendTable};

use super::Fault;
use crate::request::Key;

/// The most keys of one backend: a number and its successor fit into 32 bits.
const KEYS_MAX: u32 = u32::MAX - 1;

/// Hashes are never part of a result: a constant will do.
const HASHES: FixedState = FixedState::with_seed(0);

/// A key as the application calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyText<'a> {
    /// Its decimal number without leading zeros, of at most 18 digits.
    Number(u64),
    /// Any other text.
    Text(&'a str),
}

impl<'a> KeyText<'a> {
    /// Numbers from here on are kept as text: they would need more than 18 digits.
    pub(super) const NUMBER_END: u64 = 1_000_000_000_000_000_000;

    /// Reads a key.
    pub fn of(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let is_number = (1..=18).contains(&bytes.len())
            && (bytes[0] != b'0' || bytes.len() == 1)
            && bytes.iter().all(u8::is_ascii_digit);
        if is_number {
            Self::Number(bytes.iter().fold(0, |n, &digit| 10 * n + u64::from(digit - b'0')))
        } else {
            Self::Text(text)
        }
    }
}

impl fmt::Display for KeyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Key texts by number. Each has 8 bytes: a number, or place and length of a text in the arena.
#[derive(Debug, Default)]
struct Texts {
    entries: Vec<u64>,
    arena: String,
}

impl Texts {
    const LENGTH_BITS: u32 = 24;

    fn push(&mut self, key: KeyText<'_>) {
        self.entries.push(match key {
            KeyText::Number(number) => number << 1,
            KeyText::Text(text) => {
                let start = self.arena.len() as u64;
                assert!(text.len() as u64 >> Self::LENGTH_BITS == 0, "a key fits into a line");
                assert!(start.leading_zeros() > Self::LENGTH_BITS, "all keys fit into 512 GiB");
                self.arena.push_str(text);
                (start << Self::LENGTH_BITS | text.len() as u64) << 1 | 1
            }
        });
    }

    fn text(&self, key: u32) -> KeyText<'_> {
        let entry = self.entries[key as usize];
        let value = entry >> 1;
        if entry & 1 == 0 {
            return KeyText::Number(value);
        }
        let start = (value >> Self::LENGTH_BITS) as usize;
        let bytes = (value & ((1 << Self::LENGTH_BITS) - 1)) as usize;
        KeyText::Text(&self.arena[start..start + bytes])
    }
}

/// The objects of one backend.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// Newest size by key.
    pub(super) sizes_bytes: Vec<u32>,
    texts: Texts,
    /// Keys by text, for those that were interned.
    numbers: HashTable<u32>,
}

impl Objects {
    /// Number of keys.
    pub(super) fn keys(&self) -> u32 {
        self.sizes_bytes.len() as u32
    }

    /// The number of a key, new or known; its newest size is noted.
    pub(super) fn intern(&mut self, text: &str, size_bytes: u32) -> Result<Key, Fault> {
        let key = KeyText::of(text);
        let hash = HASHES.hash_one(key);
        let texts = &self.texts;
        if let Some(&number) = self.numbers.find(hash, |&number| texts.text(number) == key) {
            self.sizes_bytes[number as usize] = size_bytes;
            return Ok(Key(number));
        }
        let number = self.next_number()?;
        self.texts.push(key);
        let texts = &self.texts;
        self.numbers.insert_unique(hash, number, |&other| HASHES.hash_one(texts.text(other)));
        self.sizes_bytes.push(size_bytes);
        Ok(Key(number))
    }

    /// Adds the next key, which nobody will look for by its text, and gives its number; the text is `None` where texts are not kept.
    pub(super) fn push(
        &mut self,
        text: Option<KeyText<'_>>,
        size_bytes: u32,
    ) -> Result<u32, Fault> {
        let number = self.next_number()?;
        if let Some(text) = text {
            self.texts.push(text);
        }
        self.sizes_bytes.push(size_bytes);
        Ok(number)
    }

    fn next_number(&self) -> Result<u32, Fault> {
        u32::try_from(self.sizes_bytes.len()).ok().filter(|&n| n < KEYS_MAX).ok_or(Fault::ManyKeys)
    }
}

/// All backends with their objects.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    pub(super) table: BackendTable,
    /// By [`BackendId`].
    pub(super) objects: Vec<Objects>,
}

impl Dictionary {
    /// The number of a backend; `None` when there are too many.
    pub(super) fn intern_backend(&mut self, name: &BackendName) -> Option<BackendId> {
        let id = self.table.intern(name)?;
        self.objects.resize_with(self.table.len(), Objects::default);
        Some(id)
    }

    /// The text of a key.
    ///
    /// # Panics
    /// When backend or key are not of this trace, or texts are not kept.
    pub(super) fn key_text(&self, backend: BackendId, key: Key) -> KeyText<'_> {
        self.objects[backend.index()].texts.text(key.0)
    }

    pub(super) fn value_bytes(&self, backend: BackendId, key: Key) -> u32 {
        self.objects[backend.index()].sizes_bytes[key.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_decimal_numbers_are_numbers_and_all_keys_keep_their_text() {
        let numbers = ["0", "7", "1234567890", "999999999999999999"];
        let texts = ["", "00", "07", "+7", "-1", "1.0", "1e3", "x", "1000000000000000000", "٣"];
        for text in numbers {
            assert!(matches!(KeyText::of(text), KeyText::Number(_)), "{text}");
        }
        for text in texts {
            assert_eq!(KeyText::of(text), KeyText::Text(text));
        }
        let mut objects = Objects::default();
        let keys: Vec<Key> =
            numbers.iter().chain(&texts).map(|t| objects.intern(t, 1).unwrap()).collect();
        for (text, key) in numbers.iter().chain(&texts).zip(keys) {
            assert_eq!(objects.texts.text(key.0).to_string(), *text);
            assert_eq!(objects.intern(text, 9), Ok(key));
        }
        assert_eq!(objects.sizes_bytes, [9; 14]);
    }
}
