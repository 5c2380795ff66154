//! The paper's service level: the P99 of the last 60 s, taken every 5 s, against an objective.
//!
//! Source: RobinHood (OSDI'18) section 5. Place in the flow: behind the request, in the simulator and in live runs alike.

use std::collections::VecDeque;

use crate::histogram::Histogram;
use crate::units::{Instant, Nanos};

/// Percentiles of one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SloObservation {
    /// End of the window.
    pub at: Instant,
    /// Requests in the window.
    pub requests: u64,
    /// Median latency.
    pub p50: Nanos,
    /// 90th percentile.
    pub p90: Nanos,
    /// 99th percentile.
    pub p99: Nanos,
    /// The percentile that the objective goes by: the 99th unless [`SloMeter::with_tail`] names another.
    pub tail: Nanos,
}

/// The most observations that wait to be polled.
const OBSERVATIONS_MAX: usize = 16_384;
/// The end of time: a step that would reach it never ends.
const NEVER: Instant = Instant(u64::MAX);

/// Slides a window over latencies and observes it at every step. Steps without a request in the window give no observation.
/// Observations that nobody polls are kept up to 16,384; then the oldest goes.
#[derive(Clone, Debug)]
pub struct SloMeter {
    step: Nanos,
    steps_per_window: usize,
    tail_quantile: f64,
    step_end: Instant,
    current: Histogram,
    closed: VecDeque<Histogram>,
    observations: VecDeque<SloObservation>,
}

impl SloMeter {
    /// A meter from `start` on: the first observation is made one step later, over what there is by then. A window that is
    /// no multiple of the step is shortened to whole steps.
    ///
    /// # Panics
    /// When `step` is zero or longer than `window`.
    pub fn new(start: Instant, window: Nanos, step: Nanos) -> Self {
        assert!(
            step > Nanos::ZERO && step <= window,
            "a step of {step} does not fit a window of {window}"
        );
        Self {
            step,
            steps_per_window: (window.0 / step.0) as usize,
            tail_quantile: 0.99,
            step_end: start + step,
            current: Histogram::precise(),
            closed: VecDeque::new(),
            observations: VecDeque::new(),
        }
    }

    /// The meter with another percentile as the tail, as a quantile from 0 to 1.
    ///
    /// # Panics
    /// When `quantile` is outside 0..=1.
    #[must_use]
    pub fn with_tail(mut self, quantile: f64) -> Self {
        assert!((0.0..=1.0).contains(&quantile), "a quantile is from 0 to 1, not {quantile}");
        self.tail_quantile = quantile;
        self
    }

    /// Counts one finished request. Completions may be a little out of order; one from before the current step counts
    /// in the current step.
    pub fn handle_completion(&mut self, now: Instant, latency: Nanos) {
        self.handle_timeout(now);
        self.current.add_nanos(latency);
    }

    /// Closes all steps that ended by `now`. However far that is ahead, the work is that of one window.
    pub fn handle_timeout(&mut self, now: Instant) {
        while now >= self.step_end && self.step_end < NEVER {
            if self.is_empty() {
                let steps = now.since(self.step_end).0 / self.step.0 + 1;
                self.step_end = self.step_end + Nanos(self.step.0.saturating_mul(steps));
            } else {
                self.close_step();
            }
        }
    }

    /// Whether no step up to now has a request that a window may still see.
    fn is_empty(&self) -> bool {
        self.current.is_empty() && self.closed.iter().all(Histogram::is_empty)
    }

    /// The next observation, oldest first.
    pub fn poll_observation(&mut self) -> Option<SloObservation> {
        self.observations.pop_front()
    }

    fn close_step(&mut self) {
        let reused =
            if self.closed.len() == self.steps_per_window { self.closed.pop_front() } else { None };
        let mut next = reused.unwrap_or_else(Histogram::precise);
        next.clear();
        self.closed.push_back(std::mem::replace(&mut self.current, next));
        let mut window = Histogram::precise();
        for step in &self.closed {
            window.merge(step);
        }
        if !window.is_empty() {
            if self.observations.len() == OBSERVATIONS_MAX {
                self.observations.pop_front();
            }
            self.observations.push_back(SloObservation {
                at: self.step_end,
                requests: window.count(),
                p50: window.quantile_nanos(0.50),
                p90: window.quantile_nanos(0.90),
                p99: window.quantile_nanos(0.99),
                tail: window.quantile_nanos(self.tail_quantile),
            });
        }
        self.step_end = self.step_end + self.step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_slides_by_steps_and_forgets() {
        let second = |s: u64| Instant(s * 1_000_000_000);
        let mut meter = SloMeter::new(Instant::ZERO, Nanos::from_secs(60), Nanos::from_secs(5));
        meter.handle_completion(second(1), Nanos::from_millis(900));
        for s in 2..200 {
            meter.handle_completion(second(s), Nanos::from_millis(10));
        }
        meter.handle_timeout(second(200));
        let seen: Vec<_> = std::iter::from_fn(|| meter.poll_observation()).collect();
        assert_eq!(seen.len(), 40);
        assert_eq!((seen[0].at, seen[0].requests), (second(5), 4));
        assert_eq!((seen[11].at, seen[11].requests), (second(60), 59));
        assert!(seen[11].p99 >= Nanos::from_millis(890) && seen[12].p99 <= Nanos::from_millis(11));
        assert_eq!(seen[39].requests, 60);
    }

    #[test]
    fn the_tail_is_the_p99_unless_another_percentile_is_named() {
        let window = Nanos::from_secs(5);
        let plain = SloMeter::new(Instant::ZERO, window, window);
        let [usual, median] = [plain.clone(), plain.with_tail(0.5)].map(|mut meter| {
            for i in 1..=1_000 {
                meter.handle_completion(Instant(i), Nanos(i));
            }
            meter.handle_timeout(Instant(window.0));
            meter.poll_observation().unwrap()
        });
        assert_eq!((usual.tail, usual.p99), (Nanos(990), Nanos(990)));
        assert_eq!((median.tail, median.p99, median.p50), (Nanos(500), Nanos(990), Nanos(500)));
    }

    #[test]
    fn steps_without_requests_give_no_observation() {
        let mut meter = SloMeter::new(Instant::ZERO, Nanos::from_secs(10), Nanos::from_secs(5));
        meter.handle_completion(Instant(0), Nanos::from_millis(1));
        meter.handle_timeout(Instant(100_000_000_000));
        let count = std::iter::from_fn(|| meter.poll_observation()).count();
        assert_eq!(count, 2);
    }

    #[test]
    fn time_that_jumps_costs_no_more_than_a_window_and_steps_stay_in_their_places() {
        let second = |s: u64| Instant(s * 1_000_000_000);
        let mut meter = SloMeter::new(Instant::ZERO, Nanos::from_secs(10), Nanos::from_secs(5));
        meter.handle_completion(second(1), Nanos::from_millis(1));
        meter.handle_timeout(second(9_000_000_003));
        meter.handle_completion(second(9_000_000_004), Nanos::from_millis(1));
        meter.handle_timeout(Instant(u64::MAX));
        meter.handle_completion(Instant(u64::MAX), Nanos::from_millis(1));
        let ends: Vec<_> =
            std::iter::from_fn(|| meter.poll_observation()).map(|seen| seen.at).collect();
        assert_eq!(ends, [5, 10, 9_000_000_005, 9_000_000_010].map(second));
    }

    #[test]
    fn observations_that_nobody_polls_are_bounded_and_the_newest_stay() {
        let step = Nanos(1_000);
        let mut meter = SloMeter::new(Instant::ZERO, step, step);
        for i in 0..OBSERVATIONS_MAX as u64 + 3 {
            meter.handle_completion(Instant(i * step.0), Nanos(i));
        }
        meter.handle_timeout(Instant((OBSERVATIONS_MAX as u64 + 3) * step.0));
        assert_eq!(meter.poll_observation().unwrap().at, Instant(4 * step.0));
        assert_eq!(std::iter::from_fn(|| meter.poll_observation()).count(), OBSERVATIONS_MAX - 1);
    }

    #[test]
    fn a_window_of_broken_steps_is_shortened_to_whole_ones() {
        let second = |s: u64| Instant(s * 1_000_000_000);
        let mut meter = SloMeter::new(Instant::ZERO, Nanos::from_secs(14), Nanos::from_secs(5));
        meter.handle_completion(second(1), Nanos::from_millis(1));
        meter.handle_timeout(second(60));
        let ends = std::iter::from_fn(|| meter.poll_observation()).map(|seen| seen.at);
        assert!(ends.eq([5, 10].map(second)));
    }
}
