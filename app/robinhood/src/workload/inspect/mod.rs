//! `robinhood workload inspect`: what is in a trace, or what a workload's requests look like.

mod trace;
mod workload;

use std::path::{Path, PathBuf};

use clap::Args;
use robinhood_workload::presets::{self, Scale};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  robinhood workload inspect requests.rht                what is in a trace
  robinhood workload inspect onerf --scale 1             what a workload's requests look like
  robinhood workload inspect requests.jsonl --json what.json";

/// Flags of `robinhood workload inspect`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    /// A trace in either format, a preset, or a workload file (.toml)
    #[arg(value_name = "FILE|NAME")]
    subject: String,
    /// Size of the fleet of a preset [default: 1/8]
    #[arg(long, value_name = "RATIO")]
    scale: Option<Scale>,
    /// Count malformed lines, or damaged blocks, of a trace and go on
    #[arg(long)]
    skip_bad: bool,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: &InspectArgs) -> Result<(), Failure> {
    if let Some(path) = &args.json {
        output::check_writable(path)?;
    }
    let path = Path::new(&args.subject);
    let is_workload = path.extension().is_some_and(|extension| extension == "toml");
    // What is neither a file nor looks like one is meant as a name.
    let is_name = path.components().count() == 1 && path.extension().is_none() && !path.exists();
    if is_workload || is_name || presets::NAMES.contains(&args.subject.as_str()) {
        if args.skip_bad {
            return Err(Failure::usage("--skip-bad is for traces: leave it out"));
        }
        let workload = super::load_workload(&args.subject, args.scale)?.workload;
        let figures = workload::Figures::of(&workload);
        return show(args, &figures, &figures.tables());
    }
    if args.scale.is_some() {
        return Err(Failure::usage("--scale is for presets: a trace has the size that it has"));
    }
    let figures = trace::read(path, args.skip_bad)?;
    show(args, &figures, &figures.tables())
}

fn show(args: &InspectArgs, figures: &impl Serialize, tables: &str) -> Result<(), Failure> {
    if let Some(path) = &args.json {
        output::write_json(path, figures)?;
    }
    output::say(tables);
    Ok(())
}

/// Lines of a name and a value.
struct Facts(String);

impl Facts {
    fn new(subject: &str) -> Self {
        Self(format!("{subject}\n"))
    }

    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0.push_str(&format!("  {name:32}{value}\n"));
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}
