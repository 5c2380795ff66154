//! From the text of a workload file to a [`Workload`].

use std::collections::BTreeMap;
use std::sync::Arc;

use robinhood_stats::{BackendId, BackendName, Bytes, Instant};
use toml::Spanned;

use super::error::{Errors, FileError, FileMistake};
use super::syntax::{
    BackendFile, CapacityFile, LogNormalFile, PopularityFile, Quantity, RequestTypeFile, SizesFile,
    WorkloadFile,
};
use crate::cachelib::{self, CacheLibError};
use crate::capacity::{Capacity, CapacityPath};
use crate::popularity::{Popularity, PopularityBucket, PopularityBuckets};
use crate::sizes::{DiscreteSizes, SizeSpec, WeightedSize};
use crate::spec::{BackendSpec, BatchSpec, RequestType, RunLength, Workload};

/// The longest text that is read. CacheLib's largest distribution, written out, is a hundredth of it.
pub const TEXT_BYTES_MAX: usize = 64 << 20;

/// Gives the text of a file that a workload file names, by its path as written there, or says why it cannot.
pub type Resolver<'a> = dyn FnMut(&str) -> Result<String, String> + 'a;

/// Reads a workload file. `file` is its name in messages; files that it names are asked from `resolver`, each once.
///
/// # Errors
/// When the text is no workload that can run, with the line of the mistake.
pub fn read(text: &str, file: &str, resolver: &mut Resolver<'_>) -> Result<Workload, FileError> {
    let errors = Errors { file, text };
    errors.check_length()?;
    let parsed: WorkloadFile = toml::from_str(text).map_err(|error| errors.of_toml(&error))?;
    let mut reader =
        Reader { errors, resolver, popularities: BTreeMap::new(), sizes: BTreeMap::new() };
    let workload = reader.workload(parsed)?;
    match workload.validate() {
        Ok(()) => Ok(workload),
        Err(error) => Err(reader.errors.of_workload(error)),
    }
}

struct Reader<'a, 'r> {
    errors: Errors<'a>,
    resolver: &'a mut Resolver<'r>,
    /// What the files contained that were already read, by path: backends that name the same file share it.
    popularities: BTreeMap<String, Arc<PopularityBuckets>>,
    sizes: BTreeMap<String, Arc<DiscreteSizes>>,
}

impl Reader<'_, '_> {
    fn workload(&mut self, file: WorkloadFile) -> Result<Workload, FileError> {
        let names: Vec<BackendName> =
            file.backends.iter().map(|backend| backend.name.get_ref().clone()).collect();
        self.check_names(&file.backends)?;
        let types = file.request_types.iter().map(|t| self.request_type(t, &names));
        let request_types = types.collect::<Result<_, _>>()?;
        let (mut backends, mut capacities) = (Vec::new(), Vec::new());
        for backend in file.backends {
            capacities.push(self.capacity(backend.capacity.as_ref())?);
            backends.push(self.backend(backend)?);
        }
        Ok(Workload {
            name: file.name.0,
            backends,
            request_types,
            servers: file.servers,
            rate_per_server: file.rate_per_server.0,
            cache_per_server: file.cache_per_server.0,
            overhead: file.overhead.0,
            batch_queries_max: file.batch_queries_max,
            prefill_requests: file.prefill_requests,
            capacities,
            length: RunLength { warmup: file.warmup.0, measured: file.measured.0 },
        })
    }

    /// Numbers of backends have 16 bits, and a name stands for one of them.
    fn check_names(&self, backends: &[BackendFile]) -> Result<(), FileError> {
        let mut known: BTreeMap<&BackendName, usize> = BTreeMap::new();
        for (place, backend) in backends.iter().enumerate() {
            if let Some(first) = known.insert(backend.name.get_ref(), place) {
                let name = backend.name.get_ref();
                let words =
                    format!("backends {first} and {place} are both called `{name}`: names differ");
                return Err(self.errors.at(backend.name.span().start, FileMistake::Syntax(words)));
            }
        }
        Ok(())
    }

    fn request_type(
        &self,
        file: &RequestTypeFile,
        names: &[BackendName],
    ) -> Result<RequestType, FileError> {
        let batch = |(name, queries_mean): &(Spanned<String>, f64)| {
            let known = names.iter().position(|known| known.as_str() == name.get_ref());
            match known.and_then(|place| u16::try_from(place).ok()) {
                Some(place) => {
                    Ok(BatchSpec { backend: BackendId(place), queries_mean: *queries_mean })
                }
                None => {
                    let allowed = names.iter().map(ToString::to_string).collect();
                    let mistake = FileMistake::unknown(name.get_ref(), allowed);
                    Err(self.errors.at(name.span().start, mistake))
                }
            }
        };
        let batches = file.batches.0.iter().map(batch).collect::<Result<_, _>>()?;
        Ok(RequestType { weight: file.weight, batches })
    }

    fn backend(&mut self, file: BackendFile) -> Result<BackendSpec, FileError> {
        Ok(BackendSpec {
            name: file.name.into_inner(),
            kind: file.kind,
            catalogue: file.catalogue,
            popularity: self.popularity(file.popularity)?,
            sizes: self.sizes(file.sizes)?,
            service: file.service.0,
            per_key: file.per_key,
            sigma: file.sigma,
            servers: file.servers,
            speed: file.speed,
            timeout: file.timeout.0,
            utilisation_target: file.utilisation_target,
            cacheable_share: file.cacheable_share,
        })
    }

    fn popularity(&mut self, file: Spanned<PopularityFile>) -> Result<Popularity, FileError> {
        let at = file.span().start;
        Ok(match file.into_inner() {
            PopularityFile::Zipf(exponent) => Popularity::Zipf { exponent },
            PopularityFile::Cachelib(path) => {
                if let Some(read) = self.popularities.get(&path) {
                    return Ok(Popularity::Buckets(Arc::clone(read)));
                }
                let buckets = Arc::new(self.cachelib(at, &path, cachelib::popularity)?);
                self.popularities.insert(path, Arc::clone(&buckets));
                Popularity::Buckets(buckets)
            }
            PopularityFile::Buckets(pairs) => {
                let bucket = |(keys, accesses)| PopularityBucket { keys, accesses };
                let buckets = PopularityBuckets::new(pairs.into_iter().map(bucket).collect());
                Popularity::Buckets(Arc::new(buckets.map_err(|e| self.errors.at(at, e.into()))?))
            }
        })
    }

    fn sizes(&mut self, file: Spanned<SizesFile>) -> Result<SizeSpec, FileError> {
        let at = file.span().start;
        Ok(match file.into_inner() {
            SizesFile::LogNormal(log_normal) => self.log_normal(at, &log_normal)?,
            SizesFile::Fixed(bytes) => SizeSpec::Fixed(self.size(at, bytes)?),
            SizesFile::Cachelib(path) => {
                if let Some(read) = self.sizes.get(&path) {
                    return Ok(SizeSpec::Discrete(Arc::clone(read)));
                }
                let sizes = Arc::new(self.cachelib(at, &path, cachelib::sizes)?);
                self.sizes.insert(path, Arc::clone(&sizes));
                SizeSpec::Discrete(sizes)
            }
            SizesFile::List(pairs) => {
                let size =
                    |(bytes, weight)| Ok(WeightedSize { bytes: self.size(at, bytes)?, weight });
                let sizes =
                    DiscreteSizes::new(pairs.into_iter().map(size).collect::<Result<_, _>>()?);
                SizeSpec::Discrete(Arc::new(sizes.map_err(|e| self.errors.at(at, e.into()))?))
            }
        })
    }

    fn log_normal(&self, at: usize, file: &LogNormalFile) -> Result<SizeSpec, FileError> {
        let mu = file.mu().map_err(|mistake| self.errors.at(at, mistake))?;
        let (bytes_min, bytes_max) =
            (self.size(at, file.bytes_min)?, self.size(at, file.bytes_max)?);
        Ok(SizeSpec::LogNormal { mu, sigma: file.sigma, bytes_min, bytes_max })
    }

    fn size(&self, at: usize, bytes: Quantity<Bytes>) -> Result<u32, FileError> {
        bytes.size().map_err(|mistake| self.errors.at(at, mistake))
    }

    fn cachelib<T>(
        &mut self,
        at: usize,
        path: &str,
        parse: impl Fn(&str) -> Result<T, CacheLibError>,
    ) -> Result<T, FileError> {
        let path = path.to_owned();
        match (self.resolver)(&path) {
            Ok(text) => parse(&text)
                .map_err(|error| self.errors.at(at, FileMistake::CacheLib { path, error })),
            Err(reason) => Err(self.errors.at(at, FileMistake::Unreadable { path, reason })),
        }
    }

    fn capacity(&self, file: Option<&Spanned<CapacityFile>>) -> Result<Capacity, FileError> {
        let Some(file) = file else { return Ok(Capacity::default()) };
        match file.get_ref() {
            CapacityFile::Path(points) => {
                let point = |&(at, capacity): &(Quantity<_>, f64)| (Instant::ZERO + at.0, capacity);
                let path = CapacityPath::try_from(points.iter().map(point).collect::<Vec<_>>());
                path.map(Capacity::Path).map_err(|e| self.errors.at(file.span().start, e.into()))
            }
            CapacityFile::RandomWalk(walk) => {
                let (lowest, every, steps) = (walk.lowest, walk.every.0, walk.steps);
                Ok(Capacity::RandomWalk { lowest, every, steps })
            }
        }
    }
}
