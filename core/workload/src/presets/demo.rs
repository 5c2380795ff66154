//! `demo`: a small workload that two live stacks can serve side by side on two cores, in real time.
//!
//! Place in the flow: the demo runs it live, the simulator in virtual time; its numbers were found with the simulator (its example `demo` prints what to expect).
//!
//! The story: `sessions` and `products` get most of the queries and are answered fast. In a shared LRU `products` holds four fifths of the cache, though
//! it never makes a request slow. `prices`, `reviews` and `ranking` get few queries, but a miss there is what users wait for. After a calm
//! third each of these three, one of each kind of backend, loses half of its capacity for a while.

use robinhood_stats::{BackendId, BackendName, Bytes, Instant, Nanos, Rate};

use crate::capacity::{Capacity, CapacityPath};
use crate::popularity::Popularity;
use crate::sizes::SizeSpec;
use crate::spec::{BackendKind, BackendSpec, BatchSpec, RequestType, RunLength, Workload};

/// One row of the table of backends.
struct Row {
    name: &'static str,
    kind: BackendKind,
    catalogue: u32,
    zipf: f64,
    service_us: u64,
    servers: u32,
}

const fn row(
    name: &'static str,
    kind: BackendKind,
    catalogue: u32,
    zipf: f64,
    service_us: u64,
    servers: u32,
) -> Row {
    Row { name, kind, catalogue, zipf, service_us, servers }
}

const ROWS: [Row; 6] = [
    // Cache-rich: many queries, fast answers.
    row("sessions", BackendKind::Lookup, 40_000, 1.35, 6_000, 2),
    row("products", BackendKind::Join, 100_000, 0.70, 3_000, 5),
    // Cache-poor: few queries, slow answers.
    row("prices", BackendKind::Lookup, 28_000, 1.05, 24_000, 3),
    row("reviews", BackendKind::Join, 28_000, 0.95, 25_000, 3),
    row("ranking", BackendKind::Compute, 28_000, 1.00, 26_000, 3),
    // Hardly cacheable.
    row("history", BackendKind::Lookup, 40_000, 0.68, 16_000, 2),
];

/// Weight of a request type, and mean batch by place of the backend.
const TYPES: [(f64, &[(u16, f64)]); 5] = [
    (0.50, &[(0, 1.5), (1, 4.0)]),
    (0.17, &[(0, 1.0), (1, 3.0), (2, 1.5)]),
    (0.14, &[(1, 3.0), (3, 1.5)]),
    (0.14, &[(0, 1.0), (1, 2.0), (4, 1.5)]),
    (0.05, &[(0, 1.0), (5, 1.5)]),
];

/// The preset for a measured part of this length: calm for a third, then three spikes. Meant for a time scale of 10 and 60 s or more: in less,
/// little can move between two spikes.
pub fn demo(measured: Nanos) -> Workload {
    Workload {
        name: "demo".to_owned(),
        backends: ROWS.iter().map(backend).collect(),
        request_types: TYPES
            .iter()
            .map(|&(weight, batches)| request_type(weight, batches))
            .collect(),
        servers: 1,
        rate_per_server: Rate(600.0),
        cache_per_server: Bytes::from_mib(24),
        overhead: Nanos::from_micros(400),
        batch_queries_max: 30,
        prefill_requests: 60_000,
        capacities: spikes(measured),
        length: RunLength { warmup: Nanos::ZERO, measured },
    }
}

/// How many times as large as in [`demo`] objects and cache of [`demo_in_pages`] are.
const LARGER: u64 = 8;

/// [`demo`] for caches that give memory to partitions in pages of 1 MiB, one kind of page for each range of sizes: objects and cache are eight
/// times as large, and the sizes lie closer together, so that a page is a small part of a partition and the kinds are few.
pub fn demo_in_pages(measured: Nanos) -> Workload {
    let mut workload = demo(measured);
    workload.name = "demo-in-pages".to_owned();
    workload.cache_per_server = Bytes(workload.cache_per_server.0 * LARGER);
    for backend in &mut workload.backends {
        backend.sizes = SizeSpec::LogNormal {
            mu: 8.984, // 6.8 + 0.5^2 / 2 - 0.2^2 / 2 + ln 8: the mean is eight times that of the demo
            sigma: 0.2,
            bytes_min: 4_096,
            bytes_max: 16_384,
        };
    }
    workload
}

fn backend(row: &Row) -> BackendSpec {
    BackendSpec {
        name: BackendName::new(row.name).expect("a word"),
        kind: row.kind,
        catalogue: row.catalogue,
        popularity: Popularity::Zipf { exponent: row.zipf },
        sizes: SizeSpec::LogNormal { mu: 6.8, sigma: 0.5, bytes_min: 64, bytes_max: 16_384 },
        service: Nanos::from_micros(row.service_us),
        per_key: 0.1,
        sigma: 0.7,
        servers: row.servers,
        speed: 1.0,
        timeout: Nanos::from_secs(10),
        utilisation_target: None,
        cacheable_share: 1.0,
    }
}

fn request_type(weight: f64, batches: &[(u16, f64)]) -> RequestType {
    let batch = |&(backend, queries_mean): &(u16, f64)| BatchSpec {
        backend: BackendId(backend),
        queries_mean,
    };
    RequestType { weight, batches: batches.iter().map(batch).collect() }
}

/// Backend, lowest capacity, and start, low from, low to and end as shares of the measured part.
const SPIKES: [(usize, f64, [f64; 4]); 3] = [
    (2, 0.46, [0.355, 0.405, 0.475, 0.525]),
    (4, 0.46, [0.555, 0.605, 0.675, 0.725]),
    (3, 0.46, [0.755, 0.805, 0.875, 0.925]),
];

fn spikes(measured: Nanos) -> Vec<Capacity> {
    let mut capacities = vec![Capacity::default(); ROWS.len()];
    for (backend, lowest, shares) in SPIKES {
        let [start, low_from, low_to, end] =
            shares.map(|share| Instant((measured.0 as f64 * share) as u64));
        capacities[backend] =
            Capacity::Path(CapacityPath::dip(lowest, start, low_from, low_to, end));
    }
    capacities
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_catalogue_fits_the_cache() {
        for workload in [demo(Nanos::from_secs(120)), demo_in_pages(Nanos::from_secs(120))] {
            no_catalogue_fits(&workload);
        }
    }

    fn no_catalogue_fits(workload: &Workload) {
        for id in 0..workload.backends.len() {
            let bytes = workload.catalogue_bytes(BackendId(id as u16));
            assert!(
                bytes > workload.cache_per_server,
                "{} has {bytes}",
                workload.backends[id].name
            );
        }
    }

    #[test]
    fn three_backends_of_three_kinds_lose_capacity_after_a_calm_third() {
        let measured = Nanos::from_secs(60);
        let workload = demo(measured);
        let mut kinds = Vec::new();
        for (backend, capacity) in workload.backends.iter().zip(&workload.capacities) {
            let Capacity::Path(path) = capacity else { panic!("the demo has fixed paths") };
            assert!((path.at(Instant(measured.0 / 3)) - 1.0).abs() < 1e-12);
            assert!((path.at(Instant(measured.0)) - 1.0).abs() < 1e-12);
            if path.lowest() < 1.0 {
                kinds.push(backend.kind);
            }
        }
        kinds.sort_by_key(|kind| *kind as u8);
        assert_eq!(kinds, [BackendKind::Lookup, BackendKind::Join, BackendKind::Compute]);
    }
}
