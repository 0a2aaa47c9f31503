//! When a waiting job will start, from how long others ran.

use std::time::Duration;

use super::fair::Queue;
use crate::ids::Tenant;

/// The newest job counts for one in this many.
const MEMORY: u32 = 8;

/// A mean that forgets: what is recent counts more.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mean(Option<Duration>);

impl Mean {
    pub(super) fn add(&mut self, ran: Duration) {
        let old = self.0.unwrap_or(ran);
        self.0 = Some(old - old / MEMORY + ran / MEMORY);
    }

    pub(super) const fn get(self) -> Option<Duration> {
        self.0
    }
}

impl Queue {
    /// How long it will take until this position of a tenant's line comes up: by how long its own
    /// jobs in that lane ran, else those in its other lanes. Nothing without any: how long others'
    /// jobs run is not for this tenant to know.
    pub(super) fn estimate(&self, tenant: Tenant, lane: &str, position: usize) -> Option<Duration> {
        let member = self.members.get(&tenant)?;
        let share = member.lanes.get(lane);
        let in_lane = share.and_then(|share| share.ran.get());
        let elsewhere = || member.lanes.values().filter_map(|share| share.ran.get()).max();
        let mean = in_lane.or_else(elsewhere)?;
        let beside = share.map_or(1, |share| share.running.max(1));
        let position = u32::try_from(position).unwrap_or(u32::MAX);
        Some(mean.saturating_mul(position) / u32::try_from(beside).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_follows_what_is_recent() {
        let seconds = Duration::from_secs;
        let mut mean = Mean::default();
        assert_eq!(mean.get(), None);
        mean.add(seconds(8));
        assert_eq!(mean.get(), Some(seconds(8)));
        mean.add(seconds(16));
        assert_eq!(mean.get(), Some(seconds(9)));
        for _ in 0..50 {
            mean.add(seconds(1));
        }
        assert!(mean.get() < Some(seconds(2)));
        mean.add(Duration::MAX);
        mean.add(Duration::MAX);
    }
}
