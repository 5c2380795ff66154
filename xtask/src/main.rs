//! Checks of this repository that the compiler does not make: `cargo xtask check`, or `layers` or `files` alone.
//!
//! Place in the flow: run by `./test` and `.ci/run`. Faults go to stderr, one line each, and the exit code is 1;
//! warnings are printed and change nothing.

mod files;
mod layers;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What a check found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Findings {
    /// Broken rules.
    faults: Vec<String>,
    /// What should be better and may stay.
    warnings: Vec<String>,
}

impl Findings {
    fn append(&mut self, other: Self) {
        self.faults.extend(other.faults);
        self.warnings.extend(other.warnings);
    }
}

/// A check of the repository that lies in a folder.
type Check = fn(&Path) -> Result<Findings, String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let checks: &[Check] = match arguments[..] {
        ["check"] => &[check_layers, check_files],
        ["layers"] => &[check_layers],
        ["files"] => &[check_files],
        _ => {
            eprintln!("usage: cargo xtask check | layers | files");
            return ExitCode::from(2);
        }
    };
    let mut findings = Findings::default();
    for check in checks {
        match check(&root()) {
            Ok(found) => findings.append(found),
            Err(error) => findings.faults.push(error),
        }
    }
    for warning in &findings.warnings {
        println!("warning: {warning}");
    }
    for fault in &findings.faults {
        eprintln!("error: {fault}");
    }
    println!("xtask: {} errors, {} warnings", findings.faults.len(), findings.warnings.len());
    if findings.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The root of the repository: this package lies one folder below it.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies in the workspace").to_owned()
}

/// Standard output of a command that must succeed.
fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        String::from_utf8(output.stdout).map_err(|error| format!("{program}: {error}"))
    } else {
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(format!("{program} {arguments:?} failed: {stderr}"))
    }
}

fn check_layers(root: &Path) -> Result<Findings, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = ["metadata", "--no-deps", "--locked", "--format-version", "1"];
    let metadata = output(root, &cargo, &arguments)?;
    let metadata = serde_json::from_str(&metadata).map_err(|error| format!("metadata: {error}"))?;
    layers::check(&metadata)
}

/// Looks at every file that is tracked or would be.
fn check_files(root: &Path) -> Result<Findings, String> {
    if !root.join(".git").exists() {
        let warnings = vec!["files are not checked: this is no git checkout".to_owned()];
        return Ok(Findings { warnings, ..Findings::default() });
    }
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = output(root, "git", &arguments)?;
    let mut findings = Findings::default();
    for path in listed.split_terminator('\0') {
        // A file that is not text is not ours to read; one that is listed and gone was deleted and not yet committed.
        if let Ok(text) = std::fs::read_to_string(root.join(path)) {
            findings.append(files::check(path, &text));
        }
    }
    Ok(findings)
}
