//! The cheapest division of a number of units among backends whose cost by units is known: any cost, not only convex ones.
//!
//! Source: the dynamic programme of LAMA (ATC'15): F(i, j) = min over k of F(i - 1, j - k) + cost of backend i with k units. O(backends
//! x units^2). Deviation: units may be left over, and the least that reach the minimum are spent.

/// Units of each backend, and the sum of their costs. `costs` has for each backend the cost with 0, 1, 2, ... units, as
/// many for each. Of equally cheap divisions it is one that spends the least, on earlier backends rather than on later ones.
///
/// # Panics
/// When the lists differ in length or one is empty.
pub(super) fn cheapest_division(costs: &[Vec<f64>]) -> (Vec<usize>, f64) {
    let Some(first) = costs.first() else { return (Vec::new(), 0.0) };
    assert!(
        !first.is_empty() && costs.iter().all(|cost| cost.len() == first.len()),
        "one cost for each number of units"
    );
    // The least cost of the backends so far by units, and how many of these the last one has.
    let mut least = vec![0.0; first.len()];
    let mut choices: Vec<Vec<usize>> = Vec::with_capacity(costs.len());
    for cost in costs {
        let best = |units: usize| {
            let sums = cost[..=units].iter().zip(least[..=units].iter().rev());
            let mut best = (f64::INFINITY, 0);
            for (own, (cost, others)) in sums.enumerate() {
                if cost + others < best.0 {
                    best = (cost + others, own);
                }
            }
            best
        };
        let (sums, owns) = (0..first.len()).map(best).unzip();
        least = sums;
        choices.push(owns);
    }
    let cheapest = least[least.len() - 1];
    let mut left = least.iter().position(|&cost| cost <= cheapest).expect("the last one is");
    let mut division: Vec<usize> = Vec::with_capacity(costs.len());
    for choice in choices.iter().rev() {
        division.push(choice[left]);
        left -= choice[left];
    }
    division.reverse();
    (division, cheapest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All ways to give up to `units` units to `backends` backends.
    fn divisions(backends: usize, units: usize) -> Vec<Vec<usize>> {
        if backends == 0 {
            return vec![Vec::new()];
        }
        let with_first = |own: usize| {
            divisions(backends - 1, units - own)
                .into_iter()
                .map(move |rest| [vec![own], rest].concat())
        };
        (0..=units).flat_map(with_first).collect()
    }

    #[test]
    fn a_cliff_is_climbed_when_it_pays() {
        // Three units. The first backend saves 1 with each unit; the second saves nothing with one or two and 5 with three.
        let costs = [vec![9.0, 8.0, 7.0, 6.0], vec![7.0, 7.0, 7.0, 2.0]];
        assert_eq!(cheapest_division(&costs), (vec![0, 3], 11.0));
        // With a cliff of 2 the first backend is the better choice.
        let costs = [vec![9.0, 8.0, 7.0, 6.0], vec![7.0, 7.0, 7.0, 5.0]];
        assert_eq!(cheapest_division(&costs), (vec![3, 0], 13.0));
    }

    #[test]
    fn units_that_save_nothing_are_left_over() {
        let costs = [vec![4.0, 1.0, 1.0, 1.0, 1.0], vec![4.0, 3.0, 3.0, 3.0, 3.0]];
        assert_eq!(cheapest_division(&costs), (vec![1, 1], 4.0));
        assert_eq!(cheapest_division(&[]), (vec![], 0.0));
        assert_eq!(cheapest_division(&[vec![3.0]]), (vec![0], 3.0));
    }

    proptest! {
        #[test]
        fn no_division_is_cheaper_and_no_cheapest_one_spends_less(
            costs in (1_usize..8).prop_flat_map(|sizes| proptest::collection::vec(
                proptest::collection::vec((0_u32..50).prop_map(f64::from), sizes),
                1..5,
            )),
        ) {
            let units = costs[0].len() - 1;
            let (division, cost) = cheapest_division(&costs);
            let cost_of = |division: &[usize]| {
                costs.iter().zip(division).map(|(cost, &own)| cost[own]).sum::<f64>()
            };
            let spent = |division: &[usize]| division.iter().sum::<usize>();
            prop_assert_eq!(cost_of(&division), cost);
            prop_assert!(spent(&division) <= units);
            for other in divisions(costs.len(), units) {
                let is_worse = cost_of(&other) > cost;
                prop_assert!(is_worse || cost_of(&other) == cost && spent(&other) >= spent(&division));
            }
        }
    }
}
