//! Clients against real servers on loopback: everything that comes due is accounted for, whatever the server does.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use robinhood_load_tester::engine::busy::Doing;
use robinhood_load_tester::engine::client::{ClientConfig, Ended, Source};
use robinhood_load_tester::protocol::{
    Answer, Asked, Garbage, Kind, Limits, Protocol, Request, Transport,
};
use robinhood_load_tester::protocols::null::Null;
use robinhood_load_tester::run::{ClientReport, ClientSetup, Run, RunError, WarmUp};
use robinhood_load_tester::{NullServer, NullServerConfig, Priority, Speaks, Target};
use robinhood_stats::{Instant, Nanos};

struct Calls;

impl Source for Calls {
    fn next(&mut self, index: u64) -> Request<'_> {
        Request { index, kind: Kind::Call, key: b"", value: b"" }
    }
}

/// A client that sends one request every `gap`.
fn client(transport: Transport, gap: Nanos, config: ClientConfig) -> ClientSetup {
    ClientSetup {
        protocol: Box::new(Null::new(transport)),
        source: Box::new(Calls),
        due_times: Box::new((1..).map(move |step| Instant(gap.0 * step))),
        cpu: None,
        config,
    }
}

fn run(
    target: impl Into<Target>,
    clients: Vec<ClientSetup>,
) -> Result<Vec<ClientReport>, RunError> {
    let (warm_up, duration) = (Nanos::from_millis(50), Nanos::from_millis(200));
    let warm_up = WarmUp::Fixed(warm_up);
    let run = Run {
        target: target.into(),
        clients,
        priority: Priority::Usual,
        warm_up,
        duration,
        start_at: None,
    };
    run.execute(&AtomicBool::new(false), |_| {}).map(|report| report.clients)
}

fn null_server(transport: Transport, service: Nanos) -> NullServer {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0)).into();
    let config = NullServerConfig {
        listen,
        speaks: Speaks::Frames,
        transport,
        service,
        servers: 1,
        spin: false,
        cpu: None,
    };
    NullServer::start(config).expect("a free port")
}

/// A server that handles each connection with a function, on its own thread.
fn odd_server(handle: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            std::thread::spawn(move || handle(stream));
        }
    });
    address
}

const GAP: Nanos = Nanos::from_micros(100);

#[test]
fn every_request_that_was_due_is_answered_and_timed() {
    let (tcp, udp) = (Transport::Tcp, Transport::Udp);
    // Few datagrams: a machine that stops for a while must not lose any.
    let slow = Nanos::from_millis(1);
    for (transport, pipelined, gap) in [(tcp, false, GAP), (tcp, true, GAP), (udp, false, slow)] {
        let server = null_server(transport, Nanos::ZERO);
        let config = ClientConfig { pipelined, records_max: 100, ..ClientConfig::default() };
        let reports = run(server.address(), vec![client(transport, gap, config)]).unwrap();
        let outcome = &reports[0].outcome;
        let counts = outcome.account.counts;
        assert_eq!(outcome.ended, Ended::Complete, "{counts:?}");
        let due = 200_000_000 / gap.0;
        assert_eq!((counts.scheduled, counts.completed), (due, due), "{transport:?} {counts:?}");
        let with_warm_up = 250_000_000 / gap.0 - 1; // the first is due after one gap
        assert_eq!(server.frames(), with_warm_up);
        let account = &outcome.account;
        assert_eq!(account.latency.count(), due);
        let parts = account.timer_lateness.count() + account.queue_lateness.count();
        assert_eq!(parts, account.lateness.count());
        // From the due time = lateness + from the send, request by request, hence in their sums.
        assert_eq!(account.latency.sum(), account.lateness.sum() + account.service.sum());
        assert_eq!(outcome.records.len(), 100);
        for record in &outcome.records {
            assert!(record.due <= record.sent && record.sent <= record.received, "{record:?}");
            assert_eq!(record.request_end_bytes % 16, 0);
        }
    }
}

#[test]
fn a_planted_delay_is_in_every_time_of_an_answer() {
    let server = null_server(Transport::Tcp, Nanos::ZERO);
    let planted_delay = Nanos::from_micros(500);
    let config = ClientConfig { planted_delay, ..ClientConfig::default() };
    let slow = Nanos::from_millis(2);
    let reports = run(server.address(), vec![client(Transport::Tcp, slow, config)]).unwrap();
    let account = &reports[0].outcome.account;
    assert_eq!(account.counts.completed, 100, "{:?}", account.counts);
    assert!(account.service.min().unwrap() >= planted_delay.0, "{:?}", account.service.min());
}

#[test]
fn a_unix_socket_is_a_target_too() {
    let folder = tempfile::tempdir().unwrap();
    let server = NullServer::start(NullServerConfig {
        listen: Target::Unix(folder.path().join("null.sock")),
        speaks: Speaks::Frames,
        transport: Transport::Tcp,
        service: Nanos::ZERO,
        servers: 1,
        spin: false,
        cpu: None,
    })
    .unwrap();
    let clients = vec![client(Transport::Tcp, GAP, ClientConfig::default())];
    let reports = run(server.target().clone(), clients).unwrap();
    assert_eq!(reports[0].outcome.account.counts.completed, 2_000);
}

#[test]
fn a_client_that_never_sleeps_watches_what_the_machine_takes_from_it() {
    let server = null_server(Transport::Tcp, Nanos::ZERO);
    let outcome = |spin_max, gap| {
        let config = ClientConfig { spin_max, ..ClientConfig::default() };
        let mut reports = run(server.address(), vec![client(Transport::Tcp, gap, config)]).unwrap();
        let outcome = reports.remove(0).outcome;
        let due = 200_000_000 / gap.0;
        assert_eq!(outcome.account.counts.completed, due, "{:?}", outcome.account.counts);
        outcome
    };
    let spinning = outcome(Nanos::MAX, Nanos::from_millis(10));
    assert_eq!(spinning.busy.time(Doing::Sleep), Nanos::ZERO);
    assert!(spinning.interruptions.watched > Nanos::ZERO, "{:?}", spinning.interruptions);
    // So rare that even a client of a busy machine has time to sleep between them.
    let sleeping = outcome(Nanos::ZERO, Nanos::from_millis(100));
    assert!(sleeping.busy.time(Doing::Sleep) > Nanos::ZERO);
}

#[test]
fn the_kernel_tells_when_packets_left_and_came() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let server = null_server(transport, Nanos::from_millis(2));
        let config =
            ClientConfig { kernel_stamps: true, records_max: 1_000, ..ClientConfig::default() };
        let gap = Nanos::from_millis(1);
        let reports = run(server.address(), vec![client(transport, gap, config)]).unwrap();
        let account = &reports[0].outcome.account;
        assert_eq!(account.counts.completed, 200, "{:?}", account.counts);
        // A packet of its own for nearly every request, when the machine is not busy: the system may merge some.
        assert!(account.kernel_service.count() > 0, "{:?}", account.kernel_service.count());
        for record in &reports[0].outcome.records {
            let Some(by_kernel) = record.kernel_service else { continue };
            let ours = record.received.since(record.sent);
            assert!(by_kernel <= ours, "the kernel's moments lie inside ours: {record:?}");
            assert!(transport == Transport::Udp || by_kernel >= Nanos::from_millis(2));
        }
    }
}

#[test]
fn clients_have_their_own_accounts_and_slots_cover_the_run() {
    let server = null_server(Transport::Tcp, Nanos::ZERO);
    let config = ClientConfig { slot: Nanos::from_millis(10), ..ClientConfig::default() };
    let clients = (0..3).map(|_| client(Transport::Tcp, GAP, config)).collect();
    let reports = run(server.address(), clients).unwrap();
    for report in &reports {
        assert_eq!(report.outcome.account.counts.completed, 2_000);
        let slots = report.course.slots();
        assert_eq!(slots.iter().map(|slot| slot.sent).sum::<u64>(), 2_499);
        assert!(slots.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(
            slots.iter().all(|slot| slot.start.since(report.course.origin()).0 % 10_000_000 == 0)
        );
    }
}

#[test]
fn a_run_of_many_slots_keeps_a_bounded_number_and_all_requests() {
    let server = null_server(Transport::Tcp, Nanos::ZERO);
    let config = ClientConfig { slot: Nanos::from_millis(1), ..ClientConfig::default() };
    let slow = Nanos::from_micros(500);
    let run = Run {
        target: server.target().clone(),
        clients: (0..2).map(|_| client(Transport::Tcp, slow, config)).collect(),
        priority: Priority::Usual,
        warm_up: WarmUp::Fixed(Nanos::ZERO),
        duration: Nanos::from_secs(1),
        start_at: None,
    };
    let report = run.execute(&AtomicBool::new(false), |_| {}).unwrap();
    for client in &report.clients {
        assert!(client.course.slots().len() <= 600, "{}", client.course.slots().len());
    }
    let together = report.course();
    assert!(together.slots().len() <= 600);
    assert_eq!(together.slots().iter().map(|slot| slot.sent).sum::<u64>(), 2 * 1_999);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let error = run(free, vec![client(Transport::Tcp, GAP, ClientConfig::default())]).unwrap_err();
    assert!(error.to_string().contains(&free.to_string()), "{error}");
}

#[test]
fn a_server_that_never_answers_costs_the_timeout_and_no_more() {
    let address = odd_server(|mut stream| {
        let mut bytes = [0; 4_096];
        while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
    });
    let config = ClientConfig { timeout: Nanos::from_millis(30), ..ClientConfig::default() };
    let reports = run(address, vec![client(Transport::Tcp, GAP, config)]).unwrap();
    let account = &reports[0].outcome.account;
    assert_eq!((account.counts.timed_out, account.counts.completed), (2_000, 0));
    assert_eq!(account.unanswered(), 2_000);
}

#[test]
fn requests_beyond_the_bound_are_refused_and_counted() {
    let address = odd_server(|mut stream| {
        let mut bytes = [0; 4_096];
        while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
    });
    let config = ClientConfig { in_flight_max: 10, ..ClientConfig::default() };
    let reports = run(address, vec![client(Transport::Tcp, GAP, config)]).unwrap();
    let counts = reports[0].outcome.account.counts;
    assert_eq!(counts.scheduled, 2_000);
    assert_eq!(counts.refused, 2_000, "ten of the warm-up hold all places: {counts:?}");
}

#[test]
fn a_server_that_closes_or_sends_garbage_ends_the_run_with_the_reason() {
    let closing = odd_server(drop);
    let garbage = odd_server(|mut stream| {
        let mut bytes = [0; 64];
        // Reads on: closing with unread bytes would throw the answer away.
        while stream.read(&mut bytes).is_ok_and(|count| count > 0) {
            _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    for (address, expected) in [(closing, "lost before their first answer"), (garbage, "HTTP/1.1")]
    {
        // It ends with the first answer, however late a busy machine lets that come.
        let run = Run {
            target: address.into(),
            clients: vec![client(Transport::Tcp, GAP, ClientConfig::default())],
            priority: Priority::Usual,
            warm_up: WarmUp::Fixed(Nanos::ZERO),
            duration: Nanos::from_secs(60),
            start_at: None,
        };
        let reports = run.execute(&AtomicBool::new(false), |_| {}).unwrap().clients;
        let outcome = &reports[0].outcome;
        let Ended::Aborted(reason) = &outcome.ended else { panic!("{:?}", outcome.ended) };
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn a_server_that_closes_after_some_answers_is_met_again_and_again() {
    // Ten frames a connection, then the end.
    let address = odd_server(|mut stream| {
        let mut frame = [0; 16];
        for _ in 0..10 {
            if stream.read_exact(&mut frame).and_then(|()| stream.write_all(&frame)).is_err() {
                return;
            }
        }
    });
    let reports = run(address, vec![client(Transport::Tcp, GAP, ClientConfig::default())]).unwrap();
    let outcome = &reports[0].outcome;
    let counts = outcome.account.counts;
    assert_eq!(outcome.ended, Ended::Complete, "{counts:?}");
    assert!(outcome.lost_connections > 8, "{outcome:?}");
    assert!(
        counts.scheduled == 2_000
            && counts.completed + counts.failed + counts.refused + counts.unsent == 2_000,
        "{counts:?}"
    );
}

/// The null protocol with one request at a time on a connection.
struct OneByOne(Null);

impl Protocol for OneByOne {
    fn name(&self) -> &'static str {
        "one by one"
    }
    fn depth_max(&self) -> usize {
        1
    }
    fn limits(&self) -> Limits {
        self.0.limits()
    }
    fn encode(&mut self, request: &Request<'_>, out: &mut Vec<u8>) {
        self.0.encode(request, out);
    }
    fn decode(&mut self, asked: Asked, bytes: &[u8]) -> Result<Option<Answer>, Garbage> {
        self.0.decode(asked, bytes)
    }
}

#[test]
fn requests_without_a_free_connection_wait_and_their_latency_counts_on() {
    // One millisecond each, one connection, due every 100 us: request n waits 0.9 n ms.
    let server = null_server(Transport::Tcp, Nanos::from_millis(1));
    let config =
        ClientConfig { connections: 1, timeout: Nanos::from_secs(20), ..ClientConfig::default() };
    let mut setup = client(Transport::Tcp, GAP, config);
    setup.protocol = Box::new(OneByOne(Null::new(Transport::Tcp)));
    setup.due_times = Box::new((1..=500).map(|step| Instant(GAP.0 * step + 50_000_000)));
    let reports = run(server.address(), vec![setup]).unwrap();
    let account = &reports[0].outcome.account;
    assert_eq!(account.counts.completed, 500, "{:?}", account.counts);
    // Lower bounds only: a busy machine makes everything later.
    assert!(account.latency.max().unwrap() > 440_000_000, "{:?}", account.latency.max());
    assert!(account.service.min().unwrap() >= 1_000_000, "{:?}", account.service.min());
}

#[test]
fn a_run_that_is_stopped_keeps_what_was_measured() {
    let server = null_server(Transport::Tcp, Nanos::ZERO);
    let stop = AtomicBool::new(false);
    let run = Run {
        target: server.target().clone(),
        clients: vec![client(Transport::Tcp, GAP, ClientConfig::default())],
        priority: Priority::Usual,
        warm_up: WarmUp::Fixed(Nanos::ZERO),
        duration: Nanos::from_secs(3_600),
        start_at: None,
    };
    let mut sent = 0;
    let reports = run
        .execute(&stop, |progress| {
            sent += progress.slots.iter().map(|slot| slot.sent).sum::<u64>();
            if sent > 100 && progress.elapsed > Nanos::from_millis(100) {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        })
        .unwrap()
        .clients;
    let outcome = &reports[0].outcome;
    assert_eq!(outcome.ended, Ended::Stopped);
    assert!(outcome.account.counts.completed > 100, "{:?}", outcome.account.counts);
}

#[test]
fn an_appointed_start_is_kept_or_refused() {
    let server = null_server(Transport::Tcp, Nanos::ZERO);
    let run_at = |start_at: SystemTime| {
        let run = Run {
            target: server.target().clone(),
            clients: vec![client(Transport::Tcp, GAP, ClientConfig::default())],
            priority: Priority::Usual,
            warm_up: WarmUp::Fixed(Nanos::ZERO),
            duration: Nanos::from_millis(50),
            start_at: Some(start_at),
        };
        run.execute(&AtomicBool::new(false), |_| {})
    };
    let moment = SystemTime::now() + Duration::from_millis(700);
    let report = run_at(moment).expect("there is time to connect");
    assert_eq!(report.started_at, moment);
    assert!(report.clients[0].outcome.account.counts.completed > 0);
    assert!(SystemTime::now() >= moment + Duration::from_millis(50), "it began before");
    let late = run_at(moment).expect_err("that moment is over");
    assert!(matches!(late, RunError::StartPassed { .. }), "{late}");
}
