//! The P99 of a stack over a sliding window, and its history.

use std::sync::{Mutex, PoisonError};

use robinhood_stats::{Instant, Nanos, SloMeter};
use serde::Serialize;

/// Windows that are kept: a day at the paper's step, or the last ones of a longer run.
const POINTS_MAX: usize = 20_000;

/// Percentiles of the requests that ended in one window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SloPoint {
    /// End of the window, in seconds since the start.
    pub seconds: f64,
    /// Whether the window lies wholly after the start: only such windows are judged.
    pub whole: bool,
    /// Requests in it.
    pub requests: u64,
    /// Median latency, milliseconds.
    pub p50_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
}

pub(super) struct ServiceLevel {
    start: Instant,
    window: Nanos,
    state: Mutex<State>,
}

struct State {
    meter: SloMeter,
    points: std::collections::VecDeque<SloPoint>,
}

impl ServiceLevel {
    pub(super) fn new(start: Instant, window: Nanos, step: Nanos) -> Self {
        let meter = SloMeter::new(start, window, step);
        Self { start, window, state: Mutex::new(State { meter, points: [].into() }) }
    }

    pub(super) fn handle_completion(&self, now: Instant, latency: Nanos) {
        self.state().meter.handle_completion(now, latency);
    }

    /// All windows that ended by `now`.
    pub(super) fn points(&self, now: Instant) -> Vec<SloPoint> {
        let mut state = self.state();
        state.meter.handle_timeout(now);
        while let Some(seen) = state.meter.poll_observation() {
            if state.points.len() == POINTS_MAX {
                state.points.pop_front();
            }
            state.points.push_back(SloPoint {
                seconds: seen.at.since(self.start).as_secs_f64(),
                whole: seen.at.since(self.start) >= self.window,
                requests: seen.requests,
                p50_ms: seen.p50.as_millis_f64(),
                p90_ms: seen.p90.as_millis_f64(),
                p99_ms: seen.p99.as_millis_f64(),
            });
        }
        state.points.iter().copied().collect()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_reach_before_the_start_are_marked() {
        let second = |s: u64| Instant(s * 1_000_000_000);
        let level = ServiceLevel::new(second(1), Nanos::from_secs(3), Nanos::from_secs(1));
        for s in 1..8 {
            level.handle_completion(second(s), Nanos::from_millis(s));
        }
        let points = level.points(second(7));
        let whole: Vec<bool> = points.iter().map(|point| point.whole).collect();
        assert_eq!(whole, [false, false, true, true, true, true]);
        assert_eq!((points[2].seconds, points[2].requests), (3.0, 3));
        assert!((points[5].p99_ms - 6.0).abs() < 0.01, "{points:?}");
        assert_eq!(level.points(second(7)), points, "asking does not forget");
    }
}
