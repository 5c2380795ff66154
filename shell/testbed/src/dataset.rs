//! The data behind all stacks of an experiment: built once from a workload, then only read.
//!
//! Place in the flow: before anything runs. Stacks share the data and nothing else: each has its own servers, queues and
//! caches.

use std::sync::Arc;

use robinhood_cache::item_bytes;
use robinhood_stats::{BackendId, Bytes};
use robinhood_workload::{BackendSpec, CapacityPath, Draws, ObjectSizes, Workload, WorkloadError};

use crate::limit::ServiceLimit;
use crate::work::{Catalogue, WorkError};

/// The most keys of all backends together: about 1 GB of data.
pub const KEYS_MAX: u64 = 10_000_000;

/// Bytes of a key in a cache.
const KEY_BYTES: usize = size_of::<u32>();

/// The data cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The workload makes no sense.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// More data than one process should hold.
    #[error(
        "the backends of workload `{workload}` have {keys} keys together: one process serves at most {KEYS_MAX}, so make the catalogues smaller"
    )]
    TooManyKeys {
        /// Name of the workload.
        workload: String,
        /// Keys of all backends.
        keys: u64,
    },
    /// A store failed.
    #[error("the data of backend `{backend}` cannot be built: {error}")]
    Work {
        /// Whose data.
        backend: String,
        /// What went wrong.
        error: WorkError,
    },
}

/// One backend's share of the data.
struct BackendData {
    catalogue: Catalogue,
    path: CapacityPath,
    /// By key.
    sizes: Vec<u32>,
    value_bytes: Bytes,
    item_bytes_max: Bytes,
}

/// Workload, catalogues and capacity paths of one run.
pub struct Dataset {
    workload: Workload,
    draws: Draws,
    backends: Vec<BackendData>,
}

impl Dataset {
    /// Builds what a generated workload asks for. `seed` is the seed of the run.
    ///
    /// # Errors
    /// When the workload makes no sense, is too large for one process, or a store fails.
    pub fn generate(workload: Workload, seed: u64) -> Result<Arc<Self>, DatasetError> {
        workload.validate()?;
        let sizes = |(id, spec): (u16, &BackendSpec)| {
            let sizes = ObjectSizes::new(&spec.sizes, BackendId(id));
            (0..spec.catalogue).map(|key| sizes.bytes(key)).collect()
        };
        check_keys(&workload, workload.backends.iter().map(|spec| u64::from(spec.catalogue)))?;
        let sizes: Vec<_> = (0..).zip(&workload.backends).map(sizes).collect();
        Self::with_sizes(workload, seed, &sizes)
    }

    /// Builds the data for values of given sizes: `sizes[b][k]` bytes for key `k` of backend `b`. The catalogue of each
    /// backend is set to the number of its sizes.
    ///
    /// # Errors
    /// As [`Self::generate`].
    ///
    /// # Panics
    /// When there is not one list of sizes for each backend.
    pub fn with_sizes(
        mut workload: Workload,
        seed: u64,
        sizes: &[Vec<u32>],
    ) -> Result<Arc<Self>, DatasetError> {
        assert_eq!(sizes.len(), workload.backends.len(), "one list of sizes for each backend");
        check_keys(&workload, sizes.iter().map(|sizes| sizes.len() as u64))?;
        for (spec, sizes) in workload.backends.iter_mut().zip(sizes) {
            spec.catalogue = sizes.len() as u32;
        }
        workload.validate()?;
        let draws = Draws::new(seed);
        let backends = build_all(&workload, draws, sizes)?;
        Ok(Arc::new(Self { workload, draws, backends }))
    }

    /// What it was built for.
    pub const fn workload(&self) -> &Workload {
        &self.workload
    }

    /// All backends.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = BackendId> + use<> {
        (0..self.backends.len() as u16).map(BackendId)
    }

    /// The objects of a backend.
    ///
    /// # Panics
    /// When there is no such backend, here and below.
    pub fn catalogue(&self, backend: BackendId) -> &Catalogue {
        &self.backends[backend.index()].catalogue
    }

    /// Bytes of each value of a backend, by key.
    pub fn sizes(&self, backend: BackendId) -> &[u32] {
        &self.backends[backend.index()].sizes
    }

    /// Bytes of all values of a backend.
    pub fn value_bytes(&self, backend: BackendId) -> Bytes {
        self.backends[backend.index()].value_bytes
    }

    /// What the largest object of a backend takes in a cache.
    pub fn item_bytes_max(&self, backend: BackendId) -> Bytes {
        self.backends[backend.index()].item_bytes_max
    }

    /// The resource limit of a backend on a machine that is `slowdown` times slower than the workload asks for.
    pub fn limit(&self, backend: BackendId, slowdown: f64) -> ServiceLimit {
        ServiceLimit {
            spec: self.workload.backends[backend.index()].clone(),
            backend,
            draws: self.draws,
            path: self.backends[backend.index()].path.clone(),
            slowdown,
        }
    }
}

fn check_keys(workload: &Workload, keys: impl Iterator<Item = u64>) -> Result<(), DatasetError> {
    let keys = keys.sum();
    if keys <= KEYS_MAX {
        return Ok(());
    }
    Err(DatasetError::TooManyKeys { workload: workload.name.clone(), keys })
}

/// One thread a backend: stores are filled by one writer each.
fn build_all(
    workload: &Workload,
    draws: Draws,
    sizes: &[Vec<u32>],
) -> Result<Vec<BackendData>, DatasetError> {
    let build = |id: u16, spec: &BackendSpec, sizes: &[u32]| {
        let content_seed = u64::from(id); // the data is part of the workload, not of the run
        let catalogue = Catalogue::build(spec.kind, content_seed, sizes)
            .map_err(|error| DatasetError::Work { backend: spec.name.to_string(), error })?;
        let backend = BackendId(id);
        let path =
            workload.capacities[backend.index()].path(draws, backend, workload.length.measured);
        let value_bytes = Bytes(sizes.iter().map(|&size| u64::from(size)).sum());
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let item_bytes_max = item_bytes(KEY_BYTES, largest as usize);
        Ok(BackendData { catalogue, path, sizes: sizes.to_vec(), value_bytes, item_bytes_max })
    };
    std::thread::scope(|scope| {
        let backends = (0..).zip(&workload.backends).zip(sizes);
        let threads: Vec<_> = backends
            .map(|((id, spec), sizes)| scope.spawn(move || build(id, spec, sizes)))
            .collect();
        threads.into_iter().map(|t| t.join().expect("building data does not panic")).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use robinhood_stats::Nanos;
    use robinhood_workload::presets;

    fn small() -> Workload {
        let mut workload = presets::demo(Nanos::from_secs(3));
        for backend in &mut workload.backends {
            backend.catalogue = 200;
        }
        workload
    }

    #[test]
    fn objects_have_the_sizes_of_the_workload() {
        let dataset = Dataset::generate(small(), 1).unwrap();
        for (id, spec) in (0..).zip(&dataset.workload().backends) {
            let sizes = ObjectSizes::new(&spec.sizes, BackendId(id));
            let mut worker = dataset.catalogue(BackendId(id)).worker().unwrap();
            let values = worker.answer(&(0..200).collect::<Vec<_>>()).unwrap();
            assert!(
                (0..).zip(&values).all(|(key, value)| value.len() == sizes.bytes(key) as usize)
            );
            let sum: usize = values.iter().map(|value| value.len()).sum();
            assert_eq!(dataset.value_bytes(BackendId(id)), Bytes(sum as u64));
        }
    }

    #[test]
    fn a_workload_for_a_fleet_is_refused_before_anything_is_built() {
        let fleet = presets::onerf(presets::Scale::FULL);
        let error = Dataset::generate(fleet, 1).err().unwrap().to_string();
        assert!(error.contains("at most 10000000"), "{error}");
    }
}
