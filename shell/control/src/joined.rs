//! Collector, controller and cache joined: what one step of the loop does.
//!
//! Place in the flow: the thread in `running` calls [`Joined::step`]; nothing here waits.

use std::collections::VecDeque;

use robinhood_blocking::{Collector, CollectorConfig, Delta, Snapshot};
use robinhood_client::Client;
use robinhood_controller::{
    Allocation, Controller, ControllerConfig, Decision, FloorRule, Mode, PartitionUsage, PolicyKind,
};
use robinhood_stats::{BackendName, Bytes, Instant, Nanos};
use serde::Serialize;

use crate::managed::{ManagedCache, Reading};
use crate::running::{ControlBuilder, ControlError};

/// Decision records that are kept, newest last.
const DECISIONS_MAX: usize = 64;
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
    client: Option<Client>,
    clock: Clock,
    sources: Vec<Source>,
    cache: Box<dyn ManagedCache>,
    /// What the cache said last.
    pub(crate) usage: Vec<PartitionUsage>,
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
        let now = (builder.clock)();
        let config =
            CollectorConfig { slots_per_period: SLOTS_PER_PERIOD, ..CollectorConfig::default() };
        let config = config.scaled_down(builder.time_scale);
        let controller = controller(&builder, now)?;
        let ControlBuilder { client, cache, .. } = builder;
        let mut cache = cache.ok_or(ControlError::NoCache)?;
        let slot = Nanos(config.period.0 / u64::from(SLOTS_PER_PERIOD));
        let names = cache.names().to_vec();
        Ok(Self {
            controller,
            collector: Collector::new(config)?,
            slot,
            totals: vec![BackendTotals::default(); names.len()],
            names,
            snapshot: Snapshot::default(),
            decisions: VecDeque::new(),
            moves: Moves::default(),
            sources: builder.sources,
            usage: match cache.read() {
                Reading::Current(usage) => usage,
                Reading::Pending | Reading::Failed { .. } => Vec::new(),
            },
            cache,
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
        let mut deltas: Vec<Delta> =
            self.client.iter().map(|client| client.take_delta(age)).collect();
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
        let reading = self.cache.read();
        let Some(controller) = &mut self.controller else {
            self.note(reading);
            return;
        };
        controller.handle_snapshot(self.snapshot.clone());
        tell(controller, now, &reading);
        controller.handle_timeout(now);
        self.note(reading);
        while self.resize() {
            let now = (self.clock)();
            let reading = self.cache.read();
            tell(self.controller.as_mut().expect("it decided just now"), now, &reading);
            self.note(reading);
        }
        self.record();
    }

    /// Sets the limits that the controller has for the cache now; whether there were any.
    fn resize(&mut self) -> bool {
        let Some(controller) = &mut self.controller else { return false };
        let mut resized = false;
        while let Some(resize) = controller.poll_resize() {
            let place = self.names.iter().position(|name| *name == resize.backend);
            let place = place.expect("the controller knows the backends of the cache");
            self.cache.set_limit(place, resize.limit);
            resized = true;
        }
        resized
    }

    fn note(&mut self, reading: Reading) {
        if let Reading::Current(usage) = reading {
            self.usage = usage;
        }
    }

    fn record(&mut self) {
        let Some(controller) = &mut self.controller else { return };
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

fn tell(controller: &mut Controller, now: Instant, reading: &Reading) {
    match reading {
        Reading::Current(usage) => controller.handle_usage(now, usage),
        Reading::Pending => {} // the controller goes by the reading before, which gets old
        Reading::Failed { backend, reason } => {
            controller.handle_resize_failed(backend, reason.clone());
        }
    }
}

fn controller(builder: &ControlBuilder, now: Instant) -> Result<Option<Controller>, ControlError> {
    if builder.policy == PolicyKind::Shared {
        return Ok(None);
    }
    let cache = builder.cache.as_ref().ok_or(ControlError::NoCache)?;
    let limits: Vec<_> = cache.names().iter().cloned().zip(cache.limits()).collect();
    let mut config = ControllerConfig::new(cache.budget()).scaled(builder.time_scale);
    config.mode = builder.mode;
    config.protection = builder.protection.clone();
    if !builder.idle_fall {
        config.idle_after = Nanos(u64::MAX);
    }
    config.granule = cache.granule();
    config.floor = FloorRule { adapter_min: cache.limit_min(), ..config.floor };
    let start = Allocation::new(cache.budget(), limits.clone(), |_| Bytes::ZERO)?;
    let Some(policy) = builder.policy.build(&start) else { return Ok(None) };
    Ok(Some(Controller::new(config, policy, limits, now)?))
}
