//! RBC against brute force, and merging in any order.

use proptest::prelude::*;
use robinhood_blocking::{Band, Blocker, BlockingCounts, BlockingHistogram, Weight};
use robinhood_stats::{BackendId, Nanos};

/// One request of a test.
type Request = (Nanos, Blocker, Weight);

const BACKENDS: u16 = 4;

fn histogram(requests: &[Request]) -> BlockingHistogram {
    let mut histogram = BlockingHistogram::new();
    for &(latency, blocker, weight) in requests {
        histogram.add(latency, blocker, weight);
    }
    histogram
}

fn bucket(latency: Nanos) -> u16 {
    histogram(&[(latency, Blocker::Own, Weight::ONE)]).cells()[0].bucket
}

fn count(counts: &BlockingCounts, blocker: Blocker) -> f64 {
    match blocker {
        Blocker::Own => counts.own,
        Blocker::Nobody => counts.nobody,
        Blocker::Backend(id) => counts.by_backend.get(id.index()).copied().unwrap_or(0.0),
    }
}

fn blockers() -> impl Iterator<Item = Blocker> {
    let backends = (0..BACKENDS).map(|id| Blocker::Backend(BackendId(id)));
    [Blocker::Own, Blocker::Nobody].into_iter().chain(backends)
}

/// Sorts requests by `key` and lays them end to end, each as long as its weight; requests of equal key share the part of
/// their common length that lies in the band, in proportion to weight. Returns the weight in the band of `blocker`.
fn brute_force<K: Ord>(
    requests: &[Request],
    band: &Band,
    blocker: Blocker,
    key: impl Fn(Nanos) -> K,
) -> f64 {
    let mut sorted: Vec<_> = requests.iter().map(|&(l, b, w)| (key(l), b, w.as_f64())).collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    let total: f64 = sorted.iter().map(|&(_, _, weight)| weight).sum();
    let (low, high) = (band.low * total, band.high * total);
    let (mut start, mut blocked) = (0.0, 0.0);
    for equal in sorted.chunk_by(|a, b| a.0 == b.0) {
        let length: f64 = equal.iter().map(|&(_, _, weight)| weight).sum();
        let inside = ((start + length).min(high) - f64::max(start, low)).max(0.0);
        let mine: f64 = equal.iter().filter(|&&(_, b, _)| b == blocker).map(|r| r.2).sum();
        blocked += inside * mine / length;
        start += length;
    }
    blocked * band.weight
}

fn any_blocker() -> impl Strategy<Value = Blocker> {
    prop_oneof![
        1 => Just(Blocker::Own),
        1 => Just(Blocker::Nobody),
        6 => (0..BACKENDS).prop_map(|id| Blocker::Backend(BackendId(id))),
    ]
}

/// Latencies from below the range to its end, and some in a narrow range, so that buckets hold many.
fn any_latency() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        (0..=3_600_000_000_000_u64).prop_map(Nanos),
        (0..=10_000_u64).prop_map(Nanos::from_micros),
        (20_000..30_000_u64).prop_map(Nanos::from_micros),
    ]
}

fn any_request() -> impl Strategy<Value = Request> {
    let weight = prop_oneof![Just(Weight::ONE), (1..=Weight::MAX.0).prop_map(Weight)];
    (any_latency(), any_blocker(), weight)
}

fn any_band() -> impl Strategy<Value = Band> {
    let band = (0.0..1.0, 0.001..0.5, 0.1..10.0);
    band.prop_map(|(low, length, weight)| Band { low, high: f64::min(low + length, 1.0), weight })
}

proptest! {
    #[test]
    fn rbc_equals_the_sorted_list_of_bucketed_latencies(
        requests in prop::collection::vec(any_request(), 1..400), band in any_band(),
    ) {
        let counts = histogram(&requests).blocking_counts(&[band]);
        let total: f64 = requests.iter().map(|request| request.2.as_f64()).sum();
        for blocker in blockers() {
            let expected = brute_force(&requests, &band, blocker, bucket);
            let got = count(&counts, blocker);
            prop_assert!((got - expected).abs() <= 1e-9 * total, "{blocker:?}: {got} for {expected}");
        }
    }

    #[test]
    fn merging_is_exact_in_any_order_and_grouping(
        parts in prop::collection::vec(prop::collection::vec(any_request(), 0..60), 1..6),
        swaps in prop::collection::vec((0..6_usize, 0..6_usize), 0..6),
    ) {
        let all = histogram(&parts.concat());
        let mut parts: Vec<_> = parts.iter().map(|part| histogram(part)).collect();
        for (a, b) in swaps {
            let n = parts.len();
            parts.swap(a % n, b % n);
        }
        let mut left = BlockingHistogram::new();
        for part in &parts {
            left.merge(part);
        }
        let right = parts.into_iter().rev().reduce(|tail, mut head| {
            head.merge(&tail);
            head
        });
        let right = right.expect("there is a part");
        prop_assert_eq!(&left, &all);
        prop_assert_eq!(&right, &all);
        let bands = [Band::default()];
        prop_assert_eq!(left.blocking_counts(&bands), all.blocking_counts(&bands));
        prop_assert_eq!(right.blocking_counts(&bands), all.blocking_counts(&bands));
    }

    #[test]
    fn several_bands_count_what_each_counts_alone(
        requests in prop::collection::vec(any_request(), 1..200),
        bands in prop::collection::vec(any_band(), 1..5),
    ) {
        let histogram = histogram(&requests);
        let together = histogram.blocking_counts(&bands);
        let alone: Vec<_> = bands.iter().map(|&band| histogram.blocking_counts(&[band])).collect();
        for blocker in blockers() {
            let expected: f64 = alone.iter().map(|counts| count(counts, blocker)).sum();
            let got = count(&together, blocker);
            prop_assert!((got - expected).abs() <= 1e-9 * histogram.total().as_f64(), "{got} for {expected}");
        }
    }
}

/// Requests as a service makes them: backends differ in speed, so the mix changes along the tail.
fn service(seed: u64, requests: usize) -> Vec<Request> {
    let mut state = seed;
    let mut unit = move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15); // splitmix64
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut request = || {
        let backend = (unit() * f64::from(BACKENDS)) as u16;
        let sum_of_four = unit() + unit() + unit() + unit() - 2.0; // nearly normal
        let median_ms = 10.0 + 5.0 * f64::from(backend);
        let latency = Nanos::from_secs_f64(median_ms / 1e3 * exp2(2.5 * sum_of_four));
        (latency, Blocker::Backend(BackendId(backend)), Weight::ONE)
    };
    (0..requests).map(|_| request()).collect()
}

/// 2^x to four digits, without the platform's functions.
fn exp2(x: f64) -> f64 {
    let y = x * std::f64::consts::LN_2 / 1024.0;
    let mut power = 1.0 + y + y * y / 2.0;
    for _ in 0..10 {
        power *= power;
    }
    power
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// 100,000 requests: 1,000 in the band, of which the two buckets at the edges hold about a fifth.
    #[test]
    fn rbc_of_raw_latencies_is_within_two_percent_total_variation(seed: u64) {
        let requests = service(seed, 100_000);
        let band = Band::default();
        let counts = histogram(&requests).blocking_counts(&[band]);
        let n = counts.requests_in_band;
        let differences = blockers().map(|blocker| {
            (count(&counts, blocker) - brute_force(&requests, &band, blocker, |latency| latency)).abs()
        });
        let total_variation = differences.sum::<f64>() / (2.0 * n);
        prop_assert!((n - 1_000.0).abs() < 1e-6, "{n}");
        prop_assert!(total_variation <= 0.02, "{total_variation}");
    }
}

#[test]
fn a_bucket_across_the_edge_of_the_band_counts_in_part() {
    let ms = |ms, id| (Nanos::from_millis(ms), Blocker::Backend(BackendId(id)), Weight::ONE);
    let requests = [vec![ms(1, 0); 98], vec![ms(500, 1); 2]].concat();
    let counts = histogram(&requests).blocking_counts(&[Band::default()]);
    assert_eq!(counts.by_backend.len(), 2);
    assert!(
        counts.by_backend[0] == 0.0 && (counts.by_backend[1] - 1.0).abs() < 1e-12,
        "{counts:?}"
    );
    let band = Band { low: 0.97, high: 0.99, weight: 1.0 };
    let counts = histogram(&requests).blocking_counts(&[band]);
    assert!(
        (counts.by_backend[0] - 1.0).abs() < 1e-12 && (counts.by_backend[1] - 1.0).abs() < 1e-12
    );
}

#[test]
fn equal_weights_scale_the_counts_and_not_the_confidence() {
    let plain = service(1, 10_000);
    let weight = Weight::from_f64(100.0).unwrap();
    let sampled: Vec<_> =
        plain.iter().map(|&(latency, blocker, _)| (latency, blocker, weight)).collect();
    let [plain, sampled] =
        [plain, sampled].map(|requests| histogram(&requests).blocking_counts(&[Band::default()]));
    assert!((plain.requests_in_band - 100.0).abs() < 1e-6);
    assert!((sampled.requests_in_band - 100.0).abs() < 1e-6);
    for (one, hundred) in plain.by_backend.iter().zip(&sampled.by_backend) {
        assert!((one * 100.0 - hundred).abs() < 1e-6);
    }
}

#[test]
fn unequal_weights_lower_the_effective_number() {
    // Kish: (3 x 1 + 1 x 9)^2 / (3 x 1 + 1 x 81) = 144 / 84
    let latency = Nanos::from_millis(5);
    let weigh = |weight| (latency, Blocker::Own, Weight::from_f64(weight).unwrap());
    let requests = [weigh(1.0), weigh(1.0), weigh(1.0), weigh(9.0)];
    let all = Band { low: 0.0, high: 1.0, weight: 1.0 };
    let counts = histogram(&requests).blocking_counts(&[all]);
    assert!((counts.requests_in_band - 144.0 / 84.0).abs() < 1e-12, "{counts:?}");
    assert!((counts.own - 12.0).abs() < 1e-12);
}

#[test]
fn requests_of_a_heavier_band_lower_the_effective_number() {
    let requests = vec![(Nanos::from_millis(5), Blocker::Own, Weight::ONE); 100];
    let bands = [
        Band { low: 0.0, high: 0.2, weight: 1.0 },
        Band { low: 0.5, high: 0.6, weight: 3.0 },
        Band { low: 0.5, high: 0.6, weight: 1.0 },
    ];
    let counts = histogram(&requests).blocking_counts(&bands);
    // 20 requests that count 1 and 10 that count 4: (20 + 40)^2 / (20 + 160)
    assert!((counts.requests_in_band - 20.0).abs() < 1e-9, "{counts:?}");
    assert!((counts.own - 60.0).abs() < 1e-9, "{counts:?}");
}

#[test]
fn own_time_and_requests_without_queries_are_counted_apart_from_backends() {
    let latency = Nanos::from_millis(5);
    let request = |blocker| (latency, blocker, Weight::ONE);
    let requests = [Blocker::Own, Blocker::Nobody, Blocker::Nobody, Blocker::Backend(BackendId(2))];
    let all = Band { low: 0.0, high: 1.0, weight: 1.0 };
    let counts = histogram(&requests.map(request)).blocking_counts(&[all]);
    assert_eq!(
        (counts.own, counts.nobody, counts.by_backend.as_slice()),
        (1.0, 2.0, &[0.0, 0.0, 1.0][..])
    );
}

#[test]
fn an_empty_histogram_blocks_nobody() {
    let empty = BlockingHistogram::new();
    assert_eq!(empty.blocking_counts(&[Band::default()]), BlockingCounts::default());
    assert_eq!(empty.quantile(0.99), None);
}

#[test]
fn latencies_outside_the_range_of_the_scale_are_kept_or_refused() {
    let latencies = [Nanos::ZERO, Nanos::from_secs(3_600)];
    assert_eq!(
        histogram(&latencies.map(|l| (l, Blocker::Own, Weight::ONE))).total(),
        Weight(2 << 16)
    );
    let over = std::panic::catch_unwind(|| bucket(Nanos(3_600_000_000_001)));
    assert!(over.is_err());
}
