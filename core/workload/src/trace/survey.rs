//! What a stream of requests holds, measured in one pass.
//!
//! Place in the flow: before a trace is run. The simulator learns from it which backends there are and how many keys each has, people what is in the file.
//!
//! ```
//! # use robinhood_workload::{Survey, TraceError, TraceOptions, TraceReader};
//! # let file: &[u8] = br#"{"t": 0, "d": [{"users": {"S": [700, 80], "U": ["ann", "bob"], "C": [1, 1]}}]}"#;
//! let mut trace = TraceReader::new(file, "trace.jsonl", TraceOptions::default());
//! let survey = Survey::of(&mut trace)?; // to the end of the file
//! let users = &survey.backends[0]; // the place is the stream's `BackendId`
//! assert_eq!((users.name.as_str(), users.key_space, users.distinct_bytes.0), ("users", 2, 780));
//! # Ok::<(), TraceError>(())
//! ```
//!
//! A [`Surveyor`] does the same for a caller that has the requests already, or shows progress meanwhile. Memory: 4 bytes for each key.

use robinhood_stats::{BackendName, Bytes, Histogram, Instant, Nanos, Rate};

use crate::request::{Batch, Key, Request, RequestStream};
use crate::trace::TraceError;

/// Share of the keys that is looked at for top-heaviness.
const TOP_SHARE: f64 = 0.01;

/// The figures of a stream of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// Number of requests.
    pub requests: u64,
    /// Number of queries of all requests.
    pub queries: u64,
    /// When the first request was due.
    pub first_due: Instant,
    /// When the last request was due.
    pub last_due: Instant,
    /// Number of stages of each request; 0 for one without queries.
    pub stages: Histogram,
    /// Number of distinct backends of each request; exact up to 1,024, which is the most.
    pub fanout: Histogram,
    /// Number of queries of each batch; exact up to 2,047, then within 0.1 %.
    pub batch_queries: Histogram,
    /// Share of queries that went to the most queried 1 % of the keys of all backends, at least one key; 0 without queries.
    pub top_percent_query_share: f64,
    /// The backends, by [`BackendId`](robinhood_stats::BackendId) of the stream. All that the stream named, also those without queries.
    pub backends: Vec<BackendSurvey>,
}

/// The figures of one backend.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendSurvey {
    /// Its name.
    pub name: BackendName,
    /// One more than the largest key number; 0 without queries. What a table by key needs.
    pub key_space: u32,
    /// Number of different keys that were queried.
    pub distinct_keys: u64,
    /// Bytes of the objects of these keys together, each by its newest size.
    pub distinct_bytes: Bytes,
    /// Number of requests that queried it.
    pub requests: u64,
    /// Number of batches.
    pub batches: u64,
    /// Number of queries.
    pub queries: u64,
    /// Number of queries whose object a cache may hold.
    pub cacheable_queries: u64,
    /// Bytes of the objects of all queries together.
    pub query_bytes: u128,
}

/// Makes a [`Survey`] from requests that are handed to it.
#[derive(Clone, Debug)]
pub struct Surveyor {
    survey: Survey,
    /// Queries by key, by backend; saturating.
    counts: Vec<Vec<u32>>,
    /// The request in which the backend was met last, numbered from 1.
    met_in: Vec<u64>,
}

impl Survey {
    /// Reads a stream to its end.
    pub fn of<S: RequestStream>(stream: &mut S) -> Result<Self, TraceError> {
        let mut surveyor = Surveyor::new();
        let mut request = Request::new();
        while stream.next_into(&mut request)? {
            surveyor.add(&request, stream);
        }
        Ok(surveyor.finish(stream))
    }

    /// Time between the first and the last request.
    pub const fn span(&self) -> Nanos {
        self.last_due.since(self.first_due)
    }

    /// Requests per second; `None` when all came at once.
    pub fn rate(&self) -> Option<Rate> {
        let gaps = self.requests.saturating_sub(1) as f64;
        (self.span() > Nanos::ZERO).then(|| Rate(gaps / self.span().as_secs_f64()))
    }

    /// Mean number of queries in a request; 0 without requests.
    pub fn queries_per_request(&self) -> f64 {
        ratio(self.queries as f64, self.requests as f64)
    }
}

impl BackendSurvey {
    /// Mean number of queries in a batch; 0 without batches.
    pub fn batch_queries_mean(&self) -> f64 {
        ratio(self.queries as f64, self.batches as f64)
    }

    /// Share of its queries whose object a cache may hold; 0 without queries.
    pub fn cacheable_share(&self) -> f64 {
        ratio(self.cacheable_queries as f64, self.queries as f64)
    }

    /// Mean bytes of an object, each counted as often as it was queried; 0 without queries.
    pub fn query_bytes_mean(&self) -> f64 {
        ratio(self.query_bytes as f64, self.queries as f64)
    }

    /// Share of its queries that ask for a key that was asked for before; 0 without queries. No cache hits more often.
    pub fn reuse_share(&self) -> f64 {
        ratio((self.queries - self.distinct_keys) as f64, self.queries as f64)
    }

    fn new(name: BackendName) -> Self {
        Self {
            name,
            key_space: 0,
            distinct_keys: 0,
            distinct_bytes: Bytes::ZERO,
            requests: 0,
            batches: 0,
            queries: 0,
            cacheable_queries: 0,
            query_bytes: 0,
        }
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

impl Default for Surveyor {
    fn default() -> Self {
        Self::new()
    }
}

impl Surveyor {
    /// One that has seen nothing.
    pub const fn new() -> Self {
        let survey = Survey {
            requests: 0,
            queries: 0,
            first_due: Instant::ZERO,
            last_due: Instant::ZERO,
            stages: Histogram::precise(),
            fanout: Histogram::precise(),
            batch_queries: Histogram::precise(),
            top_percent_query_share: 0.0,
            backends: Vec::new(),
        };
        Self { survey, counts: Vec::new(), met_in: Vec::new() }
    }

    /// Number of requests so far.
    pub const fn requests(&self) -> u64 {
        self.survey.requests
    }

    /// Counts a request of `stream`.
    ///
    /// # Panics
    /// When the request is not of this stream.
    pub fn add<S: RequestStream + ?Sized>(&mut self, request: &Request, stream: &S) {
        self.meet(stream.backends());
        let survey = &mut self.survey;
        if survey.requests == 0 {
            survey.first_due = request.due;
        }
        survey.last_due = request.due;
        survey.requests += 1;
        survey.queries += request.queries() as u64;
        survey.stages.add(request.stage_count() as u64);
        let mut fanout = 0;
        for batch in request.stages().flatten() {
            survey.batch_queries.add(u64::from(batch.queries()));
            let met_in = &mut self.met_in[batch.backend.index()];
            let first = *met_in != survey.requests;
            *met_in = survey.requests;
            fanout += u64::from(first);
            let backend = &mut survey.backends[batch.backend.index()];
            backend.requests += u64::from(first);
            backend.batches += 1;
            backend.queries += u64::from(batch.queries());
            let cacheable = request.cacheable(batch).iter().filter(|&&cacheable| cacheable).count();
            backend.cacheable_queries += cacheable as u64;
            backend.query_bytes += bytes(request, batch, stream);
            count(&mut self.counts[batch.backend.index()], request.keys(batch));
        }
        survey.fanout.add(fanout);
    }

    /// The figures of all requests so far; `stream` is asked for the sizes of their objects.
    pub fn finish<S: RequestStream + ?Sized>(mut self, stream: &S) -> Survey {
        self.meet(stream.backends());
        for (backend, counts) in (0..).map(robinhood_stats::BackendId).zip(&self.counts) {
            let queried = || (0..).map(Key).zip(counts).filter(|&(_, &count)| count > 0);
            let survey = &mut self.survey.backends[backend.index()];
            survey.key_space = counts.len() as u32;
            survey.distinct_keys = queried().count() as u64;
            survey.distinct_bytes =
                queried().map(|(key, _)| Bytes(u64::from(stream.value_bytes(backend, key)))).sum();
        }
        self.survey.top_percent_query_share = top_share(self.counts);
        self.survey
    }

    fn meet(&mut self, names: &[BackendName]) {
        for name in &names[self.counts.len()..] {
            self.survey.backends.push(BackendSurvey::new(name.clone()));
            self.counts.push(Vec::new());
            self.met_in.push(0);
        }
    }
}

fn bytes<S: RequestStream + ?Sized>(request: &Request, batch: &Batch, stream: &S) -> u128 {
    let bytes = |&key: &Key| u128::from(stream.value_bytes(batch.backend, key));
    request.keys(batch).iter().map(bytes).sum()
}

fn count(counts: &mut Vec<u32>, keys: &[Key]) {
    for key in keys {
        let place = key.0 as usize;
        if place >= counts.len() {
            counts.resize(place + 1, 0);
        }
        counts[place] = counts[place].saturating_add(1);
    }
}

/// Share of all counts that the largest of them have.
fn top_share(counts: Vec<Vec<u32>>) -> f64 {
    let mut counts: Vec<u32> = counts.into_iter().flatten().filter(|&count| count > 0).collect();
    if counts.is_empty() {
        return 0.0;
    }
    let top = ((counts.len() as f64 * TOP_SHARE) as usize).max(1);
    counts.select_nth_unstable_by(top - 1, |a, b| b.cmp(a));
    let sum = |counts: &[u32]| counts.iter().map(|&count| u64::from(count)).sum::<u64>() as f64;
    sum(&counts[..top]) / sum(&counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{self, Scale};
    use crate::{Generator, TraceOptions, TraceReader};

    const TRACE: &str = r#"{"t": 1, "d": [{"a": {"S": [5, 6], "U": ["x", "y"], "C": [1, 0]}, "b": {"S": [7], "U": ["x"], "C": [1]}}]}
{"t": 2, "d": []}
{"t": 3.5, "d": [{"a": {"S": [9], "U": ["x"], "C": [1]}}, {"a": {"S": [6], "U": ["y"], "C": [1]}}]}
"#;

    fn survey(text: &str) -> Survey {
        let mut trace = TraceReader::new(text.as_bytes(), "t.jsonl", TraceOptions::default());
        Survey::of(&mut trace).unwrap()
    }

    #[test]
    fn a_small_trace_is_counted_by_hand() {
        let survey = survey(TRACE);
        assert_eq!((survey.requests, survey.queries), (3, 5));
        assert_eq!(survey.span(), Nanos::from_millis(2_500));
        assert_eq!(survey.rate(), Some(Rate(2.0 / 2.5)));
        assert_eq!((survey.stages.min(), survey.stages.max()), (Some(0), Some(2)));
        assert_eq!(survey.stages.sum(), 3);
        assert_eq!(survey.fanout.buckets().collect::<Vec<_>>(), [(0, 1, 1), (1, 1, 1), (2, 1, 1)]);
        assert_eq!(survey.batch_queries.buckets().collect::<Vec<_>>(), [(1, 1, 3), (2, 1, 1)]);
        let [a, b] = &survey.backends[..] else { panic!("{:?}", survey.backends) };
        assert_eq!((a.key_space, a.distinct_keys, a.distinct_bytes), (2, 2, Bytes(15)));
        assert_eq!((a.requests, a.batches, a.queries, a.cacheable_queries), (2, 3, 4, 3));
        assert_eq!(a.query_bytes, 5 + 6 + 9 + 6);
        assert!((a.reuse_share() - 0.5).abs() < 1e-12);
        assert_eq!((b.name.as_str(), b.requests, b.queries, b.reuse_share()), ("b", 1, 1, 0.0));
        assert!((survey.top_percent_query_share - 2.0 / 5.0).abs() < 1e-12, "one key of three");
    }

    #[test]
    fn one_request_has_no_rate_and_no_query_no_share() {
        let survey = survey("{\"t\": 4, \"d\": []}");
        assert_eq!((survey.requests, survey.rate()), (1, None));
        assert_eq!((survey.queries_per_request(), survey.top_percent_query_share), (0.0, 0.0));
    }

    #[test]
    fn a_generated_stream_shows_the_figures_of_its_workload() {
        let workload = presets::onerf(Scale::EIGHTH);
        let mut stream = Generator::new(&workload, 1).unwrap();
        let (mut surveyor, mut request) = (Surveyor::new(), Request::new());
        for _ in 0..20_000 {
            stream.generate(&mut request);
            surveyor.add(&request, &stream);
        }
        let survey = surveyor.finish(&stream);
        assert!((survey.queries_per_request() / workload.queries_per_request() - 1.0).abs() < 0.03);
        assert!((survey.rate().unwrap().0 / workload.rate().0 - 1.0).abs() < 0.03);
        assert_eq!(survey.backends.len(), workload.backends.len());
        for (found, spec) in survey.backends.iter().zip(&workload.backends) {
            assert!(found.key_space <= spec.catalogue);
            assert!(found.distinct_keys <= u64::from(found.key_space));
            assert_eq!(found.cacheable_queries, found.queries);
        }
        assert!(survey.top_percent_query_share > 0.1, "{}", survey.top_percent_query_share);
    }
}
