//! `robinhood check`: whether a configuration file of `robinhood run` can be run, without running it.
//!
//! Place in the flow: what a unit file asks before a start or a reload, and a person before either.

use std::path::PathBuf;

use clap::Args;

use super::config::RunConfig;
use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  robinhood check robinhood.toml
  robinhood check configs/*.toml           all that is wrong in any of them; exit code 78";

/// Flags of `robinhood check`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CheckArgs {
    /// Files for `robinhood run`
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let mut refused: Option<Failure> = None;
    for file in &args.files {
        match RunConfig::load(file).and_then(|config| config.check_secrets().map(|()| config)) {
            Ok(config) => output::say(&format!("{}: good: {}\n", file.display(), config.summary())),
            Err(failure) => {
                refused = Some(match refused {
                    Some(all) => all.and(&failure),
                    None => failure,
                });
            }
        }
    }
    refused.map_or(Ok(()), Err)
}
