//! Our times against those of a capture, on loopback. Skipped with a message where `tcpdump` is missing or not permitted.
#![cfg(target_os = "linux")]

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use robinhood_load_tester::engine::client::{ClientConfig, Source};
use robinhood_load_tester::protocol::{Kind, Request, Transport};
use robinhood_load_tester::protocols::null::Null;
use robinhood_load_tester::run::{ClientSetup, Run, WarmUp};
use robinhood_load_tester::verify::capture::{CaptureConfig, CaptureError};
use robinhood_load_tester::verify::offsets::{Clocking, Offsets};
use robinhood_load_tester::verify::{Measured, Sides, VerifyError, measure};
use robinhood_load_tester::{NullServer, NullServerConfig, Priority, Speaks};
use robinhood_stats::{Bytes, Instant, Nanos};

struct Calls;

impl Source for Calls {
    fn next(&mut self, index: u64) -> Request<'_> {
        Request { index, kind: Kind::Call, key: b"", value: b"" }
    }
}

const DURATION: Nanos = Nanos::from_secs(1);

fn run(server: &NullServer, gap: Nanos, planted_delay: Nanos) -> Run {
    let timeout = Nanos::from_secs(60); // also on a machine that is busy with other things
    let config =
        ClientConfig { planted_delay, timeout, records_max: 20_000, ..ClientConfig::default() };
    Run {
        target: server.target().clone(),
        clients: vec![ClientSetup {
            protocol: Box::new(Null::new(Transport::Tcp)),
            source: Box::new(Calls),
            due_times: Box::new((1..).map(move |step| Instant(gap.0 * step))),
            cpu: None,
            config,
        }],
        priority: Priority::Usual,
        warm_up: WarmUp::Fixed(Nanos::from_millis(50)),
        duration: DURATION,
        start_at: None,
    }
}

fn null_server() -> NullServer {
    NullServer::start(NullServerConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)).into(),
        speaks: Speaks::Frames,
        transport: Transport::Tcp,
        service: Nanos::ZERO,
        servers: 1,
        spin: false,
        cpu: None,
    })
    .expect("a free port")
}

fn capture(server: &NullServer, ring: Bytes) -> CaptureConfig {
    CaptureConfig { ring, ..CaptureConfig::new(server.address().port()) }
}

/// `None`, with a message, where nobody may capture.
fn permitted(result: Result<Measured, VerifyError>) -> Option<Result<Measured, VerifyError>> {
    use CaptureError::{Missing, NotPermitted};
    match result {
        Err(VerifyError::Capture(error @ (Missing { .. } | NotPermitted { .. }))) => {
            eprintln!("skipped: {error}");
            None
        }
        result => Some(result),
    }
}

#[test]
fn every_request_is_in_the_capture_and_a_planted_delay_is_found() {
    let server = null_server();
    let config = capture(&server, Bytes::from_mib(64));
    let measure = |planted| {
        let run = run(&server, Nanos::from_millis(5), planted);
        permitted(measure(run, &config, 250, &AtomicBool::new(false), |_| {}))
    };
    let Some(plain) = measure(Nanos::ZERO) else { return };
    let planted = Nanos::from_millis(2);
    let runs = [plain, measure(planted).expect("it was permitted")];
    let [plain, delayed] = runs.map(|measured| {
        let measured = measured.unwrap();
        assert_eq!(measured.samples.len(), 200);
        let in_order = |sample: &robinhood_load_tester::verify::offsets::Sample| {
            sample.due <= sample.sent && sample.request_on_wire < sample.answer_on_wire
        };
        assert!(measured.samples.iter().all(in_order));
        let sides = Sides::of(&measured);
        assert_eq!((sides.disordered, sides.send.count()), (0, 200));
        Offsets::estimate(&measured.samples, Clocking::Send, [0.0; 4], 1).unwrap()
    });
    let found = delayed.less(&plain)[0];
    assert!(found.ns >= 1.9e6 && found.high_ns >= planted.0 as f64, "{found:?}");
}

#[test]
fn a_capture_that_lost_packets_is_refused() {
    let server = null_server();
    // Two blocks of a ring, some 650 requests; 10,000 come.
    let config = capture(&server, Bytes::from_kib(512));
    let run = run(&server, Nanos::from_micros(100), Nanos::ZERO);
    let stop = AtomicBool::new(false);
    let Some(result) = permitted(measure(run, &config, 100, &stop, |_| {})) else { return };
    let error = result.unwrap_err();
    let dropped = matches!(&error, VerifyError::Capture(CaptureError::Dropped { .. }));
    assert!(dropped, "{error}");
}

#[test]
fn what_cannot_be_captured_is_refused_before_anything_is_sent() {
    let server = null_server();
    let gap = Nanos::from_millis(1);
    let refused = |config: &CaptureConfig, change: fn(&mut Run), requests| {
        let mut run = run(&server, gap, Nanos::ZERO);
        change(&mut run);
        let stop = AtomicBool::new(false);
        measure(run, config, requests, &stop, |_| {}).unwrap_err().to_string()
    };
    let ring = capture(&server, Bytes::from_mib(1));
    let too_long = refused(&ring, |_| {}, 1_000_000);
    assert!(too_long.contains("954 MiB; it has 1 MiB, for 1048 requests"), "{too_long}");
    let missing = CaptureConfig { tcpdump: "/no/such/tcpdump".into(), ..ring.clone() };
    let missing = refused(&missing, |_| {}, 100);
    assert!(missing.contains("Debian package `tcpdump`"), "{missing}");
    let far = refused(&ring, |run| run.target = SocketAddr::from(([192, 0, 2, 1], 80)).into(), 100);
    assert!(far.contains("not on loopback"), "{far}");
    let datagrams = |run: &mut Run| {
        run.clients[0].protocol = Box::new(Null::new(Transport::Udp));
    };
    let datagrams = refused(&ring, datagrams, 100);
    assert!(datagrams.contains("UDP"), "{datagrams}");
    assert_eq!(server.frames(), 0);
}
