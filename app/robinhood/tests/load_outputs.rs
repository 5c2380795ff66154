//! The files and the terminal of `robinhood load`, from runs against its own null server.
#![cfg(target_os = "linux")]

mod support;

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;
use support::{Running, read_json, refused, robinhood};

/// Flags of runs beside which others find some room.
const MODEST: &str = "--rate 1000/s --sleep --cpu any --priority usual --timeout 30s";
/// A run by itself: several at a time would measure each other.
static ALONE: Mutex<()> = Mutex::new(());

/// A short run with these flags. It may be late on a busy machine, and then says so: exit 1.
fn load(flags: &[&str]) -> String {
    let common = "load null --duration 2500ms --warmup 500ms";
    let words: Vec<&str> = common.split(' ').chain(MODEST.split(' ')).collect();
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let output = robinhood(&[&words[..], flags].concat());
    let code = output.status.code();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(code == Some(0) || (code == Some(1) && errors.contains("invalid")), "{errors}");
    errors
}

/// Intervals of an HDR log by tag: start and length in seconds, and the histogram.
fn intervals(path: &Path) -> HashMap<String, Vec<(f64, f64, Histogram<u64>)>> {
    use base64::Engine;
    let text = std::fs::read(path).unwrap();
    let mut found: HashMap<_, Vec<_>> = HashMap::new();
    for entry in IntervalLogIterator::new(&text) {
        let LogEntry::Interval(interval) = entry.unwrap() else { continue };
        let bytes =
            base64::engine::general_purpose::STANDARD.decode(interval.encoded_histogram()).unwrap();
        let histogram = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        let times =
            [interval.start_timestamp(), interval.duration()].map(|time| time.as_secs_f64());
        let tag = interval.tag().expect("every interval has a tag").as_str().to_owned();
        found.entry(tag).or_default().push((times[0], times[1], histogram));
    }
    found
}

/// A histogram of the JSON document.
fn histogram(buckets: &Value) -> robinhood_stats::Histogram {
    let mut histogram = robinhood_stats::Histogram::precise();
    for bucket in buckets.as_array().unwrap() {
        let [low, width, count] = [0, 1, 2].map(|part| bucket[part].as_u64().unwrap());
        histogram.add_many(low + width / 2, count);
    }
    histogram
}

#[test]
fn an_hdr_log_reads_back_with_the_quantiles_of_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let [json, log] = ["run.json", "run.hlog"].map(|name| folder.path().join(name));
    load(&["--json", json.to_str().unwrap(), "--hdr-log", log.to_str().unwrap()]);
    let result = read_json(&json);
    let intervals = intervals(&log);
    for (tag, key) in [
        ("run-latency", "latency_ns"),
        ("run-service", "service_ns"),
        ("run-lateness", "lateness_ns"),
    ] {
        let (start_s, length_s, theirs) = &intervals[tag][0];
        assert!((start_s - 0.5).abs() < 1e-3 && *length_s > 2.4, "{start_s} {length_s}");
        let ours = histogram(&result["histograms"][key]);
        assert_eq!(ours.count(), theirs.len());
        for quantile in [0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let (ours, theirs) =
                (ours.quantile(quantile).unwrap(), theirs.value_at_quantile(quantile));
            assert!(
                ours.abs_diff(theirs) as f64 <= 0.001 * ours as f64 + 1.0,
                "{tag} {quantile}: {ours} and {theirs}"
            );
        }
    }
    let latency = &intervals["latency"];
    assert!(latency.iter().all(|(start_s, ..)| *start_s >= 0.5), "{latency:?}");
    let requests =
        |tag: &str| intervals[tag].iter().map(|(.., histogram)| histogram.len()).sum::<u64>();
    let (measured, all) = (requests("latency"), requests("run-latency"));
    assert!(measured > 0 && requests("warmup-latency") + measured >= all, "{measured} of {all}");
    assert!(intervals["warmup-latency"].iter().all(|(start_s, ..)| *start_s < 0.5));
    assert_eq!(intervals["lateness"].len(), latency.len());
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("#[StartTime: ") && text.contains("#[BaseTime: "), "{}", &text[..200]);
    let started = result["started_unix_s"].as_f64().unwrap();
    assert!(text.contains(&format!("#[StartTime: {started:.3} ")), "{started}");
}

#[test]
fn the_report_is_one_file_that_needs_no_other_and_holds_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let [json, html] = ["run.json", "run.html"].map(|name| folder.path().join(name));
    let flags =
        ["--clients", "2", "--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()];
    load(&flags);
    let (result, page) = (read_json(&json), std::fs::read_to_string(&html).unwrap());
    let verdict = if result["valid"] == Value::Bool(true) { "VALID" } else { "INVALID" };
    for part in [
        &format!("<strong>{verdict}"),
        "<h2>How to read the times</h2>",
        "Latency and service by percentile",
        "Latency over time",
        "Rate over time",
        "Requests in flight over time",
        "Lateness by percentile, beside its floor",
        "client 1",
        "median of clients",
        "<h2>Arrivals</h2>",
        "prefers-color-scheme:dark",
        "<desc id=",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    for warning in result["warnings"].as_array().unwrap() {
        assert!(warning["kind"].is_string(), "{warning}");
    }
    assert_eq!(
        page.matches("<li><b class=").count(),
        result["warnings"].as_array().unwrap().len(),
        "every doubt in words"
    );
    for outside in ["http://", "https://", "src=", "@import", "url(", "href="] {
        assert!(!page.contains(outside), "{outside} leads out of the file");
    }
    let embedded = page.split("id=\"robinhood-load\">").nth(1).unwrap();
    let embedded = embedded.split("</script>").next().unwrap();
    assert_eq!(serde_json::from_str::<Value>(embedded).unwrap(), result);
}

/// Whether everything in `part` is in `whole`, with values of the same type. Of lists, each element's form is in one of the other's.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(key, part)| whole.get(key).is_some_and(|it| is_part(part, it)))
        }
        (Value::Array(part), Value::Array(whole)) => {
            part.iter().all(|part| whole.is_empty() || whole.iter().any(|it| is_part(part, it)))
        }
        // What is not known is null.
        (Value::Null, _) | (_, Value::Null) => true,
        (part, whole) => std::mem::discriminant(part) == std::mem::discriminant(whole),
    }
}

#[test]
fn the_example_in_the_document_is_a_part_of_a_result() {
    let document = include_str!("../../../docs/load-outputs.md");
    let (_, example) = document.split_once("```json\n").expect("the document has an example");
    let (example, _) = example.split_once("```").expect("it ends");
    let mut example: Value = serde_json::from_str(example).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    load(&["--json", json.to_str().unwrap()]);
    let result = read_json(&json);
    // What is doubted differs from run to run; each doubt has its kind.
    let warnings = example.as_object_mut().unwrap().remove("warnings").unwrap();
    assert!(warnings.as_array().unwrap().iter().all(|warning| warning["kind"].is_string()));
    for (key, part) in example.as_object().unwrap() {
        assert!(result.get(key).is_some_and(|it| is_part(part, it)), "{key}: {part}");
    }
}

#[test]
fn intervals_of_percentiles_hold_them_and_name_their_method() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("run.json");
    load(&["--json", json.to_str().unwrap()]);
    let result = read_json(&json);
    let found = &result["latency_us_interval"];
    assert!(found["method"].as_str().unwrap().contains("batch"), "{found}");
    match found["p50"].as_array() {
        Some(ends) => {
            let [lower, upper] = [0, 1].map(|end| ends[end].as_f64().unwrap());
            let median = result["latency_us"]["p50"].as_f64().unwrap();
            assert!(lower <= median && median <= upper && lower < upper, "{found}");
        }
        // A machine that stood still left too few slots.
        None => assert!(!found["missing"].as_array().unwrap().is_empty(), "{found}"),
    }
    assert!(found["p99_9"].is_null(), "{found}");
}

#[test]
fn what_comes_from_outside_is_escaped_in_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let name = "<script>alert('x')&";
    let [gaps, html] = [name, "run.html"].map(|name| folder.path().join(name));
    std::fs::write(&gaps, "100us\n500us\n").unwrap();
    let arrivals = format!("recorded:{}", gaps.display());
    load(&["--arrivals", &arrivals, "--html", html.to_str().unwrap()]);
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&amp;"), "the name is told");
    assert!(!page.contains("<script>alert"), "and runs nowhere");
    assert_eq!(page.matches("<script").count(), 1);
}

#[test]
fn files_that_cannot_be_written_are_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("out");
    let twice = format!("{}/./out", folder.path().display());
    let run = ["load", "null", "--rate", "10/s"];
    for (flags, expected) in [
        (
            ["--json", inside.to_str().unwrap(), "--html", &twice],
            "--json and --html name the same file",
        ),
        (
            ["--hdr-log", "no/such/folder/x", "--html", "/dev/null"],
            "the folder no/such/folder does not exist",
        ),
    ] {
        let (code, errors) = refused(&[&run[..], &flags[..]].concat());
        assert_eq!(code, 2, "{errors}");
        assert!(errors.contains(expected), "{errors}");
    }
    assert!(!inside.exists());
}

#[test]
fn an_interrupted_run_writes_what_it_measured() {
    let folder = tempfile::tempdir().unwrap();
    let [log, html] = ["run.hlog", "run.html"].map(|name| folder.path().join(name));
    let flags = ["--hdr-log", log.to_str().unwrap(), "--html", html.to_str().unwrap()];
    let command = "load null --duration 1h --warmup 100ms";
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let child = Command::new(env!("CARGO_BIN_EXE_robinhood"))
        .args(command.split(' ').chain(MODEST.split(' ')))
        .args(flags)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let mut running = Running(child);
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    running.interrupt();
    assert!(!intervals(&log)["run-latency"][0].2.is_empty());
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.contains("interrupted: the figures cover what was measured"), "{page}");
}

/// What a terminal of 24 lines and 90 columns got, from a run with these flags.
fn on_a_terminal(flags: &str) -> Option<String> {
    let command = format!(
        "stty rows 24 cols 90; exec {} load null --duration 2s --warmup 1s {MODEST} {flags}",
        env!("CARGO_BIN_EXE_robinhood")
    );
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let output = Command::new("script").args(["-qec", &command, "/dev/null"]).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Begins the other screen of a terminal.
const OTHER_SCREEN: &str = "\u{1b}[?1049h";

#[test]
fn a_terminal_shows_the_run_while_it_lasts_and_a_file_does_not() {
    let Some(shown) = on_a_terminal("") else {
        eprintln!("skipped: no `script` to make a terminal with");
        return;
    };
    let drawn = shown.split(OTHER_SCREEN).nth(1).expect("it draws on a screen of its own");
    let (drawn, after) = drawn.split_once("\u{1b}[?1049l").expect("it gives the screen back");
    for part in ["requests/s", "1,000", "lateness", "q or Ctrl-C"] {
        assert!(drawn.contains(part), "{part} is missing in {drawn}");
    }
    assert!(drawn.contains("warm-up") || drawn.contains("measuring"), "{drawn}");
    assert!(after.contains("microseconds"), "the result comes after it: {after}");
    let quiet = on_a_terminal("--no-view").expect("it was there before");
    assert!(!quiet.contains(OTHER_SCREEN) && quiet.contains("microseconds"), "{quiet}");
    assert_eq!(load(&[]).matches('\u{1b}').count(), 0);
}
