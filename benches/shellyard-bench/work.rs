//! The list of measurements, each with its letter.

use clap::ValueEnum;

use crate::bench::Bench;
use crate::measure::{
    backlog, big, capture, held, latency, pages, pollers, rate, search, start, tenants,
};
use crate::report::Measured;

/// A measurement of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Work {
    /// Latency of `echo hi`, one call after the other
    #[value(name = "A")]
    Latency,
    /// Calls per second, by callers
    #[value(name = "B")]
    Rate,
    /// Jobs that are held: memory, files, threads, idle CPU, a call beside them
    #[value(name = "C")]
    Held,
    /// Capture of a flood: rate, CPU, memory, every byte
    #[value(name = "D")]
    Capture,
    /// Many who poll one busy job, every byte
    #[value(name = "E")]
    Pollers,
    /// Cold start, idle memory, size of the binary
    #[value(name = "F")]
    Start,
    /// A page at any offset of a huge log
    #[value(name = "G")]
    Pages,
    /// A backlog: submit, dispatch, memory
    #[value(name = "H")]
    Backlog,
    /// A call where the server holds much memory
    #[value(name = "M")]
    Big,
    /// Search in one long log, beside ripgrep
    #[value(name = "S")]
    Search,
    /// Tenants: fairness, and a call by tenants known
    #[value(name = "T")]
    Tenants,
}

impl Work {
    /// All measurements, in the order of the report.
    pub(crate) const ALL: [Self; 11] = [
        Self::Latency,
        Self::Rate,
        Self::Held,
        Self::Capture,
        Self::Pollers,
        Self::Start,
        Self::Pages,
        Self::Backlog,
        Self::Big,
        Self::Search,
        Self::Tenants,
    ];

    /// Its letter.
    pub(crate) const fn key(self) -> char {
        match self {
            Self::Latency => 'A',
            Self::Rate => 'B',
            Self::Held => 'C',
            Self::Capture => 'D',
            Self::Pollers => 'E',
            Self::Start => 'F',
            Self::Pages => 'G',
            Self::Backlog => 'H',
            Self::Big => 'M',
            Self::Search => 'S',
            Self::Tenants => 'T',
        }
    }

    /// Its letter and what it is about, as `--help` tells it.
    pub(crate) fn title(self) -> String {
        let value = self.to_possible_value().expect("none of them is hidden");
        format!("{} {}", self.key(), value.get_help().expect("all of them are documented"))
    }

    /// Runs the measurement.
    pub(crate) fn measure(self, bench: &Bench) -> Measured {
        match self {
            Self::Latency => latency::measure(bench),
            Self::Rate => rate::measure(bench),
            Self::Held => held::measure(bench),
            Self::Capture => capture::measure(bench),
            Self::Pollers => pollers::measure(bench),
            Self::Start => start::measure(bench),
            Self::Pages => pages::measure(bench),
            Self::Backlog => backlog::measure(bench),
            Self::Big => big::measure(bench),
            Self::Search => search::measure(bench),
            Self::Tenants => tenants::measure(bench),
        }
    }
}
