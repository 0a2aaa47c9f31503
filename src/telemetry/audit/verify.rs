//! Reads a log: verifies that every line follows from the line before it, and finds the jobs that were
//! allowed and have no ending: they run, or their server was killed.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::entry::{ChainLink, Damage, ParsedLine};
use super::log_files::{self, Head, LockedHead, ROTATED};
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
    let mut chain = ChainChecker::new(head.map(|head| head.link));
    for part in &parts {
        chain = check_file(chain, part)?;
    }
    let verified = chain.finish(parts.len())?;
    let bytes = parts.last().map(|part| part.bytes);
    match (bytes, head) {
        (Some(bytes), Some(head)) if bytes == head.bytes => Ok(verified),
        (None, None) => Ok(verified),
        (None, Some(Head { link, .. })) => {
            let location = LineLocation { file: path.to_owned(), line: 0 };
            Err(VerifyError::CutTail { location, first: 1, last: link.seq })
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
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            |source| VerifyError::Unreadable { path, source }
        };
        let file = log_files::find_head(log).map_err(unreadable(&log_files::head_path(log)))?;
        let lock = file.as_ref().map(LockedHead::lock_shared).transpose();
        let lock = lock.map_err(unreadable(&log_files::head_path(log)))?;
        let head =
            lock.as_ref().map(LockedHead::read).transpose().map_err(unreadable(log))?.flatten();
        let rotated = log_files::list_rotated(log).map_err(unreadable(log))?;
        let mut parts = Vec::new();
        for (_, path) in &rotated {
            parts.push(SnapshotFile::open(path).map_err(unreadable(path))?);
        }
        match SnapshotFile::open(log) {
            Ok(part) => parts.push(part),
            // A writer that was interrupted during a rotation leaves only rotated files.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !parts.is_empty() => {}
            Err(error) => return Err(unreadable(log)(error)),
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

fn check_file(mut chain: ChainChecker, part: &SnapshotFile) -> Result<ChainChecker, VerifyError> {
    let mut reader = BufReader::new((&part.file).take(part.bytes));
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        let read =
            read.map_err(|source| VerifyError::Unreadable { path: part.path.clone(), source })?;
        let location = LineLocation { file: part.path.clone(), line: number };
        match line.strip_suffix(b"\n") {
            Some(line) => chain.check_line(location, line)?,
            None if read == 0 => break,
            None if read as u64 == MAX_LINE_BYTES => chain.check_line(location, &line)?,
            None => return Err(chain.report_half_line(location)),
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
    /// The jobs that were allowed and have no ending, with the lines of their decisions.
    pub open_jobs: Vec<(AuditedJob, LineLocation)>,
}

/// The first problem of a log.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// The log is missing or cannot be read.
    #[error("cannot read `{}`; give the path of an audit log that you may read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{location}: the last line is half written: its writer was interrupted, or its end was cut; the server's next write completes it and adds a note; verify again after that"
    )]
    HalfLine { location: LineLocation },
    /// A line is not an entry.
    #[error(
        "{location}: this is not an entry: it was changed, added or damaged; compare it with a copy of the log"
    )]
    NotAnEntry { location: LineLocation, source: serde_json::Error },
    /// A line was changed after the next line or the head was written.
    #[error(
        "{location}: this entry was changed after it was written, or what follows it was; compare both with a copy of the log"
    )]
    Changed { location: LineLocation },
    /// Entries are missing before a line.
    #[error(
        "{location}: missing before this line: {}; removed or moved; restore from a copy of the log", format_entry_range(*first, *last)
    )]
    Cut {
        location: LineLocation,
        /// The first missing entry.
        first: u64,
        /// The last missing entry.
        last: u64,
    },
    /// A line has the number of another entry.
    #[error(
        "{location}: entry {found} stands where entry {expected} belongs: lines were reordered, repeated or added; compare them with a copy of the log"
    )]
    Reordered { location: LineLocation, found: u64, expected: u64 },
    /// A file does not continue where the older file ended.
    #[error("{location}: this file does not continue where `{}` ended: a file between them is missing or was changed; restore it from a copy of the log", older.display())]
    BrokenBetweenFiles {
        /// The first line of the newer file.
        location: LineLocation,
        older: PathBuf,
    },
    /// The oldest file does not begin with an entry that begins a file.
    #[error(
        "{location}: the log begins with entry {found}, and not where a file begins: what was before it was cut; restore it from a copy of the log"
    )]
    NoBeginning {
        /// The first line of the log.
        location: LineLocation,
        /// The number of its entry.
        found: u64,
    },
    /// The end of the log is missing.
    #[error(
        "{location}: missing after this line: {}; the end of the log was cut; restore it from a copy of the log", format_entry_range(*first, *last)
    )]
    CutTail {
        /// The last line of the log.
        location: LineLocation,
        /// The first missing entry.
        first: u64,
        /// The last missing entry.
        last: u64,
    },
    /// The head does not cover the last entries.
    #[error(
        "{location}: the .head file does not cover {}: a writer was interrupted, or lines were added by hand; the server's next write adds a note; verify again after that", format_entry_range(*first, *last)
    )]
    Unsealed {
        /// The last line of the log.
        location: LineLocation,
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
    /// Returns the stable code word of the error.
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
    pub const fn location(&self) -> Option<&LineLocation> {
        match self {
            Self::Unreadable { .. } | Self::NoHead { .. } => None,
            Self::HalfLine { location }
            | Self::NotAnEntry { location, .. }
            | Self::Changed { location }
            | Self::Cut { location, .. }
            | Self::Reordered { location, .. }
            | Self::BrokenBetweenFiles { location, .. }
            | Self::NoBeginning { location, .. }
            | Self::CutTail { location, .. }
            | Self::Unsealed { location, .. } => Some(location),
        }
    }
}

/// Formats a range as `entry 5` or `entries 5 to 7`.
fn format_entry_range(first: u64, last: u64) -> String {
    if first == last { format!("entry {first}") } else { format!("entries {first} to {last}") }
}

/// The state of the check after the lines so far, which are all valid.
#[derive(Debug)]
struct ChainChecker {
    sealed: Option<ChainLink>,
    lines: u64,
    first: Option<EntryStamp>,
    last: Option<LastEntry>,
    /// A line that does not fit. The next line may be a note that a writer was interrupted there.
    pending: Option<PendingLine>,
    damaged: Vec<LineLocation>,
    open_jobs: OpenJobs<LineLocation>,
}

#[derive(Debug)]
struct PendingLine {
    location: LineLocation,
    damage: Damage,
    problem: VerifyError,
}

#[derive(Debug)]
struct LastEntry {
    location: LineLocation,
    link: ChainLink,
    time: String,
}

impl ChainChecker {
    /// Starts the check of a chain whose head names `sealed` as the last entry.
    const fn new(sealed: Option<ChainLink>) -> Self {
        Self {
            sealed,
            lines: 0,
            first: None,
            last: None,
            pending: None,
            damaged: Vec::new(),
            open_jobs: OpenJobs::new(),
        }
    }

    /// Checks the next line, without its newline.
    fn check_line(&mut self, location: LineLocation, line: &[u8]) -> Result<(), VerifyError> {
        match (self.read(&location, line), self.pending.take()) {
            (Ok(read), None) => self.accept(location, line, read),
            (Ok(read), Some(pending)) if read.reports_damage(pending.damage) => {
                self.damaged.push(pending.location);
                self.accept(location, line, read)
            }
            (Ok(_), Some(pending)) => Err(convert_gap_to_reordering(pending.problem)),
            (Err(_), Some(pending)) => Err(pending.problem),
            (Err(problem), None) => {
                self.pending =
                    Some(PendingLine { location, damage: Damage::from_line(line), problem });
                Ok(())
            }
        }
    }

    /// Returns the problem when the next line has no end: that line, or the pending line before it.
    fn report_half_line(self, location: LineLocation) -> VerifyError {
        self.pending.map_or(VerifyError::HalfLine { location }, |pending| pending.problem)
    }

    fn read(&self, location: &LineLocation, line: &[u8]) -> Result<ParsedLine, VerifyError> {
        let read = ParsedLine::parse(line)
            .map_err(|source| VerifyError::NotAnEntry { location: location.clone(), source })?;
        match &self.last {
            None => check_first(location, read),
            Some(last) => check_next(last, location, read),
        }
    }

    fn accept(
        &mut self,
        location: LineLocation,
        line: &[u8],
        read: ParsedLine,
    ) -> Result<(), VerifyError> {
        let link = ChainLink::at(read.seq, line);
        if self.sealed.is_some_and(|sealed| sealed.seq == link.seq && sealed != link) {
            return Err(VerifyError::Changed { location });
        }
        self.lines += 1;
        self.open_jobs.add_line(&read, || location.clone());
        self.first.get_or_insert_with(|| EntryStamp { seq: read.seq, time: read.time.clone() });
        self.last = Some(LastEntry { location, link, time: read.time });
        Ok(())
    }

    /// Ends the check: the chain must end at the entry that its head names.
    fn finish(self, files: usize) -> Result<VerifyReport, VerifyError> {
        if let Some(pending) = self.pending {
            return Err(pending.problem);
        }
        if let (Some(last), Some(sealed)) = (&self.last, self.sealed) {
            check_end(last, sealed)?;
        }
        let last = self.last.map(|last| EntryStamp { seq: last.link.seq, time: last.time });
        let Self { lines, first, damaged, open_jobs, .. } = self;
        let open_jobs = open_jobs.into_jobs().into_iter().collect();
        Ok(VerifyReport { lines, files, first, last, damaged, open_jobs })
    }
}

/// Checks the first line: the very first entry, or the first entry of a file whose older files are
/// gone.
fn check_first(location: &LineLocation, read: ParsedLine) -> Result<ParsedLine, VerifyError> {
    let location = location.clone();
    match (read.seq, read.is_linked_to(ChainLink::START)) {
        (1, true) => Ok(read),
        (1, false) | (_, true) => Err(VerifyError::Changed { location }),
        (_, false) if read.is_note(ROTATED) => Ok(read),
        (found, false) => Err(VerifyError::NoBeginning { location, found }),
    }
}

fn check_next(
    last: &LastEntry,
    location: &LineLocation,
    read: ParsedLine,
) -> Result<ParsedLine, VerifyError> {
    if read.follows(last.link) {
        return Ok(read);
    }
    let location = location.clone();
    let found = read.seq;
    let expected = last.link.seq.saturating_add(1);
    Err(if read.is_linked_to(last.link) {
        VerifyError::Changed { location }
    } else if found == expected {
        VerifyError::Changed { location: last.location.clone() }
    } else if location.file != last.location.file {
        VerifyError::BrokenBetweenFiles { location, older: last.location.file.clone() }
    } else if found > expected {
        VerifyError::Cut { location, first: expected, last: found - 1 }
    } else {
        VerifyError::Reordered { location, found, expected }
    })
}

/// Converts a gap into a reordering: the line after the problem fits, so no entry is missing.
fn convert_gap_to_reordering(problem: VerifyError) -> VerifyError {
    if let VerifyError::Cut { location, first, last } = problem {
        return VerifyError::Reordered { location, found: last + 1, expected: first };
    }
    problem
}

fn check_end(last: &LastEntry, sealed: ChainLink) -> Result<(), VerifyError> {
    let location = last.location.clone();
    let end = last.link.seq;
    match sealed.seq {
        seq if seq > end => Err(VerifyError::CutTail { location, first: end + 1, last: seq }),
        seq if seq < end => Err(VerifyError::Unsealed { location, first: seq + 1, last: end }),
        _ => Ok(()),
    }
}

/// The end of the log in which a new server looks for jobs without an ending. Only the last entries
/// of a killed server can be missing.
const TAIL_BYTES: u64 = 4 * 1024 * 1024;

/// A job of the log. Several servers may write to one log and use the same numbers, so the trace of
/// the call belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuditedJob {
    pub tenant: String,
    pub number: u64,
    pub trace_id: String,
}

/// The jobs without an ending after the lines so far; `P` is what is stored of each decision.
#[derive(Debug)]
struct OpenJobs<P> {
    jobs: BTreeMap<AuditedJob, P>,
}

impl<P> OpenJobs<P> {
    const fn new() -> Self {
        Self { jobs: BTreeMap::new() }
    }

    /// Handles the next line.
    fn add_line(&mut self, line: &ParsedLine, place: impl FnOnce() -> P) {
        if let Some(job) = line.allowed_job() {
            self.jobs.insert(job, place());
        } else if let Some(job) = line.ended_job() {
            self.jobs.remove(&job);
        } else if let Some((tenant, number)) = line.unaccepted_job() {
            self.jobs.retain(|job, _| (job.tenant.as_str(), job.number) != (tenant, number));
        }
    }

    fn into_jobs(self) -> BTreeMap<AuditedJob, P> {
        self.jobs
    }
}

/// Returns the jobs without an ending in the end of a log; none if there is no log.
///
/// # Errors
/// If the log cannot be read.
pub fn find_open_jobs(log: &Path) -> io::Result<Vec<AuditedJob>> {
    let mut file = match Symlinks::Follow.options().read(true).open(log) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    Ok(find_in_lines(&read_tail(&mut file)?))
}

fn read_tail(file: &mut File) -> io::Result<Vec<u8>> {
    let start = file.metadata()?.len().saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    Ok(tail)
}

/// Finds the open jobs of these lines. A line that is no entry, such as the rest of a cut one, is
/// skipped.
fn find_in_lines(text: &[u8]) -> Vec<AuditedJob> {
    let mut open = OpenJobs::new();
    for line in text.split(|byte| *byte == b'\n') {
        if let Ok(line) = ParsedLine::parse(line) {
            open.add_line(&line, || ());
        }
    }
    open.into_jobs().into_keys().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(fields: &str) -> String {
        let hash = "0".repeat(64);
        format!("{{\"seq\":1,\"time\":\"t\",\"prev\":\"{hash}\",{fields}}}\n")
    }

    #[test]
    fn a_job_is_open_from_its_decision_to_its_ending() {
        let decision = |job: u64, verdict: &str| {
            line(&format!(
                "\"event\":\"decision\",\"tenant\":\"a\",\"job\":{job},\"verdict\":\"{verdict}\",\"trace_id\":\"t\""
            ))
        };
        let text = [
            "half a line}\n".to_owned(),
            decision(1, "allowed"),
            decision(2, "allowed"),
            decision(3, "refused"),
            decision(4, "allowed"),
            line("\"event\":\"ending\",\"tenant\":\"a\",\"job\":1,\"trace_id\":\"t\""),
            line("\"event\":\"note\",\"what\":\"not_accepted\",\"detail\":\"job 4 of a: full\""),
            line("\"event\":\"ending\",\"tenant\":\"b\",\"job\":2,\"trace_id\":\"t\""),
            line("\"event\":\"ending\",\"tenant\":\"a\",\"job\":2,\"trace_id\":\"other\""),
        ];
        let open = AuditedJob { tenant: "a".to_owned(), number: 2, trace_id: "t".to_owned() };
        assert_eq!(find_in_lines(text.concat().as_bytes()), [open]);
    }

    #[test]
    fn a_missing_log_has_no_jobs() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(find_open_jobs(&folder.path().join("none")).unwrap(), []);
    }
}
