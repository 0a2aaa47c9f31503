//! The thread that writes: it appends entries under a lock, on whatever is there by then.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use std::{mem, thread};

use tokio::sync::oneshot;

use super::entry::Event;
use super::error::AuditError;
use super::line::{Link, Unlinked, compose, rfc3339};
use super::log_files::{self, Head, LockedHead, OpenLog, Patience, open_log};
use super::resume::{LineEnd, Remark, Resumption, Sight, resume};
use crate::private_files::{Symlinks, explain_symlink_error};
use crate::telemetry::events;

/// As much of a log's end as is looked at: more than the longest entries and a half one.
const TAIL_BYTES: u64 = 256 * 1024;

/// Entries that are written together take at most so much, or are one: a writer that dies between
/// the log and its head leaves no more than the next one looks at.
const BATCH_BYTES: usize = 128 * 1024;

/// The first and the longest pause between two tries to have a lock that somebody else keeps.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// Where the log is, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLogSettings {
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
    settings: AuditLogSettings,
    /// As the last entry left it, unless that failed.
    open: Option<OpenLog>,
}

impl Writer {
    pub(super) const fn new(settings: AuditLogSettings) -> Self {
        Self { settings, open: None }
    }

    pub(super) const fn settings(&self) -> &AuditLogSettings {
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
        let folder = log_files::folder(&self.settings.path);
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
        let mut head = log_files::open(path);
        if head.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            self.make_folder()?;
            head = log_files::open(path);
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
        let AuditLogSettings { path, keep, .. } = &self.settings;
        log_files::rotate(path, (*keep).max(1))
            .and_then(|()| open_log(path))
            .map_err(|source| AuditError::Rotate { path: path.clone(), source })
    }

    fn write_error(&self, source: io::Error) -> AuditError {
        AuditError::Write { path: self.settings.path.clone(), source }
    }
}

fn lock_error(log: &Path, source: io::Error) -> AuditError {
    AuditError::Lock { path: log_files::path_of(log), source }
}

/// Reads no more than is needed: nothing of the log when its length is as the head says.
fn look(path: &Path, head: &LockedHead<'_>, log: &File, bytes: u64) -> io::Result<Sight> {
    let head = head.read()?;
    let rotated_bytes = match bytes {
        0 => fs::metadata(log_files::youngest(path)).ok().map(|file| file.len()),
        1.. => None,
    };
    let known = head.map_or(0, |head| head.bytes);
    let tail = match (bytes, head, rotated_bytes) {
        (0, None, Some(length)) => {
            let rotated = Symlinks::Refuse.options().read(true).open(log_files::youngest(path));
            read_end(&rotated.map_err(explain_symlink_error)?, 0, length)?
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

// Entries on their way from the callers that make them to the thread that writes them.

/// Bytes that may be queued for a log that answers, if `max_queued` is less. Such a log takes them
/// within milliseconds, so a burst of calls must not count as a log that cannot be written.
const BURST_BYTES: usize = 4 << 20;

/// The result of writing an entry. Entries that are written together share their error.
pub(super) type WriteResult = Result<(), Arc<AuditError>>;

/// The sender of the result to the caller that waits for it.
pub(super) type ReplySender = oneshot::Sender<WriteResult>;

/// An entry that is not written yet.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) entry: Unlinked,
    reply: Option<ReplySender>,
    wait: Wait,
}

impl Queued {
    /// `true` if the caller was told that this entry failed, so that it must not be written.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.wait == Wait::ThenFail && self.reply.as_ref().is_some_and(oneshot::Sender::is_closed)
    }
}

/// The way in which a caller waits for its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// The caller waits for a short time and then goes on; the entry stays queued.
    ThenGoOn,
    /// The entry is beyond `max_queued`: it fails unless it is written in that short time.
    ThenFail,
    /// The caller goes on at once: earlier entries are late already.
    No,
}

/// The queue between callers and the writer thread. Its lock is never held over a system call that
/// touches the log.
#[derive(Debug)]
pub(super) struct EntryQueue {
    /// The log, for errors.
    path: PathBuf,
    /// Bytes of entries that may be queued while the log does not answer.
    max_queued: usize,
    state: Mutex<State>,
    /// Wakes the writer.
    added: Condvar,
    /// Wakes whoever waits until everything is written.
    settled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The oldest first.
    entries: VecDeque<Queued>,
    /// Entries that are not settled: those in `entries`, and those that the writer has taken.
    lines: usize,
    /// The memory of these.
    bytes: usize,
    /// `true` if a caller has waited in vain since the queue was last empty.
    is_late: bool,
    /// `true` if no more entries come.
    is_closed: bool,
}

impl State {
    /// The way to wait for a new entry of this size; `None` if there is no room for it.
    const fn wait_for(&self, bytes: usize, max_queued: usize) -> Option<Wait> {
        let total = self.bytes.saturating_add(bytes);
        match (total <= max_queued, self.is_late) {
            (true, true) => Some(Wait::No),
            (true, false) => Some(Wait::ThenGoOn),
            (false, false) if total <= BURST_BYTES => Some(Wait::ThenFail),
            (false, true | false) => None,
        }
    }

    /// The number of oldest entries that together take at most so many bytes; at least one.
    fn batch_length(&self, most_bytes: usize) -> usize {
        let mut bytes = 0;
        let fitting = self.entries.iter().take_while(|queued| {
            bytes += queued.entry.bytes();
            bytes <= most_bytes
        });
        fitting.count().max(1).min(self.entries.len())
    }
}

impl EntryQueue {
    pub(super) fn new(path: PathBuf, max_queued: usize) -> Self {
        let added = Condvar::new();
        let settled = Condvar::new();
        Self { path, max_queued, state: Mutex::default(), added, settled }
    }

    /// Adds an entry behind the others. A failure is counted here.
    pub(super) fn add(
        &self,
        event: &Event<'_>,
        reply: Option<ReplySender>,
    ) -> Result<Wait, AuditError> {
        self.try_add(event, reply).inspect_err(|error| events::audit_failed(1, error))
    }

    fn try_add(&self, event: &Event<'_>, reply: Option<ReplySender>) -> Result<Wait, AuditError> {
        let mut state = self.lock();
        // The time is taken under the lock, so that times have the order of the entries.
        let entry = Unlinked::new(&rfc3339(SystemTime::now()), event)
            .map_err(|source| AuditError::Write { path: self.path.clone(), source })?;
        let bytes = entry.bytes();
        let wait = state.wait_for(bytes, self.max_queued).ok_or_else(|| self.full())?;
        state.lines += 1;
        state.bytes += bytes;
        state.entries.push_back(Queued { entry, reply, wait });
        events::audit_queued(state.lines);
        drop(state);
        self.added.notify_one();
        Ok(wait)
    }

    /// Notes that a caller has waited in vain. Returns what that means for its entry.
    pub(super) fn give_up(&self, wait: Wait) -> Result<(), AuditError> {
        let mut state = self.lock();
        // Else it was written just now.
        let is_news = state.lines > 0 && !mem::replace(&mut state.is_late, true);
        drop(state);
        if is_news {
            events::audit_stalled();
        }
        match wait {
            Wait::ThenGoOn | Wait::No => Ok(()),
            Wait::ThenFail => Err(self.full()).inspect_err(|error| events::audit_failed(1, error)),
        }
    }

    fn full(&self) -> AuditError {
        AuditError::QueueFull { path: self.path.clone(), most: self.max_queued }
    }

    /// Waits for entries and takes the oldest; none once the queue is closed and empty. What is
    /// taken counts as queued until it is settled.
    pub(super) fn next_batch(&self, most_bytes: usize) -> Vec<Queued> {
        let is_idle = |state: &mut State| state.entries.is_empty() && !state.is_closed;
        let waited = self.added.wait_while(self.lock(), is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let count = state.batch_length(most_bytes);
        state.entries.drain(..count).collect()
    }

    /// Counts a batch that failed, and tells whoever waits for an entry of it.
    pub(super) fn settle(&self, batch: Vec<Queued>, result: &WriteResult) {
        if let Err(error) = result {
            let failed = batch.iter().filter(|queued| !queued.is_withdrawn()).count();
            events::audit_failed(failed, error);
        }
        let mut state = self.lock();
        state.lines -= batch.len();
        state.bytes -= batch.iter().map(|queued| queued.entry.bytes()).sum::<usize>();
        let is_over = state.lines == 0 && mem::take(&mut state.is_late);
        events::audit_queued(state.lines);
        drop(state);
        if is_over {
            events::audit_recovered();
        }
        self.settled.notify_all();
        for reply in batch.into_iter().filter_map(|queued| queued.reply) {
            // The caller may have gone on.
            reply.send(result.clone()).ok();
        }
    }

    /// Waits until every entry is settled, for so long at most. Returns how many are not.
    pub(super) fn wait_settled(&self, time: Duration) -> usize {
        let waited = self.settled.wait_timeout_while(self.lock(), time, |state| state.lines > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.lines
    }

    /// Has the writer end once the queue is empty.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.added.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::NoteEntry;
    use super::*;

    #[track_caller]
    fn check(bytes: usize, is_late: bool, max_queued: usize, expected: Option<Wait>) {
        let state = State { bytes, is_late, ..State::default() };
        assert_eq!(state.wait_for(100, max_queued), expected);
    }

    #[test]
    fn the_bound_holds_for_what_is_late_and_not_for_a_burst() {
        check(0, false, 100, Some(Wait::ThenGoOn));
        check(1, false, 100, Some(Wait::ThenFail));
        check(0, true, 100, Some(Wait::No));
        check(1, true, 100, None);
        check(0, false, 0, Some(Wait::ThenFail));
        check(BURST_BYTES, false, 0, None);
        check(BURST_BYTES, false, BURST_BYTES + 100, Some(Wait::ThenGoOn));
        check(usize::MAX, true, usize::MAX - 1, None);
    }

    fn add(queue: &EntryQueue, reply: Option<ReplySender>) -> Result<Wait, AuditError> {
        queue.add(&Event::from(&NoteEntry { what: "test", detail: "" }), reply)
    }

    #[test]
    fn what_is_taken_counts_until_it_is_settled() {
        let queue = EntryQueue::new(PathBuf::from("log"), 1_000);
        add(&queue, None).unwrap();
        let bytes = queue.lock().bytes;
        add(&queue, None).unwrap();
        // At least one is taken, and no more than fit.
        assert_eq!(queue.next_batch(1).len(), 1);
        let rest = queue.next_batch(10 * bytes);
        assert_eq!((rest.len(), queue.wait_settled(Duration::ZERO)), (1, 2));
        queue.settle(rest, &Ok(()));
        assert_eq!(queue.lock().lines, 1);
        assert_eq!(queue.lock().bytes, bytes);
        queue.close();
        assert!(queue.next_batch(1).is_empty());
    }

    #[test]
    fn after_a_caller_waited_in_vain_nobody_waits_until_the_queue_was_empty() {
        let queue = EntryQueue::new(PathBuf::from("log"), 10_000);
        let (reply, told) = oneshot::channel();
        assert_eq!(add(&queue, Some(reply)).unwrap(), Wait::ThenGoOn);
        queue.give_up(Wait::ThenGoOn).unwrap();
        assert_eq!(add(&queue, None).unwrap(), Wait::No);
        drop(told);
        let batch = queue.next_batch(10_000);
        assert!(batch.iter().all(|queued| !queued.is_withdrawn()));
        queue.settle(batch, &Ok(()));
        assert_eq!(add(&queue, None).unwrap(), Wait::ThenGoOn);
    }

    #[test]
    fn an_entry_that_may_not_wait_is_withdrawn_with_its_caller() {
        let queue = EntryQueue::new(PathBuf::from("log"), 0);
        let (reply, told) = oneshot::channel();
        let wait = add(&queue, Some(reply)).unwrap();
        let batch = queue.next_batch(1);
        assert!(!batch[0].is_withdrawn());
        drop(told);
        assert_eq!(queue.give_up(wait).unwrap_err().code(), "audit_queue_full");
        assert!(batch[0].is_withdrawn());
        assert_eq!(add(&queue, None).unwrap_err().code(), "audit_queue_full");
        queue.settle(batch, &Ok(()));
        assert_eq!(add(&queue, None).unwrap(), Wait::ThenFail);
    }
}
