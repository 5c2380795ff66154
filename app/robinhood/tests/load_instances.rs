//! Several processes of `robinhood load` against one server, and `robinhood load combine`.
#![cfg(target_os = "linux")]

mod support;

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use serde_json::Value;
use support::{Running, read_json, refused, robinhood};

fn start(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_robinhood"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts")
}

/// A null server and where it listens.
fn server() -> (Running, String) {
    let mut child = start(&["load", "serve", "null", "--listen", "127.0.0.1:0"]);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split_whitespace().find(|word| word.starts_with("127.0.0.1:"));
    let address = address.unwrap_or_else(|| panic!("no address in {line}")).to_owned();
    (Running(child), address)
}

/// Two instances that start together; the files of their results.
fn run_both(folder: &Path) -> [String; 2] {
    let (mut server, target) = server();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let start_at = (now.as_secs_f64() + 2.0).to_string();
    let files = ["a.json", "b.json"].map(|name| folder.join(name).to_str().unwrap().to_owned());
    let flags = "--rate 2000/s --clients 2 --connections 2 --warmup 200ms --duration 3s --sleep --cpu any --priority usual";
    let instances = [("1/2", &files[0]), ("2/2", &files[1])].map(|(instance, file)| {
        let mut words = vec!["load", "null", "--target", &target, "--start-at", &start_at];
        words.extend(flags.split(' ').chain(["--instance", instance, "--json", file]));
        Running(start(&words))
    });
    for mut instance in instances {
        instance.0.wait().unwrap(); // a busy machine may make it late, and so invalid
    }
    assert_eq!(server.interrupt(), Some(0));
    files
}

fn sum(parts: &[Value], key: &str) -> u64 {
    parts.iter().map(|part| part[key].as_u64().unwrap()).sum()
}

/// The value at a rank of the buckets of several histograms, as wide as the bucket is.
fn at_quantile(parts: &[Value], quantile: f64) -> (f64, f64) {
    let buckets =
        parts.iter().flat_map(|part| part["histograms"]["latency_ns"].as_array().unwrap());
    let mut buckets: Vec<[u64; 3]> =
        buckets.map(|bucket| serde_json::from_value(bucket.clone()).unwrap()).collect();
    buckets.sort_unstable();
    let count: u64 = buckets.iter().map(|bucket| bucket[2]).sum();
    let rank = (quantile * count as f64).ceil() as u64;
    let mut before = 0;
    let [low, width, _] = *buckets
        .iter()
        .find(|bucket| {
            before += bucket[2];
            before >= rank
        })
        .unwrap();
    (low as f64 / 1e3, (low + width) as f64 / 1e3)
}

#[test]
fn two_instances_start_together_and_combine_to_their_sum() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = run_both(folder.path());
    let both = folder.path().join("both.json");
    let output = robinhood(&["load", "combine", &b, &a, "--json", both.to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("median of clients") && text.contains("client 3"), "{text}");
    let parts = [read_json(Path::new(&a)), read_json(Path::new(&b))];
    let both = read_json(&both);
    assert_eq!(parts[0]["started_unix_s"], parts[1]["started_unix_s"]);
    assert_ne!(parts[0]["histograms"], parts[1]["histograms"]);
    for key in ["scheduled", "sent", "completed", "refused", "unsent", "late_answers"] {
        assert_eq!(both[key], sum(&parts, key), "{key}");
    }
    assert!(both["completed"].as_u64().unwrap() > 4_000, "2000/s for 3 s: {}", both["completed"]);
    assert_eq!(both["rate_per_s"], 2_000.0);
    let numbers: Vec<u64> = both["per_client"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
    if sum(&parts, "completed") == sum(&parts, "scheduled") {
        for (key, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
            let (low, high) = at_quantile(&parts, quantile);
            let combined = both["latency_us"][key].as_f64().unwrap();
            assert!((low..=high).contains(&combined), "{key}: {combined}, not {low} to {high}");
        }
    }
    let max = parts.iter().map(|part| part["latency_us"]["max"].as_f64().unwrap());
    assert_eq!(both["latency_us"]["max"].as_f64(), max.reduce(f64::max));
    let p50 = |client: &Value| client["latency_us"]["p50"].as_f64().unwrap();
    let mean = both["per_client"].as_array().unwrap().iter().map(p50).sum::<f64>() / 4.0;
    let told = both["latency_us_mean_of_clients"]["p50"].as_f64().unwrap();
    assert!((mean - told).abs() < 1e-9 * mean, "{mean} {told}");
    let valid = parts.iter().all(|part| part["valid"] == true);
    assert_eq!(both["valid"], valid);
    assert_eq!(output.status.code(), Some(i32::from(!valid)));
    refusals(folder.path(), &a, &both);
}

/// What does not go together with a good result.
fn refusals(folder: &Path, good: &str, combined: &Value) {
    let combine = |with: &str| refused(&["load", "combine", good, with]);
    let written = Cell::new(0);
    let write = |value: &Value| {
        let path = folder.join(format!("other-{}.json", written.replace(written.get() + 1)));
        std::fs::write(&path, value.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let changed = |key: &str, value: Value| {
        let mut other = read_json(Path::new(good));
        other["instance"]["number"] = 2.into();
        other[key] = value;
        write(&other)
    };
    let refusals = [
        (good.to_owned(), "the same seed and are both instance 1/2"),
        (write(&Value::from(7)), "no result of a load test"),
        (write(&serde_json::json!({"schema": "robinhood.simulate/1"})), "not `robinhood.load/1`"),
        (write(&serde_json::json!({"schema": "robinhood.load/1"})), "missing field"),
        (folder.join("absent.json").to_str().unwrap().to_owned(), "cannot read"),
        (write(combined), "a combination already"),
        (changed("protocol", "resp".into()), "the protocol resp"),
        (changed("target", "10.0.0.1:7".into()), "the target 10.0.0.1:7"),
        (changed("rate_per_s", 10.into()), "a rate of each client of 5.000/s"),
        (changed("duration_s", 4.into()), "a measured duration of 4 s"),
        (changed("pipelined", true.into()), "--pipelined true"),
        (changed("sent", 3.into()), "its counts do not add up"),
    ];
    for (file, message) in refusals {
        let (code, error) = combine(&file);
        assert!(code == 1 && error.contains(message), "{message}: {error}");
    }
}
