//! How much we cost: each figure beside its floor, which is the same work without us, measured
//! in the same run.
//!
//! `cargo bench` runs it in full; `cargo bench -- --quick` only shows that it runs; `--json`
//! prints one JSON object instead of the table; `--confined` leaves out all but confinement.

mod backlog;
mod calls;
mod client;
mod confined;
mod decisions;
mod flood;
mod held;
mod reading;
mod report;
mod search;
mod server;
mod tenants;

use std::io::{self, Write as _};
use std::process::ExitCode;

use report::Row;
use tenants::Crowd;

/// How much work each measurement does.
#[derive(Debug, Clone, Copy)]
struct Scale {
    rounds: usize,
    calls: usize,
    flood_bytes: u64,
    /// The log in which pages are read.
    log_bytes: u64,
    /// What the job writes that many follow, in megabytes.
    followed_mb: u64,
    search_bytes: u64,
    crowd: Crowd,
    /// Jobs that run all the while.
    held: usize,
    /// Starts of each kind of confinement, and jobs after which nothing may be left.
    confined: [usize; 2],
}

const FULL: Scale = Scale {
    rounds: 5,
    calls: 4_000,
    flood_bytes: 1 << 30,
    log_bytes: 10_000 << 20,
    followed_mb: 20,
    search_bytes: 1 << 30,
    crowd: Crowd { tenants: 64, jobs: 50, backlog: 5_000, visits: 20 },
    held: 1_000,
    confined: [500, 10_000],
};
const QUICK: Scale = Scale {
    rounds: 1,
    calls: 256,
    flood_bytes: 32 << 20,
    log_bytes: 64 << 20,
    followed_mb: 1,
    search_bytes: 64 << 20,
    crowd: Crowd { tenants: 8, jobs: 5, backlog: 100, visits: 3 },
    held: 50,
    confined: [20, 200],
};

/// The last is what `cargo bench` adds.
const FLAGS: [&str; 4] = ["--quick", "--json", "--confined", "--bench"];

fn main() -> ExitCode {
    let flags: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| flags.iter().any(|given| given == flag);
    let unknown = flags.iter().find(|flag| !FLAGS.contains(&flag.as_str()));
    if let Some(flag) = unknown {
        writeln!(io::stderr(), "unknown flag `{flag}`; there are {}", FLAGS.join(", ")).ok();
        return ExitCode::from(2);
    }
    let scale = if has("--quick") { QUICK } else { FULL };
    let mut rows = if has("--confined") { Vec::new() } else { measure(scale) };
    let [looks, jobs] = scale.confined;
    rows.extend(confined::measure(looks, jobs));
    let text = if has("--json") { report::json(&rows) } else { report::table(&rows) };
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn measure(scale: Scale) -> Vec<Row> {
    let mut rows = Vec::new();
    for shell in ["/bin/sh", "/bin/bash"] {
        if std::path::Path::new(shell).exists() {
            rows.extend(calls::measure(shell, scale.rounds, scale.calls));
        }
    }
    rows.extend(held::measure(scale.held));
    rows.extend(tenants::measure(scale.crowd));
    rows.extend(flood::measure(scale.rounds, scale.flood_bytes));
    rows.extend(reading::measure(scale.log_bytes, scale.followed_mb));
    rows.extend(search::measure(scale.rounds, scale.search_bytes));
    rows.extend(decisions::measure(scale.rounds, 10 * scale.calls));
    rows.extend(backlog::measure(scale.rounds));
    rows
}
