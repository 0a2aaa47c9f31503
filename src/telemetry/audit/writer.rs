//! The handle through which the server writes its audit log, the queue behind it, and the writer
//! thread, which appends entries under a lock.

use std::collections::VecDeque;
use std::fs::{DirBuilder, File};
use std::io;
use std::mem;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::entry::{
    AuditRecord, DecisionEntry, EndingEntry, NoteEntry, UnlinkedEntry, format_rfc3339,
};
use super::log_files::{
    self, ComposedLines, LockWait, LockedHead, OpenLog, ResumeNote, commit, observe_log, open_log,
    plan_resume,
};
use crate::telemetry::events;

/// The time that a call waits for the entry of its decision. A working log takes far less. If the log
/// does not answer, the entry stays queued and the call continues.
const DECISION_WAIT: Duration = Duration::from_millis(50);

/// The time after which a log that a caller no longer waits for counts as one that does not answer. On a
/// busy host its thread may have to wait longer for a processor than a call can.
const STALL_TIME: Duration = Duration::from_secs(1);

/// The time that a shutdown waits for the queued entries.
const FINISH_WAIT: Duration = Duration::from_secs(2);

/// A handle to an audit log; clones write to the same log.
///
/// Any number of handles and processes may write one log. In this process, one thread owns the files.
/// It takes entries from a queue, in order and with the times at which they were added. So neither a
/// disk that does not answer nor a lock that another process holds blocks a caller. Failures are
/// logged and counted here. After the last handle is dropped, the thread ends when the queue is
/// empty.
#[derive(Debug, Clone)]
pub struct AuditLog {
    sender: Arc<QueueSender>,
}

/// The callers' end of the queue. Dropping the last handle closes it.
#[derive(Debug)]
struct QueueSender(Arc<EntryQueue>);

impl Drop for QueueSender {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl AuditLog {
    /// Opens the log, creates it if it is missing, and notes the remains of an interrupted writer.
    /// Blocks; call it only while the server starts.
    ///
    /// # Errors
    /// Fails if the log cannot be locked, read or written, or its thread cannot be started.
    pub fn open(settings: AuditLogSettings) -> Result<Self, AuditError> {
        let mut writer = AuditWriter::new(settings);
        writer.open()?;
        Self::start(writer)
    }

    /// Starts the writer thread without opening the log, after `open` failed; each entry tries
    /// again to open it.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub fn open_later(settings: AuditLogSettings) -> Result<Self, AuditError> {
        Self::start(AuditWriter::new(settings))
    }

    fn start(writer: AuditWriter) -> Result<Self, AuditError> {
        let AuditLogSettings { path, max_queued, .. } = &writer.settings;
        let queue = Arc::new(EntryQueue::new(path.clone(), *max_queued));
        let writer_queue = Arc::clone(&queue);
        let thread = thread::Builder::new().name("audit".to_owned());
        thread
            .spawn(move || writer.run(&writer_queue))
            .map_err(|source| AuditError::Thread { source })?;
        Ok(Self { sender: Arc::new(QueueSender(queue)) })
    }

    /// Writes a decision. Returns once it is written, or after a short time if the log does not answer:
    /// then it is written later, in order. The same holds if the caller is cancelled.
    ///
    /// # Errors
    /// Fails if the decision is not written and will not be; the caller decides what to do then.
    pub async fn record_decision(&self, entry: &DecisionEntry<'_>) -> WriteResult {
        let (reply, written) = oneshot::channel();
        let wait = self.queue().add(&entry.into(), Some(reply))?;
        if wait == EntryWait::None {
            return Ok(());
        }
        match timeout(DECISION_WAIT, written).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => {
                // Before the stall check is planned: its time counts from here.
                let result = self.queue().give_up(wait);
                let queue = Arc::clone(&self.sender.0);
                tokio::spawn(async move {
                    sleep(STALL_TIME).await;
                    queue.report_stall(STALL_TIME);
                });
                Ok(result?)
            }
        }
    }

    /// Queues the end of a job.
    pub fn record_ending(&self, entry: &EndingEntry<'_>) {
        // The queue counts a failure.
        self.queue().add(&entry.into(), None).ok();
    }

    /// Queues an entry about a program that was refused while its job ran.
    pub fn record_refused_start(&self, entry: &DecisionEntry<'_>) {
        self.queue().add(&entry.into(), None).ok();
    }

    /// Queues a note about the server.
    pub fn record_note(&self, entry: &NoteEntry<'_>) {
        self.queue().add(&entry.into(), None).ok();
    }

    /// Waits until all entries are written, at the end of the process. Blocks for at most two seconds;
    /// entries that are not written by then are reported as lost.
    pub fn finish(&self) {
        let lost = self.queue().wait_until_empty(FINISH_WAIT);
        if lost > 0 {
            // Its own check may not have run yet.
            self.queue().report_stall(STALL_TIME);
            events::audit_lines_lost(lost);
        }
    }

    fn queue(&self) -> &EntryQueue {
        &self.sender.0
    }
}

/// The bound on a batch, unless it is a single entry. If a writer dies between the log and its head,
/// the next writer finds the whole batch in the end of the log that it reads.
const BATCH_BYTES: usize = 128 * 1024;

/// The first and the longest pause between two tries to get a lock that another process holds.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// The path of the log and its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLogSettings {
    /// The log. Its directory is created if it is missing.
    pub path: PathBuf,
    /// The size in bytes above which the log is rotated before entries are added.
    pub max_bytes: u64,
    /// The number of rotated files that are kept; at least one.
    pub keep: usize,
    /// Bytes of entries that may be queued in memory while another process holds the lock, or the disk
    /// does not answer.
    pub max_queued: usize,
}

/// The error of an entry that was not written. The chain stays intact: a later entry continues it.
#[derive(Debug, Error)]
pub enum AuditError {
    /// The directory of the log is missing and could not be created.
    #[error("cannot create the directory `{}` of the audit log; create it, or set another audit.file", path.display())]
    Folder { path: PathBuf, source: io::Error },
    /// The log could not be locked.
    #[error("cannot lock the audit log with `{}`; end the process that holds the lock, or check its permissions", path.display())]
    Lock {
        /// The head, which is the lock.
        path: PathBuf,
        source: io::Error,
    },
    /// The log does not answer and the queue is full.
    #[error("the audit log `{}` does not answer, and more than {max_queued} bytes of entries would wait for it (audit.max_queued); end the process that holds its lock, or check its disk", path.display())]
    QueueFull {
        path: PathBuf,
        /// The limit of the queue in bytes.
        max_queued: usize,
    },
    /// The writer thread could not be started.
    #[error("cannot start the thread of the audit log; raise the limit on processes")]
    Thread { source: io::Error },
    #[error("cannot read the audit log `{}`; check its permissions", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write the audit log `{}`; free space on its disk, or check its permissions", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// The log is full and could not be rotated.
    #[error("cannot rotate the audit log `{}`; check the permissions of its folder", path.display())]
    Rotate { path: PathBuf, source: io::Error },
}

impl AuditError {
    /// `true` if another process holds the lock, so that a later try can succeed.
    fn is_locked_out(&self) -> bool {
        let Self::Lock { source, .. } = self else { return false };
        matches!(source.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
    }

    /// Returns the stable code word of the error.
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

/// The owner of the log's files, on its own thread.
#[derive(Debug)]
struct AuditWriter {
    settings: AuditLogSettings,
    /// The files as the last append left them; `None` if it failed.
    open: Option<OpenLog>,
}

impl AuditWriter {
    const fn new(settings: AuditLogSettings) -> Self {
        Self { settings, open: None }
    }

    /// Opens the log, creates it if it is missing, and notes the remains of an interrupted writer.
    fn open(&mut self) -> Result<(), AuditError> {
        self.create_folder()?;
        self.append(&[], LockWait::Usual)
    }

    /// Writes entries from the queue until it is closed.
    fn run(mut self, queue: &EntryQueue) {
        loop {
            let batch = queue.next_batch(BATCH_BYTES);
            if batch.is_empty() {
                return;
            }
            let result = self.append_when_free(&batch).map_err(Arc::new);
            queue.finish_batch(batch, &result);
        }
    }

    /// Appends entries; waits as long as another process holds the lock.
    fn append_when_free(&mut self, batch: &[QueuedEntry]) -> Result<(), AuditError> {
        // Usually the holder is another writer, which finishes soon.
        let mut wait = LockWait::Short;
        let [mut pause, longest] = PAUSES;
        loop {
            match self.append(batch, wait) {
                Err(error) if error.is_locked_out() => {}
                result => return result,
            }
            wait = LockWait::None;
            thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
    }

    fn create_folder(&self) -> Result<(), AuditError> {
        let folder = log_files::parent_dir(&self.settings.path);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|source| AuditError::Folder { path: folder.to_owned(), source })
    }

    /// Appends notes about the log itself, if there are any, and then these entries.
    fn append(&mut self, batch: &[QueuedEntry], wait: LockWait) -> Result<(), AuditError> {
        let mut open = self.open.take();
        loop {
            let files = open.map_or_else(|| self.open_files(), Ok)?;
            let head = LockedHead::lock_exclusive(&files.head, wait)
                .map_err(|source| lock_error(&self.settings.path, source))?;
            // Otherwise another process rotated or removed the log.
            if let Some(bytes) = files.length_if_current(&self.settings.path) {
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
        let mut head = log_files::open_head(path);
        if head.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            self.create_folder()?;
            head = log_files::open_head(path);
        }
        let head = head.map_err(|source| lock_error(path, source))?;
        OpenLog::open(path, head).map_err(|source| self.write_error(source))
    }

    fn append_to(
        &self,
        head: &LockedHead<'_>,
        log: &File,
        bytes: u64,
        batch: &[QueuedEntry],
    ) -> Result<(), AuditError> {
        let path = &self.settings.path;
        let observed = observe_log(path, head, log, bytes)
            .map_err(|source| AuditError::Read { path: path.clone(), source })?;
        let mut plan = plan_resume(&observed);
        // A note belongs to the file that it is about.
        let rotated = if plan.notes.is_empty() && bytes > self.settings.max_bytes {
            plan.notes.push(ResumeNote::Rotated);
            Some(self.rotate()?)
        } else {
            None
        };
        let (log, bytes) = rotated.as_ref().map_or((log, bytes), |log| (log, 0));
        let entries = batch.iter().filter(|queued| !queued.is_withdrawn());
        ComposedLines::new(&plan, entries.map(|queued| &queued.entry))
            .and_then(|lines| commit(head, observed.head, log, &lines, bytes))
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
    AuditError::Lock { path: log_files::head_path(log), source }
}

// The queue between the callers and the writer thread.

/// Bytes that may be queued for a log that answers, if `max_queued` is less. Such a log accepts them
/// within milliseconds, so a burst of calls must not count as a log that cannot be written.
const BURST_BYTES: usize = 4 << 20;

/// The time after a batch in which only an entry with a reply starts another batch. Entries without a
/// reply that follow each other closely share a batch.
const GATHER_TIME: Duration = Duration::from_millis(5);

/// The result of writing an entry. Entries of one batch share their error.
type WriteResult = Result<(), Arc<AuditError>>;

/// The channel to the caller that waits for its entry.
type ReplySender = oneshot::Sender<WriteResult>;

/// An entry in the queue.
#[derive(Debug)]
struct QueuedEntry {
    entry: UnlinkedEntry,
    reply: Option<ReplySender>,
    wait: EntryWait,
}

impl QueuedEntry {
    /// `true` if the caller was told that this entry failed; then it must not be written.
    fn is_withdrawn(&self) -> bool {
        self.wait == EntryWait::Required
            && self.reply.as_ref().is_some_and(oneshot::Sender::is_closed)
    }
}

/// The way a caller waits for its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryWait {
    /// The caller waits for a short time and then continues; the entry stays queued.
    Optional,
    /// The queue is above `max_queued`: the entry fails unless it is written within that short time.
    Required,
    /// The caller continues at once, since earlier entries are already late.
    None,
}

/// The queue between callers and the writer thread. Its lock is never held during a system call on
/// the log.
#[derive(Debug)]
struct EntryQueue {
    /// The path of the log, for errors.
    path: PathBuf,
    /// Bytes of entries that may be queued while the log does not answer.
    max_queued: usize,
    state: Mutex<State>,
    /// Wakes the writer thread.
    added: Condvar,
    /// Wakes callers that wait until everything is written.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The queued entries, oldest first.
    entries: VecDeque<QueuedEntry>,
    /// The number of unfinished entries: those in `entries`, and those that the writer has taken.
    lines: usize,
    /// The memory of the unfinished entries.
    bytes: usize,
    /// The number of entries in `entries` with a reply.
    awaited: usize,
    /// `true` while only an entry with a reply wakes the writer thread.
    is_gathering: bool,
    /// `true` if the process ends and waits for the entries.
    is_finishing: bool,
    /// The first time at which a caller's wait timed out since the queue was last empty.
    late_since: Option<Instant>,
    /// `true` if the log was reported not to answer since then.
    is_stall_reported: bool,
    /// `true` if no more entries will come.
    is_closed: bool,
}

impl State {
    /// The way to wait for a new entry of this size; `None` if the queue has no room for it.
    const fn choose_wait(&self, bytes: usize, max_queued: usize) -> Option<EntryWait> {
        let total = self.bytes.saturating_add(bytes);
        match (total <= max_queued, self.late_since.is_some()) {
            (true, true) => Some(EntryWait::None),
            (true, false) => Some(EntryWait::Optional),
            (false, false) if total <= BURST_BYTES => Some(EntryWait::Required),
            (false, true | false) => None,
        }
    }

    /// The number of oldest entries that together take at most `max_bytes`; at least one.
    fn batch_length(&self, max_bytes: usize) -> usize {
        let mut bytes = 0;
        let fitting = self.entries.iter().take_while(|queued| {
            bytes += queued.entry.bytes();
            bytes <= max_bytes
        });
        fitting.count().max(1).min(self.entries.len())
    }
}

impl EntryQueue {
    fn new(path: PathBuf, max_queued: usize) -> Self {
        let added = Condvar::new();
        let emptied = Condvar::new();
        Self { path, max_queued, state: Mutex::default(), added, emptied }
    }

    /// Adds an entry at the end. Counts a failure.
    fn add(
        &self,
        event: &AuditRecord<'_>,
        reply: Option<ReplySender>,
    ) -> Result<EntryWait, AuditError> {
        self.try_add(event, reply).inspect_err(|error| events::audit_failed(1, error))
    }

    fn try_add(
        &self,
        event: &AuditRecord<'_>,
        reply: Option<ReplySender>,
    ) -> Result<EntryWait, AuditError> {
        let mut state = self.lock();
        // The time is read under the lock, so that times have the order of the entries.
        let entry = UnlinkedEntry::new(&format_rfc3339(SystemTime::now()), event)
            .map_err(|source| AuditError::Write { path: self.path.clone(), source })?;
        let bytes = entry.bytes();
        let wait = state.choose_wait(bytes, self.max_queued).ok_or_else(|| self.full_error())?;
        state.lines += 1;
        state.bytes += bytes;
        state.awaited += usize::from(reply.is_some());
        let is_urgent = reply.is_some() || !state.is_gathering;
        state.entries.push_back(QueuedEntry { entry, reply, wait });
        events::audit_queued(state.lines);
        drop(state);
        if is_urgent {
            self.added.notify_one();
        }
        Ok(wait)
    }

    /// Records that a caller's wait timed out. Returns the result for its entry.
    fn give_up(&self, wait: EntryWait) -> Result<(), AuditError> {
        let mut state = self.lock();
        // If no line is left, the entry was written just now.
        if state.lines > 0 {
            state.late_since.get_or_insert_with(Instant::now);
        }
        drop(state);
        match wait {
            EntryWait::Optional | EntryWait::None => Ok(()),
            EntryWait::Required => {
                Err(self.full_error()).inspect_err(|error| events::audit_failed(1, error))
            }
        }
    }

    /// Reports, once, that the log does not answer if entries have been late for this time.
    fn report_stall(&self, time: Duration) {
        let mut state = self.lock();
        let is_stalled = state.late_since.is_some_and(|since| since.elapsed() >= time);
        let is_news = is_stalled && !mem::replace(&mut state.is_stall_reported, true);
        drop(state);
        if is_news {
            events::audit_stalled();
        }
    }

    fn full_error(&self) -> AuditError {
        AuditError::QueueFull { path: self.path.clone(), max_queued: self.max_queued }
    }

    /// Waits for entries, gathers some, and takes the oldest; returns none if the queue is closed and
    /// empty. Taken entries count as queued until [`EntryQueue::finish_batch`].
    fn next_batch(&self, max_bytes: usize) -> Vec<QueuedEntry> {
        let nobody_waits =
            |state: &mut State| state.awaited == 0 && !state.is_finishing && !state.is_closed;
        let gathered = self.added.wait_timeout_while(self.lock(), GATHER_TIME, nobody_waits);
        let (mut state, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        state.is_gathering = false;
        let is_idle = |state: &mut State| state.entries.is_empty() && !state.is_closed;
        let waited = self.added.wait_while(state, is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let count = state.batch_length(max_bytes);
        let batch: Vec<_> = state.entries.drain(..count).collect();
        state.awaited -= batch.iter().filter(|queued| queued.reply.is_some()).count();
        state.is_gathering = true;
        batch
    }

    /// Removes a batch from the counts, counts it if it failed, and replies to the waiting callers.
    fn finish_batch(&self, batch: Vec<QueuedEntry>, result: &WriteResult) {
        if let Err(error) = result {
            let failed = batch.iter().filter(|queued| !queued.is_withdrawn()).count();
            events::audit_failed(failed, error);
        }
        let mut state = self.lock();
        state.lines -= batch.len();
        state.bytes -= batch.iter().map(|queued| queued.entry.bytes()).sum::<usize>();
        let mut is_over = false;
        if state.lines == 0 {
            state.late_since = None;
            is_over = mem::take(&mut state.is_stall_reported);
        }
        events::audit_queued(state.lines);
        drop(state);
        if is_over {
            events::audit_recovered();
        }
        self.emptied.notify_all();
        for reply in batch.into_iter().filter_map(|queued| queued.reply) {
            // The caller may have continued without the reply.
            reply.send(result.clone()).ok();
        }
    }

    /// Waits until every entry is finished, for at most `time`. Returns the number of unfinished ones.
    fn wait_until_empty(&self, time: Duration) -> usize {
        let mut state = self.lock();
        state.is_finishing = true;
        self.added.notify_one();
        let waited = self.emptied.wait_timeout_while(state, time, |state| state.lines > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.lines
    }

    /// Makes the writer end once the queue is empty.
    fn close(&self) {
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
    fn check(bytes: usize, is_late: bool, max_queued: usize, expected: Option<EntryWait>) {
        let late_since = is_late.then(Instant::now);
        let state = State { bytes, late_since, ..State::default() };
        assert_eq!(state.choose_wait(100, max_queued), expected);
    }

    #[test]
    fn the_bound_applies_to_a_stalled_log_and_not_to_a_burst() {
        check(0, false, 100, Some(EntryWait::Optional));
        check(1, false, 100, Some(EntryWait::Required));
        check(0, true, 100, Some(EntryWait::None));
        check(1, true, 100, None);
        check(0, false, 0, Some(EntryWait::Required));
        check(BURST_BYTES, false, 0, None);
        check(BURST_BYTES, false, BURST_BYTES + 100, Some(EntryWait::Optional));
        check(usize::MAX, true, usize::MAX - 1, None);
    }

    fn add(queue: &EntryQueue, reply: Option<ReplySender>) -> Result<EntryWait, AuditError> {
        queue.add(&AuditRecord::from(&NoteEntry { what: "test", detail: "" }), reply)
    }

    #[test]
    fn taken_entries_count_until_their_batch_is_finished() {
        let queue = EntryQueue::new(PathBuf::from("log"), 1_000);
        add(&queue, None).unwrap();
        let bytes = queue.lock().bytes;
        add(&queue, None).unwrap();
        // At least one is taken, and no more than fit.
        assert_eq!(queue.next_batch(1).len(), 1);
        let rest = queue.next_batch(10 * bytes);
        assert_eq!((rest.len(), queue.wait_until_empty(Duration::ZERO)), (1, 2));
        queue.finish_batch(rest, &Ok(()));
        assert_eq!(queue.lock().lines, 1);
        assert_eq!(queue.lock().bytes, bytes);
        queue.close();
        assert!(queue.next_batch(1).is_empty());
    }

    #[test]
    fn entries_without_a_reply_wait_for_the_next_batch() {
        let queue = EntryQueue::new(PathBuf::from("log"), 10_000);
        add(&queue, None).unwrap();
        assert!(!queue.lock().is_gathering, "the writer is woken");
        assert_eq!(queue.next_batch(10_000).len(), 1);
        assert!(queue.lock().is_gathering);
        add(&queue, None).unwrap();
        let (reply, _written) = oneshot::channel();
        add(&queue, Some(reply)).unwrap();
        assert_eq!(queue.lock().awaited, 1);
        assert_eq!(queue.next_batch(10_000).len(), 2);
        assert_eq!(queue.lock().awaited, 0);
        add(&queue, None).unwrap();
        assert_eq!(queue.next_batch(10_000).len(), 1, "nobody waits, and it is written");
    }

    #[test]
    fn after_one_timeout_no_caller_waits_until_the_queue_was_empty() {
        let queue = EntryQueue::new(PathBuf::from("log"), 10_000);
        let (reply, receiver) = oneshot::channel();
        assert_eq!(add(&queue, Some(reply)).unwrap(), EntryWait::Optional);
        queue.give_up(EntryWait::Optional).unwrap();
        assert_eq!(add(&queue, None).unwrap(), EntryWait::None);
        queue.report_stall(Duration::from_secs(3600));
        assert!(!queue.lock().is_stall_reported, "it is late for a moment only");
        queue.report_stall(Duration::ZERO);
        assert!(queue.lock().is_stall_reported);
        drop(receiver);
        let batch = queue.next_batch(10_000);
        assert!(batch.iter().all(|queued| !queued.is_withdrawn()));
        queue.finish_batch(batch, &Ok(()));
        assert_eq!(add(&queue, None).unwrap(), EntryWait::Optional);
        assert!(!queue.lock().is_stall_reported);
        queue.report_stall(Duration::ZERO);
        assert!(!queue.lock().is_stall_reported, "nothing is late");
    }

    #[test]
    fn an_entry_beyond_the_bound_is_withdrawn_with_its_caller() {
        let queue = EntryQueue::new(PathBuf::from("log"), 0);
        let (reply, receiver) = oneshot::channel();
        let wait = add(&queue, Some(reply)).unwrap();
        let batch = queue.next_batch(1);
        assert!(!batch[0].is_withdrawn());
        drop(receiver);
        assert_eq!(queue.give_up(wait).unwrap_err().code(), "audit_queue_full");
        assert!(batch[0].is_withdrawn());
        assert_eq!(add(&queue, None).unwrap_err().code(), "audit_queue_full");
        queue.finish_batch(batch, &Ok(()));
        assert_eq!(add(&queue, None).unwrap(), EntryWait::Required);
    }
}
