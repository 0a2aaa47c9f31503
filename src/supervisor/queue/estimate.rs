//! When a waiting job will start, from how long others ran.

use std::time::Duration;

use super::fair::Queue;
use crate::ids::{JobId, Tenant};

/// For how long a job has run so far: the queue has no clock.
pub type Ages<'a> = &'a dyn Fn(JobId) -> Duration;

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
    /// jobs in that lane ran, or by how long those that run have run already, where that is more.
    /// Nothing where none of its own is before it, for how long others' jobs run is not for this
    /// tenant to know; and nothing while something else than those ends has to come first.
    pub(super) fn estimate(
        &self,
        tenant: Tenant,
        lane: &str,
        position: usize,
        ages: Ages<'_>,
    ) -> Option<Duration> {
        if self.is_paused(lane) || self.spent.contains(&tenant) {
            return None;
        }
        let share = self.members.get(&tenant)?.lanes.get(lane)?;
        let mean = share.ran.get()?;
        let [position, beside] =
            [position, share.running.len()].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let so_far = share.running.iter().map(|id| ages(*id)).sum::<Duration>();
        let mean = so_far.checked_div(beside)?.max(mean);
        Some(mean.saturating_mul(position) / beside)
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
