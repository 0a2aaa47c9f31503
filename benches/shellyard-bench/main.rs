//! Measures what Shellyard costs. Each figure stands beside its floor: the same work without
//! Shellyard, measured in the same run.
//!
//! `cargo bench --bench shellyard-bench` runs all of it, `-- --help` tells the rest. What is
//! measured, and against what, is in `docs/performance.md`. The exit code says whether every
//! answer and every byte was right; a time never fails.

mod bench;
mod client;
mod floor;
mod lines;
mod measure;
mod options;
mod report;
mod scale;
mod server;
mod stats;
mod work;

use std::fs;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;

use bench::Bench;
use options::{Helper, Options};
use report::{Machine, Report, Table};

fn main() -> ExitCode {
    let options = Options::parse();
    let result = match &options.helper {
        Some(helper) => play(helper),
        None => run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(io::stderr(), "error: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

/// Runs this program as a helper process of a measurement.
fn play(helper: &Helper) -> io::Result<()> {
    match helper {
        Helper::Spawn { threads, calls } => floor::spawn::play(*threads, *calls),
        Helper::Drain { command, file } => floor::drain::play(command, file),
        Helper::Write { bytes, mb_per_second } => lines::play(*bytes, *mb_per_second),
    }
}

fn run(options: &Options) -> io::Result<()> {
    if options.write_docs && cfg!(debug_assertions) {
        return Err(io::Error::other("figures of a debug build are not worth writing"));
    }
    let report = measure(options);
    match options.json.as_deref() {
        Some("-") => io::stdout().write_all(report.json().as_bytes())?,
        Some(file) => {
            fs::write(file, report.json())?;
            io::stdout().write_all(report.text().as_bytes())?;
        }
        None => io::stdout().write_all(report.text().as_bytes())?,
    }
    if options.write_docs { report.write_docs() } else { Ok(()) }
}

fn measure(options: &Options) -> Report {
    let machine = Machine::read();
    let scale = options.scale();
    let mut tables = Vec::new();
    if !options.confined {
        for profile in options.profiles() {
            let bench = Bench { profile, scale };
            let mut table = Table::new(profile);
            for work in options.works() {
                writeln!(io::stderr(), "{}: {}", profile.name(), work.title()).ok();
                table.add(work, work.measure(&bench));
            }
            tables.push(table);
        }
    }
    // Last: it makes this process one that holds jobs.
    if options.with_confined() {
        let [looks, jobs] = scale.confined;
        tables.push(Table::of_kinds(measure::confined::measure(looks, jobs)));
    }
    Report { machine, mode: options.mode(), tables }
}
