//! `onerf`: a synthetic workload with the published structure of the production system in RobinHood (OSDI'18), Table 1 and sections 2, 4.3 and 5.
//!
//! Place in the flow: the workload of all published results. The production trace is not public; the 300 request types beside this file were drawn once
//! and are part of the preset. Only requests that query something are in it. Variants differ in the capacities over time:
//! the four spikes of section 5.2, one backend that gets slower (5.3), random capacities (5.4).

use robinhood_stats::{BackendId, BackendName, Bytes, Instant, Nanos, Rate};

use super::Scale;
use crate::capacity::{Capacity, CapacityPath};
use crate::fleet::rounded_speed;
use crate::popularity::Popularity;
use crate::sizes::SizeSpec;
use crate::spec::{
    BATCH_QUERIES_MAX, BackendKind, BackendSpec, BatchSpec, RequestType, RunLength, Workload,
};

const REQUEST_TYPES_CSV: &str = include_str!("onerf-request-types.csv");

/// What happens to the backends in the measured part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Four spikes one after the other on backends 6, 5, 1 and 8 (section 5.2).
    Spikes,
    /// Backend 7 loses three quarters of its capacity over 150 minutes (section 5.3).
    Backend7Slow,
    /// The same over 50 minutes.
    Backend7Fast,
    /// Backend 1 loses half of its capacity over 150 minutes (section 5.3).
    Backend1Slow,
    /// The same over 50 minutes.
    Backend1Fast,
    /// Backends 1, 5, 6 and 8 walk at random (section 5.4).
    Random,
}

/// One row of the table of backends.
struct Row {
    catalogue: u32,
    zipf: f64,
    service_ms: u64,
    /// Share of time that the servers work in steady state under a shared LRU, less where two servers are plenty.
    utilisation: f64,
    /// Servers and their speed with two application servers, as published with the results at scale 1/8.
    servers: u32,
    speed: f64,
}

const fn row(
    catalogue: u32,
    zipf: f64,
    service_ms: u64,
    utilisation: f64,
    servers: u32,
    speed: f64,
) -> Row {
    Row { catalogue, zipf, service_ms, utilisation, servers, speed }
}

/// Backends 1 to 20. Servers and speed make the target utilisation in steady state under a shared LRU at scale 1/8.
const ROWS: [Row; 20] = [
    row(2_000_000, 1.05, 8, 0.55, 4, 0.826),
    row(3_000_000, 0.80, 6, 0.40, 3, 0.843),
    row(3_000_000, 0.75, 6, 0.40, 3, 0.776),
    row(600_000, 0.90, 10, 0.40, 5, 0.894),
    row(1_200_000, 0.95, 14, 0.55, 5, 0.880),
    row(2_000_000, 0.90, 10, 0.55, 2, 1.0),
    row(300_000, 0.80, 18, 0.50, 4, 0.998),
    row(20_000, 1.10, 12, 0.50, 2, 1.0),
    row(300_000, 0.70, 10, 0.30, 2, 1.0),
    row(200_000, 0.60, 10, 0.30, 2, 1.0),
    row(100_000, 0.80, 10, 0.30, 2, 1.0),
    row(100_000, 0.90, 20, 0.30, 2, 1.0),
    row(200_000, 0.50, 10, 0.30, 2, 1.0),
    row(100_000, 0.50, 30, 0.30, 2, 1.0),
    row(100_000, 0.80, 10, 0.30, 2, 1.0),
    row(100_000, 0.60, 10, 0.30, 2, 1.0),
    row(50_000, 0.70, 15, 0.30, 2, 1.0),
    row(50_000, 0.80, 10, 0.30, 2, 1.0),
    row(50_000, 0.90, 10, 0.30, 2, 1.0),
    row(50_000, 0.60, 10, 0.30, 2, 1.0),
];

/// The preset at a scale, with the four spikes.
pub fn onerf(scale: Scale) -> Workload {
    onerf_variant(scale, Variant::Spikes)
}

/// The preset at a scale with other capacities.
///
/// Every backend has the power for each application server that it has at scale 1/8. Calibrating each scale anew would take the power away from backends for which two
/// servers are plenty there: they would not survive their spike (`docs/decisions/scales-keep-the-power.md`).
pub fn onerf_variant(scale: Scale, variant: Variant) -> Workload {
    let (name, capacities, measured) = variant.course();
    Workload {
        name: name.to_owned(),
        backends: ROWS.iter().enumerate().map(|(i, row)| backend(i, row, scale)).collect(),
        request_types: request_types(),
        servers: application_servers(scale),
        rate_per_server: Rate(217.0),
        cache_per_server: Bytes(32_000_000_000),
        overhead: Nanos::from_micros(400),
        batch_queries_max: BATCH_QUERIES_MAX,
        prefill_requests: 0,
        capacities,
        length: RunLength { warmup: Nanos::from_secs(3_600), measured },
    }
}

fn backend(place: usize, row: &Row, scale: Scale) -> BackendSpec {
    let (servers, speed) = servers(row, scale);
    BackendSpec {
        name: BackendName::new(&format!("b{}", place + 1)).expect("a letter and a number"),
        kind: BackendKind::Lookup,
        catalogue: row.catalogue,
        popularity: Popularity::Zipf { exponent: row.zipf },
        sizes: SizeSpec::LogNormal { mu: 9.6, sigma: 0.95, bytes_min: 8, bytes_max: 400_000 },
        service: Nanos::from_millis(row.service_ms),
        per_key: 0.1,
        sigma: 0.7,
        servers,
        speed,
        timeout: Nanos::from_secs(10),
        utilisation_target: Some(row.utilisation),
        cacheable_share: 1.0,
    }
}

/// Application servers at a scale.
fn application_servers(scale: Scale) -> u16 {
    libm::ceil(16.0 * scale.as_f64()).max(2.0) as u16
}

/// Servers and their speed at a scale.
fn servers(row: &Row, scale: Scale) -> (u32, f64) {
    let times = f64::from(application_servers(scale)) / 2.0;
    let exact = f64::from(row.servers) * times;
    let servers = libm::ceil(exact);
    (servers as u32, rounded_speed(row.speed * exact / servers))
}

fn request_types() -> Vec<RequestType> {
    let mut types: Vec<RequestType> = Vec::new();
    for line in REQUEST_TYPES_CSV.lines().skip(1) {
        let fields: Vec<f64> =
            line.split(',').map(|field| field.parse().expect("the table holds numbers")).collect();
        let [number, weight, backend, queries_mean] = fields[..] else {
            panic!("the table has four columns, not as in `{line}`");
        };
        if number as usize == types.len() {
            types.push(RequestType { weight, batches: Vec::new() });
        }
        let batch = BatchSpec { backend: BackendId(backend as u16 - 1), queries_mean };
        types.last_mut().expect("types are numbered from 0").batches.push(batch);
    }
    types
}

impl Variant {
    /// Name, capacities by backend, and length of the measured part.
    fn course(self) -> (&'static str, Vec<Capacity>, Nanos) {
        let minutes = |m: u64| Nanos::from_secs(60 * m);
        let fall = |backend, lowest, m| vec![(backend, ramp(lowest, minutes(m)))];
        let (name, changed, measured) = match self {
            Self::Spikes => ("onerf", spikes(), minutes(180)),
            Self::Backend7Slow => ("b7-slow", fall(7, 0.25, 150), minutes(150)),
            Self::Backend7Fast => ("b7-fast", fall(7, 0.25, 50), minutes(50)),
            Self::Backend1Slow => ("b1-slow", fall(1, 0.50, 150), minutes(150)),
            Self::Backend1Fast => ("b1-fast", fall(1, 0.50, 50), minutes(50)),
            Self::Random => ("random", walks(), minutes(180)),
        };
        let mut capacities = vec![Capacity::default(); ROWS.len()];
        for (backend, capacity) in changed {
            capacities[backend - 1] = capacity;
        }
        (name, capacities, measured)
    }
}

fn ramp(lowest: f64, over: Nanos) -> Capacity {
    Capacity::Path(CapacityPath::new(vec![(Instant::ZERO, 1.0), (Instant::ZERO + over, lowest)]))
}

/// Backend number and its spike, in minutes of the measured part.
fn spikes() -> Vec<(usize, Capacity)> {
    let dip = |lowest, minutes: [u64; 4]| {
        let [start, low_from, low_to, end] = minutes.map(|m| Instant(m * 60_000_000_000));
        Capacity::Path(CapacityPath::dip(lowest, start, low_from, low_to, end))
    };
    vec![
        (6, dip(0.64, [5, 25, 45, 55])),
        (5, dip(0.58, [58, 72, 86, 95])),
        (1, dip(0.63, [90, 102, 115, 124])),
        (8, dip(0.24, [128, 148, 166, 178])),
    ]
}

fn walks() -> Vec<(usize, Capacity)> {
    let walk = |lowest| Capacity::RandomWalk { lowest, every: Nanos::from_secs(20), steps: 12 };
    vec![(1, walk(0.60)), (5, walk(0.56)), (6, walk(0.60)), (8, walk(0.24))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::servers_for;

    #[test]
    fn the_table_of_request_types_is_complete() {
        let types = request_types();
        assert_eq!(types.len(), 300);
        assert_eq!(types.iter().map(|t| t.batches.len()).sum::<usize>(), 1_389);
        let weights: f64 = types.iter().map(|t| t.weight).sum();
        assert!((weights - 1.0).abs() < 1e-4, "{weights}");
        assert!((onerf(Scale::EIGHTH).queries_per_request() - 26.7).abs() < 0.3);
    }

    #[test]
    fn the_fleet_shrinks_with_the_scale_and_backends_keep_their_power_for_each_application_server()
    {
        let (eighth, full) = (onerf(Scale::EIGHTH), onerf(Scale::FULL));
        assert_eq!((eighth.servers, full.servers), (2, 16));
        assert_eq!(onerf("1/16".parse().unwrap()).backends, eighth.backends);
        for (small, large) in eighth.backends.iter().zip(&full.backends) {
            assert_eq!((large.servers, large.speed), (8 * small.servers, small.speed));
        }
        let three = onerf("3/16".parse().unwrap());
        for (small, large) in eighth.backends.iter().zip(&three.backends) {
            let power = |b: &BackendSpec| f64::from(b.servers) * b.speed;
            assert!((power(large) / power(small) / 1.5 - 1.0).abs() < 0.001, "{}", small.name);
            assert!(large.speed <= 1.0, "{}", small.name);
        }
    }

    /// Servers of speed 1 for each application server that would have the target utilisation: `robinhood workload calibrate` at scales 1/8 (seeds 1 and 2)
    /// and 1/4 found the same within half a percent.
    const NEEDS: [f64; 20] = [
        1.6542, 1.2626, 1.1518, 2.2334, 2.2000, 0.9594, 1.9962, 0.2149, 0.8099, 0.3815, 0.2987,
        0.3208, 0.2543, 0.0398, 0.0637, 0.0223, 0.0860, 0.0166, 0.0278, 0.0000,
    ];

    #[test]
    fn the_published_servers_are_what_calibration_finds_for_two_application_servers() {
        for (number, (row, need)) in (1..).zip(ROWS.iter().zip(NEEDS)) {
            let (servers, speed) = servers_for(need * 2.0);
            assert_eq!(servers, row.servers, "backend {number}");
            assert!((speed / row.speed - 1.0).abs() < 0.015, "backend {number}: {speed}");
        }
    }

    #[test]
    fn each_variant_changes_its_backends_only() {
        let at = |variant, backend: usize, minute: u64| {
            let Capacity::Path(path) =
                &onerf_variant(Scale::EIGHTH, variant).capacities[backend - 1]
            else {
                panic!("not a path");
            };
            path.at(Instant(minute * 60_000_000_000))
        };
        assert!((at(Variant::Spikes, 6, 30) - 0.64).abs() < 1e-9);
        assert!((at(Variant::Spikes, 6, 15) - 0.82).abs() < 1e-9);
        assert!((at(Variant::Spikes, 8, 180) - 1.0).abs() < 1e-9);
        assert!((at(Variant::Spikes, 2, 30) - 1.0).abs() < 1e-9);
        assert!((at(Variant::Backend7Fast, 7, 25) - 0.625).abs() < 1e-9);
        assert!((at(Variant::Backend1Slow, 1, 150) - 0.5).abs() < 1e-9);
    }
}
