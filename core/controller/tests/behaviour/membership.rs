//! Backends that come, go and fall silent, and a budget that changes.

use robinhood_controller::{ConfigError, Equal, HoldReason, RobinHood, SkipReason, Standing};
use robinhood_stats::{Bytes, Instant, Nanos};

use crate::harness::{ModelCache, active, limits, name, period, period_with, snapshot, start};

#[test]
fn a_new_backend_starts_at_its_floor_taken_from_what_others_have_above_theirs() {
    let mut cache = ModelCache::new(&[("a", 601_000), ("c", 399_000)]);
    let mut controller = start(active(1_000_000), Box::new(RobinHood), &cache);
    controller.add_backend(&name("b")).unwrap();
    // Floors are 1,000; 600,000 and 398,000 are above them and give 601.2 and 398.8.
    assert_eq!(limits(&controller), [600_399, 1_000, 398_601]);
    cache.apply(&mut controller, Instant(1));
    assert_eq!(
        cache.limits(),
        [(name("a"), Bytes(600_399)), (name("c"), Bytes(398_601)), (name("b"), Bytes(1_000))]
    );
    period(&mut controller, &mut cache, &[("b", 1.0)]);
    assert_eq!(limits(&controller)[1], 1_000 + 6_003 + 3_986);
    assert_eq!(controller.add_backend(&name("b")), Err(ConfigError::DuplicateBackend(name("b"))));
}

#[test]
fn a_removed_backend_gives_its_bytes_back_before_others_get_them() {
    let mut cache = ModelCache::new(&[("a", 400_000), ("b", 400_000), ("c", 200_000)]);
    let mut controller = start(active(1_000_000), Box::new(RobinHood), &cache);
    cache.pace = 100_000;
    controller.remove_backend(&name("b")).unwrap();
    // 399,000 and 199,000 are above the floors of 1,000, and 998,000 to have.
    assert_eq!(limits(&controller), [666_890, 333_110]);
    let first = controller.poll_resize().unwrap();
    assert_eq!((first.backend.clone(), first.limit), (name("b"), Bytes::ZERO));
    assert_eq!(controller.poll_resize(), None, "nothing is free yet");
    cache.set_limit(&first.backend, first.limit);
    for _ in 0..4 {
        cache.reclaim();
        controller.handle_usage(Instant(1), &cache.partitions);
        cache.apply(&mut controller, Instant(1));
    }
    assert_eq!(cache.limits(), [(name("a"), Bytes(666_890)), (name("c"), Bytes(333_110))]);
    assert_eq!(controller.remove_backend(&name("b")), Err(ConfigError::UnknownBackend(name("b"))));
    controller.remove_backend(&name("a")).unwrap();
    assert_eq!(controller.remove_backend(&name("c")), Err(ConfigError::NoPartitions));
    assert_eq!(limits(&controller), [1_000_000]);
}

#[test]
fn a_backend_that_comes_back_while_it_leaves_is_taken_back() {
    let mut cache = ModelCache::new(&[("a", 500_000), ("b", 500_000)]);
    let mut controller = start(active(1_000_000), Box::new(RobinHood), &cache);
    cache.pace = 1_000;
    controller.remove_backend(&name("b")).unwrap();
    cache.apply(&mut controller, Instant(1));
    controller.add_backend(&name("b")).unwrap();
    assert_eq!(limits(&controller), [999_000, 1_000]);
    cache.pace = u64::MAX;
    for _ in 0..2 {
        period(&mut controller, &mut cache, &[]);
    }
    assert_eq!(cache.limits(), [(name("a"), Bytes(999_000)), (name("b"), Bytes(1_000))]);
}

#[test]
fn a_changed_budget_scales_what_is_above_the_floors() {
    let mut cache = ModelCache::new(&[("a", 300_000), ("b", 100_000)]);
    let mut controller = start(active(400_000), Box::new(RobinHood), &cache);
    controller.set_budget(Bytes(200_000)).unwrap();
    // Floors 200: 299,800 and 99,800 above them share 199,600.
    assert_eq!(limits(&controller), [149_950, 50_050]);
    cache.pace = 10_000;
    cache.apply(&mut controller, Instant(1));
    assert!(cache.committed() > 200_000);
    for _ in 0..30 {
        cache.reclaim();
        controller.handle_usage(Instant(1), &cache.partitions);
        cache.apply(&mut controller, Instant(1));
    }
    assert_eq!(cache.committed(), 200_000);
    controller.set_budget(Bytes(800_000)).unwrap();
    cache.apply(&mut controller, Instant(1));
    assert_eq!(cache.committed(), 800_000);
    let before = controller.allocation().clone();
    let error = controller.set_budget(Bytes(0)).unwrap_err();
    assert!(matches!(error, ConfigError::OutOfRange { key: "budget", .. }));
    assert_eq!((controller.allocation(), controller.config().budget), (&before, Bytes(800_000)));
}

#[test]
fn an_hour_without_queries_brings_a_partition_to_its_floor_and_a_query_brings_it_back() {
    let mut cache = ModelCache::new(&[("a", 500_000), ("b", 500_000)]);
    let mut controller = start(active(1_000_000), Box::new(Equal), &cache);
    let quiet = |at| {
        let mut seen = snapshot(at, &[("a", 1.0), ("b", 0.0)]);
        seen.backends[1].queries = 0;
        seen
    };
    for _ in 0..719 {
        let seen = quiet(controller.poll_timeout());
        period_with(&mut controller, &mut cache, seen);
    }
    assert_eq!(limits(&controller), [500_000, 500_000], "not yet an hour");
    let seen = quiet(controller.poll_timeout());
    let decision = period_with(&mut controller, &mut cache, seen);
    assert_eq!(limits(&controller), [999_000, 1_000]);
    assert!(decision.skipped.contains(&(name("b"), SkipReason::Idle)));
    period(&mut controller, &mut cache, &[("a", 1.0), ("b", 1.0)]);
    assert!(limits(&controller)[1] > 1_000);
}

#[test]
fn silence_is_counted_in_time_passed_and_not_in_decisions() {
    let cache = ModelCache::new(&[("a", 500_000), ("b", 500_000)]);
    // Decisions every 10 s, every second period: an hour is 360 of them. Every 2 minutes: the reports cover one.
    for (between, decisions) in [(Nanos::from_secs(10), 360), (Nanos::from_secs(120), 60)] {
        let mut controller = start(active(1_000_000), Box::new(Equal), &cache);
        let mut now = Instant::ZERO;
        for count in 1..=decisions {
            now = now + between;
            let mut seen = snapshot(now, &[("a", 1.0), ("b", 0.0)]);
            seen.backends[1].queries = 0;
            controller.handle_usage(now, &cache.partitions);
            controller.handle_snapshot(seen);
            controller.handle_timeout(now);
            let decision = controller.poll_decision().expect("it is time");
            let is_idle = decision.inputs.terms[1].standing == Standing::Idle;
            assert_eq!(is_idle, count == decisions, "{between}: {count}");
        }
    }
}

#[test]
fn an_outage_of_reports_makes_nobody_idle() {
    let mut cache = ModelCache::new(&[("a", 500_000), ("b", 500_000)]);
    let mut controller = start(active(1_000_000), Box::new(RobinHood), &cache);
    for _ in 0..800 {
        let mut seen = snapshot(controller.poll_timeout(), &[]);
        seen.newest = None;
        let decision = period_with(&mut controller, &mut cache, seen);
        assert!(matches!(decision.hold, Some(HoldReason::StaleInput { .. })));
    }
    let decision = period(&mut controller, &mut cache, &[("a", 1.0), ("b", 1.0)]);
    assert!(decision.skipped.is_empty(), "{decision:#}");
}

#[test]
fn a_large_item_raises_the_floor_of_its_partition() {
    let mut cache = ModelCache::new(&[("a", 10_000), ("b", 990_000)]);
    let mut controller = start(active(1_000_000), Box::new(RobinHood), &cache);
    cache.partitions[0].item_bytes_max = Bytes(20_000);
    period(&mut controller, &mut cache, &[("b", 1.0)]);
    assert_eq!(limits(&controller), [40_000, 960_000]);
}

#[test]
fn caps_hold_and_what_they_leave_goes_to_the_others() {
    let mut config = active(1_000_000);
    config.caps = [(name("a"), Bytes(505_000))].into();
    config.period = Nanos::from_secs(1);
    let mut cache = ModelCache::new(&[("a", 500_000), ("b", 300_000), ("c", 200_000)]);
    let mut controller = start(config, Box::new(RobinHood), &cache);
    for _ in 0..50 {
        period(&mut controller, &mut cache, &[("a", 9.0), ("b", 0.0), ("c", 1.0)]);
        assert!(limits(&controller)[0] <= 505_000);
    }
    assert_eq!(limits(&controller)[0], 505_000);
    assert!(limits(&controller)[2] > 250_000);
}
