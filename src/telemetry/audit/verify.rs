//! The door for readers: is the log as it was written?

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use super::chain::{Chain, Place, Verified};
use super::error::VerifyError;
use super::files;
use super::head::{self, Head, LockedHead};
use crate::private_files::Links;

/// No entry is nearly as long; what is longer is cut into pieces that are no entries.
const LONGEST_LINE: u64 = 1024 * 1024;

/// Walks the log and its rotated files, the oldest first, and tells the first problem.
///
/// May be used while others write: it looks at the log as it was at one moment, and holds
/// writers up only until every file is open.
///
/// # Errors
/// The first thing that is wrong, with its file and line.
pub fn verify(path: &Path) -> Result<Verified, VerifyError> {
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
            let place = Place { file: path.to_owned(), line: 0 };
            Err(VerifyError::CutTail { place, first: 1, last: link.seq })
        }
        (Some(_), Some(_) | None) => Err(VerifyError::NoHead { path: head::path_of(path) }),
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
        let file = head::find(log).map_err(of(&head::path_of(log)))?;
        let lock = file.as_ref().map(LockedHead::shared).transpose();
        let lock = lock.map_err(of(&head::path_of(log)))?;
        let head = lock.as_ref().map(LockedHead::read).transpose().map_err(of(log))?.flatten();
        let rotated = files::rotated(log).map_err(of(log))?;
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
        let file = Links::Follow.options().read(true).open(path)?;
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
        let place = Place { file: part.path.clone(), line: number };
        match line.strip_suffix(b"\n") {
            Some(line) => chain.feed(place, line)?,
            None if read == 0 => break,
            None if read as u64 == LONGEST_LINE => chain.feed(place, &line)?,
            None => return Err(chain.feed_half(place)),
        }
    }
    Ok(chain)
}
