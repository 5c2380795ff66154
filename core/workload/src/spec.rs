//! The description of a workload: backends, request types, rates, caches and capacities. Data only.
//!
//! Place in the flow: a preset or a file makes one; the generator, the simulator and the testbed read it. The structure never depends on the seed of a run.

use robinhood_stats::{BackendId, BackendName, Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

use crate::capacity::Capacity;
use crate::popularity::Popularity;
use crate::sizes::SizeSpec;

mod validate;

pub use validate::{Place, WorkloadError};

/// The most queries in one batch of the presets.
pub const BATCH_QUERIES_MAX: u32 = 300;

/// What a backend of the testbed does for a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendKind {
    /// A key-value lookup.
    Lookup,
    /// An indexed join of several columns.
    Join,
    /// A matrix product.
    Compute,
}

/// One backend.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendSpec {
    /// Its name, unique in the workload.
    pub name: BackendName,
    /// What it does in the testbed.
    pub kind: BackendKind,
    /// Number of different keys.
    pub catalogue: u32,
    /// How queries are distributed over the keys.
    pub popularity: Popularity,
    /// Sizes of its objects.
    pub sizes: SizeSpec,
    /// Mean time that a batch of one missing key occupies a server of speed 1 at full capacity.
    pub service: Nanos,
    /// Additional time for each further missing key of a batch, as a share of `service`.
    pub per_key: f64,
    /// Standard deviation of the logarithm of a service time.
    pub sigma: f64,
    /// Number of servers behind the backend's one queue.
    pub servers: u32,
    /// Speed of each server: service times are divided by it.
    pub speed: f64,
    /// A batch that takes longer ends its query with a timeout; its server goes on.
    pub timeout: Nanos,
    /// Share of time that the servers shall work in steady state under a shared LRU, from 0.01 to 0.99. Who calibrates a workload finds `servers` and
    /// `speed` by it; a run does not look at it.
    pub utilisation_target: Option<f64>,
    /// Share of queries whose answer may be cached, 0 to 1. Decided query by query, as in a recorded trace: an object can be served
    /// from the cache to one user and be asked for afresh by the next (who is logged in, or has just written it). So the share of queries is kept exactly whatever
    /// the popularity. A draw per key would let the most popular keys decide the share. A query that is not cacheable never reads the cache nor fills it, and can
    /// block its request like any other.
    pub cacheable_share: f64,
}

/// The batches that a request of one type sends, all at once.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestType {
    /// Share of requests of this type, relative to the others.
    pub weight: f64,
    /// The queried backends, each at most once.
    pub batches: Vec<BatchSpec>,
}

/// The queries of one request type to one backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchSpec {
    /// The backend, as its place in [`Workload::backends`].
    pub backend: BackendId,
    /// Mean of the geometric number of queries, from 1 up.
    pub queries_mean: f64,
}

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLength {
    /// Traffic at full capacity before the measured part.
    pub warmup: Nanos,
    /// The measured part. Capacity paths start with it.
    pub measured: Nanos,
}

/// A complete workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Its name, for people.
    pub name: String,
    /// The backends. A [`BackendId`] in this crate is the place in this list.
    pub backends: Vec<BackendSpec>,
    /// The request types.
    pub request_types: Vec<RequestType>,
    /// Number of application servers, each with its own cache.
    pub servers: u16,
    /// Requests per second and application server.
    pub rate_per_server: Rate,
    /// Cache of each application server.
    pub cache_per_server: Bytes,
    /// Time that a request takes outside its queries.
    pub overhead: Nanos,
    /// The most queries in one batch.
    pub batch_queries_max: u32,
    /// Requests from the start of the stream that fill the caches before time zero.
    pub prefill_requests: u64,
    /// Capacity of each backend over the measured part, in the order of `backends`.
    pub capacities: Vec<Capacity>,
    /// Warm-up and measured part.
    pub length: RunLength,
}

impl Workload {
    /// Requests per second at all application servers together.
    pub fn rate(&self) -> Rate {
        Rate(self.rate_per_server.0 * f64::from(self.servers))
    }

    /// Mean number of queries in a request, before the bound on a batch.
    pub fn queries_per_request(&self) -> f64 {
        let weights: f64 = self.request_types.iter().map(|t| t.weight).sum();
        let queries = |t: &RequestType| t.batches.iter().map(|b| b.queries_mean).sum::<f64>();
        self.request_types.iter().map(|t| t.weight * queries(t)).sum::<f64>() / weights
    }

    /// Mean bytes of all objects of a backend together.
    pub fn catalogue_bytes(&self, backend: BackendId) -> Bytes {
        let spec = &self.backends[backend.index()];
        Bytes((f64::from(spec.catalogue) * spec.sizes.mean_bytes()) as u64)
    }

    /// The names of the backends, in order.
    pub fn names(&self) -> impl Iterator<Item = &BackendName> {
        self.backends.iter().map(|backend| &backend.name)
    }

    /// The same workload with all losses of capacity multiplied by `depth`.
    ///
    /// # Panics
    /// When `depth` is not a number from 0 up.
    #[must_use]
    pub fn deepened(mut self, depth: f64) -> Self {
        self.capacities = self.capacities.iter().map(|c| c.deepened(depth)).collect();
        self
    }

    /// The same workload in less time: run length and capacity paths divided by `factor`, traffic unchanged.
    ///
    /// # Panics
    /// When `factor` is not a positive number.
    #[must_use]
    pub fn compressed(mut self, factor: f64) -> Self {
        self.capacities = self.capacities.iter().map(|c| c.compressed(factor)).collect();
        self.length = RunLength {
            warmup: self.length.warmup.scaled_down(factor),
            measured: self.length.measured.scaled_down(factor),
        };
        self
    }
}
