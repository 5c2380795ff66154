use std::sync::Mutex;
use std::time::Duration;

use robinhood_load_tester::RunClock;
use robinhood_stats::Instant;
use robinhood_workload::BackendKind;

use super::*;

const SIZES: [u32; 100] = [64; 100];

fn settings(servers: usize, queue_max: usize) -> BackendSettings {
    let name = BackendName::new("b").unwrap();
    BackendSettings { name, servers, queue_max, recent: Nanos::from_secs(60) }
}

fn backend(servers: usize, queue_max: usize, limit: impl ResourceLimit + 'static) -> Backend {
    let catalogue = Catalogue::build(BackendKind::Lookup, 1, &SIZES).unwrap();
    let limit: Arc<dyn ResourceLimit> = Arc::new(limit);
    Backend::start(settings(servers, queue_max), &catalogue, &limit, RunClock::start()).unwrap()
}

fn constant(service: Nanos) -> impl ResourceLimit {
    move |_: BatchId, _: u32, _: Instant| Some(service)
}

const fn id(request: u64) -> BatchId {
    BatchId { request, stage: 0 }
}

/// Runs a future that is bounded in time: a hang is a failed test.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let limit = Duration::from_secs(30);
    runtime.block_on(async { tokio::time::timeout(limit, future).await.expect("ends in time") })
}

#[test]
fn batches_are_served_in_the_order_in_which_they_came() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = order.clone();
    let backend = backend(1, 100, move |batch: BatchId, _: u32, _: Instant| {
        seen.lock().unwrap().push(batch.request);
        Some(Nanos::from_micros(if batch.request.is_multiple_of(2) { 900 } else { 10 }))
    });
    let answers: Vec<_> = (0..50).map(|request| backend.query(id(request), vec![1])).collect();
    wait(futures::future::join_all(answers));
    assert_eq!(*order.lock().unwrap(), (0..50).collect::<Vec<_>>());
}

#[test]
fn values_come_in_the_order_of_the_keys() {
    let backend = backend(2, 10, constant(Nanos::ZERO));
    let batch = wait(backend.query(id(0), vec![5, 9, 5])).unwrap();
    let nine = wait(backend.query(id(1), vec![9])).unwrap();
    assert_eq!((batch.len(), &batch[1]), (3, &nine[0]));
    assert_eq!(batch[0], batch[2]);
    assert_ne!(batch[0], batch[1]);
}

#[test]
fn the_limit_sees_the_batch_and_the_start_of_its_service() {
    let starts = Arc::new(Mutex::new(Vec::new()));
    let seen = starts.clone();
    let service = Nanos::from_millis(5);
    let backend = backend(1, 10, move |batch: BatchId, keys: u32, start: Instant| {
        seen.lock().unwrap().push((batch.request, keys, start));
        Some(service)
    });
    let answers = [
        backend.query(id(7), vec![1]),
        backend.query(id(8), vec![1, 2]),
        backend.query(id(9), vec![3]),
    ];
    wait(futures::future::join_all(answers));
    let starts = starts.lock().unwrap();
    let batches: Vec<(u64, u32)> = starts.iter().map(|s| (s.0, s.1)).collect();
    assert_eq!(batches, [(7, 1), (8, 2), (9, 1)]);
    // In a busy server services follow each other without a gap, however late its thread wakes, unless work itself was late.
    let late = backend.statistics().over_limit;
    let gaps = starts.windows(2).filter(|pair| pair[1].2 != pair[0].2 + service);
    assert!(gaps.count() as u64 <= late);
}

#[test]
fn a_full_queue_refuses_and_every_batch_is_accounted_for() {
    let backend = backend(1, 3, constant(Nanos::from_micros(100)));
    backend.set_hung(true);
    let answers: Vec<_> = (0..20).map(|request| backend.query(id(request), vec![1])).collect();
    backend.set_hung(false);
    let answers = wait(futures::future::join_all(answers));
    let unknown = wait(backend.query(id(20), vec![100]));
    assert!(matches!(unknown, Err(BackendError::Failed { .. })), "{unknown:?}");
    let refused = answers.iter().filter(|a| matches!(a, Err(BackendError::Refused { .. }))).count();
    let answered = answers.iter().filter(|a| a.is_ok()).count();
    assert_eq!(answered + refused, 20);
    assert!(
        (3..=4).contains(&answered),
        "three places in the queue and one in service: {answered}"
    );
    let statistics = backend.statistics();
    assert_eq!(statistics.asked, 21);
    assert_eq!((statistics.answered, statistics.refused), (answered as u64, refused as u64));
    assert_eq!(
        (statistics.failed, statistics.given_up, statistics.keys),
        (1, 0, answered as u64 + 1)
    );
    assert_eq!((statistics.queue_length, statistics.busy_servers, statistics.oldest), (0, 0, None));
}

#[test]
fn an_asker_that_gives_up_leaves_its_batch_in_service() {
    let backend = backend(1, 10, constant(Nanos::from_millis(50)));
    drop(backend.query(id(1), vec![1, 2]));
    wait(backend.query(id(2), vec![3])).unwrap();
    let statistics = backend.statistics();
    assert_eq!((statistics.given_up, statistics.answered, statistics.keys), (1, 1, 3));
    assert!(statistics.served >= Nanos::from_millis(100), "both held the server");
}

#[test]
fn a_change_of_capacity_takes_effect_at_the_next_service() {
    let capacity = Arc::new(Mutex::new(1.0));
    let path = capacity.clone();
    let backend = backend(1, 100, move |_: BatchId, _: u32, _: Instant| {
        Some(Nanos::from_millis(8).scaled_down(*path.lock().unwrap()))
    });
    let run = |backend: &Backend| {
        let before = backend.statistics();
        let answers: Vec<_> = (0..8).map(|request| backend.query(id(request), vec![1])).collect();
        wait(futures::future::join_all(answers));
        backend.statistics().served - before.served
    };
    let fast = run(&backend);
    *capacity.lock().unwrap() = 0.25;
    let slow = run(&backend);
    let ratio = slow.0 as f64 / fast.0 as f64;
    assert!((2.5..=4.5).contains(&ratio), "a quarter of the capacity takes four times: {ratio}");
}

#[test]
fn without_capacity_a_batch_waits_visibly_until_there_is_some() {
    let none = Arc::new(Mutex::new(true));
    let path = none.clone();
    let backend = backend(2, 10, move |_: BatchId, _: u32, _: Instant| {
        (!*path.lock().unwrap()).then_some(Nanos::from_millis(1))
    });
    let answer = backend.query(id(1), vec![1]);
    let given_up = wait(tokio_timeout(Duration::from_millis(60), backend.query(id(2), vec![1])));
    assert!(given_up.is_none());
    let stuck = backend.statistics();
    assert_eq!((stuck.busy_servers, stuck.answered, stuck.served), (2, 0, Nanos::ZERO));
    assert!(stuck.oldest >= Some(Nanos::from_millis(60)));
    *none.lock().unwrap() = false;
    wait(answer).unwrap();
}

async fn tokio_timeout<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, future).await.ok()
}

#[test]
fn a_hanging_backend_answers_when_it_goes_on_and_not_before() {
    let backend = backend(1, 10, constant(Nanos::from_micros(100)));
    backend.set_hung(true);
    let answer = backend.query(id(1), vec![1]);
    assert!(
        wait(tokio_timeout(Duration::from_millis(50), backend.query(id(2), vec![1]))).is_none()
    );
    assert!(backend.statistics().oldest >= Some(Nanos::from_millis(50)));
    assert_eq!(backend.statistics().queue_length, 1);
    backend.set_hung(false);
    wait(answer).unwrap();
}

#[test]
fn dropping_a_hanging_backend_ends_its_threads_and_closes_its_batches() {
    let backend = backend(2, 10, constant(Nanos::from_secs(3_600)));
    let served = backend.query(id(1), vec![1]);
    backend.set_hung(true);
    let waiting: Vec<_> = (0..4).map(|request| backend.query(id(request), vec![1])).collect();
    drop(backend);
    assert!(matches!(wait(served), Err(BackendError::Closed { .. })));
    for answer in wait(futures::future::join_all(waiting)) {
        assert!(matches!(answer, Err(BackendError::Closed { .. })));
    }
}

#[test]
fn utilisation_is_that_of_the_model() {
    let service = Nanos::from_millis(4);
    let backend = backend(2, 1_000, constant(service));
    let before = backend.statistics();
    let begin = std::time::Instant::now();
    wait(async {
        for request in 0..150u32 {
            drop(backend.query(id(u64::from(request)), vec![request % 100]));
            let due = begin + Duration::from_micros(4_000) * (request + 1);
            tokio::time::sleep_until(due.into()).await;
        }
    });
    let after = backend.statistics();
    let measured = after.utilisation_since(&before);
    let rate = 150.0 / after.at.since(before.at).as_secs_f64();
    let model = rate * service.as_secs_f64() / 2.0;
    let excess = after.over_limit as f64 * 0.01;
    assert!((measured - model).abs() < 0.05 + excess, "measured {measured}, model {model}");
}

#[test]
fn a_backend_without_servers_does_not_start() {
    let catalogue = Catalogue::build(BackendKind::Lookup, 1, &SIZES).unwrap();
    let limit: Arc<dyn ResourceLimit> = Arc::new(constant(Nanos::ZERO));
    let error =
        Backend::start(settings(0, 1), &catalogue, &limit, RunClock::start()).err().unwrap();
    assert_eq!(error.to_string(), "b has no servers: give it at least one");
}
