//! M/G/1: Poisson arrivals, any service time, one server.
//!
//! Place in the flow: the check for simulated services whose time is neither exponential nor fixed. Source: the formula of Pollaczek (1930) and
//! Khinchine (1932), E\[W\] = lambda E\[S^2\] / (2 (1 - rho)); with time in mean service times E\[S^2\] is 1 plus the squared coefficient of variation.

use crate::{Load, LoadError};

/// The queue with one server and a service time of which mean and variance are known. Only means follow from these two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mg1 {
    utilisation: f64,
    variation_squared: f64,
}

impl Mg1 {
    /// `utilisation` above 0 and below 1; `variation_squared` is the variance of the service time divided by the square of its mean, from 0 up.
    ///
    /// # Errors
    /// When a value is outside its range.
    pub fn new(utilisation: f64, variation_squared: f64) -> Result<Self, LoadError> {
        let load = Load::new(1, utilisation)?;
        if variation_squared >= 0.0 && variation_squared.is_finite() {
            Ok(Self { utilisation: load.utilisation(), variation_squared })
        } else {
            Err(LoadError::Variation { found: variation_squared })
        }
    }

    /// A log-normal service time whose logarithm has the standard deviation `sigma`, from 0 up (0 is a fixed time).
    ///
    /// # Errors
    /// When a value is outside its range.
    pub fn of_log_normal(utilisation: f64, sigma: f64) -> Result<Self, LoadError> {
        Self::new(utilisation, libm::expm1(sigma * sigma))
    }

    /// Mean wait in mean service times.
    pub fn wait_mean(&self) -> f64 {
        let rho = self.utilisation;
        rho * (1.0 + self.variation_squared) / (2.0 * (1.0 - rho))
    }

    /// Mean time from arrival to completion, in mean service times.
    pub fn sojourn_mean(&self) -> f64 {
        self.wait_mean() + 1.0
    }

    /// Mean number of customers that wait or are served, by Little's law.
    pub fn customers_mean(&self) -> f64 {
        self.utilisation * self.sojourn_mean()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mdc, Mmc};

    #[test]
    fn exponential_and_fixed_service_times_are_special_cases() {
        for step in 1..20 {
            let utilisation = f64::from(step) / 20.0;
            let load = Load::new(1, utilisation).unwrap();
            let exponential = Mg1::new(utilisation, 1.0).unwrap().wait_mean();
            assert!((exponential / Mmc::new(load).wait_mean() - 1.0).abs() < 1e-12);
            let fixed = Mg1::of_log_normal(utilisation, 0.0).unwrap().wait_mean();
            let by_distribution = Mdc::new(load).unwrap().wait_mean();
            assert!((fixed / by_distribution - 1.0).abs() < 1e-11, "{fixed} {by_distribution}");
        }
    }

    #[test]
    fn a_variation_that_is_none_is_refused() {
        for found in [-0.1, f64::NAN, f64::INFINITY] {
            assert!(matches!(Mg1::new(0.5, found), Err(LoadError::Variation { .. })));
        }
        assert!(matches!(Mg1::new(1.0, 1.0), Err(LoadError::Overload { .. })));
        let spread = Mg1::of_log_normal(0.5, 0.7).unwrap();
        assert!((spread.wait_mean() - libm::exp(0.49) / 2.0).abs() < 1e-12);
        assert!((spread.customers_mean() - 0.5 * (spread.wait_mean() + 1.0)).abs() < 1e-12);
    }
}
