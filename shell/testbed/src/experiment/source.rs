//! Where the requests of an experiment come from: a workload that generates them, or a trace that recorded them.
//!
//! Place in the flow: before anything runs. Both give the data that the backends need, the prefix that fills the caches,
//! and the arrivals.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use robinhood_stats::{BackendId, BackendName, Bytes, Instant, Nanos, Rate};
use robinhood_workload::{
    BackendKind, BackendSpec, BatchSpec, Capacity, Generator, Popularity, Request, RequestStream,
    RequestType, RunLength, SizeSpec, TraceOptions, TraceReader, TraceSpeed, Workload,
};

use super::ExperimentError;
use crate::dataset::Dataset;

/// The most requests of a trace, which is held in memory.
pub const TRACE_REQUESTS_MAX: usize = 2_000_000;

/// Mean service time of a backend that only a trace knows.
const TRACE_SERVICE: Nanos = Nanos::from_millis(4);
/// Utilisation of its servers if the cache never hit.
const TRACE_UTILISATION: f64 = 0.5;
/// The most servers that it gets.
const TRACE_SERVERS_MAX: f64 = 64.0;

/// Where requests come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A workload with one application server. It runs for its measured length; its prefix fills the caches.
    Generated(Workload),
    /// A trace in either format, from its first request to its last. The caches start empty.
    Trace {
        /// The file.
        path: PathBuf,
        /// How fast it is replayed.
        speed: TraceSpeed,
        /// Count bad lines, or bad blocks, and go on, instead of failing.
        skip_bad: bool,
        /// Backends that have a name in this workload are served and limited as it says; all others are key-value
        /// lookups with enough servers. Its overhead and cache size are used too.
        described: Workload,
    },
}

/// Everything that an experiment reads.
pub(super) struct Prepared {
    pub(super) dataset: Arc<Dataset>,
    pub(super) prefix: Vec<Request>,
    pub(super) arrivals: Arrivals,
    /// Length of the run.
    pub(super) measured: Nanos,
    pub(super) requests_per_second: f64,
    /// Bad lines, or bad blocks, of the trace.
    pub(super) skipped: u64,
}

/// Requests in the order of their due times.
pub(super) enum Arrivals {
    Generated(Box<Generator>),
    Recorded(std::vec::IntoIter<Arc<Request>>),
}

impl Iterator for Arrivals {
    type Item = Arc<Request>;

    fn next(&mut self) -> Option<Arc<Request>> {
        match self {
            Self::Generated(generator) => {
                let mut request = Request::new();
                generator.generate(&mut request);
                Some(Arc::new(request))
            }
            Self::Recorded(requests) => requests.next(),
        }
    }
}

impl Source {
    pub(super) fn prepare(self, seed: u64) -> Result<Prepared, ExperimentError> {
        match self {
            Self::Generated(workload) => generated(workload, seed),
            Self::Trace { path, speed, skip_bad, described } => {
                let options = TraceOptions { speed, seed, servers: 1, skip_bad };
                recorded(&path, options, &described)
            }
        }
    }
}

fn generated(workload: Workload, seed: u64) -> Result<Prepared, ExperimentError> {
    if workload.servers != 1 {
        let (workload, servers) = (workload.name, workload.servers);
        return Err(ExperimentError::ApplicationServers { workload, servers });
    }
    let mut generator = Generator::new(&workload, seed).map_err(crate::DatasetError::from)?;
    let mut prefix = Vec::new();
    for _ in 0..workload.prefill_requests {
        let mut request = Request::new();
        generator.generate(&mut request);
        prefix.push(request);
    }
    generator.restart_clock();
    Ok(Prepared {
        measured: workload.length.measured,
        requests_per_second: workload.rate().0,
        dataset: Dataset::generate(workload, seed)?,
        prefix,
        arrivals: Arrivals::Generated(Box::new(generator)),
        skipped: 0,
    })
}

fn recorded(
    path: &Path,
    options: TraceOptions,
    described: &Workload,
) -> Result<Prepared, ExperimentError> {
    let file = File::open(path)
        .map_err(|source| ExperimentError::Open { path: path.to_owned(), source })?;
    let mut reader = TraceReader::new(BufReader::new(file), &path.display().to_string(), options);
    let mut requests = Vec::new();
    let mut queries: Vec<(u64, u64)> = Vec::new(); // batches and queries by backend
    loop {
        let mut request = Request::new();
        if !reader.next_into(&mut request)? {
            break;
        }
        if requests.len() == TRACE_REQUESTS_MAX {
            return Err(ExperimentError::TraceTooLong { path: path.to_owned() });
        }
        queries.resize(reader.backends().len(), (0, 0));
        for batch in request.stages().flatten() {
            let (batches, sum) = &mut queries[batch.backend.index()];
            *batches += 1;
            *sum += u64::from(batch.queries());
        }
        requests.push(Arc::new(request));
    }
    let last = requests.last().map_or(Instant::ZERO, |request| request.due);
    let measured = last.since(Instant::ZERO) + Nanos(1); // the last request is due within the run
    let requests_per_second = requests.len() as f64 / measured.as_secs_f64().max(1e-3);
    let ids = || (0..reader.backends().len() as u16).map(BackendId);
    let sizes: Vec<Vec<u32>> = ids()
        .map(|id| {
            let keys = (0..reader.catalogue(id)).map(robinhood_workload::Key);
            keys.map(|key| reader.value_bytes(id, key)).collect()
        })
        .collect();
    let traffic = Traffic { requests: requests.len(), requests_per_second, measured, queries };
    let workload = trace_workload(path, reader.backends(), &traffic, described);
    Ok(Prepared {
        dataset: Dataset::with_sizes(workload, options.seed, &sizes)?,
        prefix: Vec::new(),
        arrivals: Arrivals::Recorded(requests.into_iter()),
        measured,
        requests_per_second,
        skipped: reader.skipped(),
    })
}

/// What a trace holds.
struct Traffic {
    requests: usize,
    requests_per_second: f64,
    measured: Nanos,
    /// Batches and queries, by backend.
    queries: Vec<(u64, u64)>,
}

impl Traffic {
    /// Batches per request, and queries per batch.
    fn of(&self, backend: usize) -> (f64, f64) {
        let (batches, queries) = self.queries[backend];
        // A damaged trace may name a backend whose batches are all lost.
        (batches as f64 / self.requests as f64, queries as f64 / batches.max(1) as f64)
    }
}

/// The workload that a trace amounts to.
fn trace_workload(
    path: &Path,
    names: &[BackendName],
    traffic: &Traffic,
    described: &Workload,
) -> Workload {
    let place = |name: &BackendName| described.names().position(|known| known == name);
    let backend = |(index, name): (usize, &BackendName)| match place(name) {
        Some(place) => described.backends[place].clone(),
        None => lookups(name, traffic, index),
    };
    let capacity = |name: &BackendName| {
        place(name).map_or_else(Capacity::default, |p| described.capacities[p].clone())
    };
    let batch = |index: usize| BatchSpec {
        backend: BackendId(index as u16),
        queries_mean: traffic.of(index).1.max(1.0),
    };
    Workload {
        name: path.display().to_string(),
        backends: names.iter().enumerate().map(backend).collect(),
        // One type that queries everybody: what the machine is checked for, an upper bound.
        request_types: vec![RequestType {
            weight: 1.0,
            batches: (0..names.len()).map(batch).collect(),
        }],
        servers: 1,
        rate_per_server: Rate(traffic.requests_per_second),
        cache_per_server: described.cache_per_server,
        overhead: described.overhead,
        batch_queries_max: u32::MAX,
        prefill_requests: 0,
        capacities: names.iter().map(capacity).collect(),
        length: RunLength { warmup: Nanos::ZERO, measured: traffic.measured },
    }
}

fn lookups(name: &BackendName, traffic: &Traffic, index: usize) -> BackendSpec {
    const PER_KEY: f64 = 0.1;
    let (batches, queries) = traffic.of(index);
    let service_s = TRACE_SERVICE.as_secs_f64() * (1.0 + PER_KEY * (queries - 1.0));
    let busy = traffic.requests_per_second * batches * service_s;
    BackendSpec {
        name: name.clone(),
        kind: BackendKind::Lookup,
        catalogue: 1, // set from the sizes
        popularity: Popularity::Zipf { exponent: 0.0 },
        sizes: SizeSpec::Fixed(0),
        service: TRACE_SERVICE,
        per_key: PER_KEY,
        sigma: 0.7,
        servers: (busy / TRACE_UTILISATION).ceil().clamp(2.0, TRACE_SERVERS_MAX) as u32,
        speed: 1.0,
        timeout: Nanos::from_secs(10),
        utilisation_target: None,
        cacheable_share: 1.0,
    }
}

/// The backend whose objects together are smallest, as a share of the cache.
pub(super) fn smallest_catalogue(dataset: &Dataset, budget: Bytes) -> (BackendName, f64) {
    let share = |id| dataset.value_bytes(id).as_f64() / budget.as_f64();
    let smallest = dataset.ids().min_by(|&a, &b| share(a).total_cmp(&share(b)));
    let smallest = smallest.expect("a workload has backends");
    (dataset.workload().backends[smallest.index()].name.clone(), share(smallest))
}
