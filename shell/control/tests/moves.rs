//! A client, its cache and the loop beside them, on this machine's clock, with times compressed.

use std::sync::Arc;
use std::time::Duration;

use robinhood_blocking::{
    BatchRecord, Blocker, Detail, Recorder, RecorderConfig, Report, ServiceName,
};
use robinhood_cache::{PartitionId, Store, StoreConfig};
use robinhood_client::Client;
use robinhood_control::{ControlBuilder, ControlLoop, ControlView, StoreCache};
use robinhood_controller::{Mode, PolicyKind};
use robinhood_stats::{BackendId, BackendName, Bytes, Nanos};

const BUDGET: Bytes = Bytes::from_mib(1);
const NAMES: [&str; 3] = ["ads", "catalogue", "ratings"];
/// Period of 50 ms, slots of 10 ms.
const TIME_SCALE: f64 = 100.0;

fn names() -> [BackendName; 3] {
    NAMES.map(|name| name.parse().unwrap())
}

fn client(partitions: usize) -> Client {
    let store = Arc::new(Store::new(&StoreConfig::new(BUDGET, partitions)).unwrap());
    Client::builder(store, names()).build().unwrap()
}

fn builder(client: &Client) -> ControlBuilder {
    ControlLoop::builder(client.clone()).time_scale(TIME_SCALE)
}

/// 400 requests that waited for `ratings`.
fn report(client: &Client) {
    let ratings = client.backend("ratings").unwrap();
    for number in 0..400 {
        let latency = Nanos::from_micros(5_000 + number);
        client.record(Report::complete(latency, Blocker::Backend(ratings)));
    }
    let latency = Some(Nanos::from_millis(4));
    client
        .record_batch(ratings, BatchRecord { queries: 10, hits: 4, latency, ..Default::default() });
}

fn limits(client: &Client) -> [Bytes; 3] {
    [0, 1, 2].map(|id| client.store().unwrap().limit(PartitionId(id)))
}

/// Fills the partition that blocks, so that more space would be used, and reports until `is_done` or for 20 s.
fn work_until(client: &Client, control: &ControlLoop, is_done: impl Fn() -> bool) -> bool {
    let value = [7; 4_000];
    for key in 0..200_u32 {
        let _ = client.store().unwrap().insert(PartitionId(2), &key.to_le_bytes(), &value);
    }
    for _ in 0..400 {
        report(client);
        control.settle();
        if is_done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

#[test]
fn what_the_client_counted_is_rbc_and_totals() {
    let client = client(3);
    // At the pace of the paper: whatever holds this test up, the reports stay in the window.
    let control = ControlLoop::builder(client.clone()).policy(PolicyKind::Shared).start().unwrap();
    report(&client);
    control.settle();
    let snapshot = control.snapshot();
    assert_eq!(snapshot.requests, 400);
    let rbc = snapshot.backend("ratings").unwrap().rbc;
    assert!(rbc > 0.0 && (rbc - snapshot.requests_in_band).abs() < 1e-9, "{snapshot:?}");
    let view = control.rbc();
    let ratings = view.backends[&names()[2]];
    assert_eq!((view.requests, ratings.share, ratings.queries, ratings.hits), (400, 1.0, 10, 4));
    assert_eq!(ratings.limit_bytes, Some(client.store().unwrap().limit(PartitionId(2)).0));
    let totals = control.totals();
    assert_eq!((totals[2].queries, totals[2].hits), (10, 4));
    assert_eq!(totals[2].hit_ratio(), Some(0.4));
    assert_eq!(totals[0].hit_ratio(), None);
    assert!(control.decisions().is_empty(), "a shared cache has no controller");
}

#[test]
fn space_goes_to_the_backend_that_blocks_and_stays_when_the_loop_ends() {
    let client = client(3);
    let start = limits(&client);
    let names = client.names().cloned().collect();
    let cache =
        StoreCache::new(client.store().unwrap().clone(), names, vec![Bytes::from_kib(5); 3]);
    let control = builder(&client).cache(Box::new(cache)).start().unwrap();
    assert!(work_until(&client, &control, || control.moves().active > Bytes::ZERO));
    drop(control);
    let end = limits(&client);
    assert!(end[2] > start[2] && end[0] < start[0] && end[1] < start[1], "{start:?} {end:?}");
    assert_eq!(end.into_iter().sum::<Bytes>(), BUDGET);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(limits(&client), end, "the cache keeps what it was told last");
}

#[test]
fn an_advising_loop_says_what_it_would_move_and_moves_nothing() {
    let client = client(3);
    let start = limits(&client);
    let control = builder(&client).mode(Mode::Advise).start().unwrap();
    assert!(work_until(&client, &control, || control.moves().advised > Bytes::ZERO));
    assert_eq!((limits(&client), control.moves().active), (start, Bytes::ZERO));
    let decisions = control.decisions();
    let last = decisions.last().unwrap();
    assert!(last.mode == Mode::Advise && last.replay() == last.new, "{last}");
}

#[test]
fn reports_from_others_count_with_backends_that_have_no_partition_here() {
    let client = client(3);
    let other = RecorderConfig { sender: 1, detail: Detail::All, ..RecorderConfig::default() };
    let mut recorder = Recorder::new(other);
    let search = recorder.backend(&"search".parse().unwrap());
    let ads = recorder.backend(&"ads".parse().unwrap());
    for _ in 0..100 {
        let waited = Report::complete(Nanos::from_millis(9), Blocker::Backend(search));
        recorder.record(waited).unwrap();
    }
    let batch = BatchRecord { queries: 3, hits: 3, ..Default::default() };
    recorder.record_batch(ads, batch);
    recorder.record_batch(search, batch);
    let control =
        builder(&client).reports_from(move |age| recorder.take_delta(age)).start().unwrap();
    client.record(Report::complete(Nanos::from_millis(1), Blocker::Backend(BackendId(0))));
    control.settle();
    let snapshot = control.snapshot();
    assert_eq!(snapshot.requests, 101);
    assert!(snapshot.backend("search").unwrap().rbc > 0.0, "{snapshot:?}");
    let search = control.rbc().backends[&"search".parse().unwrap()];
    assert_eq!((search.share, search.limit_bytes), (1.0, None));
    assert_eq!(control.totals().iter().map(|totals| totals.queries).sum::<u64>(), 3);
}

#[test]
fn a_delta_of_another_service_is_left_out() {
    let client = client(3);
    let service: ServiceName = "elsewhere".parse().unwrap();
    let mut recorder = Recorder::new(RecorderConfig { service, ..RecorderConfig::default() });
    let ads = recorder.backend(&names()[0]);
    recorder.record_batch(ads, BatchRecord { queries: 1, hits: 1, ..Default::default() });
    recorder.record(Report::complete(Nanos::from_millis(1), Blocker::Nobody)).unwrap();
    let control =
        builder(&client).reports_from(move |age| recorder.take_delta(age)).start().unwrap();
    control.settle();
    assert_eq!((control.snapshot().requests, control.totals()[0].queries), (0, 0));
}

#[test]
fn settings_that_cannot_work_are_refused_with_the_reason() {
    let refused = |builder: ControlBuilder| builder.start().err().unwrap().to_string();
    let error = refused(builder(&client(4)));
    assert!(error.contains("one for each backend of the client"), "{error}");
    let error = refused(ControlLoop::builder(client(3)).time_scale(1_000.0));
    assert!(error.contains("period"), "{error}");
}

#[test]
fn a_paused_loop_moves_nothing_until_it_goes_on_and_the_mode_can_change() {
    let client = client(3);
    let start = limits(&client);
    let control = builder(&client).mode(Mode::Advise).start().unwrap();
    assert_eq!(control.view(), Some(ControlView { mode: Mode::Advise, paused: None }));
    assert!(control.pause("deployment".to_owned()) && control.set_mode(Mode::Active));
    let paused = Some("deployment".to_owned());
    assert_eq!(control.view(), Some(ControlView { mode: Mode::Active, paused }));
    let is_held = |control: &ControlLoop| {
        control.decisions().iter().any(|decision| decision.to_string().contains("deployment"))
    };
    assert!(work_until(&client, &control, || is_held(&control)));
    assert_eq!(limits(&client), start);
    assert!(control.resume());
    assert!(work_until(&client, &control, || control.moves().active > Bytes::ZERO));
}

#[test]
fn a_shared_cache_takes_no_commands() {
    let client = client(3);
    let control = builder(&client).policy(PolicyKind::Shared).start().unwrap();
    assert!(!control.set_mode(Mode::Active) && !control.pause("deployment".to_owned()));
    assert!(!control.resume() && control.view().is_none());
}
