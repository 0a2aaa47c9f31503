//! What was used within the last hour, by the minute.

use std::time::Duration;

const MINUTES: usize = 60;
const MINUTE: Duration = Duration::from_secs(60);

/// A sum over the last hour. Times are counted from any fixed moment, and never go back.
#[derive(Debug)]
pub(super) struct Window {
    /// By minute, in a ring. Invariant: what is older than an hour at minute `last` is zero.
    buckets: [Duration; MINUTES],
    /// The minute of the last change.
    last: u64,
}

impl Window {
    pub(super) const fn new() -> Self {
        Self { buckets: [Duration::ZERO; MINUTES], last: 0 }
    }

    pub(super) fn add(&mut self, now: Duration, used: Duration) {
        let minute = minute(now).max(self.last);
        for gone in (self.last + 1..=minute).take(MINUTES) {
            self.buckets[slot(gone)] = Duration::ZERO;
        }
        self.last = minute;
        self.buckets[slot(minute)] += used;
    }

    /// What was used within the hour before `now`.
    pub(super) fn used(&self, now: Duration) -> Duration {
        self.used_at(minute(now))
    }

    /// From `now` until less than `limit` was used within an hour, if nothing more is.
    pub(super) fn free_in(&self, now: Duration, limit: Duration) -> Duration {
        let this = minute(now);
        let is_free = |minute: &u64| self.used_at(*minute) < limit;
        let free = (this..=this + MINUTES as u64).find(is_free);
        let free = free.unwrap_or(this + MINUTES as u64);
        (MINUTE * u32::try_from(free).unwrap_or(u32::MAX)).saturating_sub(now)
    }

    fn used_at(&self, minute: u64) -> Duration {
        let first = (minute + 1).saturating_sub(MINUTES as u64);
        let kept = (self.last + 1).saturating_sub(MINUTES as u64);
        (first.max(kept)..=self.last).map(|minute| self.buckets[slot(minute)]).sum()
    }
}

const fn minute(time: Duration) -> u64 {
    time.as_secs() / 60
}

const fn slot(minute: u64) -> usize {
    (minute % MINUTES as u64) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_was_used_an_hour_ago_no_longer_counts() {
        let mut window = Window::new();
        window.add(seconds(30), seconds(10));
        window.add(seconds(90), seconds(5));
        assert_eq!(window.used(seconds(90)), seconds(15));
        assert_eq!(window.used(seconds(3599)), seconds(15));
        assert_eq!(window.used(seconds(3600)), seconds(5));
        assert_eq!(window.used(seconds(3660)), seconds(0));
        assert_eq!(window.free_in(seconds(100), seconds(20)), seconds(0));
        assert_eq!(window.free_in(seconds(100), seconds(15)), seconds(3500));
        assert_eq!(window.free_in(seconds(100), seconds(5)), seconds(3560));
    }

    proptest! {
        #[test]
        fn a_window_is_a_sum_over_the_last_sixty_minutes(
            steps in prop::collection::vec((0..4000_u64, 0..100_u64), 0..30),
            later in 0..8000_u64,
            limit in 1..200_u64,
        ) {
            let (mut window, mut all, mut now) = (Window::new(), Vec::new(), 0);
            for (pause, used) in steps {
                now += pause;
                window.add(seconds(now), seconds(used));
                all.push((now / 60, used));
            }
            now += later;
            let used = |now: u64| -> u64 {
                all.iter().filter(|(at, _)| at + 60 > now / 60).map(|(_, used)| used).sum()
            };
            prop_assert_eq!(window.used(seconds(now)), seconds(used(now)));
            let free = now + window.free_in(seconds(now), seconds(limit)).as_secs();
            prop_assert!(used(free) < limit, "then it is free");
            prop_assert!(free == now || used(free - 1) >= limit, "and not before");
        }
    }
}
