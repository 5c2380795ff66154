//! What a driver sees in ordinary periods.

use robinhood_blocking::Snapshot;
use robinhood_controller::{
    Allocation, Controller, ControllerConfig, Equal, Fixed, LoadBounds, Mode, Protection, Resize,
    RobinHood, SkipReason, Standing,
};
use robinhood_stats::{Bytes, Instant};

use crate::harness::{ModelCache, active, limits, name, period, period_with, snapshot, start};

#[test]
fn the_net_of_tax_and_grant_moves_to_those_who_block() {
    let mut cache = ModelCache::new(&[("a", 100_000), ("b", 200_000), ("c", 100_000)]);
    let mut controller = start(active(400_000), Box::new(RobinHood), &cache);
    let decision = period(&mut controller, &mut cache, &[("a", 30.0), ("b", 10.0), ("c", 0.0)]);
    // Taxes 1,000 + 2,000 + 1,000; the pot of 4,000 goes 3 to 1.
    assert_eq!(limits(&controller), [102_000, 199_000, 99_000]);
    assert_eq!((decision.hold.clone(), decision.moved()), (None, Bytes(2_000)));
    let held: Vec<u64> = cache.partitions.iter().map(|partition| partition.limit.0).collect();
    assert_eq!(held, [102_000, 199_000, 99_000]);
}

#[test]
fn shrinks_come_before_grows_and_grows_wait_for_freed_bytes() {
    let mut cache = ModelCache::new(&[("a", 100_000), ("b", 200_000), ("c", 100_000)]);
    let mut controller = start(active(400_000), Box::new(RobinHood), &cache);
    let now = controller.poll_timeout();
    controller.handle_usage(now, &cache.partitions);
    controller.handle_snapshot(snapshot(now, &[("a", 1.0)]));
    controller.handle_timeout(now);
    let first: Vec<_> = std::iter::from_fn(|| controller.poll_resize()).collect();
    let told = |text: &str, limit| Resize { backend: name(text), limit: Bytes(limit) };
    assert_eq!(first, [told("b", 198_000), told("c", 99_000)]);
    for (partition, (limit, used)) in
        cache.partitions[1..].iter_mut().zip([(198_000, 198_500), (99_000, 99_000)])
    {
        (partition.limit, partition.used) = (Bytes(limit), Bytes(used));
    }
    controller.handle_usage(now, &cache.partitions);
    assert_eq!(controller.poll_resize(), Some(told("a", 102_500)), "2,500 of 3,000 bytes are free");
    assert_eq!(controller.poll_resize(), None);
}

#[test]
fn nothing_happens_before_the_deadline_and_once_after_a_long_sleep() {
    let cache = ModelCache::new(&[("a", 1_000), ("b", 1_000)]);
    let mut controller = start(active(2_000), Box::new(RobinHood), &cache);
    controller.handle_timeout(Instant(4_999_999_999));
    assert_eq!(controller.poll_decision(), None);
    controller.handle_timeout(Instant(62_000_000_000));
    assert_eq!(controller.poll_decision().map(|decision| decision.period), Some(1));
    assert_eq!(controller.poll_decision(), None);
    assert_eq!(controller.poll_timeout(), Instant(65_000_000_000));
}

#[test]
fn a_restart_moves_nothing() {
    let mut cache = ModelCache::new(&[("a", 123_457), ("b", 654_321), ("c", 222_222)]);
    let mut controller = start(active(1_000_000), Box::new(RobinHood), &cache);
    assert_eq!(limits(&controller), [123_457, 654_321, 222_222]);
    controller.handle_usage(Instant(1), &cache.partitions);
    assert_eq!(controller.poll_resize(), None);
    period(&mut controller, &mut cache, &[("a", 1.0)]);
    let again = start(active(1_000_000), Box::new(RobinHood), &cache);
    assert_eq!(again.allocation(), controller.allocation());
}

#[test]
fn limits_that_do_not_fit_the_budget_are_brought_there_shrinks_first() {
    let mut cache = ModelCache::new(&[("a", 600_000), ("b", 200_000)]);
    let mut controller = start(active(400_000), Box::new(RobinHood), &cache);
    // Floors of 400: 599,600 and 199,600 above them share 399,200.
    assert_eq!(limits(&controller), [299_900, 100_100]);
    cache.apply(&mut controller, Instant(1));
    assert_eq!(cache.committed(), 400_000);
}

#[test]
fn advise_mode_records_and_moves_nothing() {
    let mut cache = ModelCache::new(&[("a", 100_000), ("b", 100_000)]);
    let config = ControllerConfig::new(Bytes(200_000));
    assert_eq!(config.mode, Mode::Advise, "the default for a first run against somebody's cache");
    let mut controller = start(config, Box::new(RobinHood), &cache);
    for _ in 0..5 {
        let decision = period(&mut controller, &mut cache, &[("a", 1.0)]);
        assert_eq!(decision.moved(), Bytes(1_000));
        assert_eq!(limits(&controller), [100_000, 100_000]);
        assert_eq!(cache.limits(), [(name("a"), Bytes(100_000)), (name("b"), Bytes(100_000))]);
    }
    // Somebody changes the limits by hand: that is what it starts from.
    cache.partitions[0].limit = Bytes(50_000);
    cache.partitions[1].limit = Bytes(150_000);
    period(&mut controller, &mut cache, &[("a", 1.0)]);
    controller.set_mode(Mode::Active);
    period(&mut controller, &mut cache, &[("a", 1.0)]);
    assert_eq!(limits(&controller), [51_500, 148_500]);
}

#[test]
fn advice_for_small_partitions_adds_up_to_whole_granules() {
    let mut cache = ModelCache::new(&[("a", 64_000), ("b", 64_000)]);
    let mut config = ControllerConfig::new(Bytes(128_000));
    config.granule = Bytes(1_000);
    let mut controller = start(config, Box::new(RobinHood), &cache);
    let mut advised = Bytes::ZERO;
    for _ in 0..10 {
        advised += period(&mut controller, &mut cache, &[("a", 1.0)]).moved();
        assert_eq!(limits(&controller), [64_000, 64_000]);
    }
    // 640 a period, in thousands.
    assert_eq!(advised, Bytes(6_000));
}

#[test]
fn reports_that_say_who_blocked_and_nothing_else_make_nobody_idle() {
    let mut cache = ModelCache::new(&[("a", 100_000), ("b", 100_000)]);
    let mut config = active(200_000);
    config.idle_after = config.period + config.period;
    let mut controller = start(config, Box::new(RobinHood), &cache);
    for _ in 0..10 {
        let mut said = snapshot(controller.poll_timeout(), &[("a", 1.0)]);
        for backend in &mut said.backends {
            (backend.queries, backend.hits, backend.misses) = (0, 0, 0);
        }
        let decision = period_with(&mut controller, &mut cache, said);
        assert!(decision.moved() > Bytes::ZERO, "{decision:#}");
        assert!(decision.moved() <= Bytes(2_000), "by the step, not to the floor: {decision:#}");
    }
}

#[test]
fn the_step_shrinks_with_confidence() {
    let mut cache = ModelCache::new(&[("a", 100_000), ("b", 100_000)]);
    let mut controller = start(active(200_000), Box::new(RobinHood), &cache);
    let mut unsure = snapshot(controller.poll_timeout(), &[("a", 1.0)]);
    unsure.requests_in_band = 15.0;
    let decision = period_with(&mut controller, &mut cache, unsure);
    assert_eq!((decision.inputs.step, limits(&controller)), (0.005, vec![100_500, 99_500]));
}

#[test]
fn the_static_policy_goes_to_its_limits_by_the_step_and_the_equal_one_to_equal_limits() {
    let target = vec![(name("a"), Bytes(150_000)), (name("b"), Bytes(50_000))];
    let target = Allocation::new(Bytes(200_000), target, |_| Bytes(1)).unwrap();
    let mut cache = ModelCache::new(&[("a", 100_000), ("b", 100_000)]);
    let mut controller = start(active(200_000), Box::new(Fixed::new(target.clone())), &cache);
    period(&mut controller, &mut cache, &[("b", 5.0)]);
    assert_eq!(limits(&controller), [101_000, 99_000]);
    for _ in 0..100 {
        period(&mut controller, &mut cache, &[("b", 5.0)]);
    }
    assert_eq!(*controller.allocation(), target);
    let mut controller = start(active(200_000), Box::new(Equal), &cache);
    for _ in 0..100 {
        period(&mut controller, &mut cache, &[("b", 5.0)]);
    }
    assert_eq!(limits(&controller), [100_000, 100_000]);
}

#[test]
fn a_group_gets_its_share_as_one_and_divides_it_by_misses() {
    let mut config = active(300_000);
    config.groups = vec![vec![name("c"), name("a")]];
    let mut cache = ModelCache::new(&[("a", 100_000), ("b", 100_000), ("c", 100_000)]);
    let mut controller = start(config, Box::new(RobinHood), &cache);
    let mut seen = snapshot(controller.poll_timeout(), &[("a", 0.0), ("b", 10.0), ("c", 20.0)]);
    seen.backends[0].misses = 300;
    seen.backends[2].misses = 100;
    period_with(&mut controller, &mut cache, seen);
    // Pot 3,000: 2,000 to the group, 3 to 1 inside.
    assert_eq!(limits(&controller), [100_500, 100_000, 99_500]);
}

#[test]
fn the_equal_policy_splits_among_groups_and_then_inside() {
    let mut config = active(300_000);
    config.groups = vec![vec![name("a"), name("c")]];
    let mut cache = ModelCache::new(&[("a", 100_000), ("b", 100_000), ("c", 100_000)]);
    let mut controller = start(config, Box::new(Equal), &cache);
    for _ in 0..100 {
        period(&mut controller, &mut cache, &[("a", 1.0), ("b", 1.0), ("c", 1.0)]);
    }
    assert_eq!(limits(&controller), [75_000, 150_000, 75_000]);
}

#[test]
fn the_static_policy_gives_a_group_the_sum_of_its_members_and_keeps_groups_it_does_not_know() {
    let mut config = active(400_000);
    config.groups = vec![vec![name("a"), name("c")]];
    let all = [("a", 100_000), ("b", 100_000), ("c", 100_000), ("d", 100_000)];
    // What is chosen, and where it leads: a and c have as many misses, whatever was chosen for each.
    type Case<'a> = (&'a [(&'a str, u64)], [u64; 4]);
    let cases: [Case<'_>; 3] = [
        (
            &[("a", 20_000), ("b", 50_000), ("c", 220_000), ("d", 110_000)],
            [120_000, 50_000, 120_000, 110_000],
        ),
        (&[("b", 60_000), ("c", 240_000), ("d", 100_000)], [120_000, 60_000, 120_000, 100_000]),
        (&[("elsewhere", 9)], [100_000; 4]),
    ];
    for (chosen, expected) in cases {
        let target: Vec<_> =
            chosen.iter().map(|&(text, limit)| (name(text), Bytes(limit))).collect();
        let sum = target.iter().map(|entry| entry.1).sum();
        let fixed = Fixed::new(Allocation::new(sum, target, |_| Bytes(1)).unwrap());
        let mut cache = ModelCache::new(&all);
        let mut controller = start(config.clone(), Box::new(fixed), &cache);
        for _ in 0..200 {
            period(&mut controller, &mut cache, &all.map(|(backend, _)| (backend, 1.0)));
        }
        assert_eq!(limits(&controller), expected, "{chosen:?}");
    }
}

#[test]
fn a_backend_at_its_load_limit_pays_no_tax() {
    let bounds = LoadBounds { misses_per_s_max: None, load_growth_max: Some(3.0) };
    let mut config = ControllerConfig::new(Bytes(200_000));
    config.protection = Protection { general: bounds, ..Protection::default() };
    let mut cache = ModelCache::new(&[("a", 100_000), ("b", 100_000)]);
    let mut controller = start(config, Box::new(RobinHood), &cache);
    for _ in 0..12 {
        period(&mut controller, &mut cache, &[("a", 1.0), ("b", 0.0)]); // 300 misses of each
    }
    controller.set_mode(Mode::Active);
    let with_misses = |controller: &Controller, misses: u64| -> Snapshot {
        let mut seen = snapshot(controller.poll_timeout(), &[("a", 1.0), ("b", 0.0)]);
        seen.backends[1].misses = misses;
        seen
    };
    let seen = with_misses(&controller, 899);
    period_with(&mut controller, &mut cache, seen);
    assert_eq!(limits(&controller), [101_000, 99_000]);
    let seen = with_misses(&controller, 900);
    let decision = period_with(&mut controller, &mut cache, seen);
    assert_eq!(limits(&controller), [101_000, 99_000]);
    assert!(matches!(decision.inputs.terms[1].standing, Standing::Protected(_)));
    let is_note = |(backend, reason): &(_, SkipReason)| {
        *backend == name("b") && matches!(reason, SkipReason::Protected(_))
    };
    assert!(decision.skipped.iter().any(is_note));
}
