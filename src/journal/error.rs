//! Errors of the journal.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

/// The reason why the journal could not be opened, or a record could not be written.
#[derive(Debug, Clone, Error)]
pub enum JournalError {
    #[error("the journal `{}` cannot be used; check its permissions and the room on its disk", .path.display())]
    Unusable { path: PathBuf, source: Arc<io::Error> },
    #[error(
        "the journal `{}` has format {found}, and this version reads formats up to {known}; use the version that wrote it, or a later one", .path.display()
    )]
    NewerFormat { path: PathBuf, found: u32, known: u32 },
    /// The record is not on disk. If `is_kept`, it is in memory, and is written when the journal works again.
    #[error("the journal cannot be written: {why}; free some room on its disk, or repair it")]
    Degraded { why: Arc<str>, is_kept: bool },
    /// More records wait for the disk than are kept in memory.
    #[error("too many records wait for the journal's disk; try again when it answers")]
    QueueFull,
    /// The record is written as soon as the disk answers.
    #[error("the journal's disk does not answer")]
    Slow,
    /// The journal is closed, or its thread has ended.
    #[error("the journal is closed")]
    Closed,
    #[error("a record has no JSON form")]
    Encode { source: Arc<serde_json::Error> },
    #[error("a record of the journal cannot be read")]
    Decode { source: Arc<serde_json::Error> },
}

impl JournalError {
    pub(super) fn unusable(path: &Path, source: io::Error) -> Self {
        Self::Unusable { path: path.to_owned(), source: Arc::new(source) }
    }

    pub(super) fn encode(source: serde_json::Error) -> Self {
        Self::Encode { source: Arc::new(source) }
    }

    pub(super) fn decode(source: serde_json::Error) -> Self {
        Self::Decode { source: Arc::new(source) }
    }

    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unusable { .. } => "journal_unusable",
            Self::NewerFormat { .. } => "journal_newer_format",
            Self::Degraded { .. } => "journal_degraded",
            Self::QueueFull => "journal_queue_full",
            Self::Slow => "journal_slow",
            Self::Closed => "journal_closed",
            Self::Encode { .. } => "journal_encode",
            Self::Decode { .. } => "journal_decode",
        }
    }
}
