//! Built-in workloads.
//!
//! Place in the flow: the command line asks for them by name; the simulator and the demo run them.

mod demo;
mod onerf;

use std::fmt;
use std::str::FromStr;

use robinhood_stats::Nanos;

use crate::spec::Workload;

pub use demo::{demo, demo_in_pages};
pub use onerf::{Variant, onerf, onerf_variant};

/// Names of all presets.
pub const NAMES: [&str; 7] =
    ["onerf", "b7-slow", "b7-fast", "b1-slow", "b1-fast", "random", "demo"];

/// Length of the demo when nobody says another one.
pub const DEMO_LENGTH: Nanos = Nanos::from_secs(120);

/// The share of the full fleet that a preset runs: application servers and backend servers shrink, rate and cache per server and catalogues stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    numerator: u32,
    denominator: u32,
}

/// Text that is not a scale.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a scale: write a share of the full fleet above 0 and up to 1, as in `1/8` or `0.125`"
)]
pub struct ScaleError {
    /// What was given.
    pub text: String,
}

/// A name that no preset has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no workload `{name}`: the presets are {}", NAMES.join(", "))]
pub struct UnknownPreset {
    /// What was given.
    pub name: String,
}

impl UnknownPreset {
    fn new(name: &str) -> Self {
        Self { name: name.chars().take(64).collect() }
    }
}

/// The preset with this name. `demo` has one size: the scale does not change it, and it has its default length.
pub fn by_name(name: &str, scale: Scale) -> Result<Workload, UnknownPreset> {
    let variant = |variant| Ok(onerf_variant(scale, variant));
    match name {
        "onerf" => variant(Variant::Spikes),
        "b7-slow" => variant(Variant::Backend7Slow),
        "b7-fast" => variant(Variant::Backend7Fast),
        "b1-slow" => variant(Variant::Backend1Slow),
        "b1-fast" => variant(Variant::Backend1Fast),
        "random" => variant(Variant::Random),
        "demo" => Ok(demo(DEMO_LENGTH)),
        _ => Err(UnknownPreset::new(name)),
    }
}

/// What a preset shows, in one line.
pub fn summary(name: &str) -> Result<&'static str, UnknownPreset> {
    Ok(match name {
        "onerf" => {
            "20 backends, 26.7 queries a request; backends 6, 5, 1 and 8 get slow one after the other"
        }
        "b7-slow" => "as `onerf`; backend 7 loses three quarters of its capacity over 150 minutes",
        "b7-fast" => "as `onerf`; backend 7 loses three quarters of its capacity over 50 minutes",
        "b1-slow" => "as `onerf`; backend 1 loses half of its capacity over 150 minutes",
        "b1-fast" => "as `onerf`; backend 1 loses half of its capacity over 50 minutes",
        "random" => "as `onerf`; the capacities of backends 1, 5, 6 and 8 walk at random",
        "demo" => "6 backends that two cores serve live; three of them get slow after a calm third",
        _ => return Err(UnknownPreset::new(name)),
    })
}

/// The workload on which limits that are to be kept for ever are learned: the paper takes those of its main experiment for all the others, which
/// is `onerf` for its variants. `demo` learns from itself.
pub fn main_experiment(name: &str, scale: Scale) -> Result<Workload, UnknownPreset> {
    let workload = by_name(name, scale)?;
    Ok(if name == "demo" { workload } else { onerf(scale) })
}

impl Scale {
    /// The full fleet.
    pub const FULL: Self = Self { numerator: 1, denominator: 1 };
    /// The scale of the calibration.
    pub const EIGHTH: Self = Self { numerator: 1, denominator: 8 };

    /// The share as a number.
    pub fn as_f64(self) -> f64 {
        f64::from(self.numerator) / f64::from(self.denominator)
    }
}

impl FromStr for Scale {
    type Err = ScaleError;
    fn from_str(text: &str) -> Result<Self, ScaleError> {
        let error = || ScaleError { text: text.chars().take(64).collect() };
        let (numerator, denominator) = if let Some((top, bottom)) = text.split_once('/') {
            (top.trim().parse().map_err(|_| error())?, bottom.trim().parse().map_err(|_| error())?)
        } else {
            const PARTS: u32 = 1_000_000;
            let share: f64 = text.trim().parse().map_err(|_| error())?;
            ((share * f64::from(PARTS)).round() as u32, PARTS)
        };
        if numerator == 0 || denominator == 0 || numerator > denominator {
            return Err(error());
        }
        Ok(Self { numerator, denominator })
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.numerator == self.denominator {
            f.write_str("1")
        } else if self.denominator == 1_000_000 {
            write!(f, "{}", self.as_f64())
        } else {
            write!(f, "{}/{}", self.numerator, self.denominator)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_found_by_name_and_can_run() {
        for name in NAMES {
            let workload = by_name(name, Scale::EIGHTH).unwrap();
            assert_eq!(workload.name, name);
            assert!(summary(name).unwrap().len() <= 100, "{name}: one line of a terminal");
            assert_eq!(workload.validate(), Ok(()), "{name}");
        }
    }

    #[test]
    fn variants_learn_from_the_main_experiment_with_the_same_backends() {
        for name in NAMES {
            let (workload, main) = (
                by_name(name, Scale::EIGHTH).unwrap(),
                main_experiment(name, Scale::EIGHTH).unwrap(),
            );
            assert_eq!(main.name, if name == "demo" { "demo" } else { "onerf" });
            assert_eq!(workload.backends, main.backends, "{name}");
            assert_eq!(workload.cache_per_server, main.cache_per_server, "{name}");
        }
        assert!(main_experiment("onrf", Scale::EIGHTH).is_err());
    }

    #[test]
    fn an_unknown_preset_is_refused_with_the_list() {
        let message = by_name("onrf", Scale::EIGHTH).unwrap_err().to_string();
        assert_eq!(
            message,
            "there is no workload `onrf`: the presets are onerf, b7-slow, b7-fast, b1-slow, b1-fast, random, demo"
        );
    }

    #[test]
    fn scales_are_read_as_fractions_or_decimals() {
        assert_eq!("1/8".parse(), Ok(Scale::EIGHTH));
        assert!(("0.125".parse::<Scale>().unwrap().as_f64() - 0.125).abs() < 1e-12);
        assert!(("1".parse::<Scale>().unwrap().as_f64() - 1.0).abs() < 1e-12);
        assert_eq!("1/8".parse::<Scale>().unwrap().to_string(), "1/8");
        for bad in ["", "0", "1/0", "2", "9/8", "-1", "x", "1/8/2", "NaN"] {
            assert!(bad.parse::<Scale>().is_err(), "{bad}");
        }
    }
}
