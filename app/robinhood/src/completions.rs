//! `robinhood completions`: what a shell needs to complete commands and flags, made from their definitions.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  robinhood completions bash > ~/.local/share/bash-completion/completions/robinhood
  source <(robinhood completions bash)                                      in this shell only
  robinhood completions zsh > ~/.zfunc/_robinhood                           a folder of $fpath
  robinhood completions fish > ~/.config/fish/completions/robinhood.fish";

/// Flags of `robinhood completions`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Runs the command.
pub(crate) fn run(args: &CompletionsArgs) {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "robinhood", &mut script);
    output::say(&String::from_utf8_lossy(&script));
}
