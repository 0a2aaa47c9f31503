//! The `shellyard` program: parses the command line, and returns the exit code.

use std::process::ExitCode;

use clap::Parser;
use shellyard::app;
use shellyard::cli::Cli;
use shellyard::process::run_helper;

fn main() -> ExitCode {
    // Before anything else: the guardian and the spawner are this program too, and must stay small.
    if let Some(code) = run_helper(std::env::args_os) {
        return code;
    }
    app::run(Cli::parse())
}
