//! The `shellyard` program: parses or completes the command line, and returns the exit code.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use shellyard::app;
use shellyard::cli::{Cli, complete_command_line, greeting};
use shellyard::process::run_helper;

fn main() -> ExitCode {
    // Before anything else: the keeper is this program too, and must stay small.
    if let Some(code) = run_helper(std::env::args_os) {
        return code;
    }
    let words = std::env::args_os().collect();
    let directory = std::env::current_dir().ok();
    if let Some(code) = complete_command_line(Cli::command, words, directory.as_deref()) {
        return code;
    }
    if std::env::args_os().len() == 1 {
        return ExitCode::from(greeting::run());
    }
    app::run(Cli::parse())
}
