//! The `robinhood` command line: parse, run, say how it ended.

#[cfg(target_os = "linux")]
mod cache;
mod cli;
mod completions;
mod demo;
mod explain;
mod failure;
mod html;
mod interrupt;
#[cfg(target_os = "linux")]
mod load;
mod man;
mod output;
mod page_client;
mod reproduce;
#[cfg(target_os = "linux")]
mod run;
mod screen;
mod search;
mod simulate;
mod svg;
mod table;
mod testbed;
mod top;
mod values;
mod workers;
mod workload;

use std::process::ExitCode;

use clap::Parser;

/// Asks for large pages, which a simulation needs that reads all over its tables (`docs/results/simulator-speed.md`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let result = match cli::Cli::parse().command {
        cli::Command::Demo(args) => demo::run(&args),
        cli::Command::Simulate(args) => simulate::run(&args),
        cli::Command::Reproduce(args) => reproduce::run(&args),
        #[cfg(target_os = "linux")]
        cli::Command::Cache(args) => cache::run(&args),
        #[cfg(target_os = "linux")]
        cli::Command::Run(args) => run::run(&args),
        #[cfg(target_os = "linux")]
        cli::Command::Check(args) => run::check::run(&args),
        cli::Command::Workload(args) => workload::run(&args),
        cli::Command::Top(args) => top::run(&args),
        cli::Command::Explain(args) => explain::explain(&args),
        cli::Command::Pause(args) => explain::pause(&args),
        cli::Command::Resume(args) => explain::resume(&args),
        cli::Command::Testbed(args) => testbed::run(&args),
        #[cfg(target_os = "linux")]
        cli::Command::Load(args) => load::run(&args),
        cli::Command::Completions(args) => {
            completions::run(&args);
            Ok(())
        }
        cli::Command::Man(args) => man::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
