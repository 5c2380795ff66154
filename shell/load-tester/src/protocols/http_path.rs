//! A path with the key in it, for example `/objects/{key}?raw`.
//!
//! Place in the flow: [`super::http`] fills it for every request.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use robinhood_protocol::RequestError;
use robinhood_protocol::http::{Path, TARGET_BYTES_MAX};

/// Bytes of a key that are encoded: those that a segment of a path may not hold, and some that mean something there.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A path in which `{key}` stands for the key, any number of times.
#[derive(Clone, Debug)]
pub(super) struct PathTemplate {
    /// What is before, between and after the keys.
    parts: Vec<String>,
    filled: String,
}

impl PathTemplate {
    /// # Errors
    /// When the template is no path.
    pub(super) fn new(template: &str) -> Result<Self, RequestError> {
        Path::new(template)?;
        let parts = template.split("{key}").map(str::to_owned).collect();
        Ok(Self { parts, filled: String::new() })
    }

    /// The longest key that surely fits, in bytes.
    pub(super) fn key_bytes_max(&self) -> usize {
        let parts: usize = self.parts.iter().map(String::len).sum();
        let keys = (self.parts.len() - 1).max(1);
        (TARGET_BYTES_MAX - parts) / (3 * keys) // a byte takes up to three
    }

    /// The path of a key.
    ///
    /// # Panics
    /// When the path becomes too long.
    pub(super) fn fill(&mut self, key: &[u8]) -> Path<'_> {
        self.filled.clear();
        for (index, part) in self.parts.iter().enumerate() {
            if index > 0 {
                self.filled.extend(percent_encode(key, ENCODED));
            }
            self.filled.push_str(part);
        }
        Path::new(&self.filled).unwrap_or_else(|error| panic!("{error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_encoded_where_they_would_change_the_path() {
        let mut template = PathTemplate::new("/a/{key}?again={key}").unwrap();
        let expected = Path::new("/a/k-1%2F%20%C3%BC%0D?again=k-1%2F%20%C3%BC%0D").unwrap();
        assert_eq!(template.fill("k-1/ ü\r".as_bytes()), expected);
        assert_eq!(PathTemplate::new("/").unwrap().fill(b"k"), Path::new("/").unwrap());
        assert!(PathTemplate::new("{key}").is_err());
        assert!(PathTemplate::new("/a b").is_err());
    }

    #[test]
    fn the_longest_key_fits_and_a_longer_one_may_not() {
        let mut template = PathTemplate::new("/{key}").unwrap();
        let longest = vec![b' '; template.key_bytes_max()];
        template.fill(&longest);
        let longer = [&longest[..], b" "].concat();
        assert!(std::panic::catch_unwind(move || _ = template.fill(&longer)).is_err());
    }
}
