//! The resource limit of a backend: how long each batch may hold a server.
//!
//! Source: RobinHood (OSDI'18) section 5.2 limits backends with cgroups. Deviation: the limit is on the server's time, by
//! the service model that the simulator uses too, so that it holds on any machine, needs no rights, and both stacks of an
//! experiment see the same factor for the same request.

use robinhood_stats::{Instant, Nanos};

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
