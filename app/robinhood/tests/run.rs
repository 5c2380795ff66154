//! `robinhood cache` and `robinhood run` as a user runs them: a process, a client, reports over HTTP.

#![cfg(target_os = "linux")]

#[path = "run/operations.rs"]
mod operations;
mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Running, read_json, refused, robinhood};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

struct Server {
    process: Running,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_robinhood"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { process: Running(child), output }
    }

    /// What follows `mark` in the next line.
    fn said(&mut self, mark: &str) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it says something");
        line.trim_end().strip_prefix(mark).unwrap_or_else(|| panic!("{line}")).to_owned()
    }

    /// Ends it, and gives what it says then.
    fn end(mut self) -> String {
        assert_eq!(self.process.interrupt(), Some(0));
        let mut summary = String::new();
        self.output.read_to_string(&mut summary).expect("text");
        summary
    }
}

fn ask(address: &str, request: &str, answer: &str) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut got = vec![0; answer.len()];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8_lossy(&got), answer);
}

fn http(address: &str, head: &str, body: &str) -> Value {
    serde_json::from_str(&answered(address, head, body)).unwrap()
}

fn answered(address: &str, head: &str, body: &str) -> String {
    let answer = raw_answer(address, head, body);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    body.to_owned()
}

/// With its head.
fn raw_answer(address: &str, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn set(key: &str, bytes: usize) -> String {
    format!("set {key} 0 0 {bytes}\r\n{}\r\n", "v".repeat(bytes))
}

#[test]
fn a_cache_serves_and_ends_with_what_its_partitions_held() {
    let mut server = Server::start(&["cache", "--listen", "127.0.0.1:0", "--budget", "64MiB"]);
    let address = server.said("listening on ");
    ask(
        &address,
        &(set("ratings:1", 3) + "get ratings:1\r\n"),
        "STORED\r\nVALUE ratings:1 0 3\r\nvvv\r\nEND\r\n",
    );
    let summary = server.end();
    let row = summary.lines().find(|line| line.starts_with("ratings")).expect("its partition");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[cells.len() - 4..], ["1", "1", "0", "0"], "{summary}");
}

#[test]
fn the_load_tester_finds_what_it_has_stored() {
    let mut server = Server::start(&[
        "cache",
        "--listen",
        "127.0.0.1:0",
        "--dispatch",
        "bound",
        "--eviction",
        "sieve",
    ]);
    let address = server.said("listening on ");
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("load.json");
    for protocol in [&["memcached"][..], &["memcached", "--meta"]] {
        let flags =
            ["--target", &address, "--keys", "1000", "--rate", "2000/s", "--duration", "1s"];
        let rest = ["--warmup", "0s", "--timeout", "30s", "--json", path(&json)];
        let load = robinhood(&[&["load"][..], protocol, &flags, &rest].concat());
        // So short a run may rightly end as not valid, but its requests must be answered.
        let said = String::from_utf8_lossy(&load.stderr);
        assert!(matches!(load.status.code(), Some(0 | 1)), "{said}");
        let counts = read_json(&json);
        assert_eq!(
            (&counts["completed"], &counts["misses"]),
            (&counts["scheduled"], &0.into()),
            "{counts}"
        );
    }
    server.end();
}

#[test]
fn flags_that_cannot_be_are_refused() {
    for (arguments, code, reason) in [
        (&["cache", "--threads", "0"][..], 2, "worker threads: 0"),
        (&["cache", "--listen", "nowhere"][..], 2, "no address"),
        (&["cache", "--budget", "12"][..], 2, "12"),
        (&["cache", "--separator", "a"][..], 2, "cannot end the name"),
        (&["run", "--config", "/nowhere.toml"][..], 78, "/nowhere.toml"),
    ] {
        let (got, error) = refused(arguments);
        assert_eq!(got, code, "{arguments:?}: {error}");
        assert!(error.contains(reason), "{arguments:?}: {error}");
    }
}

#[test]
fn space_goes_to_the_backend_that_reports_say_blocks_requests() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("robinhood.toml");
    let text = "[cache]\npartitions = [\"fast\", \"slow\"]\nbudget = \"64MiB\"\nlisten = [\"127.0.0.1:0\"]\n\
                [controller]\nmode = \"active\"\nperiod = \"100ms\"\nobjective = \"20ms\"\n\
                [http]\nlisten = \"127.0.0.1:0\"\npage_port = 0\n";
    std::fs::write(&file, text).unwrap();
    let mut server = Server::start(&["run", "--config", path(&file)]);
    let cache = server.said("listening on ");
    let reports = server.said("reports and figures at http://");
    let page = server.said("page at http://");
    // Both partitions are full, so that neither has space that it does not use.
    for number in 0..50 {
        for name in ["fast", "slow"] {
            ask(&cache, &set(&format!("{name}:{number}"), 1_000_000), "STORED\r\n");
        }
    }
    let limit = |name: &str| {
        let view = http(&reports, "GET /v1/partitions", "");
        let one = view["partitions"].as_array().unwrap().iter().find(|one| one["name"] == name);
        one.expect("it is there")["limit_bytes"].as_u64().unwrap()
    };
    let before = limit("slow");
    let started = Instant::now();
    while limit("slow") < before + before / 20 {
        let lines = "{\"latency_ms\": 50, \"blocking\": \"slow\"}\n{\"latency_ms\": 1, \"blocking\": \"fast\"}\n";
        let lines = lines.repeat(2) + &"{\"latency_ms\": 2, \"blocking\": \"fast\"}\n".repeat(60);
        let receipt = http(&reports, "POST /v1/reports", &lines);
        assert_eq!((&receipt["accepted"], &receipt["refused"]), (&64.into(), &0.into()));
        assert!(started.elapsed() < PATIENCE, "{}", http(&reports, "GET /v1/decisions", ""));
        std::thread::sleep(Duration::from_millis(20));
    }
    let scraped = answered(&reports, "GET /metrics", "");
    for line in [
        "robinhood_controller_mode{mode=\"active\"} 1.0",
        "# TYPE robinhood_allocation_bytes gauge",
        "# TYPE robinhood_queries counter",
        "robinhood_hits_total{backend=\"slow\"} 0",
        "# EOF",
    ] {
        assert!(scraped.lines().any(|one| one == line), "{line}: {scraped}");
    }
    assert!(scraped.contains("robinhood_allocation_bytes{backend=\"slow\"} "), "{scraped}");
    assert_eq!(answered(&reports, "GET /readyz", ""), "ok\n");
    let rbc = http(&reports, "GET /v1/rbc", "");
    assert!(rbc["backends"]["slow"]["share"].as_f64().unwrap() > 0.9, "{rbc}");
    let shown = http(page.trim_end_matches('/'), "GET /v1/state", "");
    let stack = &shown["state"]["stacks"][0];
    assert_eq!(stack["backends"].as_array().unwrap().len(), 3, "{shown}");
    assert!(stack["moved_bytes"].as_u64().unwrap() > 0, "{shown}");
    assert!(!server.end().is_empty());
}

/// memcached behind a Unix socket, 64 MiB, full of values of 100 kB.
struct Memcached {
    process: Running,
    socket: PathBuf,
}

impl Memcached {
    fn start(folder: &Path, name: &str) -> Self {
        let socket = folder.join(name);
        let arguments = ["-u", "root", "-t", "1", "-m", "64", "-s", path(&socket)];
        let child = Command::new("memcached").args(arguments).stdin(Stdio::null()).spawn();
        let child = child.expect("memcached is installed; ./test --prepare does it");
        let started = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            assert!(started.elapsed() < PATIENCE, "memcached does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        let memcached = Self { process: Running(child), socket };
        for number in 0..700 {
            assert_eq!(memcached.ask(&set(&number.to_string(), 100_000), "\r\n"), "STORED\r\n");
        }
        memcached
    }

    /// What it answers, up to the first `end`.
    fn ask(&self, command: &str, end: &str) -> String {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(command.as_bytes()).unwrap();
        let (mut answer, mut bytes) = (String::new(), [0; 4_096]);
        while !answer.ends_with(end) {
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "{answer}");
            answer += std::str::from_utf8(&bytes[..count]).unwrap();
        }
        answer
    }

    fn setting(&self, name: &str) -> u64 {
        let settings = self.ask("stats settings\r\n", "END\r\n");
        let mut lines = settings.lines().filter_map(|line| line.strip_prefix("STAT "));
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("{name}: {settings}")).parse().unwrap()
    }
}

/// Reports in which `slow` blocks the slow requests.
fn report_slow(reports: &str) {
    let lines = "{\"latency_ms\": 50, \"blocking\": \"slow\"}\n".repeat(2)
        + &"{\"latency_ms\": 2, \"blocking\": \"fast\"}\n".repeat(62);
    let receipt = http(reports, "POST /v1/reports", &lines);
    assert_eq!(receipt["accepted"], 64);
}

#[test]
fn beside_memcached_advice_changes_nothing_and_action_moves_limits_and_restores_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let [fast, slow] = ["fast", "slow"].map(|name| Memcached::start(folder.path(), name));
    let file = folder.path().join("robinhood.toml");
    let start = |mode: &str| {
        let text = format!(
            "[beside]\nkind = \"memcached\"\n[beside.caches]\nfast = \"unix:{}\"\nslow = \"unix:{}\"\n\
             [controller]\nmode = \"{mode}\"\nperiod = \"1s\"\n[http]\nlisten = \"127.0.0.1:0\"\npage_port = 0\n",
            path(&fast.socket),
            path(&slow.socket),
        );
        std::fs::write(&file, text).unwrap();
        let mut server = Server::start(&["run", "--config", path(&file)]);
        let reports = server.said("reports and figures at http://");
        let page = server.said("page at http://");
        (server, reports, page)
    };
    let limits = || [fast.setting("maxbytes"), slow.setting("maxbytes")];
    let before = limits();

    let (server, reports, page) = start("advise");
    let started = Instant::now();
    let advised = || {
        let decisions = http(&reports, "GET /v1/decisions", "");
        let mut decisions = decisions.as_array().unwrap().clone();
        decisions
            .retain(|one| one["changes"].as_array().is_some_and(|changes| !changes.is_empty()));
        !decisions.is_empty()
    };
    while !advised() {
        report_slow(&reports);
        assert!(started.elapsed() < PATIENCE, "{}", http(&reports, "GET /v1/decisions", ""));
        std::thread::sleep(Duration::from_millis(20));
    }
    let shown = http(page.trim_end_matches('/'), "GET /v1/state", "");
    assert_eq!(shown["state"]["stacks"][0]["backends"].as_array().unwrap().len(), 2, "{shown}");
    assert!(server.end().contains("slow"));
    assert_eq!((limits(), fast.setting("slab_automove")), (before, 1), "it only read");

    let (server, reports, _) = start("active");
    let started = Instant::now();
    while limits()[1] <= before[1] {
        report_slow(&reports);
        assert!(started.elapsed() < PATIENCE, "{}", http(&reports, "GET /v1/decisions", ""));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(fast.setting("slab_automove"), 0, "one mover at a time");
    server.end();
    let [after_fast, after_slow] = limits();
    assert!(after_fast < before[0] && after_slow > before[1]);
    assert!(after_fast + after_slow <= before[0] + before[1], "never more than there was");
    assert_eq!(fast.setting("slab_automove"), 1, "set back");
    drop((fast.process, slow.process));
}

#[test]
fn a_cache_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("robinhood.toml");
    let text = "[beside]\nkind = \"redis\"\n[beside.caches]\nads = \"unix:/nowhere/redis.sock\"\n";
    std::fs::write(&file, text).unwrap();
    let (code, error) = refused(&["run", "--config", path(&file)]);
    assert_eq!(code, 1, "{error}");
    assert!(error.contains("ads") && error.contains("/nowhere/redis.sock"), "{error}");
}

fn path(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}
