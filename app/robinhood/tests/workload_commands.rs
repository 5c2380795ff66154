//! `robinhood workload generate`, `convert` and `inspect` as a user meets them: files, counts, exit codes, messages, Ctrl-C.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

fn workload(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_robinhood"))
        .arg("workload")
        .args(arguments)
        .output()
        .expect("the binary starts")
}

/// Standard output of a call that succeeds.
fn done(arguments: &[&str]) -> String {
    let output = workload(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Exit code and standard error of a call that fails.
fn refused(arguments: &[&str]) -> (i32, String) {
    let output = workload(arguments);
    assert!(output.stdout.is_empty(), "{arguments:?} printed a result");
    (output.status.code().expect("it ended by itself"), String::from_utf8(output.stderr).unwrap())
}

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/traces/sample.jsonl")
}

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_trace_is_generated_in_either_format_and_both_are_the_same_requests() {
    let folder = Folder::new();
    let [lines, binary, back] = ["a.jsonl", "a.rht", "back.jsonl"].map(|name| folder.path(name));
    let generate = |path: &str| {
        done(&["generate", "demo", "--requests", "300", "--seed", "3", "--output", path])
    };
    let said = generate(&lines);
    assert!(said.contains("JSON lines, 300 requests, "), "{said}");
    assert_eq!(fs::read_to_string(&lines).unwrap().lines().count(), 300);
    assert!(generate(&binary).contains("binary, 300 requests, "));
    assert!(fs::read(&binary).unwrap().starts_with(b"\x89RHT"));
    let said = done(&["convert", &binary, &back]);
    assert!(said.contains("back.jsonl: JSON lines, 300 requests, "), "{said}");
    assert!(fs::read(&lines).unwrap() == fs::read(&back).unwrap(), "not the same requests");
    assert_eq!(folder.names(), ["a.jsonl", "a.rht", "back.jsonl"], "and nothing temporary");
}

#[test]
fn a_duration_ends_a_generated_trace_and_the_sample_can_be_made_again() {
    let folder = Folder::new();
    let trace = folder.path("second.jsonl");
    done(&["generate", "demo", "--duration", "2s", "--output", &trace]);
    let text = fs::read_to_string(&trace).unwrap();
    let times: Vec<f64> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["t"].as_f64().unwrap())
        .collect();
    assert!(times.iter().all(|&t| t <= 2.0) && times[times.len() - 1] > 1.9, "{times:?}");
    let sample_again = folder.path("sample.trace");
    let format = ["--format", "jsonl"];
    done(
        &[&["generate", "demo", "--requests", "100", "--output", &sample_again], &format[..]]
            .concat(),
    );
    assert!(fs::read(&sample_again).unwrap() == fs::read(sample()).unwrap());
}

#[test]
fn the_sample_is_the_same_after_conversion_there_and_back() {
    let folder = Folder::new();
    let [binary, back] = ["s.rht", "s.jsonl"].map(|name| folder.path(name));
    done(&["convert", sample().to_str().unwrap(), &binary]);
    done(&["convert", &binary, &back]);
    assert!(fs::read(sample()).unwrap() == fs::read(&back).unwrap());
    let [sizes, again] =
        [sample(), PathBuf::from(&binary)].map(|path| fs::metadata(path).unwrap().len());
    assert!(again * 4 < sizes, "{again} bytes of {sizes}");
}

#[test]
fn inspecting_a_trace_gives_the_same_figures_in_both_formats_and_as_json() {
    let folder = Folder::new();
    let [binary, json, json_of_binary] =
        ["s.rht", "s.json", "b.json"].map(|name| folder.path(name));
    let sample = sample().to_str().unwrap().to_owned();
    done(&["convert", &sample, &binary]);
    let table = done(&["inspect", &sample, "--json", &json]);
    done(&["inspect", &binary, "--json", &json_of_binary]);
    let read = |path: &str| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let (mut figures, mut of_binary) = (read(&json), read(&json_of_binary));
    assert_eq!(figures["schema"], "robinhood.inspect/1");
    assert_eq!((&figures["kind"], &figures["requests"]), (&"trace".into(), &100.into()));
    let shares = figures["backends"].as_array().unwrap().iter();
    let shares: f64 = shares.map(|backend| backend["query_share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9);
    assert_eq!(figures["fanout_shares"][0], 0.0);
    for backend in figures["backends"].as_array().unwrap() {
        assert!(table.contains(backend["name"].as_str().unwrap()), "{table}");
    }
    assert!(table.contains("queries to the top 1 % of keys"), "{table}");
    for document in [&mut figures, &mut of_binary] {
        for key in ["file", "format", "file_bytes"] {
            assert!(document.as_object_mut().unwrap().remove(key).is_some());
        }
    }
    assert_eq!(figures, of_binary);
}

#[test]
fn inspecting_a_workload_gives_its_expected_figures() {
    let folder = Folder::new();
    let json = folder.path("onerf.json");
    let table = done(&["inspect", "onerf", "--scale", "1", "--json", &json]);
    assert!(table.contains("application servers") && table.contains("b20"), "{table}");
    let figures: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!((&figures["kind"], &figures["servers"]), (&"workload".into(), &16.into()));
    let per_request = figures["queries_per_request"].as_f64().unwrap();
    assert!((per_request - 26.7).abs() < 0.5, "{per_request}");
    let rate = figures["rate_per_s"].as_f64().unwrap();
    assert!((figures["queries_per_s"].as_f64().unwrap() / rate - per_request).abs() < 1e-9);
}

#[test]
fn a_workload_file_can_be_generated_from_and_inspected() {
    let folder = Folder::new();
    let file = folder.write("own.toml", done(&["show", "demo"]).as_bytes());
    let [of_file, of_preset] = ["file.rht", "preset.rht"].map(|name| folder.path(name));
    for (workload, path) in [(file.as_str(), &of_file), ("demo", &of_preset)] {
        done(&["generate", workload, "--requests", "50", "--output", path]);
    }
    assert!(fs::read(of_file).unwrap() == fs::read(of_preset).unwrap(), "not the same workload");
    assert_eq!(done(&["inspect", &file]), done(&["inspect", "demo"]));
}

#[test]
fn mistakes_on_the_command_line_end_with_2_and_say_what_is_allowed() {
    let folder = Folder::new();
    let (out, sample) = (folder.path("out.rht"), sample());
    let sample = sample.to_str().unwrap();
    let toml = folder.write("w.toml", b"");
    let cases: [(&[&str], &str); 10] = [
        (&["generate", "demo", "--output", &out], "--requests"),
        (&["generate", "demo", "--requests", "0", "--output", &out], "'0'"),
        (&["generate", "demo", "--duration", "5", "--output", &out], "has no unit"),
        (&["generate", "demo", "--duration", "1ns", "--output", &out], "make --duration longer"),
        (&["generate", "demo", "--requests", "9", "--output", "x.txt"], "or say --format"),
        (&["generate", "demo", "--requests", "9", "--output", "/no/such/x.rht"], "does not exist"),
        (&["generate", "nope", "--requests", "9", "--output", &out], "the presets are"),
        (&["convert", sample, &out, "--format", "csv"], "write jsonl (JSON lines) or rht"),
        (&["convert", sample, sample], "the same file"),
        (&["inspect", sample, "--scale", "1"], "--scale is for presets"),
    ];
    for (arguments, message) in cases {
        let (code, error) = refused(arguments);
        assert_eq!(code, 2, "{arguments:?}: {error}");
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
    assert_eq!(refused(&["inspect", &toml]).0, 78, "an empty workload file");
    assert_eq!(folder.names(), ["w.toml"], "nothing is left");
}

/// A binary trace of three requests, as bytes.
fn small_binary(folder: &Folder) -> Vec<u8> {
    let path = folder.path("small.rht");
    done(&["generate", "demo", "--requests", "3", "--output", &path]);
    fs::read(path).unwrap()
}

#[test]
fn a_bad_trace_is_refused_with_file_place_and_reason_and_nothing_is_written() {
    let folder = Folder::new();
    let good = small_binary(&folder);
    let line = "{\"t\": 0, \"d\": [{\"a\": {\"S\": [1], \"U\": [\"k\"], \"C\": [1]}}]}\n";
    let flipped = |place: usize| {
        let mut bytes = good.clone();
        bytes[place] ^= 1;
        bytes
    };
    let cases: [(&str, &[u8], &str); 8] = [
        ("empty.jsonl", b"", "the trace has no request"),
        ("text.jsonl", b"what?\n", "line 1: column 1: not JSON"),
        (
            "second.jsonl",
            &[line.as_bytes(), b"{\"t\": 1}\n"].concat(),
            "line 2: column 8: missing field `d`",
        ),
        ("cut.rht", &good[..good.len() - 1], "before its end mark"),
        ("magic.rht", &flipped(2), "this is no trace"),
        ("version.rht", &flipped(7), "a binary trace of version 0"),
        ("head.rht", &flipped(12), "block 1, byte 8: the head of the block is damaged"),
        ("payload.rht", &flipped(60), "block 1, byte 8: the block is damaged: its checksum"),
    ];
    for (name, bytes, message) in cases {
        let (path, out) = (folder.write(name, bytes), folder.path("out.rht"));
        for arguments in [&["convert", path.as_str(), &out][..], &["inspect", &path]] {
            let (code, error) = refused(arguments);
            assert_eq!(code, 1, "{arguments:?}: {error}");
            assert!(error.contains(message) && error.contains(name), "{arguments:?}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        assert!(!Path::new(&out).exists(), "{name}");
    }
    for arguments in [&["convert", "/no/such.rht", "x.jsonl"][..], &["inspect", "/no/such.rht"]] {
        let (code, error) = refused(arguments);
        assert_eq!(code, 1, "{error}");
        assert!(error.contains("cannot read the trace /no/such.rht"), "{error}");
    }
    assert!(folder.names().iter().all(|name| !name.ends_with(".part")), "{:?}", folder.names());
}

#[test]
fn skip_bad_counts_what_it_leaves_out_and_goes_on() {
    let folder = Folder::new();
    let line = |t: u32| {
        format!("{{\"t\": {t}, \"d\": [{{\"a\": {{\"S\": [1], \"U\": [\"k\"], \"C\": [1]}}}}]}}\n")
    };
    let lines = folder.write("l.jsonl", format!("{}what?\n{}", line(0), line(1)).as_bytes());
    let out = folder.path("out.rht");
    let output = workload(&["convert", "--skip-bad", &lines, &out]);
    assert!(output.status.success());
    let (said, noted) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("binary, 2 requests, 2 queries"), "{said}");
    assert!(noted.contains("skipped 1 malformed lines, at least 1 requests are lost"), "{noted}");

    let mut bytes = fs::read(&out).unwrap();
    bytes.extend_from_slice(b"more");
    let longer = folder.write("longer.rht", &bytes);
    assert!(refused(&["inspect", &longer]).1.contains("bytes follow the end mark"));
    let table = done(&["inspect", "--skip-bad", &longer]);
    assert!(table.contains("bad and skipped") && table.contains("2, 1.00 a request"), "{table}");

    let hopeless = folder.write("hopeless.jsonl", b"what?\nwhy?\n");
    let (code, error) = refused(&["convert", "--skip-bad", &hopeless, &out]);
    assert_eq!(code, 1);
    assert!(error.contains("no request (skipped 2 malformed lines"), "{error}");
}

#[test]
fn ctrl_c_leaves_a_valid_trace_with_what_was_done() {
    for name in ["long.rht", "long.jsonl"] {
        let folder = Folder::new();
        let path = folder.path(name);
        let child = Command::new(env!("CARGO_BIN_EXE_robinhood"))
            .args(["workload", "generate", "demo", "--duration", "9999h", "--output", &path])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let part = format!("{path}.{}.part", child.id());
        let patience = Instant::now();
        while fs::metadata(&part).map_or(0, |metadata| metadata.len()) < 300_000 {
            assert!(patience.elapsed() < Duration::from_secs(60), "nothing is written");
            std::thread::sleep(Duration::from_millis(20));
        }
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        let done_requests = error.split("has the first ").nth(1).expect(&error);
        let done_requests = done_requests.split(' ').next().unwrap();
        let json = folder.path("figures.json");
        done(&["inspect", &path, "--json", &json]);
        let figures: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        assert_eq!(figures["requests"].to_string(), done_requests);
        assert_eq!(folder.names(), ["figures.json", name]);
    }
}

/// The largest difference of hit ratios that `fit` says, in points.
fn points_of(text: &str) -> f64 {
    let line = text.lines().find(|line| line.contains("differ by at most")).unwrap();
    line.split("at most ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_fitted_workload_runs_and_its_requests_are_like_those_of_the_trace() {
    let folder = Folder::new();
    let (trace, fitted) = (folder.path("demo.rht"), folder.path("fitted.toml"));
    done(&["generate", "demo", "--requests", "30000", "--output", &trace]);
    let text = done(&["fit", &trace, "--workload", "demo", "--output", &fitted]);
    assert!(points_of(&text) <= 2.0, "{text}");
    assert!(text.lines().any(|line| line.contains("zipf ")), "{text}");
    let shown = done(&["inspect", &fitted]);
    assert!(shown.contains("fanout"), "{shown}");
    let (code, message) = refused(&["fit", "/dev/null", "--output", &fitted]);
    assert_eq!(code, 2, "{message}");
    assert!(message.contains("read twice"), "{message}");
    let empty = folder.write("empty.jsonl", b"{\"t\": 0, \"d\": []}\n");
    let (code, message) = refused(&["fit", &empty, "--output", &folder.path("no.toml")]);
    assert!(code == 1 && message.contains("no query"), "{code} {message}");
    assert!(!Path::new(&folder.path("no.toml")).exists());
}

#[test]
fn the_trace_of_the_papers_authors_is_fitted_within_two_points() {
    let data = std::env::var("ROBINHOOD_REFERENCE_DATA").map_or_else(
        |_| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let trace = data.join("robinhood-artifact/trace.json");
    if !trace.exists() {
        eprintln!("skipped: {} is not there (ROBINHOOD_REFERENCE_DATA)", trace.display());
        return;
    }
    let folder = Folder::new();
    let text = done(&["fit", trace.to_str().unwrap(), "--output", &folder.path("fitted.toml")]);
    assert!(points_of(&text) <= 2.0, "{text}");
}
