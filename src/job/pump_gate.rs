//! The gate that stops the pumps of a server before another server takes over its jobs, and the
//! permits of busy pumps for threads.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The gate that all pumps of a server pass: once it is closed, they read no further byte. Clones
/// are cheap and share the gate.
#[derive(Debug, Clone)]
pub struct PumpGate {
    closed: CancellationToken,
    pumps: TaskTracker,
    flood_permits: Arc<Semaphore>,
}

/// The number of floods that have a thread at the same time. More would not be faster; other floods
/// stay with the runtime.
const FLOOD_THREADS: usize = 4;

impl Default for PumpGate {
    fn default() -> Self {
        let flood_permits = Arc::new(Semaphore::new(FLOOD_THREADS));
        Self { closed: CancellationToken::new(), pumps: TaskTracker::new(), flood_permits }
    }
}

impl PumpGate {
    /// Closes the gate. Returns once every pump has stopped: each byte that it has read is in its
    /// log, and the others are in the pipes.
    pub async fn close(&self) {
        self.closed.cancel();
        self.pumps.close();
        self.pumps.wait().await;
    }

    /// `true` once the gate is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Returns once the gate is closed. Cancel-safe.
    pub(super) async fn wait_until_closed(&self) {
        self.closed.cancelled().await;
    }

    /// Returns the right to a thread for a flood, if one is free.
    pub(super) fn try_flood_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.flood_permits).try_acquire_owned().ok()
    }

    /// Counts a pump as running for as long as the result exists.
    pub(super) fn enter(&self) -> TaskTrackerToken {
        self.pumps.token()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn closing_waits_for_every_pump() {
        let gate = PumpGate::default();
        let [first, second] = [gate.enter(), gate.enter()];
        let mut closing = Box::pin(gate.close());
        assert!(poll!(&mut closing).is_pending());
        gate.wait_until_closed().await;
        drop(first);
        assert!(poll!(&mut closing).is_pending());
        drop(second);
        assert!(poll!(&mut closing).is_ready());
    }
}
