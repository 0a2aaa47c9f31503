//! The door for writers: each entry is appended under a lock, on whatever is there by then.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::mem;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, SystemTime};

use super::clock::rfc3339;
use super::entry::{DecisionEntry, EndingEntry, Event, NoteEntry};
use super::error::AuditError;
use super::files;
use super::head::{self, Head, LockedHead, Patience};
use super::line::{Link, Unlinked, compose};
use super::open::{OpenLog, open_log};
use super::resume::{LineEnd, Remark, Resumption, Sight, resume};
use crate::in_place::in_place;
use crate::private_files::{Links, explain_link};
use crate::telemetry::events;

/// As much of a log's end as is looked at: more than the longest entries and a half one.
const TAIL_BYTES: u64 = 256 * 1024;

/// Entries that are written together take at most so much, or are one: a writer that dies between
/// the log and its head leaves no more than the next one looks at.
const BATCH_BYTES: usize = 128 * 1024;

/// The first and the longest pause between two tries of entries that wait for a lock.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// Where the log is, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// The log. Its folder is made where it is missing.
    pub path: PathBuf,
    /// The log is rotated before an entry when it is larger than this.
    pub max_bytes: u64,
    /// Rotated files that are kept; at least one is.
    pub keep: usize,
    /// Bytes of entries that may wait in memory while another process holds the lock.
    pub max_queued: usize,
}

/// A handle to an audit log; clones write to the same one.
///
/// Any number of handles and processes may write one log. While somebody else holds its lock for
/// longer than an append takes, entries wait in memory, in their order and with their times, and a
/// thread writes them when the lock is free. So a write blocks only for as long as another one of
/// this process takes.
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
        let mut book = Book::new(settings);
        book.make_folder()?;
        book.write_queue(Patience::Usual)?;
        Ok(Self { book: Arc::new(Mutex::new(book)) })
    }

    /// The same without a look whether it can be written: each entry tries anew.
    #[must_use]
    pub fn unopened(settings: AuditSettings) -> Self {
        Self { book: Arc::new(Mutex::new(Book::new(settings))) }
    }

    /// Writes down a decision.
    ///
    /// # Errors
    /// When it could not be written; what to do then is the caller's choice.
    pub fn decision(&self, entry: &DecisionEntry<'_>) -> Result<(), AuditError> {
        let mut book = match self.book.try_lock() {
            Ok(book) => book,
            Err(_) => in_place(|| self.lock()),
        };
        let added = book.add(&entry.into())?;
        let is_written = match added {
            Added::Written => true,
            // Most often it is another writer, which is soon done.
            Added::First => in_place(|| book.write_queue(Patience::Short)).is_ok(),
            Added::Behind => false,
        };
        if !is_written {
            self.write_later(&mut book);
        }
        Ok(())
    }

    /// Writes down a job's end.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn ending(&self, entry: &EndingEntry<'_>) -> Result<(), AuditError> {
        self.add(self.lock(), &entry.into())
    }

    /// The same without waiting; false, and nothing is written, while another thread writes.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn ending_at_once(&self, entry: &EndingEntry<'_>) -> Result<bool, AuditError> {
        let Ok(book) = self.book.try_lock() else { return Ok(false) };
        self.add(book, &entry.into()).map(|()| true)
    }

    /// Writes down something that concerns no single job.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn note(&self, entry: &NoteEntry<'_>) -> Result<(), AuditError> {
        self.add(self.lock(), &entry.into())
    }

    /// Writes what still waits for the lock, for the end of the process. Blocks for two seconds at
    /// most.
    pub fn finish(&self) {
        self.lock().write_rest();
    }

    fn add(&self, mut book: MutexGuard<'_, Book>, event: &Event<'_>) -> Result<(), AuditError> {
        match book.add(event)? {
            Added::Written => {}
            Added::First | Added::Behind => self.write_later(&mut book),
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a thread write what waits, unless one does already.
    fn write_later(&self, book: &mut Book) {
        if book.has_writer {
            return;
        }
        let waiting = Arc::downgrade(&self.book);
        let thread = thread::Builder::new().name("audit-queue".to_owned());
        // Without a thread the next entry tries again.
        book.has_writer = thread.spawn(move || write_when_free(&waiting)).is_ok();
    }
}

/// Tries until everything that waits is written, or something else than a lock prevents it, which
/// the next entry meets too.
fn write_when_free(book: &Weak<Mutex<Book>>) {
    let [mut pause, longest] = PAUSES;
    loop {
        thread::sleep(pause);
        pause = (pause * 2).min(longest);
        let Some(book) = book.upgrade() else { return };
        let mut book = book.lock().unwrap_or_else(PoisonError::into_inner);
        match book.write_queue(Patience::None) {
            Err(error) if error.is_locked_out() => {}
            result => {
                book.has_writer = false;
                if let Err(error) = result {
                    events::audit_failed(&error);
                }
                return;
            }
        }
    }
}

/// The fate of an entry that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Added {
    Written,
    /// It waits for the lock, and no other did.
    First,
    /// It waits behind others.
    Behind,
}

#[derive(Debug)]
struct Book {
    settings: AuditSettings,
    /// As the last entry left it, unless that failed.
    open: Option<OpenLog>,
    /// Entries that wait for the lock, the oldest first.
    queue: VecDeque<Unlinked>,
    queued_bytes: usize,
    /// It was told that entries wait.
    is_waiting: bool,
    /// A thread tries to write the queue.
    has_writer: bool,
}

impl Drop for Book {
    fn drop(&mut self) {
        self.write_rest();
    }
}

impl Book {
    const fn new(settings: AuditSettings) -> Self {
        let queue = VecDeque::new();
        Self { settings, open: None, queue, queued_bytes: 0, is_waiting: false, has_writer: false }
    }

    fn make_folder(&self) -> Result<(), AuditError> {
        let folder = files::folder(&self.settings.path);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|source| AuditError::Folder { path: folder.to_owned(), source })
    }

    /// Writes an entry behind those that wait, or has it wait too while the log is locked.
    fn add(&mut self, event: &Event<'_>) -> Result<Added, AuditError> {
        let entry = Unlinked::new(&rfc3339(SystemTime::now()), event);
        let entry = entry.map_err(|source| self.write_error(source))?;
        let (bytes, is_first) = (entry.bytes(), self.queue.is_empty());
        self.queue.push_back(entry);
        self.queued_bytes += bytes;
        let failed = match self.write_queue(Patience::None) {
            Ok(()) => return Ok(Added::Written),
            Err(error) => error,
        };
        let most = self.settings.max_queued;
        if failed.is_locked_out() && self.queued_bytes <= most {
            let is_news = !mem::replace(&mut self.is_waiting, true);
            events::audit_waits(self.queue.len(), is_news);
            return Ok(if is_first { Added::First } else { Added::Behind });
        }
        self.queue.pop_back();
        self.queued_bytes -= bytes;
        if failed.is_locked_out() {
            return Err(AuditError::QueueFull { path: head::path_of(&self.settings.path), most });
        }
        Err(failed)
    }

    /// Writes what has to be told of the log itself, then all that waits.
    fn write_queue(&mut self, patience: Patience) -> Result<(), AuditError> {
        let mut open = self.open.take();
        loop {
            let files = open.map_or_else(|| self.open_files(), Ok)?;
            let head = LockedHead::exclusive(&files.head, patience)
                .map_err(|source| lock_error(&self.settings.path, source))?;
            // Else another one rotated the log, or somebody removed it.
            let Some(bytes) = files.length_in_place(&self.settings.path) else {
                open = None;
                continue;
            };
            let count = self.batch_length();
            self.append_to(&head, &files.log, bytes, count)?;
            drop(head);
            self.remove_first(count);
            if self.queue.is_empty() {
                self.open = Some(files);
                return Ok(());
            }
            // The log may have been rotated on the way.
            open = None;
        }
    }

    /// The number of entries that are written together.
    fn batch_length(&self) -> usize {
        let mut bytes = 0;
        let fitting = self.queue.iter().take_while(|entry| {
            bytes += entry.bytes();
            bytes <= BATCH_BYTES
        });
        fitting.count().max(1).min(self.queue.len())
    }

    /// Forgets the oldest entries.
    fn remove_first(&mut self, count: usize) {
        let bytes: usize = self.queue.drain(..count).map(|entry| entry.bytes()).sum();
        self.queued_bytes -= bytes;
        if self.queue.is_empty() && mem::take(&mut self.is_waiting) {
            events::audit_goes_on();
        }
    }

    /// Writes what waits for the lock; what is lost with us is told.
    fn write_rest(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        if let Err(error) = self.write_queue(Patience::Usual) {
            events::audit_lines_lost(self.queue.len(), &error);
            self.remove_first(self.queue.len());
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
        count: usize,
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
        batch(&resumption, self.queue.iter().take(count))
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

fn batch<'e>(
    resumption: &Resumption,
    entries: impl Iterator<Item = &'e Unlinked>,
) -> io::Result<Batch> {
    let mut batch = Batch { text: String::new(), link: resumption.link };
    match resumption.line_end {
        LineEnd::Whole => {}
        LineEnd::Missing => batch.text.push('\n'),
    }
    for remark in &resumption.remarks {
        batch.push(&Unlinked::new(&rfc3339(SystemTime::now()), &remark.event())?);
    }
    for entry in entries {
        batch.push(entry);
    }
    Ok(batch)
}

impl Batch {
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
