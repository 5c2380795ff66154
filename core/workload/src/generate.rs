//! The generated stream: Poisson arrivals of typed requests, geometric batches, Zipf keys.
//!
//! Place in the flow: from a [`Workload`] and a seed to [`Request`]s. Request n is the same whatever was asked before it, except for its due time,
//! which is the sum of the gaps up to it.

use robinhood_stats::{BackendId, BackendName, Instant, Nanos};

use crate::draws::{Draws, Geometric, Purpose, Stream};
use crate::popularity::Keys;
use crate::request::{Key, Request, RequestStream};
use crate::sizes::ObjectSizes;
use crate::spec::{BackendSpec, BatchSpec, RequestType, Workload, WorkloadError};
use crate::trace::TraceError;

/// An endless stream of the requests of all application servers, in the order of their due times.
#[derive(Clone, Debug)]
pub struct Generator {
    arrivals: Stream,
    app_servers: Stream,
    request_types: Stream,
    names: Vec<BackendName>,
    backends: Vec<BackendSource>,
    types: Vec<TypeSource>,
    /// Cumulative weights of the types; the last one is the sum.
    type_weights: Vec<f64>,
    servers: u16,
    gap_ns_mean: f64,
    batch_queries_max: u32,
    next_index: u64,
    /// Time of the last arrival. A float would lose nanoseconds after some days of virtual time, the sum of rounded gaps loses none.
    last_due: Instant,
}

#[derive(Clone, Debug)]
struct BackendSource {
    batch_sizes: Stream,
    key_draws: Stream,
    cacheable: Stream,
    keys: Keys,
    sizes: ObjectSizes,
    cacheable_share: f64,
}

#[derive(Clone, Debug)]
struct TypeSource {
    batches: Vec<(BackendId, Geometric)>,
}

impl Generator {
    /// The stream of a workload and a seed, from its first request.
    pub fn new(workload: &Workload, seed: u64) -> Result<Self, WorkloadError> {
        workload.validate()?;
        let geometric = |b: &BatchSpec| (b.backend, Geometric::with_mean(b.queries_mean));
        let mut sum = 0.0;
        let cumulative = |t: &RequestType| {
            sum += t.weight;
            sum
        };
        let draws = Draws::new(seed);
        Ok(Self {
            arrivals: draws.stream_of_requests(Purpose::Arrival),
            app_servers: draws.stream_of_requests(Purpose::AppServer),
            request_types: draws.stream_of_requests(Purpose::RequestType),
            names: workload.names().cloned().collect(),
            backends: sources(&workload.backends, draws),
            types: workload
                .request_types
                .iter()
                .map(|t| TypeSource { batches: t.batches.iter().map(geometric).collect() })
                .collect(),
            type_weights: workload.request_types.iter().map(cumulative).collect(),
            servers: workload.servers,
            gap_ns_mean: 1e9 / workload.rate().0,
            batch_queries_max: workload.batch_queries_max,
            next_index: 0,
            last_due: Instant::ZERO,
        })
    }

    /// Sets the clock back to zero: the next request is due one gap after the start. For those who filled their caches with the requests before it.
    pub fn restart_clock(&mut self) {
        self.last_due = Instant::ZERO;
    }

    /// Fills `request` with the next one.
    pub fn generate(&mut self, request: &mut Request) {
        self.generate_and_show(request, |_, _, _| {});
    }

    /// Fills `request` with the next one, and shows each batch of it (server, backend and keys) as soon as it is there, for those who have the memory
    /// fetched that it needs.
    #[inline]
    pub fn generate_and_show(
        &mut self,
        request: &mut Request,
        mut show: impl FnMut(u16, BackendId, &[Key]),
    ) {
        let index = self.next_index;
        self.next_index += 1;
        let gap = self.arrivals.at(index).exponential(0, self.gap_ns_mean);
        self.last_due = self.last_due + Nanos(gap as u64);
        request.clear();
        request.index = index;
        request.due = self.last_due;
        let server = self.app_servers.at(index);
        request.app_server = server.below(0, u64::from(self.servers)) as u16;
        request.push_stage();
        let weights =
            self.request_types.at(index).unit(0) * self.type_weights[self.type_weights.len() - 1];
        let chosen = self.type_weights.partition_point(|&end| end <= weights);
        for &(backend, geometric) in &self.types[chosen.min(self.types.len() - 1)].batches {
            let sizes = self.backends[backend.index()].batch_sizes.at(index);
            let queries = sizes.geometric(0, geometric, self.batch_queries_max);
            self.push_batch(request, backend, queries);
            if let Some(batch) = request.stage(0).last() {
                show(request.app_server, backend, request.keys(batch));
            }
        }
    }

    #[inline]
    fn push_batch(&self, request: &mut Request, backend: BackendId, queries: u32) {
        match &self.backends[backend.index()].keys {
            Keys::Zipf(zipf) => self.push_keys(request, backend, queries, |bits| zipf.rank(bits)),
            Keys::Buckets(keys) => self.push_keys(request, backend, queries, |bits| keys.key(bits)),
        }
    }

    #[inline]
    fn push_keys(
        &self,
        request: &mut Request,
        backend: BackendId,
        queries: u32,
        key: impl Fn(u64) -> u32,
    ) {
        let source = &self.backends[backend.index()];
        let sequence = source.key_draws.at(request.index);
        let keys = (0..u64::from(queries)).map(|i| Key(key(sequence.bits(i))));
        let share = source.cacheable_share;
        if share >= 1.0 {
            request.push_cacheable_batch(backend, keys);
        } else {
            let cacheable = source.cacheable.at(request.index);
            let queries = keys.zip(0..).map(|(key, i)| (key, cacheable.unit(i) < share));
            request.push_batch(backend, queries);
        }
    }
}

fn sources(specs: &[BackendSpec], draws: Draws) -> Vec<BackendSource> {
    let mut sources: Vec<BackendSource> = Vec::new();
    for (place, spec) in specs.iter().enumerate() {
        let backend = BackendId(place as u16);
        let alike = specs[..place].iter().position(|other| other.sizes == spec.sizes);
        sources.push(BackendSource {
            batch_sizes: draws.stream(Purpose::BatchSize, backend),
            key_draws: draws.stream(Purpose::Key, backend),
            cacheable: draws.stream(Purpose::Cacheable, backend),
            keys: Keys::new(spec.catalogue, &spec.popularity),
            sizes: match alike {
                Some(other) => sources[other].sizes.for_backend(backend),
                None => ObjectSizes::new(&spec.sizes, backend),
            },
            cacheable_share: spec.cacheable_share,
        });
    }
    sources
}

impl RequestStream for Generator {
    fn next_into(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        self.generate(request);
        Ok(true)
    }

    fn backends(&self) -> &[BackendName] {
        &self.names
    }

    #[inline]
    fn value_bytes(&self, backend: BackendId, key: Key) -> u32 {
        self.backends[backend.index()].sizes.bytes(key.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::popularity::Popularity;
    use crate::presets;

    fn onerf() -> Workload {
        presets::onerf(presets::Scale::EIGHTH)
    }

    #[test]
    fn the_stream_has_the_rate_and_the_queries_of_the_workload() {
        let workload = onerf();
        let mut stream = Generator::new(&workload, 1).unwrap();
        let mut request = Request::new();
        let (mut queries, mut first_server) = (0, 0);
        let mut by_backend = vec![0usize; workload.backends.len()];
        for _ in 0..100_000 {
            stream.generate(&mut request);
            queries += request.queries();
            first_server += u32::from(request.app_server == 0);
            for batch in request.stage(0) {
                by_backend[batch.backend.index()] += batch.queries() as usize;
                let catalogue = workload.backends[batch.backend.index()].catalogue;
                assert!(request.keys(batch).iter().all(|key| key.0 < catalogue));
            }
        }
        let rate = 100_000.0 / request.due.as_secs_f64();
        assert!((rate / 434.0 - 1.0).abs() < 0.02, "{rate}");
        assert!((49_000..51_000).contains(&first_server), "{first_server}");
        let per_request = queries as f64 / 100_000.0;
        assert!((per_request - 26.7).abs() < 0.4, "{per_request}");
        for (backend, percent) in
            [35.0, 20.0, 14.0, 6.0, 6.0, 10.0, 3.0, 3.0].into_iter().enumerate()
        {
            let share = 100.0 * by_backend[backend] as f64 / queries as f64;
            assert!((share - percent).abs() < 0.8, "backend {}: {share}", backend + 1);
        }
    }

    #[test]
    fn a_seed_gives_one_stream_and_another_seed_another() {
        let take = |seed| {
            let mut stream = Generator::new(&onerf(), seed).unwrap();
            let mut request = Request::new();
            (0..50)
                .map(|_| {
                    stream.generate(&mut request);
                    request.clone()
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(take(7), take(7));
        assert_ne!(take(7), take(8));
    }

    #[test]
    fn a_restarted_clock_keeps_the_requests_and_moves_their_due_times() {
        let (mut whole, mut restarted) =
            (Generator::new(&onerf(), 1).unwrap(), Generator::new(&onerf(), 1).unwrap());
        let (mut a, mut b) = (Request::new(), Request::new());
        for _ in 0..1_000 {
            whole.generate(&mut a);
            restarted.generate(&mut b);
        }
        let before = a.due;
        restarted.restart_clock();
        whole.generate(&mut a);
        restarted.generate(&mut b);
        assert_eq!(b.due.since(Instant::ZERO), a.due.since(before));
        b.due = a.due;
        assert_eq!(a, b);
    }

    #[test]
    fn the_share_of_cacheable_queries_is_kept_whatever_the_popularity() {
        let mut workload = onerf();
        for backend in &mut workload.backends {
            backend.popularity = Popularity::Zipf { exponent: 1.4 }; // every third query is for the first key
            backend.cacheable_share = 0.3;
        }
        let take = |seed| {
            let mut stream = Generator::new(&workload, seed).unwrap();
            let mut request = Request::new();
            let (mut cacheable, mut queries) = (0_u32, 0_u32);
            for _ in 0..10_000 {
                stream.generate(&mut request);
                for batch in request.stage(0) {
                    let flags = request.cacheable(batch);
                    cacheable += flags.iter().map(|&flag| u32::from(flag)).sum::<u32>();
                    queries += batch.queries();
                }
            }
            (cacheable, queries)
        };
        let (cacheable, queries) = take(1);
        let expected = 0.3 * f64::from(queries);
        let error = (f64::from(cacheable) - expected) / (expected * 0.7).sqrt();
        assert!(error.abs() < 5.0, "{cacheable} of {queries}: {error} standard errors");
        assert_eq!(take(1), (cacheable, queries));
    }
}
