//! Readings and reports that cannot be true: the controller goes on, or holds and says why.

use robinhood_blocking::Snapshot;
use robinhood_controller::{HoldReason, PartitionUsage, RobinHood};
use robinhood_stats::{Bytes, Instant};

use crate::harness::{ModelCache, active, limits, name, period, period_with, snapshot, start};

/// A cache whose readings are as large as a number can be.
fn absurd() -> ModelCache {
    ModelCache::new(&[("a", 1_000), ("b", 1_000), ("c", 1_000)])
}

fn largest(backend: &str) -> PartitionUsage {
    let most = Bytes(u64::MAX);
    PartitionUsage { name: name(backend), limit: most, used: most, item_bytes_max: most }
}

#[test]
fn a_start_from_absurd_limits_brings_them_to_the_budget() {
    for budget in [3_000_000, i64::MAX as u64] {
        let mut cache = absurd();
        for partition in &mut cache.partitions {
            partition.limit = Bytes(u64::MAX);
        }
        let controller = start(active(budget), Box::new(RobinHood), &cache);
        assert_eq!(limits(&controller), [budget.div_ceil(3), budget / 3, budget / 3]);
    }
}

#[test]
fn absurd_readings_release_nothing_and_pass() {
    for budget in [3_000_000, i64::MAX as u64] {
        for groups in [vec![], vec![vec![name("a"), name("b"), name("c")]]] {
            let mut cache = absurd();
            let mut config = active(budget);
            config.groups = groups;
            let mut controller = start(config, Box::new(RobinHood), &cache);
            cache.apply(&mut controller, Instant(1));
            let now = controller.poll_timeout();
            controller.handle_usage(now, &["a", "b", "c"].map(largest));
            controller.handle_snapshot(snapshot(now, &[("a", 3.0), ("b", 1.0)]));
            controller.handle_timeout(now);
            assert!(controller.poll_decision().is_some());
            // The cache is told again what it lost; nobody grows.
            while let Some(resize) = controller.poll_resize() {
                assert!(resize.limit.0 <= budget.div_ceil(3), "{resize:?}");
            }
            assert_eq!(limits(&controller).iter().sum::<u64>(), budget);
            for _ in 0..5 {
                period(&mut controller, &mut cache, &[("a", 3.0), ("b", 1.0)]);
            }
            let held: Bytes = cache.limits().into_iter().map(|(_, limit)| limit).sum();
            // The model cache fills its limits in floating point, exact to 53 bits.
            assert!(held.0 <= budget && budget - held.0 <= budget >> 50, "{held} of {budget}");
        }
    }
}

#[test]
fn a_snapshot_that_cannot_be_true_holds_until_a_better_one_comes() {
    let flaws: [fn(&mut Snapshot); 8] = [
        |seen| seen.backends[1].rbc = -0.5,
        |seen| seen.backends[0].rbc = f64::NAN,
        |seen| seen.backends[0].rbc = f64::INFINITY,
        |seen| (seen.backends[0].rbc, seen.backends[1].rbc) = (f64::MAX, f64::MAX),
        |seen| seen.own_rbc = f64::NAN,
        |seen| seen.requests_in_band = f64::NAN,
        |seen| seen.backends.reverse(),
        |seen| seen.backends[1].name = name("a"),
    ];
    let mut cache = absurd();
    let mut controller = start(active(3_000), Box::new(RobinHood), &cache);
    for flaw in flaws {
        let mut seen = snapshot(controller.poll_timeout(), &[("a", 3.0), ("b", 1.0), ("c", 1.0)]);
        flaw(&mut seen);
        let decision = period_with(&mut controller, &mut cache, seen);
        assert!(matches!(decision.hold, Some(HoldReason::BadInput { .. })), "{decision}");
        assert_eq!(decision.old, decision.new);
    }
    let decision = period(&mut controller, &mut cache, &[("a", 3.0), ("b", 1.0), ("c", 1.0)]);
    assert_eq!(decision.hold, None);
}
