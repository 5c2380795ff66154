//! What a workload must keep to run: checked before a run, so that nothing fails in its middle.
//!
//! Place in the flow: behind whoever reads or makes a [`Workload`], before the generator, the simulator and the testbed.

use std::collections::BTreeSet;

use super::Workload;
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
    /// Checks that the workload can run.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        self.validate_counts()?;
        self.validate_backends()?;
        self.validate_capacities()?;
        for (i, request_type) in self.request_types.iter().enumerate() {
            let place = || format!("request type {i}");
            self.require("weight", &place, request_type.weight, Range::ABOVE_ZERO)?;
            let mut queried = BTreeSet::new();
            for batch in &request_type.batches {
                self.require("queries_mean", &place, batch.queries_mean, Range::FROM_ONE)?;
                let backend = f64::from(batch.backend.0);
                let known = batch.backend.index() < self.backends.len();
                self.require("backend", &place, if known { 1.0 } else { -backend }, Range::KNOWN)?;
                let times = if queried.insert(batch.backend) { 1.0 } else { 2.0 };
                self.require("times of one backend", &place, times, Range::ONCE)?;
            }
        }
        let whole = || "the workload".to_owned();
        self.require("rate_per_server", &whole, self.rate_per_server.0, Range::ABOVE_ZERO)?;
        self.require("servers", &whole, f64::from(self.servers), Range::FROM_ONE)?;
        self.require("cache_per_server", &whole, self.cache_per_server.as_f64(), Range::FROM_ONE)?;
        let keys = self.backends.iter().map(|backend| f64::from(backend.catalogue)).sum();
        self.require("sum of catalogues", &whole, keys, Range::KEYS)?;
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
            if let Popularity::Zipf { exponent } = backend.popularity {
                self.require("zipf", &place, exponent, Range::FROM_ZERO)?;
            }
            self.require("service", &place, backend.service.as_secs_f64(), Range::ABOVE_ZERO)?;
            self.require("per_key", &place, backend.per_key, Range::FROM_ZERO)?;
            self.require("sigma", &place, backend.sigma, Range::FROM_ZERO)?;
            self.require("servers", &place, f64::from(backend.servers), Range::FROM_ONE)?;
            self.require("speed", &place, backend.speed, Range::ABOVE_ZERO)?;
            self.require("timeout", &place, backend.timeout.as_secs_f64(), Range::ABOVE_ZERO)?;
            let longest = self.overhead + backend.timeout;
            self.require("overhead + timeout", &place, longest.as_secs_f64(), Range::REQUEST)?;
            if let SizeSpec::LogNormal { mu, sigma, bytes_min, bytes_max } = backend.sizes {
                self.require("mu", &place, mu, Range::FINITE)?;
                self.require("sigma", &place, sigma, Range::FROM_ZERO)?;
                let bytes_most = Range {
                    high: f64::from(bytes_max),
                    words: "a number of bytes up to `bytes_max`",
                    ..Range::FROM_ZERO
                };
                self.require("bytes_min", &place, f64::from(bytes_min), bytes_most)?;
            }
            if let Some(target) = backend.utilisation_target {
                self.require("utilisation_target", &place, target, Range::UTILISATION)?;
            }
            self.require("cacheable_share", &place, backend.cacheable_share, Range::SHARE)?;
        }
        Ok(())
    }

    fn validate_capacities(&self) -> Result<(), WorkloadError> {
        let measured_s = self.length.measured.as_secs_f64();
        self.require("measured", &|| "the run".to_owned(), measured_s, Range::ABOVE_ZERO)?;
        for (backend, capacity) in self.backends.iter().zip(&self.capacities) {
            let Capacity::RandomWalk { lowest, every, steps } = *capacity else { continue };
            let place = || format!("the capacity of backend `{}`", backend.name);
            let lowest_range =
                Range { high: 1.0, words: "a number above 0, up to 1", ..Range::ABOVE_ZERO };
            self.require("lowest", &place, lowest, lowest_range)?;
            let every_range = Range {
                low: measured_s / WALK_STEPS_MAX,
                words: "a time above 0, at least a millionth of `measured`",
                ..Range::ABOVE_ZERO
            };
            self.require("every", &place, every.as_secs_f64(), every_range)?;
            self.require("steps", &place, f64::from(steps), Range::FROM_ONE)?;
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
    const UTILISATION: Self =
        Self { low: 0.01, low_excluded: false, high: 0.99, words: "a share from 0.01 to 0.99" };
    const FINITE: Self =
        Self { low: f64::MIN, low_excluded: false, high: f64::MAX, words: "a finite number" };
    const ONCE: Self =
        Self { low: 1.0, low_excluded: false, high: 1.0, words: "one batch in a request type" };
    const KEYS: Self = Self {
        low: 1.0,
        low_excluded: false,
        high: u32::MAX as f64,
        words: "fewer than 2^32 keys in all catalogues together",
    };
    const REQUEST: Self = Self {
        low: 0.0,
        low_excluded: true,
        high: 3_600.0, // what histograms of latencies hold
        words: "at most 3,600 s for a request",
    };
    const KNOWN: Self = Self {
        low: 0.5,
        low_excluded: false,
        high: 1.0,
        words: "the place of a backend in the list",
    };
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
            servers.contains("`servers` of backend") && servers.contains("from 1 up"),
            "{servers}"
        );
        assert!(
            message(&|w| w.backends[1].popularity = Popularity::Zipf { exponent: f64::NAN })
                .contains("`zipf`")
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
            ("one batch in a request type", |w| {
                let again = w.request_types[0].batches[0];
                w.request_types[0].batches.push(again);
            }),
            ("`bytes_min`", |w| {
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
            ("`lowest`", walk(0.0, 20_000_000_000, 12)),
            ("`lowest`", walk(1.5, 20_000_000_000, 12)),
            ("`every`", walk(0.5, 0, 12)),
            ("`every`", walk(0.5, 1, 12)),
            ("`steps`", walk(0.5, 20_000_000_000, 0)),
        ] {
            let mut workload = good.clone();
            workload.capacities[0] = capacity;
            bad.push((words, workload));
        }
        let mut workload = good.clone();
        workload.backends[0].sizes = bounds(8, 9, f64::NAN);
        bad.push(("`sigma`", workload));
        for (words, workload) in bad {
            let message = workload.validate().unwrap_err().to_string();
            assert!(message.contains(words), "{words:?} is not in {message:?}");
        }
    }
}
