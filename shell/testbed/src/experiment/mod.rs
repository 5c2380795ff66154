//! An experiment: several stacks on one stream of requests, and what came of it.
//!
//! Source: RobinHood (OSDI'18) section 5.2. Place in the flow: the top of the testbed. Stacks differ in how they divide
//! their caches and in nothing else: the same requests at the same due times, equal budgets, the same data, service
//! factors and capacity paths; servers, queues and caches of their own. Which stack gets a request first alternates.

mod doubt;
mod error;
mod source;
mod summary;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use robinhood_load_tester::{CpuMeter, Pacer, PacingReport, RunClock, Schedule, Send};
use robinhood_stats::{Bytes, Instant, Nanos};
use robinhood_workload::{Request, Workload};
use serde::Serialize;

pub use doubt::Doubt;
pub use error::ExperimentError;
pub use source::{Source, TRACE_REQUESTS_MAX};
pub use summary::{
    BackendSummary, GeneratorSummary, MachineSummary, Setting, StackSummary, Summary,
};

use crate::check::MachineCheck;
use crate::dataset::Dataset;
use crate::stack::{CacheKind, ColdStack, Stack, StackConfig, StackError, StackKind, StackView};
use source::Arrivals;
pub(crate) use source::Prepared;

/// Time zero of the requests on the clock of the run, so that starting threads makes none late. Capacity paths count from
/// the clock's own zero.
const LEAD: Nanos = Nanos::from_millis(50);
/// How long an interrupted run waits for requests in flight.
const INTERRUPTED_DRAIN: Duration = Duration::from_millis(500);
/// Batches that may wait at a backend.
pub(crate) const QUEUE_MAX: usize = 10_000;

/// What to run.
#[derive(Clone, Debug)]
pub struct ExperimentConfig {
    /// Where requests come from.
    pub source: Source,
    /// Arrivals, keys and service factors.
    pub seed: u64,
    /// Name and kind of each stack, with different names. The first sets the objective: 1.5 times its median P99 of the
    /// calm first third.
    pub stacks: Vec<(String, StackKind)>,
    /// What holds the objects of each stack.
    pub cache: CacheKind,
    /// Bytes of each stack's cache; `None`: what the workload says.
    pub budget: Option<Bytes>,
    /// All times of the paper (control period 5 s, SLO window 60 s, SLO step 5 s) are divided by this, 1 to 100.
    pub time_scale: f64,
}

/// How far an experiment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Generates requests and builds the backends' data.
    Building,
    /// Measures the work of the backends.
    Checking,
    /// Fills the caches from the stream's prefix.
    Filling,
    /// Ready to run.
    Ready,
    /// Requests come.
    Running,
    /// Waits for the last requests.
    Draining,
    /// Over.
    Done,
}

/// Everything that can be seen while an experiment runs.
#[derive(Clone, Debug, Serialize)]
pub struct ExperimentView {
    /// How far it is.
    pub phase: Phase,
    /// Time since the first request could be due.
    pub elapsed: Nanos,
    /// Time until the last.
    pub duration: Nanos,
    /// The time scale.
    pub time_scale: f64,
    /// What the P99 should stay below; `None` until the calm third is over.
    pub objective_ms: Option<f64>,
    /// Share of the whole windows so far that missed the objective, by stack; `None` until there is one.
    pub violation_ratios: Vec<Option<f64>>,
    /// All stacks, in the order of the configuration; empty before the start.
    pub stacks: Vec<StackView>,
    /// Share of the processors' time that this process used.
    pub cpu_share: f64,
    /// P99 of how late requests were sent, milliseconds.
    pub lateness_ms_p99: f64,
}

/// Stacks that are filled, and the requests for them.
struct Cold {
    stacks: Vec<ColdStack>,
    arrivals: Arrivals,
}

/// What runs.
struct Live {
    clock: RunClock,
    stacks: Vec<Arc<Stack>>,
    cpu: CpuMeter,
}

/// A prepared experiment. Runs once; any thread may look at it or stop it meanwhile.
pub struct Experiment {
    seed: u64,
    time_scale: f64,
    cache: CacheKind,
    budget: Bytes,
    duration: Nanos,
    skipped: u64,
    dataset: Arc<Dataset>,
    check: MachineCheck,
    cold: Mutex<Option<Cold>>,
    live: OnceLock<Live>,
    phase: Mutex<Phase>,
    stop: Arc<AtomicBool>,
}

impl Experiment {
    /// Builds the data, measures the machine and fills the caches; some seconds of work at most for the demo. `progress`
    /// is told each phase as it begins.
    ///
    /// # Errors
    /// Whatever is wrong with configuration, trace, workload or machine.
    pub fn new(
        config: ExperimentConfig,
        progress: &mut dyn FnMut(Phase),
    ) -> Result<Self, ExperimentError> {
        let ExperimentConfig { source, seed, stacks, cache, budget, time_scale } = config;
        if !(1.0..=100.0).contains(&time_scale) {
            return Err(ExperimentError::TimeScale(time_scale));
        }
        let mut names: Vec<String> = stacks.iter().map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        if names.is_empty() || names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(ExperimentError::Stacks(names));
        }
        progress(Phase::Building);
        let Prepared { dataset, prefix, arrivals, measured, requests_per_second, skipped } =
            source.prepare(seed)?;
        let budget = budget.unwrap_or(dataset.workload().cache_per_server);
        let cold = |(name, kind)| {
            let config =
                StackConfig { name, kind, cache, budget, time_scale, queue_max: QUEUE_MAX };
            ColdStack::new(config, dataset.clone())
        };
        let stacks = stacks.into_iter().map(cold).collect::<Result<Vec<_>, _>>()?;
        progress(Phase::Checking);
        let check = MachineCheck::run(&dataset, stacks.len(), requests_per_second)?;
        let duration = match arrivals {
            Arrivals::Generated(_) => measured,
            Arrivals::Recorded(_) => measured.scaled_down(1.0 / check.slowdown), // all of it is sent
        };
        progress(Phase::Filling);
        fill(&stacks, &prefix)?;
        Ok(Self {
            seed,
            time_scale,
            cache,
            budget,
            duration,
            skipped,
            dataset,
            check,
            cold: Mutex::new(Some(Cold { stacks, arrivals })),
            live: OnceLock::new(),
            phase: Mutex::new(Phase::Ready),
            stop: Arc::new(AtomicBool::new(false)),
        })
    }

    /// Runs to the end of the requests, or until [`Self::stop`], and says what came of it. Blocks.
    ///
    /// # Errors
    /// When a stack cannot start.
    ///
    /// # Panics
    /// When it was run before.
    pub fn run(&self) -> Result<Summary, ExperimentError> {
        let cold = self.cold.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Cold { stacks, arrivals } = cold.expect("an experiment runs once");
        let threads = |what| move |source| ExperimentError::Threads { what, source };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.check.processors.clamp(2, 4))
            .thread_name("application")
            .enable_all()
            .build()
            .map_err(threads("the application servers"))?;
        let clock = RunClock::start();
        let start = |stack: ColdStack| {
            stack.start(self.check.slowdown, clock, Instant::ZERO + LEAD).map(Arc::new)
        };
        let stacks = stacks.into_iter().map(start).collect::<Result<Vec<_>, _>>()?;
        let cpu = CpuMeter::start(clock.now());
        let live = self.live.get_or_init(|| Live { clock, stacks, cpu });
        self.set_phase(Phase::Running);
        let send = sender(live.stacks.clone(), runtime.handle().clone());
        let pacing = Pacer::new(clock)
            .spawn(self.schedule(arrivals), self.stop.clone(), send)
            .map_err(threads("the load generator"))?;
        let pacing = pacing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let cpu = cpu.share(clock.now());
        self.set_phase(Phase::Draining);
        self.drain(live);
        for stack in &live.stacks {
            stack.settle();
        }
        let summary = self.summarise(live, &pacing, cpu.share);
        runtime.shutdown_timeout(Duration::from_secs(5));
        self.set_phase(Phase::Done);
        Ok(summary)
    }

    /// Ends the run early: what is in flight gets half a second. May be called from anywhere, and before the run.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// The present state.
    pub fn view(&self) -> ExperimentView {
        let phase = *self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let mut view = ExperimentView {
            phase,
            elapsed: Nanos::ZERO,
            duration: self.duration,
            time_scale: self.time_scale,
            objective_ms: None,
            violation_ratios: Vec::new(),
            stacks: Vec::new(),
            cpu_share: 0.0,
            lateness_ms_p99: 0.0,
        };
        let Some(live) = self.live.get() else { return view };
        let now = live.clock.now();
        view.elapsed = now.since(Instant::ZERO + LEAD).min(self.duration);
        view.stacks = live.stacks.iter().map(|stack| stack.view()).collect();
        view.cpu_share = live.cpu.share(now).share;
        let lateness = live.stacks[0].recorder().summary(now).lateness_us;
        view.lateness_ms_p99 = lateness.p99.unwrap_or(0.0) / 1e3;
        if view.elapsed.0 >= self.duration.0 / 3 {
            view.objective_ms = summary::objective_ms(&view.stacks[0].slo, self.duration);
        }
        let ratio = |stack: &StackView| {
            summary::violation_ratio(&stack.slo, self.duration, view.objective_ms)
        };
        view.violation_ratios = view.stacks.iter().map(ratio).collect();
        view
    }

    /// The stacks; empty before the start.
    pub fn stacks(&self) -> &[Arc<Stack>] {
        self.live.get().map_or(&[], |live| &live.stacks)
    }

    /// The workload that the backends serve.
    pub fn workload(&self) -> &Workload {
        self.dataset.workload()
    }

    /// What the machine can do.
    pub const fn check(&self) -> &MachineCheck {
        &self.check
    }

    /// Due times from [`LEAD`] on, stretched by the slowdown.
    fn schedule(
        &self,
        arrivals: Arrivals,
    ) -> Schedule<impl Iterator<Item = (Instant, Arc<Request>)> + std::marker::Send + use<>> {
        let slowdown = self.check.slowdown;
        let due = move |request: &Request| Instant((request.due.0 as f64 * slowdown) as u64) + LEAD;
        let end = match arrivals {
            Arrivals::Generated(_) => Instant::ZERO + LEAD + self.duration,
            Arrivals::Recorded(_) => Instant(u64::MAX),
        };
        Schedule::new(arrivals.map(move |request| (due(&request), request))).until(end)
    }

    fn set_phase(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    /// Waits until no request is in flight; no longer than all can last.
    fn drain(&self, live: &Live) {
        let timeouts = self.dataset.workload().backends.iter().map(|spec| spec.timeout.0);
        let stages_max = 2; // a request of more stages, all of which time out, counts as unfinished
        let patience = Duration::from_nanos(timeouts.max().unwrap_or(0) * stages_max);
        let begin = std::time::Instant::now();
        let in_flight = || live.stacks.iter().any(|stack| stack.recorder().in_flight() > 0);
        while in_flight() {
            let waited = begin.elapsed();
            if waited > patience || (self.stop.load(Relaxed) && waited > INTERRUPTED_DRAIN) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn summarise(&self, live: &Live, pacing: &PacingReport, cpu_share: f64) -> Summary {
        let seconds = pacing.ended.since(Instant::ZERO + LEAD).as_secs_f64();
        let (catalogue, share) = source::smallest_catalogue(&self.dataset, self.budget);
        Summary::new(
            summary::Setting {
                seed: self.seed,
                workload: self.dataset.workload().name.clone(),
                seconds,
                duration: self.duration,
                time_scale: self.time_scale,
                interrupted: pacing.stopped,
                cache: self.cache,
                budget: self.budget,
                smallest_catalogue: catalogue,
                smallest_catalogue_to_budget: share,
                skipped_lines: self.skipped,
            },
            &live.stacks,
            pacing,
            MachineSummary { cpu_share, check: self.check.clone() },
            live.clock.now(),
        )
    }
}

/// Starts a request at all stacks; which is first alternates.
fn sender(
    stacks: Vec<Arc<Stack>>,
    runtime: tokio::runtime::Handle,
) -> impl FnMut(Send<Arc<Request>>) + std::marker::Send {
    move |send| {
        let arrived = tokio::time::Instant::now();
        for turn in 0..stacks.len() {
            let stack = &stacks[(send.index as usize + turn) % stacks.len()];
            let now = if turn == 0 { send.now } else { stack.now() };
            // A refused request is counted by the recorder.
            let Ok(ticket) = stack.recorder().sent(send.due, now) else { continue };
            let (stack, request) = (stack.clone(), send.payload.clone());
            runtime.spawn(async move { stack.serve(&request, ticket, arrived).await });
        }
    }
}

/// Fills all caches from the same prefix, each on a thread of its own.
fn fill(stacks: &[ColdStack], prefix: &[Request]) -> Result<(), StackError> {
    std::thread::scope(|scope| {
        let fill = |stack: &ColdStack| stack.prefill(prefix);
        let threads: Vec<_> = stacks.iter().map(|stack| scope.spawn(move || fill(stack))).collect();
        threads.into_iter().try_for_each(|t| t.join().expect("filling a cache does not panic"))
    })
}
