//! How far the window reaches, in virtual time.

use std::collections::BTreeMap;

use proptest::prelude::*;
use robinhood_blocking::{
    Band, Blocker, Collector, CollectorConfig, ConfigError, Delta, DeltaError, Detail, Recorder,
    RecorderConfig, Report, Snapshot, Weight,
};
use robinhood_stats::{BackendName, Instant, Nanos};

const SECOND: u64 = 1_000_000_000;

/// One sender and one collector with the defaults of the design: 5 s periods, slots of 1 s.
struct World {
    recorder: Recorder,
    collector: Collector,
}

impl World {
    fn new(config: CollectorConfig) -> Self {
        let detail = Detail::All;
        let recorder = Recorder::new(RecorderConfig { detail, ..RecorderConfig::default() });
        Self { recorder, collector: Collector::new(config).unwrap() }
    }

    fn delta(&mut self, requests: u64, backend: &str, age: Nanos) -> Delta {
        let id = self.recorder.backend(&backend.parse::<BackendName>().unwrap());
        for _ in 0..requests {
            let report = Report::complete(Nanos::from_millis(20), Blocker::Backend(id));
            self.recorder.record(report).unwrap();
        }
        self.recorder.take_delta(age)
    }

    /// Requests that end in the slot of second `second`, reported at its end.
    fn report(&mut self, second: u64, requests: u64, backend: &str) {
        let delta = self.delta(requests, backend, Nanos::from_millis(500));
        self.collector.handle_delta(Instant((second + 1) * SECOND), &delta).unwrap();
    }

    fn snapshot(&mut self, second: u64) -> Snapshot {
        self.collector.snapshot(Instant(second * SECOND))
    }
}

fn world() -> World {
    World::new(CollectorConfig::default())
}

#[test]
fn at_a_high_rate_the_window_is_twelve_periods() {
    let mut world = world();
    for second in 0..200 {
        world.report(second, 100, if second < 150 { "early" } else { "late" });
        let snapshot = world.snapshot(second + 1);
        // At second s + 1 a new slot begins: 60 slots before it are kept.
        assert_eq!(snapshot.requests, 100 * (second + 1).min(60));
        assert_eq!(snapshot.window, Nanos((second + 1).min(60) * SECOND));
    }
    // Of the 60 seconds in the window, the first ten are `early`; all latencies are equal, so the band is shared evenly.
    let snapshot = world.snapshot(200);
    assert!((snapshot.backend("early").unwrap().rbc - 10.0).abs() < 1e-9, "{snapshot:?}");
    assert!((snapshot.requests_in_band - 60.0).abs() < 1e-9);
}

#[test]
fn at_a_low_rate_it_reaches_back_until_the_band_holds_thirty() {
    let mut world = world();
    for second in 0..400 {
        world.report(second, 10, "a"); // 3,000 requests take 300 s
    }
    let snapshot = world.snapshot(400);
    assert!((snapshot.requests_in_band - 30.0).abs() < 0.2, "{}", snapshot.requests_in_band);
    assert!((300..=301).contains(&(snapshot.window.0 / SECOND)), "{}", snapshot.window);
}

#[test]
fn at_a_very_low_rate_it_reaches_back_a_hundred_and_twenty_periods() {
    let mut world = world();
    for second in 0..1_000 {
        world.report(second, 1, "a");
    }
    let snapshot = world.snapshot(1_000);
    assert_eq!((snapshot.requests, snapshot.window), (600, Nanos(600 * SECOND)));
    assert_eq!(world.snapshot(1_500).requests, 100);
    let empty = world.snapshot(1_700);
    assert_eq!((empty.requests, empty.requests_in_band, empty.window), (0, 0.0, Nanos::ZERO));
    assert_eq!(empty.newest, Some(Instant(1_000 * SECOND - SECOND / 2)), "the newest stays known");
    assert_eq!(empty.age(Instant(1_700 * SECOND)), Some(Nanos(700 * SECOND + SECOND / 2)));
}

#[test]
fn after_a_rush_it_keeps_what_the_calm_needs() {
    let mut world = world();
    for second in 0..100 {
        world.report(second, 1_000, "rush");
    }
    for second in 100..300 {
        world.report(second, 1, "calm");
        world.snapshot(second + 1);
    }
    // 3,000 requests: 200 of the calm and the last three seconds of the rush.
    let snapshot = world.snapshot(300);
    assert_eq!((snapshot.requests, snapshot.window), (3_200, Nanos(203 * SECOND)));
}

#[test]
fn it_holds_at_most_the_configured_number_of_requests_and_the_newest_slot() {
    let config = CollectorConfig { requests_max: 1_000, ..CollectorConfig::default() };
    let mut world = World::new(config);
    for second in 0..50 {
        world.report(second, 300, "a");
        assert_eq!(world.snapshot(second + 1).requests, 300 * (second + 1).min(3));
    }
    world.report(50, 5_000, "a");
    assert_eq!(world.snapshot(51).requests, 5_000);
}

#[test]
fn age_decides_the_slot_and_deltas_older_than_the_window_are_late() {
    let mut world = world();
    let now = Instant(1_000 * SECOND);
    let delta = world.delta(10, "a", Nanos::from_secs(600));
    let accepted = world.collector.handle_delta(now, &delta).unwrap();
    assert_eq!(accepted.at, Instant(400 * SECOND));
    let delta = world.delta(10, "a", Nanos::from_secs(601));
    assert_eq!(world.collector.handle_delta(now, &delta), Err(DeltaError::Late));
    assert_eq!((world.snapshot(1_000).requests, world.snapshot(1_001).requests), (10, 0));
    assert_eq!((world.collector.counts().accepted, world.collector.counts().late), (1, 1));
}

#[test]
fn counters_of_backends_cover_their_own_window() {
    let mut world = world();
    for second in 0..200 {
        let id = world.recorder.backend(&"a".parse().unwrap());
        let batch = robinhood_blocking::BatchRecord { queries: 3, hits: 2, ..Default::default() };
        world.recorder.record_batch(id, batch);
        world.report(second, 0, "a");
        let snapshot = world.snapshot(second + 1);
        let a = snapshot.backend("a").unwrap();
        assert_eq!((a.queries, a.misses, a.hits), (3 * a.misses, a.misses, 2 * a.misses));
        assert_eq!(snapshot.statistics_span, Nanos(a.misses * SECOND), "one miss a second");
    }
    let snapshot = world.snapshot(200);
    assert!(
        (60..=70).contains(&(snapshot.statistics_span.0 / SECOND)),
        "{}",
        snapshot.statistics_span
    );
    assert_eq!(world.snapshot(300).backend("a").unwrap().queries, 0);
}

#[test]
fn sampled_traffic_that_leaves_the_window_leaves_no_trace() {
    let [mut mixed, mut plain] = [world(), world()];
    for weight in [0.25, 1.0, 50.0] {
        let weight = Weight::from_f64(weight).unwrap();
        let report = Report { weight, ..Report::complete(Nanos::from_millis(20), Blocker::Own) };
        mixed.recorder.record(report).unwrap();
    }
    for world in [&mut mixed, &mut plain] {
        world.report(0, 0, "a");
    }
    assert_eq!(mixed.snapshot(1).requests, 3);
    for world in [&mut mixed, &mut plain] {
        for second in 1..100 {
            world.report(second, 100, "a");
        }
    }
    assert_eq!(mixed.snapshot(100), plain.snapshot(100));
}

#[test]
fn time_that_goes_back_counts_as_the_latest_seen() {
    let mut world = world();
    world.report(10, 100, "a");
    assert_eq!(world.snapshot(5).at, Instant(11 * SECOND));
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let good = CollectorConfig::default;
    let band = Band { low: 0.99, high: 0.98, weight: 1.0 };
    for bad in [
        CollectorConfig { slots_per_period: 0, ..good() },
        CollectorConfig { period: Nanos(3), ..good() },
        CollectorConfig { periods_min: 121, ..good() },
        CollectorConfig { periods_max: u32::MAX, ..good() },
        CollectorConfig { requests_max: 0, ..good() },
        CollectorConfig { requests_in_band_min: f64::NAN, ..good() },
        CollectorConfig { statistics_window: Nanos::ZERO, ..good() },
        CollectorConfig { senders_max: 0, ..good() },
        CollectorConfig { bands: vec![], ..good() },
        CollectorConfig { bands: vec![band], ..good() },
        CollectorConfig { bands: vec![Band { weight: f64::NAN, ..Band::default() }], ..good() },
    ] {
        assert!(Collector::new(bad.clone()).is_err(), "{bad:?}");
    }
    let error =
        Collector::new(CollectorConfig { periods_min: 7, periods_max: 6, ..good() }).unwrap_err();
    assert_eq!(error, ConfigError::Periods { min: 7, max: 6 });
}

#[test]
fn a_compressed_run_has_shorter_slots() {
    let mut world = World::new(CollectorConfig::default().scaled_down(10.0));
    for _ in 0..2 {
        let delta = world.delta(1_000, "a", Nanos::ZERO);
        world.collector.handle_delta(Instant(SECOND), &delta).unwrap();
    }
    assert_eq!(world.collector.snapshot(Instant(7 * SECOND)).requests, 2_000);
    world.report(7, 4_000, "a");
    assert_eq!(world.collector.snapshot(Instant(8 * SECOND)).requests, 4_000);
}

proptest! {
    /// The window against its definition: the shortest reach of at least `min` and at most `max` slots before the present
    /// one in which the band holds enough.
    #[test]
    fn the_window_is_the_shortest_that_the_rules_allow(
        deltas in prop::collection::vec((0..4_u64, 0..400_u64, 0..3_u64), 1..150),
        periods_min in 1..4_u32, more in 0..6_u32,
    ) {
        let config = CollectorConfig {
            slots_per_period: 5,
            periods_min,
            periods_max: periods_min + more,
            requests_in_band_min: 9.995, // between two whole numbers of requests
            ..CollectorConfig::default()
        };
        let (min, max) = (u64::from(periods_min) * 5, u64::from(periods_min + more) * 5);
        let mut world = World::new(config);
        let mut by_slot = BTreeMap::<u64, u64>::new();
        let mut second = 0;
        for (pause, requests, late) in deltas {
            second += pause;
            let delta = world.delta(requests, "a", Nanos::from_secs(late));
            world.collector.handle_delta(Instant(second * SECOND), &delta).unwrap();
            *by_slot.entry(second.saturating_sub(late)).or_default() += requests;
            let within = |reach: u64| {
                by_slot.range(second.saturating_sub(reach)..).map(|(_, n)| n).sum::<u64>()
            };
            let reach = (min..max).find(|&reach| within(reach) as f64 * 0.01 >= 9.995).unwrap_or(max);
            prop_assert_eq!(world.snapshot(second).requests, within(reach), "at {}", second);
        }
    }
}

#[test]
fn a_slot_that_left_an_open_period_does_not_come_back() {
    let config = CollectorConfig { requests_max: 1_000, ..CollectorConfig::default() };
    let mut collector =
        Collector::new(CollectorConfig { sender_times_max: Some(3), ..config }).unwrap();
    let send = |collector: &mut Collector, id, sequence, now: u64, age, requests| {
        let delta = Delta { sequence, ..own(id, requests, Nanos::from_secs(age)) };
        collector.handle_delta(Instant(now * SECOND), &delta)
    };
    for (id, requests) in [(0, 600), (1, 600), (2, 6_000)] {
        send(&mut collector, id, 1, 10, 0, requests).unwrap();
    }
    send(&mut collector, 0, 2, 11, 0, 1).unwrap();
    let now = Instant(11 * SECOND);
    assert_eq!(collector.snapshot(now).requests, 1, "slot 10 holds too many");
    assert_eq!(send(&mut collector, 0, 3, 11, 1, 1), Err(DeltaError::Late));
    assert_eq!(collector.snapshot(now).requests, 1);
}

/// Requests of one sender that blocked nobody else and took 20 ms.
fn own(id: u64, requests: u64, age: Nanos) -> Delta {
    let mut recorder = Recorder::new(RecorderConfig { sender: id, ..RecorderConfig::default() });
    for _ in 0..requests {
        recorder.record(Report::complete(Nanos::from_millis(20), Blocker::Own)).unwrap();
    }
    recorder.take_delta(age)
}

/// A window by its definition, from all deltas that were taken.
#[derive(Default)]
struct Defined {
    /// By slot and sender: requests.
    taken: BTreeMap<u64, BTreeMap<u64, u64>>,
    /// Slots before this one have left.
    first: u64,
}

impl Defined {
    /// What is left of `amounts`, a number for each sender and slot, in each slot.
    fn kept(&self, unit: u64) -> BTreeMap<u64, u64> {
        let mut offered = BTreeMap::<u64, BTreeMap<u64, u64>>::new();
        for (slot, senders) in &self.taken {
            for (sender, requests) in senders {
                *offered.entry(slot / 5).or_default().entry(*sender).or_default() +=
                    requests * unit;
            }
        }
        let in_slot = |(slot, senders): (&u64, &BTreeMap<u64, u64>)| {
            let period = &offered[&(slot / 5)];
            let mut all: Vec<_> = period.values().copied().collect();
            all.sort_unstable();
            let limit = if all.len() < 3 { u64::MAX } else { 3 * all[(all.len() - 1) / 2] };
            let kept = senders.iter().map(|(sender, requests)| {
                let offered = period[sender];
                if offered > limit { requests * unit * limit / offered } else { requests * unit }
            });
            (*slot, kept.sum())
        };
        self.taken.iter().map(in_slot).collect()
    }

    /// Requests in the window, and their weight, when it was asked in slot `now`.
    fn asked(&mut self, now: u64, (min, max): (u64, u64), requests_max: u64) -> (u64, u64) {
        let kept = self.kept(1);
        let mut first = self.first.max(now.saturating_sub(max));
        let sum = |first: u64| kept.range(first..).map(|(_, requests)| requests).sum::<u64>();
        let slots = |first: u64| kept.range(first..).count();
        while slots(first) > 1 && (sum(first) > requests_max || first + min < now) {
            first += 1;
        }
        // Empty slots at the start have not left: they were never there.
        self.first =
            kept.range(..first).next_back().map_or(0, |(slot, _)| slot + 1).max(self.first);
        (sum(first), self.kept(1 << 16).range(first..).map(|(_, weight)| weight).sum())
    }
}

proptest! {
    #[test]
    fn whatever_left_early_the_window_is_what_its_definition_says(
        steps in prop::collection::vec((0..2_u64, 0..5_u64, 1..60_u64, 0..10_u64, 0..3_u8), 1..150),
        requests_max in 1..300_u64,
        periods_min in 0..3_u32,
    ) {
        let config = CollectorConfig {
            requests_max, periods_min, periods_max: 3, requests_in_band_min: 1e-9, ..CollectorConfig::default()
        };
        let mut collector =
            Collector::new(CollectorConfig { sender_times_max: Some(3), ..config }).unwrap();
        let reach = (u64::from(periods_min) * 5, 15);
        let mut defined = Defined::default();
        let mut now = 20;
        for (sequence, (pause, id, requests, age, ask)) in (0..).zip(steps) {
            now += pause;
            let delta = Delta { sequence, ..own(id, requests, Nanos::from_secs(age)) };
            match collector.handle_delta(Instant(now * SECOND), &delta) {
                Ok(_) => {
                    let slot = defined.taken.entry(now - age).or_default();
                    *slot.entry(id).or_default() += requests;
                }
                Err(refused) => prop_assert_eq!(refused, DeltaError::Late),
            }
            if ask == 0 {
                let seen = collector.snapshot(Instant(now * SECOND));
                let (requests, weight) = defined.asked(now, reach, requests_max);
                prop_assert_eq!(seen.requests, requests, "at {}", now);
                let rbc = weight as f64 / 65_536.0 * 0.01;
                prop_assert!((seen.own_rbc - rbc).abs() < 1e-6, "{} for {}", seen.own_rbc, rbc);
            }
        }
        let last = collector.snapshot(Instant((now + 16) * SECOND));
        prop_assert_eq!((last.requests, last.own_rbc, last.requests_in_band), (0, 0.0, 0.0));
    }
}
