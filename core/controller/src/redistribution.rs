//! One control period as arithmetic: tax, pot, grants, net change. A pure function from [`Inputs`] to [`Outcome`].
//!
//! Place in the flow: after the policy, before the resizes. The controller calls it once a period; a decision
//! record holds its whole input, so that anybody can call it again.
//!
//! Source: RobinHood (OSDI'18) sections 3.1 (tax of 1 %, pot by RBC) and 3.2 (gap of 30 %). Where naive code goes
//! wrong:
//! - A resize is the net of tax and grant. Somebody who gets back what it paid evicts nothing.
//! - Bytes are conserved exactly (largest remainder, ties by name), and entries in the order of names make the result
//!   independent of any other order.
//! - The base of the tax is the target limit; the gap rule compares the limit in the cache with the use.
//! - Who takes a move back takes all of it back. A rollback that obeyed the gap rule and the protection would stop
//!   half way exactly where the limits did the harm.
//! - The carry is of the net, not of the tax alone. With a coarse granule, carrying only what is paid would round the
//!   grants of a small pot to the same few receivers for ever.

use robinhood_stats::{BackendName, Bytes};

use crate::apportion::{Bounds, apportion, apportion_capped, integer_weights};
use crate::granules::{Want, round_to_granules};
use crate::inputs::{Inputs, Outcome, SkipReason, Standing, Terms, Wish};
use crate::observation::BackendObservation;

/// One partition in the course of the computation.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// The target, lifted to the floor where the floor has risen.
    base: u64,
    bounds: Bounds,
    /// The most it pays.
    payable: u64,
    receives: bool,
}

/// Computes the new limits. With [`Wish::Hold`] nothing changes, and the carry is forgotten.
///
/// # Panics
/// When the lists of `inputs` differ in length, a weight is not a number from 0 up, or `step` is outside 0 to 1.
pub fn decide(inputs: &Inputs) -> Outcome {
    let count = inputs.observation.backends.len();
    assert_eq!(inputs.terms.len(), count, "one set of terms for each partition");
    assert!((0.0..=1.0).contains(&inputs.step), "the step is a share, not {}", inputs.step);
    let old: Vec<u64> = inputs.terms.iter().map(|terms| terms.target.0).collect();
    if inputs.wish == Wish::Hold {
        let limits = old.into_iter().map(Bytes).collect();
        return Outcome {
            limits,
            carries_bytes: vec![0; count],
            weights: Vec::new(),
            skipped: Vec::new(),
        };
    }
    let skipped = skips(inputs);
    let shares = shares(inputs);
    let (weights, taxes, grants) = match &inputs.wish {
        Wish::Weights(weights) => {
            assert_eq!(weights.len(), count, "one weight for each partition");
            let kept = |(share, &weight): (&Share, &f64)| if share.receives { weight } else { 0.0 };
            let weights: Vec<f64> = shares.iter().zip(weights).map(kept).collect();
            let (taxes, grants) = share_pot(&shares, &integer_weights(&weights));
            (weights, taxes, grants)
        }
        Wish::Limits(limits) | Wish::Restore(limits) => {
            assert_eq!(limits.len(), count, "one limit for each partition");
            let (taxes, grants) = approach(&shares, limits);
            (Vec::new(), taxes, grants)
        }
        Wish::Hold => unreachable!("returned above"),
    };
    let wants = wants(inputs, &shares, &old, &taxes, &grants);
    let (limits, carries_bytes) = round_to_granules(&wants, inputs.granule.0);
    assert_eq!(limits.iter().sum::<u64>(), old.iter().sum::<u64>(), "bytes are conserved");
    Outcome { limits: limits.into_iter().map(Bytes).collect(), carries_bytes, weights, skipped }
}

/// Whether a partition leaves so much of its limit unused that more would be wasted (paper 3.2).
fn has_gap(limit: Bytes, used: Bytes, gap: f64) -> bool {
    limit.as_f64() > used.as_f64() * (1.0 + gap)
}

fn skips(inputs: &Inputs) -> Vec<(BackendName, SkipReason)> {
    let mut skipped = Vec::new();
    let is_restored = matches!(inputs.wish, Wish::Restore(_));
    for (backend, terms) in inputs.observation.backends.iter().zip(&inputs.terms) {
        let (limit, used) = (backend.limit, backend.used);
        let reason = match &terms.standing {
            Standing::Unfinished => SkipReason::Unfinished { target: terms.target, limit, used },
            Standing::Idle => SkipReason::Idle,
            Standing::Normal | Standing::Protected(_) if is_restored => continue,
            Standing::Normal | Standing::Protected(_) if has_gap(limit, used, inputs.gap) => {
                SkipReason::Gap { limit, used }
            }
            Standing::Protected(protected) => SkipReason::Protected(*protected),
            Standing::Normal
                if terms.target >= terms.cap && terms.cap < inputs.observation.budget =>
            {
                SkipReason::AtCap
            }
            Standing::Normal => continue,
        };
        skipped.push((backend.name.clone(), reason));
    }
    skipped
}

/// What each may pay, and who may receive.
fn shares(inputs: &Inputs) -> Vec<Share> {
    let share = |backend: &BackendObservation, terms: &Terms, base: u64| {
        let bounds = Bounds { floor: terms.floor.0, cap: terms.cap.0 };
        let above = base.saturating_sub(terms.floor.0);
        if matches!(inputs.wish, Wish::Restore(_)) {
            let receives = terms.standing != Standing::Unfinished;
            return Share { base, bounds, payable: if receives { above } else { 0 }, receives };
        }
        let payable = match terms.standing {
            Standing::Unfinished | Standing::Protected(_) => 0,
            Standing::Idle => above,
            Standing::Normal => ((base as f64 * inputs.step) as u64).min(above),
        };
        let receives = matches!(terms.standing, Standing::Normal | Standing::Protected(_))
            && !has_gap(backend.limit, backend.used, inputs.gap);
        Share { base, bounds, payable, receives }
    };
    let entries = inputs.observation.backends.iter().zip(&inputs.terms).zip(lifted(inputs));
    entries.map(|((backend, terms), base)| share(backend, terms, base)).collect()
}

/// The targets, after those below a floor that has risen got what they lack (in whole granules) from the others, in
/// proportion to what these have above theirs. Unfinished ones stay out of it; what cannot be had now is had later.
fn lifted(inputs: &Inputs) -> Vec<u64> {
    let granule = inputs.granule.0.max(1);
    let of_movable =
        |terms: &Terms, bytes: u64| if terms.standing == Standing::Unfinished { 0 } else { bytes };
    let lack = |terms: &Terms| {
        of_movable(terms, terms.floor.0.saturating_sub(terms.target.0).next_multiple_of(granule))
    };
    let spare = |terms: &Terms| of_movable(terms, terms.target.0.saturating_sub(terms.floor.0));
    let lacks: Vec<u64> = inputs.terms.iter().map(lack).collect();
    let spares: Vec<u64> = inputs.terms.iter().map(spare).collect();
    let moved = smaller_sum(&lacks, &spares);
    let (gains, losses) = (apportion(moved, &lacks), apportion(moved, &spares));
    let targets = inputs.terms.iter().map(|terms| terms.target.0);
    targets.zip(gains).zip(losses).map(|((target, gain), loss)| target + gain - loss).collect()
}

/// The smaller of two sums. The other one may be beyond 64 bits: floors rounded up to large granules, say.
///
/// # Panics
/// When both are.
fn smaller_sum(a: &[u64], b: &[u64]) -> u64 {
    let sum = |values: &[u64]| values.iter().map(|&value| u128::from(value)).sum::<u128>();
    u64::try_from(sum(a).min(sum(b))).expect("what is there to give fits the budget")
}

/// Everybody pays into one pot, which goes out by weight. Weights that sum to zero: no tax. What nobody can take,
/// because of caps, goes back to those who paid it.
fn share_pot(shares: &[Share], weights: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let nothing = vec![0; shares.len()];
    if weights.iter().all(|&weight| weight == 0) {
        return (nothing.clone(), nothing);
    }
    let mut taxes: Vec<u64> = shares.iter().map(|share| share.payable).collect();
    let pot: u64 = taxes.iter().sum();
    let room = |share: &Share| share.bounds.cap.saturating_sub(share.base) + share.payable;
    let rooms: Vec<u64> = shares.iter().map(room).collect();
    let grants = apportion_capped(pot, weights, &rooms);
    let unclaimed = pot - grants.iter().sum::<u64>();
    // All receivers are full then, and each got at least its own tax back: the rest is other people's.
    let others = |(&tax, &weight): (&u64, &u64)| if weight == 0 { tax } else { 0 };
    let refundable: Vec<u64> = taxes.iter().zip(weights).map(others).collect();
    for (tax, refund) in taxes.iter_mut().zip(apportion(unclaimed, &refundable)) {
        *tax -= refund;
    }
    (taxes, grants)
}

/// Those above the wanted limits pay, at most the step; those below receive, in proportion to what they lack.
fn approach(shares: &[Share], wanted: &[Bytes]) -> (Vec<u64>, Vec<u64>) {
    let excess =
        |(share, limit): (&Share, &Bytes)| share.base.saturating_sub(limit.0).min(share.payable);
    let lack = |(share, limit): (&Share, &Bytes)| {
        if share.receives { limit.0.min(share.bounds.cap).saturating_sub(share.base) } else { 0 }
    };
    let gives: Vec<u64> = shares.iter().zip(wanted).map(excess).collect();
    let lacks: Vec<u64> = shares.iter().zip(wanted).map(lack).collect();
    let moved = smaller_sum(&gives, &lacks);
    (apportion(moved, &gives), apportion(moved, &lacks))
}

/// The net of tax and grant, with a carry that makes nobody pay or receive who may not do so now.
fn wants(
    inputs: &Inputs,
    shares: &[Share],
    old: &[u64],
    taxes: &[u64],
    grants: &[u64],
) -> Vec<Want> {
    let want = |i: usize| {
        let (share, terms) = (&shares[i], &inputs.terms[i]);
        let carry = match &terms.standing {
            Standing::Unfinished => terms.carry_bytes,
            _ if matches!(inputs.wish, Wish::Restore(_)) => 0,
            Standing::Protected(_) if share.receives => terms.carry_bytes.max(0),
            Standing::Protected(_) => 0,
            Standing::Idle | Standing::Normal if share.receives => terms.carry_bytes,
            Standing::Idle | Standing::Normal => terms.carry_bytes.min(0),
        };
        Want {
            limit: old[i],
            bounds: share.bounds,
            change: signed(share.base + grants[i]) - signed(old[i]) - signed(taxes[i]),
            carry,
            movable: terms.standing != Standing::Unfinished,
        }
    };
    (0..shares.len()).map(want).collect()
}

/// # Panics
/// Above 2^63 bytes, which the configuration refuses.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).expect("budgets are below 2^63 bytes")
}

#[cfg(test)]
mod tests;
