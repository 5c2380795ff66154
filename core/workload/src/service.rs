//! How long a backend works on a batch of missing keys.
//!
//! Place in the flow: the simulator and the resource limits of the testbed compute the same times from the same draws, so that a simulated and a live run
//! differ only in what is real. Source: calibration of the production system's structure in RobinHood (OSDI'18) sections 2 and 5.

use robinhood_stats::{BackendId, Nanos};

use crate::draws::{Draws, Purpose};
use crate::spec::BackendSpec;

/// The random factor of the service time of one batch: log-normal, mean 1, fixed by request and backend.
///
/// `sigma` is the standard deviation of its logarithm.
#[inline]
pub fn service_factor(
    draws: Draws,
    request: u64,
    stage: u64,
    backend: BackendId,
    sigma: f64,
) -> f64 {
    let normal = draws.at(Purpose::Service, request, backend).normal(stage);
    libm::exp(sigma * normal - sigma * sigma / 2.0)
}

/// The time that a server works on a batch with `misses` distinct missing keys, begun at this capacity.
///
/// # Panics
/// When `misses` is zero: such a batch does not reach the backend. When `capacity` is not a positive number.
#[inline]
pub fn service_time(spec: &BackendSpec, misses: u32, factor: f64, capacity: f64) -> Nanos {
    assert!(misses > 0, "a batch without misses needs no service");
    assert!(capacity > 0.0, "a backend without capacity finishes nothing");
    let keys = 1.0 + spec.per_key * f64::from(misses - 1);
    Nanos((spec.service.0 as f64 * keys * factor / (spec.speed * capacity)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    #[test]
    fn the_factor_has_mean_one_and_belongs_to_request_stage_and_backend() {
        let draws = Draws::new(3);
        let factor = |request| service_factor(draws, request, 0, BackendId(2), 0.7);
        let mean = (0..200_000).map(factor).sum::<f64>() / 200_000.0;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert_ne!(factor(1).to_bits(), factor(2).to_bits());
        assert_ne!(factor(1).to_bits(), service_factor(draws, 1, 1, BackendId(2), 0.7).to_bits());
        assert_ne!(factor(1).to_bits(), service_factor(draws, 1, 0, BackendId(3), 0.7).to_bits());
    }

    #[test]
    fn service_grows_with_keys_and_shrinks_with_capacity_and_speed() {
        let mut spec = presets::onerf(presets::Scale::EIGHTH).backends[0].clone();
        spec.speed = 1.0;
        assert_eq!(service_time(&spec, 1, 1.0, 1.0), Nanos::from_millis(8));
        assert_eq!(service_time(&spec, 11, 1.0, 1.0), Nanos::from_millis(16));
        assert_eq!(service_time(&spec, 1, 2.0, 0.5), Nanos::from_millis(32));
        spec.speed = 2.0;
        assert_eq!(service_time(&spec, 1, 1.0, 1.0), Nanos::from_millis(4));
    }
}
