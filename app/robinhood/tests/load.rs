//! `robinhood load` as a user meets it: real servers, mistakes, thresholds, Ctrl-C.
#![cfg(target_os = "linux")]

mod support;

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::{Running, read_json, refused, robinhood};

/// A memcached of this test, ended with it.
struct Memcached {
    process: Child,
    target: String,
}

impl Memcached {
    fn start() -> Self {
        let free = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        let port = free.port().to_string();
        let process = Command::new("memcached")
            .args(["-l", "127.0.0.1", "-U", "0", "-t", "1", "-u", "nobody", "-p", &port])
            .stdout(Stdio::null())
            .spawn()
            .expect(
                "memcached is not there: install the package memcached, or run ./test --prepare",
            );
        let started = Instant::now();
        while TcpStream::connect(free).is_err() {
            assert!(started.elapsed() < Duration::from_secs(20), "memcached does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { process, target: free.to_string() }
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// Arguments of a short run that leaves the processors to the server, with patience for a busy machine.
fn short<'a>(protocol: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let common = ["load", protocol, "--rate", "2000/s", "--duration", "500ms", "--warmup", "100ms"];
    let patient = ["--sleep", "--timeout", "20s"];
    common.iter().chain(&patient).chain(more).copied().collect()
}

#[test]
fn memcached_is_filled_read_and_written() {
    let server = Memcached::start();
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("run.json");
    for protocol in [&["--meta"][..], &[]] {
        let mut more = vec!["--target", &server.target, "--keys", "2000", "--hit-share", "0.9"];
        more.extend(["--json", json.to_str().unwrap()].iter().chain(protocol));
        let output = robinhood(&short("memcached", &more));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("filled:") && said.contains("read back"), "{said}");
        let result = read_json(&json);
        assert_eq!(result["schema"], "robinhood.load/1");
        let count = |key: &str| result[key].as_u64().unwrap_or_else(|| panic!("{key}: {result}"));
        assert_eq!(count("scheduled"), count("completed"), "{said}");
        let (hits, misses) = (count("hits") as f64, count("misses") as f64);
        // About 900 reads: a share of 0.9 is within 0.04, four standard errors.
        assert!((hits / (hits + misses) - 0.9).abs() < 0.04, "{hits} {misses}");
        assert!(result["timer_lateness_us"]["p50"].is_f64(), "{}", result["timer_lateness_us"]);
        for times in ["latency_us", "service_us", "lateness_us"] {
            assert!(result[times]["p99"].is_f64(), "{times}: {}", result[times]);
            assert!(result[times]["p99_9"].is_null(), "too few for P99.9: {}", result[times]);
        }
        let needs = result["warnings"].as_array().unwrap().iter();
        let needed: Vec<_> = needs.filter_map(|warning| warning["needed"].as_u64()).collect();
        assert_eq!(needed, [3_688]);
    }
}

#[test]
fn a_condition_that_holds_fails_the_command_and_one_that_does_not_does_not() {
    let kept = ["--fail-if", "rate<1/s", "--fail-if", "unanswered>50%"];
    let output = robinhood(&short("null", &kept));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("--fail-if"), "{said}");
    let output = robinhood(&short("null", &["--fail-if", "p50>1ns"]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("p50>1ns: it is"), "{said}");
}

/// Starts a server of known behaviour: the process, and where it listens.
fn serve(service: &str) -> (Running, String) {
    let arguments = ["load", "serve", "null", "--listen", "127.0.0.1:0", "--service", service];
    let mut command = Command::new(env!("CARGO_BIN_EXE_robinhood"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut server = Running(command.spawn().expect("the binary starts"));
    let mut line = String::new();
    let output = server.0.stdout.take().expect("it is a pipe");
    BufReader::new(output).read_line(&mut line).expect("it says where it listens");
    let target = line.trim().strip_prefix("listening on ").expect("an address").to_owned();
    (server, target)
}

#[test]
fn a_server_that_cannot_keep_up_makes_the_run_invalid() {
    let (_server, target) = serve("5ms"); // 200 requests a second, a tenth of what is asked
    let flags = ["--rate", "2000/s", "--duration", "2200ms", "--timeout", "2s", "--warmup", "0s"];
    let output = robinhood(&[&["load", "null", "--target", &target], &flags[..]].concat());
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(report.starts_with("INVALID") && report.contains("overloaded"), "{report}");
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    let (_server, target) = serve("0s");
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("run.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_robinhood"));
    let flags = ["--rate", "2000/s", "--duration", "1h", "--warmup", "0s", "--json"];
    command.args(["load", "null", "--target", &target]).args(flags).arg(&json);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut load = Running(command.spawn().expect("the binary starts"));
    std::thread::sleep(Duration::from_millis(1_500));
    assert!(load.interrupt().is_some(), "it ends by itself");
    let result = read_json(&json);
    assert_eq!(result["interrupted"], true);
    assert!(result["completed"].as_u64().unwrap() > 100, "{}", result["completed"]);
}

#[test]
fn mistakes_are_named_before_anything_is_sent() {
    let target = ["--target", "127.0.0.1:1"];
    let cases: [(&str, &[&str], i32, &str); 10] = [
        ("null", &["--rate", "0/s"], 2, "above 0"),
        ("null", &["--rate", "100"], 2, "has no unit"),
        ("null", &["--duration", "0s"], 2, "above 0"),
        ("null", &["--arrivals", "poison"], 2, "poisson"),
        ("null", &["--fail-if", "p98>1ms"], 2, "write FIGURE"),
        ("null", &["--target", "127.0.0.1:1"], 1, "cannot connect to 127.0.0.1:1"),
        ("memcached", &["--workload", "nope"], 2, "there is no such file"),
        ("memcached", &["--value-bytes", "2000000"], 2, "memcached"),
        ("memcached", &[], 1, "127.0.0.1:1"),
        ("udp", &["--unix"], 2, "streams"),
    ];
    for (protocol, more, expected, message) in cases {
        let mut arguments = vec!["load", protocol];
        if !more.contains(&"--rate") {
            arguments.extend(["--rate", "100/s"]);
        }
        if protocol == "memcached" {
            arguments.extend(target);
        }
        arguments.extend(more);
        let (code, error) = refused(&arguments);
        assert_eq!(code, expected, "{arguments:?}: {error}");
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
}

#[test]
fn a_workload_file_with_an_unknown_key_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let output = robinhood(&["load", "workload", "etc"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    std::fs::write(&path, format!("kees = 5\n{printed}")).unwrap();
    let path = path.to_str().unwrap();
    let flags = ["load", "memcached", "--target", "127.0.0.1:1", "--rate", "10/s"];
    let (code, error) = refused(&[&flags[..], &["--workload", path]].concat());
    assert_eq!(code, 78, "{error}");
    assert!(error.contains("kees") && error.contains("keys"), "{error}");
}
