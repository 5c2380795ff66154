//! The workload that a recorded stream amounts to: what a trace does not say about the system that serves it.
//!
//! Place in the flow: between the survey of a trace and whoever replays it. The simulator and the live testbed serve a trace by the same assumptions.

use robinhood_stats::{BackendId, Instant, Nanos, Rate};

use crate::capacity::Capacity;
use crate::popularity::Popularity;
use crate::sizes::SizeSpec;
use crate::spec::{BackendKind, BackendSpec, BatchSpec, RequestType, RunLength, Workload};
use crate::trace::{BackendSurvey, Survey};

/// Mean service time of a backend that only the trace knows.
const SERVICE: Nanos = Nanos::from_millis(4);
/// Additional time for each further key of a batch, as a share of it.
const PER_KEY: f64 = 0.1;
/// Utilisation of its servers if the cache never hit.
const UTILISATION: f64 = 0.5;
/// The most servers that it gets.
const SERVERS_MAX: f64 = 64.0;

impl Workload {
    /// What it takes to serve a recorded stream. `described` gives application servers, their caches and overhead, and every backend of its own that the stream
    /// queries; all others are key-value lookups with enough servers for half utilisation without any hit, 64 at most. Catalogues, mean sizes and rates are those of the survey. The
    /// request types have the chances and mean batches of the stream, but not their dependence on each other: who replays the stream does not need them. The run
    /// is as long as the stream, without warm-up and prefill; the system's capacities change as described.
    ///
    /// ```
    /// # use robinhood_stats::Nanos;
    /// # use robinhood_workload::{Survey, TraceError, TraceOptions, TraceReader, Workload, presets};
    /// # let file: &[u8] = br#"{"t": 0, "d": [{"users": {"S": [700, 80], "U": ["ann", "bob"], "C": [1, 1]}}]}"#;
    /// let survey = Survey::of(&mut TraceReader::new(file, "trace.jsonl", TraceOptions::default()))?;
    /// let workload = Workload::recorded("trace.jsonl", &survey, &presets::demo(Nanos::from_secs(60)));
    /// assert_eq!((workload.backends[0].name.as_str(), workload.backends[0].catalogue), ("users", 2));
    /// # Ok::<(), TraceError>(())
    /// ```
    pub fn recorded(name: &str, survey: &Survey, described: &Self) -> Self {
        // The last request, too, must arrive within the run.
        let measured = survey.last_due.since(Instant::ZERO) + described.overhead + Nanos(1);
        let rate = Rate(survey.requests as f64 / measured.as_secs_f64().max(1e-3));
        let place = |one: &BackendSurvey| described.names().position(|known| *known == one.name);
        let backend = |one: &BackendSurvey| BackendSpec {
            catalogue: one.key_space.max(1),
            sizes: SizeSpec::Fixed(object_bytes_mean(one)),
            cacheable_share: one.cacheable_share(),
            ..match place(one) {
                Some(place) => described.backends[place].clone(),
                None => lookups(one, rate, survey.requests),
            }
        };
        let capacity = |one: &BackendSurvey| {
            place(one).map_or_else(Capacity::default, |place| described.capacities[place].clone())
        };
        Self {
            name: name.to_owned(),
            backends: survey.backends.iter().map(backend).collect(),
            request_types: request_types(survey),
            servers: described.servers,
            rate_per_server: Rate(rate.0 / f64::from(described.servers)),
            cache_per_server: described.cache_per_server,
            overhead: described.overhead,
            batch_queries_max: u32::MAX,
            prefill_requests: 0,
            capacities: survey.backends.iter().map(capacity).collect(),
            length: RunLength { warmup: Nanos::ZERO, measured },
        }
    }
}

fn object_bytes_mean(backend: &BackendSurvey) -> u32 {
    (backend.distinct_bytes.0 / backend.distinct_keys.max(1)).clamp(1, u32::MAX.into()) as u32
}

/// A backend that only the trace knows, at this rate of requests.
fn lookups(backend: &BackendSurvey, rate: Rate, requests: u64) -> BackendSpec {
    let batches = backend.batches as f64 / requests.max(1) as f64;
    let keys = backend.batch_queries_mean().max(1.0);
    let busy = rate.0 * batches * SERVICE.as_secs_f64() * (1.0 + PER_KEY * (keys - 1.0));
    BackendSpec {
        name: backend.name.clone(),
        kind: BackendKind::Lookup,
        catalogue: 1,
        popularity: Popularity::Zipf { exponent: 0.0 },
        sizes: SizeSpec::Fixed(1),
        service: SERVICE,
        per_key: PER_KEY,
        sigma: 0.7,
        servers: (busy / UTILISATION).ceil().clamp(2.0, SERVERS_MAX) as u32,
        speed: 1.0,
        timeout: Nanos::from_secs(10),
        utilisation_target: None,
        cacheable_share: 1.0,
    }
}

/// Types whose weights give every backend its chance: the most queried backend alone or with the next, these two alone or with the third, and so on. A
/// backend that is queried more than once a request counts as once, with larger batches.
fn request_types(survey: &Survey) -> Vec<RequestType> {
    let requests = survey.requests.max(1) as f64;
    let batch = |(id, one): (u16, &BackendSurvey)| {
        let chance = one.requests as f64 / requests;
        let queries_mean = (one.queries as f64 / one.requests.max(1) as f64).max(1.0);
        (chance, BatchSpec { backend: BackendId(id), queries_mean })
    };
    let mut batches: Vec<(f64, BatchSpec)> = (0..).zip(&survey.backends).map(batch).collect();
    batches.sort_by(|a, b| b.0.total_cmp(&a.0)); // stable: equal chances stay in order
    let none = 1.0 - batches.first().map_or(0.0, |first| first.0);
    let mut types = vec![RequestType { weight: none, batches: Vec::new() }];
    for place in 0..batches.len() {
        let next = batches.get(place + 1).map_or(0.0, |next| next.0);
        let with = batches[..=place].iter().map(|&(_, batch)| batch).collect();
        types.push(RequestType { weight: batches[place].0 - next, batches: with });
    }
    types.retain(|one| one.weight > 0.0);
    types
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets;
    use crate::trace::{TraceOptions, TraceReader};

    const TRACE: &str = r#"{"t": 0, "d": [{"b1": {"S": [10, 30], "U": ["x", "y"], "C": [1, 0]}, "new": {"S": [7], "U": ["x"], "C": [1]}}]}
{"t": 1, "d": [{"b1": {"S": [10], "U": ["x"], "C": [1]}}, {"b1": {"S": [10], "U": ["x"], "C": [1]}}]}
{"t": 2, "d": []}
{"t": 4, "d": [{"b1": {"S": [30], "U": ["y"], "C": [1]}}]}
"#;

    fn recorded() -> (Workload, Workload) {
        let mut trace = TraceReader::new(TRACE.as_bytes(), "t.jsonl", TraceOptions::default());
        let described = presets::onerf(presets::Scale::EIGHTH);
        (Workload::recorded("t", &Survey::of(&mut trace).unwrap(), &described), described)
    }

    #[test]
    fn known_backends_are_as_described_and_others_are_lookups_with_enough_servers() {
        let (workload, described) = recorded();
        workload.validate().unwrap();
        let (known, spec) = (&workload.backends[0], &described.backends[0]);
        assert_eq!((known.name.as_str(), known.catalogue), ("b1", 2));
        assert_eq!((known.service, known.servers), (spec.service, spec.servers));
        assert_eq!(known.sizes, SizeSpec::Fixed(20));
        assert!((known.cacheable_share - 0.8).abs() < 1e-12);
        let new = &workload.backends[1];
        assert_eq!((new.name.as_str(), new.kind, new.servers), ("new", BackendKind::Lookup, 2));
        assert_eq!(workload.servers, described.servers);
        assert_eq!(workload.length.measured, Nanos(4_000_000_001) + described.overhead);
        assert!((workload.rate().0 - 1.0).abs() < 1e-3, "{}", workload.rate().0);
    }

    #[test]
    fn the_request_types_ask_every_backend_as_often_as_the_trace_does() {
        let (workload, _) = recorded();
        let asked = |backend: u16| -> (f64, f64) {
            let of = |t: &RequestType| {
                let batch = t.batches.iter().find(|batch| batch.backend == BackendId(backend));
                batch.map_or((0.0, 0.0), |batch| (t.weight, t.weight * batch.queries_mean))
            };
            let all = workload.request_types.iter().map(of);
            all.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
        };
        let near = |found: (f64, f64), chance: f64, queries: f64| {
            assert!((found.0 - chance).abs() < 1e-12 && (found.1 - queries).abs() < 1e-12);
        };
        near(asked(0), 3.0 / 4.0, 5.0 / 4.0);
        near(asked(1), 1.0 / 4.0, 1.0 / 4.0);
        let weights: f64 = workload.request_types.iter().map(|one| one.weight).sum();
        assert!((weights - 1.0).abs() < 1e-12);
    }

    #[test]
    fn a_busy_backend_gets_more_servers_and_never_more_than_64() {
        let line = TRACE.lines().next().unwrap();
        let servers = |per_second: usize| {
            let text = format!("{line}\n").repeat(per_second);
            let mut trace = TraceReader::new(text.as_bytes(), "t", TraceOptions::default());
            let survey = Survey::of(&mut trace).unwrap();
            let described = presets::demo(Nanos::from_secs(60));
            Workload::recorded("t", &survey, &described).backends[1].servers
        };
        assert_eq!(servers(10), 2);
        // 1,000 batches a second of 4 ms keep four servers busy, half of eight.
        assert!((8..=9).contains(&servers(1_000)), "{}", servers(1_000));
        assert_eq!(servers(20_000), 64);
    }
}
