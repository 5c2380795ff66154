//! The clock of a run, and what a pacer needs of a clock.
//!
//! Place in the flow: below everything else in this crate. One clock is started per run and copied to all parts of it,
//! so that due times, sends and ends are moments of the same clock.

use nix::time::{ClockId, clock_gettime};
use robinhood_stats::{Instant, Nanos};

/// What a pacer needs of time. Tests drive the pacer with a clock of their own.
pub trait Timer {
    /// The present moment. It never goes back.
    fn now(&mut self) -> Instant;
    /// Gives the processor away until `due`, or a little longer; may return early.
    fn sleep_until(&mut self, due: Instant);
    /// Lets a few nanoseconds pass without giving the processor away.
    fn spin(&mut self);
}

/// The monotonic clock of the machine, with its zero at the start of the run. Copies agree with each other.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    origin_ns: u64,
}

impl RunClock {
    /// A clock that reads [`Instant::ZERO`] now.
    pub fn start() -> Self {
        Self { origin_ns: monotonic_ns() }
    }

    /// What the monotonic clock of the system read at the start.
    pub const fn started_at(&self) -> Nanos {
        Nanos(self.origin_ns)
    }

    /// Time since the start.
    #[inline]
    pub fn now(&self) -> Instant {
        Instant(monotonic_ns().saturating_sub(self.origin_ns))
    }

    /// Sleeps to an absolute moment, so that neither the time that the call takes nor an interruption adds up.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn sleep_to(self, due: Instant) {
        use nix::sys::time::TimeSpec;
        use nix::time::{ClockNanosleepFlags, clock_nanosleep};

        let due_ns = self.origin_ns.saturating_add(due.0);
        let seconds = i64::try_from(due_ns / 1_000_000_000).expect("2^64 ns are 585 years");
        let nanos = i64::try_from(due_ns % 1_000_000_000).expect("below a second");
        // An error is an interruption by a signal: returning early is allowed.
        let _ = clock_nanosleep(
            ClockId::CLOCK_MONOTONIC,
            ClockNanosleepFlags::TIMER_ABSTIME,
            &TimeSpec::new(seconds, nanos),
        );
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn sleep_to(self, due: Instant) {
        std::thread::sleep(std::time::Duration::from_nanos(due.since(self.now()).0));
    }
}

impl Timer for RunClock {
    #[inline]
    fn now(&mut self) -> Instant {
        Self::now(self)
    }

    fn sleep_until(&mut self, due: Instant) {
        self.sleep_to(due);
    }

    #[inline]
    fn spin(&mut self) {
        std::hint::spin_loop();
    }
}

/// Processor time of the calling thread; zero where the system cannot tell.
pub(crate) fn thread_cpu() -> Nanos {
    nanos_of(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(Nanos::ZERO)
}

/// Reading of the monotonic clock, in nanoseconds since some fixed moment.
fn monotonic_ns() -> u64 {
    nanos_of(ClockId::CLOCK_MONOTONIC).expect("every Unix has a monotonic clock").0
}

/// Reading of any clock; `None` where the system does not have it.
pub(crate) fn nanos_of(clock: ClockId) -> Option<Nanos> {
    let time = clock_gettime(clock).ok()?;
    let seconds = u64::try_from(time.tv_sec()).ok()?;
    let nanos = u64::try_from(time.tv_nsec()).ok()?;
    Some(Nanos(seconds * 1_000_000_000 + nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_clock_agree_and_never_go_back() {
        let clock = RunClock::start();
        let copy = clock;
        let mut before = Instant::ZERO;
        for _ in 0..1_000 {
            let (first, second) = (clock.now(), copy.now());
            assert!(before <= first && first <= second, "{before:?} {first:?} {second:?}");
            before = second;
        }
    }

    #[test]
    fn a_sleep_does_not_end_before_its_moment_unless_interrupted() {
        let mut clock = RunClock::start();
        let due = clock.now() + Nanos::from_millis(2);
        while clock.now() < due {
            clock.sleep_until(due);
        }
        assert!(clock.now() >= due);
        clock.sleep_until(Instant::ZERO); // the past: returns at once
    }
}
