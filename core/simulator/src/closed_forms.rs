//! Tests that hold the simulator against closed forms: queues, Little's law, LRU.
//!
//! Place in the flow: beside it. Caches are off for the queues: no object may be kept, so that each request is one batch of one missing key at one backend.
//!
//! How large a difference may be follows from the sample: successive waits depend on each other, so the sample is cut into 30 batches in a row, far longer
//! than a busy period; their means are nearly independent, and the spread of them gives the standard error of the whole (method of batch means, Law and
//! Kelton, "Simulation Modeling and Analysis", section 9.5). Four standard errors are allowed: by Student's distribution chance exceeds that once in 2,500
//! tests, and as batch means are skewed, somewhat more often; seeds are fixed and were not chosen. That the error is small enough to find a fault is asserted
//! as well. Shares of waits beyond a quantile of the closed form are tested instead of sample quantiles, which are biased.

use robinhood_cache::Sharing;
use robinhood_queueing::{Load, Mdc, Mg1, Mmc};
use robinhood_stats::{BackendId, Bytes, Instant, Nanos, Rate};
use robinhood_workload::{
    BackendKind, BackendSpec, BatchSpec, Capacity, CapacityPath, Draws, Generator, Popularity,
    Purpose, Request, RequestType, RunLength, SizeSpec, Workload,
};

use crate::Options;
use crate::queue::BackendQueue;
use crate::source::Source;
use crate::world::World;

mod lru;

const SERVICE: Nanos = Nanos::from_millis(10);
const BATCHES: usize = 30;
const STANDARD_ERRORS: f64 = 4.0;

/// A mean with what chance may have added to it.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    mean: f64,
    standard_error: f64,
}

/// # Panics
/// When the sample cannot be cut into equal batches.
fn batch_means(sample: impl ExactSizeIterator<Item = f64>) -> Estimate {
    let length = sample.len() / BATCHES;
    assert_eq!(sample.len(), length * BATCHES, "batches are alike");
    let mut means = [0.0; BATCHES];
    for (place, value) in sample.enumerate() {
        means[place / length] += value / length as f64;
    }
    let count = BATCHES as f64;
    let mean = means.iter().sum::<f64>() / count;
    let squares: f64 = means.iter().map(|m| (m - mean) * (m - mean)).sum();
    Estimate { mean, standard_error: (squares / (count - 1.0) / count).sqrt() }
}

/// Holds an estimate against the true value. Its standard error must be at most a share `error_max` of it.
fn assert_agrees(what: &str, found: Estimate, expected: f64, error_max: f64) {
    let Estimate { mean, standard_error } = found;
    let errors = (mean - expected) / standard_error;
    println!("{what}: {mean:.5} +- {standard_error:.5}, expected {expected:.5}: {errors:+.2}");
    assert!(standard_error <= error_max * expected, "{what}: too small a sample");
    assert!(errors.abs() <= STANDARD_ERRORS, "{what}: {mean}, not {expected}, {errors} errors");
}

/// One application server that asks one backend for one key a request and keeps nothing.
fn one_backend(servers: u32, utilisation: f64, sigma: f64) -> Workload {
    let backend = BackendSpec {
        name: "a".parse().unwrap(),
        kind: BackendKind::Lookup,
        catalogue: 1_000,
        popularity: Popularity::Zipf { exponent: 0.9 },
        sizes: SizeSpec::Fixed(1_000),
        service: SERVICE,
        per_key: 0.1,
        sigma,
        servers,
        speed: 1.0,
        timeout: Nanos::from_secs(600),
        utilisation_target: None,
        cacheable_share: 0.0,
    };
    let batch = BatchSpec { backend: BackendId(0), queries_mean: 1.0 };
    Workload {
        name: "closed form".to_owned(),
        backends: vec![backend],
        request_types: vec![RequestType { weight: 1.0, batches: vec![batch] }],
        servers: 1,
        rate_per_server: Rate(utilisation * f64::from(servers) / SERVICE.as_secs_f64()),
        cache_per_server: Bytes(1_000_000),
        overhead: Nanos::ZERO,
        batch_queries_max: 1,
        prefill_requests: 0,
        capacities: vec![Capacity::default()],
        length: RunLength { warmup: Nanos::ZERO, measured: Nanos::from_secs(1) },
    }
}

fn world(workload: &Workload, seed: u64) -> World {
    let source = Source::Generated(Box::new(Generator::new(workload, seed).unwrap()));
    World::new(workload, source, seed, Sharing::Partitioned, &Options::default())
}

/// Latencies of requests in mean service times, in the order of completion, after a tenth more that fill the queue.
fn sojourns(workload: &Workload, seed: u64, requests: usize) -> Vec<f64> {
    let mut world = world(workload, seed);
    let (mut request, mut latencies) = (Request::new(), Vec::new());
    let filling = requests / 10;
    while latencies.len() < filling + requests {
        world.next_request(&mut request).unwrap();
        while let Some(done) = world.poll_completion(world.arrival(request.due)) {
            latencies.extend(done.map(|done| done.latency.as_secs_f64() / SERVICE.as_secs_f64()));
        }
        let at_once = world.handle_request(&mut request);
        assert_eq!(at_once, None, "nothing is cached");
    }
    assert_eq!(world.tallies[0].hits + world.tallies[0].timeouts, 0);
    latencies.truncate(filling + requests);
    latencies.split_off(filling)
}

/// Holds the share of `times` beyond `limit` against the probability of it.
fn assert_share_beyond(what: &str, times: &[f64], limit: f64, expected: f64, error_max: f64) {
    let beyond = times.iter().map(|&time| f64::from(u8::from(time > limit)));
    assert_agrees(&format!("{what}: beyond {limit:.4}"), batch_means(beyond), expected, error_max);
}

#[test]
fn with_fixed_service_times_sojourns_are_those_of_m_d_c() {
    for (servers, utilisation, seed) in [(1, 0.7, 1), (4, 0.8, 2), (16, 0.8, 3)] {
        let expected = Mdc::new(Load::new(servers, utilisation).unwrap()).unwrap();
        let sojourns = sojourns(&one_backend(servers, utilisation, 0.0), seed, 600_000);
        let what = format!("M/D/{servers} at {utilisation}");
        let waits = sojourns.iter().map(|sojourn| sojourn - 1.0);
        assert_agrees(&format!("{what}: wait"), batch_means(waits), expected.wait_mean(), 0.02);
        // Half a nanosecond beyond the service time: who waits at all.
        let waiting = expected.wait_probability();
        assert_share_beyond(&what, &sojourns, 1.0 + 5e-8, waiting, 0.01);
        for (p, error_max) in [(0.9, 0.03), (0.99, 0.08), (0.999, 0.25)] {
            let limit = expected.sojourn_quantile(p);
            assert_share_beyond(&what, &sojourns, limit, 1.0 - p, error_max);
        }
    }
}

#[test]
fn with_log_normal_service_times_the_mean_wait_is_that_of_pollaczek_and_khinchine() {
    for (utilisation, sigma, seed) in [(0.5, 0.7, 4), (0.7, 0.4, 5)] {
        let expected = Mg1::of_log_normal(utilisation, sigma).unwrap();
        let sojourns = sojourns(&one_backend(1, utilisation, sigma), seed, 300_000);
        let estimate = batch_means(sojourns.iter().copied());
        let what = format!("M/G/1 at {utilisation}, sigma {sigma}: sojourn");
        assert_agrees(&what, estimate, expected.sojourn_mean(), 0.02);
    }
}

/// Waits in mean service times at one queue with exponential service times, which workloads do not offer.
fn waits_with_exponential_service(servers: u32, utilisation: f64, customers: usize) -> Vec<f64> {
    let spec = one_backend(servers, utilisation, 0.0).backends.remove(0);
    let mut queue = BackendQueue::new(spec, CapacityPath::default(), Instant::ZERO, false);
    let draws = Draws::new(6).of_request(Purpose::Arrival, u64::from(servers));
    let gap_ns_mean = SERVICE.0 as f64 / (utilisation * f64::from(servers));
    let mut now = Instant::ZERO;
    let wait = |i: u64| {
        now = now + Nanos(draws.exponential(2 * i, gap_ns_mean) as u64);
        let admission = queue.handle_batch(now, 1, draws.exponential(2 * i + 1, 1.0));
        admission.start.since(now).as_secs_f64() / SERVICE.as_secs_f64()
    };
    let filling = customers / 10;
    (0..(filling + customers) as u64).map(wait).skip(filling).collect()
}

#[test]
fn with_exponential_service_times_waits_are_those_of_m_m_c() {
    for (servers, utilisation) in [(1, 0.7), (4, 0.8)] {
        let expected = Mmc::new(Load::new(servers, utilisation).unwrap());
        let waits = waits_with_exponential_service(servers, utilisation, 600_000);
        let what = format!("M/M/{servers} at {utilisation}");
        let mean = batch_means(waits.iter().copied());
        assert_agrees(&format!("{what}: wait"), mean, expected.wait_mean(), 0.02);
        assert_share_beyond(&what, &waits, 0.0, expected.wait_probability(), 0.01);
        for (p, error_max) in [(0.9, 0.04), (0.99, 0.12)] {
            assert_share_beyond(&what, &waits, expected.wait_quantile(p), 1.0 - p, error_max);
        }
    }
}

#[test]
fn by_littles_law_the_number_of_waiting_requests_is_arrivals_times_sojourn() {
    let mut world = world(&one_backend(4, 0.8, 0.0), 7);
    let (mut request, mut waiting) = (Request::new(), Vec::new());
    let (filling, samples) = (18_000, 180_000);
    world.next_request(&mut request).unwrap();
    // Requests are counted at regular times: once a service time.
    for sample in 1..=filling + samples {
        let at = Instant(sample * SERVICE.0);
        loop {
            let until = at.min(world.arrival(request.due));
            while world.poll_completion(until).is_some() {}
            if until == at {
                break;
            }
            world.handle_request(&mut request);
            world.next_request(&mut request).unwrap();
        }
        waiting.push(world.waiting() as f64);
    }
    let expected = Mdc::new(Load::new(4, 0.8).unwrap()).unwrap().customers_mean();
    let counted = waiting.into_iter().skip(filling as usize);
    assert_agrees("requests in an M/D/4 at 0.8", batch_means(counted), expected, 0.02);
}
