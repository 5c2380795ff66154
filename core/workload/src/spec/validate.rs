//! What a workload must keep to run: checked before a run, so that nothing fails in its middle.
//!
//! Place in the flow: behind whoever reads or makes a [`Workload`], before the generator, the simulator and the testbed.

use std::collections::BTreeSet;
use std::fmt;

use robinhood_stats::BackendName;

use super::{BackendSpec, Workload};
use crate::capacity::Capacity;
use crate::popularity::Popularity;
use crate::sizes::SizeSpec;

/// The most steps of a random walk of capacity in the measured part.
const WALK_STEPS_MAX: f64 = 1_000_000.0;

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
        /// The field, with a dot before the part of it that is meant.
        field: &'static str,
        /// What it is a field of.
        place: Place,
        /// Value found.
        found: f64,
        /// What is allowed.
        allowed: &'static str,
    },
}

/// Which part of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The workload itself.
    Workload,
    /// A backend.
    Backend {
        /// Its place in the list.
        index: usize,
        /// Its name.
        name: BackendName,
    },
    /// A request type, by its place in the list.
    RequestType(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workload => f.write_str("the workload"),
            Self::Backend { name, .. } => write!(f, "backend `{name}`"),
            Self::RequestType(index) => write!(f, "request type {index}"),
        }
    }
}

impl Workload {
    /// Checks that the workload can run.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        self.validate_counts()?;
        self.validate_whole()?;
        for (index, backend) in self.backends.iter().enumerate() {
            let place = Place::Backend { index, name: backend.name.clone() };
            self.validate_backend(backend, &place)?;
            self.validate_capacity(&self.capacities[index], &place)?;
        }
        for (index, request_type) in self.request_types.iter().enumerate() {
            let place = Place::RequestType(index);
            self.require("weight", &place, request_type.weight, Range::WEIGHT)?;
            let mut queried = BTreeSet::new();
            for batch in &request_type.batches {
                self.require("batches", &place, batch.queries_mean, Range::QUERIES)?;
                let backend = f64::from(batch.backend.0);
                let known = batch.backend.index() < self.backends.len();
                self.require("batches", &place, if known { 1.0 } else { -backend }, Range::KNOWN)?;
                let times = if queried.insert(batch.backend) { 1.0 } else { 2.0 };
                self.require("batches", &place, times, Range::ONCE)?;
            }
        }
        Ok(())
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

    fn validate_whole(&self) -> Result<(), WorkloadError> {
        let whole = |field, found, range| self.require(field, &Place::Workload, found, range);
        whole("rate_per_server", self.rate_per_server.0, Range::RATE)?;
        whole("servers", f64::from(self.servers), Range::FROM_ONE)?;
        whole("cache_per_server", self.cache_per_server.as_f64(), Range::CACHE)?;
        let keys = self.backends.iter().map(|backend| f64::from(backend.catalogue)).sum();
        whole("sum of catalogues", keys, Range::KEYS)?;
        whole("batch_queries_max", f64::from(self.batch_queries_max), Range::FROM_ONE)?;
        whole("prefill_requests", self.prefill_requests as f64, Range::PREFILL)?;
        whole("warmup", self.length.warmup.as_secs_f64(), Range::WARMUP)?;
        whole("measured", self.length.measured.as_secs_f64(), Range::MEASURED)
    }

    fn validate_backend(&self, backend: &BackendSpec, place: &Place) -> Result<(), WorkloadError> {
        let require = |field, found, range| self.require(field, place, found, range);
        require("catalogue", f64::from(backend.catalogue), Range::FROM_ONE)?;
        if let Popularity::Zipf { exponent } = backend.popularity {
            require("popularity.zipf", exponent, Range::EXPONENT)?;
        }
        require("service", backend.service.as_secs_f64(), Range::SERVICE)?;
        require("per_key", backend.per_key, Range::PER_KEY)?;
        require("sigma", backend.sigma, Range::SIGMA)?;
        require("servers", f64::from(backend.servers), Range::SERVERS)?;
        require("speed", backend.speed, Range::SPEED)?;
        require("timeout", backend.timeout.as_secs_f64(), Range::ABOVE_ZERO)?;
        require("timeout", (self.overhead + backend.timeout).as_secs_f64(), Range::REQUEST)?;
        if let SizeSpec::LogNormal { mu, sigma, bytes_min, bytes_max } = backend.sizes {
            require("sizes.mu", mu, Range::LOGARITHM)?;
            require("sizes.sigma", sigma, Range::SIGMA)?;
            let bytes_most = Range {
                high: f64::from(bytes_max),
                words: "a number of bytes up to `bytes_max`",
                ..Range::FROM_ZERO
            };
            require("sizes.bytes_min", f64::from(bytes_min), bytes_most)?;
        }
        if let Some(target) = backend.utilisation_target {
            require("utilisation_target", target, Range::UTILISATION)?;
        }
        require("cacheable_share", backend.cacheable_share, Range::SHARE)
    }

    fn validate_capacity(&self, capacity: &Capacity, place: &Place) -> Result<(), WorkloadError> {
        let require = |field, found, range| self.require(field, place, found, range);
        match capacity {
            Capacity::Path(path) => {
                require("capacity.path", path.points().len() as f64, Range::POINTS)?;
                require("capacity.path", path.lowest(), Range::CAPACITY)?;
                require("capacity.path", path.highest(), Range::CAPACITY)
            }
            &Capacity::RandomWalk { lowest, every, steps } => {
                require("capacity.lowest", lowest, Range::LOWEST)?;
                let every_range = Range {
                    low: self.length.measured.as_secs_f64() / WALK_STEPS_MAX,
                    words: "a time above 0, at least a millionth of `measured`",
                    ..Range::ABOVE_ZERO
                };
                require("capacity.every", every.as_secs_f64(), every_range)?;
                require("capacity.steps", f64::from(steps), Range::FROM_ONE)
            }
        }
    }

    fn require(
        &self,
        field: &'static str,
        place: &Place,
        found: f64,
        range: Range,
    ) -> Result<(), WorkloadError> {
        if found >= range.low && found <= range.high && !(range.low_excluded && found == range.low)
        {
            return Ok(());
        }
        let (workload, place) = (self.name.clone(), place.clone());
        Err(WorkloadError::Range { workload, field, place, found, allowed: range.words })
    }
}

#[derive(Clone, Copy)]
struct Range {
    low: f64,
    low_excluded: bool,
    high: f64,
    words: &'static str,
}

/// Beyond these a run would not end, or its numbers would no longer be exact; no real system comes near.
impl Range {
    const FROM_ZERO: Self = Self::closed(0.0, f64::MAX, "a number from 0 up");
    const ABOVE_ZERO: Self = Self::above_zero(f64::MAX, "a number above 0");
    const FROM_ONE: Self = Self::closed(1.0, f64::MAX, "a number from 1 up");
    const SHARE: Self = Self::closed(0.0, 1.0, "a number from 0 to 1");
    const UTILISATION: Self = Self::closed(0.01, 0.99, "a share from 0.01 to 0.99");
    const LOGARITHM: Self = Self::closed(-100.0, 100.0, "a logarithm from -100 to 100");
    const EXPONENT: Self = Self::closed(0.0, 100.0, "a number from 0 to 100");
    const SIGMA: Self = Self::closed(0.0, 10.0, "a number from 0 to 10");
    const PER_KEY: Self = Self::closed(0.0, 1e6, "a number from 0 to 1,000,000");
    const SERVERS: Self = Self::closed(1.0, 65_536.0, "a number from 1 to 65,536");
    const SPEED: Self = Self::closed(1e-6, 1e6, "a number from 0.000001 to 1,000,000");
    const WEIGHT: Self = Self::above_zero(1e12, "a number above 0, up to 10^12");
    const QUERIES: Self = Self::closed(1.0, 1e6, "a number of queries from 1 to 1,000,000");
    const RATE: Self = Self::closed(1e-6, 1e9, "a rate from 0.000001/s to 10^9/s");
    const CACHE: Self = Self::closed(1.0, 1e15, "a number of bytes from 1 to 10^15 (1000TB)");
    const PREFILL: Self = Self::closed(0.0, 1e12, "a number from 0 to 10^12");
    const POINTS: Self = Self::closed(0.0, 1e6, "at most 1,000,000 points");
    const LOWEST: Self = Self::above_zero(1.0, "a number above 0, up to 1");
    const CAPACITY: Self = Self::closed(1e-6, 1e6, "a capacity from 0.000001 to 1,000,000");
    const SERVICE: Self = Self::above_zero(3_600.0, "a time above 0, up to 1 hour");
    const WARMUP: Self = Self::closed(0.0, 100.0 * 86_400.0, "a time up to 100 days (2400h)");
    const MEASURED: Self =
        Self::above_zero(100.0 * 86_400.0, "a time above 0, up to 100 days (2400h)");
    const ONCE: Self = Self::closed(1.0, 1.0, "one batch for each backend");
    const KEYS: Self =
        Self::closed(1.0, 268_435_456.0, "at most 2^28 keys in all catalogues together");
    // What histograms of latencies hold.
    const REQUEST: Self =
        Self::above_zero(3_600.0, "at most 3,600 s for a request, `overhead` included");
    const KNOWN: Self = Self::closed(0.5, 1.0, "the place of a backend in the list");

    const fn closed(low: f64, high: f64, words: &'static str) -> Self {
        Self { low, low_excluded: false, high, words }
    }

    const fn above_zero(high: f64, words: &'static str) -> Self {
        Self { low: 0.0, low_excluded: true, high, words }
    }
}

#[cfg(test)]
mod tests {
    use robinhood_stats::{BackendId, Bytes, Nanos};

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
            servers.contains("`servers` of backend") && servers.contains("from 1 to 65,536"),
            "{servers}"
        );
        assert!(
            message(&|w| w.backends[1].popularity = Popularity::Zipf { exponent: f64::NAN })
                .contains("`popularity.zipf`")
        );
        assert!(message(&|w| w.request_types.clear()).contains("1 to 65,536"));
        assert!(
            message(&|w| w.request_types[0].batches[0].backend = BackendId(99)).contains("backend")
        );
        assert!(message(&|w| drop(w.capacities.pop())).contains("one for each backend"));
        assert!(
            message(&|w| w.backends[1].name = w.backends[0].name.clone()).contains("different")
        );
    }

    #[test]
    fn a_backend_that_nobody_queries_is_allowed() {
        let mut workload = presets::demo(Nanos::from_secs(120));
        workload.request_types.iter_mut().for_each(|t| t.batches.retain(|b| b.backend.0 != 5));
        assert_eq!(workload.validate(), Ok(()));
    }

    #[test]
    fn numbers_that_no_run_could_hold_are_refused() {
        let good = presets::demo(Nanos::from_secs(120));
        type Change = fn(&mut Workload);
        let changes: [(&str, Change); 9] = [
            ("`weight`", |w| w.request_types[1].weight = f64::MAX),
            ("`batches`", |w| w.request_types[1].batches[0].queries_mean = 1e9),
            ("`rate_per_server`", |w| w.rate_per_server.0 = 1e300),
            ("`servers` of backend", |w| w.backends[2].servers = u32::MAX),
            ("`speed`", |w| w.backends[2].speed = 1e-300),
            ("`service`", |w| w.backends[2].service = Nanos::MAX),
            ("`measured`", |w| w.length.measured = Nanos::MAX),
            ("`popularity.zipf`", |w| {
                w.backends[2].popularity = Popularity::Zipf { exponent: 1e9 };
            }),
            ("`capacity.path`", |w| {
                let point = (robinhood_stats::Instant::ZERO, 1e-300);
                w.capacities[0] = Capacity::Path(crate::CapacityPath::new(vec![point]));
            }),
        ];
        for (words, change) in changes {
            let mut workload = good.clone();
            change(&mut workload);
            let message = workload.validate().unwrap_err().to_string();
            assert!(message.contains(words), "{words:?} is not in {message:?}");
        }
    }

    #[test]
    fn what_would_fail_only_in_the_middle_of_a_run_is_refused_too() {
        let good = presets::demo(Nanos::from_secs(120));
        type Change = fn(&mut Workload);
        let walk = |lowest, every_ns, steps| Capacity::RandomWalk {
            lowest,
            every: Nanos(every_ns),
            steps,
        };
        let bounds = |bytes_min, bytes_max, sigma| SizeSpec::LogNormal {
            mu: 9.0,
            sigma,
            bytes_min,
            bytes_max,
        };
        let mut fine = good.clone();
        fine.capacities[0] = walk(0.5, 20_000_000_000, 12);
        fine.backends[0].sizes = bounds(8, 8, 0.0);
        assert_eq!(fine.validate(), Ok(()));
        let changes: [(&str, Change); 6] = [
            ("`cache_per_server`", |w| w.cache_per_server = Bytes::ZERO),
            ("`sum of catalogues`", |w| {
                (w.backends[0].catalogue, w.backends[1].catalogue) = (1 << 31, 1 << 31);
            }),
            ("at most 3,600 s", |w| w.backends[0].timeout = Nanos::from_secs(3_600)),
            ("`measured`", |w| w.length.measured = Nanos::ZERO),
            ("one batch for each backend", |w| {
                let again = w.request_types[0].batches[0];
                w.request_types[0].batches.push(again);
            }),
            ("`sizes.bytes_min`", |w| {
                w.backends[0].sizes =
                    SizeSpec::LogNormal { mu: 9.0, sigma: 1.0, bytes_min: 9, bytes_max: 8 };
            }),
        ];
        let mut bad: Vec<(&str, Workload)> = Vec::new();
        for (words, change) in changes {
            let mut workload = good.clone();
            change(&mut workload);
            bad.push((words, workload));
        }
        for (words, capacity) in [
            ("`capacity.lowest`", walk(0.0, 20_000_000_000, 12)),
            ("`capacity.lowest`", walk(1.5, 20_000_000_000, 12)),
            ("`capacity.every`", walk(0.5, 0, 12)),
            ("`capacity.every`", walk(0.5, 1, 12)),
            ("`capacity.steps`", walk(0.5, 20_000_000_000, 0)),
        ] {
            let mut workload = good.clone();
            workload.capacities[0] = capacity;
            bad.push((words, workload));
        }
        let mut workload = good.clone();
        workload.backends[0].sizes = bounds(8, 9, f64::NAN);
        bad.push(("`sizes.sigma`", workload));
        for (words, workload) in bad {
            let message = workload.validate().unwrap_err().to_string();
            assert!(message.contains(words), "{words:?} is not in {message:?}");
        }
    }
}
