//! The jobs that have just started, and whether the host has a processor for one more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time during which a job counts as just started: it is busy then, whatever it does later.
const YOUTH: Duration = Duration::from_millis(50);
/// A spawn that took longer had to wait for a processor.
const SOON: Duration = Duration::from_millis(2);
/// The time for which the host then counts as busy.
const BUSY: Duration = Duration::from_millis(500);

/// The recent starts of one process. Clones are cheap and share the list.
#[derive(Debug, Clone, Default)]
pub struct RecentStarts {
    list: Arc<Mutex<StartList>>,
}

/// The jobs that may need a processor now.
#[derive(Debug, Default)]
struct StartList {
    /// Jobs that have just started, by a number of their own.
    young: Vec<(u64, Instant)>,
    last: u64,
    busy_until: Option<Instant>,
}

impl StartList {
    /// Adds a start. Returns its number, and whether there is a processor for it.
    fn enter(&mut self, now: Instant) -> (u64, bool) {
        self.young.retain(|(_, since)| now.saturating_duration_since(*since) < YOUTH);
        let is_busy = self.busy_until.is_some_and(|until| now < until);
        let is_alone = self.young.is_empty() && !is_busy;
        self.last += 1;
        self.young.push((self.last, now));
        (self.last, is_alone)
    }

    fn leave(&mut self, number: u64) {
        self.young.retain(|(young, _)| *young != number);
    }

    /// Notes the duration of a spawn that a runtime thread waited for.
    fn note(&mut self, now: Instant, took: Duration) {
        if took > SOON {
            self.busy_until = Some(now + BUSY);
        }
    }
}

impl RecentStarts {
    /// Adds a start; the entry stays until the result is dropped, or until the job is no longer
    /// young.
    #[must_use]
    pub fn enter(&self) -> RecentStart {
        let (number, is_alone) = self.lock().enter(Instant::now());
        RecentStart { starts: self.clone(), number, is_alone }
    }

    fn lock(&self) -> MutexGuard<'_, StartList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entry of one job among the recent starts: held from before its process is created until its
/// end.
#[derive(Debug)]
pub struct RecentStart {
    starts: RecentStarts,
    number: u64,
    is_alone: bool,
}

impl RecentStart {
    /// `true` if no other job had just started, and the host did not count as busy, when this job
    /// came.
    #[must_use]
    pub const fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Notes the duration of a spawn that a runtime thread waited for: after a long one the host
    /// counts as busy.
    pub fn note_spawn(&self, took: Duration) {
        self.starts.lock().note(Instant::now(), took);
    }
}

impl Drop for RecentStart {
    fn drop(&mut self) {
        self.starts.lock().leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_beside_one_that_has_just_begun_is_not_alone() {
        let mut starts = StartList::default();
        let start = Instant::now();
        let enter =
            |starts: &mut StartList, millis| starts.enter(start + Duration::from_millis(millis));
        let (first, alone) = enter(&mut starts, 0);
        assert!(alone && !enter(&mut starts, 49).1);
        assert!(enter(&mut starts, 200).1, "those before are no longer young");
        let (last, _) = enter(&mut starts, 210);
        for number in [first, last - 1, last] {
            starts.leave(number);
        }
        assert!(enter(&mut starts, 211).1, "they have ended");
        starts.note(start + Duration::from_millis(300), SOON);
        assert!(enter(&mut starts, 400).1);
        starts.note(start + Duration::from_millis(500), SOON * 2);
        assert!(!enter(&mut starts, 999).1 && enter(&mut starts, 1050).1, "the host was busy");
    }

    #[test]
    fn an_entry_ends_when_it_is_dropped() {
        let starts = RecentStarts::default();
        let first = starts.enter();
        assert!(first.is_alone() && !starts.enter().is_alone());
        drop(first);
        assert!(starts.enter().is_alone());
        assert!(RecentStarts::default().enter().is_alone(), "each host has its own");
    }
}
