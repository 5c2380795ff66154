//! Numbers kept as digits, for the commands that count.
//!
//! Place in the flow: a server gives the value that is there to [`arithmetic`] and stores what it says.

use crate::scan;

/// The value cannot be counted with: it is empty, or does not begin with a number of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value is not a decimal number of 64 bits; store one to count with it")]
pub struct NotANumber;

/// A number that has been changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The number.
    pub number: u64,
    /// How many bytes the value had before.
    bytes_before: usize,
}

impl Changed {
    /// Appends the value to store: the digits, and spaces after them up to the length that the value had. So a counter
    /// that loses a digit can stay where it is.
    pub fn write_value(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.bytes_before;
        scan::write_number(out, self.number);
        out.resize(out.len().max(end), b' ');
    }
}

/// Adds to the number that a value begins with, modulo 2^64, or subtracts from it down to 0. White space may stand before
/// the number; after it, anything may follow white space or a zero byte.
///
/// # Errors
/// When the value does not begin with a number.
pub fn arithmetic(value: &[u8], delta: u64, increase: bool) -> Result<Changed, NotANumber> {
    let digits = match value.iter().position(|byte| !is_white(*byte)) {
        Some(start) => &value[start..],
        None => return Err(NotANumber),
    };
    let digits = digits.strip_prefix(b"+").unwrap_or(digits);
    let number = match scan::leading_number(digits) {
        Some((number, [])) => number,
        Some((number, [next, ..])) if is_white(*next) || *next == 0 => number,
        _ => return Err(NotANumber),
    };
    let number = match increase {
        true => number.wrapping_add(delta),
        false => number.saturating_sub(delta),
    };
    Ok(Changed { number, bytes_before: value.len() })
}

/// What C takes for white space.
const fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(value: &[u8], delta: u64, increase: bool) -> (u64, String) {
        let changed = arithmetic(value, delta, increase).expect("a number");
        let mut out = b"before".to_vec();
        changed.write_value(&mut out);
        let value = out.strip_prefix(b"before").expect("appended").escape_ascii().to_string();
        (changed.number, value)
    }

    #[test]
    fn counters_wrap_above_stop_at_zero_and_never_get_shorter() {
        for (value, delta, increase, number, stored) in [
            (&b"9"[..], 1, true, 10, "10"),
            (b"10", 1, false, 9, "9 "),
            (b"9 ", 1, true, 10, "10"),
            (b"5", 6, false, 0, "0"),
            (b"18446744073709551615", 2, true, 1, "1                   "),
            (b"0", u64::MAX, true, u64::MAX, "18446744073709551615"),
            (b" +7 of them", 1, true, 8, "8          "),
            (b"7\0x", 0, true, 7, "7  "),
            (b"007", 1, true, 8, "8  "),
        ] {
            let outcome = changed(value, delta, increase);
            assert_eq!(outcome, (number, stored.to_owned()), "{}", value.escape_ascii());
        }
    }

    #[test]
    fn what_does_not_begin_with_a_number_is_refused() {
        for value in [&b""[..], b" ", b"x", b"1x", b"-1", b"+", b"18446744073709551616", b"1.5"] {
            assert_eq!(arithmetic(value, 1, true), Err(NotANumber), "{}", value.escape_ascii());
        }
    }
}
