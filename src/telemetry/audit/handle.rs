//! The handle by which the server writes its audit log.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::entry::{DecisionEntry, EndingEntry, NoteEntry};
use super::error::AuditError;
use super::writer::{AuditLogSettings, EntryQueue, Wait, WriteResult, Writer};
use crate::telemetry::events;

/// The time that a call waits for the entry of its decision. A log that answers takes far less,
/// also on a busy host; on one that does not, the entry stays queued and the call goes on.
const DECISION_WAIT: Duration = Duration::from_millis(50);

/// The time that the end of the server waits for everything that is queued.
const FINISH_WAIT: Duration = Duration::from_secs(2);

/// A handle to an audit log; clones write to the same one.
///
/// Any number of handles and processes may write one log. Of this process one thread does: it owns
/// the files and takes entries from a queue, in their order and with the times at which they were
/// added. So neither a disk that does not answer nor a lock that somebody else holds blocks a
/// caller. Failures are logged and counted here. When the last handle is dropped, the thread ends
/// once the queue is empty.
#[derive(Debug, Clone)]
pub struct AuditLog {
    sender: Arc<QueueSender>,
}

/// The callers' end of the queue, which is closed with the last handle.
#[derive(Debug)]
struct QueueSender(Arc<EntryQueue>);

impl Drop for QueueSender {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl AuditLog {
    /// Opens the log, makes it where it is missing, and notes what an interrupted writer left.
    /// Blocks meanwhile: it is for the start of the server.
    ///
    /// # Errors
    /// When the log cannot be locked, read or written, or there is no thread for it.
    pub fn open(settings: AuditLogSettings) -> Result<Self, AuditError> {
        let mut writer = Writer::new(settings);
        writer.open()?;
        Self::start(writer)
    }

    /// Starts without opening the log, which could not be opened: each entry tries to.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub fn open_later(settings: AuditLogSettings) -> Result<Self, AuditError> {
        Self::start(Writer::new(settings))
    }

    fn start(writer: Writer) -> Result<Self, AuditError> {
        let AuditLogSettings { path, max_queued, .. } = writer.settings();
        let queue = Arc::new(EntryQueue::new(path.clone(), *max_queued));
        let taken = Arc::clone(&queue);
        let thread = thread::Builder::new().name("audit".to_owned());
        thread.spawn(move || writer.run(&taken)).map_err(|source| AuditError::Thread { source })?;
        Ok(Self { sender: Arc::new(QueueSender(queue)) })
    }

    /// Writes down a decision. Returns once it is written, or after a short time if the log does
    /// not answer: then it is written later, in its order. So it is if the caller is cancelled.
    ///
    /// # Errors
    /// When it is not written and will not be; what to do then is the caller's choice.
    pub async fn decision(&self, entry: &DecisionEntry<'_>) -> WriteResult {
        let (reply, written) = oneshot::channel();
        let wait = self.queue().add(&entry.into(), Some(reply))?;
        if wait == Wait::No {
            return Ok(());
        }
        match timeout(DECISION_WAIT, written).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Ok(self.queue().give_up(wait)?),
        }
    }

    /// Has a job's end written down.
    pub fn ending(&self, entry: &EndingEntry<'_>) {
        // A failure is counted there.
        self.queue().add(&entry.into(), None).ok();
    }

    /// Has something written down that concerns no single job.
    pub fn note(&self, entry: &NoteEntry<'_>) {
        self.queue().add(&entry.into(), None).ok();
    }

    /// Waits until everything is written, for the end of the process. Blocks for two seconds at
    /// most; what is not written by then is told to be lost.
    pub fn finish(&self) {
        let lost = self.queue().wait_settled(FINISH_WAIT);
        if lost > 0 {
            events::audit_lines_lost(lost);
        }
    }

    fn queue(&self) -> &EntryQueue {
        &self.sender.0
    }
}
