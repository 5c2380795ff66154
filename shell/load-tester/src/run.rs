//! A run: clients on threads of their own, started together, watched while they work.
//!
//! Place in the flow: above the engine. It opens all connections before anything is sent, decides when measuring begins, hands the
//! course of the run to whoever looks, and brings the accounts of the clients together without mixing them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use robinhood_stats::steady::SteadyTest;
use robinhood_stats::{Instant, Nanos};

use crate::clock::RunClock;
use crate::course::{self, Course};
use crate::cpu::StealMeter;
use crate::engine::account::Account;
use crate::engine::client::{ClientConfig, ClientOutcome, DueTimes, Shared, Source};
use crate::engine::interruptions::Interruptions;
use crate::engine::slot::Slot;
use crate::launch::{self, Connected, Finished};
use crate::protocol::Protocol;
use crate::target::Target;
use crate::thread::{Priority, ThreadSetup};

/// Between the moment when all clients are ready and the first due time.
const START_AFTER: Nanos = Nanos::from_millis(20);
/// How often the course of the run is looked at.
const WATCH_EVERY: Duration = Duration::from_millis(20);

/// What one client needs.
pub struct ClientSetup {
    /// How requests look.
    pub protocol: Box<dyn Protocol>,
    /// What they ask for.
    pub source: Box<dyn Source>,
    /// When they are due, from the start of the run.
    pub due_times: DueTimes,
    /// The processor to stay on.
    pub cpu: Option<usize>,
    /// Bounds and habits.
    pub config: ClientConfig,
}

/// The part of a run before measuring begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// So long.
    Fixed(Nanos),
    /// Until latency no longer changes, at most so long.
    UntilSteady {
        /// The end at the latest.
        longest: Nanos,
    },
}

impl WarmUp {
    /// When it ends at the latest.
    pub const fn longest(self) -> Nanos {
        match self {
            Self::Fixed(length) => length,
            Self::UntilSteady { longest } => longest,
        }
    }
}

/// A run to be made.
pub struct Run {
    /// The server.
    pub target: Target,
    /// One entry a client.
    pub clients: Vec<ClientSetup>,
    /// The priority that the clients ask for.
    pub priority: Priority,
    /// Not measured, from the start.
    pub warm_up: WarmUp,
    /// Measured, after the warm-up.
    pub duration: Nanos,
    /// When the first request can be due, by the calendar, for several processes to start together; `None`: as soon as all clients are ready.
    pub start_at: Option<SystemTime>,
}

/// What came of one client.
#[derive(Debug)]
pub struct ClientReport {
    /// Counts and times.
    pub outcome: ClientOutcome,
    /// Its part of the course, warm-up included.
    pub course: Course,
    /// What its thread was granted.
    pub thread: ThreadSetup,
    /// Processor time of its thread from the start of the run.
    pub cpu: Nanos,
    /// The clock of all its times.
    pub clock: RunClock,
}

/// What came of a run.
#[derive(Debug)]
pub struct RunReport {
    /// When the first request could be due.
    pub start: Instant,
    /// The same moment by the calendar, as far as the system knows it.
    pub started_at: SystemTime,
    /// When measuring began, and when it was to end.
    pub measured: (Instant, Instant),
    /// Whether the end of the warm-up was waited for and did not come in time.
    pub never_steady: bool,
    /// Share of the processors' time that the host gave to other machines, from 0 to 1.
    pub steal_share: f64,
    /// By client, in the order in which they were given.
    pub clients: Vec<ClientReport>,
}

impl RunReport {
    /// Counts and times of all clients together.
    pub fn account(&self) -> Account {
        let mut all = Account::new();
        for client in &self.clients {
            all.merge(&client.outcome.account);
        }
        all
    }

    /// What the machine took from all clients together.
    pub fn interruptions(&self) -> Interruptions {
        let mut all = Interruptions::new();
        for client in &self.clients {
            all.merge(&client.outcome.interruptions);
        }
        all
    }

    /// The course of all clients together.
    ///
    /// # Panics
    /// When there is no client.
    pub fn course(&self) -> Course {
        let courses: Vec<&Course> = self.clients.iter().map(|client| &client.course).collect();
        Course::together(&courses)
    }
}

/// A run cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The server is not there.
    #[error(
        "cannot connect to {target}: {error}; is the server running, and does it listen there?"
    )]
    Connect {
        /// Where it should be.
        target: Target,
        /// What the system says.
        error: io::Error,
    },
    /// The system refuses something that a client needs.
    #[error("a client cannot start: {0}")]
    Client(io::Error),
    /// The clients were ready too late.
    #[error(
        "the moment to start had passed by {late:?} when all clients were connected: choose a later one"
    )]
    StartPassed {
        /// By so much.
        late: Duration,
    },
}

/// How far a run is, for a live view.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Time since the first request could be due.
    pub elapsed: Nanos,
    /// When measuring begins and ends, in the same time.
    pub measured: (Nanos, Nanos),
    /// Slots of all clients together that closed since the last call.
    pub slots: Vec<Slot>,
    /// Requests without answer at this moment.
    pub in_flight: u64,
}

struct Worker {
    shared: Arc<Shared>,
    thread: JoinHandle<Finished>,
    /// Whether its client sends no more.
    is_over: bool,
    course: Course,
    /// Slots that not all clients have closed yet.
    fresh: VecDeque<Slot>,
}

impl Run {
    /// Makes the run. `watch` is called some tens of times a second, from the calling thread; the run ends early when `stop` is set.
    ///
    /// # Errors
    /// When a client cannot connect or start, or `start_at` has passed when all are connected. Nothing was sent then.
    ///
    /// # Panics
    /// When a client panics: an error in this crate or in a protocol.
    pub fn execute(
        self,
        stop: &AtomicBool,
        mut watch: impl FnMut(&Progress),
    ) -> Result<RunReport, RunError> {
        let clock = RunClock::start();
        let connected = launch::connect(&self.target, self.priority, clock, self.clients)?;
        let (start, started_at) = appointed(self.start_at, clock)?;
        wait_for(start, clock, stop);
        let slots_max = course::slots_max(connected.len());
        let mut plan = PhasePlan::new(start, self.warm_up, self.duration);
        let begin = |client| Worker::begin(client, start, plan.measured, slots_max);
        let steal = StealMeter::start();
        let mut workers: Vec<Worker> = connected.into_iter().map(begin).collect();
        watch_until_over(&mut workers, stop, |workers| {
            let in_flight =
                workers.iter().map(|worker| worker.shared.in_flight.load(Ordering::Relaxed)).sum();
            let slots = closed_by_all(workers);
            if plan.handle_slots(&slots, clock.now()) {
                plan.tell(workers);
            }
            watch(&Progress {
                elapsed: clock.now().since(start),
                measured: (plan.measured.0.since(start), plan.measured.1.since(start)),
                slots,
                in_flight,
            });
        });
        let steal_share = steal.share();
        let clients =
            workers.into_iter().map(|worker| worker.finish(clock)).collect::<Result<_, _>>()?;
        Ok(RunReport {
            start,
            started_at,
            measured: plan.measured,
            never_steady: plan.awaits_steady,
            steal_share,
            clients,
        })
    }
}

/// When to start, by the clock of the run and by the calendar, which is read only now: it may be set meanwhile.
fn appointed(
    start_at: Option<SystemTime>,
    clock: RunClock,
) -> Result<(Instant, SystemTime), RunError> {
    let today = SystemTime::now();
    let started_at = start_at.unwrap_or(today + Duration::from_nanos(START_AFTER.0));
    let ahead = started_at
        .duration_since(today)
        .map_err(|error| RunError::StartPassed { late: error.duration() })?;
    let ahead_ns = u64::try_from(ahead.as_nanos()).unwrap_or(u64::MAX / 2);
    Ok((clock.now() + Nanos(ahead_ns), started_at))
}

/// Leaves the clients in peace until shortly before the start.
fn wait_for(start: Instant, clock: RunClock, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let left = start.since(clock.now()).saturating_sub(START_AFTER);
        if left == Nanos::ZERO {
            return;
        }
        std::thread::sleep(Duration::from_nanos(left.0).min(WATCH_EVERY));
    }
}

/// Between the decision that the warm-up is over and the first request that is measured: all clients know by then.
const MEASURE_AFTER: Nanos = Nanos::from_millis(100);

/// When to measure.
struct PhasePlan {
    measured: (Instant, Instant),
    duration: Nanos,
    /// Whether the warm-up ends when latency is steady, and it was not so far.
    awaits_steady: bool,
    /// P90 of latency by slot, so far.
    latencies_ns: Vec<f64>,
}

impl PhasePlan {
    fn new(start: Instant, warm_up: WarmUp, duration: Nanos) -> Self {
        let from = start + warm_up.longest();
        Self {
            measured: (from, from + duration),
            duration,
            awaits_steady: matches!(warm_up, WarmUp::UntilSteady { .. }),
            latencies_ns: Vec::new(),
        }
    }

    fn tell(&self, workers: &[Worker]) {
        for worker in workers {
            worker.shared.phases.set(self.measured.0, self.measured.1);
        }
    }

    /// Whether measuring begins at another time than said before.
    fn handle_slots(&mut self, slots: &[Slot], now: Instant) -> bool {
        let from = now + MEASURE_AFTER;
        if !self.awaits_steady || from >= self.measured.0 {
            return false;
        }
        let latencies = slots.iter().filter_map(|slot| slot.latency.quantile(0.9));
        self.latencies_ns.extend(latencies.map(|latency| latency as f64));
        let steadiness = SteadyTest::default().judge(&self.latencies_ns);
        if slots.is_empty() || !steadiness.is_some_and(|found| found.steady) {
            return false;
        }
        self.awaits_steady = false;
        self.measured = (from, from + self.duration);
        true
    }
}

fn watch_until_over(
    workers: &mut [Worker],
    stop: &AtomicBool,
    mut watch: impl FnMut(&mut [Worker]),
) {
    loop {
        let is_stopped = stop.load(Ordering::Relaxed);
        for worker in &mut *workers {
            if is_stopped {
                worker.shared.stop.store(true, Ordering::Relaxed);
            }
            worker.collect();
        }
        watch(workers);
        if workers.iter().all(|worker| worker.is_over) {
            return;
        }
        std::thread::sleep(WATCH_EVERY);
    }
}

/// Slots that every client has closed, added up.
fn closed_by_all(workers: &mut [Worker]) -> Vec<Slot> {
    let closed_to = |worker: &Worker| worker.fresh.back().map_or(Instant::ZERO, |slot| slot.end);
    let sending = workers.iter().filter(|worker| !worker.is_over);
    let horizon = sending.map(closed_to).min().unwrap_or(Instant(u64::MAX));
    let mut sums: BTreeMap<Instant, Slot> = BTreeMap::new();
    for worker in workers {
        let closed = worker.fresh.iter().take_while(|slot| slot.end <= horizon).count();
        for slot in worker.fresh.drain(..closed) {
            sums.entry(slot.start).and_modify(|sum| sum.merge(&slot)).or_insert(slot);
        }
    }
    sums.into_values().collect()
}

impl Worker {
    fn begin(
        client: Connected,
        start: Instant,
        measured: (Instant, Instant),
        slots_max: usize,
    ) -> Self {
        client.shared.phases.set(measured.0, measured.1);
        _ = client.start.send(start); // a client that panicked is seen when it is joined
        Self {
            shared: client.shared,
            thread: client.thread,
            is_over: false,
            course: Course::new(start, client.slot, slots_max),
            fresh: VecDeque::new(),
        }
    }

    fn collect(&mut self) {
        self.is_over = self.thread.is_finished(); // asked first: a client closes its last slot before it ends
        for slot in self.shared.slots.take() {
            self.fresh.push_back(slot.clone());
            self.course.push(slot);
        }
    }

    fn finish(self, clock: RunClock) -> Result<ClientReport, RunError> {
        let (outcome, thread, cpu) = match self.thread.join() {
            Ok(finished) => finished,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok(ClientReport {
            outcome: outcome.map_err(RunError::Client)?,
            course: self.course,
            thread,
            cpu,
            clock,
        })
    }
}
