//! Everything that one decision depends on, and everything that comes out of it.
//!
//! Place in the flow: the controller fills [`Inputs`], [`crate::redistribution::decide`] turns them into an
//! [`Outcome`], and the decision record keeps both, so that a decision can be computed again from its record alone.

use std::fmt;

use robinhood_stats::{BackendName, Bytes};
use serde::{Deserialize, Serialize};

use crate::observation::Observation;
use crate::protection::Protected;

/// What a partition may do in this period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Pays tax and may receive.
    Normal,
    /// Its last resize is not finished: neither pays nor receives.
    Unfinished,
    /// Its backend carries as much load as it may: pays no tax, may receive.
    Protected(Protected),
    /// Nobody asked its backend for so long that it falls to its floor: pays all above it, receives nothing.
    Idle,
}

/// The controller's side of one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// The target limit: the base of the tax.
    pub target: Bytes,
    /// The least it may hold.
    pub floor: Bytes,
    /// The most it may hold: the budget, when nobody bounds it.
    pub cap: Bytes,
    /// Bytes that it is still owed (positive) or owes (negative), because the cache moves whole granules only.
    pub carry_bytes: i64,
    /// What it may do.
    pub standing: Standing,
}

/// A proposal, brought to partitions: groups divided, targets fitted to floors, caps and budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// Share the pot in these proportions.
    Weights(Vec<f64>),
    /// Approach these limits.
    Limits(Vec<Bytes>),
    /// Go back to these limits at once. Only an unfinished resize is waited for: the gap rule and the protection of
    /// backends at their limit of load bound new moves, and this takes old ones back.
    Restore(Vec<Bytes>),
    /// Change nothing, and forget the carry.
    Hold,
}

/// The input of a decision. All lists have one entry for each partition, in the order of names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// What was seen.
    pub observation: Observation,
    /// What each partition may do, and between which bounds.
    pub terms: Vec<Terms>,
    /// What the policy wants.
    pub wish: Wish,
    /// The share of its limit that a partition pays at most, from 0 to 1, already scaled by confidence.
    pub step: f64,
    /// A partition whose limit exceeds its use by more than this share of its use gets no grant.
    pub gap: f64,
    /// Limits change in multiples of this.
    pub granule: Bytes,
}

/// Why a partition was treated differently from the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// It does not use what it has: no grant.
    Gap {
        /// The limit in the cache.
        limit: Bytes,
        /// What it holds.
        used: Bytes,
    },
    /// Its last resize is not finished: no tax, no grant.
    Unfinished {
        /// Where it shall go.
        target: Bytes,
        /// The limit in the cache.
        limit: Bytes,
        /// What it holds.
        used: Bytes,
    },
    /// Its backend is at its limit of load: no tax.
    Protected(Protected),
    /// Nobody asked for it: down to the floor, no grant.
    Idle,
    /// It cannot hold more: no grant beyond the cap.
    AtCap,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The new target limits, in the order of names.
    pub limits: Vec<Bytes>,
    /// The new carries.
    pub carries_bytes: Vec<i64>,
    /// The weights after all rules; empty when the policy gave no weights.
    pub weights: Vec<f64>,
    /// Who was treated differently, and why, in the order of names.
    pub skipped: Vec<(BackendName, SkipReason)>,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { limit, used } => write!(f, "no grant: uses {used} of {limit}"),
            Self::Unfinished { target, limit, used } => {
                write!(f, "left alone: resize to {target} unfinished, at {limit}, holds {used}")
            }
            Self::Protected(protected) => write!(f, "no tax: {protected}"),
            Self::Idle => f.write_str("no queries: falls to its floor"),
            Self::AtCap => f.write_str("no grant: at its cap"),
        }
    }
}
