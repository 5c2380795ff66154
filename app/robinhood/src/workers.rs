//! Jobs on as many threads as asked for, one job never on two: results do not depend on how many there are.

use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Progress is counted in millionths of a job.
const WHOLE_JOB: u64 = 1_000_000;

/// How much of one job is done.
pub(crate) struct Part<'a> {
    done: &'a AtomicU64,
    counted: u64,
}

impl Part<'_> {
    /// Says that so much is done, from 0 to 1; less than before counts as before.
    pub(crate) fn reach(&mut self, share: f64) {
        let part = ((share * WHOLE_JOB as f64) as u64).min(WHOLE_JOB);
        self.done.fetch_add(part.saturating_sub(self.counted), Ordering::Relaxed);
        self.counted = part.max(self.counted);
    }
}

/// Does the jobs in their order, so many at once, and gives what came of them, in the order in which they ended. After `stop` is set no further one
/// begins. `draw`: a line on standard error with the time left.
pub(crate) fn run<J: Sync, R: Send>(
    jobs: &[J],
    threads: usize,
    stop: &AtomicBool,
    draw: bool,
    work: impl Fn(&J, &mut Part<'_>) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = AtomicU64::new(0);
    let finished = Mutex::new(Vec::new());
    let running = AtomicUsize::new(threads.min(jobs.len()));
    std::thread::scope(|scope| {
        for _ in 0..running.load(Ordering::Relaxed) {
            scope.spawn(|| {
                let _gone = Gone(&running);
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let mut part = Part { done: &done, counted: 0 };
                    let result = work(job, &mut part);
                    part.reach(1.0);
                    finished.lock().expect("no thread panics with the lock").push(result);
                }
            });
        }
        if draw {
            show_progress(&done, jobs.len() as u64 * WHOLE_JOB, &running);
        }
    });
    finished.into_inner().expect("no thread panicked")
}

/// A thread that ends, also by a panic: the line of progress waits for nobody then.
struct Gone<'a>(&'a AtomicUsize);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One line on standard error, drawn over itself, with the time left.
fn show_progress(done: &AtomicU64, whole: u64, running: &AtomicUsize) {
    let started = Instant::now();
    let mut error = std::io::stderr();
    while running.load(Ordering::Relaxed) > 0 {
        std::thread::sleep(Duration::from_millis(100));
        let share = done.load(Ordering::Relaxed) as f64 / whole as f64;
        if share > 0.0 {
            let left_s = started.elapsed().as_secs_f64() * (1.0 - share) / share;
            let _ = write!(error, "\r{:40}", progress_line(share, left_s));
            let _ = error.flush();
        }
    }
    let _ = write!(error, "\r{:40}\r", "");
}

fn progress_line(share: f64, left_s: f64) -> String {
    let left = match left_s {
        ..100.0 => format!("{left_s:.0} s"),
        ..6_000.0 => format!("{:.0} min", left_s / 60.0),
        _ => format!("{:.1} h", left_s / 3_600.0),
    };
    format!("{:3.0} %, {left} left", share * 100.0)
}

/// As many as there are processors.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_in_a_unit_that_people_read() {
        assert_eq!(progress_line(0.031, 14_400.0), "  3 %, 4.0 h left");
        assert_eq!(progress_line(0.5, 600.0), " 50 %, 10 min left");
        assert_eq!(progress_line(0.999, 0.7), "100 %, 1 s left");
    }

    #[test]
    fn every_job_is_done_once_and_none_after_a_stop() {
        let stop = AtomicBool::new(false);
        let jobs: Vec<u32> = (0..100).collect();
        let mut results = run(&jobs, 3, &stop, false, |&job, _| job);
        results.sort_unstable();
        assert_eq!(results, jobs);
        let until = |&job: &u32, _: &mut Part<'_>| {
            stop.fetch_or(job == 10, Ordering::Relaxed);
            job
        };
        assert_eq!(run(&jobs, 1, &stop, false, until), (0..=10).collect::<Vec<_>>());
    }
}
