//! How often the tests are wrong, over many series whose trend is known and over queues of known load.

use super::*;
use crate::test_draws::TestDraws;

/// Skewed noise with mean 200 that keeps a share of itself from slot to slot.
fn noise(slots: usize, kept: f64, spread: f64, trial: u64) -> Vec<f64> {
    let mut draws = TestDraws::new(trial);
    let mut own = draws.exponential(spread);
    let mut next = || {
        own = kept * own + (1.0 - kept) * draws.exponential(spread);
        200.0 - spread + own
    };
    (0..slots).map(|_| next()).collect()
}

/// Requests in flight, sampled at the end of each slot, in a queue with exponential times: `rate` arrivals a slot and the utilisation.
fn in_flight(slots: usize, rate: f64, utilisation: f64, trial: u64) -> (Vec<u64>, u64) {
    let mut draws = TestDraws::new(trial);
    let service = utilisation / rate;
    let (mut now, mut sent) = (0.0, 0);
    let mut free = 0.0; // when the server has done all that arrived
    let mut departures = std::collections::VecDeque::new();
    let mut numbers = Vec::new();
    // As much again before the measurement, so that it begins steady where it can.
    for slot in 0..2 * slots {
        let end = (slot + 1) as f64;
        loop {
            let gap = draws.exponential(1.0 / rate);
            if now + gap > end {
                now = end; // without memory
                break;
            }
            now += gap;
            free = f64::max(now, free) + draws.exponential(service);
            departures.push_back(free);
            sent += u64::from(slot >= slots);
        }
        while departures.front().is_some_and(|&departure| departure <= end) {
            departures.pop_front();
        }
        if slot >= slots {
            numbers.push(departures.len() as u64);
        }
    }
    (numbers, sent)
}

/// Adds what `change` says for a slot to noise of mean 200.
fn changing(slots: usize, kept: f64, trial: u64, change: impl Fn(f64) -> f64) -> Vec<f64> {
    let steady = noise(slots, kept, 60.0, trial);
    (0..).map(f64::from).zip(steady).map(|(slot, value)| value + change(slot)).collect()
}

#[test]
fn series_without_trend_show_one_in_five_percent_also_when_slots_resemble_each_other() {
    for (slots, kept) in [(20, 0.0), (100, 0.0), (100, 0.5), (400, 0.8), (2_000, 0.9)] {
        let found = (0..600)
            .filter(|&trial| Trend::of(&noise(slots, kept, 60.0, trial)).unwrap().p_value < 0.05)
            .count();
        // 30 expected; more than 43 once in a hundred times
        assert!(found <= 43, "{slots} slots, kept {kept}: {found} of 600");
    }
}

#[test]
fn a_rise_by_half_is_found_in_95_percent_of_series() {
    for (slots, kept) in [(100, 0.0), (200, 0.5), (400, 0.8)] {
        let found = (0..200).filter(|&trial| {
            let rising = changing(slots, kept, trial, |slot| 100.0 * slot / slots as f64);
            let trend = Trend::of(&rising).unwrap();
            trend.p_value < 0.05 && trend.slope > 0.0
        });
        let found = found.count();
        assert!(found >= 190, "{slots} slots, kept {kept}: {found} of 200");
    }
}

#[test]
fn the_size_of_a_trend_is_its_slope_whatever_single_slots_do() {
    let mut values: Vec<f64> = (0..90).map(|slot| 100.0 + f64::from(slot)).collect();
    for stall in [11, 47, 80] {
        values[stall] = 10_000.0;
    }
    let trend = Trend::of(&values).unwrap();
    assert!((trend.slope - 1.0).abs() < 0.05, "{trend:?}");
    assert!((trend.relative_change - 90.0 / 145.0).abs() < 0.05, "{trend:?}");
    assert!(trend.p_value < 0.001 && trend.tau > 0.7, "{trend:?}");
    let falling: Vec<f64> = (0..60).map(|slot| f64::from(-slot)).collect();
    assert_eq!(Trend::of(&falling).unwrap().tau, -1.0);
    let flat = Trend::of(&[7.0; 25]).unwrap();
    assert_eq!((flat.slope, flat.tau, flat.p_value), (0.0, 0.0, 1.0));
    assert_eq!(Trend::of(&[7.0; 19]), None);
}

/// The number of slots after which the test, asked in each, ends the warm-up.
fn warm_up_slots(values: &[f64]) -> usize {
    let test = SteadyTest::default();
    (1..=values.len())
        .find(|&slots| test.judge(&values[..slots]).is_some_and(|found| found.steady))
        .expect("the series is steady in the end")
}

#[test]
fn what_is_left_of_a_warm_up_when_it_is_ended_is_small_however_long_it_takes() {
    // Latency starts at four times its final value.
    for slots_to_a_third in [5.0, 20.0, 80.0] {
        let decay = |slot: f64| 600.0 * libm::exp(-slot / slots_to_a_third);
        let mut left: Vec<f64> = (0..200)
            .map(|trial| decay(warm_up_slots(&changing(1_200, 0.3, trial, decay)) as f64) / 200.0)
            .collect();
        left.sort_unstable_by(f64::total_cmp);
        let (middle, worst) = (left[100], left[190]);
        assert!(middle < 0.04 && worst < 0.1, "{slots_to_a_third}: {middle}, {worst}");
    }
}

#[test]
fn a_steady_series_ends_its_warm_up_soon() {
    let mut ends: Vec<usize> =
        (0..200).map(|trial| warm_up_slots(&noise(1_000, 0.3, 60.0, trial))).collect();
    ends.sort_unstable();
    assert!(ends[100] == 40 && ends[190] <= 80, "{} {}", ends[100], ends[190]);
}

/// Of 200 runs, those in which the number of requests in flight is said to grow.
fn growing(slots: usize, rate: f64, utilisation: f64) -> usize {
    let growing = (0..200).filter(|&trial| {
        let (numbers, sent) = in_flight(slots, rate, utilisation, trial);
        GrowthTest::default().judge(&numbers, sent).unwrap().growing
    });
    growing.count()
}

#[test]
fn a_queue_that_keeps_up_is_said_to_grow_in_at_most_five_percent_of_runs() {
    for (slots, rate, utilisation) in
        [(100, 10.0, 0.8), (20, 100.0, 0.9), (100, 100.0, 0.9), (40, 1_000.0, 0.95)]
    {
        let alarms = growing(slots, rate, utilisation);
        // 10 expected at most; more than 17 once in a hundred times at 5 %
        assert!(alarms <= 17, "{slots} slots of {rate} at {utilisation}: {alarms} of 200");
    }
}

#[test]
fn overload_is_found_in_95_percent_of_runs() {
    for (slots, rate, utilisation) in [(20, 100.0, 1.2), (100, 100.0, 1.1), (40, 1_000.0, 1.05)] {
        let found = growing(slots, rate, utilisation);
        assert!(found >= 190, "{slots} slots of {rate} at {utilisation}: {found} of 200");
    }
    let (numbers, sent) = in_flight(100, 1_000.0, 1.25, 1);
    let growth = GrowthTest::default().judge(&numbers, sent).unwrap();
    assert!((growth.share_of_sent - 0.2).abs() < 0.02, "{growth:?}");
}

#[test]
fn growth_by_a_few_requests_does_not_count() {
    let rising: Vec<u64> = (0..100).map(|slot| 5 + slot / 12).collect();
    let test = GrowthTest::default();
    let growth = test.judge(&rising, 1_000).unwrap();
    assert!(growth.trend.p_value < 0.001 && !growth.growing, "{growth:?}");
    let rising: Vec<u64> = (0..100).map(|slot| 5 + slot / 3).collect();
    assert!(test.judge(&rising, 1_000).unwrap().growing);
    assert!(!test.judge(&rising, 1_000_000).unwrap().growing, "33 of a million");
    assert_eq!((test.judge(&rising, 0), test.judge(&rising[..19], 500)), (None, None));
}
