use proptest::prelude::*;

use super::super::exact;
use super::*;

fn stack(reach: u64, points: usize, sampling_shift: u32, samples_max: usize) -> StackDistances {
    StackDistances::new(StackConfig { reach: Bytes(reach), points, sampling_shift, samples_max })
}

fn show(stack: &mut StackDistances, trace: &[exact::LookUp]) {
    for &(key, bytes) in trace {
        stack.handle_query(key, || bytes);
    }
}

fn ratios(counts: &DistanceCounts) -> Vec<f64> {
    counts.points().into_iter().map(|(_, ratio)| ratio).collect()
}

#[test]
fn a_small_trace_has_the_curve_that_is_worked_out_by_hand() {
    // 0, 1 and 2 with 10, 20 and 30 bytes. Second uses: 0 after 1 and 2, 60 bytes with its own; 0 again at once, 10 bytes;
    // 2 after 0, 40 bytes. Three of six look-ups are first uses.
    let mut stack = stack(60, 6, 0, 100);
    show(&mut stack, &[(0, 10), (1, 20), (2, 30), (0, 10), (0, 10), (2, 30)]);
    let points = stack.take_counts().points();
    let sixths: Vec<(u64, f64)> =
        points.iter().map(|(size, ratio)| (size.0, (ratio * 6.0).round())).collect();
    let expected = [(0, 6.0), (10, 5.0), (20, 5.0), (30, 5.0), (40, 4.0), (50, 4.0), (60, 3.0)];
    assert_eq!(sixths, expected);
}

#[test]
fn what_is_further_down_than_the_reach_is_forgotten() {
    let mut stack = stack(1_000, 10, 0, 1_000_000);
    for key in 0..100_000 {
        stack.handle_query(key, || 10);
    }
    assert_eq!(stack.samples(), 100);
    let mut oversized = self::stack(1_000, 10, 0, 10);
    show(&mut oversized, &[(1, 1_001), (1, 1_001)]);
    assert_eq!((oversized.samples(), ratios(&oversized.take_counts())[10]), (0, 1.0));
}

#[test]
fn counts_of_two_times_or_caches_add_up_and_old_ones_fade() {
    let trace = exact::zipf(0.9, 300, 4_000, 10);
    let mut whole = stack(2_000, 50, 0, 1_000);
    show(&mut whole, &trace);
    let mut parts = stack(2_000, 50, 0, 1_000);
    show(&mut parts, &trace[..1_000]);
    let mut sum = parts.take_counts();
    show(&mut parts, &trace[1_000..]);
    let late = parts.take_counts();
    sum.add(&late);
    let whole = whole.take_counts();
    assert_eq!(sum, whole);
    // A quarter of the early counts: 250 of 3,250 look-ups.
    let mut faded = stack(2_000, 50, 0, 1_000);
    show(&mut faded, &trace[..1_000]);
    let mut faded = faded.take_counts();
    let early = ratios(&faded);
    faded.decay(0.25);
    faded.add(&late);
    assert_eq!(faded.queries(), 3_250.0);
    for ((early, late), faded) in early.iter().zip(ratios(&late)).zip(ratios(&faded)) {
        assert!((faded - (early * 250.0 + late * 3_000.0) / 3_250.0).abs() < 1e-12);
    }
}

#[test]
fn without_look_ups_there_is_no_curve() {
    assert_eq!(stack(10, 1, 0, 1).take_counts().points(), []);
}

#[test]
fn a_hot_key_outside_the_sample_changes_nothing() {
    // Half of all look-ups are of one key, right after itself: hits at any size. Whether it is sampled must not matter.
    let cold = exact::zipf(0.7, 2_000, 40_000, 10);
    for hot_key in 1_000_000..1_000_010 {
        let trace: Vec<_> = cold.iter().flat_map(|&look_up| [look_up, (hot_key, 1)]).collect();
        let mut sampled = stack(20_000, 40, 2, 100_000);
        show(&mut sampled, &trace);
        exact::assert_within_sampling_error(&trace, &sampled.take_counts().points(), 4.0, 0.0);
    }
}

#[test]
fn sampled_curves_of_zipf_streams_are_within_the_sampling_error() {
    for (exponent, mean_bytes) in [(0.6, 1_000), (0.9, 20_000), (1.2, 50)] {
        let trace = exact::zipf(exponent, 6_000, 60_000, mean_bytes);
        let reach = u64::from(mean_bytes) * 4_000;
        for shift in [2, 4] {
            let mut sampled = stack(reach, 16, shift, 100_000);
            show(&mut sampled, &trace);
            let weight = f64::from(1 << shift);
            assert_eq!(sampled.weight(), weight);
            exact::assert_within_sampling_error(
                &trace,
                &sampled.take_counts().points(),
                weight,
                0.0,
            );
        }
    }
}

#[test]
fn a_bound_on_the_sample_lowers_the_threshold_and_holds() {
    let trace = exact::zipf(0.7, 6_000, 60_000, 1_000);
    let mut bounded = stack(4_000_000, 16, 0, 500);
    for &(key, bytes) in &trace {
        bounded.handle_query(key, || bytes);
        assert!(bounded.samples() <= 500);
    }
    assert!(bounded.samples() > 350, "an eighth less at a time: {}", bounded.samples());
    let weight = bounded.weight();
    assert!((6.0..16.0).contains(&weight), "about 5,000 keys within reach: {weight}");
    exact::assert_within_sampling_error(&trace, &bounded.take_counts().points(), weight, 0.0);
    assert!(bounded.uses.capacity() <= 2_048 && bounded.places <= 1_024);
}

#[test]
fn a_sample_of_one_key_is_held_even_when_no_threshold_is_low_enough() {
    let mut tiny = stack(1_000_000, 4, crate::SAMPLING_SHIFT_MAX, 1);
    tiny.sample =
        std::iter::successors(Some(tiny.sample), |sample| sample.smaller()).last().unwrap();
    let sampled: Vec<u64> = (0..).filter(|&key| tiny.sample.has(mixed_bits(key))).take(2).collect();
    for _ in 0..3 {
        for &key in &sampled {
            tiny.handle_query(key, || 1);
            assert_eq!(tiny.samples(), 1);
        }
    }
}

proptest! {
    #[test]
    fn all_keys_give_the_exact_curve(
        points in 1_usize..20,
        unit in 1_u64..30,
        sizes in proptest::collection::vec(0_u32..60, 40),
        keys in proptest::collection::vec(0_usize..40, 1..400),
    ) {
        let trace: Vec<exact::LookUp> =
            keys.into_iter().map(|key| (key as u64, sizes[key])).collect();
        let mut stack = stack(unit * points as u64, points, 0, 40);
        show(&mut stack, &trace);
        let distances = exact::distances(&trace);
        for (size, ratio) in stack.take_counts().points() {
            // An empty cache misses empty items, too.
            let expected = if size.0 == 0 { 1.0 } else { exact::miss_ratio(&distances, size.0) };
            prop_assert_eq!(ratio, expected, "at {}", size);
        }
    }
}
