//! The binary as a user meets it: exit codes, messages, files, Ctrl-C.

#[path = "support/keys.rs"]
mod keys;
mod support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use keys::collect_keys;
use serde_json::{Value, json};
use support::{Running, read_json, refused, robinhood};

fn sample_trace() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/traces/sample.jsonl");
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_list_of_workloads_has_every_preset() {
    let output = robinhood(&["workload", "list"]);
    assert!(output.status.success());
    let list = String::from_utf8(output.stdout).unwrap();
    for name in robinhood_workload::presets::NAMES {
        assert!(list.lines().any(|line| line.starts_with(name)), "{name} is not in\n{list}");
    }
}

#[test]
fn mistakes_on_the_command_line_end_with_2_and_say_what_is_allowed() {
    let cases: [(&[&str], &str); 29] = [
        (&["demo", "--budget", "24"], "has no unit"),
        (&["demo", "--policy", "robinhod"], "choose one of robinhood"),
        (&["demo", "--seconds", "0"], "10..=3600"),
        (&["demo", "--advise", "--policy", "shared"], "leave one of them out"),
        (&["demo", "--policy", "cliffhanger"], "only the simulator measures"),
        (&["demo", "--policy", "cliffhanger-credits"], "needs hits in shadow queues"),
        (&["demo", "--policy", "lama-curves"], "needs miss-ratio curves"),
        (
            &["demo", "--policy", "lama-curve"],
            "lama, equal, shared, lama-curves, cliffhanger-credits",
        ),
        (&["demo", "--json", "/no/such/folder/x.json"], "does not exist"),
        (&["demo", "--json", "/dev/null"], "not a regular file"),
        (&["demo", "--json", "same", "--svg", "same"], "the same file"),
        (&["demo", "--trace", "x", "--rate", "0/s"], "above 0"),
        (&["demo", "--port", "70000"], "70000 is not in"),
        (&["demo", "--port", "7071", "--no-page"], "cannot be used with"),
        (&["top", "--target", "localhost"], "invalid socket address"),
        (&["testbed", "serve", "--listen", "localhost"], "invalid socket address"),
        (&["testbed", "serve", "--policy", "cliffhanger"], "only the simulator measures"),
        (&["testbed", "serve", "--workload", "onerf"], "use one made for it, such as `demo`"),
        (&["testbed", "serve", "--seconds", "0"], "invalid value '0'"),
        (&["simulate", "--workload", "nope"], "the presets are onerf"),
        (&["simulate", "--policy", "shared,robinhod"], "unknown policy `robinhod`"),
        (&["simulate", "--scale", "0"], "not a scale"),
        (&["simulate", "--duration", "5"], "has no unit"),
        (&["simulate", "--seed", "3..1"], "does not name seeds"),
        (&["simulate", "--percentile", "100"], "no percentile of a tail"),
        (&["simulate", "--percentile", "0.99"], "no percentile of a tail"),
        (&["simulate", "--time-scale", "0"], "no time scale"),
        (&["simulate", "--threads", "0"], "invalid value '0'"),
        (&["simulate", "--duration", "1h"], "does not go beyond the warm-up"),
    ];
    for (arguments, message) in cases {
        let (code, error) = refused(arguments);
        assert_eq!(code, 2, "{arguments:?}: {error}");
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
}

#[test]
fn top_without_anything_to_see_says_so() {
    let (code, error) = refused(&["top", "--target", "127.0.0.1:1"]);
    assert_eq!(code, 1);
    assert!(error.contains("does `robinhood run` or `demo` run there?"), "{error}");
}

#[test]
fn a_budget_below_the_floors_is_a_configuration_error() {
    let (code, error) = refused(&["demo", "--budget", "10KiB"]);
    assert_eq!(code, 78, "{error}");
    assert!(error.contains("below the floors of its partitions"), "{error}");
}

#[test]
fn a_bad_trace_is_refused_with_file_line_and_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("", "no request"),
        ("not json\n", "line 1"),
        ("{\"t\": 0}\n", "`d`"),
        ("{\"t\":0,\"d\":[{\"a\":{\"S\":[1,2],\"U\":[\"x\"],\"C\":[1]}}]}\n", "2 entries"),
        ("{\"t\":0,\"d\":[{\"a\":{\"S\":[-1],\"U\":[\"x\"],\"C\":[1]}}]}\n", "-1"),
        ("{\"t\":0,\"d\":[],\"x\":1}\n", "`x`"),
    ];
    for (index, (text, message)) in cases.into_iter().enumerate() {
        let trace = folder.path().join(format!("{index}.jsonl"));
        std::fs::write(&trace, text).unwrap();
        let json = folder.path().join("result.json");
        let (code, error) = refused(&[
            "demo",
            "--trace",
            trace.to_str().unwrap(),
            "--json",
            json.to_str().unwrap(),
        ]);
        assert_eq!(code, 1, "{text:?}: {error}");
        assert!(
            error.contains(message) && error.contains(trace.to_str().unwrap()),
            "{text:?}: {error}"
        );
        assert!(!json.exists(), "nothing is half written");
    }
}

#[test]
fn a_demo_of_a_binary_trace_accounts_for_every_request_and_writes_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("sample.rht").to_str().unwrap().to_owned();
    assert!(robinhood(&["workload", "convert", &sample_trace(), &trace]).status.success());
    let [json, svg, html] =
        ["demo.json", "demo.svg", "demo.html"].map(|name| folder.path().join(name));
    // Few requests and an idle cache: the run may rightly end as not valid, but it must end and write its result.
    let output = robinhood(&[
        "demo",
        "--seconds",
        "10",
        "--trace",
        &trace,
        "--json",
        json.to_str().unwrap(),
        "--svg",
        svg.to_str().unwrap(),
        "--html",
        html.to_str().unwrap(),
        "--no-page",
    ]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{error}");
    assert!(error.contains("seed 1"), "the run prints its seed: {error}");
    let lines = std::fs::read_to_string(sample_trace()).unwrap().lines().count() as u64;
    let document = read_json(&json);
    assert_eq!(document["schema"], "robinhood.demo/1");
    for stack in ["shared", "robinhood"] {
        assert_eq!(document["stacks"][stack]["requests"].as_u64(), Some(lines), "{stack}");
        assert_eq!(document["stacks"][stack]["errors"].as_u64(), Some(0), "{stack}");
    }
    assert_eq!(document["stacks"]["shared"]["queries"], document["stacks"]["robinhood"]["queries"]);
    for key in ["p50", "p99", "p99_9"] {
        assert!(document["generator"]["lateness_us"][key].is_f64(), "{key}");
    }
    assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg"));
    the_page_of_the_demo_is_true_of(&document);
    let html = std::fs::read_to_string(html).unwrap();
    let start = html.split("id=\"robinhood-demo\">").nth(1).unwrap();
    let embedded = start.split("</script>").next().unwrap();
    assert_eq!(serde_json::from_str::<Value>(embedded).unwrap(), document);
    for id in ["tail-wide-t", "course-0-rbc-wide-t", "course-1-cache-narrow-t"] {
        assert!(html.contains(&format!("id=\"{id}\"")), "{id} is missing");
    }
    for outside in ["http:", "https:", "src=", "@import", "NaN"] {
        assert!(!html.contains(outside), "{outside}");
    }
}

/// Every key of the document is named on the page, and the page's example has no key that the document lacks.
fn the_page_of_the_demo_is_true_of(document: &Value) {
    const NAMED: [&str; 2] = ["stacks", "backends"];
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/demo.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut keys = Vec::new();
    let figures = document.as_object().unwrap().iter().filter(|(key, _)| *key != "doubts");
    figures.for_each(|(key, value)| {
        collect_keys(&json!({ key: value }), &NAMED, &mut keys);
    });
    keys.push("doubts".to_owned());
    assert!(keys.len() > 60, "{keys:?}");
    for key in &keys {
        assert!(page.contains(&format!("`{key}`")), "docs/demo.md does not name `{key}`");
    }
    let (_, rest) = page.split_once("```json\n").unwrap();
    let example: Value = serde_json::from_str(rest.split_once("```").unwrap().0).unwrap();
    let mut shown = Vec::new();
    collect_keys(&example, &NAMED, &mut shown);
    assert!(shown.iter().all(|key| keys.contains(key)), "{shown:?}");
}

#[test]
fn ctrl_c_ends_a_demo_with_the_summary_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let json: PathBuf = folder.path().join("demo.json");
    let mut child = Command::new(env!("CARGO_BIN_EXE_robinhood"))
        .args(["demo", "--seconds", "3600", "--json", json.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut error = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut child = Running(child);
    assert!(
        error.any(|line| line.unwrap().contains("filling the caches")),
        "the last step before the run"
    );
    std::thread::sleep(Duration::from_secs(8)); // requests come
    assert_eq!(child.interrupt(), Some(0));
    let document = read_json(&json);
    assert_eq!(document["interrupted"], true);
    assert!(document["stacks"]["shared"]["requests"].as_u64().unwrap() > 0);
}

#[test]
fn every_shell_gets_a_script_that_names_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = robinhood(&["completions", shell]);
        assert!(output.status.success(), "{shell}");
        let script = String::from_utf8(output.stdout).unwrap();
        for word in ["simulate", "calibrate", "no-page", "completions"] {
            assert!(script.contains(word), "{word} is missing for {shell}");
        }
    }
    let (code, error) = refused(&["completions", "tcsh"]);
    assert!(code == 2 && error.contains("bash"), "{code}: {error}");
}

#[test]
fn bash_parses_its_script_and_completes_commands_and_flags_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("robinhood.bash");
    std::fs::write(&script, robinhood(&["completions", "bash"]).stdout).unwrap();
    let parsed = Command::new("bash").arg("-n").arg(&script).status().expect("bash is there");
    assert!(parsed.success());
    let complete = |words: &str| {
        let last = words.split(' ').count() - 1;
        let asks = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={last}; _robinhood robinhood \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{}]}}\"; echo \"${{COMPREPLY[@]}}\"",
            script.display(),
            last - 1
        );
        let output = Command::new("bash").args(["-c", &asks]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete("robinhood sim"), "simulate");
    assert_eq!(complete("robinhood workload cal"), "calibrate");
    assert_eq!(complete("robinhood demo --adv"), "--advise");
}

fn page(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_command_has_a_manual_page_with_its_flags_and_examples() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("new").join("man1");
    let output = robinhood(&["man", pages.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut names: Vec<String> = std::fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    for name in
        ["robinhood", "robinhood-demo", "robinhood-workload-show", "robinhood-testbed-serve"]
    {
        assert!(names.contains(&format!("{name}.1")), "{name} is not among {names:?}");
    }
    for name in &names {
        let page = page(&pages, name);
        assert!(page.contains(".TH") && page.contains("Examples:"), "{name}:\n{page}");
    }
    assert!(page(&pages, "robinhood-demo.1").contains("\\-\\-advise"));
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (code, error) = refused(&["man", file.path().join("man").to_str().unwrap()]);
    assert_eq!(code, 1, "{error}");
    assert!(error.contains(file.path().to_str().unwrap()), "{error}");
}
