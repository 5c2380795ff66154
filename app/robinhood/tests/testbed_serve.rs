//! The served testbed and the load tester as a user runs them: two processes and a trace.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use support::{Running, read_json, refused, robinhood};

#[test]
fn a_served_testbed_answers_the_load_tester_and_ends_with_a_summary() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_robinhood"))
        .args(["testbed", "serve", "--policy", "robinhood", "--slo", "1h"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut server = Running(child);
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening on ").expect("an address");

    let stream = TcpStream::connect(address).unwrap();
    (&stream).write_all(b"{\"d\": []}\nhello\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answers = String::new();
    (&stream).read_to_string(&mut answers).unwrap();
    let mut answers = answers.lines();
    assert_eq!(answers.next(), Some(r#"{"ok":true,"queries":0,"misses":0}"#));
    assert!(answers.next().is_some_and(|error| error.contains("not JSON")));

    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("load.json");
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/traces/sample.jsonl");
    let load = robinhood(&[
        "load",
        "app",
        "--target",
        address,
        "--trace",
        trace.to_str().unwrap(),
        "--rate",
        "200/s",
        "--warmup",
        "0s",
        "--duration",
        "2s",
        "--timeout",
        "30s",
        "--json",
        json.to_str().unwrap(),
    ]);
    // So short a run may rightly end as not valid, but its requests must be answered.
    let said = String::from_utf8_lossy(&load.stderr);
    assert!(matches!(load.status.code(), Some(0 | 1)), "{said}");
    assert!(said.contains("begins it again"), "{said}");
    let counts = read_json(&json);
    assert_eq!(counts["completed"], counts["scheduled"], "{counts}");
    let completed = counts["completed"].as_u64().unwrap();
    assert!(completed > 300, "{counts}");

    assert_eq!(server.interrupt(), Some(0));
    let mut summary = String::new();
    output.read_to_string(&mut summary).unwrap();
    let first = format!("{} requests over ", completed + 1);
    assert!(summary.starts_with(&first), "{summary}");
    assert!(summary.contains("1 lines not served"), "{summary}");
    assert!(summary.contains("violations: P99 above 3600 s in 0 of"), "{summary}");
}

#[test]
fn an_address_that_is_taken_is_named_before_any_work() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, error) = refused(&["testbed", "serve", "--listen", &address]);
    assert_eq!(code, 1, "{error}");
    assert!(error.starts_with(&format!("error: cannot listen on {address}")), "{error}");
}
