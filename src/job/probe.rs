//! A question to a job's pump: is all that was written in the log?
//!
//! That a log has been quiet does not say so: on a busy host, bytes may lie in a pipe for longer than
//! that.

use std::sync::{Arc, Mutex, PoisonError};

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
        let (asker, answer) = oneshot::channel();
        *self.asker() = Some(asker);
        self.0.asked.notify_one();
        // Without an answer somebody else has asked since, who gets it.
        answer.await.ok();
    }

    /// For the pump: returns when it was asked. Cancel-safe.
    pub(super) async fn asked(&self) {
        self.0.asked.notified().await;
    }

    /// For the pump: all that was there is in the log.
    pub(super) fn answer(&self) {
        if let Some(asker) = self.asker().take() {
            // Whoever asked may have gone meanwhile.
            asker.send(()).ok();
        }
    }

    fn asker(&self) -> std::sync::MutexGuard<'_, Option<oneshot::Sender<()>>> {
        self.0.asker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
