//! Settings of a controller, with the paper's values as defaults, and their checks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use robinhood_stats::{BackendName, Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::floors::FloorRule;
use crate::protection::Protection;

/// The most partitions of one cache.
pub const PARTITIONS_MAX: usize = 1_024;

/// Whether decisions are carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Records what it would do; moves nothing.
    #[default]
    Advise,
    /// Moves limits.
    Active,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Advise => "advise",
            Self::Active => "active",
        })
    }
}

/// When to believe that the controller did harm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MadeItWorseRule {
    /// P99 as a multiple of what it was before activation; above 1.
    pub ratio: f64,
    /// So many periods in a row.
    pub periods: u32,
    /// So many periods the last good limits then stay, unless P99 stays bad with them for [`Self::periods`]: then
    /// the limits were not the cause.
    pub hold_periods: u32,
}

impl Default for MadeItWorseRule {
    fn default() -> Self {
        Self { ratio: 1.3, periods: 24, hold_periods: 240 }
    }
}

/// Settings of one controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControllerConfig {
    /// Bytes of the cache, all partitions together; up to 2^63 - 1.
    pub budget: Bytes,
    /// One decision in each: 50 ms to 5 min. The paper's is 5 s.
    pub period: Nanos,
    /// The share of its limit that a partition pays at most: 0.001 to 0.1. The paper's is 0.01.
    pub step: f64,
    /// A partition whose limit exceeds its use by more than this share of its use gets nothing. The paper's is 0.3.
    pub gap: f64,
    /// Whether decisions are carried out.
    pub mode: Mode,
    /// Limits change in multiples of this: 1 B in the own process, 1 MiB with memcached.
    pub granule: Bytes,
    /// The least that partitions keep.
    pub floor: FloorRule,
    /// The most that single partitions may have.
    pub caps: BTreeMap<BackendName, Bytes>,
    /// Bounds on the load of the backends; none by default.
    pub protection: Protection,
    /// Interdependent backends: each group is one partition to the policy, divided inside by misses.
    pub groups: Vec<Vec<BackendName>>,
    /// What P99 is to stay below; only [`Self::act_above`] uses it.
    pub objective: Option<Nanos>,
    /// Act only while P99 exceeds this share of the objective. 0: always.
    pub act_above: f64,
    /// Reports and readings of the cache older than this many periods are no basis for a decision.
    pub stale_periods: u32,
    /// With fewer requests in the tail band nothing moves.
    pub requests_in_band_min: f64,
    /// From so many requests in the band on the step is whole; below, it shrinks in proportion.
    pub requests_in_band_full: f64,
    /// A backend without queries for so long falls to its floor.
    pub idle_after: Nanos,
    /// When to go back to the last good limits; `None`: never. Needs a time in [`Mode::Advise`] before activation
    /// to compare with.
    pub made_it_worse: Option<MadeItWorseRule>,
}

/// A setting, its value, what may be given, and whether it was.
type Range = (&'static str, String, &'static str, bool);

/// Settings that make no sense together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// No partition at all.
    #[error("a controller needs at least one partition")]
    NoPartitions,
    /// More than a controller keeps books of.
    #[error(
        "{count} partitions are too many: a controller has at most {max}, counting removed ones that the cache has not emptied yet"
    )]
    TooManyPartitions {
        /// How many there would be.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// One name twice.
    #[error("backend `{0}` is listed twice: every backend has one partition")]
    DuplicateBackend(BackendName),
    /// A name without a partition.
    #[error("backend `{0}` has no partition here")]
    UnknownBackend(BackendName),
    /// A number outside its range.
    #[error("`{key}` is {value}: it must be {allowed}")]
    OutOfRange {
        /// Which setting.
        key: &'static str,
        /// What was given.
        value: String,
        /// What may be given.
        allowed: &'static str,
    },
    /// Too small a cache for so many partitions.
    #[error(
        "the floors of {partitions} partitions at {floor} each exceed the budget of {budget}: raise the budget, lower the floor or drop backends"
    )]
    FloorsAboveBudget {
        /// How many partitions.
        partitions: usize,
        /// The floor of each.
        floor: Bytes,
        /// The bytes there are.
        budget: Bytes,
    },
    /// A cap that leaves less than the floor.
    #[error("the cap of `{backend}`, {cap}, is below its floor of {floor}")]
    CapBelowFloor {
        /// Whose cap.
        backend: BackendName,
        /// The cap.
        cap: Bytes,
        /// The floor.
        floor: Bytes,
    },
    /// Caps that leave a part of the cache to nobody.
    #[error(
        "the caps sum to {caps}, less than the budget of {budget}: leave at least one backend without a cap"
    )]
    CapsBelowBudget {
        /// Sum of all caps.
        caps: Bytes,
        /// The bytes there are.
        budget: Bytes,
    },
    /// A backend in two groups, or a group of one.
    #[error("group with `{0}`: a group has at least two backends, and no backend is in two groups")]
    BadGroup(BackendName),
}

impl ControllerConfig {
    /// The paper's settings for a cache of `budget`, in advise mode.
    pub fn new(budget: Bytes) -> Self {
        Self {
            budget,
            period: Nanos::from_secs(5),
            step: 0.01,
            gap: 0.30,
            mode: Mode::Advise,
            granule: Bytes(1),
            floor: FloorRule::default(),
            caps: BTreeMap::new(),
            protection: Protection::default(),
            groups: Vec::new(),
            objective: None,
            act_above: 0.0,
            stale_periods: 3,
            requests_in_band_min: 5.0,
            requests_in_band_full: 30.0,
            idle_after: Nanos::from_secs(3_600),
            made_it_worse: Some(MadeItWorseRule::default()),
        }
    }

    /// The same settings in compressed time: period and idle time divided by `time_scale`. Latencies are not times
    /// of the run and stay.
    ///
    /// # Panics
    /// When `time_scale` is not a positive number.
    #[must_use]
    pub fn scaled(mut self, time_scale: f64) -> Self {
        for time in [&mut self.period, &mut self.idle_after] {
            *time = time.scaled_down(time_scale);
        }
        self
    }

    /// The age from which input is stale.
    pub(crate) const fn age_max(&self) -> Nanos {
        Nanos(self.period.0.saturating_mul(self.stale_periods as u64))
    }

    /// Checks everything that can be known before the cache runs; `names` are sorted.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub(crate) fn check(&self, names: &[&BackendName]) -> Result<(), ConfigError> {
        self.check_ranges()?;
        if names.is_empty() {
            return Err(ConfigError::NoPartitions);
        }
        if names.len() > PARTITIONS_MAX {
            return Err(ConfigError::TooManyPartitions { count: names.len(), max: PARTITIONS_MAX });
        }
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ConfigError::DuplicateBackend(pair[0].clone()));
        }
        self.check_groups()?;
        self.check_bounds(names)
    }

    fn check_ranges(&self) -> Result<(), ConfigError> {
        let ranges = self.ranges_of_moves().into_iter().chain(self.ranges_of_rules());
        match ranges.into_iter().find(|range| !range.3) {
            Some((key, value, allowed, _)) => Err(ConfigError::OutOfRange { key, value, allowed }),
            None => Ok(()),
        }
    }

    /// Of what is divided, and how much of it moves when.
    fn ranges_of_moves(&self) -> [Range; 6] {
        let period_allowed = Nanos::from_millis(50)..=Nanos::from_secs(300);
        let share = |value: f64| (0.0..=1.0).contains(&value);
        [
            (
                "budget",
                self.budget.to_string(),
                "1 B to 2^63 - 1 B",
                (1..=i64::MAX as u64).contains(&self.budget.0),
            ),
            (
                "period",
                self.period.to_string(),
                "50 ms to 5 min",
                period_allowed.contains(&self.period),
            ),
            ("step", self.step.to_string(), "0.001 to 0.1", (0.001..=0.1).contains(&self.step)),
            (
                "gap",
                self.gap.to_string(),
                "a number from 0 up",
                self.gap.is_finite() && self.gap >= 0.0,
            ),
            (
                "granule",
                self.granule.to_string(),
                "1 B up to the budget",
                (1..=self.budget.0).contains(&self.granule.0),
            ),
            (
                "floor.budget_share",
                self.floor.budget_share.to_string(),
                "0 to 1",
                share(self.floor.budget_share),
            ),
        ]
    }

    /// Of when not to move.
    fn ranges_of_rules(&self) -> [Range; 9] {
        let from_zero = |value: f64| value.is_finite() && value >= 0.0;
        let above_one = |value: f64| value.is_finite() && value > 1.0;
        let bounds = || self.protection.by_backend.values().chain([&self.protection.general]);
        let growths: Vec<f64> = bounds().filter_map(|bounds| bounds.load_growth_max).collect();
        let rates: Vec<f64> =
            bounds().filter_map(|bounds| bounds.misses_per_s_max).map(|rate| rate.0).collect();
        let (worse, n_min) = (self.made_it_worse.unwrap_or_default(), self.requests_in_band_min);
        [
            (
                "act_above",
                self.act_above.to_string(),
                "a number from 0 up",
                from_zero(self.act_above),
            ),
            ("stale_periods", self.stale_periods.to_string(), "1 or more", self.stale_periods > 0),
            ("idle_after", self.idle_after.to_string(), "above 0", self.idle_after > Nanos::ZERO),
            ("requests_in_band_min", n_min.to_string(), "a number from 0 up", from_zero(n_min)),
            (
                "requests_in_band_full",
                self.requests_in_band_full.to_string(),
                "above 0 and not below `requests_in_band_min`",
                self.requests_in_band_full > 0.0 && self.requests_in_band_full >= n_min,
            ),
            ("made_it_worse.ratio", worse.ratio.to_string(), "above 1", above_one(worse.ratio)),
            ("made_it_worse.periods", worse.periods.to_string(), "1 or more", worse.periods > 0),
            (
                "load_growth_max",
                format!("{growths:?}"),
                "above 1",
                growths.iter().copied().all(above_one),
            ),
            (
                "misses_per_s_max",
                format!("{rates:?}"),
                "above 0",
                rates.iter().all(|rate| rate.is_finite() && *rate > 0.0),
            ),
        ]
    }

    fn check_groups(&self) -> Result<(), ConfigError> {
        let mut grouped = BTreeSet::new();
        for group in &self.groups {
            let mut twice = group.iter().filter(|&name| !grouped.insert(name.clone()));
            if let Some(name) = twice.next() {
                return Err(ConfigError::BadGroup(name.clone()));
            }
            if let [only] = group.as_slice() {
                return Err(ConfigError::BadGroup(only.clone()));
            }
        }
        Ok(())
    }

    fn check_bounds(&self, names: &[&BackendName]) -> Result<(), ConfigError> {
        let (budget, floor) = (self.budget, Bytes(self.floor.fixed_part(self.budget)));
        if u128::from(floor.0) * names.len() as u128 > u128::from(budget.0) {
            return Err(ConfigError::FloorsAboveBudget { partitions: names.len(), floor, budget });
        }
        let mut caps_sum = 0_u128;
        for &name in names {
            let cap = self.caps.get(name).copied().unwrap_or(budget);
            if cap < floor {
                return Err(ConfigError::CapBelowFloor { backend: name.clone(), cap, floor });
            }
            caps_sum += u128::from(cap.0);
        }
        if caps_sum < u128::from(budget.0) {
            let caps = Bytes(u64::try_from(caps_sum).expect("less than the budget"));
            return Err(ConfigError::CapsBelowBudget { caps, budget });
        }
        Ok(())
    }
}
