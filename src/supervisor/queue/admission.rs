//! Whether one more job may wait.

use std::time::Duration;

use super::estimate::Ages;
use super::fair::Queue;
use super::lane::Lane;
use crate::ids::Tenant;
use crate::supervisor::refusal::{FullQueue, Refusal, Retry, TenantBound};

/// How long to stay away where it is not known how long jobs take.
const UNKNOWN: Duration = Duration::from_secs(5);

impl Queue {
    /// Whether a job of this tenant may be put in this lane: first by the tenant's own bound, then
    /// by those of all. A job that can start at once is never refused. `ages` tells for how long
    /// jobs have run.
    ///
    /// # Errors
    /// When too many wait already.
    pub fn check(&self, tenant: Tenant, lane: &str, ages: Ages<'_>) -> Result<(), Refusal> {
        if self.could_start(tenant, lane) {
            return Ok(());
        }
        let retry = if self.is_paused(lane) {
            Retry::Resumed
        } else {
            Retry::In(self.estimate(tenant, lane, 1, ages).unwrap_or(UNKNOWN))
        };
        let own = self.members.get(&tenant).map_or(0, |member| member.waiting);
        if let Some(limit) = reached(self.limits.of(tenant).max_queued, own) {
            return Err(Refusal::TenantLimit { bound: TenantBound::Queued { limit }, retry });
        }
        let of_lane =
            self.lanes.get(lane).and_then(|lane| reached(lane.limits.max_queued, lane.waiting));
        if of_lane.is_some() {
            let full = FullQueue::Lane { lane: lane.to_owned() };
            return Err(Refusal::QueueFull { full, retry });
        }
        if self.waiting() >= self.limits.max_queued {
            return Err(Refusal::QueueFull { full: FullQueue::All, retry });
        }
        Ok(())
    }

    /// Whether it would start at once: there is room for it, and nobody else is waiting for that.
    fn could_start(&self, tenant: Tenant, lane: &str) -> bool {
        self.hold().is_none()
            && self.running < self.limits.slots
            && self.lanes.get(lane).is_none_or(Lane::has_room)
            && !self.is_at_limit(tenant)
            && self.next_tenant().is_none()
    }
}

/// The bound, where so many have reached it.
fn reached(limit: Option<usize>, count: usize) -> Option<usize> {
    limit.filter(|limit| count >= *limit)
}
