//! The `shellyard` program: flags in, exit code out.

use std::process::ExitCode;

use clap::Parser;
use shellyard::app;
use shellyard::cli::Cli;
use shellyard::process::{guardian, spawner};

fn main() -> ExitCode {
    // Before anything else: guardian and spawner are this program too, and must stay small.
    let args = || std::env::args_os().skip(1);
    if let Some(code) = guardian::guardian_main(args()).or_else(|| spawner::spawner_main(args())) {
        return code;
    }
    app::run(Cli::parse())
}
