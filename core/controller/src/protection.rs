//! Protection of those who pay: the load that a partition's owner may still put on its backend.
//!
//! Place in the flow: before a decision, as the standing of a partition. A partition that shrinks misses more, and
//! its backend pays with load; the paper saw up to 2.55 times the load on a cache-rich backend. An operator bounds
//! that, and a partition whose backend has reached the bound pays no tax.

use std::collections::BTreeMap;
use std::fmt;

use robinhood_stats::{BackendName, Rate};
use serde::{Deserialize, Serialize};

/// Bounds on the load of one backend. Without any, nothing is protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadBounds {
    /// The most misses per second, over all application servers.
    pub misses_per_s_max: Option<Rate>,
    /// The most misses per second as a multiple of those before activation; above 1.
    pub load_growth_max: Option<f64>,
}

/// Bounds on the load of all backends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Protection {
    /// For every backend that is not named below.
    pub general: LoadBounds,
    /// For single backends; replaces the general bounds.
    pub by_backend: BTreeMap<BackendName, LoadBounds>,
}

/// Which bound a backend has reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protected {
    /// The absolute one.
    MissRate {
        /// Misses now.
        misses_per_s: Rate,
        /// The bound.
        misses_per_s_max: Rate,
    },
    /// The one relative to the time before activation.
    Growth {
        /// Misses now.
        misses_per_s: Rate,
        /// Misses before activation.
        before_per_s: Rate,
        /// The bound on their ratio.
        growth_max: f64,
    },
}

impl Protection {
    /// What an agent beside somebody's cache uses: three times the misses before activation.
    pub fn for_agents() -> Self {
        Self {
            general: LoadBounds { misses_per_s_max: None, load_growth_max: Some(3.0) },
            by_backend: BTreeMap::new(),
        }
    }

    /// The bound that `backend` has reached, if any. `before` is unknown for a backend that was never seen before
    /// activation.
    pub(crate) fn reached(
        &self,
        backend: &BackendName,
        now: Rate,
        before: Option<Rate>,
    ) -> Option<Protected> {
        let bounds = self.by_backend.get(backend).unwrap_or(&self.general);
        let absolute = bounds.misses_per_s_max.filter(|max| now.0 >= max.0);
        if let Some(misses_per_s_max) = absolute {
            return Some(Protected::MissRate { misses_per_s: now, misses_per_s_max });
        }
        let (growth_max, before_per_s) = (bounds.load_growth_max?, before?);
        // A backend without misses before has no multiple to reach.
        let reached = before_per_s.0 > 0.0 && now.0 >= before_per_s.0 * growth_max;
        reached.then_some(Protected::Growth { misses_per_s: now, before_per_s, growth_max })
    }
}

impl fmt::Display for Protected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissRate { misses_per_s, misses_per_s_max } => {
                write!(
                    f,
                    "{:.1} misses/s reach the bound of {:.1}",
                    misses_per_s.0, misses_per_s_max.0
                )
            }
            Self::Growth { misses_per_s, before_per_s, growth_max } => write!(
                f,
                "{:.1} misses/s reach {growth_max} times the {:.1} before activation",
                misses_per_s.0, before_per_s.0
            ),
        }
    }
}

/// A mean that settles: over the first periods a plain one, later with a memory of as many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Baseline {
    mean: f64,
    periods: u32,
}

impl Baseline {
    /// Periods that make a baseline: the paper's minute of 5 s periods.
    pub(crate) const PERIODS: u32 = 12;

    /// A baseline that is known already.
    pub(crate) const fn settled(mean: f64) -> Self {
        Self { mean, periods: Self::PERIODS }
    }

    pub(crate) fn add(&mut self, value: f64) {
        self.periods = (self.periods + 1).min(Self::PERIODS);
        self.mean += (value - self.mean) / f64::from(self.periods);
    }

    pub(crate) const fn is_settled(&self) -> bool {
        self.periods >= Self::PERIODS
    }

    /// The mean, once there is enough to take one of.
    pub(crate) fn mean(&self) -> Option<f64> {
        self.is_settled().then_some(self.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_for_one_backend_replaces_the_general_one() {
        let (a, b) = (BackendName::new("a").unwrap(), BackendName::new("b").unwrap());
        let mut protection = Protection::for_agents();
        let absolute = LoadBounds { misses_per_s_max: Some(Rate(50.0)), load_growth_max: None };
        protection.by_backend.insert(b.clone(), absolute);
        let before = Some(Rate(10.0));
        assert_eq!(protection.reached(&a, Rate(29.9), before), None);
        let growth = protection.reached(&a, Rate(30.0), before).unwrap();
        assert_eq!(growth.to_string(), "30.0 misses/s reach 3 times the 10.0 before activation");
        assert_eq!(protection.reached(&b, Rate(49.0), before), None);
        let rate = protection.reached(&b, Rate(50.0), before).unwrap();
        assert_eq!(rate.to_string(), "50.0 misses/s reach the bound of 50.0");
    }

    #[test]
    fn without_a_past_there_is_no_growth() {
        let a = BackendName::new("a").unwrap();
        assert_eq!(Protection::for_agents().reached(&a, Rate(1e9), None), None);
        assert_eq!(Protection::for_agents().reached(&a, Rate(1e9), Some(Rate(0.0))), None);
    }

    #[test]
    fn a_baseline_needs_a_minute_and_then_follows_slowly() {
        let mut baseline = Baseline::default();
        for _ in 1..Baseline::PERIODS {
            baseline.add(10.0);
        }
        assert_eq!(baseline.mean(), None);
        baseline.add(10.0);
        assert_eq!(baseline.mean(), Some(10.0));
        baseline.add(22.0);
        assert_eq!(baseline.mean(), Some(11.0));
    }
}
