//! All that a run found.

use std::io;

use serde_json::{Value, json};

use super::{Machine, Table, docs, text};

/// The judgement of times.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    Full,
    /// The loads are too small for that.
    Quick,
}

/// Creates the report of one run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) mode: Mode,
    pub(crate) tables: Vec<Table>,
}

impl Report {
    pub(crate) fn text(&self) -> String {
        let columns = match self.mode {
            Mode::Full => 5,
            Mode::Quick => 4,
        };
        let tables = self.tables.iter().map(|table| text::plain(table, columns));
        format!("{}\n{}", self.machine.sentence(), tables.collect::<String>())
    }

    pub(crate) fn json(&self) -> String {
        let mode = match self.mode {
            Mode::Full => "full",
            Mode::Quick => "quick",
        };
        let tables: Vec<Value> = self.tables.iter().map(|table| table.json(self.mode)).collect();
        let report = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "mode": mode,
            "machine": self.machine.json(),
            "tables": tables,
        });
        format!("{report:#}\n")
    }

    /// Into the documentation of this very source.
    pub(crate) fn write_docs(&self) -> io::Result<()> {
        docs::write(&self.machine, &self.tables)
    }
}
