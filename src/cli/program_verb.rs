//! The verbs about the program itself, which read no settings and need no server.

use clap::Subcommand;

use super::completions_and_man::{CompletionsFlags, ManFlags, print_completions, print_manual};
use super::self_test::{self, SelfTestFlags};
use super::terminal::Display;

const COMPLETIONS_HELP: &str = "\
Examples:
  shellyard completions bash > ~/.local/share/bash-completion/completions/shellyard
  shellyard completions fish > ~/.config/fish/completions/shellyard.fish
  shellyard completions zsh  > ~/.zfunc/_shellyard      with fpath=(~/.zfunc $fpath) before compinit in ~/.zshrc

The script calls `shellyard` for each completion, so it need not be written again after an upgrade.";

/// A verb about the program itself.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum ProgramVerb {
    /// Run a few jobs on a private server, and check on this host that sandbox profiles, stops, limits
    /// and the policy hold; exit code 1 if one does not.
    SelfTest(SelfTestFlags),
    /// Print the script that makes a shell complete verbs, flags, jobs and lanes.
    #[command(after_help = COMPLETIONS_HELP)]
    Completions(CompletionsFlags),
    /// Print the manual page of the program, or write the pages of all verbs.
    Man(ManFlags),
}

impl ProgramVerb {
    /// Runs the verb and returns the exit code. `command` is the whole command line of the program.
    #[must_use]
    pub fn run(&self, command: clap::Command, display: &Display) -> u8 {
        match self {
            Self::SelfTest(flags) => self_test::run(flags, display),
            Self::Completions(flags) => print_completions(flags),
            Self::Man(flags) => print_manual(flags, command),
        }
    }
}
