//! `robinhood simulate` on a trace, and the flags for what a live system does too: coalesced misses, cancelled timeouts, reports that are late or lost.

#[expect(dead_code, reason = "no test here interrupts the binary")]
mod support;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{read_json, refused, robinhood};

const REQUESTS: u32 = 3_000;

/// Requests for a backend of `demo`, whose answers no cache may hold, and for one that only the trace knows.
fn trace(folder: &Path) -> PathBuf {
    let mut text = String::new();
    for i in 0..REQUESTS {
        let (price, own) = (i * i % 101, i % 17);
        writeln!(
            text,
            r#"{{"t": {i}, "d": [{{"prices": {{"S": [900], "U": ["c{price}"], "C": [0]}}, "own": {{"S": [700, 80], "U": ["o{own}", "p{i}"], "C": [1, 1]}}}}]}}"#
        )
        .unwrap();
    }
    let path = folder.join("requests.jsonl");
    std::fs::write(&path, text).unwrap();
    path
}

/// Simulates, and gives the document.
fn simulate(folder: &Path, arguments: &[&str]) -> Value {
    let json = folder.join("result.json");
    let files = ["--no-timing", "--json", json.to_str().unwrap()];
    let output = robinhood(&[&["simulate"], arguments, &files].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    read_json(&json)
}

fn whole(document: &Value, policy: &str, key: &str) -> u64 {
    document["policies"][policy][key].as_u64().unwrap_or_else(|| panic!("{policy}: {key}"))
}

#[test]
fn every_policy_serves_the_whole_trace_at_the_rate_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path());
    let what = ["--trace", path.to_str().unwrap(), "--workload", "demo", "--budget", "64KiB"];
    let how = ["--policy", "all", "--seed", "1..2", "--rate", "50/s"];
    let document = simulate(folder.path(), &[&what[..], &how].concat());
    assert_eq!(
        (&document["complete"], &document["workload"]),
        (&true.into(), &path.to_str().unwrap().into())
    );
    assert_eq!(document["runs"].as_array().unwrap().len(), 14);
    for run in document["runs"].as_array().unwrap() {
        assert_eq!((&run["requests"], &run["queries"]), (&REQUESTS.into(), &(3 * REQUESTS).into()));
        let backend = |place: usize, key: &str| run["backends"][place][key].clone();
        assert_eq!((backend(0, "name"), backend(0, "hit_ratio")), ("prices".into(), 0.0.into()));
        assert_eq!(backend(1, "name"), "own");
        assert!(backend(1, "hit_ratio").as_f64().unwrap() > 0.1, "{run}");
    }
    let seconds = document["measured_seconds"].as_f64().unwrap();
    assert!((seconds / 60.0 - 1.0).abs() < 0.1, "{seconds}");
    let cut =
        simulate(folder.path(), &[&what[..], &["--rate", "50/s", "--duration", "20s"]].concat());
    let requests = whole(&cut, "shared", "requests");
    assert!((900..1_100).contains(&requests), "{requests}");
    let recorded = ["--time-scale", "100", "--warmup", "100s"];
    let recorded = simulate(folder.path(), &[&what[..], &recorded].concat());
    assert_eq!(recorded["warmup_seconds"], 1.0);
    let seconds = recorded["measured_seconds"].as_f64().unwrap();
    assert!((28.9..29.1).contains(&seconds), "{seconds}");
}

#[test]
fn a_trace_at_a_rate_is_served_to_its_end_with_every_seed() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(trace(folder.path())).unwrap();
    let path = folder.path().join("three.jsonl");
    std::fs::write(&path, text.lines().take(3).collect::<Vec<_>>().join("\n")).unwrap();
    let what = ["--trace", path.to_str().unwrap(), "--workload", "demo", "--policy", "shared"];
    let how = ["--rate", "1/s", "--seed", "1..40"];
    for duration in [&[][..], &["--duration", "100s"]] {
        let document = simulate(folder.path(), &[&what[..], &how, duration].concat());
        assert_eq!(document["complete"], true);
        let runs = document["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 40);
        assert!(runs.iter().all(|run| run["requests"] == 3), "{document}");
    }
}

#[test]
fn a_bad_trace_is_refused_with_its_place_and_bad_lines_can_be_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path());
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("{\"t\": 3000, \"d\": nonsense}\n");
    std::fs::write(&path, text).unwrap();
    let what = ["--trace", path.to_str().unwrap(), "--workload", "demo", "--rate", "100/s"];
    let (code, error) = refused(&[&["simulate"], &what[..]].concat());
    assert_eq!(code, 1);
    assert!(error.contains(", line 3001: column"), "{error}");
    let document = simulate(folder.path(), &[&what[..], &["--skip-bad"]].concat());
    assert_eq!(whole(&document, "shared", "requests"), u64::from(REQUESTS));
    let (code, error) = refused(&["simulate", "--trace", "/no/such.jsonl"]);
    assert_eq!(code, 1);
    assert!(error.contains("/no/such.jsonl: cannot be read"), "{error}");
    // What can be read only once: what it gave the survey, the runs would miss.
    for path in [Path::new("/dev/null"), folder.path()] {
        let (code, error) = refused(&["simulate", "--trace", path.to_str().unwrap()]);
        assert!(code == 2 && error.contains("is not a regular file"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    for flag in [&["--rate", "1/s"][..], &["--skip-bad"]] {
        let (code, error) = refused(&[&["simulate"], flag].concat());
        assert!(code == 2 && error.contains("--trace"), "{error}");
    }
}

#[test]
fn coalescing_sends_less_and_says_how_many_queries_waited() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path());
    let what = ["--trace", path.to_str().unwrap(), "--workload", "demo", "--policy", "shared"];
    let how = ["--rate", "2000/s", "--budget", "2KiB"];
    let plain = simulate(folder.path(), &[&what[..], &how].concat());
    let coalesced = simulate(folder.path(), &[&what[..], &how, &["--coalesce"]].concat());
    assert_eq!((&plain["coalesce"], &coalesced["coalesce"]), (&false.into(), &true.into()));
    assert_eq!(whole(&plain, "shared", "coalesced"), 0);
    assert!(whole(&coalesced, "shared", "coalesced") > 100, "{coalesced}");
    assert_eq!(whole(&plain, "shared", "requests"), whole(&coalesced, "shared", "requests"));
    let load = |document: &Value| document["runs"][0]["backends"][1]["load"].as_f64().unwrap();
    assert!(load(&coalesced) < load(&plain));
}

#[test]
fn cancelled_timeouts_free_the_servers_of_an_overloaded_backend() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path());
    let what = ["--trace", path.to_str().unwrap(), "--workload", "demo", "--policy", "shared"];
    let how = ["--rate", "20000/s"];
    let kept = simulate(folder.path(), &[&what[..], &how].concat());
    let cancelled = simulate(folder.path(), &[&what[..], &how, &["--cancel"]].concat());
    let timeouts = whole(&kept, "shared", "timeouts");
    assert!(timeouts > 100, "{kept}");
    let warnings = kept["warnings"].as_array().unwrap();
    let warning =
        warnings.iter().find(|warning| warning["kind"] == "timeouts").expect("one says so");
    assert_eq!(warning["value"], timeouts as f64);
    assert_eq!(warning["message"], format!("{timeouts} queries timed out"));
    assert_eq!((&kept["cancel"], &cancelled["cancel"]), (&false.into(), &true.into()));
    let backend = |document: &Value| document["runs"][0]["backends"][0].clone();
    let (kept, cancelled) = (backend(&kept), backend(&cancelled));
    let worked = |backend: &Value| backend["utilisation"].as_f64().unwrap();
    assert!(worked(&cancelled) < 0.8 * worked(&kept), "{cancelled} {kept}");
}

#[test]
fn late_and_lost_reports_change_what_the_controllers_do_and_not_the_requests() {
    let folder = tempfile::tempdir().unwrap();
    let what =
        ["--workload", "demo", "--policy", "robinhood", "--duration", "30s", "--slo", "40ms"];
    let run = |more: &[&str]| simulate(folder.path(), &[&what[..], more].concat());
    let moved = |document: &Value| whole(document, "robinhood", "bytes_moved");
    let plain = run(&[]);
    let delayed = run(&["--report-delay", "700ms"]);
    let lossy = run(&["--report-loss", "0.5"]);
    assert!(moved(&plain) > 0 && moved(&delayed) > 0 && moved(&lossy) > 0);
    assert!(moved(&plain) != moved(&delayed) && moved(&plain) != moved(&lossy));
    assert_eq!((&delayed["report_delay_ms"], &lossy["report_loss"]), (&700.0.into(), &0.5.into()));
    assert_eq!(lossy, run(&["--report-loss", "0.5"]), "the losses are those of the seed");
    // A control period of the demo is half a second: three of them are the oldest that a controller acts on.
    for (flags, late) in [(["--report-delay", "2s"], 4.0), (["--report-loss", "1"], 0.0)] {
        let held = run(&flags);
        assert_eq!(moved(&held), 0);
        let warnings = held["warnings"].as_array().unwrap();
        let warning = warnings.iter().find(|warning| warning["kind"] == "held").unwrap();
        assert_eq!((&warning["policy"], &warning["value"]), (&"robinhood".into(), &late.into()));
    }
    let is_held = |document: &Value| document["warnings"].to_string().contains("held");
    assert!(!is_held(&plain) && !is_held(&delayed) && !is_held(&lossy));
    let requests = |document: &Value| whole(document, "robinhood", "requests");
    assert_eq!(requests(&plain), requests(&lossy));
    let (code, error) = refused(&[&["simulate"], &what[..], &["--report-delay", "1h"]].concat());
    assert!(code == 78 && error.contains("report_delay"), "{error}");
    let (code, error) = refused(&[&["simulate"], &what[..], &["--report-loss", "1.5"]].concat());
    assert!(code == 2 && error.contains("is no share"), "{error}");
}
