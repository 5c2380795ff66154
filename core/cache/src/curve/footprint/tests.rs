use proptest::prelude::*;

use super::super::exact;
use super::*;

fn footprints(sampling_shift: u32, window: u64) -> Footprints {
    Footprints::new(FootprintConfig { sampling_shift, window, samples_max: 1_000_000 })
}

fn show(footprints: &mut Footprints, trace: &[exact::LookUp]) {
    for &(key, bytes) in trace {
        footprints.handle_query(key, || bytes);
    }
}

#[test]
fn a_small_trace_has_the_footprint_that_is_worked_out_by_hand() {
    // a b b a c, 10, 20 and 30 bytes. Stretches of one look-up: (10 + 20 + 20 + 10 + 30) / 5 = 18. Of two: ab 30, bb 20, ba 30, ac 40: 30.
    // Of three: abb 30, bba 30, bac 60: 40. Of four: abba 30, bbac 60: 45. Of five: 60.
    // Misses: first uses a, b, c always; b's second use (time 1) below w = 1; a's (time 3) below w = 3.
    let mut small = footprints(0, 100);
    show(&mut small, &[(1, 10), (2, 20), (2, 20), (1, 10), (3, 30)]);
    let points: Vec<(u64, f64)> =
        small.points().into_iter().map(|(size, ratio)| (size.0, (ratio * 5.0).round())).collect();
    assert_eq!(points, [(0, 5.0), (18, 4.0), (30, 4.0), (40, 3.0), (45, 3.0), (60, 3.0)]);
}

#[test]
fn a_full_window_answers_until_the_next_one_is_half_full() {
    let mut windows = footprints(0, 8);
    let curve = |windows: &Footprints| -> Vec<u64> {
        windows.points().into_iter().map(|(size, _)| size.0).collect()
    };
    assert_eq!(curve(&windows), Vec::<u64>::new());
    show(&mut windows, &[(1, 10); 8]);
    assert_eq!((windows.queries(), curve(&windows)), (0, vec![0, 10]));
    show(&mut windows, &[(2, 30); 3]);
    assert_eq!(curve(&windows), [0, 10]);
    show(&mut windows, &[(2, 30)]);
    assert_eq!(curve(&windows), [0, 30]);
    let config = FootprintConfig { sampling_shift: 0, window: 1_000, samples_max: 3 };
    let mut bounded = Footprints::new(config);
    show(&mut bounded, &[(1, 1), (2, 1), (1, 1), (3, 1)]);
    assert_eq!((bounded.queries(), bounded.samples()), (0, 0));
    assert_eq!(curve(&bounded), [0, 1, 2, 3], "two are rounded down: 5/3 and 5/2 are");
}

#[test]
fn sampled_curves_of_zipf_streams_are_near_the_exact_ones() {
    for (exponent, mean_bytes) in [(0.6, 1_000), (0.9, 20_000), (1.2, 50)] {
        let trace = exact::zipf(exponent, 6_000, 60_000, mean_bytes);
        for shift in [0, 3] {
            let mut sampled = footprints(shift, 1_000_000);
            show(&mut sampled, &trace);
            let points: Vec<_> = sampled.points().into_iter().step_by(8).collect();
            // Beyond the sampling error: the mean over all stretches stands for the stretch before each use.
            exact::assert_within_sampling_error(&trace, &points, f64::from(1 << shift), 0.005);
        }
    }
}

/// The mean of the bytes of the distinct items in all stretches of `length` look-ups.
fn mean_bytes(trace: &[exact::LookUp], length: usize) -> f64 {
    let bytes = |stretch: &[exact::LookUp]| {
        let distinct: std::collections::BTreeMap<u64, u32> = stretch.iter().copied().collect();
        distinct.values().map(|&bytes| f64::from(bytes)).sum::<f64>()
    };
    let stretches = trace.windows(length);
    let count = stretches.len() as f64;
    stretches.map(bytes).sum::<f64>() / count
}

proptest! {
    #[test]
    fn the_curve_of_all_keys_has_the_mean_of_all_stretches_and_the_misses_of_their_lengths(
        sizes in proptest::collection::vec(1_u32..60, 12),
        keys in proptest::collection::vec(0_usize..12, 1..80),
    ) {
        let trace: Vec<exact::LookUp> =
            keys.into_iter().map(|key| (key as u64, sizes[key])).collect();
        let mut all = footprints(0, 1_000);
        show(&mut all, &trace);
        let points = all.points();
        let ends = (TIMES.bucket(1)..=TIMES.bucket(trace.len() as u64))
            .map(|bucket| (TIMES.low(bucket) + TIMES.width(bucket) - 1).min(trace.len() as u64));
        let mut expected = vec![(0, 1.0)];
        for w in ends {
            let bytes = mean_bytes(&trace, w as usize);
            let is_miss = |at: &usize| {
                let from = at.saturating_sub(w as usize);
                !trace[from..*at].iter().any(|&(key, _)| key == trace[*at].0)
            };
            let misses = (0..trace.len()).filter(is_miss).count();
            let point = (bytes as u64, misses as f64 / trace.len() as f64);
            match expected.last_mut() {
                Some(last) if last.0 >= point.0 => last.1 = point.1,
                _ => expected.push(point),
            }
        }
        prop_assert_eq!(points.len(), expected.len());
        for ((size, ratio), (bytes, expected)) in points.into_iter().zip(expected) {
            prop_assert_eq!(size.0, bytes);
            prop_assert!((ratio - expected).abs() < 1e-12);
        }
    }
}
