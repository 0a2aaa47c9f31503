//! What whoever runs the server may do to the queue while it runs.

use super::door::Yard;
use crate::supervisor::{Pressure, QueueLimits, QueueOverview, UnknownLane};

impl Yard {
    /// Nothing starts any more, in this lane or at all; what runs goes on.
    ///
    /// # Errors
    /// When there is no such lane.
    pub async fn pause(&self, lane: Option<String>) -> Result<(), UnknownLane> {
        self.supervisor.pause(lane).await
    }

    /// Jobs start again, in this lane or at all.
    ///
    /// # Errors
    /// When there is no such lane.
    pub async fn resume(&self, lane: Option<String>) -> Result<(), UnknownLane> {
        self.supervisor.resume(lane).await
    }

    /// From now on these bounds of the queue hold. Nothing that runs or waits is lost.
    pub async fn change_limits(&self, limits: QueueLimits) {
        self.supervisor.change_limits(limits).await;
    }

    /// From now on no new job is taken; those that wait and run go on to their ends.
    pub async fn begin_drain(&self) {
        self.supervisor.begin_drain().await;
    }

    /// New jobs are taken again, unless the server is shutting down.
    pub async fn end_drain(&self) {
        self.supervisor.end_drain().await;
    }

    /// From now on the host is short of this, or of nothing: while one job runs, no other starts.
    pub fn set_pressure(&self, pressure: Option<Pressure>) {
        self.supervisor.set_pressure(pressure);
    }

    /// All figures of the queue.
    pub async fn queue_overview(&self) -> QueueOverview {
        self.supervisor.overview().await
    }
}
