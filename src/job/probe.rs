//! A question to a job's pump: is all that was written in the log?
//!
//! That a log has been quiet does not say so: on a busy host, bytes may lie in a pipe for longer than
//! that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

/// A cheap clone, one with whoever asks and one with the pump.
#[derive(Debug, Clone, Default)]
pub(super) struct Probe(Arc<Parts>);

#[derive(Debug, Default)]
struct Parts {
    asked: Notify,
    /// To whoever asked last; others have gone.
    asker: Mutex<Option<oneshot::Sender<()>>>,
}

impl Probe {
    /// Returns once all that is in the pipes by now is in the log. A pump that has come to its end
    /// answers no more.
    pub(super) async fn all_is_read(&self) {
        let (asker, answered) = oneshot::channel();
        *self.asker() = Some(asker);
        self.0.asked.notify_one();
        // Nothing is sent: that it is dropped is the answer.
        answered.await.ok();
    }

    /// For the pump: returns when it was asked. To drop what it returns is the answer. Cancel-safe.
    pub(super) async fn asked(&self) -> oneshot::Sender<()> {
        loop {
            self.0.asked.notified().await;
            if let Some(asker) = self.take_asker() {
                return asker;
            }
        }
    }

    /// Returns whoever has asked and waits, as [`Probe::asked`] does, without waiting for it: for a
    /// thread that is not the runtime's.
    pub(super) fn take_asker(&self) -> Option<oneshot::Sender<()>> {
        self.asker().take()
    }

    fn asker(&self) -> MutexGuard<'_, Option<oneshot::Sender<()>>> {
        self.0.asker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
