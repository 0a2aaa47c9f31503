//! The door for writers: each entry is appended under a lock, on whatever is there by then.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::clock::rfc3339;
use super::entry::{DecisionEntry, EndingEntry, Event, NoteEntry};
use super::error::AuditError;
use super::files;
use super::head::{self, Head, LockedHead, Patience};
use super::line::{Link, compose};
use super::open::{OpenLog, open_log};
use super::resume::{LineEnd, Remark, Resumption, Sight, resume};
use crate::in_place::in_place;
use crate::private_files::{Links, explain_link};

/// As much of a log's end as is looked at: more than the longest entries and a half one.
const TAIL_BYTES: u64 = 256 * 1024;

/// Where the log is, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// The log. Its folder is made where it is missing.
    pub path: PathBuf,
    /// The log is rotated before an entry when it is larger than this.
    pub max_bytes: u64,
    /// Rotated files that are kept; at least one is.
    pub keep: usize,
}

/// A handle to an audit log; clones write to the same one.
///
/// Any number of handles and processes may write one log. A write blocks for as long as
/// another's takes, and for two seconds at most while somebody holds the lock.
#[derive(Debug, Clone)]
pub struct Audit {
    /// Threads of this process queue here rather than at the file's lock, which has no queue.
    book: Arc<Mutex<Book>>,
}

impl Audit {
    /// Opens the log, makes it where it is missing, and notes what an interrupted writer left.
    ///
    /// # Errors
    /// When the log cannot be locked, read or written.
    pub fn open(settings: AuditSettings) -> Result<Self, AuditError> {
        let mut book = Book { settings, open: None };
        book.make_folder()?;
        book.append(None, Patience::Usual)?;
        Ok(Self { book: Arc::new(Mutex::new(book)) })
    }

    /// The same without a look whether it can be written: each entry tries anew.
    #[must_use]
    pub fn unopened(settings: AuditSettings) -> Self {
        Self { book: Arc::new(Mutex::new(Book { settings, open: None })) }
    }

    /// Writes down a decision.
    ///
    /// # Errors
    /// When it could not be written; what to do then is the caller's choice.
    pub fn decision(&self, entry: &DecisionEntry<'_>) -> Result<(), AuditError> {
        let event = entry.into();
        if self.try_append(&event)? { Ok(()) } else { in_place(|| self.append(Some(&event))) }
    }

    /// Writes down a job's end.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn ending(&self, entry: &EndingEntry<'_>) -> Result<(), AuditError> {
        self.append(Some(&entry.into()))
    }

    /// The same without waiting; false, and nothing is written, while somebody else writes.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn ending_at_once(&self, entry: &EndingEntry<'_>) -> Result<bool, AuditError> {
        self.try_append(&entry.into())
    }

    fn try_append(&self, event: &Event<'_>) -> Result<bool, AuditError> {
        let Ok(mut book) = self.book.try_lock() else { return Ok(false) };
        match book.append(Some(event), Patience::None) {
            Ok(()) => Ok(true),
            Err(AuditError::Lock { source, .. }) if source.kind() == io::ErrorKind::WouldBlock => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes down something that concerns no single job.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn note(&self, entry: &NoteEntry<'_>) -> Result<(), AuditError> {
        self.append(Some(&entry.into()))
    }

    fn append(&self, event: Option<&Event<'_>>) -> Result<(), AuditError> {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.append(event, Patience::Usual)
    }
}

#[derive(Debug)]
struct Book {
    settings: AuditSettings,
    /// As the last entry left it, unless that failed.
    open: Option<OpenLog>,
}

impl Book {
    fn make_folder(&self) -> Result<(), AuditError> {
        let folder = files::folder(&self.settings.path);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|source| AuditError::Folder { path: folder.to_owned(), source })
    }

    /// Writes what has to be told of the log itself, then the event.
    fn append(&mut self, event: Option<&Event<'_>>, patience: Patience) -> Result<(), AuditError> {
        let mut open = self.open.take();
        let path = &self.settings.path;
        loop {
            let files = open.map_or_else(|| self.open_files(), Ok)?;
            let head = LockedHead::exclusive(&files.head, patience)
                .map_err(|source| lock_error(path, source))?;
            if let Some(bytes) = files.length_in_place(path) {
                self.append_to(&head, &files.log, bytes, event)?;
                drop(head);
                self.open = Some(files);
                return Ok(());
            }
            // Another one rotated the log, or somebody removed it.
            open = None;
        }
    }

    fn open_files(&self) -> Result<OpenLog, AuditError> {
        let path = &self.settings.path;
        let mut head = head::open(path);
        if head.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            self.make_folder()?;
            head = head::open(path);
        }
        let head = head.map_err(|source| lock_error(path, source))?;
        OpenLog::open(path, head).map_err(|source| self.write_error(source))
    }

    fn append_to(
        &self,
        head: &LockedHead<'_>,
        log: &File,
        bytes: u64,
        event: Option<&Event<'_>>,
    ) -> Result<(), AuditError> {
        let path = &self.settings.path;
        let sight = look(path, head, log, bytes)
            .map_err(|source| AuditError::Read { path: path.clone(), source })?;
        let mut resumption = resume(&sight);
        // A remark stands in the file that it is about.
        let rotated = if resumption.remarks.is_empty() && bytes > self.settings.max_bytes {
            resumption.remarks.push(Remark::Rotated);
            Some(self.rotate()?)
        } else {
            None
        };
        let (log, bytes) = rotated.as_ref().map_or((log, bytes), |log| (log, 0));
        batch(&resumption, event)
            .and_then(|batch| commit((head, sight.head), log, &batch, bytes))
            .map_err(|source| self.write_error(source))
    }

    fn rotate(&self) -> Result<File, AuditError> {
        let AuditSettings { path, keep, .. } = &self.settings;
        files::rotate(path, (*keep).max(1))
            .and_then(|()| open_log(path))
            .map_err(|source| AuditError::Rotate { path: path.clone(), source })
    }

    fn write_error(&self, source: io::Error) -> AuditError {
        AuditError::Write { path: self.settings.path.clone(), source }
    }
}

fn lock_error(log: &Path, source: io::Error) -> AuditError {
    AuditError::Lock { path: head::path_of(log), source }
}

/// Reads no more than is needed: nothing of the log when its length is as the head says.
fn look(path: &Path, head: &LockedHead<'_>, log: &File, bytes: u64) -> io::Result<Sight> {
    let head = head.read()?;
    let rotated_bytes = match bytes {
        0 => fs::metadata(files::youngest(path)).ok().map(|file| file.len()),
        1.. => None,
    };
    let known = head.map_or(0, |head| head.bytes);
    let tail = match (bytes, head, rotated_bytes) {
        (0, None, Some(length)) => {
            let rotated = Links::Refuse.options().read(true).open(files::youngest(path));
            read_end(&rotated.map_err(explain_link)?, 0, length)?
        }
        (0, ..) => Vec::new(),
        (1.., ..) if known > bytes => read_end(log, 0, bytes)?,
        (1.., ..) => read_end(log, known, bytes)?,
    };
    Ok(Sight { head, bytes, rotated_bytes, tail })
}

/// The bytes from `start` to `end`; when those are too many, the last of them.
fn read_end(file: &File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let start = start.max(end.saturating_sub(TAIL_BYTES));
    let mut bytes = vec![0; usize::try_from(end - start).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

/// Lines that are written together, and the link that they reach.
#[derive(Debug)]
struct Batch {
    text: String,
    link: Link,
}

fn batch(resumption: &Resumption, event: Option<&Event<'_>>) -> io::Result<Batch> {
    let time = rfc3339(SystemTime::now());
    let mut batch = Batch { text: String::new(), link: resumption.link };
    match resumption.line_end {
        LineEnd::Whole => {}
        LineEnd::Missing => batch.text.push('\n'),
    }
    let remarks: Vec<_> = resumption.remarks.iter().map(|remark| remark.event()).collect();
    for event in remarks.iter().chain(event) {
        let (mut line, link) = compose(batch.link, &time, event)?;
        line.push('\n');
        // Most often there is one, which is all of the text then.
        batch.text = if batch.text.is_empty() { line } else { batch.text + &line };
        batch.link = link;
    }
    Ok(batch)
}

/// The log first, then the head. When either fails, the log is as long as before.
fn commit(
    (head, before): (&LockedHead<'_>, Option<Head>),
    mut log: &File,
    batch: &Batch,
    bytes: u64,
) -> io::Result<()> {
    if batch.text.is_empty() {
        return Ok(());
    }
    let sealed = Head { link: batch.link, bytes: bytes + batch.text.len() as u64 };
    log.write_all(batch.text.as_bytes()).and_then(|()| head.write(sealed, before)).inspect_err(
        |_| {
            // Where this fails too, the next writer finds what is left and notes it.
            log.set_len(bytes).ok();
        },
    )
}
