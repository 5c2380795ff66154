//! Deltas that no recorder makes: refused whole, counted, and never a panic.

mod common;

use common::{NOW, collector, drawn, record, recorder};
use proptest::prelude::*;
use robinhood_blocking::{
    BatchCell, Blocker, Cell, Delta, DeltaError, Detail, Malformed, SquaresCell, Weight,
};
use robinhood_stats::{BackendId, Instant, Nanos};

proptest! {
    #[test]
    fn no_delta_makes_a_collector_panic_and_a_refused_one_leaves_no_trace(
        requests in prop::collection::vec(drawn(), 0..40),
        damages in prop::collection::vec((0..16_u8, any::<u64>(), any::<u16>()), 1..4),
    ) {
        let mut recorder = recorder(Detail::All);
        record(&mut recorder, &requests, 0);
        let good = recorder.take_delta(Nanos::ZERO);
        let mut bad = good.clone();
        bad.sequence += 1;
        for (kind, number, small) in damages {
            damage(&mut bad, kind, number, small);
        }
        let mut collector = collector();
        collector.handle_delta(NOW, &good).unwrap();
        let before = collector.snapshot(NOW);
        let result = collector.handle_delta(NOW, &bad);
        let after = collector.snapshot(NOW);
        if result.is_err() {
            prop_assert_eq!(before, after);
            prop_assert_eq!(collector.counts().accepted, 1);
        } else {
            prop_assert_eq!(bad.check(), Ok(()));
        }
        for second in 1..700 {
            collector.snapshot(Instant(NOW.0 + second * 1_000_000_000)); // takes everything out again
        }
        prop_assert_eq!(collector.snapshot(NOW).requests, 0);
    }
}

/// Damages one field of a delta.
fn damage(delta: &mut Delta, kind: u8, number: u64, small: u16) {
    let cell = Cell {
        blocker: Blocker::Backend(BackendId(small)),
        bucket: (number >> 32) as u16,
        weight: Weight(number),
    };
    match kind {
        0 => delta.reports = number,
        1 => delta.cancelled = number,
        2 => delta.rejected = number,
        3 => delta.age = Nanos(number),
        4 => delta.cells.push(cell),
        5 => delta.cells.insert(0, cell),
        6 => delta.cells.reverse(),
        7 => delta.squares.push(SquaresCell { bucket: small, squares: u128::from(number) << 40 }),
        8 => delta.dictionary.reverse(),
        9 => delta.dictionary.truncate(usize::from(small) % 4),
        10 => delta.sequence = number,
        11 => delta.cells.truncate(usize::from(small) % 40),
        _ => {
            let Some(backend) = delta.backends.first_mut() else { return };
            match kind {
                12 => backend.queries = number,
                13 => backend.hits = number,
                14 => backend.miss_batches.push(BatchCell { bucket: small, batches: number }),
                _ => backend.backend = BackendId(small),
            }
        }
    }
}

#[test]
fn each_malformed_delta_is_told_what_is_wrong() {
    type Damage = fn(&mut Delta);
    let cases: [(Malformed, Damage); 17] = [
        (Malformed::Dictionary, |d| d.dictionary.reverse()),
        (Malformed::Dictionary, |d| d.dictionary[1] = d.dictionary[0].clone()),
        (Malformed::Order, |d| d.cells.reverse()),
        (Malformed::Order, |d| d.backends.reverse()),
        (Malformed::Backend, |d| {
            d.cells.last_mut().unwrap().blocker = Blocker::Backend(BackendId(4));
        }),
        (Malformed::Backend, |d| d.backends.last_mut().unwrap().backend = BackendId(4)),
        (Malformed::Bucket, |d| d.cells.last_mut().unwrap().bucket = u16::MAX),
        (Malformed::Bucket, |d| d.cells.first_mut().unwrap().bucket = 0),
        (Malformed::Weight, |d| d.cells[0].weight = Weight(u64::MAX)),
        (Malformed::Weight, |d| d.cells[0].weight = Weight(0)),
        (Malformed::Weight, |d| d.reports = 10),
        (Malformed::Weight, |d| {
            d.squares.push(SquaresCell { bucket: d.cells[0].bucket, squares: 1 });
        }),
        (Malformed::Weight, |d| d.cells[0].weight = Weight::MAX),
        (Malformed::Weight, |d| {
            d.cells[0].weight = Weight::MAX;
            let squares = u128::from(Weight::MAX.0) << 24; // of 256 reports at least
            d.squares.push(SquaresCell { bucket: d.cells[0].bucket, squares });
        }),
        (Malformed::Counters, |d| d.cancelled = d.reports + 1),
        (Malformed::Counters, |d| d.backends[0].hits = d.backends[0].queries + 1),
        (Malformed::Counters, |d| d.rejected = u64::MAX),
    ];
    let mut collector = collector();
    let mut recorder = recorder(Detail::All);
    for (rejected, (expected, damage)) in (1..).zip(cases) {
        let requests: Vec<_> =
            (0..24).map(|i| (5_000 * (i + 1), i as usize % 6, Weight::ONE.0)).collect();
        record(&mut recorder, &requests, 0);
        let mut delta = recorder.take_delta(Nanos::ZERO);
        assert_eq!(delta.check(), Ok(()));
        damage(&mut delta);
        assert_eq!(collector.handle_delta(NOW, &delta), Err(expected.into()), "case {rejected}");
        assert_eq!(collector.counts().malformed, rejected);
    }
    let snapshot = collector.snapshot(NOW);
    assert_eq!((snapshot.requests, snapshot.backends.len(), collector.senders()), (0, 0, 0));
}

#[test]
fn unequal_weights_whose_squares_are_those_of_ones_are_well_formed() {
    let mut recorder = recorder(Detail::All);
    let eighths = [10, 2, 2, 2, 4, 4, 12]; // squares sum to 8 times their sum: no squares are sent
    let requests = eighths.map(|weight| (5_000, 0, weight * Weight::ONE.0 / 8));
    record(&mut recorder, &requests, 0);
    let delta = recorder.take_delta(Nanos::ZERO);
    assert_eq!((delta.squares.len(), delta.reports), (0, 7));
    assert_eq!(delta.check(), Ok(()));
}

#[test]
fn a_window_full_of_weight_refuses_more() {
    let mut recorder = recorder(Detail::All);
    let mut collector = collector();
    let mut results = Vec::new();
    for _ in 0..5 {
        record(&mut recorder, &[(5_000, 0, Weight::ONE.0)], 0);
        let mut delta = recorder.take_delta(Nanos::ZERO);
        delta.reports = 1 << 30;
        delta.cells[0].weight = Weight(1 << 62);
        delta.squares.push(SquaresCell { bucket: delta.cells[0].bucket, squares: 1 << 94 });
        results.push(collector.handle_delta(NOW, &delta).map(|accepted| accepted.reports));
    }
    let (counted, overflow) = (Ok(1 << 30), Err(DeltaError::Overflow));
    assert_eq!(results, [counted, counted, counted, overflow, overflow]);
    assert_eq!(collector.snapshot(NOW).requests, 3 << 30);
}
