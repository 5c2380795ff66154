//! An aggregator in this process, spoken to as its users do: frames and JSON over sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant as Moment};

use robinhood_aggregator::{
    Aggregator, AggregatorConfig, DailyView, DeltaSender, DeltasPost, DeltasReceipt, RbcView,
    Reason, ScaleView, ServicesView, SnapshotPoller, SnapshotView, Token,
};
use robinhood_blocking::{
    BatchRecord, Blocker, Collector, CollectorConfig, Delta, Recorder, RecorderConfig, Report,
};
use robinhood_protocol::delta::{write_delta, write_hello};
use robinhood_stats::{Instant, Nanos};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
const TOKEN: &str = "0123456789abcdef";

fn config() -> AggregatorConfig {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    AggregatorConfig { period: Nanos::from_millis(250), ..AggregatorConfig::new(any, any) }
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Moment::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "{what} has not happened");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Status and body.
fn ask(address: SocketAddr, head: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn get<T: serde::de::DeserializeOwned>(aggregator: &Aggregator, path: &str) -> T {
    let (status, body) = ask(aggregator.http_address(), &format!("GET {path}"), "", "");
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

fn recorder(service: &str, sender: u64) -> Recorder {
    let service = service.parse().unwrap();
    Recorder::new(RecorderConfig { service, sender, boot_nonce: 7, ..RecorderConfig::default() })
}

/// 1,000 requests, of which `slow` blocks the slowest 5 %.
fn delta(recorder: &mut Recorder) -> Delta {
    let [fast, slow] = ["fast", "slow"].map(|name| recorder.backend(&name.parse().unwrap()));
    for i in 0..1_000 {
        let (millis, backend) = if i % 20 == 0 { (300, slow) } else { (10, fast) };
        let latency = Nanos::from_millis(millis);
        recorder.record(Report::complete(latency, Blocker::Backend(backend))).unwrap();
        let batch =
            BatchRecord { queries: 2, hits: 1, latency: Some(latency), ..BatchRecord::default() };
        recorder.record_batch(backend, batch);
    }
    recorder.take_delta(Nanos::ZERO)
}

fn requests(aggregator: &Aggregator, service: &str) -> Option<u64> {
    let services: ServicesView = get(aggregator, "/v1/services");
    let found = services.services.into_iter().find(|one| one.service.as_str() == service);
    found.map(|one| one.requests).filter(|&requests| requests > 0)
}

#[test]
fn frames_json_and_lines_of_several_services_come_together_and_are_told_apart() {
    let objective = Some(Nanos::from_millis(150));
    let aggregator = Aggregator::start(AggregatorConfig { objective, ..config() }).unwrap();
    let address = aggregator.frames_address().to_string();
    let sender = DeltaSender::start(&[address], None).unwrap();
    sender.send(&delta(&mut recorder("shop", 1)));
    let post =
        DeltasPost::new(vec![delta(&mut recorder("search", 1)), delta(&mut recorder("search", 2))]);
    let post = serde_json::to_string(&post).unwrap();
    let (status, body) = ask(aggregator.http_address(), "POST /v1/deltas", "", &post);
    let receipt: DeltasReceipt = serde_json::from_str(&body).unwrap();
    assert_eq!((status, receipt.accepted, receipt.refused), (200, 2, 0), "{body}");
    let (status, body) = ask(aggregator.http_address(), "POST /v1/deltas", "", &post);
    let receipt: DeltasReceipt = serde_json::from_str(&body).unwrap();
    assert_eq!((status, receipt.refused), (400, 2), "a repeat counts once");
    assert_eq!(receipt.first_refused.unwrap().reason, "duplicate");
    let line = "{\"latency_ms\": 12.5, \"blocking\": \"ads\"}\n";
    let (status, _) = ask(aggregator.http_address(), "POST /v1/reports?service=lines", "", line);
    assert_eq!(status, 200);

    wait_for("frame", || requests(&aggregator, "shop").filter(|&requests| requests == 1_000));
    wait_for("line", || requests(&aggregator, "lines").filter(|&requests| requests == 1));
    wait_for("deltas", || requests(&aggregator, "search").filter(|&requests| requests == 2_000));
    let rbc: RbcView = get(&aggregator, "/v1/rbc?service=search");
    let share = rbc.backends[&"slow".parse().unwrap()].share;
    assert!(share > 0.99 && (rbc.requests_in_band - 20.0).abs() < 1e-6, "{rbc:?}");
    assert_eq!(rbc.senders, 2);
    // Of 20 requests in the band nobody should scale, of 30 they may; asked at once, the objective is a question of the asker.
    let scale: ScaleView = get(&aggregator, "/v1/scale?service=search&objective_ms=100");
    assert!(!scale.confident && scale.backends.values().all(|&value| value == 0.0), "{scale:?}");
    let daily: DailyView = get(&aggregator, "/v1/daily?service=search");
    assert!(daily.hours.len() <= 2 && daily.day.samples >= 1, "{daily:?}");
    let (_, scraped) = ask(aggregator.http_address(), "GET /metrics", "", "");
    for line in [
        "robinhood_aggregator_refused_total{reason=\"duplicate\"} 2",
        "robinhood_aggregator_deltas_total{service=\"shop\"} 1",
        "# EOF",
    ] {
        assert!(scraped.lines().any(|one| one == line), "{line}: {scraped}");
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(ask(aggregator.http_address(), &format!("GET {path}"), "", "").0, 200);
    }
}

#[test]
fn a_snapshot_is_the_same_at_the_other_end_and_scale_follows_the_share() {
    let aggregator = Aggregator::start(config()).unwrap();
    // What a collector in this process would say of the same deltas.
    let mut local = Collector::new(CollectorConfig::default()).unwrap();
    for sender in 1..=4 {
        let delta =
            Delta { service: "default".parse().unwrap(), ..delta(&mut recorder("shop", sender)) };
        aggregator.services().handle_delta(&delta).unwrap();
        local.handle_delta(Instant(1_000_000_000), &delta).unwrap();
    }
    wait_for("tick", || requests(&aggregator, "default").filter(|&requests| requests == 4_000));
    let view: SnapshotView = get(&aggregator, "/v1/snapshot");
    let mut expected = local.snapshot(Instant(1_000_000_000));
    (expected.at, expected.newest) = (view.snapshot.at, view.snapshot.newest);
    (expected.window, expected.statistics_span) =
        (view.snapshot.window, view.snapshot.statistics_span);
    assert_eq!(view.snapshot, expected);
    let again: SnapshotView = serde_json::from_str(&serde_json::to_string(&view).unwrap()).unwrap();
    assert_eq!(again, view);

    let service = "default".parse().unwrap();
    let poller = SnapshotPoller::start(
        vec!["127.0.0.1:1".to_owned(), aggregator.http_address().to_string()],
        &service,
        None,
        Duration::from_millis(20),
    );
    let poller = poller.unwrap();
    let hour = Instant(3_600_000_000_000);
    let polled = wait_for("poll", || poller.latest(hour));
    assert_eq!((polled.requests, &polled.backends), (4_000, &expected.backends));
    assert!(polled.age(hour).unwrap() >= view.snapshot.age(view.snapshot.at).unwrap());
    assert_eq!(poller.status().source, Some(1), "the first does not answer");
    drop(aggregator);
    wait_for("silence", || poller.status().source.is_none().then_some(()));
    assert!(poller.latest(hour).is_some(), "what is known stays, and gets old");
}

#[test]
fn what_is_refused_is_counted_by_reason_and_moves_nothing() {
    let aggregator = Aggregator::start(config()).unwrap();
    let mut sender = recorder("shop", 1);
    aggregator.services().handle_delta(&delta(&mut sender)).unwrap();
    let before: Option<u64> = wait_for("tick", || requests(&aggregator, "shop").map(Some));
    let refusals = || aggregator.services().refusals();
    let mut frame = Vec::new();
    write_delta(&delta(&mut recorder("shop", 9)), &mut frame).unwrap();
    let mut million = frame.clone();
    let names_at = million.windows(6).position(|bytes| bytes == b"\x02\x04fast").unwrap();
    million.splice(names_at..=names_at, [0xc0, 0x84, 0x3d]);
    let length = u32::try_from(million.len() - 8).unwrap();
    million[4..8].copy_from_slice(&length.to_le_bytes());
    for (bytes, reason) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], Reason::NotAFrame),
        (b"RH\x09\x01", Reason::Version),
        (b"RH\x01\x01\xff\xff\xff\xff", Reason::TooLarge),
        (&million, Reason::TooManyNames),
        (b"RH\x01\x01\x01\x00\x00\x00x", Reason::Undecodable),
    ] {
        let counted = refusals().of(reason);
        let mut stream = TcpStream::connect(aggregator.frames_address()).unwrap();
        stream.write_all(bytes).unwrap();
        wait_for(reason.as_str(), || (refusals().of(reason) > counted).then_some(()));
    }
    let whole = |body: &str| {
        let (status, body) = ask(aggregator.http_address(), "POST /v1/deltas", "", body);
        let receipt: DeltasReceipt = serde_json::from_str(&body).unwrap();
        (status, receipt.first_refused.unwrap().reason)
    };
    let good =
        serde_json::to_string(&DeltasPost::new(vec![delta(&mut recorder("shop", 9))])).unwrap();
    let nan = good.replacen("\"reports\":1000", "\"reports\":NaN", 1);
    assert_eq!(whole(&nan), (400, "not_json".to_owned()));
    let huge = good.replacen("\"queries\":1900", "\"queries\":18446744073709551615", 1);
    assert_eq!(whole(&huge), (400, "malformed".to_owned()));
    let version = good.replacen("delta/1", "delta/2", 1);
    assert_eq!(whole(&version), (400, "version".to_owned()));
    assert_eq!(whole(&" ".repeat(2 << 20)), (413, "too_large".to_owned()));
    let (status, _) = ask(aggregator.http_address(), "GET /v1/rbc?service=none", "", "");
    assert_eq!(status, 404);
    let (status, _) = ask(aggregator.http_address(), "GET /v1/rbc", "origin: http://evil\r\n", "");
    assert_eq!(status, 403);
    let (status, _) =
        ask(aggregator.http_address(), "POST /v1/reports?service=typo", "", "no line\n");
    assert_eq!(status, 400);
    let services: ServicesView = get(&aggregator, "/v1/services");
    assert_eq!(services.services.len(), 1, "{services:?}");
    assert_eq!((services.services[0].deltas, Some(services.services[0].requests)), (1, before));
    // The fifth sender over one connection is one too many.
    let mut stream = TcpStream::connect(aggregator.frames_address()).unwrap();
    let five: Vec<Delta> = (11..16).map(|id| delta(&mut recorder("shop", id))).collect();
    let mut frames = Vec::new();
    five.iter().for_each(|delta| write_delta(delta, &mut frames).unwrap());
    stream.write_all(&frames).unwrap();
    wait_for("sender", || (refusals().of(Reason::ConnectionSenders) == 1).then_some(()));
    assert_eq!(aggregator.services().accepted(), 5);
    // The seventeenth service is one too many.
    for number in 0..16 {
        let delta = delta(&mut recorder(&format!("s{number}"), 1));
        assert_eq!(aggregator.services().handle_delta(&delta).is_ok(), number < 15);
    }
    assert_eq!(refusals().of(Reason::TooManyServices), 1);
}

#[test]
fn without_the_token_nobody_sends_or_asks() {
    let token = Token::new(TOKEN);
    let aggregator =
        Aggregator::start(AggregatorConfig { token: token.clone(), ..config() }).unwrap();
    let address = aggregator.frames_address();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut hello = Vec::new();
    write_hello(b"0123456789abcdeX", &mut hello).unwrap();
    stream.write_all(&hello).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.contains("a token is needed"), "{said}");

    // Without the token nobody leaves bytes of a delta here.
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"RH\x01\x01").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.contains("a token is needed"), "{said}");

    let mut counting = recorder("shop", 1);
    let without = DeltaSender::start(&[address.to_string()], None).unwrap();
    wait_for("a refusal that the sender tells", || {
        without.send(&delta(&mut counting));
        without.status()[0].error.clone().filter(|error| error.contains("token"))
    });
    let with = DeltaSender::start(&[address.to_string()], token.as_ref()).unwrap();
    with.send(&delta(&mut counting));
    let http = aggregator.http_address();
    for (headers, status) in [
        ("", 401),
        ("authorization: Bearer 0123456789abcdeX\r\n", 401),
        ("authorization: Basic 0123456789abcdef\r\n", 401),
        ("authorization: Bearer 0123456789abcdef\r\n", 200),
    ] {
        assert_eq!(ask(http, "GET /v1/services", headers, "").0, status, "{headers}");
    }
    assert_eq!(ask(http, "GET /livez", "", "").0, 200);
    let service = "shop".parse().unwrap();
    let poller = SnapshotPoller::start(
        vec![http.to_string()],
        &service,
        token.as_ref(),
        Duration::from_millis(20),
    );
    let poller = poller.unwrap();
    wait_for("poll", || {
        poller.latest(Instant(3_600_000_000_000)).filter(|seen| seen.requests == 1_000)
    });

    let open = AggregatorConfig { listen: SocketAddr::from(([0, 0, 0, 0], 0)), ..config() };
    let error = Aggregator::start(open).unwrap_err().to_string();
    assert!(error.contains("token_file"), "{error}");
}

#[test]
fn connections_are_bounded_and_silent_ones_end() {
    let aggregator = Aggregator::start(AggregatorConfig {
        connections_max: 2,
        idle_timeout: Duration::from_millis(300),
        ..config()
    });
    let aggregator = aggregator.unwrap();
    let refusals = || aggregator.services().refusals();
    let heard = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    };
    wait_for("a refusal", || {
        // The first two may have ended before the third came, on a busy machine.
        let three = [(); 3].map(|()| TcpStream::connect(aggregator.frames_address()).unwrap());
        let said = three.map(heard);
        said.iter().any(|said| said.contains("too many connections")).then_some(())
    });
    assert!(refusals().of(Reason::TooManyConnections) > 0);
    wait_for("idle", || (refusals().of(Reason::Idle) >= 2).then_some(()));
    // Bytes of a request that come one by one buy no time.
    let mut slow = TcpStream::connect(aggregator.http_address()).unwrap();
    slow.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    slow.write_all(b"GET /livez HTTP/1.1\r\nx: ").unwrap();
    wait_for("the end of a slow request", || {
        let ended = slow.write_all(b"x").is_err() || slow.read(&mut [0; 64]).is_ok_and(|n| n == 0);
        ended.then_some(())
    });
    let sender = DeltaSender::start(&[aggregator.frames_address().to_string()], None).unwrap();
    let mut counting = recorder("shop", 1);
    wait_for("a place", || {
        sender.send(&delta(&mut counting));
        requests(&aggregator, "shop")
    });
}
