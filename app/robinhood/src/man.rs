//! `robinhood man`: a manual page for every command, made from their definitions.

use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  robinhood man man                                     into the folder `man`, to look at
  man -l man/robinhood-demo.1
  robinhood man ~/.local/share/man/man1                 where `man robinhood-demo` finds them";

/// Flags of `robinhood man`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// Folder for the pages; it is made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs the command.
pub(crate) fn run(args: &ManArgs) -> Result<(), Failure> {
    let folder = &args.folder;
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
        .map_err(|error| {
            Failure::failed(format!("cannot write manual pages to {}: {error}", folder.display()))
        })?;
    output::say(&format!("manual pages are in {0}: man -l {0}/robinhood.1\n", folder.display()));
    Ok(())
}
