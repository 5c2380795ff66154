//! A cache that answers as slowly as a test wants, application servers that report what a test wants, and the loop
//! around them.

use robinhood_blocking::{BackendSnapshot, Snapshot};
use robinhood_controller::{Controller, ControllerConfig, Decision, Mode, PartitionUsage, Policy};
use robinhood_stats::{BackendName, Bytes, Instant, Nanos};

pub(crate) fn name(text: &str) -> BackendName {
    BackendName::new(text).expect("a good name")
}

pub(crate) fn active(budget: u64) -> ControllerConfig {
    ControllerConfig { mode: Mode::Active, ..ControllerConfig::new(Bytes(budget)) }
}

pub(crate) fn start(
    config: ControllerConfig,
    policy: Box<dyn Policy>,
    cache: &ModelCache,
) -> Controller {
    Controller::new(config, policy, cache.limits(), Instant::ZERO).expect("good settings")
}

/// Reports in which everybody has the given RBC, queries are plenty and the newest report has just come.
pub(crate) fn snapshot(at: Instant, rbc: &[(&str, f64)]) -> Snapshot {
    let backend = |&(backend, rbc): &(&str, f64)| BackendSnapshot {
        name: name(backend),
        rbc,
        queries: 1_000,
        hits: 700,
        misses: 300,
        failures: 0,
        timeouts: 0,
        miss_batch_p99: Some(Nanos::from_millis(20)),
    };
    let mut backends: Vec<BackendSnapshot> = rbc.iter().map(backend).collect();
    backends.sort_by(|a, b| a.name.cmp(&b.name));
    Snapshot {
        at,
        newest: Some(at),
        requests: 4_000,
        requests_in_band: 40.0,
        backends,
        request_p50: Nanos::from_millis(5),
        request_p90: Nanos::from_millis(30),
        request_p99: Nanos::from_millis(90),
        statistics_span: Nanos::from_secs(60),
        ..Snapshot::default()
    }
}

/// A partitioned cache. Limits change at once; bytes above a limit go at a bounded pace, and partitions fill at once.
#[derive(Clone, Debug)]
pub(crate) struct ModelCache {
    pub(crate) partitions: Vec<PartitionUsage>,
    /// Bytes that one call of [`ModelCache::reclaim`] frees in each partition.
    pub(crate) pace: u64,
    /// Share of its limit that a partition fills.
    pub(crate) fill: f64,
    /// Resizes that will be refused.
    pub(crate) failures: u32,
    /// What the cache may hold: its budget, or more for a while after the budget fell.
    allowed: u64,
}

impl ModelCache {
    pub(crate) fn new(limits: &[(&str, u64)]) -> Self {
        let partition = |&(backend, limit): &(&str, u64)| PartitionUsage {
            name: name(backend),
            limit: Bytes(limit),
            used: Bytes(limit),
            item_bytes_max: Bytes(0),
        };
        let partitions: Vec<PartitionUsage> = limits.iter().map(partition).collect();
        let allowed = partitions.iter().map(|partition| partition.limit.0).sum();
        Self { partitions, pace: u64::MAX, fill: 1.0, failures: 0, allowed }
    }

    pub(crate) fn limits(&self) -> Vec<(BackendName, Bytes)> {
        self.partitions.iter().map(|partition| (partition.name.clone(), partition.limit)).collect()
    }

    pub(crate) fn set_limit(&mut self, backend: &BackendName, limit: Bytes) {
        match self.partitions.iter_mut().find(|partition| partition.name == *backend) {
            Some(partition) => partition.limit = limit,
            None => self.partitions.push(PartitionUsage {
                name: backend.clone(),
                limit,
                used: Bytes::ZERO,
                item_bytes_max: Bytes::ZERO,
            }),
        }
    }

    /// Frees what is above the limits, at the pace, and fills what is below.
    pub(crate) fn reclaim(&mut self) {
        for partition in &mut self.partitions {
            let full = (partition.limit.0 as f64 * self.fill) as u64;
            let excess = partition.used.0.saturating_sub(full);
            partition.used = Bytes((partition.used.0 - excess.min(self.pace)).max(full));
        }
        self.partitions.retain(|partition| partition.limit.0 > 0 || partition.used.0 > 0);
    }

    /// Bytes that the cache may hold at this moment.
    pub(crate) fn committed(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.limit.0.max(partition.used.0)).sum()
    }

    /// What the cache holds may fall to a new budget at its own pace, and never rises above what is allowed.
    fn check_budget(&mut self, budget: u64) {
        let committed = self.committed();
        self.allowed = budget.max(self.allowed.min(committed));
        assert!(committed <= self.allowed, "{committed} bytes in a cache of {budget}");
    }

    /// Carries resizes out, reads the cache, and carries out what that released.
    pub(crate) fn apply(&mut self, controller: &mut Controller, now: Instant) {
        self.allowed = self.allowed.max(controller.config().budget.0);
        self.carry_out(controller);
        self.reclaim();
        controller.handle_usage(now, &self.partitions);
        self.carry_out(controller);
    }

    fn carry_out(&mut self, controller: &mut Controller) {
        while let Some(resize) = controller.poll_resize() {
            if self.failures > 0 {
                self.failures -= 1;
                controller.handle_resize_failed(&resize.backend, "refused".to_owned());
            } else {
                self.set_limit(&resize.backend, resize.limit);
                self.check_budget(controller.config().budget.0);
            }
        }
    }
}

/// One period at the controller's next deadline.
pub(crate) fn period(
    controller: &mut Controller,
    cache: &mut ModelCache,
    rbc: &[(&str, f64)],
) -> Decision {
    let now = controller.poll_timeout();
    period_with(controller, cache, snapshot(now, rbc))
}

/// One period with a given snapshot.
pub(crate) fn period_with(
    controller: &mut Controller,
    cache: &mut ModelCache,
    snapshot: Snapshot,
) -> Decision {
    let now = controller.poll_timeout();
    cache.reclaim();
    controller.handle_usage(now, &cache.partitions);
    cache.apply(controller, now);
    controller.handle_snapshot(snapshot);
    controller.handle_timeout(now);
    cache.apply(controller, now);
    let decision = controller.poll_decision().expect("one decision in each period");
    assert!(controller.poll_decision().is_none(), "one decision in each period");
    assert_eq!(decision.replay(), decision.new, "the record is enough to decide again");
    decision
}

/// The controller's limits in the order of names, in bytes.
pub(crate) fn limits(controller: &Controller) -> Vec<u64> {
    controller.allocation().iter().map(|(_, limit)| limit.0).collect()
}
