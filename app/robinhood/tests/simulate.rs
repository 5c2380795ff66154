//! `robinhood simulate` as a user meets it: documents, tables, warnings, Ctrl-C.

#[path = "support/keys.rs"]
mod keys;
mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use keys::collect_keys;
use support::{Running, read_json, refused, robinhood};

/// A run that succeeds.
fn simulate(arguments: &[&str]) -> Output {
    let output = robinhood(&[&["simulate"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn one_thread_and_two_write_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let run = |threads: &str| {
        let [json, csv] =
            ["json", "csv"].map(|kind| folder.path().join(threads).with_extension(kind));
        let what = ["--workload", "demo", "--policy", "all", "--seed", "1..2", "--duration", "15s"];
        let files =
            ["--no-timing", "--json", json.to_str().unwrap(), "--csv", csv.to_str().unwrap()];
        let table = stdout(&simulate(&[&what[..], &files, &["--threads", threads]].concat()));
        (std::fs::read(json).unwrap(), std::fs::read(csv).unwrap(), table)
    };
    let (one, two) = (run("1"), run("2"));
    assert!(one == two, "one core and two differ");
    let document: Value = serde_json::from_slice(&one.0).unwrap();
    assert_eq!(document["schema"], "robinhood.simulate/1");
    assert_eq!(document["runs"].as_array().unwrap().len(), 14);
    for key in [
        "slo_violation_ratio",
        "p99_worst_ms",
        "p99_mean_ms",
        "p90_violation_ratio",
        "dominant_rbc_share_mean",
        "load_growth_max",
    ] {
        assert!(document["policies"]["robinhood"][key].is_f64(), "{key}");
    }
    for key in ["bytes_moved", "requests", "queries"] {
        assert!(document["policies"]["robinhood"][key].is_u64(), "{key}");
    }
    assert!(document.get("timing").is_none() && document["complete"] == true);
}

/// The command of the page that explains it.
#[test]
fn the_page_of_the_command_names_every_key_and_column_that_its_example_writes() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulate.md");
    let page = std::fs::read_to_string(page).unwrap();
    let line = page.lines().find(|line| line.starts_with("robinhood simulate --")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let arguments: Vec<String> = line
        .split(' ')
        .skip(2)
        .map(|word| if word.starts_with("result.") { file(word) } else { word.to_owned() })
        .collect();
    simulate(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let is_named = |key: &str| page.contains(&format!("`{key}`"));
    let mut keys = Vec::new();
    collect_keys(&read_json(Path::new(&file("result.json"))), &["policies"], &mut keys);
    assert!(keys.len() > 40, "{keys:?}");
    assert!(keys.iter().all(|key| is_named(key)), "{:?}", keys.iter().find(|key| !is_named(key)));
    let csv = std::fs::read_to_string(file("result.csv")).unwrap();
    let mut rows = csv.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let header = rows.next().unwrap();
    assert!(header.iter().all(|column| is_named(column)), "{header:?}");
    let (mut requests, mut backends) = (0, 0);
    for row in rows {
        assert_eq!(row.len(), header.len(), "{row:?}");
        let is_backend = !row[3].is_empty();
        assert_eq!(row[4..8].iter().all(|cell| cell.is_empty()), is_backend, "{row:?}");
        assert_eq!(row[9].parse::<f64>().is_ok(), is_backend, "{row:?}");
        *(if is_backend { &mut backends } else { &mut requests }) += 1;
    }
    // 20 s in steps of half a second, two seeds, seven policies, six backends.
    assert_eq!((requests, backends), (40 * 14, 40 * 14 * 6));
}

#[test]
fn the_table_marks_the_best_policy_and_draws_the_tail() {
    let arguments = ["--workload", "demo", "--policy", "shared,robinhood", "--duration", "60s"];
    let table = stdout(&simulate(&arguments));
    assert!(table.contains("robinhood *") && !table.contains("shared *"), "{table}");
    let line = table.lines().find(|line| line.starts_with("shared") && line.contains('▅')).unwrap();
    assert_eq!(line.split_whitespace().nth(1).unwrap().chars().count(), 60, "{line}");
    assert!(!table.contains('\u{1b}'), "no colours");
}

#[test]
fn doubts_are_data_and_lines_under_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    let what = ["--workload", "demo", "--policy", "equal", "--budget", "48KiB", "--slo", "100ms"];
    let length = ["--duration", "40s", "--percentile", "99.9", "--json", json.to_str().unwrap()];
    let table = stdout(&simulate(&[&what[..], &length].concat()));
    let document = read_json(&json);
    assert_eq!(document["complete"], true);
    let kinds: Vec<&str> = document["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|warning| warning["kind"].as_str().unwrap())
        .collect();
    for kind in ["few-requests", "overloaded-backend", "refused-objects"] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    for text in ["requests above P99.9", "more work than the servers of", "too large"] {
        assert!(table.contains(text), "{table}");
    }
}

#[test]
fn a_run_too_short_for_an_observation_has_dashes_and_nulls() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    let what = ["--workload", "demo", "--policy", "shared,robinhood", "--slo", "40ms"];
    let length = ["--duration", "400ms", "--json", json.to_str().unwrap()];
    let table = stdout(&simulate(&[&what[..], &length].concat()));
    let row = table.lines().find(|line| line.starts_with("robinhood")).unwrap();
    let dashes = row.split_whitespace().filter(|&cell| cell == "-").count();
    assert_eq!(dashes, 8, "all but its name and the bytes moved: {table}");
    assert!(!table.contains("over time") && !table.contains('*'), "{table}");
    let figures = &read_json(&json)["policies"]["robinhood"];
    assert!(figures["slo_violation_ratio"].is_null() && figures["p99_worst_ms"].is_null());
    assert!(figures["latency_ms"]["p99"].as_f64().unwrap() > 0.0, "requests were answered");
}

#[test]
fn seeds_keep_the_order_in_which_they_are_typed_and_run_once() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    let what = ["--workload", "demo", "--policy", "shared,equal", "--duration", "2s"];
    let seeds = ["--seed", "3,1,3,2", "--json", json.to_str().unwrap()];
    let output = simulate(&[&what[..], &seeds].concat());
    assert!(String::from_utf8_lossy(&output.stderr).contains("seed 3,1,2\n"));
    assert!(stdout(&output).contains("\nseed 3\n"), "{}", stdout(&output));
    let document = read_json(&json);
    assert_eq!((&document["seed"], &document["seeds"]), (&3.into(), &vec![3, 1, 2].into()));
    assert_eq!(document["scale"], "1", "demo is not scaled");
    let seeds: Vec<u64> = document["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["seed"].as_u64().unwrap())
        .collect();
    assert_eq!(seeds, [3, 3, 1, 1, 2, 2]);
}

#[test]
fn what_cannot_run_is_said_before_the_first_run() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    let what = ["simulate", "--workload", "demo", "--policy", "shared,static", "--seed", "1..1000"];
    let length = ["--slo", "40ms", "--duration", "2s", "--json", json.to_str().unwrap()];
    let (code, error) = refused(&[&what[..], &length].concat());
    assert_eq!(code, 78);
    assert!(error.contains("shorter than a control period of 500 ms"), "{error}");
    assert_eq!(error.lines().count(), 1, "no run has begun: {error}");
}

#[test]
fn a_time_scale_that_cannot_work_is_refused_with_the_range_that_does() {
    let refusal = |workload: &str, policy: &str, scale: &str| {
        let what = ["--workload", workload, "--policy", policy, "--time-scale", scale];
        let (code, error) = refused(&[&["simulate"], &what[..]].concat());
        assert!(code == 2 && error.contains(&format!("--time-scale {scale}")), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    for scale in ["1000", "101", "0.016"] {
        assert!(refusal("onerf", "shared,robinhood", scale).contains("from 0.016667 to 100:"));
    }
    for scale in ["1000", "10.1", "0.0016"] {
        assert!(refusal("demo", "shared,equal", scale).contains("from 0.001667 to 10:"));
    }
    assert!(refusal("demo", "shared", "101").contains(" to 100, and `demo` is"));
    assert!(refusal("onerf", "shared", "0.0001").contains("from 0.001"), "of 100 days");
    // The ends of what is said to work.
    let ends = [
        ("shared,static", "10", "3s"),
        ("shared,robinhood", "0.001667", "20ms"),
        ("shared", "100", "30s"),
    ];
    for (policy, scale, duration) in ends {
        let what = ["--workload", "demo", "--policy", policy, "--time-scale", scale];
        simulate(&[&what[..], &["--duration", duration]].concat());
    }
}

#[test]
fn files_that_cannot_both_be_written_are_refused_before_the_run() {
    let (code, error) = refused(&["simulate", "--json", "same", "--csv", "same"]);
    assert_eq!(code, 2);
    assert!(error.contains("the same file"), "{error}");
}

#[test]
fn the_percentile_and_the_time_scale_change_what_is_measured_and_how_long() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, more: &[&str]| {
        let path = folder.path().join(name);
        let arguments =
            ["simulate", "--workload", "demo", "--policy", "shared", "--duration", "30s"];
        let files = ["--slo", "40ms", "--json", path.to_str().unwrap()];
        let output = robinhood(&[&arguments[..], &files, more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        read_json(&path)
    };
    let (p99, p95) = (run("99.json", &[]), run("95.json", &["--percentile", "95"]));
    let figure =
        |document: &Value, key: &str| document["policies"]["shared"][key].as_f64().unwrap();
    assert!(figure(&p95, "slo_violation_ratio") < figure(&p99, "slo_violation_ratio"));
    assert!(figure(&p95, "tail_worst_ms") < figure(&p99, "tail_worst_ms"));
    assert_eq!(
        p95["policies"]["shared"]["p99_worst_ms"],
        p99["policies"]["shared"]["p99_worst_ms"]
    );
    let fast = run("fast.json", &["--time-scale", "2"]);
    assert_eq!((&fast["time_scale"], &fast["measured_seconds"]), (&20.0.into(), &15.0.into()));
    let requests = |document: &Value| figure(document, "requests");
    assert!((requests(&p99) / requests(&fast) - 2.0).abs() < 0.1);
}

#[test]
fn the_report_is_one_file_with_all_policies_and_the_same_figures_as_the_json() {
    let folder = tempfile::tempdir().unwrap();
    let [json, html] = ["json", "html"].map(|kind| folder.path().join("run").with_extension(kind));
    let what = ["--workload", "demo", "--policy", "all", "--duration", "30s", "--no-timing"];
    let files = ["--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()];
    let table = stdout(&simulate(&[&what[..], &files].concat()));
    let html = std::fs::read_to_string(html).unwrap();
    for policy in ["robinhood", "static", "cliffhanger", "fair", "lama", "equal", "shared"] {
        for id in [format!("id=\"{policy}-rbc-wide-t\""), format!("id=\"{policy}-cache-narrow-t\"")]
        {
            assert!(html.contains(&id), "{id} is missing");
        }
        assert!(
            policy == "robinhood" || html.contains(&format!("requests: robinhood, {policy}</b>"))
        );
    }
    let row = table.lines().find(|line| line.starts_with("shared ")).unwrap();
    for cell in row.split("  ").map(str::trim).filter(|cell| cell.ends_with(" ms")) {
        assert!(html.contains(&format!("<td>{cell}</td>")), "{cell} of the table is missing");
    }
    let start = html.split("id=\"robinhood-simulate\">").nth(1).unwrap();
    let embedded = start.split("</script>").next().unwrap();
    assert_eq!(serde_json::from_str::<Value>(embedded).unwrap(), read_json(&json));
    for outside in ["http:", "https:", "src=", "@import", "NaN"] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn all_policies_simulate_on_the_same_requests() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.json");
    let arguments = ["simulate", "--workload", "demo", "--policy", "all", "--duration", "15s"];
    let output = robinhood(&[&arguments[..], &["--json", path.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document = read_json(&path);
    let policies = document["policies"].as_object().unwrap();
    let names: Vec<&str> = policies.keys().map(String::as_str).collect();
    assert_eq!(names, ["cliffhanger", "equal", "fair", "lama", "robinhood", "shared", "static"]);
    let requests: Vec<_> = policies.values().map(|figures| &figures["requests"]).collect();
    assert!(requests.windows(2).all(|pair| pair[0] == pair[1]), "{requests:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(names.iter().all(|name| table.contains(&format!("hits {name}"))), "{table}");
}

#[test]
fn ctrl_c_keeps_what_is_done_and_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("result.json");
    let mut child = Command::new(env!("CARGO_BIN_EXE_robinhood"))
        .args(["simulate", "--workload", "demo", "--seed", "1..1000", "--threads", "1"])
        .args(["--json", json.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut error = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut child = Running(child);
    assert!(error.next().unwrap().unwrap().contains("seed 1..1000"), "the runs begin");
    std::thread::sleep(Duration::from_secs(2)); // one is under way
    assert_eq!(child.interrupt(), Some(1));
    let said: Vec<String> = error.map(|line| line.unwrap()).collect();
    let last = said.last().unwrap();
    assert!(last.contains("not begun: ") && last.contains("of 3000 runs are complete"), "{said:?}");
    let document = read_json(&json);
    assert_eq!(document["complete"], false);
    let count = |key: &str| document[key].as_array().unwrap().len();
    assert!(count("runs") > 0 && count("runs") + count("missing") == 3_000);
    assert_eq!(document["missing"].as_array().unwrap().last().unwrap()["seed"], 1_000);
}

#[test]
fn a_sweep_runs_every_value_and_the_page_names_its_keys() {
    let folder = tempfile::tempdir().unwrap();
    let [json, html] = ["s.json", "s.html"].map(|name| folder.path().join(name));
    let what = ["--workload", "demo", "--policy", "shared,static", "--duration", "20s"];
    let sweep = ["--sweep", "budget=25%,100%", "--slo", "80ms", "--seed", "1..2"];
    let files = ["--json", json.to_str().unwrap(), "--html", html.to_str().unwrap()];
    let table = stdout(&simulate(&[&what[..], &sweep, &files].concat()));
    assert!(table.lines().any(|line| line.starts_with("25%")), "{table}");
    let document = read_json(&json);
    assert_eq!(
        (&document["schema"], &document["complete"]),
        (&"robinhood.simulate-sweep/1".into(), &true.into())
    );
    let values = document["values"].as_array().unwrap();
    let ratio =
        |value: &Value| value["policies"]["shared"]["slo_violation_ratio"].as_f64().unwrap();
    assert!(ratio(&values[0]) > ratio(&values[1]), "a quarter of the cache is worse");
    assert_eq!(values[1]["slo_violation_ratio_by_seed"]["static"].as_array().unwrap().len(), 2);
    assert!(std::fs::read_to_string(html).unwrap().contains("Violations by budget"));
    let found = folder.path().join("f.json");
    let what = ["--workload", "demo", "--policy", "shared", "--duration", "15s", "--slo", "80ms"];
    let find = ["--find", "budget", "--as-good-as", "equal", "--up-to", "25"];
    let text =
        stdout(&simulate(&[&what[..], &find, &["--json", found.to_str().unwrap()]].concat()));
    assert!(text.contains("over 25 %") && text.contains("are not enough"), "{text}");
    let found = read_json(&found);
    assert!(found["found"][0]["needed_percent"].is_null());
    assert_eq!(found["found"][0]["tried"].as_array().unwrap().len(), 1, "the most is tried first");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulate.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut keys = Vec::new();
    let maps = ["policies", "slo_violation_ratio_by_seed"];
    [&document, &found].into_iter().for_each(|document| collect_keys(document, &maps, &mut keys));
    let unnamed = keys.iter().find(|key| !page.contains(&format!("`{key}`")));
    assert_eq!(unnamed, None);
}

#[test]
fn sweeps_and_searches_that_make_no_sense_are_refused() {
    for (arguments, code, part) in [
        (&["--sweep", "size=1"][..], 2, "there are budget, step"),
        (&["--sweep", "step=50%"], 78, "step"),
        (&["--workload", "demo", "--sweep", "budget=50%"], 2, "say --slo"),
        (&["--find", "budget"], 2, "--as-good-as"),
        (&["--up-to", "200"], 2, "--find"),
    ] {
        let (found, message) = refused(&[&["simulate"], arguments].concat());
        assert_eq!(found, code, "{arguments:?}: {message}");
        assert!(message.contains(part), "{message}");
    }
}
