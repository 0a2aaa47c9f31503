//! The command line flags.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::bench::Profile;
use crate::report::Mode;
use crate::scale::{FULL, QUICK, Scale};
use crate::work::Work;

/// Measures the real server beside floors of the same run.
#[derive(Debug, Parser)]
#[command(name = "shellyard-bench")]
pub(crate) struct Options {
    /// Small loads and one profile: shows that all of it runs and that every byte is right, judges
    /// no time
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure only these, such as `A,C`
    #[arg(long, value_name = "LETTERS", value_delimiter = ',', ignore_case = true)]
    pub(crate) only: Vec<Work>,
    /// Measure with this confinement profile only
    #[arg(long)]
    pub(crate) profile: Option<Profile>,
    /// Measure only what each kind of confinement costs
    #[arg(long, conflicts_with_all = ["only", "profile", "write_docs"])]
    pub(crate) confined: bool,
    /// Write the figures as JSON to this file; `-`: to stdout, instead of the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<String>,
    /// Write the measured part of docs/performance.md and its plots
    #[arg(long, conflicts_with_all = ["quick", "only", "profile"])]
    pub(crate) write_docs: bool,
    /// The flag that `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
    #[command(subcommand)]
    pub(crate) helper: Option<Helper>,
}

/// The helper processes that this program can be: processes beside the one that measures, so that
/// their CPU times can be told apart.
#[derive(Debug, Subcommand)]
pub(crate) enum Helper {
    /// The floor of calls: runs the command so often.
    #[command(hide = true)]
    Spawn { threads: usize, calls: usize },
    /// The floor of capture: drains the command into a file.
    #[command(hide = true)]
    Drain { command: String, file: PathBuf },
    /// A job: writes numbered lines, as fast as it can or at a rate.
    #[command(hide = true)]
    Write { bytes: u64, mb_per_second: Option<u64> },
}

impl Options {
    pub(crate) const fn scale(&self) -> &'static Scale {
        if self.quick { &QUICK } else { &FULL }
    }

    pub(crate) const fn mode(&self) -> Mode {
        if self.quick { Mode::Quick } else { Mode::Full }
    }

    /// One of them is enough to show that all of it runs.
    pub(crate) fn profiles(&self) -> Vec<Profile> {
        match (self.profile, self.mode()) {
            (Some(profile), _) => vec![profile],
            (None, Mode::Full) => vec![Profile::None, Profile::Default],
            (None, Mode::Quick) => vec![Profile::Default],
        }
    }

    pub(crate) fn works(&self) -> Vec<Work> {
        if self.only.is_empty() { Work::ALL.to_vec() } else { self.only.clone() }
    }

    /// `true` if the cost of confinement is measured as well.
    pub(crate) const fn with_confined(&self) -> bool {
        self.confined || (self.only.is_empty() && self.profile.is_none())
    }
}
