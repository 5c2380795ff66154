//! What reporting costs a request: `cargo bench -p robinhood-client`.
//!
//! Two threads add reports through one client, alone and while deltas are taken; then whole requests. Rounds are
//! short and many, and every figure is given twice, because processors of shared machines are not ours alone:
//! processor time of the calling threads, in which waiting for a lock does not show, and the wall time of the fastest
//! round, in which it does.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes as Value;
use robinhood_blocking::{BatchRecord, Blocker, Report};
use robinhood_cache::{Store, StoreConfig};
use robinhood_client::Client;
use robinhood_stats::{BackendId, BackendName, Bytes, Nanos};

const ROUNDS: usize = 101;
const BACKENDS: u16 = 20;
const ADDITIONS: usize = 100_000;
const REQUESTS: usize = 5_000;

fn client(coalescing: bool) -> Client {
    let names = (0..BACKENDS).map(|number| BackendName::new(&format!("backend-{number}")));
    let names: Vec<_> = names.collect::<Result<_, _>>().expect("the names are in the alphabet");
    let store = Store::new(&StoreConfig::new(Bytes::from_mib(64), names.len()));
    let store = Arc::new(store.expect("a valid configuration"));
    Client::builder(store, names).coalescing(coalescing).build().expect("a valid configuration")
}

/// Latencies from 0.1 ms to 1 s, as many in each octave, with all backends blocking all over.
fn reports() -> Vec<Report> {
    let mut state = 1_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    let report = |_| {
        let latency = Nanos((100_000 << (draw() % 13)) + draw() % 100_000);
        let blocker = BackendId((draw() % u64::from(BACKENDS)) as u16);
        Report::complete(latency, Blocker::Backend(blocker))
    };
    (0..4_096).map(report).collect()
}

/// What calls took in one round, on average, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Cost {
    processor_ns: f64,
    wall_ns: f64,
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    nix::time::clock_gettime(clock).expect("every thread has this clock").into()
}

fn measure(calls: usize, work: impl FnOnce()) -> Cost {
    let (wall, processor) = (Instant::now(), processor_time());
    work();
    let processor = processor_time() - processor;
    let per_call = |time: Duration| time.as_nanos() as f64 / calls as f64;
    Cost { processor_ns: per_call(processor), wall_ns: per_call(wall.elapsed()) }
}

/// One round in which `threads` threads call at once: the mean over the threads.
fn round(threads: usize, call: impl Fn(usize) + Sync) -> Cost {
    let barrier = std::sync::Barrier::new(threads);
    let costs: Vec<Cost> = std::thread::scope(|scope| {
        let thread = || {
            barrier.wait();
            measure(ADDITIONS, || (0..ADDITIONS).for_each(&call))
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(thread)).collect();
        running.into_iter().map(|thread| thread.join().expect("no call panics")).collect()
    });
    let mean = |of: fn(&Cost) -> f64| costs.iter().map(of).sum::<f64>() / threads as f64;
    Cost { processor_ns: mean(|cost| cost.processor_ns), wall_ns: mean(|cost| cost.wall_ns) }
}

fn print(what: &str, mut round: impl FnMut() -> Cost) {
    let rounds: Vec<Cost> = (0..ROUNDS).map(|_| round()).collect();
    let sorted = |of: fn(&Cost) -> f64| {
        let mut sorted: Vec<f64> = rounds.iter().map(of).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted
    };
    let (processor, wall) = (sorted(|cost| cost.processor_ns), sorted(|cost| cost.wall_ns));
    let (low, median, high) = (ROUNDS / 10, ROUNDS / 2, ROUNDS - 1 - ROUNDS / 10);
    println!(
        "| {what} | {:.0} | {:.0} to {:.0} | {:.0} | {:.0} |",
        processor[median], processor[low], processor[high], wall[0], wall[median]
    );
}

fn additions() {
    let (client, reports) = (client(true), reports());
    let add = |number: usize| client.record(black_box(reports[number % reports.len()]));
    print("one report, one thread", || round(1, add));
    print("one report, two threads", || round(2, add));
    let batch =
        BatchRecord { queries: 3, latency: Some(Nanos(1_000_000)), ..BatchRecord::default() };
    print("one batch, two threads", || {
        round(2, |number| {
            let backend = (number % usize::from(BACKENDS)) as u16;
            client.record_batch(BackendId(backend), black_box(batch));
        })
    });
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                black_box(client.take_delta(Nanos::ZERO));
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        print("one report, two threads, 100 deltas/s", || round(2, add));
        done.store(true, Ordering::Relaxed);
    });
}

/// One round of requests, one after the other on one thread.
fn requests<F: Future<Output = ()>>(request: impl Fn() -> F) -> Cost {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime of one thread");
    measure(REQUESTS, || {
        runtime.block_on(async {
            for _ in 0..REQUESTS {
                request().await;
            }
        });
    })
}

async fn value() -> Result<Value, std::convert::Infallible> {
    Ok(Value::from_static(b"value"))
}

fn whole_requests() {
    let client = client(true);
    let client = &client;
    print("request without queries", || {
        requests(async || {
            black_box(client.request().finish());
        })
    });
    print("request with one hit", || {
        requests(async || {
            let scope = client.request();
            black_box(scope.get(BackendId(3), "key", value).await).expect("it cannot fail");
            scope.finish();
        })
    });
    for (what, coalescing) in
        [("request with one miss, coalescing", true), ("request with one miss, not", false)]
    {
        let client = self::client(coalescing);
        let client = &client;
        print(what, || {
            requests(async || {
                let scope = client.request();
                client.store().unwrap().remove(robinhood_cache::PartitionId(3), b"key");
                black_box(scope.get(BackendId(3), "key", value).await).expect("it cannot fail");
                scope.finish();
            })
        });
    }
}

fn main() {
    println!(
        "| ns a call | processor, median | 10 to 90 % of rounds | wall, fastest | wall, median |"
    );
    println!("| --- | --- | --- | --- | --- |");
    additions();
    whole_requests();
}
