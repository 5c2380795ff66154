//! Processor time of this process: whether the generator and an embedded system under test had room to breathe.
//!
//! Place in the flow: beside a run. A run in which the process used most of the machine measured the machine.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use robinhood_stats::{Instant, Nanos};
use serde::Serialize;

/// Measures from a moment on. Keep copies for several stretches.
#[derive(Clone, Copy, Debug)]
pub struct CpuMeter {
    since: Instant,
    cpu_before: Nanos,
    processors: usize,
}

/// Processor time over a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CpuShare {
    /// User and system time of all threads of the process, in seconds.
    pub cpu_seconds: f64,
    /// Length of the stretch, in seconds.
    pub wall_seconds: f64,
    /// Processors that the process may use.
    pub processors: usize,
    /// Part of the processors' time that was used, from 0 to 1.
    pub share: f64,
}

impl CpuMeter {
    /// Measures from `now` on.
    pub fn start(now: Instant) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self { since: now, cpu_before: process_cpu(), processors }
    }

    /// What was used from the start of the meter to `now`.
    pub fn share(&self, now: Instant) -> CpuShare {
        let cpu = process_cpu().saturating_sub(self.cpu_before);
        share_of(cpu, now.since(self.since), self.processors)
    }
}

/// User and system time of all threads of this process so far.
///
/// # Panics
/// When the system has no count for the calling process, which no Unix does.
pub fn process_cpu() -> Nanos {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process may ask about itself");
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Nanos::from_micros(u64::try_from(micros).unwrap_or(0))
}

fn share_of(cpu: Nanos, wall: Nanos, processors: usize) -> CpuShare {
    let available = wall.as_secs_f64() * processors as f64;
    CpuShare {
        cpu_seconds: cpu.as_secs_f64(),
        wall_seconds: wall.as_secs_f64(),
        processors,
        share: if available > 0.0 { (cpu.as_secs_f64() / available).min(1.0) } else { 0.0 },
    }
}

/// Measures from a moment on which part of the processors' time the host of a virtual machine gave to others.
#[derive(Clone, Copy, Debug)]
pub struct StealMeter {
    before: Option<(u64, u64)>,
}

impl StealMeter {
    /// Measures from now on.
    pub fn start() -> Self {
        Self { before: all_and_stolen() }
    }

    /// The part since the start, from 0 to 1; 0 where the system does not tell.
    pub fn share(&self) -> f64 {
        match (self.before, all_and_stolen()) {
            (Some((all_before, stolen_before)), Some((all, stolen))) if all > all_before => {
                stolen.saturating_sub(stolen_before) as f64 / (all - all_before) as f64
            }
            _ => 0.0,
        }
    }
}

/// Ticks of all processors so far, and those of them that were stolen.
fn all_and_stolen() -> Option<(u64, u64)> {
    ticks(std::fs::read_to_string("/proc/stat").ok()?.lines().next()?)
}

/// Of the line `cpu user nice system idle iowait irq softirq steal guest guest_nice`, where guests are counted in user already.
fn ticks(line: &str) -> Option<(u64, u64)> {
    let counts = line.strip_prefix("cpu ")?.split_ascii_whitespace().take(8);
    let counts: Vec<u64> = counts.map(|count| count.parse().ok()).collect::<Option<_>>()?;
    Some((counts.iter().sum(), *counts.get(7)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_all_processors_and_never_over_one() {
        let share = |cpu_ms, wall_ms, processors| {
            share_of(Nanos::from_millis(cpu_ms), Nanos::from_millis(wall_ms), processors).share
        };
        assert_eq!(share(500, 1_000, 2), 0.25);
        assert_eq!(share(2_001, 1_000, 2), 1.0); // the two clocks are read one after the other
        assert_eq!(share(5, 0, 2), 0.0);
    }

    #[test]
    fn stolen_time_is_the_eighth_count_and_guests_are_not_counted_twice() {
        assert_eq!(ticks("cpu  10 1 5 80 2 0 0 2 9 9"), Some((100, 2)));
        assert_eq!(ticks("cpu  10 1"), None);
        assert_eq!(ticks("intr 1 2 3 4 5 6 7 8"), None);
        assert!((0.0..=1.0).contains(&StealMeter::start().share()));
    }

    #[test]
    fn work_shows_in_the_processor_time_of_the_process() {
        let before = process_cpu();
        let mut sum = 0u64;
        while process_cpu().saturating_sub(before) < Nanos::from_millis(5) {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
        }
        let meter = CpuMeter::start(Instant(7));
        assert_eq!(meter.share(Instant(7)).wall_seconds, 0.0);
    }
}
