//! M/D/1 and M/D/c: Poisson arrivals, one fixed service time, c equal servers.
//!
//! Place in the flow: the check for simulated backends without spread (`sigma` 0).
//!
//! Sources: Crommelin, "Delay probability formulae when the holding times are constant" (1932): seen every service time, the number Q of waiting
//! customers is Q' = max(Q + A - c, 0) with A Poisson of mean c rho, a random walk that is held at 0. The steady state of such a walk follows from
//! Spitzer, "A combinatorial lemma and its application to probability theory" (1956): with c(m) the sum over n of P(S(n) = m) / n, S(n) = Poisson(n c rho) - n c, the
//! generating function of Q is exp(sum over m >= 1 of c(m) (z^m - 1)). Franx, "A simple solution for the M/D/c waiting time distribution" (2001), gets the
//! wait from Q: with k = floor(x) + 1 and u = k - x, P(W <= x) is the sum over j < k c of P(Poisson(c rho u) = j) P(Q <= k c - 1 - j).
//!
//! Deviation: Crommelin solves for Q with the complex roots of z^c = exp(c rho (z - 1)), Franx by iteration. Spitzer's identity needs neither: all terms are
//! positive and nothing cancels, so the digits hold. Erlang's own form for one server alternates and loses all digits at waits of some ten service times.

use crate::{Load, LoadError, check_probability, poisson, quantile_of};

/// Terms below this are left out.
const NEGLIGIBLE: f64 = 1e-20;

/// The queue with c servers and a fixed service time. With one server it is M/D/1.
#[derive(Clone, Debug, PartialEq)]
pub struct Mdc {
    load: Load,
    wait_mean: f64,
    /// Probability that more than m customers wait, by m. Beyond the end below 1e-16.
    waiting_exceeds: Vec<f64>,
}

impl Mdc {
    /// The most servers.
    pub const SERVERS_MAX: u32 = 512;

    /// The highest utilisation: the cost grows with the third power of 1 / (1 - utilisation); with one server here it is 10^8 additions, with more it is less.
    pub const UTILISATION_MAX: f64 = 0.98;

    /// The queue under this load, of at most [`Self::SERVERS_MAX`] servers and [`Self::UTILISATION_MAX`].
    ///
    /// # Errors
    /// When the load is above them.
    pub fn new(load: Load) -> Result<Self, LoadError> {
        let (servers, utilisation) = (load.servers(), load.utilisation());
        if servers > Self::SERVERS_MAX {
            return Err(LoadError::Servers { servers, servers_max: Self::SERVERS_MAX });
        }
        if utilisation > Self::UTILISATION_MAX {
            let utilisation_max = Self::UTILISATION_MAX;
            return Err(LoadError::NearSaturation { utilisation, utilisation_max });
        }
        let jumps = ladder_jumps(&load);
        let waiting_mean: f64 = jumps.iter().zip(1..).map(|(c, m)| c * f64::from(m)).sum();
        let waiting_exceeds = upper_sums(&steady_state(&jumps));
        Ok(Self { load, wait_mean: waiting_mean / load.offered(), waiting_exceeds })
    }

    /// Probability that a customer has to wait.
    pub fn wait_probability(&self) -> f64 {
        self.wait_exceeds(0.0)
    }

    /// Mean wait, of all customers, in service times.
    pub const fn wait_mean(&self) -> f64 {
        self.wait_mean
    }

    /// Probability that a wait exceeds `time`, from 0 service times up. Absolute error about 1e-14.
    ///
    /// # Panics
    /// When `time` is negative or not a number.
    pub fn wait_exceeds(&self, time: f64) -> f64 {
        assert!(time >= 0.0, "a time from 0 up, not {time}");
        let servers = self.load.servers() as usize;
        let periods = libm::floor(time) + 1.0;
        if periods * servers as f64 > (self.waiting_exceeds.len() + 4 * servers + 200) as f64 {
            return 0.0; // the walk does not come so far, nor do arrivals of one service time
        }
        let places = periods as usize * servers;
        let arrivals_mean = self.load.offered() * (periods - time);
        // The customer waits longer when those before it are too many: either alone the arrivals of the time looked back, or with the waiting.
        let (mut arrivals, mut arrivals_sum, mut late) = (libm::exp(-arrivals_mean), 0.0, 0.0);
        for count in 0..places {
            let waiting = self.waiting_exceeds.get(places - 1 - count).copied().unwrap_or(0.0);
            late += arrivals * waiting;
            arrivals_sum += arrivals;
            arrivals *= arrivals_mean / (count + 1) as f64;
        }
        late + (1.0 - arrivals_sum).max(0.0)
    }

    /// The wait, in service times, that a share `p` of customers does not exceed; 0 as long as so many do not wait at all.
    ///
    /// # Panics
    /// When `p` is below 0 or above 1 - 1e-10.
    pub fn wait_quantile(&self, p: f64) -> f64 {
        check_probability(p);
        if self.wait_probability() <= 1.0 - p {
            return 0.0;
        }
        quantile_of(|time| self.wait_exceeds(time), p)
    }

    /// Mean time from arrival to completion, in service times.
    pub fn sojourn_mean(&self) -> f64 {
        self.wait_mean + 1.0
    }

    /// Probability that wait and service together exceed `time`, from 0 service times up.
    ///
    /// # Panics
    /// When `time` is negative or not a number.
    pub fn sojourn_exceeds(&self, time: f64) -> f64 {
        assert!(time >= 0.0, "a time from 0 up, not {time}");
        if time < 1.0 { 1.0 } else { self.wait_exceeds(time - 1.0) }
    }

    /// The time from arrival to completion, in service times, that a share `p` of customers does not exceed.
    ///
    /// # Panics
    /// When `p` is below 0 or above 1 - 1e-10.
    pub fn sojourn_quantile(&self, p: f64) -> f64 {
        self.wait_quantile(p) + 1.0
    }

    /// Mean number of customers that wait or are served, by Little's law.
    pub fn customers_mean(&self) -> f64 {
        self.load.offered() * self.sojourn_mean()
    }
}

/// c(1), c(2), ... of Spitzer's identity, up to where they are negligible.
fn ladder_jumps(load: &Load) -> Vec<f64> {
    let (servers, utilisation) = (u64::from(load.servers()), load.utilisation());
    let mut jumps: Vec<f64> = Vec::new();
    // P(S(n) > 0) falls at least by this factor a step (Chernoff), which bounds the loop.
    let fall = load.offered() - servers as f64 - servers as f64 * libm::log(utilisation);
    let steps = (-libm::log(NEGLIGIBLE) / fall) as u64 + 1;
    for n in 1..=steps {
        let (arrivals_mean, served) = (n as f64 * load.offered(), n * servers);
        let mut term = poisson::probability(served + 1, arrivals_mean) / n as f64;
        let mut m = 1;
        while term > NEGLIGIBLE {
            if jumps.len() < m {
                jumps.push(0.0);
            }
            jumps[m - 1] += term;
            m += 1;
            term *= arrivals_mean / (served + m as u64) as f64;
        }
    }
    jumps
}

/// Probabilities of 0, 1, ... waiting customers: the coefficients of the exponential of a power series, m q(m) = sum over k of k c(k) q(m - k).
fn steady_state(jumps: &[f64]) -> Vec<f64> {
    let weighted: Vec<f64> = jumps.iter().zip(1..).map(|(c, k)| c * f64::from(k)).collect();
    let mut waiting = vec![libm::exp(-jumps.iter().sum::<f64>())];
    // The tail falls like the jumps, so its end is where theirs is, but for a factor that a quarter more covers.
    for m in 1..=jumps.len() + jumps.len() / 4 + 8 {
        let sum: f64 =
            weighted.iter().zip(waiting.iter().rev()).map(|(weight, q)| weight * q).sum();
        waiting.push(sum / m as f64);
    }
    waiting
}

/// Of each entry the sum of all behind it, added up from the smallest.
fn upper_sums(probabilities: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; probabilities.len()];
    for m in (1..probabilities.len()).rev() {
        sums[m - 1] = sums[m] + probabilities[m];
    }
    sums
}

#[cfg(test)]
mod tests;
