//! Verification of a log: every line must follow from the line before it.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::entry::{ChainLink, Damage, ParsedLine};
use super::log_files::{self, Head, LockedHead};
use super::resume::ROTATED;
use crate::private_files::Symlinks;

/// The bound on the length of a line that is read. No entry is nearly as long; a longer line is
/// read in pieces, which are not entries.
const MAX_LINE_BYTES: u64 = 1024 * 1024;

/// Checks the log and its rotated files, oldest first; fails with the first problem.
///
/// Safe while other processes write: it checks the log as it was at one moment, and blocks writers
/// only until all files are open.
///
/// # Errors
/// Returns the first problem with its file and line.
pub fn verify(path: &Path) -> Result<VerifyReport, VerifyError> {
    let AuditFilesSnapshot { head, parts } = AuditFilesSnapshot::take(path)?;
    let mut chain = Chain::new(head.map(|head| head.link));
    for part in &parts {
        chain = walk(chain, part)?;
    }
    let verified = chain.finish(parts.len())?;
    let bytes = parts.last().map(|part| part.bytes);
    match (bytes, head) {
        (Some(bytes), Some(head)) if bytes == head.bytes => Ok(verified),
        (None, None) => Ok(verified),
        (None, Some(Head { link, .. })) => {
            let place = LineLocation { file: path.to_owned(), line: 0 };
            Err(VerifyError::CutTail { place, first: 1, last: link.seq })
        }
        (Some(_), Some(_) | None) => Err(VerifyError::NoHead { path: log_files::head_path(path) }),
    }
}

/// The files of a log at a moment without a writer.
#[derive(Debug)]
struct AuditFilesSnapshot {
    head: Option<Head>,
    /// The files that are not empty, oldest first.
    parts: Vec<SnapshotFile>,
}

/// A file of the log, up to the length that it had at the snapshot.
#[derive(Debug)]
struct SnapshotFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl AuditFilesSnapshot {
    fn take(log: &Path) -> Result<Self, VerifyError> {
        let of = |path: &Path| {
            let path = path.to_owned();
            |source| VerifyError::Unreadable { path, source }
        };
        let file = log_files::find_head(log).map_err(of(&log_files::head_path(log)))?;
        let lock = file.as_ref().map(LockedHead::shared).transpose();
        let lock = lock.map_err(of(&log_files::head_path(log)))?;
        let head = lock.as_ref().map(LockedHead::read).transpose().map_err(of(log))?.flatten();
        let rotated = log_files::list_rotated(log).map_err(of(log))?;
        let mut parts = Vec::new();
        for (_, path) in &rotated {
            parts.push(SnapshotFile::open(path).map_err(of(path))?);
        }
        match SnapshotFile::open(log) {
            Ok(part) => parts.push(part),
            // A writer that was interrupted during a rotation leaves only rotated files.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !parts.is_empty() => {}
            Err(error) => return Err(of(log)(error)),
        }
        parts.retain(|part| part.bytes > 0);
        Ok(Self { head, parts })
    }
}

impl SnapshotFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = Symlinks::Follow.options().read(true).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, bytes })
    }
}

fn walk(mut chain: Chain, part: &SnapshotFile) -> Result<Chain, VerifyError> {
    let mut reader = BufReader::new((&part.file).take(part.bytes));
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        let read =
            read.map_err(|source| VerifyError::Unreadable { path: part.path.clone(), source })?;
        let place = LineLocation { file: part.path.clone(), line: number };
        match line.strip_suffix(b"\n") {
            Some(line) => chain.feed(place, line)?,
            None if read == 0 => break,
            None if read as u64 == MAX_LINE_BYTES => chain.feed(place, &line)?,
            None => return Err(chain.feed_half(place)),
        }
    }
    Ok(chain)
}

// The check of the chain. Pure: takes lines, returns the first problem.

/// The location of a line in a file of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineLocation {
    pub file: PathBuf,
    /// The line number, from 1.
    pub line: u64,
}

impl fmt::Display for LineLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// The number and the time of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryStamp {
    pub seq: u64,
    /// The time of the entry by the writer's clock.
    pub time: String,
}

/// The content of a log that passed the verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// The number of entries.
    pub lines: u64,
    pub files: usize,
    /// The first entry. If its number is above 1, older files are gone.
    pub first: Option<EntryStamp>,
    pub last: Option<EntryStamp>,
    /// The half-written lines; the entry after each is a note about it.
    pub damaged: Vec<LineLocation>,
}

/// The first problem of a log.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// The log is missing or cannot be read.
    #[error("cannot read `{}`; give the path of an audit log that you may read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{place}: the last line is half written: its writer was interrupted, or its end was cut; the server's next write completes it and adds a note; verify again after that"
    )]
    HalfLine { place: LineLocation },
    /// A line is not an entry.
    #[error(
        "{place}: this is not an entry: it was changed, added or damaged; compare it with a copy of the log"
    )]
    NotAnEntry { place: LineLocation, source: serde_json::Error },
    /// A line was changed after the next line or the head was written.
    #[error(
        "{place}: this entry was changed after it was written, or what follows it was; compare both with a copy of the log"
    )]
    Changed { place: LineLocation },
    /// Entries are missing before a line.
    #[error(
        "{place}: missing before this line: {}; removed or moved; restore from a copy of the log", entry_range(*first, *last)
    )]
    Cut {
        place: LineLocation,
        /// The first missing entry.
        first: u64,
        /// The last missing entry.
        last: u64,
    },
    /// A line has the number of another entry.
    #[error(
        "{place}: entry {found} stands where entry {expected} belongs: lines were reordered, repeated or added; compare them with a copy of the log"
    )]
    Reordered { place: LineLocation, found: u64, expected: u64 },
    /// A file does not continue where the older file ended.
    #[error("{place}: this file does not continue where `{}` ended: a file between them is missing or was changed; restore it from a copy of the log", older.display())]
    BrokenBetweenFiles {
        /// The first line of the newer file.
        place: LineLocation,
        older: PathBuf,
    },
    /// The oldest file does not begin with an entry that begins a file.
    #[error(
        "{place}: the log begins with entry {found}, and not where a file begins: what was before it was cut; restore it from a copy of the log"
    )]
    NoBeginning {
        /// The first line of the log.
        place: LineLocation,
        /// The number of its entry.
        found: u64,
    },
    /// The end of the log is missing.
    #[error(
        "{place}: missing after this line: {}; the end of the log was cut; restore it from a copy of the log", entry_range(*first, *last)
    )]
    CutTail {
        /// The last line of the log.
        place: LineLocation,
        /// The first missing entry.
        first: u64,
        /// The last missing entry.
        last: u64,
    },
    /// The head does not cover the last entries.
    #[error(
        "{place}: the .head file does not cover {}: a writer was interrupted, or lines were added by hand; the server's next write adds a note; verify again after that", entry_range(*first, *last)
    )]
    Unsealed {
        /// The last line of the log.
        place: LineLocation,
        /// The first entry that the head does not cover.
        first: u64,
        /// The last entry that the head does not cover.
        last: u64,
    },
    /// The head is missing, unreadable, or belongs to another log.
    #[error("`{}` is missing or is not the head of this log, so a cut end cannot be ruled out; keep it beside the log, also in copies", path.display())]
    NoHead { path: PathBuf },
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

    /// The line with the problem, if it is in a line.
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

/// Formats a range as `entry 5` or `entries 5 to 7`.
fn entry_range(first: u64, last: u64) -> String {
    if first == last { format!("entry {first}") } else { format!("entries {first} to {last}") }
}

/// The state of the check after the lines so far, which are all valid.
#[derive(Debug)]
pub(super) struct Chain {
    sealed: Option<ChainLink>,
    lines: u64,
    first: Option<EntryStamp>,
    last: Option<LastEntry>,
    /// A line that does not fit. The next line may be a note that a writer was interrupted there.
    pending: Option<PendingLine>,
    damaged: Vec<LineLocation>,
}

#[derive(Debug)]
struct PendingLine {
    place: LineLocation,
    damage: Damage,
    problem: VerifyError,
}

#[derive(Debug)]
struct LastEntry {
    place: LineLocation,
    link: ChainLink,
    time: String,
}

impl Chain {
    /// Starts the check of a chain whose head names `sealed` as the last entry.
    pub(super) const fn new(sealed: Option<ChainLink>) -> Self {
        Self { sealed, lines: 0, first: None, last: None, pending: None, damaged: Vec::new() }
    }

    /// Checks the next line, without its newline.
    pub(super) fn feed(&mut self, place: LineLocation, line: &[u8]) -> Result<(), VerifyError> {
        match (self.read(&place, line), self.pending.take()) {
            (Ok(read), None) => self.accept(place, line, read),
            (Ok(read), Some(pending)) if read.reports_damage(pending.damage) => {
                self.damaged.push(pending.place);
                self.accept(place, line, read)
            }
            (Ok(_), Some(pending)) => Err(gap_to_reordering(pending.problem)),
            (Err(_), Some(pending)) => Err(pending.problem),
            (Err(problem), None) => {
                self.pending =
                    Some(PendingLine { place, damage: Damage::from_line(line), problem });
                Ok(())
            }
        }
    }

    /// Returns the problem when the next line has no end: that line, or the pending line before it.
    pub(super) fn feed_half(self, place: LineLocation) -> VerifyError {
        self.pending.map_or(VerifyError::HalfLine { place }, |pending| pending.problem)
    }

    fn read(&self, place: &LineLocation, line: &[u8]) -> Result<ParsedLine, VerifyError> {
        let read = ParsedLine::parse(line)
            .map_err(|source| VerifyError::NotAnEntry { place: place.clone(), source })?;
        match &self.last {
            None => check_first(place, read),
            Some(last) => check_next(last, place, read),
        }
    }

    fn accept(
        &mut self,
        place: LineLocation,
        line: &[u8],
        read: ParsedLine,
    ) -> Result<(), VerifyError> {
        let link = ChainLink::at(read.seq, line);
        if self.sealed.is_some_and(|sealed| sealed.seq == link.seq && sealed != link) {
            return Err(VerifyError::Changed { place });
        }
        self.lines += 1;
        self.first.get_or_insert_with(|| EntryStamp { seq: read.seq, time: read.time.clone() });
        self.last = Some(LastEntry { place, link, time: read.time });
        Ok(())
    }

    /// Ends the check: the chain must end at the entry that its head names.
    pub(super) fn finish(self, files: usize) -> Result<VerifyReport, VerifyError> {
        if let Some(pending) = self.pending {
            return Err(pending.problem);
        }
        if let (Some(last), Some(sealed)) = (&self.last, self.sealed) {
            check_end(last, sealed)?;
        }
        let last = self.last.map(|last| EntryStamp { seq: last.link.seq, time: last.time });
        let Self { lines, first, damaged, .. } = self;
        Ok(VerifyReport { lines, files, first, last, damaged })
    }
}

/// Checks the first line: the very first entry, or the first entry of a file whose older files are
/// gone.
fn check_first(place: &LineLocation, read: ParsedLine) -> Result<ParsedLine, VerifyError> {
    let place = place.clone();
    match (read.seq, read.is_linked_to(ChainLink::START)) {
        (1, true) => Ok(read),
        (1, false) | (_, true) => Err(VerifyError::Changed { place }),
        (_, false) if read.is_note(ROTATED) => Ok(read),
        (found, false) => Err(VerifyError::NoBeginning { place, found }),
    }
}

fn check_next(
    last: &LastEntry,
    place: &LineLocation,
    read: ParsedLine,
) -> Result<ParsedLine, VerifyError> {
    if read.follows(last.link) {
        return Ok(read);
    }
    let place = place.clone();
    let found = read.seq;
    let expected = last.link.seq.saturating_add(1);
    Err(if read.is_linked_to(last.link) {
        VerifyError::Changed { place }
    } else if found == expected {
        VerifyError::Changed { place: last.place.clone() }
    } else if place.file != last.place.file {
        VerifyError::BrokenBetweenFiles { place, older: last.place.file.clone() }
    } else if found > expected {
        VerifyError::Cut { place, first: expected, last: found - 1 }
    } else {
        VerifyError::Reordered { place, found, expected }
    })
}

/// Converts a gap into a reordering: the line after the problem fits, so no entry is missing.
fn gap_to_reordering(problem: VerifyError) -> VerifyError {
    if let VerifyError::Cut { place, first, last } = problem {
        return VerifyError::Reordered { place, found: last + 1, expected: first };
    }
    problem
}

fn check_end(last: &LastEntry, sealed: ChainLink) -> Result<(), VerifyError> {
    let place = last.place.clone();
    let end = last.link.seq;
    match sealed.seq {
        seq if seq > end => Err(VerifyError::CutTail { place, first: end + 1, last: seq }),
        seq if seq < end => Err(VerifyError::Unsealed { place, first: seq + 1, last: end }),
        _ => Ok(()),
    }
}
