//! Where the requests of an experiment come from: a workload that generates them, or a trace that recorded them.
//!
//! Place in the flow: before anything runs. Both give the data that the backends need, the prefix that fills the caches,
//! and the arrivals.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use robinhood_stats::{BackendId, BackendName, Bytes, Instant, Nanos};
use robinhood_workload::{
    Generator, Request, RequestStream, Surveyor, TraceOptions, TraceReader, TraceSpeed, Workload,
};

use super::ExperimentError;
use crate::dataset::Dataset;

/// The most requests of a trace, which is held in memory.
pub const TRACE_REQUESTS_MAX: usize = 2_000_000;

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
pub(crate) struct Prepared {
    pub(crate) dataset: Arc<Dataset>,
    pub(crate) prefix: Vec<Request>,
    pub(super) arrivals: Arrivals,
    /// Length of the run.
    pub(super) measured: Nanos,
    pub(crate) requests_per_second: f64,
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
    pub(crate) fn prepare(self, seed: u64) -> Result<Prepared, ExperimentError> {
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
    let (mut requests, mut surveyor) = (Vec::new(), Surveyor::new());
    loop {
        let mut request = Request::new();
        if !reader.next_into(&mut request)? {
            break;
        }
        if requests.len() == TRACE_REQUESTS_MAX {
            return Err(ExperimentError::TraceTooLong { path: path.to_owned() });
        }
        surveyor.add(&request, &reader);
        requests.push(Arc::new(request));
    }
    let survey = surveyor.finish(&reader);
    let measured = survey.last_due.since(Instant::ZERO) + Nanos(1); // the last request is due within the run
    let ids = (0..reader.backends().len() as u16).map(BackendId);
    let sizes: Vec<Vec<u32>> = ids
        .map(|id| {
            let keys = (0..reader.catalogue(id)).map(robinhood_workload::Key);
            keys.map(|key| reader.value_bytes(id, key)).collect()
        })
        .collect();
    let one_server = Workload { servers: 1, ..described.clone() };
    let workload = Workload::recorded(&path.display().to_string(), &survey, &one_server);
    Ok(Prepared {
        dataset: Dataset::with_sizes(workload, options.seed, &sizes)?,
        prefix: Vec::new(),
        measured,
        requests_per_second: requests.len() as f64 / measured.as_secs_f64().max(1e-3),
        arrivals: Arrivals::Recorded(requests.into_iter()),
        skipped: reader.skipped(),
    })
}

/// The backend whose objects together are smallest, as a share of the cache.
pub(super) fn smallest_catalogue(dataset: &Dataset, budget: Bytes) -> (BackendName, f64) {
    let share = |id| dataset.value_bytes(id).as_f64() / budget.as_f64();
    let smallest = dataset.ids().min_by(|&a, &b| share(a).total_cmp(&share(b)));
    let smallest = smallest.expect("a workload has backends");
    (dataset.workload().backends[smallest.index()].name.clone(), share(smallest))
}
