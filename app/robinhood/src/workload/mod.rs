//! `robinhood workload`: workloads as files and request streams.

use clap::{Args, Subcommand};
use robinhood_workload::presets;

use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  robinhood workload list                    the built-in workloads";

/// Flags of `robinhood workload`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WorkloadArgs {
    #[command(subcommand)]
    command: WorkloadCommand,
}

#[derive(Debug, Subcommand)]
enum WorkloadCommand {
    /// Names of the built-in workloads, with one line each
    List,
}

/// Runs the command.
pub(crate) fn run(args: &WorkloadArgs) -> Result<(), Failure> {
    match args.command {
        WorkloadCommand::List => list(),
    }
    Ok(())
}

fn list() {
    let width = presets::NAMES.map(str::len).into_iter().max().unwrap_or(0);
    let mut text = String::new();
    for name in presets::NAMES {
        let summary = presets::summary(name).expect("every preset has a summary");
        text.push_str(&format!("{name:width$}  {summary}\n"));
    }
    output::say(&text);
}
