//! What can go wrong with an audit log, and what to do about it.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::verify::LineLocation;

/// Why an entry was not written. The chain is whole all the same: a later entry goes on with it.
#[derive(Debug, Error)]
pub enum AuditError {
    /// There is no folder for it, and none could be made.
    #[error("no folder for the audit log at `{}`; make it, or set another path", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The log's lock could not be had.
    #[error("cannot lock the audit log by `{}`; end the process that holds it, or check its permissions", path.display())]
    Lock {
        /// The head, which is the lock.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The log does not answer, and as many entries wait for it as may.
    #[error("the audit log `{}` does not answer, and more than {most} bytes of entries would wait for it (audit.max_queued); end the process that holds its lock, or check its disk", path.display())]
    QueueFull {
        /// The log.
        path: PathBuf,
        /// The bytes that may wait.
        most: usize,
    },
    /// There is no thread that could write the log.
    #[error("no thread for the audit log; raise the limit on processes")]
    Thread {
        /// The error of the system.
        source: io::Error,
    },
    /// The log or its head could not be read.
    #[error("cannot read the audit log `{}`; check its permissions", path.display())]
    Read {
        /// The log.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The log could not be written.
    #[error("cannot write the audit log `{}`; free space on its disk, or check its permissions", path.display())]
    Write {
        /// The log.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The log is full and could not be moved aside.
    #[error("cannot rotate the audit log `{}`; check the permissions of its folder", path.display())]
    Rotate {
        /// The log.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl AuditError {
    /// `true` if another process holds the lock: the same try works when that lets go of it.
    pub(super) fn is_locked_out(&self) -> bool {
        let Self::Lock { source, .. } = self else { return false };
        matches!(source.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
    }

    /// The stable word that programs may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Folder { .. } => "audit_folder",
            Self::Lock { .. } => "audit_lock",
            Self::QueueFull { .. } => "audit_queue_full",
            Self::Thread { .. } => "audit_thread",
            Self::Read { .. } => "audit_read",
            Self::Write { .. } => "audit_write",
            Self::Rotate { .. } => "audit_rotate",
        }
    }
}

/// The first thing that is wrong with a log.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// There is nothing to check, or it cannot be read.
    #[error("cannot read `{}`; give the path of an audit log that you may read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The last line is half written.
    #[error(
        "{place}: the last line is half written: its writer was interrupted, or its end was cut; the server ends it and notes it when it next writes, then verify again"
    )]
    HalfLine {
        /// The line.
        place: LineLocation,
    },
    /// A line is no entry at all.
    #[error(
        "{place}: this is not an entry: it was changed, added or damaged; compare it with a copy of the log"
    )]
    NotAnEntry {
        /// The line.
        place: LineLocation,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// A line is not as it was when the next one, or the head, was written.
    #[error(
        "{place}: this entry was changed after it was written, or what follows it was; compare both with a copy of the log"
    )]
    Changed {
        /// The line.
        place: LineLocation,
    },
    /// Entries are missing before a line.
    #[error(
        "{place}: missing before this line: {}; removed or moved; restore from a copy of the log", span(*first, *last)
    )]
    Cut {
        /// The line.
        place: LineLocation,
        /// The first that is missing.
        first: u64,
        /// The last that is missing.
        last: u64,
    },
    /// An entry stands where another belongs.
    #[error(
        "{place}: entry {found} stands where entry {expected} belongs: lines were reordered, repeated or added; compare them with a copy of the log"
    )]
    Reordered {
        /// The line.
        place: LineLocation,
        /// Its number.
        found: u64,
        /// The number that belongs there.
        expected: u64,
    },
    /// A file does not go on where the older one ended.
    #[error("{place}: this file does not go on where `{}` ended: a file between them is missing or was changed; restore it from a copy of the log", older.display())]
    BrokenBetweenFiles {
        /// The first line of the younger file.
        place: LineLocation,
        /// The older file.
        older: PathBuf,
    },
    /// The oldest file begins in the middle.
    #[error(
        "{place}: the log begins with entry {found}, and not where a file begins: what was before it was cut; restore it from a copy of the log"
    )]
    NoBeginning {
        /// The first line.
        place: LineLocation,
        /// Its number.
        found: u64,
    },
    /// The end of the log is missing.
    #[error(
        "{place}: missing after this line: {}; the end of the log was cut; restore it from a copy of the log", span(*first, *last)
    )]
    CutTail {
        /// The last line.
        place: LineLocation,
        /// The first that is missing.
        first: u64,
        /// The last that is missing.
        last: u64,
    },
    /// The last entries are not in the head.
    #[error(
        "{place}: the head does not know {}: a writer was interrupted, or lines were added by hand; the server notes it when it next writes, then verify again", span(*first, *last)
    )]
    Unsealed {
        /// The last line.
        place: LineLocation,
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
    },
    /// The head is missing, unreadable, or not that of this log.
    #[error("`{}` is missing or is not the head of this log, so a cut end cannot be ruled out; keep it beside the log, also in copies", path.display())]
    NoHead {
        /// Where it should be.
        path: PathBuf,
    },
}

impl VerifyError {
    /// The stable word that programs may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "unreadable",
            Self::HalfLine { .. } => "half_line",
            Self::NotAnEntry { .. } => "not_an_entry",
            Self::Changed { .. } => "changed",
            Self::Cut { .. } => "cut",
            Self::Reordered { .. } => "reordered",
            Self::BrokenBetweenFiles { .. } => "broken_between_files",
            Self::NoBeginning { .. } => "no_beginning",
            Self::CutTail { .. } => "cut_tail",
            Self::Unsealed { .. } => "unsealed",
            Self::NoHead { .. } => "no_head",
        }
    }

    /// Where it was found, when that is a line.
    #[must_use]
    pub const fn place(&self) -> Option<&LineLocation> {
        match self {
            Self::Unreadable { .. } | Self::NoHead { .. } => None,
            Self::HalfLine { place }
            | Self::NotAnEntry { place, .. }
            | Self::Changed { place }
            | Self::Cut { place, .. }
            | Self::Reordered { place, .. }
            | Self::BrokenBetweenFiles { place, .. }
            | Self::NoBeginning { place, .. }
            | Self::CutTail { place, .. }
            | Self::Unsealed { place, .. } => Some(place),
        }
    }
}

/// `entry 5`, `entries 5 to 7`.
fn span(first: u64, last: u64) -> String {
    if first == last { format!("entry {first}") } else { format!("entries {first} to {last}") }
}
