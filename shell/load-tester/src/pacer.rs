//! Keeps due times: sleep until shortly before, spin through the rest, call back.
//!
//! Place in the flow: schedule -> **pacer** -> callback of the caller, which starts the request. Every request of the
//! schedule is handed over exactly once; one whose time has passed goes at once. The thread that runs this is itself a
//! queue with the callback as its service time, so lateness has two parts: what the timer adds (no request waited in
//! front) and what waiting for earlier callbacks adds. Both are reported.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use robinhood_stats::{Histogram, Instant, Nanos};

use crate::clock::{RunClock, Timer, thread_cpu};
use crate::schedule::Schedule;
use crate::summary::Percentiles;
use crate::thread::{Priority, ThreadSetup};
use crate::wake::WakeMargin;

/// Sleeps are cut into pieces of this length, so that a request to stop is seen.
const SLEEP_MAX: Nanos = Nanos::from_millis(20);

/// One request whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send<P> {
    /// Number of the request in the schedule, from 0.
    pub index: u64,
    /// When it should be sent. Latency counts from here.
    pub due: Instant,
    /// When the pacer handed it over: `due` plus lateness.
    pub now: Instant,
    /// What the schedule holds for it.
    pub payload: P,
}

/// What a pacer did.
#[derive(Clone, Debug)]
pub struct PacingReport {
    /// Requests drawn from the schedule: `sent + unsent`.
    pub scheduled: u64,
    /// Requests handed to the callback.
    pub sent: u64,
    /// Requests drawn but not handed over because the run was stopped: 0 or 1. The rest of the schedule was not drawn.
    pub unsent: u64,
    /// How far the pacer was behind its schedule when it was stopped; zero when it was not behind.
    pub behind: Nanos,
    /// Handing over less due time, for all requests sent.
    pub lateness: Histogram,
    /// The same for requests that the pacer waited for: what sleeping and spinning add.
    pub timer_lateness: Histogram,
    /// Whether the stop flag ended the run before the schedule did.
    pub stopped: bool,
    /// When the last request was handed over or the run was stopped.
    pub ended: Instant,
    /// Processor time of the pacing thread, callbacks included; zero where the system cannot tell.
    pub cpu: Nanos,
    /// What the thread was granted.
    pub thread: ThreadSetup,
}

impl PacingReport {
    /// Percentiles of [`lateness`](Self::lateness), in microseconds.
    pub fn lateness_us(&self) -> Percentiles {
        Percentiles::of(&self.lateness)
    }

    /// Percentiles of [`timer_lateness`](Self::timer_lateness), in microseconds.
    pub fn timer_lateness_us(&self) -> Percentiles {
        Percentiles::of(&self.timer_lateness)
    }
}

/// How to pace: built once, run once.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    clock: RunClock,
    spin_max: Nanos,
    cpu: Option<usize>,
    priority: Priority,
}

impl Pacer {
    /// A pacer on the given clock: spins at most 60 us for a request, is pinned nowhere, asks for real-time priority.
    pub const fn new(clock: RunClock) -> Self {
        Self { clock, spin_max: Nanos::from_micros(60), cpu: None, priority: Priority::RealTime }
    }

    /// The longest time to spin for one request, 60 us by default; zero means to sleep only. How long it really spins
    /// follows what sleeps turn out to need. Spinning costs processor time that a machine with few processors takes from
    /// the system under test, and a real-time thread that uses over 95 % of a processor is stopped by Linux for up to
    /// 50 ms: give less above 50,000 requests a second.
    #[must_use]
    pub const fn spin_max(mut self, spin_max: Nanos) -> Self {
        self.spin_max = spin_max;
        self
    }

    /// Pins the thread of [`spawn`](Self::spawn) to one processor, numbered from 0.
    #[must_use]
    pub const fn pin_to(mut self, cpu: usize) -> Self {
        self.cpu = Some(cpu);
        self
    }

    /// The priority to ask for in [`spawn`](Self::spawn), real-time by default: on a machine that is busy anything else
    /// is late by the time slice of whoever runs. Threads that the callback starts inherit it: start them before.
    #[must_use]
    pub const fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Paces on a thread of its own, set up as asked as far as the system permits; what was refused is in
    /// [`PacingReport::thread`]. A panic of the callback or the schedule comes out of `join`.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn spawn<P, I, F>(
        self,
        schedule: Schedule<I>,
        stop: Arc<AtomicBool>,
        send: F,
    ) -> io::Result<JoinHandle<PacingReport>>
    where
        I: Iterator<Item = (Instant, P)> + std::marker::Send + 'static,
        F: FnMut(Send<P>) + std::marker::Send + 'static,
    {
        std::thread::Builder::new().name("pacer".to_owned()).spawn(move || {
            let thread = ThreadSetup::apply(self.cpu, self.priority);
            PacingReport { thread, ..self.run(schedule, &stop, send) }
        })
    }

    /// Paces on the calling thread as it is, until the schedule ends or `stop` is set (seen within 20 ms).
    pub fn run<P, I, F>(self, schedule: Schedule<I>, stop: &AtomicBool, send: F) -> PacingReport
    where
        I: Iterator<Item = (Instant, P)>,
        F: FnMut(Send<P>),
    {
        let cpu_before = thread_cpu();
        let mut clock = self.clock;
        let mut report = pace(&mut clock, self.spin_max, schedule, stop, send);
        report.cpu = thread_cpu().saturating_sub(cpu_before);
        report
    }
}

/// The pacing loop over any clock.
pub(crate) fn pace<P, I, F>(
    timer: &mut impl Timer,
    spin_max: Nanos,
    schedule: Schedule<I>,
    stop: &AtomicBool,
    mut send: F,
) -> PacingReport
where
    I: Iterator<Item = (Instant, P)>,
    F: FnMut(Send<P>),
{
    let mut report = PacingReport {
        scheduled: 0,
        sent: 0,
        unsent: 0,
        behind: Nanos::ZERO,
        lateness: Histogram::precise(),
        timer_lateness: Histogram::precise(),
        stopped: false,
        ended: timer.now(),
        cpu: Nanos::ZERO,
        thread: ThreadSetup::default(),
    };
    let mut margin = WakeMargin::new(spin_max);
    for (due, payload) in schedule {
        report.scheduled += 1;
        let (now, waited) = wait(timer, due, &mut margin, stop);
        report.ended = now;
        if stop.load(Ordering::Relaxed) {
            report.stopped = true;
            report.unsent += 1;
            report.behind = now.since(due);
            break;
        }
        let lateness = now.since(due);
        report.lateness.add_nanos(lateness);
        if waited {
            report.timer_lateness.add_nanos(lateness);
        }
        send(Send { index: report.sent, due, now, payload });
        report.sent += 1;
    }
    assert_eq!(report.scheduled, report.sent + report.unsent, "a request was lost in pacing");
    report
}

/// Waits for `due` or for the stop flag: the moment after the wait, and whether there was one.
fn wait(
    timer: &mut impl Timer,
    due: Instant,
    margin: &mut WakeMargin,
    stop: &AtomicBool,
) -> (Instant, bool) {
    let mut now = timer.now();
    let waited = now < due;
    let early = margin.margin(); // the same through one wait, so that it ends with one sleep
    while now < due && !stop.load(Ordering::Relaxed) {
        if due.since(now) > early {
            let wake = due.saturating_sub(early).min(now + SLEEP_MAX);
            timer.sleep_until(wake);
            now = timer.now();
            margin.handle_oversleep(now.since(wake));
        } else {
            timer.spin();
            now = timer.now();
        }
    }
    (now, waited)
}

#[cfg(test)]
mod tests;
