//! Collector, controller and cache joined: what one step of the loop does.
//!
//! Place in the flow: the thread in `running` calls [`Joined::step`]; nothing here waits.

use std::collections::VecDeque;

use robinhood_blocking::{Collector, CollectorConfig, Delta, Snapshot};
use robinhood_cache::{PartitionId, RECLAIM_BATCH_ITEMS, Store};
use robinhood_client::Client;
use robinhood_controller::{
    Allocation, Controller, ControllerConfig, Decision, Mode, PartitionUsage, PolicyKind,
};
use robinhood_stats::{BackendName, Bytes, Instant, Nanos};
use serde::Serialize;

use crate::running::{ControlBuilder, ControlError};

/// Decision records that are kept, newest last.
const DECISIONS_MAX: usize = 64;
/// Batches in which one step pays debts: 32 items each. What is left waits for the next step.
const RECLAIM_BATCHES_MAX: usize = 1_000;
/// Deltas in one control period.
const SLOTS_PER_PERIOD: u32 = 5;

/// Where the loop reads the time.
pub(crate) type Clock = Box<dyn Fn() -> Instant + Send>;
/// Who else counts reports: gives what was counted since the last call as a delta of this age.
pub(crate) type Source = Box<dyn FnMut(Nanos) -> Delta + Send>;

/// What was counted for one backend since the start. Misses are queries less hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BackendTotals {
    /// Queries.
    pub queries: u64,
    /// Queries that the cache answered.
    pub hits: u64,
    /// Misses that ended with an error.
    pub failures: u64,
    /// Misses that were given up.
    pub timeouts: u64,
}

impl BackendTotals {
    /// Share of the queries that the cache answered; `None` without queries.
    pub fn hit_ratio(&self) -> Option<f64> {
        (self.queries > 0).then(|| self.hits as f64 / self.queries as f64)
    }
}

/// Bytes that all decisions so far moved from some partitions to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Carried out.
    pub active: Bytes,
    /// Only advised.
    pub advised: Bytes,
}

/// The state machines and what they said last.
pub(crate) struct Joined {
    pub(crate) client: Client,
    clock: Clock,
    sources: Vec<Source>,
    pays_debts: bool,
    item_bytes_max: Vec<Bytes>,
    names: Vec<BackendName>,
    slot: Nanos,
    collector: Collector,
    pub(crate) controller: Option<Controller>,
    pub(crate) snapshot: Snapshot,
    pub(crate) totals: Vec<BackendTotals>,
    pub(crate) decisions: VecDeque<Decision>,
    pub(crate) moves: Moves,
}

impl Joined {
    pub(crate) fn new(builder: ControlBuilder) -> Result<Self, ControlError> {
        let ControlBuilder { client, policy, mode, time_scale, .. } = builder;
        let config =
            CollectorConfig { slots_per_period: SLOTS_PER_PERIOD, ..CollectorConfig::default() };
        let config = config.scaled_down(time_scale);
        let slot = Nanos(config.period.0 / u64::from(SLOTS_PER_PERIOD));
        let names: Vec<BackendName> = client.names().cloned().collect();
        let mut item_bytes_max = builder.item_bytes_max;
        item_bytes_max.resize(names.len(), Bytes::ZERO);
        let now = (builder.clock)();
        Ok(Self {
            controller: controller(client.store(), &names, policy, mode, time_scale, now)?,
            collector: Collector::new(config)?,
            slot,
            totals: vec![BackendTotals::default(); names.len()],
            names,
            snapshot: Snapshot::default(),
            decisions: VecDeque::new(),
            moves: Moves::default(),
            item_bytes_max,
            sources: builder.sources,
            pays_debts: builder.pays_debts,
            clock: builder.clock,
            client,
        })
    }

    /// Time between two steps.
    pub(crate) const fn slot(&self) -> Nanos {
        self.slot
    }

    /// Takes the reports in and lets the controller act if it is time.
    pub(crate) fn step(&mut self) {
        let now = (self.clock)();
        let age = Nanos(self.slot.0 / 2);
        let mut deltas = vec![self.client.take_delta(age)];
        deltas.extend(self.sources.iter_mut().map(|source| source(age)));
        for delta in &deltas {
            // A refused delta is counted by the collector and seen by the controller as a stale report.
            if self.collector.handle_delta(now, delta).is_ok() {
                self.count(delta);
            }
        }
        self.snapshot = self.collector.snapshot(now);
        self.act(now);
    }

    fn act(&mut self, now: Instant) {
        let Some(controller) = &mut self.controller else { return };
        let store = self.client.store();
        controller.handle_snapshot(self.snapshot.clone());
        controller.handle_usage(now, &usage(&self.names, &self.item_bytes_max, store));
        controller.handle_timeout(now);
        loop {
            let mut resized = false;
            while let Some(resize) = controller.poll_resize() {
                let place = self.names.iter().position(|name| *name == resize.backend);
                let place = place.expect("the controller knows the backends of the cache");
                store.set_limit(PartitionId(place as u16), resize.limit);
                resized = true;
            }
            if !resized {
                break;
            }
            if self.pays_debts {
                pay_debts(store);
            }
            let now = (self.clock)();
            controller.handle_usage(now, &usage(&self.names, &self.item_bytes_max, store));
        }
        while let Some(decision) = controller.poll_decision() {
            if self.decisions.len() == DECISIONS_MAX {
                self.decisions.pop_front();
            }
            match decision.mode {
                Mode::Active => self.moves.active += decision.moved(),
                Mode::Advise => self.moves.advised += decision.moved(),
            }
            self.decisions.push_back(decision);
        }
    }

    fn count(&mut self, delta: &Delta) {
        for backend in &delta.backends {
            let name = &delta.dictionary[backend.backend.index()];
            // Other senders may name backends that have no partition here.
            let Some(place) = self.names.iter().position(|known| known == name) else { continue };
            let totals = &mut self.totals[place];
            totals.queries += backend.queries;
            totals.hits += backend.hits;
            totals.failures += backend.failures;
            totals.timeouts += backend.timeouts;
        }
    }
}

/// Evicts what is over its limit, in batches, and stops when all is paid or the debt does not fall.
fn pay_debts(store: &Store) {
    let mut debt = Bytes(u64::MAX);
    for _ in 0..RECLAIM_BATCHES_MAX {
        let left = store.reclaim(RECLAIM_BATCH_ITEMS);
        if left == Bytes::ZERO || left >= debt {
            return;
        }
        debt = left;
    }
}

fn usage(names: &[BackendName], item_bytes_max: &[Bytes], store: &Store) -> Vec<PartitionUsage> {
    let usage = |((id, name), &item_bytes_max): ((u16, &BackendName), &Bytes)| {
        let seen = store.statistics(PartitionId(id));
        PartitionUsage { name: name.clone(), limit: seen.limit, used: seen.used, item_bytes_max }
    };
    (0..).zip(names).zip(item_bytes_max).map(usage).collect()
}

fn controller(
    store: &Store,
    names: &[BackendName],
    policy: PolicyKind,
    mode: Mode,
    time_scale: f64,
    now: Instant,
) -> Result<Option<Controller>, ControlError> {
    if policy == PolicyKind::Shared {
        return Ok(None);
    }
    let limits = (0..).zip(names).map(|(id, name)| (name.clone(), store.limit(PartitionId(id))));
    let limits: Vec<_> = limits.collect();
    let mut config = ControllerConfig::new(store.budget()).scaled(time_scale);
    config.mode = mode;
    let start = Allocation::new(store.budget(), limits.clone(), |_| Bytes::ZERO)?;
    let Some(policy) = policy.build(&start) else { return Ok(None) };
    Ok(Some(Controller::new(config, policy, limits, now)?))
}
