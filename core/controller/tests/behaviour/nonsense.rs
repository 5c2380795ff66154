//! Readings and reports that cannot be true: the controller goes on, or holds and says why.

use robinhood_controller::{PartitionUsage, RobinHood};
use robinhood_stats::{Bytes, Instant};

use crate::harness::{ModelCache, active, limits, name, period, snapshot, start};

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
            controller.handle_snapshot(now, snapshot(now, &[("a", 3.0), ("b", 1.0)]));
            controller.handle_timeout(now);
            assert!(controller.poll_decision().is_some());
            // The cache is told again what it lost; nobody grows.
            while let Some(resize) = controller.poll_resize() {
                assert!(resize.limit.0 <= budget.div_ceil(3), "{resize:?}");
            }
            assert_eq!(limits(&controller).iter().sum::<u64>(), budget);
            for _ in 0..2 {
                period(&mut controller, &mut cache, &[("a", 3.0), ("b", 1.0)]);
            }
            assert_eq!(cache.committed(), budget);
        }
    }
}
