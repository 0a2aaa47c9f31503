//! The thread that writes: it appends entries under a lock, on whatever is there by then.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use super::clock::rfc3339;
use super::error::AuditError;
use super::files;
use super::head::{self, Head, LockedHead, Patience};
use super::line::{Link, Unlinked, compose};
use super::open::{OpenLog, open_log};
use super::queue::{EntryQueue, Queued};
use super::resume::{LineEnd, Remark, Resumption, Sight, resume};
use crate::private_files::{Links, explain_link};

/// As much of a log's end as is looked at: more than the longest entries and a half one.
const TAIL_BYTES: u64 = 256 * 1024;

/// Entries that are written together take at most so much, or are one: a writer that dies between
/// the log and its head leaves no more than the next one looks at.
const BATCH_BYTES: usize = 128 * 1024;

/// The first and the longest pause between two tries to have a lock that somebody else keeps.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// Where the log is, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// The log. Its folder is made where it is missing.
    pub path: PathBuf,
    /// The log is rotated before entries are added when it is larger than this.
    pub max_bytes: u64,
    /// Rotated files that are kept; at least one is.
    pub keep: usize,
    /// Bytes of entries that may wait in memory while another process holds the lock, or the disk
    /// does not answer.
    pub max_queued: usize,
}

/// The owner of a log's files, on a thread of its own.
#[derive(Debug)]
pub(super) struct Writer {
    settings: AuditSettings,
    /// As the last entry left it, unless that failed.
    open: Option<OpenLog>,
}

impl Writer {
    pub(super) const fn new(settings: AuditSettings) -> Self {
        Self { settings, open: None }
    }

    pub(super) const fn settings(&self) -> &AuditSettings {
        &self.settings
    }

    /// Opens the log, makes it where it is missing, and notes what an interrupted writer left.
    pub(super) fn open(&mut self) -> Result<(), AuditError> {
        self.make_folder()?;
        self.append(&[], Patience::Usual)
    }

    /// Writes what comes through the queue until that is closed.
    pub(super) fn run(mut self, queue: &EntryQueue) {
        loop {
            let batch = queue.next_batch(BATCH_BYTES);
            if batch.is_empty() {
                return;
            }
            let result = self.append_when_free(&batch).map_err(Arc::new);
            queue.settle(batch, &result);
        }
    }

    /// Appends entries, however long another process holds the lock.
    fn append_when_free(&mut self, batch: &[Queued]) -> Result<(), AuditError> {
        // Most often it is another writer, which is soon done.
        let mut patience = Patience::Short;
        let [mut pause, longest] = PAUSES;
        loop {
            match self.append(batch, patience) {
                Err(error) if error.is_locked_out() => {}
                result => return result,
            }
            patience = Patience::None;
            thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
    }

    fn make_folder(&self) -> Result<(), AuditError> {
        let folder = files::folder(&self.settings.path);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|source| AuditError::Folder { path: folder.to_owned(), source })
    }

    /// Appends what has to be told of the log itself, then these entries.
    fn append(&mut self, batch: &[Queued], patience: Patience) -> Result<(), AuditError> {
        let mut open = self.open.take();
        loop {
            let files = open.map_or_else(|| self.open_files(), Ok)?;
            let head = LockedHead::exclusive(&files.head, patience)
                .map_err(|source| lock_error(&self.settings.path, source))?;
            // Else another one rotated the log, or somebody removed it.
            if let Some(bytes) = files.length_in_place(&self.settings.path) {
                self.append_to(&head, &files.log, bytes, batch)?;
                drop(head);
                self.open = Some(files);
                return Ok(());
            }
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
        batch: &[Queued],
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
        let entries = batch.iter().filter(|queued| !queued.is_withdrawn());
        Lines::compose(&resumption, entries.map(|queued| &queued.entry))
            .and_then(|lines| commit((head, sight.head), log, &lines, bytes))
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
struct Lines {
    text: String,
    link: Link,
}

impl Lines {
    fn compose<'e>(
        resumption: &Resumption,
        entries: impl Iterator<Item = &'e Unlinked>,
    ) -> io::Result<Self> {
        let mut lines = Self { text: String::new(), link: resumption.link };
        match resumption.line_end {
            LineEnd::Whole => {}
            LineEnd::Missing => lines.text.push('\n'),
        }
        for remark in &resumption.remarks {
            lines.push(&Unlinked::new(&rfc3339(SystemTime::now()), &remark.event())?);
        }
        for entry in entries {
            lines.push(entry);
        }
        Ok(lines)
    }

    fn push(&mut self, entry: &Unlinked) {
        let (mut line, link) = compose(self.link, entry);
        line.push('\n');
        self.link = link;
        // Most often there is one, which is all of the text then.
        if self.text.is_empty() {
            self.text = line;
        } else {
            self.text.push_str(&line);
        }
    }
}

/// The log first, then the head. When either fails, the log is as long as before.
fn commit(
    (head, before): (&LockedHead<'_>, Option<Head>),
    mut log: &File,
    lines: &Lines,
    bytes: u64,
) -> io::Result<()> {
    if lines.text.is_empty() {
        return Ok(());
    }
    let sealed = Head { link: lines.link, bytes: bytes + lines.text.len() as u64 };
    log.write_all(lines.text.as_bytes()).and_then(|()| head.write(sealed, before)).inspect_err(
        |_| {
            // Where this fails too, the next writer finds what is left and notes it.
            log.set_len(bytes).ok();
        },
    )
}
