//! Workload files as a user meets them: shown, edited, simulated, calibrated, refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn robinhood(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_robinhood"))
        .args(arguments)
        .output()
        .expect("the binary starts")
}

/// Standard output of a call that succeeds.
fn printed(arguments: &[&str]) -> String {
    let output = robinhood(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/workloads/shop.toml")
}

fn write(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The deterministic part of a short simulation under two policies.
fn simulated(folder: &TempDir, workload: &str, length: [&str; 4]) -> Value {
    let json = folder.path().join("out.json").to_str().unwrap().to_owned();
    let fixed = ["simulate", "--policy", "shared,robinhood", "--no-timing", "--json", &json];
    printed(&[&fixed[..], &["--workload", workload], &length[..]].concat());
    serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap()
}

#[test]
fn a_shown_preset_gives_the_same_results_as_the_preset() {
    let folder = TempDir::new().unwrap();
    let length = ["--duration", "40s", "--warmup", "10s"];
    for name in ["demo", "random"] {
        let file = write(&folder, "shown.toml", &printed(&["workload", "show", name]));
        let (preset, file) = (simulated(&folder, name, length), simulated(&folder, &file, length));
        assert_eq!(preset["runs"], file["runs"], "{name}");
        assert_eq!(preset["workload"], file["workload"], "{name}");
    }
}

#[test]
fn the_example_runs_with_every_policy_and_static_learns_from_the_file_itself() {
    let path = example();
    let table = printed(&[
        "simulate",
        "--policy",
        "all",
        "--workload",
        path.to_str().unwrap(),
        "--duration",
        "6m",
        "--warmup",
        "1m",
    ]);
    for word in ["static", "cliffhanger", "recommendations"] {
        assert!(table.contains(word), "{word} is not in\n{table}");
    }
}

#[test]
fn a_backend_that_no_request_queries_is_warned_of() {
    let folder = TempDir::new().unwrap();
    let idle = "\n[[backends]]\nname = \"idle\"\nkind = \"compute\"\ncatalogue = 10\n\
        popularity = { zipf = 1.0 }\nsizes = { fixed = \"1KB\" }\nservice = \"1ms\"\nservers = 2\n";
    let file = write(&folder, "idle.toml", &(printed(&["workload", "show", "demo"]) + idle));
    let document = simulated(&folder, &file, ["--duration", "40s", "--warmup", "10s"]);
    let warnings = document["warnings"].as_array().unwrap();
    let about: Vec<&Value> = warnings.iter().filter(|w| w["kind"] == "unqueried-backend").collect();
    assert!(about.len() == 1 && about[0]["backend"] == "idle", "{warnings:?}");
}

#[test]
fn calibrate_prints_the_file_with_other_servers_and_a_table_beside_it() {
    let folder = TempDir::new().unwrap();
    let text = std::fs::read_to_string(example()).unwrap();
    let text = text.replace("\"1h\"", "\"2m\"").replace("\"10m\"", "\"1m\"");
    for named in ["news-pop.json", "news-sizes.json"] {
        std::fs::copy(example().with_file_name(named), folder.path().join(named)).unwrap();
    }
    let file = write(&folder, "short.toml", &text.replace("servers = 5", "servers = 50"));
    let output = robinhood(&["workload", "calibrate", &file]);
    let table = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{table}");
    assert!(table.contains("utilisation") && table.contains("recommendations"), "{table}");
    let calibrated = String::from_utf8(output.stdout).unwrap();
    assert!(
        !calibrated.contains("servers = 50") && calibrated.contains("# a page of the catalogue")
    );
    let again = write(&folder, "calibrated.toml", &calibrated);
    assert_eq!(printed(&["workload", "show", &again]), calibrated);
    assert_eq!(printed(&["workload", "calibrate", &again]), calibrated);
}

#[test]
fn mistakes_in_files_end_with_78_and_those_about_files_with_2() {
    let folder = TempDir::new().unwrap();
    let good = printed(&["workload", "show", "demo"]);
    let bad = write(&folder, "bad.toml", &good.replacen("speed = 1.0", "sped = 1.0", 1));
    let alone = write(&folder, "alone.toml", &std::fs::read_to_string(example()).unwrap());
    let good = write(&folder, "good.toml", &good);
    let missing = folder.path().join("no.toml").to_str().unwrap().to_owned();
    let cases: [(&[&str], i32, &str); 8] = [
        (&["simulate", "--workload", &bad], 78, "bad.toml, line 23: `backends[0].sped`"),
        (&["workload", "show", &bad], 78, "did you mean `speed`?"),
        (&["workload", "show", &alone], 78, "cannot read `news-pop.json`"),
        (&["workload", "calibrate", &good], 78, "no backend of workload `demo` has a target"),
        (&["simulate", "--workload", &good, "--scale", "1/2"], 2, "--scale is for presets"),
        (&["simulate", "--workload", "demo", "--scale", "1/2"], 2, "--scale is for presets"),
        (&["workload", "show", &missing], 2, "cannot read"),
        (&["workload", "show", "onrf"], 2, "the presets are onerf"),
    ];
    for (arguments, code, words) in cases {
        let output = robinhood(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(words) && error.lines().count() == 1, "{words}: {error}");
        assert!(output.stdout.is_empty(), "{arguments:?} printed a result");
    }
}
