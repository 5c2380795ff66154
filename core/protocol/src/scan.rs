//! Lines and decimal numbers: what the text protocols have in common.
//!
//! Place in the flow: below every parser and writer of this crate.

use crate::{Parsed, ProtocolError};

/// The line at the start of `bytes`, without its CR LF, and the bytes that it takes with them.
///
/// # Errors
/// When there is no LF within `line_bytes_max` bytes, or one without CR before it.
#[inline]
pub(crate) fn line(bytes: &[u8], line_bytes_max: usize) -> Parsed<&[u8]> {
    let window = &bytes[..bytes.len().min(line_bytes_max)];
    match memchr::memchr(b'\n', window) {
        Some(end) => match window[..end].strip_suffix(b"\r") {
            Some(line) => Ok(Some((line, end + 1))),
            None => Err(malformed("a line that ends with CR LF")),
        },
        None if bytes.len() >= line_bytes_max => {
            Err(ProtocolError::TooLong { what: "line", limit_bytes: line_bytes_max })
        }
        None => Ok(None),
    }
}

/// The data of `length` bytes that begins at `start` and ends with CR LF, and where it ends with them. Looks at the last
/// two bytes only.
///
/// # Errors
/// When other bytes than CR LF follow.
#[inline]
pub(crate) fn block(bytes: &[u8], start: usize, length: usize) -> Parsed<&[u8]> {
    let end = start.saturating_add(length);
    match bytes.get(end..end.saturating_add(2)) {
        Some(b"\r\n") => Ok(Some((&bytes[start..end], end + 2))),
        Some(_) => Err(malformed("CR LF after a value of the stated length")),
        None => Ok(None),
    }
}

/// A number of bytes that a message announces, when it is within the limit.
///
/// # Errors
/// When it is above; `what` is counted.
#[inline]
pub(crate) fn bounded(
    announced: u64,
    limit: usize,
    what: &'static str,
) -> Result<usize, ProtocolError> {
    match usize::try_from(announced) {
        Ok(bytes) if bytes <= limit => Ok(bytes),
        _ => Err(ProtocolError::TooLarge { what, announced, limit: limit as u64 }),
    }
}

/// The error that something else should have been there.
#[cold]
pub(crate) const fn malformed(expected: &'static str) -> ProtocolError {
    ProtocolError::Malformed { expected }
}

/// The decimal number that the bytes begin with, and what follows it; `None` when there is no digit or the number does not
/// fit.
#[inline]
pub(crate) fn leading_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    let mut length = 0;
    while let Some(digit) =
        bytes.get(length).map(|byte| byte.wrapping_sub(b'0')).filter(|d| *d <= 9)
    {
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
        length += 1;
    }
    (length > 0).then(|| (number, &bytes[length..]))
}

/// A decimal number without sign, of ASCII digits only; `None` when it is not one or does not fit.
#[inline]
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    leading_number(digits).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

/// Appends a number in decimal.
#[inline]
pub(crate) fn write_number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_both_bytes_and_within_the_bound() {
        assert_eq!(line(b"END\r\nmore", 5), Ok(Some((&b"END"[..], 5))));
        assert_eq!(line(b"\r\n", 5), Ok(Some((&b""[..], 2))));
        assert_eq!(line(b"END\r", 5), Ok(None));
        assert_eq!(line(b"", 5), Ok(None));
        assert!(matches!(line(b"LONG\r\n", 5), Err(ProtocolError::TooLong { .. })));
        assert!(matches!(line(b"\n", 5), Err(ProtocolError::Malformed { .. })));
        assert!(matches!(line(b"a\n", 5), Err(ProtocolError::Malformed { .. })));
    }

    #[test]
    fn a_block_is_complete_with_its_end_of_line() {
        assert_eq!(block(b"head\r\n\r\n\r\n", 6, 2), Ok(Some((&b"\r\n"[..], 10))));
        assert_eq!(block(b"abc\r", 0, 3), Ok(None));
        assert_eq!(block(b"abc\r\n", 0, usize::MAX), Ok(None));
        assert!(block(b"abcd\r\n", 0, 3).is_err());
    }

    #[test]
    fn numbers_have_digits_only_and_fit() {
        for (digits, expected) in [
            (&b"0"[..], Some(0)),
            (b"007", Some(7)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b"99999999999999999999", None),
            (b"", None),
            (b"+1", None),
            (b"-1", None),
            (b"1 ", None),
            (b"1a", None),
        ] {
            assert_eq!(number(digits), expected, "{}", digits.escape_ascii());
        }
    }
}
