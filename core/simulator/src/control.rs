//! The control loop of all application servers: one collector, one controller for each cache.
//!
//! Place in the flow: takes what the servers report each slot, and once a period lets every controller move the limits of its cache. The same
//! state machines as in live runs, driven by virtual time. Shrinks are carried out at once, so that a grow of the same period finds its bytes free.

use robinhood_blocking::{Collector, CollectorConfig, Snapshot};
use robinhood_cache::{PartitionId, Sharing};
use robinhood_controller::{
    Allocation, Controller, ControllerConfig, Mode, PartitionUsage, PolicyKind, Sight,
};
use robinhood_stats::{BackendName, BackendTable, Bytes, Instant, Nanos};
use robinhood_workload::Workload;

use crate::SimulationError;
use crate::app_server::AppServer;
use crate::insight::Insight;
use crate::options::Options;
use crate::reports::ReportPath;
use crate::world::World;

/// Collector and controllers.
pub(crate) struct Control {
    collector: Collector,
    reports: ReportPath,
    /// One for each application server; none when the cache is shared.
    controllers: Vec<Controller>,
    names: BackendTable,
    limits: Vec<Bytes>,
    budget: Bytes,
    slot: Nanos,
    period: Nanos,
    next_period: Instant,
    bytes_moved: Bytes,
    /// What the policy has to see.
    sight: Sight,
    insight: Insight,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("next_period", &self.next_period).finish_non_exhaustive()
    }
}

impl Control {
    /// How a policy wants the caches to be.
    pub(crate) const fn sharing(policy: PolicyKind) -> Sharing {
        match policy {
            PolicyKind::Shared => Sharing::Shared,
            _ => Sharing::Partitioned,
        }
    }

    pub(crate) fn new(
        workload: &Workload,
        kind: PolicyKind,
        seed: u64,
        options: &Options,
    ) -> Result<Self, SimulationError> {
        let period = options.scaled(options.period);
        let collector = Collector::new(collector_config(workload, options))?;
        let budget = workload.cache_per_server;
        let limits = options.start_limits(workload)?;
        let names: BackendTable = workload.names().collect();
        let start: Vec<(BackendName, Bytes)> =
            workload.names().cloned().zip(limits.iter().copied()).collect();
        let allocation = Allocation::new(budget, start.clone(), |_| Bytes::ZERO)?;
        let mut controllers = Vec::new();
        for _ in 0..workload.servers {
            let Some(policy) = kind.build(&allocation) else { break };
            let mut config = ControllerConfig::new(budget).scaled(options.time_scale);
            config.period = period;
            config.mode = Mode::Active;
            config.step = options.step;
            controllers.push(Controller::new(config, policy, start.clone(), Instant::ZERO)?);
        }
        Ok(Self {
            collector,
            reports: ReportPath::new(seed, options),
            controllers,
            names,
            limits,
            budget,
            slot: options.slot(),
            period,
            next_period: Instant::ZERO + period,
            bytes_moved: Bytes::ZERO,
            sight: kind.sight(),
            insight: Insight::new(kind.sight(), budget),
        })
    }

    /// Sets the limits at the start, and begins to measure what the policy has to see.
    pub(crate) fn apply_start(&self, world: &mut World) {
        if self.controllers.is_empty() {
            return;
        }
        for server in &mut world.servers {
            for (partition, &limit) in self.limits.iter().enumerate() {
                server.set_limit(PartitionId(partition as u16), limit);
            }
            server.watch(self.sight, self.budget);
        }
    }

    /// Sends the deltas of the slot that ends now, and takes those that have arrived.
    pub(crate) fn handle_slot(&mut self, now: Instant, world: &mut World) {
        let age = Nanos(self.slot.0 / 2) + self.reports.delay();
        let slot = now.0 / self.slot.0;
        for (number, server) in (0..).zip(&mut world.servers) {
            self.reports.send(now, slot, number, server.recorder().take_delta(age));
        }
        while let Some((at, delta)) = self.reports.poll_arrival(now) {
            self.collector.handle_delta(at, &delta).expect("a delta in its turn is counted");
        }
    }

    /// Once a period: the snapshot, after the controllers acted on it.
    pub(crate) fn handle_timeout(&mut self, now: Instant, world: &mut World) -> Option<Snapshot> {
        if now < self.next_period {
            return None;
        }
        self.next_period = self.next_period + self.period;
        let snapshot = self.collector.snapshot(now);
        let names = self.names.names();
        self.insight.handle_period(&mut world.servers, &mut self.controllers, names);
        for (controller, server) in self.controllers.iter_mut().zip(&mut world.servers) {
            controller.handle_usage(now, &usage(&self.names, server));
            controller.handle_snapshot(snapshot.clone());
            controller.handle_timeout(now);
            self.bytes_moved += apply_resizes(now, controller, server, &self.names);
            while controller.poll_decision().is_some() {}
        }
        Some(snapshot)
    }

    /// Share of the cache by backend, mean over servers: of limits, or of use where the cache is shared.
    pub(crate) fn cache_shares(&self, world: &World) -> Vec<f64> {
        let mut shares = vec![0.0; self.names.len()];
        let whole = self.budget.as_f64() * world.servers.len() as f64;
        for server in &world.servers {
            for (partition, (share, used)) in shares.iter_mut().zip(server.used()).enumerate() {
                let limit = || server.ledger.limit(PartitionId(partition as u16));
                let bytes = if self.controllers.is_empty() { used } else { limit() };
                *share += bytes.as_f64() / whole;
            }
        }
        shares
    }

    pub(crate) fn names(&self) -> &[BackendName] {
        self.names.names()
    }

    /// Bytes granted so far in all caches together.
    pub(crate) const fn bytes_moved(&self) -> Bytes {
        self.bytes_moved
    }
}

/// How all servers of a workload are collected.
fn collector_config(workload: &Workload, options: &Options) -> CollectorConfig {
    let defaults = CollectorConfig::default();
    let periods = options.window_periods();
    let config = CollectorConfig {
        period: options.period,
        slots_per_period: Options::SLOTS_PER_PERIOD,
        bands: vec![options.tail_band()],
        senders_max: usize::from(workload.servers),
        periods_min: periods,
        periods_max: defaults.periods_max.max(periods),
        statistics_window: options.window,
        ..defaults
    };
    config.scaled_down(options.time_scale)
}

/// Carries out what a controller wants, until it wants nothing more. Gives the bytes by which partitions grew.
fn apply_resizes(
    now: Instant,
    controller: &mut Controller,
    server: &mut AppServer,
    names: &BackendTable,
) -> Bytes {
    let mut grown = Bytes::ZERO;
    loop {
        let mut any = false;
        while let Some(resize) = controller.poll_resize() {
            let id = names.id(&resize.backend).expect("a controller resizes what it was given");
            let partition = PartitionId(id.0);
            grown += resize.limit.saturating_sub(server.ledger.limit(partition));
            server.set_limit(partition, resize.limit);
            any = true;
        }
        if !any {
            return grown;
        }
        let debt = server.ledger.reclaim(usize::MAX, &mut |_| {});
        assert_eq!(debt, Bytes::ZERO, "a reclaim without a bound leaves no debt");
        controller.handle_usage(now, &usage(names, server));
    }
}

fn usage(names: &BackendTable, server: &AppServer) -> Vec<PartitionUsage> {
    let partition = |((id, name), used): ((usize, &BackendName), Bytes)| PartitionUsage {
        name: name.clone(),
        limit: server.ledger.limit(PartitionId(id as u16)),
        used,
        item_bytes_max: server.item_bytes_max(id),
    };
    names.names().iter().enumerate().zip(server.used()).map(partition).collect()
}

#[cfg(test)]
mod tests {
    use robinhood_blocking::{Recorder, RecorderConfig};
    use robinhood_workload::presets;

    use super::*;

    #[test]
    fn the_collector_tells_as_many_senders_apart_as_there_are_servers() {
        let mut workload = presets::demo(Nanos::from_secs(60));
        workload.servers = 20_000;
        let config = collector_config(&workload, &Options::default());
        let mut collector = Collector::new(config).unwrap();
        let mut delta = Recorder::new(RecorderConfig::default()).take_delta(Nanos::ZERO);
        for sender in 0..u64::from(workload.servers) {
            delta.sender = sender;
            collector.handle_delta(Instant(1_000_000_000), &delta).unwrap();
        }
        assert_eq!(collector.senders(), 20_000);
    }
}
