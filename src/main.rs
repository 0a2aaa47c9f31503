//! The `shellyard` program: flags in, exit code out.

use std::process::ExitCode;

use clap::Parser;
use shellyard::app;
use shellyard::cli::Cli;
use shellyard::process::guardian;

fn main() -> ExitCode {
    // Before anything else: a guardian is this program too, and must stay small.
    if let Some(code) = guardian::guardian_main(std::env::args_os().skip(1)) {
        return code;
    }
    app::run(Cli::parse())
}
