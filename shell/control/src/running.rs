//! The thread of the loop, and what can be asked of it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use robinhood_blocking::{Delta, Snapshot};
use robinhood_client::Client;
use robinhood_controller::{Controller, Decision, Mode, PartitionUsage, PolicyKind, Protection};
use robinhood_stats::{Instant, Nanos};

use crate::joined::{BackendTotals, Clock, Elsewhere, Joined, Moves, Source};
use crate::managed::{ManagedCache, StoreCache};
use crate::view::{ControlView, RbcView};

/// Sets up a [`ControlLoop`].
pub struct ControlBuilder {
    pub(crate) client: Option<Client>,
    pub(crate) cache: Option<Box<dyn ManagedCache>>,
    pub(crate) policy: PolicyKind,
    pub(crate) mode: Mode,
    pub(crate) protection: Protection,
    pub(crate) idle_fall: bool,
    pub(crate) time_scale: f64,
    pub(crate) clock: Clock,
    pub(crate) sources: Vec<Source>,
    pub(crate) elsewhere: Option<Elsewhere>,
    name: String,
}

/// A loop that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The collector refuses its settings.
    #[error("the collector: {0}")]
    Collector(#[from] robinhood_blocking::ConfigError),
    /// The controller refuses its settings, or the number of partitions.
    #[error("the controller: {0}")]
    Controller(#[from] robinhood_controller::ConfigError),
    /// The limits of the cache are not those of a partitioned cache with one partition for each backend of the client.
    #[error("the partitions of the cache: {0}; give the store one for each backend of the client")]
    Partitions(#[from] robinhood_controller::AllocationError),
    /// A client whose cache is elsewhere, and nobody said how to set its limits.
    #[error("the client has no cache in this process: say which cache the loop controls")]
    NoCache,
    /// The operating system gives no thread.
    #[error("cannot start the control thread: {0}; raise the limit of threads")]
    Thread(#[from] std::io::Error),
}

impl ControlBuilder {
    fn new(cache: Option<Box<dyn ManagedCache>>, client: Option<Client>, clock: Clock) -> Self {
        Self {
            cache,
            client,
            policy: PolicyKind::Robinhood,
            mode: Mode::Active,
            protection: Protection::default(),
            idle_fall: true,
            time_scale: 1.0,
            clock,
            sources: Vec::new(),
            elsewhere: None,
            name: "client".to_owned(),
        }
    }

    /// How the cache is divided. Default: [`PolicyKind::Robinhood`]. With [`PolicyKind::Shared`] there is no controller:
    /// RBC is shown and nothing moves.
    #[must_use]
    pub fn policy(mut self, policy: PolicyKind) -> Self {
        self.policy = policy;
        self
    }

    /// Whether decisions are carried out. Default: [`Mode::Active`].
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Bounds on the load of the backends. Default: none; [`Protection::for_agents`] where caches are somebody's that runs already.
    #[must_use]
    pub fn protection(mut self, protection: Protection) -> Self {
        self.protection = protection;
        self
    }

    /// A backend that nobody asks pays by the step, as the others do. Default: after an hour its partition falls to its floor at once.
    #[must_use]
    pub fn idle_pay_by_the_step(mut self) -> Self {
        self.idle_fall = false;
        self
    }

    /// All times of the paper (the control period of 5 s, the windows) are divided by this, above 0, at most 100. Default: 1.
    #[must_use]
    pub fn time_scale(mut self, time_scale: f64) -> Self {
        self.time_scale = time_scale;
        self
    }

    /// The cache whose limits are moved. Default: the client's own store; without one it must be given.
    #[must_use]
    pub fn cache(mut self, cache: Box<dyn ManagedCache>) -> Self {
        self.cache = Some(cache);
        self
    }

    /// The clock of all moments in snapshots and decisions, which never goes back. Default: [`Client::now`], or time since the loop was set up.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Instant + Send + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// Also takes in what somebody else counts, of the same service: `take_delta` gives it as one delta with the age that
    /// it is called with, five times a period.
    #[must_use]
    pub fn reports_from(mut self, take_delta: impl FnMut(Nanos) -> Delta + Send + 'static) -> Self {
        self.sources.push(Box::new(take_delta));
        self
    }

    /// Goes by the snapshots of aggregators, to which all that is counted here is passed on, instead of counting RBC itself. `newest` gives the
    /// newest snapshot with its moments on this loop's clock, of which it is told the time; `pass_on` takes a delta of each source a second.
    /// Neither may wait.
    #[must_use]
    pub fn aggregated(
        mut self,
        newest: impl FnMut(Instant) -> Option<Snapshot> + Send + 'static,
        pass_on: impl FnMut(Delta) + Send + 'static,
    ) -> Self {
        let (snapshots, pass_on) = (Box::new(newest), Box::new(pass_on));
        self.elsewhere = Some(Elsewhere { snapshots, pass_on });
        self
    }

    /// What the thread is called, after `control/`. Default: `client`.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Starts the loop.
    ///
    /// # Errors
    /// When the cache has not one partition for each backend of the client, the time scale leads out of the range of the
    /// control period, or there is no thread.
    ///
    /// # Panics
    /// When the time scale is not positive.
    pub fn start(self) -> Result<ControlLoop, ControlError> {
        let name = format!("control/{}", self.name);
        let joined = Joined::new(self)?;
        let slot = Duration::from_nanos(joined.slot().0);
        let state = Mutex::new(State { joined, stopping: false });
        let shared = Arc::new(Shared { state, wake: Condvar::new() });
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name(name).spawn(move || of_thread.run(slot))?;
        Ok(ControlLoop { shared, thread: Some(thread) })
    }
}

/// A running loop. Dropping it ends its thread; the cache keeps its limits.
pub struct ControlLoop {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    joined: Joined,
    stopping: bool,
}

impl ControlLoop {
    /// Starts to set up a loop for a client and the cache behind it.
    pub fn builder(client: Client) -> ControlBuilder {
        let of_clock = client.clone();
        let own = client.store().map(|store| {
            let names = client.names().cloned().collect();
            Box::new(StoreCache::new(store.clone(), names, Vec::new())) as Box<dyn ManagedCache>
        });
        ControlBuilder::new(own, Some(client), Box::new(move || of_clock.now()))
    }

    /// Starts to set up a loop beside a cache whose users send reports: [`ControlBuilder::reports_from`]. Its clock begins now.
    pub fn beside(cache: Box<dyn ManagedCache>) -> ControlBuilder {
        let epoch = std::time::Instant::now();
        let clock = move || Instant(u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX));
        ControlBuilder::new(Some(cache), None, Box::new(clock))
    }

    /// One step out of turn: takes in what was counted so far.
    pub fn settle(&self) {
        self.shared.state().joined.step();
    }

    /// How the controller stands; `None` without one.
    pub fn view(&self) -> Option<ControlView> {
        let state = self.shared.state();
        let controller = state.joined.controller.as_ref()?;
        let paused = controller.paused().map(str::to_owned);
        Some(ControlView { mode: controller.mode(), paused })
    }

    /// Begins or ends to carry decisions out. False without a controller, here and below: nothing happens then.
    pub fn set_mode(&self, mode: Mode) -> bool {
        self.tell(|controller| controller.set_mode(mode))
    }

    /// Keeps all limits where they are until [`Self::resume`]; decision records name the reason.
    pub fn pause(&self, reason: String) -> bool {
        self.tell(|controller| controller.pause(reason))
    }

    /// Goes on after a pause, or after a hold because of harm, from what the cache holds.
    pub fn resume(&self) -> bool {
        self.tell(Controller::resume)
    }

    fn tell(&self, order: impl FnOnce(&mut Controller)) -> bool {
        self.shared.state().joined.controller.as_mut().map(order).is_some()
    }

    /// RBC and statistics as of the last step.
    pub fn snapshot(&self) -> Snapshot {
        self.shared.state().joined.snapshot.clone()
    }

    /// The same for people and programs, with the share of each backend and its part of the cache.
    pub fn rbc(&self) -> RbcView {
        let state = self.shared.state();
        RbcView::new(&state.joined.snapshot, &state.joined.usage)
    }

    /// What the cache held at the last step, by number of the backend; empty when it could not be read yet.
    pub fn usage(&self) -> Vec<PartitionUsage> {
        self.shared.state().joined.usage.clone()
    }

    /// Why the cache cannot be read now, or was not for three control periods; `None` when all is well.
    pub fn cache_trouble(&self) -> Option<String> {
        self.shared.state().joined.cache_trouble()
    }

    /// Counts since the start, by backend id.
    pub fn totals(&self) -> Vec<BackendTotals> {
        self.shared.state().joined.totals.clone()
    }

    /// Bytes that were moved since the start.
    pub fn moves(&self) -> Moves {
        self.shared.state().joined.moves
    }

    /// Those of the newest 64 decisions that came after this period, oldest first; none without a controller. Periods count from 1.
    pub fn decisions_after(&self, period: u64) -> Vec<Decision> {
        let state = self.shared.state();
        let newer = state.joined.decisions.iter().filter(|decision| decision.period > period);
        newer.cloned().collect()
    }

    /// The newest 64 decisions, oldest first; none without a controller.
    pub fn decisions(&self) -> Vec<Decision> {
        self.shared.state().joined.decisions.iter().cloned().collect()
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
                state.joined.step();
                // After a standstill of the process the steps that were missed are not made up.
                next = (next + slot).max(std::time::Instant::now());
                continue;
            }
            let woken = self.wake.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
