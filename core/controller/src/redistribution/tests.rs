//! Small cases worked by hand, and what holds for every input.

use proptest::prelude::*;
use robinhood_blocking::Snapshot;
use robinhood_stats::{BackendName, Bytes, Instant, Rate};

use super::*;
use crate::inputs::Terms;
use crate::observation::{BackendObservation, Observation};
use crate::protection::Protected;

const PROTECTED: Standing = Standing::Protected(Protected::MissRate {
    misses_per_s: Rate(2.0),
    misses_per_s_max: Rate(1.0),
});

/// A partition that is full and free to move.
fn partition(index: usize, limit: u64) -> (BackendObservation, Terms) {
    let name = BackendName::new(&format!("b{index:02}")).unwrap();
    let observation = BackendObservation::silent(&name, Bytes(limit), Bytes(limit));
    let terms = Terms {
        target: Bytes(limit),
        floor: Bytes(0),
        cap: Bytes(u64::MAX >> 1),
        carry_bytes: 0,
        standing: Standing::Normal,
    };
    (observation, terms)
}

/// Full partitions with these limits, and a step of 1 %.
fn inputs(limits: &[u64], wish: Wish) -> Inputs {
    let partitions = limits.iter().enumerate().map(|(index, &limit)| partition(index, limit));
    let (backends, terms): (Vec<_>, Vec<_>) = partitions.unzip();
    let budget = Bytes(limits.iter().sum());
    let observation = Observation::join(Instant::ZERO, budget, backends, &Snapshot::default());
    Inputs { observation, terms, wish, step: 0.01, gap: 0.30, granule: Bytes(1) }
}

fn limits(outcome: &Outcome) -> Vec<u64> {
    outcome.limits.iter().map(|limit| limit.0).collect()
}

fn weights(weights: &[f64]) -> Wish {
    Wish::Weights(weights.to_vec())
}

#[test]
fn small_cases_worked_by_hand() {
    /// What happens, limits, RBC, new limits.
    type Case<'a> = (&'a str, &'a [u64], &'a [f64], &'a [u64]);
    #[rustfmt::skip]
    let cases: [Case<'_>; 7] = [
        ("one blocks: all others pay 1 %",         &[1_000, 2_000, 3_000], &[0.0, 7.0, 0.0], &[990, 2_040, 2_970]),
        ("RBC like the limits: nothing moves",     &[1_000, 2_000, 3_000], &[1.0, 2.0, 3.0], &[1_000, 2_000, 3_000]),
        ("equal RBC of unequal limits",            &[1_000, 2_000, 3_000], &[1.0, 1.0, 1.0], &[1_010, 2_000, 2_990]),
        ("nobody blocks: no tax",                  &[1_000, 2_000, 3_000], &[0.0, 0.0, 0.0], &[1_000, 2_000, 3_000]),
        ("one backend: no move",                   &[5_000],               &[3.0],           &[5_000]),
        ("two equal remainders: the first name",   &[1_000, 1_000, 1_100], &[1.0, 1.0, 0.0], &[1_006, 1_005, 1_089]),
        ("less than a byte of tax is no tax",      &[99, 99],              &[1.0, 0.0],      &[99, 99]),
    ];
    for (case, old, weighed, new) in cases {
        let outcome = decide(&inputs(old, weights(weighed)));
        assert_eq!(limits(&outcome), new, "{case}");
        assert!(
            outcome.skipped.is_empty() && outcome.carries_bytes.iter().all(|&carry| carry == 0)
        );
    }
}

#[test]
fn the_gap_rule_compares_the_limit_in_the_cache_with_use() {
    let mut edge = inputs(&[1_300, 1_000], weights(&[1.0, 0.0]));
    edge.observation.backends[0].used = Bytes(1_000);
    assert_eq!(limits(&decide(&edge)), [1_310, 990], "a gap of exactly 30 % is none");
    edge.observation.backends[0].used = Bytes(999);
    let outcome = decide(&edge);
    assert_eq!(limits(&outcome), [1_300, 1_000], "nobody else blocks, so nobody pays");
    let name = edge.observation.backends[0].name.clone();
    assert_eq!(
        outcome.skipped,
        [(name, SkipReason::Gap { limit: Bytes(1_300), used: Bytes(999) })]
    );
    // The target does not count: the cache holds the partition to less.
    edge.observation.backends[0].limit = Bytes(1_200);
    assert_eq!(limits(&decide(&edge)), [1_310, 990]);
}

#[test]
fn one_with_a_gap_pays_and_its_rbc_counts_for_nobody() {
    let mut inputs = inputs(&[1_000, 1_000, 1_000], weights(&[8.0, 1.0, 1.0]));
    inputs.observation.backends[0].used = Bytes(10);
    assert_eq!(limits(&decide(&inputs)), [990, 1_005, 1_005]);
}

#[test]
fn an_unfinished_resize_stands_aside_while_the_others_go_on() {
    let mut inputs = inputs(&[1_000, 1_000, 1_000], weights(&[5.0, 5.0, 0.0]));
    inputs.terms[0].standing = Standing::Unfinished;
    inputs.terms[0].carry_bytes = 0;
    inputs.observation.backends[0].limit = Bytes(1_200);
    assert_eq!(limits(&decide(&inputs)), [1_000, 1_010, 990]);
}

#[test]
fn a_protected_one_pays_nothing_and_may_receive() {
    let mut inputs = inputs(&[1_000, 1_000, 1_000], weights(&[0.0, 1.0, 0.0]));
    inputs.terms[0].standing = PROTECTED;
    assert_eq!(limits(&decide(&inputs)), [1_000, 1_010, 990]);
    inputs.wish = weights(&[1.0, 0.0, 0.0]);
    assert_eq!(limits(&decide(&inputs)), [1_020, 990, 990]);
}

#[test]
fn an_idle_one_falls_to_its_floor_at_once() {
    let mut inputs = inputs(&[1_000, 1_000, 1_000], weights(&[9.0, 1.0, 0.0]));
    inputs.terms[0].standing = Standing::Idle;
    inputs.terms[0].floor = Bytes(100);
    assert_eq!(limits(&decide(&inputs)), [100, 1_910, 990]);
}

#[test]
fn nobody_pays_below_its_floor_or_receives_above_its_cap() {
    let mut inputs = inputs(&[1_000, 1_000, 1_000], weights(&[0.0, 1.0, 1.0]));
    inputs.terms[0].floor = Bytes(995);
    inputs.terms[1].cap = Bytes(1_002);
    // Pot: 5 + 10 + 10. The second takes 12 (its own 10 and 2), the third the other 13.
    assert_eq!(limits(&decide(&inputs)), [995, 1_002, 1_003]);
    inputs.terms[2].cap = Bytes(1_001);
    // Room for 3 in all: the first keeps what nobody can take.
    assert_eq!(limits(&decide(&inputs)), [997, 1_002, 1_001]);
}

#[test]
fn a_risen_floor_is_met_by_those_who_have_more_than_theirs() {
    let mut inputs = inputs(&[100, 1_100, 400], weights(&[0.0, 0.0, 0.0]));
    for (terms, floor) in inputs.terms.iter_mut().zip([200, 100, 150]) {
        terms.floor = Bytes(floor);
    }
    // 100 are lacking; 1,000 and 250 are above the floors.
    assert_eq!(limits(&decide(&inputs)), [200, 1_020, 380]);
}

#[test]
fn a_target_is_approached_by_at_most_the_step_and_then_kept() {
    let target = Wish::Limits(vec![Bytes(1_000), Bytes(3_000), Bytes(2_000)]);
    let mut inputs = inputs(&[3_000, 2_000, 1_000], target);
    // The first pays 30; 1,000 and 1,000 are lacking.
    assert_eq!(limits(&decide(&inputs)), [2_970, 2_015, 1_015]);
    for (terms, limit) in inputs.terms.iter_mut().zip([1_004, 2_998, 1_998]) {
        terms.target = Bytes(limit);
    }
    assert_eq!(limits(&decide(&inputs)), [1_000, 3_000, 2_000]);
}

#[test]
fn a_restored_allocation_is_there_at_once_whatever_other_rules_say() {
    let wanted = Wish::Restore(vec![Bytes(1_000), Bytes(3_000), Bytes(2_000)]);
    let mut inputs = inputs(&[3_000, 2_000, 1_000], wanted);
    inputs.terms[0].standing = PROTECTED;
    inputs.terms[2].carry_bytes = -50;
    inputs.observation.backends[1].used = Bytes(1_000);
    let outcome = decide(&inputs);
    assert_eq!(limits(&outcome), [1_000, 3_000, 2_000]);
    assert_eq!((outcome.skipped, outcome.carries_bytes), (vec![], vec![0; 3]));
    // An unfinished resize is waited for; the others go as far as they can without it.
    inputs.terms[1].standing = Standing::Unfinished;
    assert_eq!(limits(&decide(&inputs)), [2_000, 2_000, 2_000]);
}

#[test]
fn with_a_coarse_granule_small_partitions_pay_what_they_carried() {
    let mut state = inputs(&[400, 400, 19_200], weights(&[0.0, 0.0, 1.0]));
    state.granule = Bytes(16);
    let mut history = Vec::new();
    for _ in 0..8 {
        let outcome = decide(&state);
        for (i, (limit, carry)) in outcome.limits.iter().zip(&outcome.carries_bytes).enumerate() {
            state.terms[i].target = *limit;
            state.terms[i].carry_bytes = *carry;
            state.observation.backends[i].limit = *limit;
            state.observation.backends[i].used = *limit;
        }
        history.push(limits(&outcome));
    }
    // 4 bytes a period each. In the second period a granule is due to the third partition; the first pays it, half
    // of it in advance. In the fourth the second owes one of its own, and in the seventh it is nearer to the next.
    let small: Vec<_> = history.iter().map(|limits| (limits[0], limits[1])).collect();
    assert_eq!(small[..4], [(400, 400), (384, 400), (384, 400), (384, 384)]);
    assert_eq!(small[4..], [(384, 384), (384, 384), (384, 368), (384, 368)]);
}

#[test]
fn in_equilibrium_a_coarse_granule_moves_nothing() {
    let mut state = inputs(&[6_400, 3_210, 6_390], weights(&[0.4, 0.2, 0.4]));
    state.granule = Bytes(64);
    for _ in 0..200 {
        let outcome = decide(&state);
        assert_eq!(limits(&outcome), [6_400, 3_210, 6_390]);
        for (terms, carry) in state.terms.iter_mut().zip(outcome.carries_bytes) {
            terms.carry_bytes = carry;
        }
    }
}

#[test]
fn a_hold_changes_nothing_and_forgets_the_carry() {
    let mut state = inputs(&[500, 600], Wish::Hold);
    state.terms[0].carry_bytes = 7;
    let outcome = decide(&state);
    assert_eq!((limits(&outcome), outcome.carries_bytes), (vec![500, 600], vec![0, 0]));
}

prop_compose! {
    fn any_partition()(
        limit in 0_u64..1 << 33,
        floor_share in 0.0_f64..=1.0,
        cap_room in prop_oneof![Just(u64::MAX >> 2), 0_u64..1 << 32],
        used_share in 0.5_f64..=1.0,
        standing in prop_oneof![
            4 => Just(Standing::Normal),
            1 => Just(Standing::Unfinished),
            1 => Just(PROTECTED),
            1 => Just(Standing::Idle),
        ],
        carry_share in -1.0_f64..1.0,
        weight in prop_oneof![Just(0.0), 0.0_f64..50.0],
        wanted in 0_u64..1 << 33,
    ) -> (u64, f64, u64, f64, Standing, f64, f64, u64) {
        (limit, floor_share, cap_room, used_share, standing, carry_share, weight, wanted)
    }
}

prop_compose! {
    fn any_inputs()(
        partitions in prop::collection::vec(any_partition(), 1..12),
        granule in prop_oneof![Just(1_u64), Just(4_096), Just(1 << 20)],
        step in 0.0_f64..=0.1,
        kind in 0..3,
    ) -> Inputs {
        let limits: Vec<u64> = partitions.iter().map(|partition| partition.0).collect();
        let mut inputs = inputs(&limits, Wish::Hold);
        for (i, (limit, floor_share, cap_room, used_share, standing, carry_share, ..)) in partitions.iter().enumerate() {
            inputs.observation.backends[i].used = Bytes((*limit as f64 * used_share) as u64);
            inputs.terms[i] = Terms {
                target: Bytes(*limit),
                floor: Bytes((*limit as f64 * floor_share) as u64),
                cap: Bytes(limit + cap_room),
                carry_bytes: (granule as f64 * carry_share) as i64,
                standing: standing.clone(),
            };
        }
        inputs.granule = Bytes(granule);
        inputs.step = step;
        let wanted = || partitions.iter().map(|partition| Bytes(partition.7)).collect();
        inputs.wish = match kind {
            0 => Wish::Limits(wanted()),
            1 => Wish::Restore(wanted()),
            _ => Wish::Weights(partitions.iter().map(|partition| partition.6).collect()),
        };
        inputs
    }
}

fn permuted<T: Clone>(values: &[T], order: &[usize]) -> Vec<T> {
    order.iter().map(|&place| values[place].clone()).collect()
}

proptest! {
    #[test]
    fn every_decision_conserves_bytes_and_keeps_floors_caps_standings_and_step(inputs in any_inputs()) {
        let outcome = decide(&inputs);
        let old: u64 = inputs.terms.iter().map(|terms| terms.target.0).sum();
        prop_assert_eq!(limits(&outcome).iter().sum::<u64>(), old);
        let granule = inputs.granule.0;
        for (i, (terms, &limit)) in inputs.terms.iter().zip(&outcome.limits).enumerate() {
            let seen = &inputs.observation.backends[i];
            prop_assert!(limit >= terms.floor && limit <= terms.cap);
            prop_assert!(outcome.carries_bytes[i].unsigned_abs() < granule || terms.standing == Standing::Unfinished);
            prop_assert_eq!(limit.0.abs_diff(terms.target.0) % granule, 0);
            let is_restored = matches!(inputs.wish, Wish::Restore(_));
            match terms.standing {
                Standing::Unfinished => prop_assert_eq!(limit, terms.target),
                _ if is_restored => {}
                Standing::Protected(_) => prop_assert!(limit >= terms.target),
                Standing::Idle => prop_assert!(limit <= terms.target),
                Standing::Normal => {
                    // One granule may be old debt, and one an advance.
                    let tax_max = (terms.target.as_f64() * inputs.step) as u64;
                    prop_assert!(limit.0 + tax_max + 2 * granule > terms.target.0);
                }
            }
            if has_gap(seen.limit, seen.used, inputs.gap) && !is_restored {
                prop_assert!(limit <= terms.target);
            }
        }
    }

    #[test]
    fn the_order_of_backends_changes_no_byte(
        mut inputs in any_inputs(),
        places in Just((0..12).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        // Bytes of partitions so different leave no two remainders equal; of whole granules few are moved, and equal
        // counts of them are ties, which go by place.
        inputs.granule = Bytes(1);
        inputs.terms.iter_mut().for_each(|terms| terms.carry_bytes = 0);
        let count = inputs.terms.len();
        let order: Vec<usize> = places.into_iter().filter(|&place| place < count).collect();
        let mut turned = inputs.clone();
        turned.observation.backends = permuted(&inputs.observation.backends, &order);
        turned.terms = permuted(&inputs.terms, &order);
        turned.wish = match &inputs.wish {
            Wish::Weights(weights) => Wish::Weights(permuted(weights, &order)),
            Wish::Limits(limits) => Wish::Limits(permuted(limits, &order)),
            Wish::Restore(limits) => Wish::Restore(permuted(limits, &order)),
            Wish::Hold => unreachable!("not generated"),
        };
        let straight = limits(&decide(&inputs));
        prop_assert_eq!(permuted(&straight, &order), limits(&decide(&turned)));
    }
}
