//! `robinhood workload`: workloads as files and request streams.

mod calibrate;
mod convert;
mod fit;
mod generate;
mod inspect;
mod load;
mod trace_file;

use clap::{Args, Subcommand};
use robinhood_workload::presets::{self, Scale};

use crate::failure::Failure;
use crate::output;
use calibrate::CalibrateArgs;
use convert::ConvertArgs;
use fit::FitArgs;
use generate::GenerateArgs;
use inspect::InspectArgs;
pub(crate) use load::load_workload;

const EXAMPLES: &str = "\
Examples:
  robinhood workload list                                 the built-in workloads
  robinhood workload show onerf --scale 1 > onerf.toml    one of them as a file to edit
  robinhood workload calibrate onerf.toml > again.toml    servers for the utilisations in it
  robinhood simulate --workload again.toml                run it
  robinhood workload generate onerf --duration 60s --output onerf.rht
  robinhood workload inspect onerf.rht                    what is in a trace";

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
    #[command(after_help = "Examples:\n  robinhood workload list")]
    List,
    /// Print a workload as a file that can be edited and used
    Show(ShowArgs),
    /// Find servers and their speed for the target utilisations of a workload, and print it with them
    Calibrate(CalibrateArgs),
    /// Write a piece of a workload's request stream as a trace
    Generate(GenerateArgs),
    /// Write a trace in the other format
    Convert(ConvertArgs),
    /// Make a workload file whose requests look like those of a trace, and say how like they are
    Fit(FitArgs),
    /// Say what is in a trace, or what a workload's requests look like
    Inspect(InspectArgs),
}

const SHOW_EXAMPLES: &str = "\
Examples:
  robinhood workload show demo
  robinhood workload show onerf --scale 1 > onerf.toml    a file to edit";

/// Flags of `robinhood workload show`.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
struct ShowArgs {
    /// A preset, or the path of a workload file
    #[arg(value_name = "NAME|FILE")]
    workload: String,
    /// Size of the fleet of a preset [default: 1/8]
    #[arg(long, value_name = "RATIO")]
    scale: Option<Scale>,
}

/// Runs the command.
pub(crate) fn run(args: &WorkloadArgs) -> Result<(), Failure> {
    match &args.command {
        WorkloadCommand::List => list(),
        WorkloadCommand::Show(args) => {
            output::say(&load_workload(&args.workload, args.scale)?.text());
        }
        WorkloadCommand::Calibrate(args) => calibrate::run(args)?,
        WorkloadCommand::Generate(args) => generate::run(args)?,
        WorkloadCommand::Convert(args) => convert::run(args)?,
        WorkloadCommand::Fit(args) => fit::run(args)?,
        WorkloadCommand::Inspect(args) => inspect::run(args)?,
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
