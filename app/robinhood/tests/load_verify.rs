//! `robinhood load verify` as a user meets it.
#![cfg(target_os = "linux")]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use serde_json::Value;
use support::{Running, read_json, refused, robinhood};

/// Client and server keep a processor each: two of these tests at once would measure each other.
static PROCESSORS: Mutex<()> = Mutex::new(());

fn is_not_permitted(error: &str) -> bool {
    error.contains("tcpdump may not capture") || error.contains("Debian package `tcpdump`")
}

#[test]
fn mistakes_are_said_before_anything_runs() {
    let cases: [(&[&str], i32, &str); 7] = [
        (&["null"], 2, "give --rate-low and --rate-high"),
        (&["redis"], 2, "possible values: memcached, null"),
        (&["null", "--target", "127.0.0.1:1"], 2, "--rate-low"),
        (&["null", "--rate-low", "0/s"], 2, "above 0"),
        (
            &["null", "--rate-low", "1/s", "--rate-high", "2/s", "--json", "/no/such/folder/x"],
            2,
            "does not exist",
        ),
        (
            &["null", "--target", "unix:/x", "--rate-low", "1/s", "--rate-high", "2/s"],
            2,
            "only to an address",
        ),
        (
            &["null", "--rate-low", "1000/s", "--rate-high", "1000000/s", "--ring", "1MiB"],
            1,
            "need a capture ring of",
        ),
    ];
    for (arguments, expected, message) in cases {
        let (code, error) = refused(&[&["load", "verify"], arguments].concat());
        assert_eq!(code, expected, "{arguments:?}: {error}");
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
}

#[test]
fn every_request_is_compared_and_the_result_says_what_was_found() {
    let _alone = PROCESSORS.lock();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (json, svg) = (path("verify.json"), path("verify.svg"));
    let rates = ["--rate-low", "400/s", "--rate-high", "2000/s"];
    let lengths = ["--duration", "1s", "--warmup", "100ms", "--ring", "64MiB"];
    let more = ["--kernel-stamps", "--plant-delay", "1ms", "--json", &json, "--svg", &svg];
    let arguments = [&["load", "verify", "null"], &rates[..], &lengths, &more].concat();
    let output = robinhood(&arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    // A machine that others keep busy gives nothing to compare, and the command says so.
    let busy = ["needed for an interval", "too few to compare", "to be compared: lower the rate"];
    if is_not_permitted(&error) || busy.iter().any(|refusal| error.contains(refusal)) {
        eprintln!("skipped: {error}");
        return;
    }
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.is_empty(), "{error}");
    let document = read_json(folder.path().join("verify.json").as_path());
    // A busy machine may well not pass; the verdict must say so, everywhere alike.
    let verified = document["verified"].as_bool().unwrap();
    assert_eq!(output.status.code(), Some(i32::from(!verified)), "{error}");
    assert_eq!(text.starts_with("verified:"), verified, "{text}");
    assert_eq!(document["failures"].as_array().unwrap().is_empty(), verified);
    for level in [&document["low"], &document["high"], &document["planted"]["level"]] {
        let count = |key: &str| level["result"][key].as_u64().unwrap();
        // A machine that is busy with other things may well be too slow for some of them.
        assert!(
            count("scheduled") > 300 && count("completed") > 0,
            "{}",
            level["result"]["scheduled"]
        );
        assert!(level["packets"].as_u64().unwrap() > 0);
        let clockings: Vec<&Value> =
            level["compared"].as_array().unwrap().iter().map(|set| &set["clocking"]).collect();
        assert_eq!(clockings, ["send", "due", "kernel"]);
        for set in level["compared"].as_array().unwrap() {
            let offset = &set["points"][0]["offset"];
            let [ns, low_ns, high_ns] =
                ["ns", "low_ns", "high_ns"].map(|key| offset[key].as_f64().unwrap());
            assert!(low_ns <= high_ns && ns.is_finite(), "{set}");
        }
    }
    assert_eq!(document["planted"]["delay_ns"], 1_000_000);
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert_eq!(picture.matches("<polyline").count(), 9);
    assert!(picture.contains("high, 2000/s, by the kernel"), "{picture}");
}

#[test]
fn ctrl_c_ends_it_and_the_capture_with_it() {
    let _alone = PROCESSORS.lock();
    let mut command = Command::new(env!("CARGO_BIN_EXE_robinhood"));
    command.args(["load", "verify", "null", "--rate-low", "100/s", "--rate-high", "200/s"]);
    command.args(["--duration", "600s", "--ring", "200MiB"]);
    let child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut running = Running(child);
    let mut lines = BufReader::new(running.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().starts_with("low: 100/s for 600 s, captured"));
    let children = format!("/proc/{0}/task/{0}/children", running.0.id());
    let started = || std::fs::read_to_string(&children).is_ok_and(|list| !list.is_empty());
    while !started() && running.0.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let capture = std::fs::read_to_string(&children).unwrap_or_default();
    let code = running.interrupt();
    let error: Vec<String> = lines.collect();
    let error = error.join(" ");
    if is_not_permitted(&error) {
        eprintln!("skipped: {error}");
        return;
    }
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("interrupted: nothing was verified"), "{error}");
    let capture = capture.trim();
    assert!(!capture.is_empty() && !std::path::Path::new(&format!("/proc/{capture}")).exists());
}
