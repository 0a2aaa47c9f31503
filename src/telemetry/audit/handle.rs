//! The handle through which the server writes its audit log.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::entry::{DecisionEntry, EndingEntry, NoteEntry};
use super::writer::{
    AuditError, AuditLogSettings, AuditWriter, EntryQueue, EntryWait, WriteResult,
};
use crate::telemetry::events;

/// The time that a call waits for the entry of its decision. A working log takes far less, also on a
/// busy host. If the log does not answer, the entry stays queued and the call continues.
const DECISION_WAIT: Duration = Duration::from_millis(50);

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
        let AuditLogSettings { path, max_queued, .. } = writer.settings();
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
            Ok(Err(_)) | Err(_) => Ok(self.queue().give_up(wait)?),
        }
    }

    /// Queues the end of a job.
    pub fn record_ending(&self, entry: &EndingEntry<'_>) {
        // The queue counts a failure.
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
            events::audit_lines_lost(lost);
        }
    }

    fn queue(&self) -> &EntryQueue {
        &self.sender.0
    }
}
