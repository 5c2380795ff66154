//! What a policy is, and the list of those there are.
//!
//! Place in the flow: between the observation and the redistribution. A policy only returns a value; the controller
//! applies the gap rule, the step, floors, caps and carry to whatever it proposes, so no policy can break the cache.

#[cfg(test)]
mod cases;
mod cliffhanger;
mod cliffhanger_credits;
mod equal;
mod fair;
mod fixed;
mod lama;
mod lama_curves;
mod robinhood;

use std::fmt;
use std::str::FromStr;

use robinhood_stats::{BackendName, Bytes};
use serde::{Deserialize, Serialize};

use crate::allocation::Allocation;
use crate::holds::HoldReason;
use crate::observation::Observation;

pub use cliffhanger::Cliffhanger;
pub use cliffhanger_credits::CliffhangerCredits;
pub use equal::Equal;
pub use fair::Fair;
pub use fixed::Fixed;
pub use lama::Lama;
pub use lama_curves::LamaCurves;
pub use robinhood::RobinHood;

/// What a policy wants.
#[derive(Clone, Debug, PartialEq)]
pub enum Proposal {
    /// Tax everybody, and share the pot in these proportions: one number from 0 up for each entry of
    /// [`Observation::backends`], in that order. All zero: no tax, no move.
    Weights(Vec<f64>),
    /// Approach this allocation by at most the step in each period.
    Target(Allocation),
    /// Leave the limits as they are.
    Hold(HoldReason),
}

/// One miss, for policies that learn from each.
#[derive(Clone, Copy, Debug)]
pub struct Miss<'a> {
    /// Whose key was missed.
    pub backend: &'a BackendName,
    /// Bytes of the object.
    pub bytes: Bytes,
    /// How many misses this one stands for that a slightly larger partition would have hit. 0: the shadow queue beside the partition
    /// did not have the key. 1: it had. More: it had, and holds only a sample of the keys.
    pub shadow_hits: u32,
}

/// Turns observations into proposals.
pub trait Policy: Send {
    /// The name under which people choose it.
    fn name(&self) -> &'static str;

    /// What to do about `observation`. Must depend on nothing else but the policy's own state, which only earlier
    /// calls of this trait may have changed.
    fn propose(&mut self, observation: &Observation) -> Proposal;

    /// Called for policies that learn from single misses, at least at those with a hit in a shadow queue ([`Sight::ShadowHits`]).
    /// Most do not.
    fn on_miss(&mut self, _miss: Miss<'_>) {}
}

/// The policies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// The paper's: tax all, give to those that block requests.
    Robinhood,
    /// Fixed limits (TAO++).
    Static,
    /// The most hits (Cliffhgr++).
    Cliffhanger,
    /// Equal hit ratios (FAIR++).
    Fair,
    /// Equal query latencies (LAMA++).
    Lama,
    /// The same bytes for everybody.
    Equal,
    /// One LRU for all backends (OneRF): a mode of the cache, without partitions and without a controller.
    Shared,
    /// The least time in misses, by miss-ratio curves (LAMA's own way).
    LamaCurves,
    /// The most hits, miss by miss (Cliffhanger's own way).
    CliffhangerCredits,
}

/// What a policy has to see beyond reports and the use of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Nothing.
    Reports,
    /// [`BackendObservation::hit_slope_per_byte`](crate::BackendObservation::hit_slope_per_byte).
    HitSlopes,
    /// [`Miss::shadow_hits`].
    ShadowHits,
    /// [`BackendObservation::miss_ratio_curve`](crate::BackendObservation::miss_ratio_curve).
    MissRatioCurves,
}

/// A name that is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown policy `{name}`: choose one of robinhood, static, cliffhanger, fair, lama, equal, shared, lama-curves, cliffhanger-credits"
)]
pub struct UnknownPolicy {
    /// What was given.
    pub name: String,
}

impl PolicyKind {
    /// All kinds, the paper's first.
    pub const ALL: [Self; 9] = [
        Self::Robinhood,
        Self::Static,
        Self::Cliffhanger,
        Self::Fair,
        Self::Lama,
        Self::Equal,
        Self::Shared,
        Self::LamaCurves,
        Self::CliffhangerCredits,
    ];

    /// Those of the paper's evaluation, and `equal`. Not among them: two of these systems as their own papers have them.
    pub const COMPARISON: [Self; 7] = [
        Self::Robinhood,
        Self::Static,
        Self::Cliffhanger,
        Self::Fair,
        Self::Lama,
        Self::Equal,
        Self::Shared,
    ];

    /// The name as people write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Robinhood => "robinhood",
            Self::Static => "static",
            Self::Cliffhanger => "cliffhanger",
            Self::Fair => "fair",
            Self::Lama => "lama",
            Self::Equal => "equal",
            Self::Shared => "shared",
            Self::LamaCurves => "lama-curves",
            Self::CliffhangerCredits => "cliffhanger-credits",
        }
    }

    /// What the policy has to see.
    pub const fn sight(self) -> Sight {
        match self {
            Self::Cliffhanger => Sight::HitSlopes,
            Self::CliffhangerCredits => Sight::ShadowHits,
            Self::LamaCurves => Sight::MissRatioCurves,
            Self::Robinhood | Self::Static | Self::Fair | Self::Lama => Sight::Reports,
            Self::Equal | Self::Shared => Sight::Reports,
        }
    }

    /// The policy, or `None` for a cache without partitions. `start` has the limits at the start: those that `static` keeps.
    pub fn build(self, start: &Allocation) -> Option<Box<dyn Policy>> {
        match self {
            Self::Robinhood => Some(Box::new(RobinHood)),
            Self::Static => Some(Box::new(Fixed::new(start.clone()))),
            Self::Cliffhanger => Some(Box::new(Cliffhanger)),
            Self::Fair => Some(Box::new(Fair)),
            Self::Lama => Some(Box::new(Lama)),
            Self::Equal => Some(Box::new(Equal)),
            Self::Shared => None,
            Self::LamaCurves => Some(Box::new(LamaCurves::default())),
            Self::CliffhangerCredits => Some(Box::new(CliffhangerCredits::new(start, 0))),
        }
    }
}

impl fmt::Display for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reports => "the reports of the application servers",
            Self::HitSlopes => "the slopes of the hit ratios",
            Self::ShadowHits => "hits in shadow queues beside the partitions",
            Self::MissRatioCurves => "miss-ratio curves",
        })
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;
    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let known = Self::ALL.into_iter().find(|kind| kind.as_str() == name);
        known.ok_or_else(|| UnknownPolicy { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_back_from_its_name_and_builds_the_policy_of_that_name() {
        let name = BackendName::new("a").unwrap();
        let start = Allocation::equal(Bytes(10), [&name], Bytes::ZERO).unwrap();
        for kind in PolicyKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
            match kind.build(&start) {
                Some(policy) => assert_eq!(policy.name(), kind.as_str()),
                None => assert_eq!(kind, PolicyKind::Shared),
            }
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "robinhod".parse::<PolicyKind>().unwrap_err().to_string();
        let known = PolicyKind::ALL.map(PolicyKind::as_str).join(", ");
        assert_eq!(error, format!("unknown policy `robinhod`: choose one of {known}"));
    }
}
