//! The control loop of a stack: client's reports -> collector -> controller -> limits of the cache partitions.
//!
//! Source: RobinHood (OSDI'18) section 3.3. Deviation: collector and controller are in the process of the application
//! server, so a delta is handed over and not sent.
//! Place in the flow: beside the requests, on a thread of its own, five times a control period. A stack without partitions
//! has the collector only, so that its RBC can be shown.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use robinhood_blocking::{Collector, CollectorConfig, Delta, Snapshot};
use robinhood_cache::{PartitionId, RECLAIM_BATCH_ITEMS, Store};
use robinhood_client::Client;
use robinhood_controller::{
    Allocation, Controller, ControllerConfig, Decision, Mode, PartitionUsage, PolicyKind,
};
use robinhood_load_tester::RunClock;
use robinhood_stats::{BackendName, Bytes, Nanos};
use serde::Serialize;

use super::{PERIOD, StackKind};

/// Decision records that are kept, newest last.
const DECISIONS_MAX: usize = 64;
/// Batches in which one step pays debts: 32 items each. What is left waits for the next step.
const RECLAIM_BATCHES_MAX: usize = 1_000;
/// Deltas in one control period.
const SLOTS_PER_PERIOD: u32 = 5;

/// What the client library counted for one backend. Misses are queries less hits.
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

/// How the controller of a stack stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ControlView {
    /// Whether its decisions are carried out.
    pub mode: Mode,
    /// Why it is paused; `None` when it is not.
    pub paused: Option<String>,
}

/// What a control loop works on.
pub(super) struct ControlPlan {
    pub(super) kind: StackKind,
    pub(super) time_scale: f64,
    pub(super) client: Client,
    /// By backend id.
    pub(super) item_bytes_max: Vec<Bytes>,
    pub(super) clock: RunClock,
}

/// A running loop. Dropping it ends its thread.
pub(super) struct ControlLoop {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    control: Control,
    stopping: bool,
}

/// The state machines and what they said last.
struct Control {
    plan: ControlPlan,
    names: Vec<BackendName>,
    slot: Nanos,
    collector: Collector,
    controller: Option<Controller>,
    snapshot: Snapshot,
    totals: Vec<BackendTotals>,
    decisions: VecDeque<Decision>,
    moves: Moves,
}

/// Bytes that all decisions so far moved from some partitions to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// Carried out.
    pub(super) active: Bytes,
    /// Only advised.
    pub(super) advised: Bytes,
}

impl ControlLoop {
    /// Starts the loop; an error says what is wrong with the settings.
    pub(super) fn start(stack: &str, plan: ControlPlan) -> Result<Self, String> {
        let control = Control::new(plan)?;
        let slot = Duration::from_nanos(control.slot.0);
        let state = Mutex::new(State { control, stopping: false });
        let shared = Arc::new(Shared { state, wake: Condvar::new() });
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name(format!("control/{stack}"))
            .spawn(move || of_thread.run(slot))
            .map_err(|error| format!("cannot start the control thread: {error}"))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// One step out of turn.
    pub(super) fn settle(&self) {
        self.shared.state().control.step();
    }

    pub(super) fn totals(&self) -> Vec<BackendTotals> {
        self.shared.state().control.totals.clone()
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.shared.state().control.snapshot.clone()
    }

    /// How the controller stands; `None` without one.
    pub(super) fn view(&self) -> Option<ControlView> {
        let state = self.shared.state();
        let controller = state.control.controller.as_ref()?;
        let paused = controller.paused().map(str::to_owned);
        Some(ControlView { mode: controller.mode(), paused })
    }

    /// Tells the controller something, and whether there is one.
    pub(super) fn tell(&self, order: impl FnOnce(&mut Controller)) -> bool {
        self.shared.state().control.controller.as_mut().map(order).is_some()
    }

    pub(super) fn moves(&self) -> Moves {
        self.shared.state().control.moves
    }

    /// The newest decisions, oldest first.
    pub(super) fn decisions(&self) -> Vec<Decision> {
        self.shared.state().control.decisions.iter().cloned().collect()
    }
}

impl Drop for ControlLoop {
    fn drop(&mut self) {
        self.shared.state().stopping = true;
        self.shared.wake.notify_all();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            eprintln!("a control loop had died of a panic");
        }
    }
}

impl Shared {
    /// A panic of a state machine is a broken invariant: views may still read, the loop has ended.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, slot: Duration) {
        let mut next = std::time::Instant::now() + slot;
        let mut state = self.state();
        while !state.stopping {
            let left = next.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                state.control.step();
                next += slot;
                continue;
            }
            let woken = self.wake.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Control {
    fn new(plan: ControlPlan) -> Result<Self, String> {
        let config =
            CollectorConfig { slots_per_period: SLOTS_PER_PERIOD, ..CollectorConfig::default() };
        let collector =
            Collector::new(config.scaled_down(plan.time_scale)).map_err(|e| e.to_string())?;
        let names: Vec<BackendName> = plan.client.names().cloned().collect();
        let controller = match plan.kind {
            StackKind::Shared => None,
            StackKind::Partitioned { policy, mode } => controller(&plan, &names, policy, mode)?,
        };
        Ok(Self {
            slot: Nanos(PERIOD.scaled_down(plan.time_scale).0 / u64::from(SLOTS_PER_PERIOD)),
            totals: vec![BackendTotals::default(); names.len()],
            names,
            collector,
            controller,
            snapshot: Snapshot::default(),
            decisions: VecDeque::new(),
            moves: Moves::default(),
            plan,
        })
    }

    /// Takes the client's reports in and lets the controller act if it is time.
    fn step(&mut self) {
        let now = self.plan.clock.now();
        let delta = self.plan.client.take_delta(Nanos(self.slot.0 / 2));
        self.count(&delta);
        // A refused delta is counted by the collector and seen by the controller as a stale report.
        let _ = self.collector.handle_delta(now, &delta);
        self.snapshot = self.collector.snapshot(now);
        let Some(controller) = &mut self.controller else { return };
        let store = self.plan.client.store();
        controller.handle_snapshot(self.snapshot.clone());
        controller.handle_usage(now, &usage(&self.names, &self.plan.item_bytes_max, store));
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
            pay_debts(store);
            let now = self.plan.clock.now();
            controller.handle_usage(now, &usage(&self.names, &self.plan.item_bytes_max, store));
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
            let place = self.names.iter().position(|known| known == name);
            let totals = &mut self.totals[place.expect("the client reports its own backends")];
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
    plan: &ControlPlan,
    names: &[BackendName],
    policy: PolicyKind,
    mode: Mode,
) -> Result<Option<Controller>, String> {
    let store = plan.client.store();
    let limits = (0..).zip(names).map(|(id, name)| (name.clone(), store.limit(PartitionId(id))));
    let limits: Vec<_> = limits.collect();
    let mut config = ControllerConfig::new(store.budget()).scaled(plan.time_scale);
    config.mode = mode;
    let start = Allocation::new(store.budget(), limits.clone(), |_| Bytes::ZERO)
        .map_err(|error| error.to_string())?;
    let Some(policy) = policy.build(&start) else { return Ok(None) };
    let controller = Controller::new(config, policy, limits, plan.clock.now());
    controller.map(Some).map_err(|error| error.to_string())
}
