//! Rounding of wanted changes to what a cache can really change: whole granules.
//!
//! Place in the flow: the last step of [`crate::redistribution`]. A cache like memcached moves pages of 1 MiB; a
//! partition whose tax is smaller still pays, because what it owes is carried until it is a granule. Likewise what
//! it is owed.
//!
//! Rule: nobody moves before a whole granule is due to or from somebody. If then more is due to receivers than
//! payers owe in whole granules, the payers nearest to a granule pay it in advance, and the other way round. So the
//! carries keep their sum, none reaches a granule, and in equilibrium nothing moves at all.

use crate::apportion::{Bounds, apportion};

/// What one partition is to change by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) limit: u64,
    pub(crate) bounds: Bounds,
    /// The net change wanted in this period, in bytes. All changes sum to zero.
    pub(crate) change: i64,
    /// What earlier periods left, in bytes.
    pub(crate) carry: i64,
    pub(crate) movable: bool,
}

/// New limits, with the sum of the old ones, and new carries.
pub(crate) fn round_to_granules(wants: &[Want], granule_bytes: u64) -> (Vec<u64>, Vec<i64>) {
    let granule = i64::try_from(granule_bytes.max(1)).expect("a granule is below 2^63 bytes");
    let due: Vec<i64> = wants.iter().map(due).collect();
    let mut steps: Vec<i64> = due.iter().map(|due| due / granule).collect();
    balance(wants, &due, &mut steps, granule);
    let mut limits = Vec::with_capacity(wants.len());
    let mut carries = Vec::with_capacity(wants.len());
    for ((want, due), step) in wants.iter().zip(due).zip(steps) {
        let moved = step * granule;
        let limit = want.limit.checked_add_signed(moved).expect("nobody pays more than it has");
        let left = (due - moved).clamp(1 - granule, granule - 1);
        let room_down = signed_room(limit.saturating_sub(want.bounds.floor));
        let room_up = signed_room(want.bounds.cap.saturating_sub(limit));
        let stuck = (left < 0 && room_down < granule) || (left > 0 && room_up < granule);
        limits.push(limit);
        carries.push(match (want.movable, stuck) {
            (false, _) => want.carry,
            (true, true) => 0,
            (true, false) => left,
        });
    }
    (limits, carries)
}

/// Change and carry together, within the bounds.
fn due(want: &Want) -> i64 {
    if !want.movable {
        return 0;
    }
    let lowest = -signed_room(want.limit.saturating_sub(want.bounds.floor));
    let highest = signed_room(want.bounds.cap.saturating_sub(want.limit));
    // A partition below a risen floor may be on its way up and still below it: then it only rises.
    (want.change + want.carry).clamp(lowest, highest)
}

/// Makes the steps sum to zero.
fn balance(wants: &[Want], due: &[i64], steps: &mut [i64], granule: i64) {
    let mut surplus: i64 = steps.iter().sum();
    if surplus == 0 {
        return;
    }
    // With more to receive than to pay, `sign` is 1, and payers go down by one granule each; else receivers go up.
    let sign = surplus.signum();
    let remainder = |i: usize| (due[i] - steps[i] * granule) * sign;
    let mut nearest: Vec<(i64, usize)> = (0..wants.len())
        .filter(|&i| remainder(i) < 0 && may_step(&wants[i], steps[i] - sign, granule))
        .map(|i| (remainder(i), i))
        .collect();
    nearest.sort_unstable();
    let advances = usize::try_from(surplus.abs()).expect("a count").min(nearest.len());
    for &(_, i) in &nearest[..advances] {
        steps[i] -= sign;
        surplus -= sign;
    }
    if surplus != 0 {
        reduce(steps, surplus);
    }
}

/// Takes `surplus` off the steps of its own sign, in proportion.
fn reduce(steps: &mut [i64], surplus: i64) {
    let sign = surplus.signum();
    let weights: Vec<u64> = steps.iter().map(|&step| (step * sign).max(0).unsigned_abs()).collect();
    for (step, cut) in steps.iter_mut().zip(apportion(surplus.unsigned_abs(), &weights)) {
        *step -= sign * i64::try_from(cut).expect("a cut is no larger than the step");
    }
    assert_eq!(steps.iter().sum::<i64>(), 0, "what some receive others pay");
}

fn may_step(want: &Want, step: i64, granule: i64) -> bool {
    let limit = i128::from(want.limit) + i128::from(step) * i128::from(granule);
    want.movable && (i128::from(want.bounds.floor)..=i128::from(want.bounds.cap)).contains(&limit)
}

/// Rooms are as large as a cap can be, which is everything when there is none.
fn signed_room(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
