//! M/M/1 and M/M/c: Poisson arrivals, exponential service times, c equal servers.
//!
//! Place in the flow: the check for queues whose service times a test draws itself. Source: Erlang (1917). Erlang's B by its recursion
//! B(k) = a B(k-1) / (k + a B(k-1)), which only multiplies and adds positive numbers; C = B / (1 - rho (1 - B)) is the probability of waiting; a
//! wait, if there is one, is exponential with rate theta = c - a; the sojourn is the sum of wait and service, written so that theta = 1 needs
//! no case of its own.

use crate::{Load, check_probability, quantile_of};

/// The queue with c servers and exponential service times. With one server it is M/M/1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mmc {
    load: Load,
    /// Erlang's C.
    wait_probability: f64,
    /// Rate at which the tail of the wait falls.
    theta: f64,
}

impl Mmc {
    /// The queue under this load. Costs one step a server.
    pub fn new(load: Load) -> Self {
        let offered = load.offered();
        let mut blocking = 1.0; // Erlang's B
        for servers in 1..=load.servers() {
            blocking = offered * blocking / (f64::from(servers) + offered * blocking);
        }
        let wait_probability = blocking / (1.0 - load.utilisation() * (1.0 - blocking));
        let theta = f64::from(load.servers()) * (1.0 - load.utilisation());
        Self { load, wait_probability, theta }
    }

    /// Probability that a customer has to wait (Erlang's C).
    pub const fn wait_probability(&self) -> f64 {
        self.wait_probability
    }

    /// Mean wait, of all customers, in mean service times.
    pub fn wait_mean(&self) -> f64 {
        self.wait_probability / self.theta
    }

    /// Probability that a wait exceeds `time`, from 0 mean service times up.
    pub fn wait_exceeds(&self, time: f64) -> f64 {
        assert!(time >= 0.0, "a time from 0 up, not {time}");
        self.wait_probability * libm::exp(-self.theta * time)
    }

    /// The wait, in mean service times, that a share `p` of customers does not exceed; 0 as long as so many do not wait at all.
    ///
    /// # Panics
    /// When `p` is below 0 or above 1 - 1e-10.
    pub fn wait_quantile(&self, p: f64) -> f64 {
        check_probability(p);
        (libm::log(self.wait_probability / (1.0 - p)) / self.theta).max(0.0)
    }

    /// Mean time from arrival to completion, in mean service times.
    pub fn sojourn_mean(&self) -> f64 {
        self.wait_mean() + 1.0
    }

    /// Probability that wait and service together exceed `time`, from 0 mean service times up.
    pub fn sojourn_exceeds(&self, time: f64) -> f64 {
        assert!(time >= 0.0, "a time from 0 up, not {time}");
        let (c, excess) = (self.wait_probability, self.theta - 1.0);
        let served = libm::exp(-time);
        if excess * time < -1.0 {
            // The wait's tail falls so much slower than the service's that nothing cancels, and the form below would overflow.
            return (1.0 - c) * served
                + c * (libm::exp(-self.theta * time) - self.theta * served) / -excess;
        }
        let waits = if excess == 0.0 { time } else { -libm::expm1(-excess * time) / excess };
        served * (1.0 + c * waits)
    }

    /// The time from arrival to completion, in mean service times, that a share `p` of customers does not exceed.
    ///
    /// # Panics
    /// When `p` is below 0 or above 1 - 1e-10.
    pub fn sojourn_quantile(&self, p: f64) -> f64 {
        check_probability(p);
        quantile_of(|time| self.sojourn_exceeds(time), p)
    }

    /// Mean number of customers that wait or are served, by Little's law.
    pub fn customers_mean(&self) -> f64 {
        self.load.offered() * self.sojourn_mean()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(servers: u32, utilisation: f64) -> Mmc {
        Mmc::new(Load::new(servers, utilisation).unwrap())
    }

    /// Computed with 50 digits: servers, utilisation; C, mean sojourn, its P50, P90, P99, P99.9, P99 of the wait.
    const TABLE: [(u32, f64, [f64; 7]); 6] = [
        (1, 0.8, [0.8, 5.0, 3.465736, 11.512925, 23.025851, 34.538776, 21.910133]),
        (2, 0.8, [0.711111, 2.777778, 2.040031, 6.171562, 11.937370, 17.694126, 10.660609]),
        (4, 0.5, [0.173913, 1.086957, 0.783410, 2.450062, 4.764248, 7.067972, 1.427985]),
        (4, 0.8, [0.596432, 1.745541, 1.346199, 3.775960, 6.893204, 9.879667, 5.110476]),
        (8, 0.7, [0.270603, 1.112751, 0.816862, 2.474213, 4.781682, 7.084460, 1.374195]),
        (16, 0.9, [0.591343, 1.369590, 1.078010, 2.897177, 5.269835, 7.588420, 2.549882]),
    ];

    #[test]
    fn waits_and_sojourns_agree_with_the_table() {
        for (servers, utilisation, expected) in TABLE {
            let queue = queue(servers, utilisation);
            let sojourn = |p| queue.sojourn_quantile(p);
            let found = [
                queue.wait_probability(),
                queue.sojourn_mean(),
                sojourn(0.5),
                sojourn(0.9),
                sojourn(0.99),
                sojourn(0.999),
                queue.wait_quantile(0.99),
            ];
            for (found, expected) in found.into_iter().zip(expected) {
                let error = (found - expected).abs();
                assert!(error < 6e-7, "{servers} servers, {utilisation}: {found}, not {expected}");
            }
        }
    }

    #[test]
    fn with_one_server_the_sojourn_is_exponential() {
        for step in 1..100 {
            let utilisation = f64::from(step) / 100.0;
            let queue = queue(1, utilisation);
            assert!((queue.wait_probability() - utilisation).abs() < 1e-14);
            for p in [0.0, 0.5, 0.99, 0.9999] {
                let expected = -libm::log1p(-p) / (1.0 - utilisation);
                let found = queue.sojourn_quantile(p);
                assert!((found - expected).abs() < 1e-9 * (1.0 + expected), "{found} {expected}");
            }
            let customers = utilisation / (1.0 - utilisation);
            assert!((queue.customers_mean() / customers - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn quantiles_invert_the_distributions() {
        for (servers, utilisation) in [(1, 0.99), (3, 0.3), (50, 0.98), (1_000, 0.999)] {
            let queue = queue(servers, utilisation);
            for p in [0.9, 0.99, 0.999_999] {
                let (wait, sojourn) = (queue.wait_quantile(p), queue.sojourn_quantile(p));
                assert!((queue.sojourn_exceeds(sojourn) / (1.0 - p) - 1.0).abs() < 1e-8);
                if wait > 0.0 {
                    assert!((queue.wait_exceeds(wait) / (1.0 - p) - 1.0).abs() < 1e-8);
                } else {
                    assert!(queue.wait_probability() <= 1.0 - p);
                }
            }
        }
    }

    #[test]
    fn the_mean_is_the_area_under_the_tail_also_where_wait_and_service_fall_alike() {
        // With 4 servers at 0.75 both tails fall with rate 1.
        for (servers, utilisation) in [(4, 0.75), (4, 0.75 + 1e-9), (2, 0.9), (6, 0.4)] {
            let queue = queue(servers, utilisation);
            let step = 1e-3;
            let middle = |i: u32| queue.sojourn_exceeds((f64::from(i) + 0.5) * step) * step;
            let area: f64 = (0..200_000).map(middle).sum();
            assert!((area / queue.sojourn_mean() - 1.0).abs() < 1e-6, "{area}");
        }
    }
}
