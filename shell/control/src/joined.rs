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
/// A reading of the cache that is older, in control periods, says nothing.
const STALE_PERIODS: u32 = 3;
/// Deltas in one control period.
const SLOTS_PER_PERIOD: u32 = 5;

/// Where the loop reads the time.
pub(crate) type Clock = Box<dyn Fn() -> Instant + Send>;
/// Who else counts reports: gives what was counted since the last call as a delta of this age.
pub(crate) type Source = Box<dyn FnMut(Nanos) -> Delta + Send>;

/// Gives the newest snapshot of an aggregator on the loop's clock, if there is one.
pub(crate) type Snapshots = Box<dyn FnMut(Instant) -> Option<Snapshot> + Send>;
/// Takes what was counted here, for the aggregators.
pub(crate) type PassOn = Box<dyn FnMut(Delta) + Send>;

/// Time between two deltas that are passed on, at least.
const PASS_ON_EVERY: Nanos = Nanos::from_secs(1);

/// Where RBC is counted: by aggregators, for many application servers.
pub(crate) struct Elsewhere {
    pub(crate) snapshots: Snapshots,
    pub(crate) pass_on: PassOn,
}

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
    /// When it said that, and why it did not since then.
    read_at: Instant,
    refused: Option<String>,
    names: Vec<BackendName>,
    slot: Nanos,
    collector: Collector,
    elsewhere: Option<Elsewhere>,
    /// When deltas were taken last.
    taken: Instant,
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
            elsewhere: builder.elsewhere,
            taken: now,
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
            read_at: now,
            refused: None,
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
        match self.elsewhere.take() {
            Some(mut elsewhere) => {
                self.pass_on(now, &mut elsewhere);
                self.elsewhere = Some(elsewhere);
            }
            None => self.collect(now),
        }
        self.act(now);
    }

    /// Counts RBC here.
    fn collect(&mut self, now: Instant) {
        for delta in self.take_deltas(Nanos(self.slot.0 / 2)) {
            // A refused delta is counted by the collector and seen by the controller as a stale report.
            if self.collector.handle_delta(now, &delta).is_ok() {
                self.count(&delta);
            }
        }
        self.snapshot = self.collector.snapshot(now);
    }

    /// Lets aggregators count it. Without an answer the last snapshot stays, gets old, and the controller holds.
    fn pass_on(&mut self, now: Instant, elsewhere: &mut Elsewhere) {
        let since = now.since(self.taken);
        // Steps are never quite on time: half a slot too early is the step that is meant.
        if since.0 + self.slot.0 / 2 >= PASS_ON_EVERY.0 {
            self.taken = now;
            for delta in self.take_deltas(Nanos(since.0 / 2)) {
                self.count(&delta);
                (elsewhere.pass_on)(delta);
            }
        }
        if let Some(snapshot) = (elsewhere.snapshots)(now) {
            self.snapshot = snapshot;
        }
    }

    fn take_deltas(&mut self, age: Nanos) -> Vec<Delta> {
        let mut deltas: Vec<Delta> =
            self.client.iter().map(|client| client.take_delta(age)).collect();
        deltas.extend(self.sources.iter_mut().map(|source| source(age)));
        deltas
    }

    fn act(&mut self, now: Instant) {
        let reading = self.cache.read();
        let Some(controller) = &mut self.controller else {
            self.note(now, reading);
            return;
        };
        controller.handle_snapshot(self.snapshot.clone());
        tell(controller, now, &reading);
        controller.handle_timeout(now);
        self.note(now, reading);
        while self.resize() {
            let now = (self.clock)();
            let reading = self.cache.read();
            tell(self.controller.as_mut().expect("it decided just now"), now, &reading);
            self.note(now, reading);
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

    fn note(&mut self, now: Instant, reading: Reading) {
        match reading {
            Reading::Current(usage) => {
                (self.usage, self.read_at, self.refused) = (usage, now, None);
            }
            Reading::Pending => {}
            Reading::Failed { backend, reason } => {
                self.refused = Some(format!("{backend}: {reason}"));
            }
        }
    }

    /// Why nothing is known of the cache now, if so.
    pub(crate) fn cache_trouble(&self) -> Option<String> {
        if self.usage.is_empty() {
            return Some("no cache could be read yet".to_owned());
        }
        let age = (self.clock)().since(self.read_at);
        let old = age.0 > u64::from(STALE_PERIODS * SLOTS_PER_PERIOD) * self.slot.0;
        self.refused.clone().or_else(|| old.then(|| format!("the cache was read {age} ago")))
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
