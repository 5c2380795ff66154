//! The API over real connections: documents, events, commands, refusals, bounds, the end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::synthetic::Synthetic;
use robinhood_controller::Mode;
use robinhood_dashboard::{
    Action, CLIENTS_MAX, CONNECTIONS_MAX, Command, Dashboard, DashboardConfig, DashboardError,
    Message, SCHEMA,
};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(20);

fn dashboard(backends: usize) -> (Arc<Synthetic>, Dashboard) {
    let source = Arc::new(Synthetic::new(backends, u32::MAX));
    let config = DashboardConfig { port: 0, look: Duration::from_millis(20) };
    let dashboard = Dashboard::start(&config, source.clone()).unwrap();
    let mut events = Events::open(&dashboard);
    while events.next().unwrap().state.stacks.is_empty() {} // it does not run yet
    (source, dashboard)
}

fn connect(address: SocketAddr, request: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    BufReader::new(stream)
}

/// Status, headers and body of one answer.
fn ask(
    dashboard: &Dashboard,
    method: &str,
    path: &str,
    extra: &str,
    body: &str,
) -> (u16, String, String) {
    let address = dashboard.address();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n{extra}\r\n{body}",
        body.len()
    );
    let mut answer = String::new();
    connect(address, &request).read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

fn error(body: &str) -> String {
    serde_json::from_str::<Value>(body).unwrap()["error"].as_str().unwrap().to_owned()
}

/// The messages of a stream of events.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(dashboard: &Dashboard) -> Self {
        // The connection ends with the answer, also with one that there is no place.
        let address = dashboard.address();
        let request =
            format!("GET /v1/events HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        Self(connect(dashboard.address(), &request))
    }

    /// The next message; `None` at the end of the stream.
    fn next(&mut self) -> Option<Message> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }
}

#[test]
fn the_state_is_one_complete_document() {
    let (_, dashboard) = dashboard(6);
    let (status, head, body) = ask(&dashboard, "GET", "/v1/state", "", "");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/json"), "{head}");
    let message: Message = serde_json::from_str(&body).unwrap();
    assert_eq!((message.schema.as_str(), message.complete), (SCHEMA, true));
    assert_eq!(message.state.stacks[1].backends.len(), 6);
    assert!(!message.history.is_empty());
}

#[test]
fn events_begin_with_everything_and_go_on_with_what_is_new() {
    let (_, dashboard) = dashboard(6);
    let mut events = Events::open(&dashboard);
    let first = events.next().unwrap();
    assert!(first.complete);
    let mut points = first.state.stacks[1].points.clone();
    let (mut history, mut decisions) = (first.history, first.state.stacks[1].decisions.clone());
    let mut last = 0.0;
    for _ in 0..10 {
        let message = events.next().unwrap();
        assert!(!message.complete && message.run == first.run);
        assert!(message.state.elapsed_s > last, "time goes on");
        last = message.state.elapsed_s;
        points.extend(&message.state.stacks[1].points);
        history.extend(message.history);
        decisions.extend(message.state.stacks[1].decisions.iter().cloned());
    }
    let steps: Vec<f64> = points.windows(2).map(|pair| pair[1].seconds - pair[0].seconds).collect();
    assert!(
        steps.iter().all(|step| (step - 0.5).abs() < 1e-9),
        "no point twice or lost: {steps:?}"
    );
    let periods: Vec<u64> = decisions.iter().map(|decision| decision.period).collect();
    assert!(periods.windows(2).all(|pair| pair[1] == pair[0] + 1), "{periods:?}");
    assert!(
        history.len() >= 11 && history.windows(2).all(|pair| pair[0].seconds < pair[1].seconds)
    );
}

#[test]
fn the_page_and_its_files_load_nothing_from_elsewhere() {
    let (_, dashboard) = dashboard(6);
    let (status, head, page) = ask(&dashboard, "GET", "/", "", "");
    assert_eq!(status, 200);
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
        "content-type: text/html",
    ] {
        assert!(head.contains(header), "{header} is missing in\n{head}");
    }
    let mut paths: Vec<String> = Vec::new();
    let mut texts = vec![page];
    while let Some(text) = texts.pop() {
        for part in text.split('"').skip(1).step_by(2) {
            let is_file = part.starts_with('/') && part.contains('.');
            if is_file && !paths.iter().any(|path| path == part) {
                let (status, head, text) = ask(&dashboard, "GET", part, "", "");
                assert_eq!(status, 200, "{part}: {head}");
                paths.push(part.to_owned());
                texts.push(text);
            }
            let is_name = part.contains("www.w3.org"); // of a vocabulary, never loaded
            assert!(!part.contains("://") || is_name, "{part} is elsewhere");
        }
    }
    assert!(paths.len() >= 10, "{paths:?}");
}

#[test]
fn commands_reach_the_source_and_its_refusal_comes_back() {
    let (source, dashboard) = dashboard(6);
    let post = |path: &str, body: &str| ask(&dashboard, "POST", path, "", body);
    assert_eq!(post("/v1/pause", r#"{"reason": "deployment"}"#).0, 204);
    assert_eq!(post("/v1/advise", r#"{"stack": "robinhood"}"#).0, 204);
    let mut events = Events::open(&dashboard);
    let control = events.next().unwrap().state.stacks[1].control.clone();
    let control = match control.as_ref().is_some_and(|control| control.mode == Mode::Advise) {
        true => control,
        false => events.next().unwrap().state.stacks[1].control.clone(),
    };
    assert_eq!(control.unwrap().paused.as_deref(), Some("deployment"));
    assert_eq!((post("/v1/resume", "").0, post("/v1/active", "{}").0), (204, 204));
    let (status, _, body) = post("/v1/pause", r#"{"stack": "shared"}"#);
    assert_eq!((status, error(&body).as_str()), (409, "only `robinhood` has a controller"));
    let pause = Action::Pause { reason: "deployment".to_owned() };
    assert_eq!(
        source.commands(),
        [
            Command { stack: None, action: pause },
            Command { stack: Some("robinhood".to_owned()), action: Action::Advise },
            Command { stack: None, action: Action::Resume },
            Command { stack: None, action: Action::Activate },
        ]
    );
}

#[test]
fn what_is_not_for_us_is_refused_with_a_reason_and_the_same_headers() {
    let (source, dashboard) = dashboard(6);
    let foreign = "origin: http://evil.example\r\n";
    let long = "x".repeat(2_000);
    let cases = [
        ("GET", "/nothing", "", "", 404),
        ("GET", "/v1/pause", "", "", 405),
        ("DELETE", "/v1/state", "", "", 405),
        ("POST", "/v1/pause", foreign, "", 403),
        ("POST", "/v1/pause", "sec-fetch-site: cross-site\r\n", "", 403),
        ("POST", "/v1/pause", "", "{}{}", 400),
        ("POST", "/v1/pause", "", &long, 413),
        ("POST", "/v1/%ff", "", "", 400),
    ];
    for (method, path, extra, body, expected) in cases {
        let (status, head, answer) = ask(&dashboard, method, path, extra, body);
        assert_eq!(status, expected, "{method} {path}: {answer}");
        assert!(head.contains("content-security-policy"), "{head}");
        assert!(!error(&answer).is_empty());
    }
    let mut answer = String::new();
    let rebound = "GET /v1/state HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    connect(dashboard.address(), rebound).read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403") && !answer.contains("robinhood"), "{answer}");
    assert!(source.commands().is_empty());
}

#[test]
fn only_so_many_may_listen_and_places_become_free() {
    let (_, dashboard) = dashboard(6);
    let mut listeners: Vec<Events> = (0..CLIENTS_MAX).map(|_| Events::open(&dashboard)).collect();
    for listener in &mut listeners {
        assert!(listener.next().unwrap().complete);
    }
    let (status, _, body) = ask(&dashboard, "GET", "/v1/events", "", "");
    assert_eq!(status, 503, "{body}");
    assert!(error(&body).contains("poll /v1/state"));
    assert_eq!(ask(&dashboard, "GET", "/v1/state", "", "").0, 200, "asking still works");
    listeners.pop();
    let begin = std::time::Instant::now();
    while Events::open(&dashboard).next().is_none() {
        assert!(begin.elapsed() < PATIENCE, "the place of a listener that left is not given again");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn connections_are_bounded_and_the_next_one_waits_for_a_place() {
    let (_, dashboard) = dashboard(6);
    let address = dashboard.address();
    let mut idle: Vec<TcpStream> =
        (0..CONNECTIONS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
    let request = format!("GET /v1/state HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let mut waiting = connect(address, &request);
    waiting.get_ref().set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(waiting.fill_buf().is_err(), "served beyond the bound");
    idle.clear();
    waiting.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn the_end_is_told_and_frees_the_port() {
    let (_, dashboard) = dashboard(200);
    let address = dashboard.address();
    let mut events = Events::open(&dashboard);
    let run = events.next().unwrap().run;
    drop(dashboard);
    let mut last = 0.0;
    while let Some(message) = events.next() {
        last = message.state.elapsed_s;
    }
    assert!(last > 0.0, "at least the last state came");
    let config = DashboardConfig { port: address.port(), ..DashboardConfig::default() };
    let again = Dashboard::start(&config, Arc::new(Synthetic::new(2, 1))).unwrap();
    assert_ne!(Events::open(&again).next().unwrap().run, run);
    let taken = Dashboard::start(&config, Arc::new(Synthetic::new(2, 1))).unwrap_err();
    assert!(matches!(taken, DashboardError::Bind { port, .. } if port == address.port()));
}
