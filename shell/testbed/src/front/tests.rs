//! Clients over TCP against a stack: the load tester, and clients that misbehave.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant as WallInstant;

use robinhood_controller::{Mode, PolicyKind};
use robinhood_load_tester::engine::client::{ClientConfig, Ended};
use robinhood_load_tester::protocols::app::App;
use robinhood_load_tester::run::{ClientSetup, Run, WarmUp};
use robinhood_load_tester::sources::trace::TraceLines;
use robinhood_load_tester::{Priority, RunClock};
use robinhood_stats::{BackendId, Bytes, Instant, Nanos};
use robinhood_workload::presets;

use super::connection::{LINE_BYTES_MAX, REQUESTS_MAX};
use super::*;
use crate::dataset::Dataset;
use crate::stack::{CacheKind, ColdStack, StackConfig, StackKind};

const PATIENCE: Duration = Duration::from_secs(30);
const SESSIONS: BackendId = BackendId(0);

/// The demo's stack with fast backends and this many keys each.
fn front(keys: u32, client_timeout: Nanos) -> Front {
    let mut workload = presets::demo(Nanos::from_secs(60));
    for backend in &mut workload.backends {
        backend.catalogue = keys;
        backend.service = Nanos::from_micros(100);
        backend.timeout = client_timeout;
    }
    let config = StackConfig {
        name: "test".to_owned(),
        kind: StackKind::of(PolicyKind::Robinhood, Mode::Active),
        cache: CacheKind::Process,
        budget: Bytes::from_mib(4),
        time_scale: 10.0,
        queue_max: 10_000,
    };
    let stack = ColdStack::new(config, Dataset::generate(workload, 1).unwrap()).unwrap();
    let stack = stack.start(1.0, RunClock::start(), Instant::ZERO).unwrap();
    let listener = Front::bind(([127, 0, 0, 1], 0).into()).unwrap();
    Front::open(Arc::new(stack), listener).unwrap()
}

fn small() -> Front {
    front(500, Nanos::from_secs(20))
}

/// A client that sees a hang as an error.
struct Caller {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
}

type TcpStream = std::net::TcpStream;

impl Caller {
    fn to(front: &Front) -> Self {
        let stream = TcpStream::connect(front.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let answers = BufReader::new(stream.try_clone().unwrap());
        Self { stream, answers }
    }

    fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// The next answer; empty at the end of the connection.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line
    }
}

/// A line for one key of a backend.
fn line(backend: &str, key: u32) -> String {
    format!("{{\"t\": 0, \"d\": [{{\"{backend}\": {{\"S\":[1],\"U\":[\"{key}\"],\"C\":[1]}}}}]}}\n")
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = WallInstant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn in_flight(front: &Front) -> u64 {
    front.stack().view().requests.unfinished
}

#[test]
fn the_load_tester_gets_an_answer_to_every_request_of_a_trace_and_both_sides_count_the_same() {
    const REQUESTS: u64 = 2_000;
    let front = front(100_000, Nanos::from_secs(20));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/traces/sample.jsonl");
    let trace = BufReader::new(File::open(path).unwrap());
    let lines = TraceLines::read(trace, "sample.jsonl", false).unwrap();
    let due = |step| Instant(step * 500_000);
    let client = ClientSetup {
        protocol: Box::new(App),
        source: Box::new(lines.source(0, 1)),
        due_times: Box::new((0..REQUESTS).map(due)),
        cpu: None,
        config: ClientConfig {
            connections: 4,
            timeout: Nanos::from_secs(30),
            sleep_for_answers: true,
            ..ClientConfig::default()
        },
    };
    let run = Run {
        target: front.address().into(),
        clients: vec![client],
        priority: Priority::Usual,
        warm_up: WarmUp::Fixed(Nanos::ZERO),
        duration: Nanos::from_secs(60), // due times end before
        start_at: None,
    };
    let report = run.execute(&AtomicBool::new(false), |_| {}).unwrap();
    let outcome = &report.clients[0].outcome;
    let counts = outcome.account.counts;
    assert_eq!(outcome.ended, Ended::Complete, "{counts:?}");
    assert_eq!((counts.scheduled, counts.completed), (REQUESTS, REQUESTS), "{counts:?}");
    front.stack().settle();
    let view = front.stack().view();
    assert_eq!((view.requests.sent, view.requests.completed), (REQUESTS, REQUESTS));
    let served = front.counts();
    assert_eq!((served.accepted, served.not_served, served.turned_away), (4, 0, 0));
    assert_eq!(view.queries.answered, view.queries.asked);
    let hits: u64 = view.backends.iter().map(|backend| backend.totals.hits).sum();
    assert!(hits > view.queries.asked / 2, "{hits} hits: the sample has 100 requests");
    assert!(lines.note(REQUESTS).unwrap().contains("begins it again 19 times"));
}

#[test]
fn an_answer_has_the_queries_of_its_request_and_the_misses_among_them() {
    let front = small();
    let mut caller = Caller::to(&front);
    let text = r#"{"t":1,"d":[{"sessions":{"S":[1,1,1],"U":["1","2","1"],"C":[1,1,1]},"prices":{"S":[1],"U":["3"],"C":[0]}},{"history":{"S":[1],"U":["9"],"C":[1]}}]}"#;
    let mut misses = 0;
    // Twice the same key of a batch is fetched once; what may not be cached is fetched again.
    for expected in [4, 1, 1] {
        caller.send(&format!("{text}\r\n"));
        assert_eq!(
            caller.answer(),
            format!("{{\"ok\":true,\"queries\":5,\"misses\":{expected}}}\n")
        );
        misses += expected;
    }
    let fetched: u64 = front.stack().view().backends.iter().map(|b| b.servers.keys).sum();
    assert_eq!(fetched, misses);
    caller.send("{\"d\":[]}\n");
    assert_eq!(caller.answer(), "{\"ok\":true,\"queries\":0,\"misses\":0}\n");
}

#[test]
fn bad_lines_are_answered_in_their_place_and_the_connection_goes_on() {
    let front = small();
    let mut caller = Caller::to(&front);
    let cases = [
        ("\n", "not JSON"),
        ("GET / HTTP/1.1\r\n", "not JSON"),
        ("{\"t\": 0}\n", "`d`"),
        ("{\"d\":[{\"sessions\":{\"S\":[1,2],\"U\":[\"1\"],\"C\":[1]}}]}\n", "`S` has 2 entries"),
        (&line("basket", 1), "no backend `basket`, only sessions, products"),
        (&line("sessions", 500), "no key `500`: its keys are the numbers from 0 to 499"),
    ];
    for (bad, _) in &cases {
        caller.send(&line("sessions", 1));
        caller.send(bad);
    }
    for (bad, reason) in &cases {
        assert!(caller.answer().starts_with("{\"ok\":true,\"queries\":1,"), "{bad}");
        let answer = caller.answer();
        let error: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert!(error["error"].as_str().unwrap().contains(reason), "{bad}: {answer}");
    }
    let long_name = "x".repeat(100_000);
    caller.send(&format!("{{\"{long_name}\": 1}}\n"));
    assert!(caller.answer().len() < 1_000, "an error does not quote without end");
    let counts = front.counts();
    assert_eq!((counts.not_served, front.stack().view().requests.completed), (7, 6));
}

#[test]
fn requests_of_a_connection_are_served_at_once_and_answered_in_order() {
    let front = small();
    front.stack().application().set_hung(SESSIONS, true);
    let mut caller = Caller::to(&front);
    caller.send(&line("sessions", 1));
    let two = line("products", 1).replace("[1]", "[1,1]").replace("\"1\"", "\"1\",\"2\"");
    caller.send(&two);
    until("the second is served while the first hangs", || {
        front.stack().view().requests.completed == 1
    });
    front.stack().application().set_hung(SESSIONS, false);
    assert!(caller.answer().contains("\"queries\":1"));
    assert!(caller.answer().contains("\"queries\":2"));
}

#[test]
fn a_connection_with_too_many_requests_in_flight_is_not_read_from() {
    let front = small();
    front.stack().application().set_hung(SESSIONS, true);
    let mut caller = Caller::to(&front);
    let more = REQUESTS_MAX + 100;
    for _ in 0..more {
        caller.send(&line("sessions", 1));
    }
    until("as many as allowed", || in_flight(&front) == REQUESTS_MAX as u64);
    std::thread::sleep(Duration::from_millis(50)); // time to go wrong
    assert_eq!(in_flight(&front), REQUESTS_MAX as u64);
    front.stack().application().set_hung(SESSIONS, false);
    for number in 0..more {
        assert!(caller.answer().starts_with("{\"ok\":true"), "{number}");
    }
}

#[test]
fn a_client_that_sends_its_last_request_and_closes_its_side_gets_all_answers() {
    let front = small();
    let mut caller = Caller::to(&front);
    caller.send(&format!("{}{}{{\"d\":", line("prices", 1), line("prices", 2)));
    caller.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut all = String::new();
    caller.answers.read_to_string(&mut all).unwrap();
    assert_eq!(all.lines().count(), 2, "a line that was cut off is no request: {all}");
}

#[test]
fn a_client_that_goes_away_in_the_middle_leaves_nothing_behind() {
    let front = small();
    front.stack().application().set_hung(SESSIONS, true);
    for _ in 0..3 {
        let mut caller = Caller::to(&front);
        for key in 0..50 {
            caller.send(&line("sessions", key));
        }
        caller.send("{\"t\": 0, \"d\": [{\"ses");
    }
    until("all requests are begun", || in_flight(&front) == 150);
    front.stack().application().set_hung(SESSIONS, false);
    until("all connections are free", || front.counts().connections == 0);
    until("no request is left", || in_flight(&front) == 0);
    let view = front.stack().view();
    assert_eq!((view.requests.completed, view.queries.unfinished), (150, 0));
    assert_eq!(front.counts().not_served, 0, "a line that was cut off is nobody's mistake");
}

#[test]
fn a_query_that_times_out_is_an_error_and_the_next_request_is_served() {
    let front = front(500, Nanos::from_millis(100));
    front.stack().application().set_hung(SESSIONS, true);
    let mut caller = Caller::to(&front);
    caller.send(&line("sessions", 1));
    caller.send(&line("prices", 1));
    assert_eq!(caller.answer(), "{\"error\":\"a query timed out\"}\n");
    assert!(caller.answer().starts_with("{\"ok\":true"));
}

#[test]
fn a_line_without_end_closes_its_connection_with_the_reason() {
    let front = small();
    let mut caller = Caller::to(&front);
    caller.send(&line("prices", 1));
    caller.send(&" ".repeat(LINE_BYTES_MAX + 1_000_000));
    assert!(caller.answer().starts_with("{\"ok\":true"));
    assert!(caller.answer().contains("a line of more than 1048576 bytes"));
    assert_eq!(caller.answer(), "", "the end");
    let mut other = Caller::to(&front);
    let text = line("prices", 1);
    other.send(&format!("{}{text}", " ".repeat(LINE_BYTES_MAX - text.len())));
    assert!(other.answer().starts_with("{\"ok\":true"), "the longest line is served");
}

#[test]
fn connections_beyond_the_bound_are_turned_away_until_others_end() {
    let front = small();
    let open: Vec<Caller> = (0..CONNECTIONS_MAX).map(|_| Caller::to(&front)).collect();
    until("all are taken", || front.counts().connections == CONNECTIONS_MAX);
    let mut refused = Caller::to(&front);
    assert_eq!(refused.answer(), "{\"error\":\"256 connections are open\"}\n");
    assert_eq!(refused.answer(), "");
    drop(open);
    until("all are free", || front.counts().connections == 0);
    let mut caller = Caller::to(&front);
    caller.send(&line("prices", 1));
    assert!(caller.answer().starts_with("{\"ok\":true"));
    assert_eq!(front.counts().turned_away, 1);
}

#[test]
fn a_front_that_goes_away_closes_its_connections_and_frees_its_address() {
    let front = small();
    let mut caller = Caller::to(&front);
    caller.send(&line("prices", 1));
    assert!(caller.answer().starts_with("{\"ok\":true"));
    let address = front.address();
    drop(front);
    assert_eq!(caller.answer(), "", "the end");
    assert!(TcpStream::connect(address).is_err());
}
