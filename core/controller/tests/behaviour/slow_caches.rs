//! Caches that shrink slowly, lose limits, or fail.

use robinhood_controller::{HoldReason, RobinHood, SkipReason};
use robinhood_stats::Bytes;

use crate::harness::{ModelCache, active, limits, name, period, snapshot, start};

#[test]
fn a_slow_shrink_delays_its_grant_and_nobody_else() {
    let mut cache =
        ModelCache::new(&[("a", 100_000), ("b", 100_000), ("c", 100_000), ("d", 100_000)]);
    let mut controller = start(active(400_000), Box::new(RobinHood), &cache);
    cache.pace = 0;
    period(&mut controller, &mut cache, &[("c", 1.0)]);
    assert_eq!(limits(&controller), [99_000, 99_000, 103_000, 99_000]);
    assert_eq!(cache.partitions[2].limit, Bytes(100_000), "nothing is free");
    // Two of the three shrinks are done before the next period.
    for i in [0, 1] {
        cache.partitions[i].used = Bytes(99_000);
    }
    let decision = period(&mut controller, &mut cache, &[("a", 1.0)]);
    let skipped: Vec<&str> = decision.skipped.iter().map(|(backend, _)| backend.as_str()).collect();
    assert_eq!(skipped, ["c", "d"]);
    assert_eq!(limits(&controller), [99_990, 98_010, 103_000, 99_000], "a and b go on");
    assert_eq!(cache.partitions[2].limit, Bytes(102_000), "what was freed, and no more");
    cache.pace = u64::MAX;
    period(&mut controller, &mut cache, &[]);
    let held: Vec<u64> = cache.partitions.iter().map(|partition| partition.limit.0).collect();
    assert_eq!(held, [99_990, 98_010, 103_000, 99_000]);
}

#[test]
fn freed_bytes_go_to_outstanding_grants_in_proportion() {
    let mut cache = ModelCache::new(&[("a", 100_000), ("b", 100_000), ("c", 200_000)]);
    let mut controller = start(active(400_000), Box::new(RobinHood), &cache);
    let now = controller.poll_timeout();
    controller.handle_usage(now, &cache.partitions);
    controller.handle_snapshot(snapshot(now, &[("a", 3.0), ("b", 2.0), ("c", 0.0)]));
    controller.handle_timeout(now);
    // Pot 4,000: a +1,400, b +600, c -2,000.
    assert_eq!(controller.poll_resize().unwrap().limit, Bytes(198_000));
    cache.partitions[2].limit = Bytes(198_000);
    cache.partitions[2].used = Bytes(199_000);
    controller.handle_usage(now, &cache.partitions);
    let grows: Vec<u64> =
        std::iter::from_fn(|| controller.poll_resize()).map(|resize| resize.limit.0).collect();
    assert_eq!(grows, [100_700, 100_300]);
}

#[test]
fn limits_that_the_cache_lost_are_told_again() {
    let mut cache = ModelCache::new(&[("a", 100_000), ("b", 100_000)]);
    let mut controller = start(active(200_000), Box::new(RobinHood), &cache);
    for _ in 0..10 {
        period(&mut controller, &mut cache, &[("a", 1.0)]);
    }
    let before = limits(&controller);
    // The cache restarts with equal limits.
    for partition in &mut cache.partitions {
        partition.limit = Bytes(100_000);
    }
    let decision = period(&mut controller, &mut cache, &[("a", 1.0)]);
    assert_eq!(decision.skipped.len(), 2);
    assert!(
        decision.skipped.iter().all(|(_, reason)| matches!(reason, SkipReason::Unfinished { .. }))
    );
    let told: Vec<u64> = cache.partitions.iter().map(|partition| partition.limit.0).collect();
    assert_eq!((told, limits(&controller)), (before.clone(), before));
}

#[test]
fn a_refused_resize_holds_and_then_goes_on_from_what_the_cache_holds() {
    let mut cache = ModelCache::new(&[("a", 100_000), ("b", 100_000), ("c", 200_000)]);
    let mut controller = start(active(400_000), Box::new(RobinHood), &cache);
    cache.failures = 1;
    period(&mut controller, &mut cache, &[("a", 1.0)]);
    assert_eq!(limits(&controller), [103_000, 99_000, 198_000]);
    assert_eq!(controller.poll_resize(), None, "nothing is asked of a failed cache");
    let decision = period(&mut controller, &mut cache, &[("a", 1.0)]);
    let reason = HoldReason::AdapterFailed { backend: name("b"), reason: "refused".to_owned() };
    assert_eq!(decision.hold, Some(reason));
    assert_eq!(limits(&controller), [100_000, 100_000, 200_000], "what it holds");
    let decision = period(&mut controller, &mut cache, &[("a", 1.0)]);
    assert_eq!((decision.hold, limits(&controller)), (None, vec![103_000, 99_000, 198_000]));
}

#[test]
fn a_failed_cache_that_cannot_be_read_stays_on_hold() {
    let mut cache = ModelCache::new(&[("a", 100_000), ("b", 100_000)]);
    let mut controller = start(active(200_000), Box::new(RobinHood), &cache);
    period(&mut controller, &mut cache, &[("a", 1.0)]);
    controller.handle_resize_failed(&name("a"), "connection refused".to_owned());
    for _ in 0..10 {
        let now = controller.poll_timeout();
        controller.handle_snapshot(snapshot(now, &[("a", 1.0)]));
        controller.handle_timeout(now);
        let decision = controller.poll_decision().unwrap();
        assert!(matches!(decision.hold, Some(HoldReason::AdapterFailed { .. })), "{decision}");
        assert_eq!(controller.poll_resize(), None);
    }
}

#[test]
fn a_cache_that_rounds_limits_to_its_granule_is_finished() {
    let granule = 1 << 20;
    let mut config = active(100 * granule);
    config.granule = Bytes(granule);
    let mut cache = ModelCache::new(&[("a", 50 * granule + 1_000), ("b", 50 * granule - 1_000)]);
    let mut controller = start(config, Box::new(RobinHood), &cache);
    for _ in 0..20 {
        for partition in &mut cache.partitions {
            partition.limit = Bytes(partition.limit.0 / granule * granule);
        }
        let decision = period(&mut controller, &mut cache, &[("a", 1.0)]);
        assert!(decision.skipped.is_empty(), "{decision:#}");
    }
    assert!(limits(&controller)[0] > 57 * granule);
}
