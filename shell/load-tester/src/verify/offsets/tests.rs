use super::*;

fn at(us: f64) -> Instant {
    Instant((us * 1e3) as u64)
}

/// Requests every 100 us whose answers take an exponential time with this mean on the wire, measured by us `later_us` longer.
fn samples(seed: u64, count: u64, mean_us: f64, later_us: impl Fn(f64) -> f64) -> Vec<Sample> {
    let draws = Draws::new(seed).stream_of_requests(Purpose::Service);
    let sample = |index| {
        let due = 100.0 * index as f64;
        let on_wire_us = draws.at(index).exponential(0, mean_us);
        let send = due + 2.0 + on_wire_us + later_us(on_wire_us);
        Sample {
            due: at(due),
            sent: at(due + 2.0),
            request_on_wire: at(due + 3.0),
            answer_on_wire: at(due + 3.0 + on_wire_us),
            received: at(send),
            kernel_service: None,
        }
    };
    (0..count).map(sample).collect()
}

const NO_FLOOR: [f64; 4] = [0.0; 4];

fn offsets(samples: &[Sample], clocking: Clocking) -> Offsets {
    Offsets::estimate(samples, clocking, NO_FLOOR, 1).unwrap()
}

fn assert_near(found_ns: f64, expected_us: f64) {
    assert!((found_ns / 1e3 - expected_us).abs() < 0.003, "{found_ns} ns, not {expected_us} us");
}

#[test]
fn a_constant_delay_is_the_offset_at_every_percentile_and_has_no_spread() {
    let samples = samples(1, 20_000, 50.0, |_| 7.0);
    for (clocking, expected_us) in [(Clocking::Send, 7.0), (Clocking::Due, 9.0)] {
        let offsets = offsets(&samples, clocking);
        assert_eq!(
            offsets.points.iter().map(|point| point.quantile).collect::<Vec<_>>(),
            QUANTILES
        );
        for point in &offsets.points {
            assert_near(point.offset.ns, expected_us);
            assert_near(point.offset.low_ns, expected_us);
            assert_near(point.offset.high_ns, expected_us);
            assert_eq!(point.ours_ns as f64 - point.capture_ns as f64, point.offset.ns);
        }
        assert_near(offsets.spread().ns, 0.0);
    }
}

#[test]
fn the_floor_is_taken_off_and_said() {
    let floors = [0.0, 1_000.0, 2_000.0, 3_000.0];
    let samples = samples(1, 20_000, 50.0, |_| 7.0);
    let offsets = Offsets::estimate(&samples, Clocking::Due, floors, 1).unwrap();
    for (point, floor_ns) in offsets.points.iter().zip(floors) {
        assert_eq!(point.floor_ns, floor_ns);
        assert_near(point.offset.ns, 9.0 - floor_ns / 1e3);
    }
    assert_near(offsets.spread().ns, 2.0);
}

#[test]
fn a_delay_that_grows_with_the_latency_shows_as_spread_and_as_difference() {
    let low = offsets(&samples(1, 20_000, 50.0, |_| 5.0), Clocking::Send);
    let high = offsets(&samples(2, 20_000, 100.0, |wire_us| 5.0 + 0.1 * wire_us), Clocking::Send);
    // The P50 and P99 of an exponential time of mean 100 us lie ln(100) - ln(2) means apart.
    let spread = high.spread();
    assert!(spread.low_ns < 39_120.0 && 39_120.0 < spread.high_ns, "{spread:?}");
    let differences = high.less(&low);
    assert!(differences[0].low_ns < 6_931.0 && 6_931.0 < differences[0].high_ns, "{differences:?}");
    assert!(differences[2].low_ns > 40_000.0, "{differences:?}");
}

#[test]
fn intervals_cover_the_true_offset_about_as_often_as_they_say() {
    // Exponential times of our own, of mean 60 us against 50 us: the true offset at P50 is 10 ln(2) us.
    let truth_ns = 10_000.0 * std::f64::consts::LN_2;
    let covers = |seed: u64| {
        let own = Draws::new(seed).stream_of_requests(Purpose::Size);
        let mut samples = samples(seed, 2_000, 50.0, |_| 0.0);
        for (sample, index) in samples.iter_mut().zip(0..) {
            let own_ns = own.at(index).exponential(0, 60_000.0) as u64;
            sample.received = sample.sent + Nanos(own_ns);
        }
        let offset = offsets(&samples, Clocking::Send).points[0].offset;
        offset.low_ns <= truth_ns && truth_ns <= offset.high_ns
    };
    let covered = (0..100).filter(|&seed| covers(seed)).count();
    assert!((86..=99).contains(&covered), "{covered} of 100");
}

#[test]
fn equal_seeds_give_equal_intervals() {
    let samples = samples(3, 5_000, 50.0, |wire_us| wire_us / 10.0);
    let interval = |seed| {
        let offsets = Offsets::estimate(&samples, Clocking::Send, NO_FLOOR, seed).unwrap();
        offsets.points[2].offset
    };
    assert_eq!(interval(1), interval(1));
    assert_ne!(interval(1), interval(2));
}

#[test]
fn percentiles_without_enough_requests_are_left_out_and_too_few_are_refused() {
    let count = |count| offsets(&samples(1, count, 50.0, |_| 0.0), Clocking::Send).points.len();
    assert_eq!([3_688, 3_687, 368, 367].map(count), [4, 3, 3, 2]);
    let refused = |samples: &[Sample]| {
        Offsets::estimate(samples, Clocking::Send, NO_FLOOR, 1).unwrap_err().to_string()
    };
    assert!(refused(&[]).contains("too few"));
    let mut bunched = samples(1, 1_000, 50.0, |_| 0.0);
    bunched[0].due = at(1e9);
    assert!(refused(&bunched).contains("2 of 50"), "{}", refused(&bunched));
}

#[test]
fn requests_without_stamps_of_the_kernel_are_left_out_on_both_sides() {
    let mut samples = samples(1, 20_000, 50.0, |_| 7.0);
    for (sample, index) in samples.iter_mut().zip(0..) {
        let on_wire = sample.answer_on_wire.since(sample.request_on_wire);
        // Every second request has none, and would change the percentiles.
        if index % 2 == 0 {
            sample.kernel_service = Some(on_wire + Nanos(1_000));
        } else {
            sample.answer_on_wire = sample.answer_on_wire + Nanos::from_millis(1);
        }
    }
    for point in offsets(&samples, Clocking::Kernel).points {
        assert_near(point.offset.ns, 1.0);
    }
    samples.truncate(10);
    let few = Offsets::estimate(&samples, Clocking::Kernel, NO_FLOOR, 1).unwrap_err();
    assert!(few.to_string().starts_with("5 requests"), "{few}");
}
