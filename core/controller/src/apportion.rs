//! Dividing whole bytes by weights so that not one byte is lost or invented.
//!
//! Place in the flow: the arithmetic under [`crate::redistribution`], the membership operations and the grants that
//! wait for freed bytes. Everything is integer: the result is the same on every machine, exact ties included.
//!
//! Method: largest remainder (Hamilton). Each share is rounded down, and the units that are left go one each to the
//! largest remainders; equal remainders go in the order of the input, which everywhere in this crate is the order of
//! names.

/// Real weights become integers with this value for the largest: 40 bits keep products with byte counts inside 128.
const WEIGHT_ONE: f64 = (1_u64 << 40) as f64;

/// What one partition may hold, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) floor: u64,
    pub(crate) cap: u64,
}

/// Integer weights in the ratio of `weights`, exact to 2^-40 of the largest one.
///
/// # Panics
/// When a weight is negative, infinite or not a number: the policy that produced it is wrong.
pub(crate) fn integer_weights(weights: &[f64]) -> Vec<u64> {
    let mut largest = 0.0_f64;
    for &weight in weights {
        assert!(
            weight.is_finite() && weight >= 0.0,
            "a weight is a number from 0 up, not {weight}"
        );
        largest = largest.max(weight);
    }
    let scale = if largest > 0.0 { WEIGHT_ONE } else { 0.0 };
    // Dividing first keeps even the smallest numbers away from overflow.
    let integer =
        |weight: f64| if scale > 0.0 { (weight / largest * scale).round() as u64 } else { 0 };
    weights.iter().map(|&weight| integer(weight)).collect()
}

/// Divides `total` in proportion to `weights`; the shares sum to `total` exactly.
///
/// # Panics
/// When there is something to divide and every weight is zero.
pub(crate) fn apportion(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    if total == 0 {
        return vec![0; weights.len()];
    }
    assert!(sum > 0, "{total} bytes cannot be divided by weights that are all zero");
    let mut left = total;
    let mut remainders: Vec<(u128, usize)> = Vec::with_capacity(weights.len());
    let mut shares: Vec<u64> = Vec::with_capacity(weights.len());
    for (index, &weight) in weights.iter().enumerate() {
        let product = u128::from(total) * u128::from(weight);
        let share = u64::try_from(product / sum).expect("a share is no larger than the total");
        left -= share;
        shares.push(share);
        remainders.push((product % sum, index));
    }
    let units =
        usize::try_from(left).expect("rounding down leaves less than one unit for each share");
    for &mut (_, index) in largest_first(&mut remainders, units) {
        shares[index] += 1;
    }
    shares
}

/// The `count` largest entries, equal ones by index, in no particular order.
fn largest_first(remainders: &mut [(u128, usize)], count: usize) -> &mut [(u128, usize)] {
    if count > 0 && count < remainders.len() {
        remainders.select_nth_unstable_by(count - 1, |a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    }
    &mut remainders[..count]
}

/// The weights in their proportions, made so small that their sum fits 64 bits. Real ones fit; a cache that reports
/// nonsense gives others.
fn in_64_bits(weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    let bits_above = (u128::BITS - sum.leading_zeros()).saturating_sub(u64::BITS);
    weights.iter().map(|&weight| weight >> bits_above).collect()
}

/// Divides `total` in proportion to `weights`, but gives nobody more than its room. What one cannot take goes to the
/// others in proportion. The shares sum to `total`, or to the room of all with a weight if that is less.
pub(crate) fn apportion_capped(total: u64, weights: &[u64], rooms: &[u64]) -> Vec<u64> {
    assert_eq!(weights.len(), rooms.len(), "every weight has a room");
    let weights = &in_64_bits(weights);
    let rooms: Vec<u64> = rooms.iter().map(|&room| room.min(total)).collect(); // keeps products inside 128 bits
    let mut shares = vec![0; weights.len()];
    let mut open: Vec<usize> = (0..weights.len()).filter(|&i| weights[i] > 0).collect();
    let mut weight_left: u128 = open.iter().map(|&i| u128::from(weights[i])).sum();
    let mut left = total;
    // Who fills up first has the least room per weight. Once one does not fill up, none after it does.
    open.sort_unstable_by(|&a, &b| {
        let (x, y) = (u128::from(rooms[a]), u128::from(rooms[b]));
        (x * u128::from(weights[b])).cmp(&(y * u128::from(weights[a]))).then(a.cmp(&b))
    });
    let mut full = 0;
    for &i in &open {
        let fills = u128::from(left) * u128::from(weights[i]) >= u128::from(rooms[i]) * weight_left;
        if !fills {
            break;
        }
        shares[i] = rooms[i];
        left -= rooms[i];
        weight_left -= u128::from(weights[i]);
        full += 1;
    }
    let rest = &mut open[full..];
    if rest.is_empty() {
        return shares;
    }
    rest.sort_unstable(); // ties go by name
    let rest_weights: Vec<u64> = rest.iter().map(|&i| weights[i]).collect();
    for (&i, share) in rest.iter().zip(apportion(left, &rest_weights)) {
        debug_assert!(share <= rooms[i]);
        shares[i] = share;
    }
    shares
}

/// The limits nearest in shape to `limits` that keep the bounds and sum to `budget`: every floor is met, and what is
/// above the floors keeps its proportions. Limits that fit already come back unchanged.
///
/// This one rule is the new backend (its limit is zero, so it gets its floor from the others in proportion to what
/// they have above theirs), the changed budget (everything above a floor is scaled) and the leaver (its bytes go to
/// the others).
///
/// # Panics
/// When the floors do not fit below the budget, or the budget not below the caps.
pub(crate) fn fit(limits: &[u64], bounds: &[Bounds], budget: u64) -> Vec<u64> {
    assert_eq!(limits.len(), bounds.len(), "every limit has bounds");
    let floors: u128 = bounds.iter().map(|bound| u128::from(bound.floor)).sum();
    let caps: u128 = bounds.iter().map(|bound| u128::from(bound.cap)).sum();
    assert!(floors <= u128::from(budget), "floors of {floors} bytes exceed the budget {budget}");
    assert!(caps >= u128::from(budget), "caps of {caps} bytes leave a part of {budget} unused");
    let above_total = budget - u64::try_from(floors).expect("the floors fit the budget");
    let above: Vec<u64> = limits
        .iter()
        .zip(bounds)
        .map(|(&limit, bound)| limit.saturating_sub(bound.floor))
        .collect();
    let rooms: Vec<u64> =
        bounds.iter().map(|bound| (bound.cap - bound.floor).min(budget)).collect();
    let mut shares = apportion_capped(above_total, &above, &rooms);
    let rest = above_total - shares.iter().sum::<u64>();
    if rest > 0 {
        // Nobody with bytes above its floor can take more: the others fill up, in proportion to their room.
        let rooms_left: Vec<u64> =
            rooms.iter().zip(&shares).map(|(&room, &share)| room - share).collect();
        for (share, more) in shares.iter_mut().zip(apportion_capped(rest, &rooms_left, &rooms_left))
        {
            *share += more;
        }
    }
    let fitted: Vec<u64> =
        shares.iter().zip(bounds).map(|(&share, bound)| bound.floor + share).collect();
    assert_eq!(fitted.iter().sum::<u64>(), budget, "bytes are conserved");
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OPEN: Bounds = Bounds { floor: 0, cap: u64::MAX };

    #[test]
    fn the_largest_remainders_get_the_units_that_rounding_left() {
        // 10 x (5, 3, 2) / 10 is exact; 10 by thirds leaves one unit, which goes to the first name.
        assert_eq!(apportion(10, &[5, 3, 2]), [5, 3, 2]);
        assert_eq!(apportion(10, &[1, 1, 1]), [4, 3, 3]);
        // 7 x (6, 3, 1) / 10 = 4.2, 2.1, 0.7: the unit goes to the third.
        assert_eq!(apportion(7, &[6, 3, 1]), [4, 2, 1]);
    }

    #[test]
    fn what_a_full_one_cannot_take_goes_to_the_others() {
        assert_eq!(apportion_capped(100, &[8, 1, 1], &[20, 100, 100]), [20, 40, 40]);
        assert_eq!(apportion_capped(100, &[1, 1, 0], &[20, 30, 90]), [20, 30, 0]);
    }

    #[test]
    fn integer_weights_keep_the_ratio_of_tiny_and_huge_numbers() {
        assert_eq!(integer_weights(&[0.0, 0.0]), [0, 0]);
        let weights = integer_weights(&[1e-300, 3e-300, 0.0]);
        assert_eq!((weights[1], weights[2]), (1 << 40, 0));
        assert!(weights[1].abs_diff(weights[0] * 3) <= 3);
    }

    #[test]
    fn fitting_gives_a_newcomer_its_floor_and_takes_it_from_what_is_above_the_floors() {
        let bound = Bounds { floor: 100, cap: u64::MAX };
        // 900 and 300 above the floors: the newcomer's 100 come as 75 and 25.
        assert_eq!(fit(&[1_000, 400, 0], &[bound; 3], 1_400), [925, 375, 100]);
        // A leaver's 400 bytes go 3 to 1.
        assert_eq!(fit(&[1_000, 400], &[bound; 2], 1_800), [1_300, 500]);
        // Nothing above the floors: equal shares, the odd byte to the first name.
        assert_eq!(fit(&[0, 0], &[OPEN; 2], 7), [4, 3]);
    }

    proptest! {
        #[test]
        fn shares_sum_to_the_total_and_follow_the_weights(
            total in 0_u64..1 << 45,
            weights in prop::collection::vec(0_u64..1 << 40, 1..40),
        ) {
            prop_assume!(weights.iter().any(|&weight| weight > 0));
            let shares = apportion(total, &weights);
            prop_assert_eq!(shares.iter().sum::<u64>(), total);
            let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
            for (&share, &weight) in shares.iter().zip(&weights) {
                let exact = u128::from(total) * u128::from(weight);
                prop_assert!(u128::from(share) * sum <= exact + sum);
                prop_assert!((u128::from(share) + 1) * sum > exact);
            }
        }

        #[test]
        fn capped_shares_never_exceed_a_room_and_use_all_of_the_total_or_of_the_rooms(
            total in 0_u64..1 << 45,
            entries in prop::collection::vec((0_u64..1 << 40, 0_u64..1 << 44), 1..40),
        ) {
            let (weights, rooms): (Vec<u64>, Vec<u64>) = entries.into_iter().unzip();
            let shares = apportion_capped(total, &weights, &rooms);
            let usable: u64 =
                weights.iter().zip(&rooms).filter(|(weight, _)| **weight > 0).map(|(_, room)| room).sum();
            prop_assert_eq!(shares.iter().sum::<u64>(), total.min(usable));
            prop_assert!(shares.iter().zip(&rooms).all(|(share, room)| share <= room));
        }

        #[test]
        fn fitted_limits_keep_the_bounds_and_fitting_again_changes_nothing(
            entries in prop::collection::vec((0_u64..1 << 40, 0_u64..1 << 20, 0_u64..1 << 40), 1..40),
            share in 0.0_f64..=1.0,
        ) {
            let limits: Vec<u64> = entries.iter().map(|entry| entry.0).collect();
            let bounds: Vec<Bounds> =
                entries.iter().map(|entry| Bounds { floor: entry.1, cap: entry.1 + entry.2 }).collect();
            let floors: u64 = bounds.iter().map(|bound| bound.floor).sum();
            let room: u64 = bounds.iter().map(|bound| bound.cap - bound.floor).sum();
            let budget = (floors + (room as f64 * share) as u64).min(floors + room);
            let fitted = fit(&limits, &bounds, budget);
            prop_assert_eq!(fitted.iter().sum::<u64>(), budget);
            for (limit, bound) in fitted.iter().zip(&bounds) {
                prop_assert!((bound.floor..=bound.cap).contains(limit));
            }
            prop_assert_eq!(fit(&fitted, &bounds, budget), fitted);
        }
    }
}
