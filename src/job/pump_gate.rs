//! Stops all pumps of a server before another server takes over its jobs.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The gate that all pumps of a server pass: once it is closed, they read no further byte. Clones
/// are cheap and share the gate.
#[derive(Debug, Clone, Default)]
pub struct PumpGate {
    closed: CancellationToken,
    pumps: TaskTracker,
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
