//! The words of a command line, and the numbers in them.
//!
//! Place in the flow: below [`super::text`] and [`super::meta`]. Numbers are what memcached takes for one: a sign may
//! stand before the digits. What does not fit is refused, where memcached takes the lowest bits of some.

use crate::scan;

/// The words of a line: what spaces divide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    pub(super) const fn new(line: &'a [u8]) -> Self {
        Self(line)
    }

    /// What has not been taken yet, with the spaces in it.
    pub(super) const fn rest(self) -> &'a [u8] {
        self.0
    }

    /// The next words, at most `N`, and how many there are: fewer than `N` are all.
    #[inline]
    pub(super) fn collect_up_to<const N: usize>(&mut self) -> ([&'a [u8]; N], usize) {
        let mut found = [&b""[..]; N];
        let mut count = 0;
        for (slot, word) in found.iter_mut().zip(self) {
            *slot = word;
            count += 1;
        }
        (found, count)
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|byte| *byte != b' ')?;
        let words = &self.0[start..];
        let end = words.iter().position(|byte| *byte == b' ').unwrap_or(words.len());
        let (word, rest) = words.split_at(end);
        self.0 = rest;
        Some(word)
    }
}

/// A number of 64 bits without sign.
#[inline]
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    scan::number(word.strip_prefix(b"+").unwrap_or(word))
}

/// A number with sign, whose amount has 63 bits: a time or a length.
#[inline]
pub(super) fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some(digits) => i64::try_from(scan::number(digits)?).ok().map(|amount| -amount),
        None => i64::try_from(unsigned(word)?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_spaces_divide() {
        let words: Vec<_> = Words::new(b"  a  bc d ").collect();
        assert_eq!(words, [&b"a"[..], b"bc", b"d"]);
        assert_eq!(Words::new(b"   ").next(), None);
        let mut words = Words::new(b"a b c");
        assert_eq!(words.collect_up_to::<2>(), ([&b"a"[..], b"b"], 2));
        assert_eq!(words.rest(), b" c");
        assert_eq!(words.collect_up_to::<2>(), ([&b"c"[..], b""], 1));
    }

    #[test]
    fn numbers_may_have_a_sign_and_fit_their_width() {
        for (word, expected) in [
            (&b"0"[..], Some(0)),
            (b"+7", Some(7)),
            (b"-7", Some(-7)),
            (b"9223372036854775807", Some(i64::MAX)),
            (b"9223372036854775808", None),
            (b"-9223372036854775807", Some(-i64::MAX)),
            (b"-9223372036854775808", None),
            (b"-18446744073709551615", None),
            (b"", None),
            (b"-", None),
            (b"+", None),
            (b"+-1", None),
            (b"-+1", None),
            (b"1x", None),
        ] {
            assert_eq!(signed(word), expected, "{}", word.escape_ascii());
        }
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"+1"), Some(1));
        for word in [&b"18446744073709551616"[..], b"-1", b"", b"++1", b"1 "] {
            assert_eq!(unsigned(word), None, "{}", word.escape_ascii());
        }
    }
}
