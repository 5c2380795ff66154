//! How often intervals hold the true percentile of queues for which it is known.

use super::*;
use crate::samples::rank_interval;
use crate::test_draws::TestDraws;

/// Mean service time: 50 us.
const SERVICE_NS: f64 = 50_000.0;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Service {
    Exponential,
    Fixed,
}

/// One run of a queue with one server (Lindley's recursion): latencies by time slot.
fn run(
    service: Service,
    utilisation: f64,
    samples: usize,
    slots: usize,
    trial: u64,
) -> Vec<Histogram> {
    let mut draws = TestDraws::new(trial);
    let gap_ns = SERVICE_NS / utilisation;
    let slot_ns = samples as f64 * gap_ns / slots as f64;
    let mut histograms = vec![Histogram::precise(); slots];
    let (mut now_ns, mut wait_ns) = (-2_000.0 * SERVICE_NS / (1.0 - utilisation), 0.0);
    loop {
        let service_ns = match service {
            Service::Exponential => draws.exponential(SERVICE_NS),
            Service::Fixed => SERVICE_NS,
        };
        if now_ns >= 0.0 {
            let Some(slot) = histograms.get_mut((now_ns / slot_ns) as usize) else { break };
            slot.add((wait_ns + service_ns) as u64);
        }
        let to_next_ns = draws.exponential(gap_ns);
        wait_ns = f64::max(wait_ns + service_ns - to_next_ns, 0.0);
        now_ns += to_next_ns;
    }
    histograms
}

/// The true latency at P50, P99 and P99.9: closed form, and tables of the waiting time in M/D/1.
fn truth_ns(service: Service, utilisation: f64) -> [(f64, f64); 3] {
    let waits = match (service, utilisation) {
        (Service::Exponential, _) => {
            [0.5, 0.99, 0.999].map(|q| -libm::log(1.0 - q) / (1.0 - utilisation) - 1.0)
        }
        (Service::Fixed, 0.5) => [0.0, 3.33626, 5.16839],
        (Service::Fixed, 0.8) => [1.27594, 10.35589, 15.70027],
        (Service::Fixed, 0.9) => [3.01305, 21.89824, 33.01397],
        other => panic!("no table of {other:?}"),
    };
    let latency = waits.map(|wait| (wait + 1.0) * SERVICE_NS);
    [(0.5, latency[0]), (0.99, latency[1]), (0.999, latency[2])]
}
/// Of `trials` runs: by quantile, those with an interval and those whose interval holds the truth; and those in which the interval of independent
/// samples of P99 does.
fn covered(
    service: Service,
    utilisation: f64,
    samples: usize,
    trials: u64,
) -> ([u32; 3], [u32; 3], u32) {
    let (mut made, mut right, mut naive) = ([0; 3], [0; 3], 0);
    for trial in 0..trials {
        let slots = run(service, utilisation, samples, 40, trial);
        let batches = Batches::new(&slots).unwrap();
        for (place, (quantile, truth)) in truth_ns(service, utilisation).into_iter().enumerate() {
            let holds =
                |lower: u64, upper: u64| u32::from(lower as f64 <= truth && truth <= upper as f64);
            if let Ok(found) = batches.interval(quantile, 0.95) {
                made[place] += 1;
                right[place] += holds(found.lower, found.upper);
            }
            if place == 1 {
                let all = merged(&slots);
                let ranks = rank_interval(all.count(), quantile, 0.95).unwrap();
                let at = |rank: u64| all.quantile(rank as f64 / all.count() as f64).unwrap();
                naive += holds(at(ranks.lower), at(ranks.upper));
            }
        }
    }
    (made, right, naive)
}

#[test]
fn intervals_hold_the_true_percentile_of_queues_in_95_percent_of_runs() {
    for service in [Service::Exponential, Service::Fixed] {
        for utilisation in [0.5, 0.8] {
            let (made, right, naive) = covered(service, utilisation, 50_000, 150);
            let (p50, p99) = ((made[0], right[0]), (made[1], right[1]));
            let what = format!("{service:?} {utilisation}: P50 {p50:?}, P99 {p99:?}, {naive}");
            // The latency of half of all requests is exactly one service time in M/D/1 at 0.5.
            assert!(made[0] == 150 && (right[0] >= 136 || utilisation == 0.5), "{what}");
            assert!(made[1] >= 130 && right[1] * 100 >= made[1] * 90, "{what}");
            // Independence where there is none: seven times too short at 0.8.
            assert!(utilisation == 0.5 || naive < 60, "{what}");
        }
    }
}

#[test]
fn where_the_tail_is_seen_too_rarely_there_is_mostly_no_interval() {
    let (made, _, _) = covered(Service::Exponential, 0.8, 50_000, 60);
    assert!(made[2] <= 3, "50 samples beyond P99.9 come in two or three clusters: {made:?}");
    let (made, right, _) = covered(Service::Exponential, 0.9, 20_000, 100);
    assert!(made[1] - right[1] <= 5, "of all runs, wrong: {made:?} {right:?}");
}

#[test]
fn independent_samples_get_an_interval_like_that_of_ranks() {
    let mut draws = TestDraws::new(3);
    let slots: Vec<Histogram> = (0..100)
        .map(|_| {
            let mut slot = Histogram::precise();
            (0..1_000).for_each(|_| slot.add(draws.exponential(1e6) as u64));
            slot
        })
        .collect();
    let found = Batches::new(&slots).unwrap().interval(0.99, 0.95).unwrap();
    assert_eq!((found.batches, found.samples), (20, 100_000));
    assert!(found.batches_are_independent(), "{found:?}");
    assert!(found.lower < found.value && found.value < found.upper, "{found:?}");
    let all = merged(&slots);
    let ranks = rank_interval(100_000, 0.99, 0.95).unwrap();
    let at = |rank: u64| all.quantile(rank as f64 / 1e5).unwrap() as f64;
    let ratio = (found.upper - found.lower) as f64 / (at(ranks.upper) - at(ranks.lower));
    assert!((0.6..1.8).contains(&ratio), "{ratio}");
}

#[test]
fn what_is_missing_for_an_interval_is_said() {
    let slot = |samples: std::ops::Range<u64>| {
        let mut slot = Histogram::precise();
        samples.for_each(|sample| slot.add(sample));
        slot
    };
    let said = |slots: &[Histogram]| {
        let made = Batches::new(slots).and_then(|batches| batches.interval(0.99, 0.95));
        made.unwrap_err().to_string()
    };
    assert!(said(&vec![slot(0..1_000); 19]).contains("20 time slots; there are 19"));
    assert!(said(&vec![slot(0..10); 20]).contains("needs 368 samples; there are 200"));
    let mut slots = vec![slot(0..100); 40];
    slots[7] = slot(1_000..1_060);
    let refused = said(&slots);
    assert!(refused.contains("beyond P99 are in 1 of 20 parts"), "{refused}");
    // Slots without samples are a part of the run.
    slots = vec![slot(0..1_000); 40];
    slots[11] = Histogram::precise();
    slots[10] = Histogram::precise();
    let found = Batches::new(&slots).unwrap().interval(0.99, 0.95).unwrap();
    assert!(found.lower <= 990 && 989 <= found.upper, "{found:?}");
}

#[test]
fn the_statistic_of_values_without_skewness_is_students() {
    let values = [-1.0, 0.0, 1.0, 2.0, 3.0];
    let student = 1.0 / (2.5_f64 / 5.0).sqrt();
    assert!((hall_statistic(&values) - student).abs() < 1e-12);
    // Skewness 1.5 over five values: 0.6708 after division by the root of five.
    let skewed = [-1.0, -1.0, -1.0, -1.0, 4.0];
    assert!((hall_statistic(&skewed) - 1.5 / 5.0_f64.sqrt() / 6.0).abs() < 1e-12);
    assert_eq!(hall_statistic(&[-2.0; 20]), f64::NEG_INFINITY);
}
