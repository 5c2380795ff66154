//! What a control period costs: reading of the cache, decision, record and all resizes, with 20 and with 1,000
//! backends.

use std::cell::RefCell;
use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use robinhood_blocking::{BackendSnapshot, Snapshot};
use robinhood_controller::{Controller, ControllerConfig, Mode, PartitionUsage, RobinHood};
use robinhood_stats::{BackendName, Bytes, Instant, Nanos};

const LIMIT: u64 = 32_000_000;

fn names(count: usize) -> Vec<BackendName> {
    (0..count).map(|i| BackendName::new(&format!("backend-{i:04}")).expect("a good name")).collect()
}

/// Uneven RBC, so that every partition changes.
fn snapshot(names: &[BackendName]) -> Snapshot {
    let backend = |(i, name): (usize, &BackendName)| BackendSnapshot {
        name: name.clone(),
        rbc: (i * 7_919 % 1_009) as f64 / 100.0,
        queries: 1_000,
        hits: 700,
        misses: 300,
        failures: 0,
        timeouts: 0,
        miss_batch_p99: Some(Nanos::from_millis(20)),
    };
    Snapshot {
        requests: 100_000,
        requests_in_band: 1_000.0,
        backends: names.iter().enumerate().map(backend).collect(),
        request_p99: Nanos::from_millis(90),
        statistics_span: Nanos::from_secs(60),
        ..Snapshot::default()
    }
}

fn usage(controller: &Controller) -> Vec<PartitionUsage> {
    let partition = |(name, limit): (&BackendName, Bytes)| PartitionUsage {
        name: name.clone(),
        limit,
        used: limit,
        item_bytes_max: Bytes(4_096),
    };
    controller.allocation().iter().map(partition).collect()
}

fn tick(c: &mut Criterion) {
    for count in [20, 1_000] {
        let names = names(count);
        let budget = Bytes(LIMIT * count as u64);
        let config = ControllerConfig { mode: Mode::Active, ..ControllerConfig::new(budget) };
        let limits = names.iter().map(|name| (name.clone(), Bytes(LIMIT))).collect();
        let controller = Controller::new(config, Box::new(RobinHood), limits, Instant::ZERO);
        let controller = RefCell::new(controller.expect("good settings"));
        let snapshot = snapshot(&names);
        // By the next period the cache has done what it was told.
        let inputs = || {
            let controller = controller.borrow();
            let now = controller.poll_timeout();
            let snapshot = Snapshot { at: now, newest: Some(now), ..snapshot.clone() };
            (now, usage(&controller), snapshot)
        };
        let period = |(now, usage, snapshot): (Instant, Vec<PartitionUsage>, Snapshot)| {
            let mut controller = controller.borrow_mut();
            controller.handle_usage(now, &usage);
            while let Some(resize) = controller.poll_resize() {
                black_box(resize);
            }
            controller.handle_snapshot(snapshot);
            controller.handle_timeout(now);
            while let Some(resize) = controller.poll_resize() {
                black_box(resize);
            }
            let decision = controller.poll_decision().expect("one in each period");
            assert!(decision.hold.is_none() && decision.skipped.is_empty(), "{decision}");
            decision
        };
        c.bench_function(&format!("period, {count} backends"), |bencher| {
            bencher.iter_batched(inputs, period, BatchSize::PerIteration);
        });
    }
}

criterion_group!(benches, tick);
criterion_main!(benches);
