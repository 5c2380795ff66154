use std::time::Duration;

use robinhood_control::ControlView;
use robinhood_workload::{Key, Workload, presets};

use super::*;

const CLIENT_TIMEOUT: Nanos = Nanos::from_secs(1);

fn workload() -> Workload {
    let mut workload = presets::demo(Nanos::from_secs(3));
    for backend in &mut workload.backends {
        backend.catalogue = 400;
        backend.service = Nanos::from_micros(200);
        backend.timeout = CLIENT_TIMEOUT;
    }
    workload
}

fn stack(kind: StackKind, time_scale: f64) -> Arc<Stack> {
    let dataset = Dataset::generate(workload(), 1).unwrap();
    let config = StackConfig {
        name: "test".to_owned(),
        kind,
        cache: CacheKind::Process,
        budget: Bytes::from_kib(600),
        time_scale,
        queue_max: 1_000,
    };
    let clock = RunClock::start();
    Arc::new(ColdStack::new(config, dataset).unwrap().start(1.0, clock, Instant::ZERO).unwrap())
}

const fn partitioned(mode: Mode) -> StackKind {
    StackKind::of(PolicyKind::Robinhood, mode)
}

/// One request: stages of batches, given as backend and keys.
fn request(index: u64, stages: &[&[(u16, &[u32])]]) -> Request {
    let mut request = Request::new();
    request.index = index;
    for batches in stages {
        request.push_stage();
        for &(backend, keys) in *batches {
            request.push_cacheable_batch(BackendId(backend), keys.iter().copied().map(Key));
        }
    }
    request
}

/// Runs on two threads, bounded in time: a hang is a failed test.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    let limit = Duration::from_secs(30);
    runtime.block_on(async { tokio::time::timeout(limit, future).await.expect("ends in time") })
}

/// Sends a request as the load does.
fn send(stack: &Arc<Stack>, request: Request) -> tokio::task::JoinHandle<()> {
    let now = stack.now();
    let ticket = stack.recorder().sent(now, now).unwrap();
    let stack = stack.clone();
    tokio::spawn(async move {
        stack.serve(&request, ticket, tokio::time::Instant::now()).await;
    })
}

#[test]
fn a_second_request_for_the_same_keys_finds_them_in_the_cache() {
    let stack = stack(StackKind::Shared, 1.0);
    run(async {
        for index in 0..2 {
            send(&stack, request(index, &[&[(0, &[1, 2]), (1, &[1])], &[(4, &[7])]]))
                .await
                .unwrap();
        }
    });
    stack.settle();
    let view = stack.view();
    assert_eq!((view.requests.completed, view.queries.answered), (2, 8));
    let hits: Vec<u64> = view.backends.iter().map(|backend| backend.totals.hits).collect();
    assert_eq!(hits, [2, 1, 0, 0, 1, 0]);
    assert_eq!(view.backends[0].totals.hit_ratio(), Some(0.5));
    assert_eq!(view.backends[0].servers.answered, 1, "two keys, one batch");
}

#[test]
fn what_the_cache_holds_is_what_the_backend_answers() {
    let stack = stack(partitioned(Mode::Active), 1.0);
    run(async { send(&stack, request(0, &[&[(1, &[3]), (5, &[9])]])).await.unwrap() });
    for (backend, key) in [(1, 3u32), (5, 9)] {
        let store = stack.application().client().store().unwrap();
        let cached = store.get(robinhood_cache::PartitionId(backend), &key.to_le_bytes()).unwrap();
        let mut worker = stack.dataset.catalogue(BackendId(backend)).worker().unwrap();
        assert_eq!(cached, worker.answer(&[key]).unwrap()[0]);
    }
}

#[test]
fn a_hanging_backend_costs_its_timeout_blocks_its_request_and_is_seen_before() {
    let stack = stack(partitioned(Mode::Active), 1.0);
    stack.application().set_hung(BackendId(3), true);
    let (seen, view) = run(async {
        let hanging = send(&stack, request(1, &[&[(3, &[5]), (0, &[1, 2])], &[(2, &[1, 2, 3])]]));
        // If it were never seen to hang, this would not end in time.
        while stack.view().backends[3].oldest < Some(Nanos::from_millis(50)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let seen = stack.view();
        hanging.await.unwrap();
        stack.settle();
        (seen, stack.view())
    });
    let hung = &seen.backends[3];
    assert_eq!((hung.in_flight, seen.requests.unfinished), (1, 1), "seen before it returns");
    assert!(hung.servers.oldest >= Some(Nanos::from_millis(50)), "at the backend too");
    assert_eq!((view.requests.timed_out, view.requests.completed), (1, 0));
    let QueryCounts { asked, answered, failed, timed_out, unsent, unfinished } = view.queries;
    assert_eq!([asked, answered, failed, timed_out, unsent, unfinished], [6, 2, 0, 1, 3, 0]);
    assert_eq!(view.backends[3].totals.timeouts, 1);
    assert!((view.backends[3].rbc_share - 1.0).abs() < 1e-9, "it blocked the only request");
    let latency = stack.recorder().summary(stack.now()).latency_us.max.unwrap();
    assert!(latency >= CLIENT_TIMEOUT.as_micros_f64(), "the request waited for the timeout");
    let servers = &view.backends[3].servers;
    assert_eq!(servers.queue_length + servers.busy_servers, 1, "the batch is still there");
}

#[test]
fn a_backend_that_refuses_fails_the_request_and_later_stages_are_not_begun() {
    let dataset = Dataset::generate(workload(), 1).unwrap();
    let (kind, budget) = (StackKind::Shared, Bytes::from_mib(1));
    let config = StackConfig {
        name: "t".to_owned(),
        kind,
        cache: CacheKind::Process,
        budget,
        time_scale: 1.0,
        queue_max: 0,
    };
    let cold = ColdStack::new(config, dataset).unwrap();
    let stack = Arc::new(cold.start(1.0, RunClock::start(), Instant::ZERO).unwrap());
    run(async { send(&stack, request(1, &[&[(0, &[1, 2])], &[(1, &[1])]])).await.unwrap() });
    stack.settle();
    let view = stack.view();
    assert_eq!((view.requests.failed, view.queries.failed, view.queries.unsent), (1, 2, 1));
    assert_eq!((view.backends[0].totals.failures, view.backends[0].servers.refused), (2, 1));
}

/// 600 requests of which those to backend 3 are slow, then two control periods.
fn load(stack: &Arc<Stack>) {
    run(async {
        for round in 0..60u32 {
            let requests: Vec<_> = (0..10u32)
                .map(|i| {
                    let key = (round * 10 + i) % 400;
                    request(u64::from(key), &[&[(0, &[key]), (3, &[key, (key + 1) % 400])]])
                })
                .map(|request| send(stack, request))
                .collect();
            for request in requests {
                request.await.unwrap();
            }
        }
    });
    let periods = Nanos::from_secs(5).scaled_down(stack.config.time_scale).0 * 3;
    std::thread::sleep(Duration::from_nanos(periods));
}

fn limits(stack: &Stack) -> Vec<Bytes> {
    stack.view().backends.iter().map(|backend| backend.limit).collect()
}

#[test]
fn an_active_controller_moves_bytes_and_an_advising_one_only_says_so() {
    let (active, advise) =
        (stack(partitioned(Mode::Active), 50.0), stack(partitioned(Mode::Advise), 50.0));
    let start = limits(&active);
    load(&advise);
    for _ in 0..20 {
        load(&active);
        if active.view().bytes_moved > Bytes::ZERO {
            break;
        }
    }
    let view = active.view();
    assert!(view.decisions.iter().all(|decision| decision.replay() == decision.new));
    assert!(
        view.bytes_moved > Bytes::ZERO,
        "an active controller moves bytes: {:?}",
        view.decisions.last()
    );
    assert_eq!(view.bytes_advised, Bytes::ZERO);
    assert_ne!(limits(&active), start, "what was decided was done");
    let sum: Bytes = limits(&active).into_iter().sum();
    assert_eq!(sum, Bytes::from_kib(600), "bytes are conserved");
    assert!(!advise.view().decisions.is_empty());
    assert_eq!(advise.view().bytes_moved, Bytes::ZERO);
    assert_eq!(limits(&advise), start);
}

#[test]
fn a_paused_controller_moves_nothing_until_it_is_resumed() {
    let stack = stack(partitioned(Mode::Active), 50.0);
    assert!(stack.pause("maintenance".to_owned()) && stack.set_mode(Mode::Advise));
    let start = limits(&stack);
    load(&stack);
    let view = stack.view();
    let paused = Some("maintenance".to_owned());
    assert_eq!(view.control, Some(ControlView { mode: Mode::Advise, paused }));
    assert!(view.decisions.iter().any(|decision| decision.to_string().contains("maintenance")));
    assert_eq!((limits(&stack), view.bytes_moved), (start, Bytes::ZERO));
    assert!(stack.resume() && stack.set_mode(Mode::Active));
    assert_eq!(stack.view().control, Some(ControlView { mode: Mode::Active, paused: None }));
}

#[test]
fn a_shared_stack_decides_nothing_and_shows_who_blocks() {
    let stack = stack(StackKind::Shared, 50.0);
    load(&stack);
    let view = stack.view();
    assert!(view.decisions.is_empty() && view.control.is_none());
    assert!(!stack.pause(String::new()) && !stack.resume() && !stack.set_mode(Mode::Advise));
    let rbc: f64 = view.backends.iter().map(|backend| backend.rbc_share).sum();
    assert!((rbc + view.own_rbc_share - 1.0).abs() < 1e-9, "{rbc} + {}", view.own_rbc_share);
    let used: Bytes = view.backends.iter().map(|backend| backend.used.unwrap()).sum();
    assert!(used <= Bytes::from_kib(600) && used > Bytes::ZERO);
}

#[test]
fn a_budget_below_the_floors_is_refused_with_what_it_takes() {
    let dataset = Dataset::generate(workload(), 1).unwrap();
    let config = StackConfig {
        name: "tiny".to_owned(),
        kind: StackKind::Shared,
        cache: CacheKind::Process,
        budget: Bytes(100),
        time_scale: 1.0,
        queue_max: 1,
    };
    let error = ColdStack::new(config, dataset).err().unwrap().to_string();
    assert!(error.starts_with("stack `tiny`: a budget of 100 B is below the floors"), "{error}");
}
