//! How late a client with a perfect timer would be.
//!
//! Place in the flow: beside the measured lateness in results and pictures. A client is a queue: sending a request and reading an answer
//! takes it a while, and what comes due in that time waits. The floor is the wait in a queue with Poisson arrivals and that
//! time as its service (M/D/1). A second floor knows what the machine took from the client while it waited, too: the lateness of a
//! perfect client on this machine.

use robinhood_queueing::{Load, Mdc};
use robinhood_stats::{Histogram, Nanos};
use robinhood_workload::{Draws, Purpose, Stream};

use crate::engine::interruptions::Interruptions;
use crate::summary::Percentiles;

/// The distribution of that wait.
#[derive(Clone, Debug)]
pub struct LatenessFloor {
    queue: Mdc,
    time_per_request_s: f64,
}

impl LatenessFloor {
    /// Of one client that sends `rate_per_s` requests a second, each of which costs it `time_per_request_s` seconds. `None` when the cost is not
    /// known, and for a client that is busier than a queue can be: there is no steady state.
    pub fn new(rate_per_s: f64, time_per_request_s: Option<f64>) -> Option<Self> {
        let time_per_request_s = time_per_request_s?;
        let load = Load::new(1, rate_per_s * time_per_request_s).ok()?;
        Some(Self { queue: Mdc::new(load).ok()?, time_per_request_s })
    }

    /// In microseconds.
    ///
    /// # Panics
    /// When `quantile` is not from 0 to below 1.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        self.queue.wait_quantile(quantile) * self.time_per_request_s * 1e6
    }

    /// The usual percentiles, `None` where [`new`](Self::new) gives none. There is no maximum.
    pub fn percentiles_us(rate_per_s: f64, time_per_request_s: Option<f64>) -> Percentiles {
        let floor = Self::new(rate_per_s, time_per_request_s);
        let at = |quantile| floor.as_ref().map(|floor| floor.quantile_us(quantile));
        Percentiles { p50: at(0.5), p90: at(0.9), p99: at(0.99), p99_9: at(0.999), max: None }
    }
}

/// Requests of the simulated client.
const SIMULATED: u64 = 300_000;
const SIMULATION_SEED: u64 = 1;

/// The lateness of a client with a perfect timer whose processor is interrupted as this one was: the wait in a queue whose server takes
/// `time_per_request_s` for a request and now and then is away. Interruptions come at random moments, with the lengths that were seen. From a
/// simulated run of 300,000 requests, always the same one.
///
/// `None` everywhere when nothing is known, nothing was watched or the client would never be idle.
pub fn interrupted_percentiles_us(
    rate_per_s: f64,
    time_per_request_s: Option<f64>,
    interruptions: &Interruptions,
) -> Percentiles {
    let share = interruptions.share();
    let Some(time_per_request_s) = time_per_request_s else { return Percentiles::default() };
    // The measured time of a request holds the interruptions that fell into it.
    let work_ns = time_per_request_s * 1e9 * (1.0 - share);
    let load = rate_per_s * work_ns / 1e9 + share;
    if interruptions.watched == Nanos::ZERO || rate_per_s <= 0.0 || load >= 1.0 {
        return Percentiles::default();
    }
    let lateness = Absences::new(interruptions).simulate(1e9 / rate_per_s, work_ns);
    Percentiles { max: None, ..Percentiles::among(&lateness, 0) }
}

/// When the server of the simulated queue is away, and for how long.
struct Absences {
    /// Lengths in nanoseconds, each with the number of those up to it.
    lengths: Vec<(f64, u64)>,
    /// Mean time from one to the next, in nanoseconds.
    apart_ns: f64,
}

impl Absences {
    fn new(interruptions: &Interruptions) -> Self {
        let mut up_to = 0;
        let lengths = interruptions.lengths.buckets().map(|(low, width, count)| {
            up_to += count;
            (low as f64 + width as f64 / 2.0, up_to)
        });
        Self { lengths: lengths.collect(), apart_ns: 1e9 / interruptions.per_s() }
    }

    fn length_ns(&self, draws: &Stream, number: u64) -> f64 {
        let all = self.lengths.last().map_or(0, |&(_, up_to)| up_to);
        let chosen = draws.at(number).below(1, all);
        self.lengths[self.lengths.partition_point(|&(_, up_to)| up_to <= chosen)].0
    }

    /// Waits of requests that each take `work_ns`, on average `gap_ns` apart.
    fn simulate(&self, gap_ns: f64, work_ns: f64) -> Histogram {
        let draws = Draws::new(SIMULATION_SEED).stream_of_requests(Purpose::LatenessFloor);
        let mut waits = Histogram::precise();
        let (mut due, mut free, mut away, mut number) = (0.0_f64, 0.0_f64, f64::INFINITY, 0);
        if !self.lengths.is_empty() {
            away = draws.at(number).exponential(2, self.apart_ns);
        }
        for request in 0..SIMULATED {
            due += draws.at(request).exponential(0, gap_ns);
            while away < due.max(free) {
                free = free.max(away) + self.length_ns(&draws, number);
                number += 1;
                away += draws.at(number).exponential(2, self.apart_ns);
            }
            let begun = due.max(free);
            waits.add((begun - due) as u64);
            free = begun + work_ns;
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupted(every_us: u64, length_us: u64) -> Interruptions {
        let mut found = Interruptions::new();
        for _ in 0..1_000 {
            found.watch(Nanos::from_micros(length_us));
            (0..every_us - length_us).for_each(|_| found.watch(Nanos(1_000)));
        }
        found
    }

    #[test]
    fn without_interruptions_both_floors_are_the_same() {
        let still = interrupted(100, 0);
        let simulated = interrupted_percentiles_us(250_000.0, Some(2e-6), &still);
        let floor = LatenessFloor::new(250_000.0, Some(2e-6)).unwrap();
        for (at, found) in [(0.9, simulated.p90), (0.99, simulated.p99)] {
            let expected = floor.quantile_us(at);
            assert!((found.unwrap() / expected - 1.0).abs() < 0.03, "{found:?}, {expected}");
        }
    }

    #[test]
    fn interruptions_alone_make_requests_late_by_what_is_left_of_them() {
        // 10 us in every 1,000, and requests that cost nothing: 1 % of the moments; a request is 5 us late at P99.5.
        let found = interrupted(1_000, 10);
        let simulated = interrupted_percentiles_us(1_000.0, Some(1e-12), &found);
        assert!(simulated.p90.unwrap() < 0.01);
        assert!(simulated.p99_9.unwrap() > 8.0, "{simulated:?}");
        assert!(simulated.p99_9.unwrap() < 11.0, "{simulated:?}");
    }

    #[test]
    fn a_busy_client_catches_up_slowly() {
        let found = interrupted(10_000, 500);
        let p99_us = |rate| interrupted_percentiles_us(rate, Some(4e-6), &found).p99.unwrap();
        assert!(p99_us(200_000.0) > 1.5 * p99_us(20_000.0));
        assert!(interrupted_percentiles_us(260_000.0, Some(4e-6), &found).p99.is_none());
        assert!(interrupted_percentiles_us(1_000.0, None, &found).p99.is_none());
        let unknown = Interruptions::new();
        assert!(interrupted_percentiles_us(1_000.0, Some(4e-6), &unknown).p99.is_none());
    }

    #[test]
    fn the_floor_is_the_wait_in_the_clients_own_queue() {
        // Two microseconds each at 250,000 a second: half of the time; M/D/1 waits 3.336 services at P99.
        let floor = LatenessFloor::new(250_000.0, Some(2e-6)).unwrap();
        assert!((floor.quantile_us(0.99) - 6.672).abs() < 0.01, "{}", floor.quantile_us(0.99));
        assert_eq!(LatenessFloor::percentiles_us(250_000.0, Some(2e-6)).p50, Some(0.0));
        assert!(LatenessFloor::new(250_000.0, Some(4e-6)).is_none(), "never idle");
        assert!(LatenessFloor::new(250_000.0, None).is_none());
    }
}
