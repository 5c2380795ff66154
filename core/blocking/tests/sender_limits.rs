//! Senders that are held to three times the median: exact, the same in any order, and nothing that one of them says moves much.

#[expect(dead_code, reason = "other tests use the rest of it")]
mod common;

use common::{Drawn, NAMES, NOW, drawn, name, record};
use proptest::prelude::*;
use robinhood_blocking::{
    Blocker, Collector, CollectorConfig, Delta, DeltaError, Detail, Recorder, RecorderConfig,
    Report, Snapshot, Weight,
};
use robinhood_stats::{Instant, Nanos};

fn collector(sender_times_max: Option<u32>) -> Collector {
    Collector::new(CollectorConfig { sender_times_max, ..CollectorConfig::default() }).unwrap()
}

fn sender(sender: u64) -> Recorder {
    Recorder::new(RecorderConfig { sender, detail: Detail::All, ..RecorderConfig::default() })
}

/// Deltas of some senders: sender, how many slots before now, requests.
fn deltas(senders: std::ops::Range<u64>) -> impl Strategy<Value = Vec<(Delta, Instant)>> {
    let one = (senders, 0..5_u64, prop::collection::vec(drawn(), 1..20));
    prop::collection::vec(one, 1..25).prop_map(|all| {
        let sequences = (1..).zip(all);
        let delta = |(sequence, (id, slots, requests)): (u64, (u64, u64, Vec<Drawn>))| {
            let mut recorder = sender(id);
            record(&mut recorder, &requests, (sequence % 4) as usize);
            let mut delta = recorder.take_delta(Nanos::from_secs(slots));
            delta.sequence = sequence;
            (delta, Instant(NOW.0 + 4_000_000_000))
        };
        sequences.map(delta).collect()
    })
}

/// What a collector shows that hears the deltas.
fn heard(sender_times_max: Option<u32>, deltas: &[(Delta, Instant)]) -> Snapshot {
    let mut collector = collector(sender_times_max);
    for (delta, now) in deltas {
        collector.handle_delta(*now, delta).unwrap();
    }
    collector.snapshot(Instant(NOW.0 + 4_000_000_000))
}

proptest! {
    #[test]
    fn the_order_of_deltas_and_of_questions_changes_nothing(
        (sorted, shuffled) in deltas(0..5).prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
        asked_at in any::<prop::sample::Index>(),
    ) {
        let once = heard(Some(3), &sorted);
        prop_assert_eq!(&once, &heard(Some(3), &shuffled));
        let mut collector = collector(Some(3));
        let asked_at = asked_at.index(shuffled.len());
        for (place, (delta, now)) in shuffled.iter().enumerate() {
            collector.handle_delta(*now, delta).unwrap();
            if place == asked_at {
                collector.snapshot(*now);
            }
        }
        prop_assert_eq!(once, collector.snapshot(Instant(NOW.0 + 4_000_000_000)));
    }

    #[test]
    fn two_senders_count_whatever_they_send(all in deltas(0..2)) {
        prop_assert_eq!(heard(Some(3), &all), heard(None, &all));
    }

    #[test]
    fn equal_senders_count_whatever_they_send(
        requests in prop::collection::vec(drawn(), 1..30),
        senders in 1..8_u64,
    ) {
        let all: Vec<_> = (0..senders).map(|id| {
            let mut recorder = sender(id);
            record(&mut recorder, &requests, (id % 4) as usize);
            (recorder.take_delta(Nanos::ZERO), NOW)
        }).collect();
        prop_assert_eq!(heard(Some(3), &all), heard(None, &all));
    }

    #[test]
    fn all_that_was_counted_and_cut_leaves_the_window_again(all in deltas(0..5)) {
        let mut collector = collector(Some(3));
        for (delta, now) in &all {
            collector.handle_delta(*now, delta).unwrap();
        }
        let mut last = collector.snapshot(NOW);
        for second in (1..700).step_by(7) {
            last = collector.snapshot(Instant(NOW.0 + second * 1_000_000_000));
        }
        prop_assert_eq!((last.requests, last.requests_in_band, last.window), (0, 0.0, Nanos::ZERO));
    }
}

#[test]
fn a_sender_counts_for_three_times_the_median_exactly() {
    // Weights 10, 20, 30, 40 and 1,000: the median is 30.
    let all = [10, 20, 30, 40, 1_000].into_iter().zip(0..).map(|(requests, id)| {
        let mut recorder = sender(id);
        let backend = recorder.backend(&name(NAMES[id as usize % 4]));
        for _ in 0..requests {
            let latency = Nanos::from_millis(10 + id);
            recorder.record(Report::complete(latency, Blocker::Backend(backend))).unwrap();
        }
        (recorder.take_delta(Nanos::ZERO), NOW)
    });
    let seen = heard(Some(3), &all.collect::<Vec<_>>());
    assert_eq!(seen.requests, 10 + 20 + 30 + 40 + 90);
}

/// A second of an honest sender: requests around 10 ms, which three backends block.
fn second(recorder: &mut Recorder, requests: u64, seed: u64, lying: bool) -> Delta {
    let ids = ["a", "b", "c"].map(|one| recorder.backend(&name(one)));
    for i in 0..requests {
        let place = (i * 7 + seed) % 10;
        let backend = if lying { 2 } else { [0, 0, 0, 0, 0, 1, 1, 1, 2, 2][place as usize] };
        let latency = Nanos::from_micros(5_000 + (i * 7_919 + seed * 104_729) % 10_007);
        recorder.record(Report::complete(latency, Blocker::Backend(ids[backend]))).unwrap();
    }
    recorder.take_delta(Nanos::from_millis(500))
}

/// How far the RBC shares of 20 senders' requests are moved at most, in any second, when one of them sends 100 times as much and says that `c`
/// blocks all.
fn shift(sender_times_max: Option<u32>) -> f64 {
    let mut shift: f64 = 0.0;
    let mut senders: Vec<_> = (0..20).map(sender).collect();
    let (mut honest, mut mixed) = (collector(sender_times_max), collector(sender_times_max));
    for now in (1..90).map(|second| Instant(second * 1_000_000_000)) {
        for (id, recorder) in (0..).zip(&mut senders) {
            let delta = second(recorder, 100, id + now.0, false);
            honest.handle_delta(now, &delta).unwrap();
            if id > 0 {
                mixed.handle_delta(now, &delta).unwrap();
            } else {
                let mut lie = second(recorder, 10_000, now.0, true);
                lie.sequence = delta.sequence;
                mixed.handle_delta(now, &lie).unwrap();
            }
        }
        let shares = [&mut honest, &mut mixed].map(|collector| {
            let seen = collector.snapshot(now);
            let all: f64 = seen.backends.iter().map(|one| one.rbc).sum();
            ["a", "b", "c"].map(|one| seen.backend(one).unwrap().rbc / all)
        });
        for (one, other) in shares[0].iter().zip(shares[1]) {
            shift = shift.max((one - other).abs());
        }
    }
    shift
}

#[test]
fn one_of_twenty_senders_at_a_hundred_times_the_volume_moves_no_share_by_more_than_0_15() {
    let (held, free) = (shift(Some(3)), shift(None));
    assert!(held <= 0.15, "{held}");
    assert!(free > 0.5, "without the limit it would not matter: {free}");
}

#[test]
fn what_one_sender_can_do_is_bounded() {
    let mut collector = collector(Some(3));
    // A thousand new names each second: half of the table is left to others.
    for second in 1..=60 {
        let mut fresh = sender(666);
        for i in 0..1_000 {
            let id = fresh.backend(&name(&format!("evil-{second}-{i}")));
            fresh.record(Report::complete(Nanos::from_millis(1), Blocker::Backend(id))).unwrap();
        }
        let mut delta = fresh.take_delta(Nanos::ZERO);
        delta.sequence = second;
        collector.handle_delta(Instant(second * 1_000_000_000), &delta).unwrap();
    }
    let now = Instant(61_000_000_000);
    assert_eq!(collector.counts().names_over, 60_000 - 512);
    let mut honest = sender(1);
    for i in 0..500 {
        let id = honest.backend(&name(&format!("honest-{i}")));
        honest.record(Report::complete(Nanos::from_millis(1), Blocker::Backend(id))).unwrap();
    }
    collector.handle_delta(now, &honest.take_delta(Nanos::ZERO)).unwrap();
    assert!(collector.snapshot(now).backend("honest-499").is_some());
    // Weight that would fill the window, and more deltas than a period has room for.
    let mut heavy = sender(667);
    for _ in 0..10_000 {
        let report =
            Report { weight: Weight::MAX, ..Report::complete(Nanos::from_millis(1), Blocker::Own) };
        heavy.record(report).unwrap();
    }
    assert_eq!(
        collector.handle_delta(now, &heavy.take_delta(Nanos::ZERO)),
        Err(DeltaError::Overflow)
    );
    let mut often = sender(668);
    let refused = (0..1_000).filter(|_| {
        often.record(Report::complete(Nanos::from_millis(1), Blocker::Own)).unwrap();
        collector.handle_delta(now, &often.take_delta(Nanos::ZERO)) == Err(DeltaError::TooOften)
    });
    assert_eq!(refused.count(), 1_000 - 80);
    // What comes when its period is over for good, 3 s after its end at 55 s.
    let late = second(&mut sender(1), 10, 0, false);
    let [in_time, too_late] = [57_999_999_999, 58_000_000_000].map(Instant);
    let mut other = self::collector(Some(3));
    let at = Instant(54_500_000_000);
    assert!(other.handle_delta(in_time, &Delta { age: in_time.since(at), ..late.clone() }).is_ok());
    let again = Delta { age: too_late.since(at), sequence: 100, ..late };
    assert_eq!(other.handle_delta(too_late, &again), Err(DeltaError::Late));
}

#[test]
fn backends_keep_their_counts_when_others_have_used_up_their_names() {
    let mut collector = collector(Some(3));
    let mut sequences = [0; 2];
    let mut send = |id: u64, names: &[&str]| {
        let mut recorder = sender(id);
        for one in names {
            let id = recorder.backend(&name(one));
            recorder
                .record(Report::complete(Nanos::from_millis(10), Blocker::Backend(id)))
                .unwrap();
        }
        let sequence = &mut sequences[id as usize - 1];
        *sequence += 1;
        let delta = Delta { sequence: *sequence, ..recorder.take_delta(Nanos::ZERO) };
        collector.handle_delta(NOW, &delta).unwrap();
    };
    let many: Vec<_> = (0..600).map(|i| format!("many-{i:03}")).collect();
    send(1, &many.iter().map(String::as_str).collect::<Vec<_>>());
    send(2, &["zeta"]);
    send(1, &["more-1"]);
    send(2, &["alpha"]);
    send(1, &["more-2"]);
    let seen = collector.snapshot(NOW);
    assert!(seen.backends.is_sorted_by(|a, b| a.name < b.name), "{:?}", seen.backends);
    assert_eq!(seen.backends.len(), 512 + 3, "of sender 1, `zeta`, `alpha` and `other`");
    // All latencies are equal, so the band is shared evenly.
    let one = seen.requests_in_band / 604.0;
    for (backend, requests) in [("zeta", 1.0), ("alpha", 1.0), ("many-000", 1.0), ("other", 90.0)] {
        let rbc = seen.backend(backend).unwrap().rbc;
        assert!((rbc - requests * one).abs() < 1e-9, "{backend}: {rbc} of {one}");
    }
}

/// Requests of the greatest weight.
fn heavy(id: u64, sequence: u64, requests: u64) -> Delta {
    let mut recorder = sender(id);
    for _ in 0..requests {
        let report = Report::complete(Nanos::from_millis(20), Blocker::Own);
        recorder.record(Report { weight: Weight::MAX, ..report }).unwrap();
    }
    Delta { sequence, ..recorder.take_delta(Nanos::ZERO) }
}

#[test]
fn the_heaviest_senders_are_cut_without_overflow() {
    for slots_per_period in [5, 1_000] {
        let config =
            CollectorConfig { slots_per_period, periods_max: 100, ..CollectorConfig::default() };
        let mut collector =
            Collector::new(CollectorConfig { sender_times_max: Some(3), ..config }).unwrap();
        for (id, deltas) in [(0, 80), (1, 20), (2, 20)] {
            for sequence in 0..deltas {
                let taken = collector.handle_delta(NOW, &heavy(id, sequence, 4_096));
                assert!(matches!(taken, Ok(_) | Err(DeltaError::Overflow)), "{taken:?}");
            }
        }
        collector.snapshot(NOW);
    }
    // The most that one sender may weigh, cut as little as possible.
    let mut collector = collector(Some(3));
    for (id, deltas) in [(0, 64), (1, 21), (2, 21)] {
        for sequence in 0..deltas {
            collector.handle_delta(NOW, &heavy(id, sequence, 64)).unwrap();
        }
    }
    assert_eq!(collector.handle_delta(NOW, &heavy(0, 64, 1)), Err(DeltaError::Overflow));
    let seen = collector.snapshot(NOW);
    assert_eq!(seen.requests, 64 * (63 + 21 + 21));
    let rbc = 65_536.0 * 0.01 * seen.requests as f64;
    assert!((seen.own_rbc - rbc).abs() < 1e-6 * rbc, "{} for {rbc}", seen.own_rbc);
}

#[test]
fn what_senders_offered_is_counted_as_memory_and_merged() {
    let [mut held, mut free] = [Some(3), None].map(collector);
    let mut held_more = |sequence| {
        let mut recorder = sender(1);
        for millis in 1..=500 {
            let report = Report::complete(Nanos::from_millis(millis), Blocker::Own);
            recorder.record(Report { weight: Weight(3 << 15), ..report }).unwrap();
        }
        let delta = Delta { sequence, ..recorder.take_delta(Nanos::ZERO) };
        for one in [&mut held, &mut free] {
            one.handle_delta(NOW, &delta).unwrap();
        }
        (delta, held.heap_bytes() - free.heap_bytes())
    };
    let (delta, once) = held_more(1);
    let least = delta.cells.len() * 8 + delta.squares.len() * 32;
    assert!((least..2 * least + 1_024).contains(&once), "{once} for {least}");
    for sequence in 2..60 {
        assert_eq!(held_more(sequence).1, once, "the same buckets again take no more room");
    }
}
