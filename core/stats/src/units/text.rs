//! Quantities as people read and write them: a number with its unit. Text without a unit is refused.

use std::fmt;
use std::str::FromStr;

use super::{Bytes, Nanos, Rate};

/// Text that is not a quantity with a unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The number is there, the unit is not.
    #[error("`{text}` has no unit: write {allowed}, as in `{example}`")]
    MissingUnit {
        /// What was given.
        text: String,
        /// The units that may stand there.
        allowed: &'static str,
        /// A value that would be accepted.
        example: &'static str,
    },
    /// The unit is not one of ours.
    #[error("`{text}` has the unknown unit `{unit}`: write {allowed}, as in `{example}`")]
    UnknownUnit {
        /// What was given.
        text: String,
        /// The part that was read as a unit.
        unit: String,
        /// The units that may stand there.
        allowed: &'static str,
        /// A value that would be accepted.
        example: &'static str,
    },
    /// The number cannot be read, is negative, or does not fit.
    #[error(
        "`{text}` is not a number from 0 up that fits, followed by a unit: write it as in `{example}`"
    )]
    BadNumber {
        /// What was given.
        text: String,
        /// A value that would be accepted.
        example: &'static str,
    },
}

/// A unit as people write it, and what it multiplies the number by.
type UnitTable = &'static [(&'static str, f64)];

const TIME_UNITS: UnitTable = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("min", 60e9),
    ("h", 3600e9),
];
const BYTE_UNITS: UnitTable = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];
const RATE_UNITS: UnitTable =
    &[("/s", 1.0), ("/m", 1.0 / 60.0), ("/min", 1.0 / 60.0), ("/h", 1.0 / 3600.0)];

/// Reads `number unit` with an optional space between, and gives the number in the base unit.
fn quantity(
    text: &str,
    units: UnitTable,
    allowed: &'static str,
    example: &'static str,
) -> Result<f64, UnitError> {
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(trimmed.len());
    let (digits, unit) = (trimmed[..split].replace('_', ""), trimmed[split..].trim());
    let number: f64 =
        digits.parse().map_err(|_| UnitError::BadNumber { text: text.to_owned(), example })?;
    if unit.is_empty() {
        return Err(UnitError::MissingUnit { text: text.to_owned(), allowed, example });
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err(UnitError::UnknownUnit {
            text: text.to_owned(),
            unit: unit.to_owned(),
            allowed,
            example,
        });
    };
    let value = number * factor;
    if value.is_finite() && value < u64::MAX as f64 {
        Ok(value)
    } else {
        Err(UnitError::BadNumber { text: text.to_owned(), example })
    }
}

impl FromStr for Nanos {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        quantity(text, TIME_UNITS, "ns, us, ms, s, m or h", "5s").map(|ns| Self(ns as u64))
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        quantity(text, BYTE_UNITS, "B, KiB, MiB, GiB, TiB, KB, MB, GB or TB", "4GiB")
            .map(|bytes| Self(bytes as u64))
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        quantity(text, RATE_UNITS, "/s, /m or /h", "20000/s").map(Self)
    }
}

/// Three significant digits, which is what a person compares.
fn significant(f: &mut fmt::Formatter<'_>, value: f64, unit: &str) -> fmt::Result {
    let digits = if value >= 100.0 || value == 0.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    f.pad(&format!("{value:.digits$} {unit}"))
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => significant(f, self.0 as f64, "ns"),
            1_000..1_000_000 => significant(f, self.as_micros_f64(), "us"),
            1_000_000..1_000_000_000 => significant(f, self.as_millis_f64(), "ms"),
            _ => significant(f, self.as_secs_f64(), "s"),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.as_f64();
        match self.0 {
            0..1_024 => significant(f, bytes, "B"),
            1_024..1_048_576 => significant(f, bytes / 1024.0, "KiB"),
            1_048_576..1_073_741_824 => significant(f, bytes / 1_048_576.0, "MiB"),
            _ => significant(f, bytes / 1_073_741_824.0, "GiB"),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_with_their_unit() {
        assert_eq!("5s".parse(), Ok(Nanos::from_secs(5)));
        assert_eq!("1.5 ms".parse(), Ok(Nanos::from_micros(1_500)));
        assert_eq!("4h".parse(), Ok(Nanos::from_secs(14_400)));
        assert_eq!("4GiB".parse(), Ok(Bytes(4 << 30)));
        assert_eq!("32GB".parse(), Ok(Bytes(32_000_000_000)));
        assert_eq!("20_000/s".parse(), Ok(Rate(20_000.0)));
    }

    #[test]
    fn a_missing_or_unknown_unit_is_an_error_that_shows_an_example() {
        let missing = "5".parse::<Nanos>().unwrap_err().to_string();
        assert_eq!(missing, "`5` has no unit: write ns, us, ms, s, m or h, as in `5s`");
        let unknown = "5 parsecs".parse::<Nanos>().unwrap_err().to_string();
        assert!(unknown.contains("unknown unit `parsecs`"), "{unknown}");
        for text in ["-5s", "s", "", "1e400s", "99999999999999h", "NaNs"] {
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
    }

    #[test]
    fn quantities_print_three_significant_digits() {
        assert_eq!(Nanos(12_345_678).to_string(), "12.3 ms");
        assert_eq!(Nanos(1_234).to_string(), "1.23 us");
        assert_eq!(Nanos::ZERO.to_string(), "0 ns");
        assert_eq!(Bytes::from_mib(24).to_string(), "24.0 MiB");
    }
}
