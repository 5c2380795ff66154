//! The ledger of the simulator and the store hold the same objects under keys and sizes that were measured in production (CacheLib's published
//! distributions). The data is not part of this repository: without it the tests say so and pass.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use robinhood_cache::{ItemHandle, Ledger, PartitionId, Sharing, Store, StoreConfig, item_bytes};
use robinhood_controller::PolicyKind;
use robinhood_simulator::{Options, Simulation};
use robinhood_stats::{BackendId, Bytes, Nanos, Rate};
use robinhood_workload::{
    BackendKind, BackendSpec, BatchSpec, Capacity, DiscreteSizes, Generator, Key, Popularity,
    PopularityBuckets, Request, RequestStream, RequestType, RunLength, SizeSpec, WeightedSize,
    Workload, cachelib,
};

/// Bytes of all objects of a backend together, about: what bounds the number of its keys.
const CATALOGUE_BYTES: f64 = 20e6;
const REQUESTS: u64 = 25_000;
const KEY_BYTES: usize = 4;
/// Cache sizes as shares of all objects.
const CACHES: [f64; 3] = [0.05, 0.1, 0.4];

/// Popularity and sizes of each workload, in the order of their names.
fn distributions() -> Vec<(String, PopularityBuckets, DiscreteSizes)> {
    let default = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let data = std::env::var_os("ROBINHOOD_REFERENCE_DATA").map_or_else(default, PathBuf::from);
    let Ok(entries) = std::fs::read_dir(data.join("cachelib")) else {
        println!("skipped: no reference data; ROBINHOOD_REFERENCE_DATA names its folder");
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let read = |folder: PathBuf| {
        let text = |file| std::fs::read_to_string(folder.join(file)).unwrap();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let popularity = cachelib::popularity(&text("pop.json")).unwrap();
        (name, popularity, cachelib::sizes(&text("sizes.json")).unwrap())
    };
    folders.into_iter().map(read).collect()
}

/// What a store charges for an object with so many bytes of value.
fn weight(value_bytes: usize) -> u32 {
    item_bytes(KEY_BYTES, value_bytes).0 as u32
}

/// A length that a value may have in an item of this weight.
fn value_bytes(item_weight: u32) -> usize {
    let (mut fits, mut too_long) = (0, item_weight as usize);
    while fits + 1 < too_long {
        let middle = usize::midpoint(fits, too_long);
        let bound = if weight(middle) <= item_weight { &mut fits } else { &mut too_long };
        *bound = middle;
    }
    assert_eq!(weight(fits), item_weight);
    fits
}

/// One backend for each distribution, each request a batch for one of them. Sizes are changed by `shape` and then are what an item weighs in a store.
fn workload(cache: f64, shape: impl Fn(f64, u32) -> u32) -> Option<Workload> {
    let backend = |(name, popularity, sizes): (String, PopularityBuckets, DiscreteSizes)| {
        let mean = sizes.mean_bytes();
        let weigh = |size: &WeightedSize| WeightedSize {
            bytes: weight(shape(mean, size.bytes) as usize),
            ..*size
        };
        let sizes = DiscreteSizes::new(sizes.sizes().iter().map(weigh).collect()).unwrap();
        BackendSpec {
            name: name.replace('_', "-").parse().unwrap(),
            kind: BackendKind::Lookup,
            catalogue: (CATALOGUE_BYTES / mean).clamp(200.0, 20_000.0) as u32,
            popularity: Popularity::Buckets(Arc::new(popularity)),
            sizes: SizeSpec::Discrete(Arc::new(sizes)),
            service: Nanos(1), // so that every batch is complete before the next request
            per_key: 0.0,
            sigma: 0.0,
            servers: 1,
            speed: 1.0,
            timeout: Nanos::from_secs(10),
            utilisation_target: None,
            cacheable_share: 1.0,
        }
    };
    let backends: Vec<BackendSpec> = distributions().into_iter().map(backend).collect();
    let places = 0..backends.len() as u16;
    let batch = |id| BatchSpec { backend: BackendId(id), queries_mean: 3.0 };
    let request_type = |id| RequestType { weight: 1.0, batches: vec![batch(id)] };
    let mut workload = Workload {
        name: "cachelib".to_owned(),
        capacities: vec![Capacity::default(); backends.len()],
        backends,
        request_types: places.map(request_type).collect(),
        servers: 1,
        rate_per_server: Rate(1_000.0),
        cache_per_server: Bytes::ZERO,
        overhead: Nanos::ZERO,
        batch_queries_max: 50,
        prefill_requests: 0,
        length: RunLength { warmup: Nanos::ZERO, measured: Nanos(REQUESTS * 1_000_000) },
    };
    let ids = (0..workload.backends.len() as u16).map(BackendId);
    let objects: Bytes = ids.map(|id| workload.catalogue_bytes(id)).sum();
    workload.cache_per_server = Bytes((objects.as_f64() * cache) as u64);
    (!workload.backends.is_empty()).then_some(workload)
}

fn store(workload: &Workload, sharing: Sharing) -> Store {
    let mut config = StoreConfig::new(workload.cache_per_server, workload.backends.len());
    (config.sharing, config.shards) = (sharing, 1);
    Store::new(&config).unwrap()
}

/// A ledger and a store that are told the same.
struct Pair<'a> {
    workload: &'a Workload,
    generator: Generator,
    ledger: Ledger,
    store: Store,
    hits: Vec<u64>,
    refused: u64,
    evictions: u64,
}

impl<'a> Pair<'a> {
    fn new(workload: &'a Workload, sharing: Sharing) -> Self {
        let (partitions, budget) = (workload.backends.len(), workload.cache_per_server);
        Self {
            workload,
            generator: Generator::new(workload, 1).unwrap(),
            ledger: Ledger::new(partitions, sharing, budget).with_evictions_max(32),
            store: store(workload, sharing),
            hits: vec![0; partitions],
            refused: 0,
            evictions: 0,
        }
    }

    fn handle(&self, partition: PartitionId, key: Key) -> ItemHandle {
        let before = self.workload.backends[..partition.index()].iter().map(|b| b.catalogue);
        ItemHandle(before.sum::<u32>() + key.0)
    }

    /// Looks all keys of a request up and then inserts those that are missing, as the simulator does.
    fn serve(&mut self, request: &Request) {
        let batch = &request.stage(0)[0];
        let partition = PartitionId(batch.backend.0);
        let mut missing = Vec::new();
        for &key in request.keys(batch) {
            let found = self.store.get(partition, &key.0.to_le_bytes()).is_some();
            assert_eq!(self.ledger.touch(self.handle(partition, key)), found);
            if found { self.hits[partition.index()] += 1 } else { missing.push(key) }
        }
        missing.sort_unstable();
        missing.dedup();
        for key in missing {
            self.insert(partition, key);
        }
        for place in (0..self.hits.len() as u16).map(PartitionId) {
            assert_eq!(self.ledger.used(place), self.store.statistics(place).used);
        }
    }

    fn insert(&mut self, partition: PartitionId, key: Key) {
        let bytes = self.generator.value_bytes(BackendId(partition.0), key);
        let value = vec![0; value_bytes(bytes)];
        let (mut by_ledger, mut by_store) = (Vec::new(), Vec::new());
        let of_store = |partition, key: &[u8]| by_store.push((partition, key.to_vec()));
        let kept = self.store.insert_with(partition, &key.0.to_le_bytes(), &value, of_store);
        let handle = self.handle(partition, key);
        let same = self.ledger.insert(partition, handle, bytes, &mut |item| by_ledger.push(item));
        assert_eq!(same, kept);
        self.refused += u64::from(kept.is_err());
        self.assert_evictions(&by_ledger, &by_store);
    }

    fn assert_evictions(&mut self, ledger: &[ItemHandle], store: &[(PartitionId, Vec<u8>)]) {
        let handle = |(partition, key): &(PartitionId, Vec<u8>)| {
            let key = u32::from_le_bytes(key[..].try_into().expect("four bytes"));
            self.handle(*partition, Key(key))
        };
        let store: Vec<ItemHandle> = store.iter().map(handle).collect();
        assert_eq!(ledger, store, "order of eviction");
        self.evictions += ledger.len() as u64;
    }

    /// Moves a fifth of a partition's limit to the next one, as a controller does: the shrink is paid before the grow.
    fn resize(&mut self, turn: u64) {
        let partitions = self.hits.len() as u64;
        let [from, to] = [turn, turn + 1].map(|place| PartitionId((place % partitions) as u16));
        let moved = Bytes(self.ledger.limit(from).0 / 5);
        let limits = [(from, self.ledger.limit(from) - moved), (to, self.ledger.limit(to) + moved)];
        for (partition, limit) in limits {
            self.ledger.set_limit(partition, limit);
            self.store.set_limit(partition, limit);
            let (mut by_ledger, mut by_store) = (Vec::new(), Vec::new());
            let debt = self.ledger.reclaim(usize::MAX, &mut |item| by_ledger.push(item));
            let of_store = |partition, key: &[u8]| by_store.push((partition, key.to_vec()));
            assert_eq!(self.store.reclaim_with(usize::MAX, of_store), debt);
            self.assert_evictions(&by_ledger, &by_store);
        }
    }
}

#[test]
fn ledger_and_store_hit_evict_and_hold_alike_on_production_streams() {
    let mut hit_ratios = BTreeMap::new();
    for (size, cache) in CACHES.into_iter().enumerate() {
        let Some(workload) = workload(cache, |_, bytes| bytes) else { return };
        for sharing in [Sharing::Partitioned, Sharing::Shared] {
            let mut pair = Pair::new(&workload, sharing);
            let (mut request, mut queries) = (Request::new(), 0);
            for served in 0..REQUESTS {
                pair.generator.generate(&mut request);
                pair.serve(&request);
                queries += request.queries();
                if served % 1_000 == 999 && sharing == Sharing::Partitioned {
                    pair.resize(served / 1_000);
                }
            }
            assert!(pair.evictions > 1_000, "the cache was under pressure");
            assert_eq!(pair.ledger.used_total(), pair.store.used_total());
            let hits: u64 = pair.hits.iter().sum();
            hit_ratios.insert((sharing == Sharing::Shared, size), hits as f64 / queries as f64);
        }
    }
    println!("hit ratios by sharing and cache size: {hit_ratios:?}");
    for shared in [false, true] {
        let of = |size| hit_ratios[&(shared, size)];
        assert!(of(0) + 0.02 < of(1) && of(1) + 0.02 < of(2), "{hit_ratios:?}");
    }
}

/// With sizes within a factor of 24: a store would refuse what needs more than 32 evictions, the simulator evicts as many as it takes. And none above
/// half of a partition: a controller would give it more.
#[test]
fn a_simulation_hits_as_often_as_a_store_on_the_same_stream() {
    for cache in CACHES.map(|share| 2.0 * share) {
        let narrow = |mean: f64, bytes: u32| bytes.clamp((mean / 8.0) as u32, (mean * 3.0) as u32);
        let Some(workload) = workload(cache, narrow) else { return };
        let simulation =
            Simulation::new(&workload, PolicyKind::Equal, 1, Options::default()).unwrap();
        let outcome = simulation.run(&mut |_| ControlFlow::Continue(()));
        let mut pair = Pair::new(&workload, Sharing::Partitioned);
        let mut request = Request::new();
        for _ in 0..outcome.requests {
            pair.generator.generate(&mut request);
            pair.serve(&request);
        }
        for (found, &hits) in outcome.backends.iter().zip(&pair.hits) {
            assert_eq!((found.hit_ratio * found.queries as f64).round() as u64, hits, "{found:?}");
            assert!(hits > 0 && (found.cache_share_mean - 0.2).abs() < 1e-6);
        }
        assert_eq!((outcome.refused, pair.refused), (0, 0));
    }
}
