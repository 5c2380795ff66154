//! The weight of a report, in fixed point.
//!
//! Traffic that is sampled one in k reports with weight k. Integers add up to the same sum in any order, which floating
//! point does not, so merged counts do not depend on who arrived first.

use std::fmt;

use serde::{Deserialize, Serialize};

/// For how many requests a report stands: 48 bits before the binary point and 16 after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Weight(pub u64);

/// A number that cannot be the weight of a report.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "{given} cannot weigh a report: give a number from 1/65536 to 65536, 1 for traffic that is not sampled"
)]
pub struct WeightError {
    /// What was given.
    pub given: f64,
}

impl Weight {
    /// No request: an empty sum, never the weight of a report.
    pub const ZERO: Self = Self(0);
    /// One request: traffic that is not sampled.
    pub const ONE: Self = Self(1 << 16);
    /// The smallest weight of a report: 1/65,536.
    pub const MIN: Self = Self(1);
    /// The largest weight of a report: 65,536.
    pub const MAX: Self = Self(1 << 32);

    /// The nearest weight to `value`.
    ///
    /// # Errors
    /// When `value` is not a number from [`MIN`](Self::MIN) to [`MAX`](Self::MAX).
    pub fn from_f64(value: f64) -> Result<Self, WeightError> {
        let raw = (value * Self::ONE.0 as f64).round();
        if raw >= Self::MIN.0 as f64 && raw <= Self::MAX.0 as f64 {
            Ok(Self(raw as u64))
        } else {
            Err(WeightError { given: value })
        }
    }

    /// The weight as a number of requests.
    pub const fn as_f64(self) -> f64 {
        self.0 as f64 / Self::ONE.0 as f64
    }

    /// Whether a report may carry this weight.
    pub(crate) const fn is_allowed(self) -> bool {
        Self::MIN.0 <= self.0 && self.0 <= Self::MAX.0
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_f64(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read_to_the_nearest_sixteenth_bit() {
        assert_eq!(Weight::from_f64(1.0), Ok(Weight::ONE));
        assert_eq!(Weight::from_f64(0.5), Ok(Weight(1 << 15)));
        assert_eq!(Weight::from_f64(65_536.0), Ok(Weight::MAX));
        assert_eq!(Weight::from_f64(10.0).unwrap().as_f64(), 10.0);
    }

    #[test]
    fn numbers_that_cannot_weigh_a_report_are_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 65_537.0, 1e-9] {
            assert!(Weight::from_f64(bad).is_err(), "{bad}");
        }
    }
}
