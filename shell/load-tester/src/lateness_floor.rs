//! How late a client with a perfect timer would be.
//!
//! Place in the flow: beside the measured lateness in results and pictures. A client is a queue: sending a request and reading an answer
//! takes it a while, and what comes due in that time waits. The floor is the wait in a queue with Poisson arrivals and that
//! time as its service (M/D/1).

use robinhood_queueing::{Load, Mdc};

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

#[cfg(test)]
mod tests {
    use super::*;

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
