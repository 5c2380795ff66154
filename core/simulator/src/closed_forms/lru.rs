//! One partition of the simulator against an LRU cache written down as simply as possible, and against Che's approximation.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use robinhood_controller::PolicyKind;
use robinhood_queueing::CheLru;
use robinhood_stats::{BackendId, Bytes, Nanos, Rate};
use robinhood_workload::{Generator, Request, RequestStream, RunLength, SizeSpec, Workload};

use super::{BATCHES, STANDARD_ERRORS, batch_means, one_backend};
use crate::{Options, Simulation};

const CATALOGUE: u32 = 10_000;
const WARMUP: Nanos = Nanos::from_secs(300);
const MEASURED: Nanos = Nanos::from_secs(1_500);

/// What Che's approximation and the interpolated popularity of the generator may be off, as a hit ratio.
const APPROXIMATION: f64 = 0.003;

/// One server, one backend that answers within a nanosecond, so that no look-up comes before the fill of the one before it.
fn workload(sizes: SizeSpec, cache: Bytes) -> Workload {
    let mut workload = one_backend(1, 0.5, 0.0);
    let backend = &mut workload.backends[0];
    (backend.catalogue, backend.sizes, backend.cacheable_share) = (CATALOGUE, sizes, 1.0);
    backend.service = Nanos(1);
    workload.rate_per_server = Rate(200.0);
    workload.cache_per_server = cache;
    workload.length = RunLength { warmup: WARMUP, measured: MEASURED };
    workload
}

/// Keys by their last use.
#[derive(Default)]
struct ExactLru {
    last_use: BTreeMap<u32, usize>,
    by_use: BTreeMap<usize, u32>,
    used_bytes: u64,
}

impl ExactLru {
    /// Uses a key and says whether it was there; puts it there if not.
    fn hits(&mut self, key: u32, now: usize, bytes: impl Fn(u32) -> u64, limit: Bytes) -> bool {
        let before = self.last_use.insert(key, now);
        if let Some(before) = before {
            self.by_use.remove(&before);
        } else {
            self.used_bytes += bytes(key);
            while self.used_bytes > limit.0 {
                let (_, coldest) = self.by_use.pop_first().unwrap();
                self.last_use.remove(&coldest);
                self.used_bytes -= bytes(coldest);
            }
        }
        self.by_use.insert(now, key);
        before.is_some()
    }
}

/// For each look-up of the measured part, whether an exact LRU hits.
fn exact_hits(workload: &Workload, seed: u64) -> Vec<bool> {
    let mut generator = Generator::new(workload, seed).unwrap();
    let (mut request, mut lru, mut hits) = (Request::new(), ExactLru::default(), Vec::new());
    let (start, end) = (WARMUP.0, WARMUP.0 + MEASURED.0);
    for now in 0.. {
        generator.generate(&mut request);
        if request.due.0 >= end {
            break;
        }
        let batch = &request.stage(0)[0];
        let key = request.keys(batch)[0].0;
        let bytes = |key| u64::from(value_bytes(&generator, key));
        let hit = lru.hits(key, now, bytes, workload.cache_per_server);
        if request.due.0 >= start {
            hits.push(hit);
        }
    }
    hits
}

fn value_bytes(generator: &Generator, key: u32) -> u32 {
    generator.value_bytes(BackendId(0), robinhood_workload::Key(key))
}

#[test]
fn a_partition_hits_exactly_as_an_lru_cache_and_nearly_as_che_says() {
    let spread = SizeSpec::LogNormal { mu: 6.5, sigma: 0.95, bytes_min: 8, bytes_max: 40_000 };
    let cases = [
        (SizeSpec::Fixed(1_000), 100_000, 8),
        (SizeSpec::Fixed(1_000), 1_000_000, 9),
        (spread, 1_000_000, 10),
    ];
    for (sizes, cache_bytes, seed) in cases {
        let workload = workload(sizes, Bytes(cache_bytes));
        let simulation =
            Simulation::new(&workload, PolicyKind::Equal, seed, Options::default()).unwrap();
        let outcome = simulation.run(&mut |_| ControlFlow::Continue(()));
        let found = &outcome.backends[0];

        let exact = exact_hits(&workload, seed);
        let hits = exact.iter().filter(|&&hit| hit).count();
        assert_eq!(found.queries, exact.len() as u64);
        assert_eq!((found.hit_ratio * found.queries as f64).round() as usize, hits);

        let popularity: Vec<f64> =
            (1..=CATALOGUE).map(|rank| libm::pow(f64::from(rank), -0.9)).collect();
        let generator = Generator::new(&workload, seed).unwrap();
        let bytes = |key| Bytes(u64::from(value_bytes(&generator, key)));
        let sizes: Vec<Bytes> = (0..CATALOGUE).map(bytes).collect();
        let che = CheLru::of_sizes(&popularity, &sizes, workload.cache_per_server).unwrap();
        let whole = exact.len() / BATCHES * BATCHES;
        let sampled = batch_means(exact[..whole].iter().map(|&hit| f64::from(u8::from(hit))));
        let difference = found.hit_ratio - che.hit_ratio();
        println!(
            "LRU of {cache_bytes} bytes hits {:.5} +- {:.5}, by Che {:.5}",
            found.hit_ratio,
            sampled.standard_error,
            che.hit_ratio()
        );
        let allowed = APPROXIMATION + STANDARD_ERRORS * sampled.standard_error;
        assert!(difference.abs() <= allowed, "{cache_bytes}: {difference}, {allowed} allowed");
        assert!(sampled.standard_error < 0.002, "too small a sample");
    }
}
