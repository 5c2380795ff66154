//! When the controller keeps its hands still, and why.
//!
//! Place in the flow: after the observation, before the policy. Every period in which nothing was to be moved has a
//! reason in its record.

use std::fmt;

use robinhood_stats::{BackendName, Nanos};
use serde::{Deserialize, Serialize};

use crate::allocation::Allocation;
use crate::config::MadeItWorseRule;
use crate::protection::Baseline;

/// Why limits stay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// An operator paused the controller.
    Paused {
        /// What the operator wrote.
        reason: String,
    },
    /// A resize failed, and the cache has not been read back since.
    AdapterFailed {
        /// Whose resize.
        backend: BackendName,
        /// What the adapter said.
        reason: String,
    },
    /// The cache has not said for too long what it holds.
    StaleUsage {
        /// Age of the last reading; `None` when there was none.
        age: Option<Nanos>,
        /// The most it may be.
        age_max: Nanos,
    },
    /// Nobody has reported requests for too long.
    StaleInput {
        /// Age of the newest report; `None` when there was none.
        age: Option<Nanos>,
        /// The most it may be.
        age_max: Nanos,
    },
    /// The last snapshot cannot be true, so nothing in it is used.
    BadInput {
        /// What is wrong with it.
        reason: String,
    },
    /// Too few requests in the tail band for RBC to mean anything.
    FewRequests {
        /// Effective number in the band.
        requests_in_band: f64,
        /// What it takes.
        requests_in_band_min: f64,
    },
    /// Since activation P99 is worse than before, so the limits go back to the last good ones.
    MadeItWorse {
        /// P99 now.
        p99: Nanos,
        /// P99 before activation.
        p99_before: Nanos,
    },
    /// P99 is so far below the objective that nothing needs to be done.
    GoodEnough {
        /// P99 now.
        p99: Nanos,
        /// Above this the controller acts.
        act_above: Nanos,
    },
    /// No backend that may receive blocked any request.
    NobodyToGive,
    /// The policy's own reason.
    Policy(String),
}

impl fmt::Display for HoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let aged =
            |f: &mut fmt::Formatter<'_>, what: &str, age: &Option<Nanos>, max: &Nanos| match age {
                Some(age) => write!(f, "the last {what} is {age} old, more than {max}"),
                None => write!(f, "no {what} yet"),
            };
        match self {
            Self::Paused { reason } => write!(f, "paused: {reason}"),
            Self::AdapterFailed { backend, reason } => {
                write!(f, "the cache did not resize `{backend}`: {reason}")
            }
            Self::StaleUsage { age, age_max } => aged(f, "reading of the cache", age, age_max),
            Self::StaleInput { age, age_max } => aged(f, "report of requests", age, age_max),
            Self::BadInput { reason } => write!(f, "bad snapshot: {reason}"),
            Self::FewRequests { requests_in_band, requests_in_band_min } => write!(
                f,
                "{requests_in_band:.1} requests in the tail band, fewer than {requests_in_band_min}"
            ),
            Self::MadeItWorse { p99, p99_before } => write!(
                f,
                "made it worse: P99 {p99} against {p99_before} before activation, back to the last good limits"
            ),
            Self::GoodEnough { p99, act_above } => {
                write!(f, "P99 {p99} is good enough, acts above {act_above}")
            }
            Self::NobodyToGive => f.write_str("no backend that may receive blocked a request"),
            Self::Policy(reason) => f.write_str(reason),
        }
    }
}

/// Watches P99 after activation, and knows the limits to go back to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    p99_before_ns: Baseline,
    last_good: Option<Allocation>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// P99 has been bad for so many periods in a row.
    Watching { bad: u32 },
    /// The last good limits stay for so many periods more, and P99 has been bad with them for so many in a row.
    Holding { left: u32, bad: u32 },
}

impl Default for Phase {
    fn default() -> Self {
        Self::Watching { bad: 0 }
    }
}

impl Watch {
    /// One period without influence on the limits: what to compare with later.
    pub(crate) fn learn(&mut self, p99: Nanos) {
        self.p99_before_ns.add(p99.0 as f64);
    }

    /// The controller begins to act, from the limits `current`.
    pub(crate) fn activate(&mut self, current: &Allocation) {
        self.last_good = Some(current.clone());
        self.phase = Phase::default();
    }

    /// The limits to go back to, while they are to be kept.
    pub(crate) fn last_good(&self) -> Option<&Allocation> {
        self.last_good.as_ref()
    }

    /// One period in charge of the limits, which are `current`. Says whether to go back.
    pub(crate) fn check(
        &mut self,
        rule: MadeItWorseRule,
        p99: Nanos,
        current: &Allocation,
    ) -> Option<HoldReason> {
        let before_ns = self.p99_before_ns.mean()?;
        let is_bad = p99.0 as f64 > before_ns * rule.ratio;
        match &mut self.phase {
            Phase::Watching { bad } if !is_bad => {
                *bad = 0;
                self.last_good = Some(current.clone());
            }
            Phase::Watching { bad } => {
                *bad += 1;
                if *bad >= rule.periods {
                    self.phase = Phase::Holding { left: rule.hold_periods, bad: 0 };
                }
            }
            Phase::Holding { left, bad } => {
                *left = left.saturating_sub(1);
                *bad = if is_bad { *bad + 1 } else { 0 };
                if *bad >= rule.periods {
                    // The limits were not the cause: the traffic or a backend is. From now on this is normal.
                    self.p99_before_ns = Baseline::settled(p99.0 as f64);
                    self.activate(current);
                } else if *left == 0 {
                    self.activate(current);
                }
            }
        }
        let holding = matches!(self.phase, Phase::Holding { .. });
        holding.then_some(HoldReason::MadeItWorse { p99, p99_before: Nanos(before_ns as u64) })
    }
}
