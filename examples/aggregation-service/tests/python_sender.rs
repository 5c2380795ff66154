//! Reports that Python sends and reports of the client library: the same requests give the same RBC.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use robinhood_blocking::{Collector, CollectorConfig, Detail, RecorderConfig, Snapshot};
use robinhood_cache::{Store, StoreConfig};
use robinhood_client::Client;
use robinhood_stats::{Bytes, Nanos};
use support::{Running, Service, get};

const NAMES: [&str; 3] = ["ads", "catalogue", "ratings"];
/// Those of the pages.
const NAMES_OF_PAGES: [&str; 3] = ["catalogue", "ratings", "recommender"];
/// The tail band holds 20 of them, so that the collector's window keeps all.
const REQUESTS: u64 = 2_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../python-sender")
}

/// Whether there is a Python to test with; says so when there is none.
fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: there is no python3");
    }
    found
}

/// How long each backend takes for a request, in milliseconds: now and then one of them is slow.
fn times_ms(request: u64) -> [u64; 3] {
    let slow = |every: u64| if request.is_multiple_of(every) { 80 + request * 7 % 40 } else { 0 };
    [1 + request % 7 + slow(90), 3 + request % 5 + slow(70), 2 + request % 11 + slow(50)]
}

/// The requests through the client library, in virtual time.
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn through_the_client() -> Snapshot {
    let store = Arc::new(Store::new(&StoreConfig::new(Bytes::from_mib(1), NAMES.len())).unwrap());
    let client = Client::builder(store, NAMES.map(|name| name.parse().unwrap()))
        .recorder(RecorderConfig { detail: Detail::All, ..RecorderConfig::default() })
        .build()
        .unwrap();
    for request in 0..REQUESTS {
        let scope = client.request();
        let times = times_ms(request);
        let ask = |place: usize| {
            let answer = tokio::time::sleep(Duration::from_millis(times[place]));
            scope.query(NAMES[place], async move {
                answer.await;
                Ok::<_, std::io::Error>(place)
            })
        };
        let _ = tokio::join!(ask(0), ask(1), ask(2));
        scope.finish();
    }
    let mut collector = Collector::new(CollectorConfig::default()).unwrap();
    collector.handle_delta(client.now(), &client.take_delta(Nanos::ZERO)).unwrap();
    collector.snapshot(client.now())
}

#[test]
fn the_same_requests_give_the_same_rbc_through_the_client_and_through_python() {
    if !has_python() {
        return;
    }
    let service = Service::start();
    let program = format!(
        "import sys; sys.path.insert(0, {:?})\n\
         from reports import Reports\n\
         reports = Reports({:?})\n\
         for line in sys.stdin:\n\
         \x20   latency_ms, blocking = line.split()\n\
         \x20   reports.add(float(latency_ms), blocking)\n\
         reports.send()\n",
        folder(),
        service.url
    );
    let mut python = Command::new("python3")
        .args(["-c", &program])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = String::new();
    for request in 0..REQUESTS {
        let times = times_ms(request);
        let latency_ms = times.into_iter().max().unwrap();
        let place = times.iter().position(|&time| time == latency_ms).unwrap(); // the first by name
        lines += &format!("{latency_ms} {}\n", NAMES[place]);
    }
    python.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(python.wait().unwrap().success());

    let (posted, called) = (service.rbc_of(REQUESTS), through_the_client());
    assert_eq!(called.requests, REQUESTS);
    let rbc: f64 = called.backends.iter().map(|backend| backend.rbc).sum();
    assert!(rbc > 10.0, "the tail band has requests: {called:?}");
    for backend in &called.backends {
        let of_python = posted["backends"][backend.name.as_str()]["rbc"].as_f64();
        assert_eq!(of_python, Some(backend.rbc), "{}: {posted}", backend.name);
        assert!(backend.rbc > 0.0, "every backend blocks a part of the tail: {called:?}");
    }
    assert_eq!(posted["requests_in_band"].as_f64(), Some(called.requests_in_band));
    assert_eq!(posted["p99_ms"].as_f64(), Some(called.request_p99.as_millis_f64()));
}

#[test]
fn the_python_service_serves_pages_and_its_requests_become_rbc() {
    if !has_python() {
        return;
    }
    let service = Service::start();
    let mut python = Command::new("python3")
        .arg(folder().join("service.py"))
        .args([&service.url, "0"])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(python.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    let _python = Running(python);
    let url = said.strip_prefix("listening on ").unwrap();
    for product in 0..5 {
        let (status, page) = get(url, &format!("/products/{product}"));
        let page = String::from_utf8(page).unwrap();
        assert!(status == 200 && page.contains("catalogue: 2000 bytes"), "{status}: {page}");
    }
    let rbc = service.rbc_of(5);
    // The slowest of five: by its work the recommender's, by chance on a busy machine another backend's.
    let known = NAMES_OF_PAGES.map(|name| rbc["backends"][name]["rbc"].as_f64().unwrap_or(0.0));
    let known: f64 = known.iter().sum();
    assert!(known > 0.0 && Some(known) == rbc["requests_in_band"].as_f64(), "{rbc}");
}
