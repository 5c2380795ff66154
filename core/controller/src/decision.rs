//! The record of one control period: what was seen, what was wanted, what was done and why.
//!
//! Place in the flow: the controller writes one in each period, holds included, for logs, dashboards and replay.
//! `{}` prints one line, `{:#}` a table, and the serialised form has everything that [`Decision::replay`] needs.

use std::fmt;

use robinhood_stats::{BackendName, Bytes, Instant};
use serde::{Deserialize, Serialize};

use crate::allocation::{Allocation, LimitChange};
use crate::config::Mode;
use crate::holds::HoldReason;
use crate::inputs::{Inputs, SkipReason};
use crate::redistribution::decide;

/// One control period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When.
    pub at: Instant,
    /// The number of the period, from 1.
    pub period: u64,
    /// Whether it was carried out.
    pub mode: Mode,
    /// The name of the policy.
    pub policy: String,
    /// Everything that the new limits depend on.
    pub inputs: Inputs,
    /// The weights after all rules, in the order of names; empty when the policy gave none.
    pub weights: Vec<f64>,
    /// Who was treated differently from the others, and why.
    pub skipped: Vec<(BackendName, SkipReason)>,
    /// Why nothing was moved, if so. With [`HoldReason::MadeItWorse`] the limits go back to the last good ones.
    pub hold: Option<HoldReason>,
    /// Target limits before.
    pub old: Allocation,
    /// Target limits after; in advise mode what they would be.
    pub new: Allocation,
}

/// Changes that the one-line form names.
const CHANGES_SHOWN: usize = 3;

impl Decision {
    /// Computes the new limits again, from [`Decision::inputs`] alone. They equal [`Decision::new`].
    pub fn replay(&self) -> Allocation {
        let limits = decide(&self.inputs).limits;
        let names = self.inputs.observation.backends.iter().map(|backend| backend.name.clone());
        Allocation::from_sorted(names.zip(limits).collect())
    }

    /// Bytes that go from some partitions to others.
    pub fn moved(&self) -> Bytes {
        Bytes(self.old.distance_l1(&self.new).0 / 2)
    }

    /// The share of a backend in all known RBC, 0 to 1.
    fn rbc_share(&self, index: usize) -> f64 {
        let seen = &self.inputs.observation;
        let all: f64 = seen.backends.iter().map(|backend| backend.rbc).sum();
        let all = all + seen.own_rbc + seen.unpartitioned_rbc;
        if all > 0.0 { seen.backends[index].rbc / all } else { 0.0 }
    }

    fn line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = &self.inputs.observation;
        write!(f, "{:.1} s {} {}: ", self.at.as_secs_f64(), self.mode, self.policy)?;
        match &self.hold {
            Some(hold) => write!(f, "hold, {hold}")?,
            None if self.mode == Mode::Advise => write!(f, "would move {}", self.moved())?,
            None => write!(f, "moves {}", self.moved())?,
        }
        let mut changes = self.old.diff(&self.new);
        changes.sort_by_key(|change| std::cmp::Reverse(change.from.0.abs_diff(change.to.0)));
        for (place, change) in changes.iter().take(CHANGES_SHOWN).enumerate() {
            f.write_str(if place == 0 { " (" } else { ", " })?;
            write!(f, "{} {}", change.backend, signed(change))?;
        }
        if changes.len() > CHANGES_SHOWN {
            write!(f, ", {} more", changes.len() - CHANGES_SHOWN)?;
        }
        f.write_str(if changes.is_empty() { "" } else { ")" })?;
        write!(
            f,
            "; step {:.2} %, n {:.1}, P99 {}",
            self.inputs.step * 100.0,
            seen.requests_in_band,
            seen.request_p99
        )
    }
}

fn signed(change: &LimitChange) -> String {
    let sign = if change.to >= change.from { '+' } else { '-' };
    format!("{sign}{}", Bytes(change.to.0.abs_diff(change.from.0)))
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.line(f)?;
        if !f.alternate() {
            return Ok(());
        }
        write!(
            f,
            "\n  {:<16} {:>7} {:>10} {:>10} {:>10} {:>11}  note",
            "backend", "RBC", "used", "old", "new", "change"
        )?;
        let rows = self.old.iter().zip(self.new.iter()).zip(&self.inputs.observation.backends);
        for (index, (((name, from), (_, to)), seen)) in rows.enumerate() {
            let change = LimitChange { backend: name.clone(), from, to };
            let note = self.skipped.iter().find(|(skipped, _)| skipped == name);
            let note = note.map(|(_, reason)| reason.to_string()).unwrap_or_default();
            let (share, change) = (self.rbc_share(index) * 100.0, signed(&change));
            write!(
                f,
                "\n  {name:<16} {share:>5.1} % {:>10} {from:>10} {to:>10} {change:>11}  {note}",
                seen.used
            )?;
        }
        Ok(())
    }
}
