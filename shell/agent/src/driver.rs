//! Gives an adapter a thread of its own, so that the control loop never waits for a cache.
//!
//! Place in the flow: the loop sets limits and takes readings; the thread carries the newest limit of each partition out, frees memory in
//! slices with pauses between them, and reads. A reading is handed on only if it began after the last limit that was asked for had been
//! carried out: the controller would take an older one for a lost order.

use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use robinhood_control::{ManagedCache, Reading};
use robinhood_controller::PartitionUsage;
use robinhood_stats::{BackendName, Bytes};

use crate::adapter::{Adapter, Progress};
use crate::error::AdapterError;
use crate::events::{Event, EventLog};

/// How long the end of a driver waits for its thread, which may be in the middle of a call, and then restores each partition.
const END_WITHIN: Duration = Duration::from_secs(15);

/// How a cache is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long memory is freed at a time.
    pub slice: Duration,
    /// Pause after a slice, for those who use the cache.
    pub pause: Duration,
    /// Time between two readings while nothing is to be done.
    pub observe_every: Duration,
    /// Time before a cache that failed is tried again: at first this, then twice as long each time,
    pub retry: Duration,
    /// up to this.
    pub retry_max: Duration,
    /// A reading that is older is not handed on.
    pub reading_age_max: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            slice: Duration::from_millis(20),
            pause: Duration::from_millis(5),
            observe_every: Duration::from_millis(100),
            retry: Duration::from_millis(100),
            retry_max: Duration::from_secs(5),
            reading_age_max: Duration::from_secs(5),
        }
    }
}

/// A cache behind an adapter, as the control loop wants it. Dropping it restores what the adapter changed, but for the limits.
pub struct Driven {
    budget: Bytes,
    granule: Bytes,
    limit_min: Bytes,
    reading_age_max: Duration,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    ended: Receiver<()>,
}

/// Takes the events of a [`Driven`], also when the control loop owns it.
#[derive(Clone)]
pub struct EventReader(Arc<Shared>);

struct Shared {
    names: Vec<BackendName>,
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    /// The newest limits that are still to be set, by number.
    wanted: Vec<Option<Bytes>>,
    /// Limits asked for so far.
    asked: u64,
    limits: Vec<Bytes>,
    seen: Option<Seen>,
    failed: Option<(BackendName, String)>,
    events: EventLog,
    stopping: bool,
}

/// A reading.
struct Seen {
    usage: Vec<PartitionUsage>,
    /// How many of the limits asked for it shows.
    covers: u64,
    at: Instant,
}

impl Driven {
    /// Starts the thread at the usual pace.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn start(adapter: impl Adapter + 'static) -> std::io::Result<Self> {
        Self::start_at(adapter, Pace::default())
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// When the operating system gives no thread.
    pub fn start_at(adapter: impl Adapter + 'static, pace: Pace) -> std::io::Result<Self> {
        let state = State {
            wanted: vec![None; adapter.names().len()],
            asked: 0,
            limits: adapter.limits(),
            seen: None,
            failed: None,
            events: EventLog::default(),
            stopping: false,
        };
        let shared = Arc::new(Shared {
            names: adapter.names().to_vec(),
            state: Mutex::new(state),
            wake: Condvar::new(),
        });
        let (ending, ended) = mpsc::channel();
        let (budget, granule, limit_min) =
            (adapter.budget(), adapter.granule(), adapter.limit_min());
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("adapter".to_owned()).spawn(move || {
            let _ending = ending; // tells when it is dropped, however the thread ends
            let _said = SaysPanic(of_thread.clone());
            let adapter = Box::new(adapter);
            Worker { adapter, shared: of_thread, pace, retry: pace.retry }.run();
        })?;
        let thread = Some(thread);
        let reading_age_max = pace.reading_age_max;
        Ok(Self { budget, granule, limit_min, reading_age_max, shared, thread, ended })
    }

    /// What happened to the cache.
    pub fn events(&self) -> EventReader {
        EventReader(self.shared.clone())
    }
}

impl EventReader {
    /// The next event, oldest first.
    pub fn poll(&self) -> Option<Event> {
        self.0.state().events.poll()
    }
}

impl ManagedCache for Driven {
    fn names(&self) -> &[BackendName] {
        &self.shared.names
    }

    fn budget(&self) -> Bytes {
        self.budget
    }

    fn granule(&self) -> Bytes {
        self.granule
    }

    fn limit_min(&self) -> Bytes {
        self.limit_min
    }

    fn limits(&self) -> Vec<Bytes> {
        self.shared.state().limits.clone()
    }

    fn read(&mut self) -> Reading {
        let state = self.shared.state();
        if let Some((backend, reason)) = state.failed.clone() {
            return Reading::Failed { backend, reason };
        }
        match &state.seen {
            Some(seen)
                if seen.covers == state.asked && seen.at.elapsed() < self.reading_age_max =>
            {
                Reading::Current(seen.usage.clone())
            }
            _ => Reading::Pending,
        }
    }

    fn set_limit(&mut self, partition: usize, limit: Bytes) {
        let mut state = self.shared.state();
        state.wanted[partition] = Some(limit);
        state.asked += 1;
        drop(state);
        self.shared.wake.notify_all();
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.shared.state().stopping = true;
        self.shared.wake.notify_all();
        // Nothing is ever sent: this waits for the other end to be dropped.
        if self.ended.recv_timeout(END_WITHIN) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!(
                "an adapter did not end in time; its settings in the cache were not restored"
            );
            return;
        }
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            eprintln!("an adapter had died of a panic");
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells those who read when the thread dies of a panic.
struct SaysPanic(Arc<Shared>);

impl Drop for SaysPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.state();
            let reason = "the adapter died of a panic; start the agent again".to_owned();
            state.failed = self.0.names.first().map(|name| (name.clone(), reason));
        }
    }
}

/// What runs on the thread.
struct Worker {
    adapter: Box<dyn Adapter>,
    shared: Arc<Shared>,
    pace: Pace,
    /// How long to wait after the next failure.
    retry: Duration,
}

impl Worker {
    fn run(mut self) {
        loop {
            let pause = self.turn();
            let mut state = self.shared.state();
            let until = Instant::now() + pause;
            let fails = state.failed.is_some();
            // New limits end a pause, but not the one before a cache that failed is tried again.
            while !state.stopping && (fails || state.wanted.iter().all(Option::is_none)) {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                let woken = self.shared.wake.wait_timeout(state, left);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
            if state.stopping {
                break;
            }
        }
        if let Err(error) = self.adapter.detach() {
            eprintln!("settings were not restored: {error}");
        }
        self.hand_on_events();
    }

    /// One turn: new limits, a slice of work, a reading. Gives the time until the next.
    fn turn(&mut self) -> Duration {
        let result = self.carry_out();
        self.hand_on_events();
        match result {
            Ok(progress) => {
                self.retry = self.pace.retry;
                let works = progress.left > Bytes::ZERO && !progress.stuck;
                if works { self.pace.pause } else { self.pace.observe_every }
            }
            Err(error) => {
                let reason = format!("{}: {}", error.address, error.fault);
                self.shared.state().failed = Some((error.partition, reason));
                let pause = self.retry;
                self.retry = (pause * 2).min(self.pace.retry_max);
                pause
            }
        }
    }

    fn carry_out(&mut self) -> Result<Progress, AdapterError> {
        let (wanted, covers) = self.take_wanted();
        let set = self.set_limits(wanted);
        let worked = self.adapter.work(self.pace.slice);
        let at = Instant::now();
        let usage = self.adapter.observe();
        // An order that was lost is said before anything else: the reading does not show it.
        set?;
        let (progress, usage) = (worked?, usage?);
        let mut state = self.shared.state();
        state.limits = self.adapter.limits();
        state.seen = Some(Seen { usage, covers, at });
        state.failed = None;
        Ok(progress)
    }

    fn take_wanted(&mut self) -> (Vec<(usize, Bytes)>, u64) {
        let mut state = self.shared.state();
        let wanted = state.wanted.iter_mut().map(Option::take).enumerate();
        let wanted = wanted.filter_map(|(place, limit)| Some((place, limit?))).collect();
        (wanted, state.asked)
    }

    /// Sets limits, those that fall first. One that cannot be set does not keep the others from being set.
    fn set_limits(&mut self, mut wanted: Vec<(usize, Bytes)>) -> Result<(), AdapterError> {
        let limits = self.adapter.limits();
        wanted.sort_by_key(|&(place, limit)| limit > limits[place]);
        let set = wanted.into_iter().map(|(place, limit)| self.adapter.set_limit(place, limit));
        set.collect::<Vec<_>>().into_iter().collect()
    }

    fn hand_on_events(&mut self) {
        while let Some(event) = self.adapter.poll_event() {
            self.shared.state().events.push(event);
        }
    }
}
