//! Time, bytes and rates as types: no bare number for any of them crosses a public signature.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};

use serde::{Deserialize, Serialize};

mod text;

pub use text::UnitError;

/// A length of time in nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Nanos(pub u64);

/// A moment, in nanoseconds since the start of the run. It has no relation to a clock: the shell or the simulator says
/// what time it is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Instant(pub u64);

/// A number of bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Bytes(pub u64);

/// Events per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Rate(pub f64);

impl Nanos {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// The longest time that can be written.
    pub const MAX: Self = Self(u64::MAX);

    /// Whole microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// Whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// Seconds with a fraction; negative and not-a-number become zero, too large becomes the maximum.
    pub const fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1e9) as u64) // `as` saturates and maps NaN to 0
    }

    /// Seconds with a fraction.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Milliseconds with a fraction.
    pub const fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Microseconds with a fraction.
    pub const fn as_micros_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// This time less `other`, at least zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// This time divided by `factor`: all times of the paper divided by the `time_scale` of a compressed run.
    ///
    /// # Panics
    /// When `factor` is not a positive number.
    #[must_use]
    pub fn scaled_down(self, factor: f64) -> Self {
        assert!(factor > 0.0, "a time is divided by a positive factor, not by {factor}");
        Self((self.0 as f64 / factor) as u64)
    }
}

impl Instant {
    /// The start of the run.
    pub const ZERO: Self = Self(0);

    /// Time since `earlier`; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment `by` earlier; the start of the run when that is before it.
    #[must_use]
    pub const fn saturating_sub(self, by: Nanos) -> Self {
        Self(self.0.saturating_sub(by.0))
    }

    /// Seconds since the start of the run.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// Whole kibibytes.
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib << 10)
    }

    /// Whole mebibytes.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    /// These bytes less `other`, at least zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The number as a float, for ratios.
    pub const fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

impl Add<Nanos> for Instant {
    type Output = Self;
    fn add(self, by: Nanos) -> Self {
        Self(self.0.saturating_add(by.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect("a length of time is not negative"))
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.checked_add(other.0).expect("byte counts fit 64 bits"))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).expect("a number of bytes is not negative"))
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(bytes: I) -> Self {
        bytes.fold(Self::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_saturate_and_never_wrap() {
        assert_eq!(Nanos::from_secs_f64(f64::NAN), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(-1.0), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(1e300), Nanos::MAX);
        assert_eq!(Instant(5).since(Instant(7)), Nanos::ZERO);
        assert_eq!(Instant(u64::MAX) + Nanos(1), Instant(u64::MAX));
    }
}
