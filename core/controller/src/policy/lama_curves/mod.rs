//! `lama-curves`: the least time in misses. Of all ways to divide the cache it takes the one in which queries x miss ratio x P99 of
//! a miss, summed over backends, is smallest, by miss-ratio curves.
//!
//! Source: LAMA (ATC'15), its dynamic programme over footprint curves with the latency objective; the cost of a miss is the
//! P99, as in LAMA++ of RobinHood (OSDI'18) section 5.1. A new division is sought once in a while and only approached if it is
//! expected to cost 0.5 % less than the present one: both as published. Deviations: the cache is divided in 500 units, not in pages of a megabyte; the
//! time between two searches is twelve periods, the span of the statistics, not a million look-ups; and the step of the controller
//! bounds what moves, not 50 pages a search. The curves come with the observation, however they were measured.

mod programme;

use robinhood_stats::{Bytes, Nanos};

use super::{Policy, Proposal};
use crate::allocation::Allocation;
use crate::apportion::apportion;
use crate::holds::HoldReason;
use crate::observation::{BackendObservation, Observation};
use programme::cheapest_division;

/// Parts in which the cache is divided.
const UNITS: u64 = 500;
/// Periods from one search to the next.
const SEARCH_PERIODS: u32 = 12;
/// A division that saves less than this share of the present cost is not worth its moves.
const GAIN_MIN: f64 = 0.005;

/// Minimises the time spent in misses. Keeps what the last search found until the next one.
#[derive(Clone, Debug, Default)]
pub struct LamaCurves {
    /// The result of the last search, and for how many periods it still holds.
    found: Option<(Proposal, u32)>,
}

impl Policy for LamaCurves {
    fn name(&self) -> &'static str {
        "lama-curves"
    }

    fn propose(&mut self, observation: &Observation) -> Proposal {
        if observation.backends.iter().all(|backend| backend.miss_ratio_curve.is_none()) {
            return hold("nobody measures the miss-ratio curves here: choose another policy");
        }
        let (proposal, periods) = match self.found.take() {
            Some((proposal, periods)) if periods > 0 => (proposal, periods - 1),
            _ => (search(observation, UNITS), SEARCH_PERIODS - 1),
        };
        self.found = Some((proposal.clone(), periods));
        proposal
    }
}

fn hold(reason: &str) -> Proposal {
    Proposal::Hold(HoldReason::Policy(reason.to_owned()))
}

/// The cheapest division in `units` parts. Backends whose curve nobody knows keep what they have.
fn search(observation: &Observation, units: u64) -> Proposal {
    let known: Vec<&BackendObservation> =
        observation.backends.iter().filter(|b| b.miss_ratio_curve.is_some()).collect();
    let kept: u64 = observation
        .backends
        .iter()
        .filter(|backend| backend.miss_ratio_curve.is_none())
        .fold(0, |sum, backend| sum.saturating_add(backend.limit.0));
    let divided_bytes = observation.budget.0.saturating_sub(kept);
    let units = units.min(divided_bytes).max(1);
    let unit_bytes = divided_bytes / units;
    let unknown_p99 = mean_p99(observation);
    let cost = |backend: &BackendObservation, size: Bytes| {
        let curve = backend.miss_ratio_curve.as_ref().expect("only backends with a curve");
        let p99 = backend.miss_batch_p99.unwrap_or(unknown_p99);
        backend.queries as f64 * curve.at(size) * p99.as_secs_f64()
    };
    let costs: Vec<Vec<f64>> = known
        .iter()
        .map(|backend| (0..=units).map(|n| cost(backend, Bytes(unit_bytes * n))).collect())
        .collect();
    let (division, new_cost) = cheapest_division(&costs);
    let cost_now: f64 = known.iter().map(|backend| cost(backend, backend.limit)).sum();
    if cost_now - new_cost <= GAIN_MIN * cost_now {
        return hold("no other division is expected to cost less by 0.5 %");
    }
    // What would save nothing anywhere is left with those who have it.
    let spent: u64 = division.iter().map(|&n| n as u64 * unit_bytes).sum();
    let present: Vec<u64> = known.iter().map(|backend| backend.limit.0.max(1)).collect();
    let rest = apportion(divided_bytes - spent, &present);
    let mut sizes = division.iter().zip(rest).map(|(&n, rest)| n as u64 * unit_bytes + rest);
    let limits = observation.backends.iter().map(|backend| {
        let size = match backend.miss_ratio_curve {
            Some(_) => sizes.next().expect("one for each known backend"),
            None => backend.limit.0,
        };
        (backend.name.clone(), size)
    });
    match Allocation::in_ratio_of(observation.budget, limits) {
        Some(target) => Proposal::Target(target),
        None => hold("there is nothing to divide"),
    }
}

/// What a miss is taken to cost where none was seen: the mean of the others.
fn mean_p99(observation: &Observation) -> Nanos {
    let known = observation.backends.iter().filter_map(|backend| backend.miss_batch_p99);
    let (sum, count) =
        known.fold((0_u128, 0), |(sum, count), p99| (sum + u128::from(p99.0), count + 1));
    // With no miss anywhere, any number does.
    Nanos(sum.checked_div(count).map_or(1, |mean| mean as u64))
}

#[cfg(test)]
mod tests;
