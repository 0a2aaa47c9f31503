//! Verification of a log: every line must follow from the one before.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use super::entry::Damage;
use super::error::VerifyError;
use super::line::{Link, Read};
use super::log_files::{self, Head, LockedHead};
use super::resume::ROTATED;
use crate::private_files::Symlinks;

/// No entry is nearly as long; what is longer is cut into pieces that are no entries.
const LONGEST_LINE: u64 = 1024 * 1024;

/// Walks the log and its rotated files, the oldest first, and tells the first problem.
///
/// May be used while others write: it looks at the log as it was at one moment, and holds
/// writers up only until every file is open.
///
/// # Errors
/// The first thing that is wrong, with its file and line.
pub fn verify(path: &Path) -> Result<VerifyReport, VerifyError> {
    let Snapshot { head, parts } = Snapshot::take(path)?;
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
        (Some(_), Some(_) | None) => Err(VerifyError::NoHead { path: log_files::path_of(path) }),
    }
}

/// The files as they were while nobody wrote.
#[derive(Debug)]
struct Snapshot {
    head: Option<Head>,
    /// Those that are not empty, the oldest first.
    parts: Vec<Part>,
}

/// One file, up to the length that it had.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Snapshot {
    fn take(log: &Path) -> Result<Self, VerifyError> {
        let of = |path: &Path| {
            let path = path.to_owned();
            |source| VerifyError::Unreadable { path, source }
        };
        let file = log_files::find(log).map_err(of(&log_files::path_of(log)))?;
        let lock = file.as_ref().map(LockedHead::shared).transpose();
        let lock = lock.map_err(of(&log_files::path_of(log)))?;
        let head = lock.as_ref().map(LockedHead::read).transpose().map_err(of(log))?.flatten();
        let rotated = log_files::rotated(log).map_err(of(log))?;
        let mut parts = Vec::new();
        for (_, path) in &rotated {
            parts.push(Part::open(path).map_err(of(path))?);
        }
        match Part::open(log) {
            Ok(part) => parts.push(part),
            // A writer that was interrupted between two files leaves only rotated ones.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !parts.is_empty() => {}
            Err(error) => return Err(of(log)(error)),
        }
        parts.retain(|part| part.bytes > 0);
        Ok(Self { head, parts })
    }
}

impl Part {
    fn open(path: &Path) -> io::Result<Self> {
        let file = Symlinks::Follow.options().read(true).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, bytes })
    }
}

fn walk(mut chain: Chain, part: &Part) -> Result<Chain, VerifyError> {
    let mut reader = BufReader::new((&part.file).take(part.bytes));
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        let read =
            read.map_err(|source| VerifyError::Unreadable { path: part.path.clone(), source })?;
        let place = LineLocation { file: part.path.clone(), line: number };
        match line.strip_suffix(b"\n") {
            Some(line) => chain.feed(place, line)?,
            None if read == 0 => break,
            None if read as u64 == LONGEST_LINE => chain.feed(place, &line)?,
            None => return Err(chain.feed_half(place)),
        }
    }
    Ok(chain)
}

// The check of the chain. Pure: lines in, the first problem out.

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineLocation {
    /// The file.
    pub file: PathBuf,
    /// Its line, counted from 1.
    pub line: u64,
}

impl fmt::Display for LineLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// An entry's number and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryStamp {
    /// Its number.
    pub seq: u64,
    /// When it was written, as the writer's clock had it.
    pub time: String,
}

/// What a log that holds was found to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// Entries.
    pub lines: u64,
    /// Files that hold them.
    pub files: usize,
    /// The first entry. Where its number is above 1, older files are gone.
    pub first: Option<EntryStamp>,
    /// The last entry.
    pub last: Option<EntryStamp>,
    /// Lines that a writer left half written; the entry after each tells of it.
    pub damaged: Vec<LineLocation>,
}

/// A chain that held up to here.
#[derive(Debug)]
pub(super) struct Chain {
    sealed: Option<Link>,
    lines: u64,
    first: Option<EntryStamp>,
    last: Option<Last>,
    /// A line that does not fit. The next one may tell that a writer was interrupted there.
    pending: Option<Pending>,
    damaged: Vec<LineLocation>,
}

#[derive(Debug)]
struct Pending {
    place: LineLocation,
    damage: Damage,
    problem: VerifyError,
}

#[derive(Debug)]
struct Last {
    place: LineLocation,
    link: Link,
    time: String,
}

impl Chain {
    /// A chain whose head says that this was its last entry.
    pub(super) const fn new(sealed: Option<Link>) -> Self {
        Self { sealed, lines: 0, first: None, last: None, pending: None, damaged: Vec::new() }
    }

    /// Takes the next line, without its newline.
    pub(super) fn feed(&mut self, place: LineLocation, line: &[u8]) -> Result<(), VerifyError> {
        match (self.read(&place, line), self.pending.take()) {
            (Ok(read), None) => self.accept(place, line, read),
            (Ok(read), Some(pending)) if read.tells_of(pending.damage) => {
                self.damaged.push(pending.place);
                self.accept(place, line, read)
            }
            (Ok(_), Some(pending)) => Err(out_of_place(pending.problem)),
            (Err(_), Some(pending)) => Err(pending.problem),
            (Err(problem), None) => {
                self.pending = Some(Pending { place, damage: Damage::of(line), problem });
                Ok(())
            }
        }
    }

    /// The next line has no end: that, or the line before it, is the problem.
    pub(super) fn feed_half(self, place: LineLocation) -> VerifyError {
        self.pending.map_or(VerifyError::HalfLine { place }, |pending| pending.problem)
    }

    fn read(&self, place: &LineLocation, line: &[u8]) -> Result<Read, VerifyError> {
        let read = Read::parse(line)
            .map_err(|source| VerifyError::NotAnEntry { place: place.clone(), source })?;
        match &self.last {
            None => begins(place, read),
            Some(last) => follows(last, place, read),
        }
    }

    fn accept(&mut self, place: LineLocation, line: &[u8], read: Read) -> Result<(), VerifyError> {
        let link = Link::at(read.seq, line);
        if self.sealed.is_some_and(|sealed| sealed.seq == link.seq && sealed != link) {
            return Err(VerifyError::Changed { place });
        }
        self.lines += 1;
        self.first.get_or_insert_with(|| EntryStamp { seq: read.seq, time: read.time.clone() });
        self.last = Some(Last { place, link, time: read.time });
        Ok(())
    }

    /// No more lines: the chain must end where its head says.
    pub(super) fn finish(self, files: usize) -> Result<VerifyReport, VerifyError> {
        if let Some(pending) = self.pending {
            return Err(pending.problem);
        }
        if let (Some(last), Some(sealed)) = (&self.last, self.sealed) {
            ends(last, sealed)?;
        }
        let last = self.last.map(|last| EntryStamp { seq: last.link.seq, time: last.time });
        let Self { lines, first, damaged, .. } = self;
        Ok(VerifyReport { lines, files, first, last, damaged })
    }
}

/// The very first entry, or the first of a file whose elders are gone.
fn begins(place: &LineLocation, read: Read) -> Result<Read, VerifyError> {
    let place = place.clone();
    match (read.seq, read.is_linked_to(Link::START)) {
        (1, true) => Ok(read),
        (1, false) | (_, true) => Err(VerifyError::Changed { place }),
        (_, false) if read.is_note(ROTATED) => Ok(read),
        (found, false) => Err(VerifyError::NoBeginning { place, found }),
    }
}

fn follows(last: &Last, place: &LineLocation, read: Read) -> Result<Read, VerifyError> {
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

/// The line after the one with the problem fits: it was no gap, but an entry too early.
fn out_of_place(problem: VerifyError) -> VerifyError {
    if let VerifyError::Cut { place, first, last } = problem {
        return VerifyError::Reordered { place, found: last + 1, expected: first };
    }
    problem
}

fn ends(last: &Last, sealed: Link) -> Result<(), VerifyError> {
    let place = last.place.clone();
    let end = last.link.seq;
    match sealed.seq {
        seq if seq > end => Err(VerifyError::CutTail { place, first: end + 1, last: seq }),
        seq if seq < end => Err(VerifyError::Unsealed { place, first: seq + 1, last: end }),
        _ => Ok(()),
    }
}
