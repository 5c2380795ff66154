//! Reasons to doubt the figures of a run.
//!
//! Place in the flow: beside the summary. A doubt is data, so that a script can refuse a run that measured the machine or
//! the generator instead of the caches.

use std::collections::BTreeMap;
use std::fmt;

use robinhood_stats::BackendName;
use serde::Serialize;

use super::summary::{GeneratorSummary, MachineSummary, Setting, StackSummary};

/// Part of the processors' time above which a run measured the machine.
const CPU_SHARE_MAX: f64 = 0.70;
/// Lateness of the generator at P99, as a share of the lower stack's P99, from which it disturbs the figures.
const LATENESS_SHARE_MAX: f64 = 0.01;
/// Lateness below this is what waking a thread costs; no figure of milliseconds depends on it.
const LATENESS_US_MIN: f64 = 50.0;
/// Share of a backend's batches whose real work may outlast the limit.
const OVER_LIMIT_SHARE_MAX: f64 = 0.01;

/// A reason to doubt the figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Doubt {
    /// The machine was the bottleneck.
    CpuBusy {
        /// Part of the processors' time that was used.
        share: f64,
    },
    /// The generator was late.
    GeneratorLate {
        /// P99 of its lateness.
        lateness_us_p99: f64,
        /// P99 of the faster stack's latency.
        latency_us_p99: f64,
    },
    /// A stack did not get all requests.
    Refused {
        /// The stack.
        stack: String,
        /// How many it did not get.
        requests: u64,
    },
    /// Requests had no end; they count in the percentiles with the time they had waited, and in no window.
    Unfinished {
        /// The stack.
        stack: String,
        /// How many.
        requests: u64,
    },
    /// Real work, not the limit, made a backend slow.
    OverLimit {
        /// The stack.
        stack: String,
        /// The backend.
        backend: BackendName,
        /// Share of its batches.
        share: f64,
    },
    /// A backend's objects all fit the cache.
    CatalogueFits {
        /// The backend.
        backend: BackendName,
    },
    /// There is no objective.
    NoObjective,
    /// The run was stopped before its end.
    Interrupted,
}

impl Doubt {
    /// Whether the figures must not be used, and not only with care.
    pub const fn invalidates(&self) -> bool {
        matches!(
            self,
            Self::CpuBusy { .. }
                | Self::GeneratorLate { .. }
                | Self::Refused { .. }
                | Self::Unfinished { .. }
        )
    }

    /// Whether real work made a backend slow: so many of its batches outlasted the limit.
    pub(crate) fn over_limit(
        stack: &str,
        backend: &BackendName,
        over_limit: u64,
        batches: u64,
    ) -> Option<Self> {
        let share = over_limit as f64 / batches.max(1) as f64;
        let (stack, backend) = (stack.to_owned(), backend.clone());
        (share > OVER_LIMIT_SHARE_MAX).then_some(Self::OverLimit { stack, backend, share })
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuBusy { share } => write!(
                f,
                "the process used {:.0} % of the processors, over {:.0} %: the machine was the bottleneck",
                share * 100.0,
                CPU_SHARE_MAX * 100.0
            ),
            Self::GeneratorLate { lateness_us_p99, latency_us_p99 } => write!(
                f,
                "requests were sent {lateness_us_p99:.0} us late at P99, over 1 % of a P99 of {latency_us_p99:.0} us"
            ),
            Self::Refused { stack, requests } => {
                write!(f, "`{stack}` did not get {requests} requests: too many were in flight")
            }
            Self::Unfinished { stack, requests } => write!(
                f,
                "{requests} requests of `{stack}` had no end: they count in its percentiles with the time they had waited, and in no window"
            ),
            Self::OverLimit { stack, backend, share } => write!(
                f,
                "at `{backend}` of `{stack}` real work took longer than the limit for {:.1} % of the batches",
                share * 100.0
            ),
            Self::CatalogueFits { backend } => {
                write!(f, "all objects of `{backend}` fit the cache: such a run shows little")
            }
            Self::NoObjective => f.write_str("too short for an objective from its calm third"),
            Self::Interrupted => f.write_str("stopped before its end"),
        }
    }
}

/// All doubts that the figures themselves give.
pub(super) fn of(
    setting: &Setting,
    stacks: &BTreeMap<String, StackSummary>,
    generator: &GeneratorSummary,
    machine: &MachineSummary,
) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    if machine.cpu_share > CPU_SHARE_MAX {
        doubts.push(Doubt::CpuBusy { share: machine.cpu_share });
    }
    let fastest = stacks.values().filter_map(|stack| stack.p99_ms).min_by(f64::total_cmp);
    if let (Some(lateness_us_p99), Some(p99_ms)) = (generator.lateness_us.p99, fastest) {
        let latency_us_p99 = p99_ms * 1e3;
        if lateness_us_p99 > (LATENESS_SHARE_MAX * latency_us_p99).max(LATENESS_US_MIN) {
            doubts.push(Doubt::GeneratorLate { lateness_us_p99, latency_us_p99 });
        }
    }
    for (name, stack) in stacks {
        if stack.refused > 0 {
            doubts.push(Doubt::Refused { stack: name.clone(), requests: stack.refused });
        }
        if stack.unfinished > 0 {
            doubts.push(Doubt::Unfinished { stack: name.clone(), requests: stack.unfinished });
        }
        for (backend, seen) in &stack.backends {
            doubts.extend(Doubt::over_limit(name, backend, seen.over_limit, seen.batches));
        }
    }
    if setting.smallest_catalogue_to_budget <= 1.0 {
        doubts.push(Doubt::CatalogueFits { backend: setting.smallest_catalogue.clone() });
    }
    if setting.interrupted {
        doubts.push(Doubt::Interrupted);
    }
    doubts
}
