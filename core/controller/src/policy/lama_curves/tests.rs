use std::sync::Arc;

use super::super::cases::observation;
use super::*;
use crate::curve::MissRatioCurve;

/// Queries, P99 of misses in ms, and the curve of a backend by hundreds of bytes.
type Case<'a> = (u64, Option<u64>, &'a [f64]);

fn seen(cases: &[Case<'_>]) -> Observation {
    observation(cases.len(), |index, backend| {
        let (queries, p99_ms, ratios) = cases[index];
        backend.queries = queries;
        backend.miss_batch_p99 = p99_ms.map(Nanos::from_millis);
        let points = (0..).zip(ratios).map(|(place, &ratio)| (Bytes(place * 100), ratio)).collect();
        backend.miss_ratio_curve = MissRatioCurve::new(points).ok().map(Arc::new);
    })
}

fn sizes(proposal: &Proposal) -> Vec<u64> {
    match proposal {
        Proposal::Target(target) => target.iter().map(|(_, limit)| limit.0).collect(),
        other => panic!("a target, not {other:?}"),
    }
}

#[test]
fn three_units_go_where_they_save_most_time() {
    // Costs in query seconds with 0, 1, 2, 3 units of 100 bytes. First: 1,000 x 10 ms x ratio = 10, 6, 5, 4.5. Second: 100 x 50 ms: 5, 4, 1, 0.5.
    // Third: 50 x 20 ms: 1, 0.9, 0.8, 0.7. One each costs 6 + 4 + 0.9 = 10.9; 1, 2, 0 costs 6 + 1 + 1 = 8, and nothing is cheaper:
    // 2, 1, 0 costs 10, 0, 3, 0 costs 11.5, 0, 2, 1 costs 11.9.
    let seen = seen(&[
        (1_000, Some(10), &[1.0, 0.6, 0.5, 0.45]),
        (100, Some(50), &[1.0, 0.8, 0.2, 0.1]),
        (50, Some(20), &[1.0, 0.9, 0.8, 0.7]),
    ]);
    assert_eq!(sizes(&search(&seen, 3)), [100, 200, 0]);
    assert_eq!(sizes(&LamaCurves::default().propose(&seen)), [100, 200, 0], "in 500 units, too");
}

#[test]
fn slower_misses_weigh_more_and_unknown_ones_as_much_as_the_mean() {
    let (line, steep): (&[f64], &[f64]) = (&[1.0, 0.5], &[1.0, 1.0, 0.0]);
    // One unit each saves 50 queries and 45, in this order or the other: the best there is, and what they have.
    let both = search(&seen(&[(100, Some(10), line), (90, Some(10), line)]), 2);
    assert!(matches!(both, Proposal::Hold(_)), "{both:?}");
    // Two units save the first 100 queries of 10 ms, or the second 60 of 20 ms.
    let two = seen(&[(100, Some(10), steep), (60, Some(20), steep)]);
    assert_eq!(sizes(&search(&two, 2)), [0, 200]);
    // Nobody saw the third one miss: 15 ms. Of three units its two save 80 of them, 1,200 ms; one saves either of the others 500 ms.
    let unknown = seen(&[(100, Some(10), line), (50, Some(20), line), (80, None, steep)]);
    assert_eq!(sizes(&search(&unknown, 3)), [100, 0, 200]);
}

#[test]
fn what_saves_nothing_stays_where_it_is() {
    // Each needs one unit of 50 bytes; the other 100 of the 200 stay with those who have them, 160 to 40.
    let mut seen = seen(&[(100, Some(10), &[1.0, 0.0]), (100, Some(10), &[1.0, 0.0])]);
    let curve = MissRatioCurve::new(vec![(Bytes(49), 1.0), (Bytes(50), 0.0)]).unwrap();
    for (backend, limit) in seen.backends.iter_mut().zip([160, 40]) {
        backend.miss_ratio_curve = Some(Arc::new(curve.clone()));
        backend.limit = Bytes(limit);
    }
    assert_eq!(sizes(&search(&seen, 4)), [50 + 80, 50 + 20]);
}

#[test]
fn a_gain_of_half_a_percent_is_not_worth_the_moves() {
    // All to the first saves 99 of 20,000 query milliseconds, and then 101.
    let flat: &[f64] = &[1.0, 1.0, 1.0];
    let small = seen(&[(1_000, Some(10), &[1.0, 1.0, 0.9901]), (1_000, Some(10), flat)]);
    assert!(matches!(search(&small, 2), Proposal::Hold(_)));
    let larger = seen(&[(1_000, Some(10), &[1.0, 1.0, 0.9899]), (1_000, Some(10), flat)]);
    assert_eq!(sizes(&search(&larger, 2)), [200, 0]);
}

#[test]
fn a_backend_without_a_curve_keeps_what_it_has() {
    let mut seen = seen(&[
        (100, Some(10), &[1.0, 0.9, 0.0]),
        (1_000, Some(90), &[1.0]),
        (100, Some(10), &[1.0, 0.9, 0.8]),
    ]);
    seen.backends[1].miss_ratio_curve = None;
    assert_eq!(sizes(&search(&seen, 2)), [200, 100, 0]);
    for backend in &mut seen.backends {
        backend.miss_ratio_curve = None;
    }
    let proposal = LamaCurves::default().propose(&seen);
    let Proposal::Hold(reason) = proposal else { panic!("a hold, not {proposal:?}") };
    assert!(reason.to_string().contains("nobody measures the miss-ratio curves"), "{reason}");
}

#[test]
fn what_was_found_holds_for_twelve_periods() {
    let (steep, flat): (&[f64], &[f64]) = (&[1.0, 0.5, 0.0], &[1.0, 0.99, 0.98]);
    let first = seen(&[(100, Some(10), steep), (100, Some(10), flat)]);
    let second = seen(&[(100, Some(10), flat), (100, Some(10), steep)]);
    let mut policy = LamaCurves::default();
    assert_eq!(sizes(&policy.propose(&first)), [200, 0]);
    for _ in 1..12 {
        assert_eq!(sizes(&policy.propose(&second)), [200, 0]);
    }
    assert_eq!(sizes(&policy.propose(&second)), [0, 200]);
}
