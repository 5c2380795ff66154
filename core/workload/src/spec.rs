//! The description of a workload: backends, request types, rates, caches and capacities. Data only.
//!
//! Place in the flow: a preset or a file makes one; the generator, the simulator and the testbed read it. The structure never depends on the seed of a run.

use robinhood_stats::{BackendId, BackendName, Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

use crate::capacity::Capacity;
use crate::sizes::SizeSpec;

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendSpec {
    /// Its name, unique in the workload.
    pub name: BackendName,
    /// What it does in the testbed.
    pub kind: BackendKind,
    /// Number of different keys.
    pub catalogue: u32,
    /// Zipf exponent of their popularity, from 0 (all alike) up.
    pub zipf: f64,
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
    /// Share of keys whose objects may be cached.
    pub cacheable_share: f64,
}

/// The batches that a request of one type sends, all at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestType {
    /// Share of requests of this type, relative to the others.
    pub weight: f64,
    /// The queried backends, each at most once.
    pub batches: Vec<BatchSpec>,
}

/// The queries of one request type to one backend.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchSpec {
    /// The backend, as its place in [`Workload::backends`].
    pub backend: BackendId,
    /// Mean of the geometric number of queries, from 1 up.
    pub queries_mean: f64,
}

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLength {
    /// Traffic at full capacity before the measured part.
    pub warmup: Nanos,
    /// The measured part. Capacity paths start with it.
    pub measured: Nanos,
}

/// A complete workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

/// A workload that cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// A list is empty that must not be, or has the wrong length.
    #[error("workload `{workload}`: `{field}` has {found} entries, allowed is {allowed}")]
    Count {
        /// Name of the workload.
        workload: String,
        /// The field.
        field: &'static str,
        /// Entries found.
        found: usize,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A number is outside its range.
    #[error("workload `{workload}`: `{field}` of {place} is {found}, allowed is {allowed}")]
    Range {
        /// Name of the workload.
        workload: String,
        /// The field.
        field: &'static str,
        /// The backend or request type.
        place: String,
        /// Value found.
        found: f64,
        /// What is allowed.
        allowed: &'static str,
    },
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

    /// Checks that the workload can run.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        self.validate_counts()?;
        self.validate_backends()?;
        for (i, request_type) in self.request_types.iter().enumerate() {
            let place = || format!("request type {i}");
            self.require("weight", &place, request_type.weight, Range::ABOVE_ZERO)?;
            for batch in &request_type.batches {
                self.require("queries_mean", &place, batch.queries_mean, Range::FROM_ONE)?;
                let backend = f64::from(batch.backend.0);
                let known = batch.backend.index() < self.backends.len();
                self.require("backend", &place, if known { 1.0 } else { -backend }, Range::KNOWN)?;
            }
        }
        let whole = || "the workload".to_owned();
        self.require("rate_per_server", &whole, self.rate_per_server.0, Range::ABOVE_ZERO)?;
        self.require("servers", &whole, f64::from(self.servers), Range::FROM_ONE)?;
        self.require(
            "batch_queries_max",
            &whole,
            f64::from(self.batch_queries_max),
            Range::FROM_ONE,
        )
    }

    fn validate_counts(&self) -> Result<(), WorkloadError> {
        let count = |field, found, good: bool, allowed| {
            let workload = self.name.clone();
            if good {
                Ok(())
            } else {
                Err(WorkloadError::Count { workload, field, found, allowed })
            }
        };
        let backends = self.backends.len();
        count("backends", backends, (1..=1_024).contains(&backends), "1 to 1,024")?;
        let types = self.request_types.len();
        count("request_types", types, (1..=65_536).contains(&types), "1 to 65,536")?;
        let capacities = self.capacities.len();
        count("capacities", capacities, capacities == backends, "one for each backend")?;
        let mut names: Vec<_> = self.names().collect();
        names.sort_unstable();
        names.dedup();
        count("names", names.len(), names.len() == backends, "a different one for each backend")
    }

    fn validate_backends(&self) -> Result<(), WorkloadError> {
        for backend in &self.backends {
            let place = || format!("backend `{}`", backend.name);
            self.require("catalogue", &place, f64::from(backend.catalogue), Range::FROM_ONE)?;
            self.require("zipf", &place, backend.zipf, Range::FROM_ZERO)?;
            self.require("service", &place, backend.service.as_secs_f64(), Range::ABOVE_ZERO)?;
            self.require("per_key", &place, backend.per_key, Range::FROM_ZERO)?;
            self.require("sigma", &place, backend.sigma, Range::FROM_ZERO)?;
            self.require("servers", &place, f64::from(backend.servers), Range::FROM_ONE)?;
            self.require("speed", &place, backend.speed, Range::ABOVE_ZERO)?;
            self.require("timeout", &place, backend.timeout.as_secs_f64(), Range::ABOVE_ZERO)?;
            self.require("cacheable_share", &place, backend.cacheable_share, Range::SHARE)?;
        }
        Ok(())
    }

    fn require(
        &self,
        field: &'static str,
        place: &dyn Fn() -> String,
        found: f64,
        range: Range,
    ) -> Result<(), WorkloadError> {
        if found >= range.low && found <= range.high && !(range.low_excluded && found == range.low)
        {
            return Ok(());
        }
        let (workload, allowed) = (self.name.clone(), range.words);
        Err(WorkloadError::Range { workload, field, place: place(), found, allowed })
    }
}

#[derive(Clone, Copy)]
struct Range {
    low: f64,
    low_excluded: bool,
    high: f64,
    words: &'static str,
}

impl Range {
    const FROM_ZERO: Self =
        Self { low: 0.0, low_excluded: false, high: f64::MAX, words: "a number from 0 up" };
    const ABOVE_ZERO: Self =
        Self { low: 0.0, low_excluded: true, high: f64::MAX, words: "a number above 0" };
    const FROM_ONE: Self =
        Self { low: 1.0, low_excluded: false, high: f64::MAX, words: "a number from 1 up" };
    const SHARE: Self =
        Self { low: 0.0, low_excluded: false, high: 1.0, words: "a number from 0 to 1" };
    const KNOWN: Self = Self {
        low: 0.5,
        low_excluded: false,
        high: 1.0,
        words: "the place of a backend in the list",
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;

    #[test]
    fn a_workload_that_cannot_run_is_refused_with_the_field_and_what_is_allowed() {
        let good = presets::demo(Nanos::from_secs(120));
        assert_eq!(good.validate(), Ok(()));
        let message = |change: &dyn Fn(&mut Workload)| {
            let mut workload = good.clone();
            change(&mut workload);
            workload.validate().unwrap_err().to_string()
        };
        let servers = message(&|w| w.backends[0].servers = 0);
        assert!(
            servers.contains("`servers` of backend") && servers.contains("from 1 up"),
            "{servers}"
        );
        assert!(message(&|w| w.backends[1].zipf = f64::NAN).contains("`zipf`"));
        assert!(message(&|w| w.request_types.clear()).contains("1 to 65,536"));
        assert!(
            message(&|w| w.request_types[0].batches[0].backend = BackendId(99)).contains("backend")
        );
        assert!(message(&|w| drop(w.capacities.pop())).contains("one for each backend"));
        assert!(
            message(&|w| w.backends[1].name = w.backends[0].name.clone()).contains("different")
        );
    }
}
