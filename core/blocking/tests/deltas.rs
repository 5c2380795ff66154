//! What travels: round trips, repeats, and what detail leaves out.

mod common;

use common::{Drawn, NAMES, NOW, collector, drawn, name, record, recorder};
use proptest::prelude::*;
use robinhood_blocking::{
    Band, BatchRecord, Blocker, BlockingHistogram, Cell, Collector, CollectorConfig, Delta,
    DeltaError, Detail, OTHER, Recorder, RecorderConfig, Rejected, Report, Snapshot, Weight,
};
use robinhood_stats::{BackendId, Instant, Nanos};

fn rbc(snapshot: &Snapshot) -> Vec<(String, f64)> {
    let backends = snapshot.backends.iter().map(|backend| (backend.name.to_string(), backend.rbc));
    backends
        .chain([("(own)".into(), snapshot.own_rbc), ("(nobody)".into(), snapshot.nobody_rbc)])
        .collect()
}

proptest! {
    #[test]
    fn a_collector_counts_what_the_recorders_counted(
        shards in prop::collection::vec(prop::collection::vec(drawn(), 0..80), 1..5),
    ) {
        let mut direct = BlockingHistogram::new();
        let mut collector = collector();
        for (sender, requests) in (0..).zip(&shards) {
            let config = RecorderConfig { sender, detail: Detail::All, ..RecorderConfig::default() };
            let mut recorder = Recorder::new(config);
            record(&mut recorder, requests, sender as usize);
            collector.handle_delta(NOW, &recorder.take_delta(Nanos::ZERO)).unwrap();
            for &(micros, place, weight) in requests {
                let blocker = match place {
                    4 => Blocker::Own,
                    5 => Blocker::Nobody,
                    _ => Blocker::Backend(BackendId(place as u16)),
                };
                direct.add(Nanos::from_micros(micros), blocker, Weight(weight));
            }
        }
        let snapshot = collector.snapshot(NOW);
        let expected = direct.blocking_counts(&[Band::default()]);
        prop_assert_eq!(snapshot.requests, shards.iter().map(Vec::len).sum::<usize>() as u64);
        prop_assert_eq!(snapshot.requests_in_band, expected.requests_in_band);
        prop_assert_eq!(snapshot.own_rbc, expected.own);
        prop_assert_eq!(snapshot.nobody_rbc, expected.nobody);
        prop_assert_eq!(Some(snapshot.request_p99), direct.quantile(0.99).or(Some(Nanos::ZERO)));
        for (place, backend) in NAMES.iter().enumerate() {
            let got = snapshot.backend(backend);
            let expected = expected.by_backend.get(place).copied().unwrap_or(0.0);
            prop_assert_eq!(got.map_or(0.0, |backend| backend.rbc), expected);
            let asked: Vec<_> = shards.concat().into_iter().filter(|request| request.1 == place).collect();
            let queries = got.map_or(0, |backend| backend.queries);
            prop_assert_eq!(queries, 2 * asked.len() as u64);
            let hits = asked.iter().map(|request| request.0 % 3).sum::<u64>();
            prop_assert_eq!(got.map_or(0, |backend| backend.hits), hits);
        }
    }

    #[test]
    fn merged_recorders_make_the_delta_of_one_in_any_order(
        shards in prop::collection::vec(prop::collection::vec(drawn(), 0..60), 1..5), tail: bool,
    ) {
        let detail = if tail { Detail::WIRE } else { Detail::All };
        let mut one = recorder(detail);
        record(&mut one, &shards.concat(), 0);
        let expected = one.take_delta(Nanos::ZERO);
        prop_assert_eq!(expected.check(), Ok(()));
        for backwards in [false, true] {
            let mut recorders: Vec<_> = shards.iter().enumerate().map(|(i, requests)| {
                let mut shard = recorder(Detail::All);
                record(&mut shard, requests, i);
                shard
            }).collect();
            if backwards {
                recorders.reverse();
            }
            let mut merged = recorder(detail);
            for shard in &mut recorders {
                merged.merge(shard);
                prop_assert_eq!(shard.reports(), 0);
            }
            prop_assert_eq!(&merged.take_delta(Nanos::ZERO), &expected);
        }
    }

    #[test]
    fn deltas_survive_json(requests in prop::collection::vec(drawn(), 0..80)) {
        let mut recorder = recorder(Detail::All);
        record(&mut recorder, &requests, 0);
        let delta = recorder.take_delta(Nanos::from_millis(5));
        let text = serde_json::to_string(&delta).unwrap();
        prop_assert_eq!(serde_json::from_str::<Delta>(&text).unwrap(), delta);
    }
}

#[test]
fn a_repeated_delta_counts_once_and_a_restarted_sender_counts_again() {
    let mut collector = collector();
    let delta = |boot_nonce| {
        let mut recorder =
            Recorder::new(RecorderConfig { boot_nonce, ..RecorderConfig::default() });
        record(&mut recorder, &[(5_000, 0, Weight::ONE.0)], 0);
        recorder.take_delta(Nanos::ZERO)
    };
    assert!(collector.handle_delta(NOW, &delta(1)).is_ok());
    assert_eq!(collector.handle_delta(NOW, &delta(1)), Err(DeltaError::Duplicate));
    assert!(collector.handle_delta(NOW, &delta(2)).is_ok());
    assert_eq!(collector.snapshot(NOW).requests, 2);
    assert_eq!((collector.counts().accepted, collector.counts().duplicate), (2, 1));
}

#[test]
fn other_services_and_senders_beyond_the_bound_are_refused_and_counted() {
    let config = CollectorConfig { senders_max: 2, ..CollectorConfig::default() };
    let mut collector = Collector::new(config).unwrap();
    let delta = |sender, service: &str| {
        let config = RecorderConfig { sender, service: name(service), ..RecorderConfig::default() };
        Recorder::new(config).take_delta(Nanos::ZERO)
    };
    assert_eq!(collector.handle_delta(NOW, &delta(1, "shop")), Err(DeltaError::OtherService));
    assert!(collector.handle_delta(NOW, &delta(1, "default")).is_ok());
    assert!(collector.handle_delta(NOW, &delta(2, "default")).is_ok());
    assert_eq!(collector.handle_delta(NOW, &delta(3, "default")), Err(DeltaError::TooManySenders));
    let much_later = Instant(NOW.0 + 700_000_000_000);
    assert!(
        collector.handle_delta(much_later, &delta(3, "default")).is_ok(),
        "silent senders make room"
    );
    assert_eq!((collector.counts().other_service, collector.counts().too_many_senders), (1, 1));
}

#[test]
fn backends_beyond_the_table_are_counted_as_other() {
    let mut recorder = recorder(Detail::All);
    for i in 0..1_030 {
        let id = recorder.backend(&name(&format!("b{i}")));
        let report = Report::complete(Nanos::from_millis(1), Blocker::Backend(id));
        recorder.record(report).unwrap();
        recorder.record_batch(id, BatchRecord { queries: 1, hits: 1, ..BatchRecord::default() });
    }
    let delta = recorder.take_delta(Nanos::ZERO);
    assert_eq!((delta.dictionary.len(), delta.check()), (1_025, Ok(())));
    let mut collector = collector();
    collector.handle_delta(NOW, &delta).unwrap();
    record(&mut recorder, &[(1_000, 0, Weight::ONE.0)], 0);
    collector.handle_delta(NOW, &recorder.take_delta(Nanos::ZERO)).unwrap();
    let snapshot = collector.snapshot(NOW);
    assert_eq!(snapshot.backend(OTHER).unwrap().queries, 6 + 2);
    assert_eq!(snapshot.backends.iter().map(|backend| backend.queries).sum::<u64>(), 1_030 + 2);
    assert!(snapshot.backends.is_sorted_by(|a, b| a.name < b.name));
}

#[test]
fn bad_reports_are_rejected_and_counted_and_cancelled_ones_count_with_the_rest() {
    let mut recorder = recorder(Detail::All);
    let id = recorder.backend(&name("a"));
    let blocker = Blocker::Backend(id);
    let over = Nanos(3_600_000_000_001);
    assert_eq!(recorder.record(Report::complete(over, blocker)), Err(Rejected::TooLong(over)));
    let unknown = Blocker::Backend(BackendId(1));
    let unknown = recorder.record(Report::complete(Nanos::ZERO, unknown));
    assert_eq!(unknown, Err(Rejected::UnknownBackend(BackendId(1))));
    for weight in [Weight(0), Weight(Weight::MAX.0 + 1)] {
        let report = Report { weight, ..Report::complete(Nanos::ZERO, blocker) };
        assert_eq!(recorder.record(report), Err(Rejected::BadWeight(weight)));
    }
    recorder.record_batch(
        id,
        BatchRecord { queries: 1, latency: Some(over), ..BatchRecord::default() },
    );
    assert_eq!(recorder.record(Report::cancelled(Nanos::from_secs(9), blocker)), Ok(()));
    let mut all = self::recorder(Detail::All);
    all.merge(&mut recorder);
    let mut collector = collector();
    collector.handle_delta(NOW, &all.take_delta(Nanos::ZERO)).unwrap();
    let snapshot = collector.snapshot(NOW);
    assert_eq!((snapshot.requests, snapshot.cancelled, snapshot.rejected), (1, 1, 5));
    assert!(snapshot.request_p50 > Nanos::from_millis(8_700), "{}", snapshot.request_p50);
    assert_eq!(snapshot.backend("a").unwrap().queries, 1);
}

#[test]
fn own_time_is_counted_and_shown_beside_the_backends() {
    let mut recorder = recorder(Detail::WIRE);
    let requests: Vec<_> =
        (0..1_000).map(|i| (1_000 * (i + 1), 4 + i as usize % 2, Weight::ONE.0)).collect();
    record(&mut recorder, &requests, 0);
    let mut collector = collector();
    collector.handle_delta(NOW, &recorder.take_delta(Nanos::ZERO)).unwrap();
    let snapshot = collector.snapshot(NOW);
    assert!(snapshot.backends.iter().all(|backend| backend.rbc == 0.0));
    assert!((4.0..6.0).contains(&snapshot.own_rbc), "{}", snapshot.own_rbc);
    assert!((snapshot.own_rbc + snapshot.nobody_rbc - 10.0).abs() < 1e-9);
}

/// Sixteen senders over 100 s; in seconds 70 to 73 every request waits for `bravo`.
fn snapshot_with(detail: Detail) -> (Snapshot, usize) {
    let config = |sender| RecorderConfig { sender, detail, ..RecorderConfig::default() };
    let mut recorders: Vec<_> = (0..16).map(|sender| Recorder::new(config(sender))).collect();
    let mut collector = collector();
    let mut cells_max = 0;
    let mut state = 1_u64;
    for second in 0..100 {
        for recorder in &mut recorders {
            let requests: Vec<Drawn> = (0..30)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let random = state >> 33;
                    let tail = 1 << (random % 4096).leading_zeros().saturating_sub(52); // 1, 2, 4, ...
                    let micros = 2_000 * tail + random % 1_000;
                    let stalled = (70..73).contains(&second);
                    let place = if stalled { 3 } else { (random >> 12) as usize % 6 };
                    (if stalled { 2_000_000 + micros } else { micros }, place, Weight::ONE.0)
                })
                .collect();
            record(recorder, &requests, 0);
            let delta = recorder.take_delta(Nanos::from_millis(500));
            let detailed = |cell: &&Cell| cell.blocker != Blocker::Nobody;
            cells_max = cells_max.max(delta.cells.iter().filter(detailed).count());
            collector.handle_delta(Instant((second + 1) * 1_000_000_000), &delta).unwrap();
        }
    }
    (collector.snapshot(Instant(100_000_000_000)), cells_max)
}

#[test]
fn leaving_out_who_blocked_fast_requests_does_not_change_rbc() {
    let (all, _) = snapshot_with(Detail::All);
    let (wire, _) = snapshot_with(Detail::WIRE);
    assert_eq!(rbc(&wire), rbc(&all));
    assert_eq!(wire.requests_in_band, all.requests_in_band);
    assert_eq!((wire.request_p50, wire.request_p99), (all.request_p50, all.request_p99));
    assert!(
        all.backend("bravo").unwrap().rbc > 0.9 * all.requests_in_band,
        "the stall is in the band"
    );
}

#[test]
fn a_delta_has_no_more_detail_than_configured() {
    let (_, cells) = snapshot_with(Detail::All);
    let (_, bounded) = snapshot_with(Detail::Tail { from: 0.0, cells_max: 10 });
    assert!(cells > 10 && bounded <= 10, "{cells} {bounded}");
}
