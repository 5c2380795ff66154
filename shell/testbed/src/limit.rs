//! The resource limit of a backend: how long each batch may hold a server.
//!
//! Source: RobinHood (OSDI'18) section 5.2 limits backends with cgroups. Deviation: the limit is on the server's time, by
//! the service model that the simulator uses too, so that it holds on any machine, needs no rights, and both stacks of an
//! experiment see the same factor for the same request.

use robinhood_stats::{BackendId, Instant, Nanos};
use robinhood_workload::{BackendSpec, CapacityPath, Draws, service_factor, service_time};

/// Which batch: it decides the random factor of its service time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchId {
    /// Number of the request in its stream.
    pub request: u64,
    /// Stage of the request, from 0.
    pub stage: u32,
}

/// Decides how long a server is held by a batch.
pub trait ResourceLimit: Send + Sync {
    /// The time that a batch of `keys` keys, at least one, holds a server when its service starts at `start`; `None` while
    /// the backend has no capacity at all.
    fn service(&self, batch: BatchId, keys: u32, start: Instant) -> Option<Nanos>;
}

impl<F> ResourceLimit for F
where
    F: Fn(BatchId, u32, Instant) -> Option<Nanos> + Send + Sync,
{
    fn service(&self, batch: BatchId, keys: u32, start: Instant) -> Option<Nanos> {
        self(batch, keys, start)
    }
}

/// The limit that a workload describes: the simulator's service time, drawn for the same request, stage and backend.
#[derive(Clone, Debug)]
pub struct ServiceLimit {
    /// The backend.
    pub spec: BackendSpec,
    /// Its place in the workload.
    pub backend: BackendId,
    /// The draws of the run.
    pub draws: Draws,
    /// Its capacity over time.
    pub path: CapacityPath,
    /// How many times slower than the workload says, from 1: for machines that are too slow for it.
    pub slowdown: f64,
}

impl ServiceLimit {
    /// The capacity at a moment, as a share of what the workload calls full.
    pub fn capacity(&self, at: Instant) -> f64 {
        self.path.at(at) / self.slowdown
    }
}

impl ResourceLimit for ServiceLimit {
    fn service(&self, batch: BatchId, keys: u32, start: Instant) -> Option<Nanos> {
        let stage = u64::from(batch.stage);
        let factor =
            service_factor(self.draws, batch.request, stage, self.backend, self.spec.sigma);
        Some(service_time(&self.spec, keys, factor, self.capacity(start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use robinhood_workload::presets;

    #[test]
    fn two_stacks_see_the_same_factor_and_half_the_capacity_takes_twice_the_time() {
        let spec = presets::demo(Nanos::from_secs(60)).backends[1].clone();
        let second = |s: u64| Instant(s * 1_000_000_000);
        let path = CapacityPath::dip(0.5, second(1), second(2), second(3), second(4));
        let (backend, draws) = (BackendId(1), Draws::new(4));
        let limit = ServiceLimit { spec, backend, draws, path, slowdown: 1.0 };
        let twice = ServiceLimit { slowdown: 2.0, ..limit.clone() };
        for request in 0..100 {
            let batch = BatchId { request, stage: 0 };
            let at = |limit: &ServiceLimit, start| limit.service(batch, 3, start).unwrap().0 as f64;
            let full = at(&limit, second(0));
            assert_eq!(full, at(&limit.clone(), second(9)));
            let twice_as_long = |time: f64| (time / full - 2.0).abs() < 1e-4; // times are whole nanoseconds
            assert!(twice_as_long(at(&limit, second(2))));
            assert!(twice_as_long(at(&twice, second(0))));
        }
    }
}
