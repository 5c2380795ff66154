//! `robinhood reproduce` as a user meets it: interrupted and taken up again, reports, mistakes.

#[path = "support/keys.rs"]
mod keys;
mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use keys::collect_keys;
use support::{Running, read_json, refused, robinhood};

/// Three runs, as short as they can be.
const WHAT: [&str; 8] =
    ["reproduce", "--only", "fig7,fig13", "--time-scale", "100", "--threads", "1", "--no-timing"];

fn start(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_robinhood"));
    command.current_dir(folder).args(WHAT);
    command.args(["--state", "state", "--html", "report.html", "--json", "report.json"]);
    command
}

fn report(folder: &Path) -> (Vec<u8>, Vec<u8>) {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    (read("report.html"), read("report.json"))
}

fn finish(folder: &Path) -> (Vec<u8>, Vec<u8>) {
    let output = start(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    report(folder)
}

/// The runs that are kept.
fn kept(folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(files) = std::fs::read_dir(folder.join("state")) else { return Vec::new() };
    let files = files.map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|kind| kind == "run")).collect()
}

fn wait_for_runs(folder: &Path, count: usize) {
    let patience = Instant::now();
    while kept(folder).len() < count {
        assert!(patience.elapsed() < Duration::from_secs(60), "no run was kept");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_interrupted_reproduction_goes_on_and_ends_with_the_same_bytes() {
    let [whole, cut] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let expected = finish(whole.path());
    let spawn = || Running(start(cut.path()).stderr(Stdio::null()).spawn().unwrap());
    let mut first = spawn();
    wait_for_runs(cut.path(), 1);
    // Its exit code is 1, unless this machine made the other runs meanwhile.
    first.interrupt();
    let mut second = spawn();
    wait_for_runs(cut.path(), 2);
    second.0.kill().unwrap();
    second.0.wait().unwrap();
    // A file that was damaged since is made again.
    let damaged = &kept(cut.path())[0];
    let mut text = std::fs::read_to_string(damaged).unwrap();
    text = text.replacen("\"hit_ratio\":0.", "\"hit_ratio\":1.", 1);
    std::fs::write(damaged, text).unwrap();
    assert!(finish(cut.path()) == expected, "the reports differ");
    assert_eq!(kept(cut.path()).len(), 3);
    // All runs are there now: the same again, from the files alone.
    assert!(finish(cut.path()) == expected, "the reports of the files differ");
    let document = read_json(&cut.path().join("report.json"));
    assert_eq!(document["schema"], "robinhood.reproduce/1");
    assert_eq!(document["runs"].as_array().unwrap().len(), 3);
    let page = String::from_utf8(expected.0).unwrap();
    assert!(
        page.contains("id=\"fig13\"") && !page.contains("id=\"fig8\"") && !page.contains("NaN")
    );
}

#[test]
fn the_page_of_the_command_names_every_key_and_a_table_needs_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("table.json");
    let state = folder.path().join("state");
    let output = robinhood(&[
        "reproduce",
        "--only",
        "table1",
        "--state",
        state.to_str().unwrap(),
        "--json",
        json.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!state.exists(), "nothing to keep");
    let document = read_json(&json);
    assert_eq!(document["parts"][0]["checks"].as_array().unwrap().len(), 40);
    assert!(document["timing"]["wall_seconds"].is_f64());
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reproduce.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut keys = Vec::new();
    collect_keys(&document, &[], &mut keys);
    let unnamed: Vec<&String> =
        keys.iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(unnamed.is_empty() && keys.len() > 12, "{unnamed:?}");
}

#[test]
fn mistakes_are_one_line() {
    for (arguments, part) in [
        (&["reproduce", "--only", "fig1"][..], "fig1"),
        (&["reproduce", "--time-scale", "0.5"], "1 to 100"),
        (&["reproduce", "--only", "fig13", "--state", "/dev/null/x"], "cannot make the folder"),
        (&["reproduce", "--html", "/nowhere/x.html"], "does not exist"),
    ] {
        let (code, message) = refused(arguments);
        assert_eq!(code, 2, "{arguments:?}: {message}");
        assert!(message.contains(part), "{message}");
    }
}
