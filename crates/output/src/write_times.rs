//! The times at which a log grew, so that a reader can start at a time.

use std::time::{Duration, Instant};

/// The first distance between two marks.
const FIRST_STEP: Duration = Duration::from_secs(1);

/// The most marks of a log. When there are more, every second one is dropped.
const MAX_MARKS: usize = 256;

/// A moment, and the offset of the first byte that was written then or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WriteMark {
    at: Instant,
    offset: u64,
}

/// Marks of when a log had which length, a second apart at first. The distance doubles whenever there
/// are too many of them, so that it is at most 1/128 of the time in which the log grew.
///
/// Invariant: the times and the offsets of `first` and then `more` increase.
#[derive(Debug)]
pub(crate) struct WriteTimes {
    /// Kept apart: most logs are written within a second and need no more.
    first: Option<WriteMark>,
    more: Vec<WriteMark>,
    step: Duration,
}

impl Default for WriteTimes {
    fn default() -> Self {
        Self { first: None, more: Vec::new(), step: FIRST_STEP }
    }
}

impl WriteTimes {
    /// Records that the byte at `offset` and those after it were written now or later. Returns the
    /// time before which no other mark is needed.
    pub(crate) fn mark(&mut self, now: Instant, offset: u64) -> Instant {
        let last = self.more.last().or(self.first.as_ref());
        match last {
            None => self.first = Some(WriteMark { at: now, offset }),
            Some(last) if now.duration_since(last.at) >= self.step => {
                self.more.push(WriteMark { at: now, offset });
            }
            Some(_) => {}
        }
        if self.more.len() > MAX_MARKS {
            self.thin_out();
        }
        let last = self.more.last().or(self.first.as_ref());
        last.map_or(now, |last| last.at) + self.step
    }

    fn thin_out(&mut self) {
        let mut is_kept = false;
        self.more.retain(|_| {
            is_kept = !is_kept;
            is_kept
        });
        self.step *= 2;
    }

    /// Returns an offset at or before the first byte that was written at `since` or later: the last
    /// mark that is not later. 0 if no mark is early enough.
    pub(crate) fn offset_at(&self, since: Instant) -> u64 {
        let marks = self.first.iter().chain(&self.more);
        marks.take_while(|mark| mark.at <= since).last().map_or(0, |mark| mark.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_never_after_the_first_byte_that_is_wanted() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut times = WriteTimes::default();
        // A write of ten bytes every 300 ms.
        for number in 0..20_000 {
            times.mark(at(300 * number), 10 * number);
        }
        assert!(times.more.len() <= MAX_MARKS);
        let whole = 300 * 20_000;
        for millis in (0..whole).step_by(7919) {
            let wanted = 10 * millis.div_ceil(300);
            let found = times.offset_at(at(millis));
            assert!(found <= wanted, "{millis}: {found} is after {wanted}");
            let late = Duration::from_millis(300 * (wanted - found) / 10);
            assert!(late <= Duration::from_millis(whole) / 100, "{millis}: {late:?} too much");
        }
    }

    #[test]
    fn a_time_before_all_marks_means_everything() {
        let mut times = WriteTimes::default();
        let now = Instant::now();
        assert_eq!(times.offset_at(now), 0);
        let next = times.mark(now, 5);
        assert_eq!(next, now + FIRST_STEP);
        assert_eq!(times.mark(now + FIRST_STEP / 2, 7), next);
        assert_eq!(times.offset_at(now + FIRST_STEP), 5);
        assert_eq!(times.more.capacity(), 0, "a short log has no list");
        times.mark(now + FIRST_STEP, 9);
        assert_eq!(times.offset_at(now + FIRST_STEP), 9);
        assert_eq!(times.offset_at(now + FIRST_STEP / 2), 5);
    }
}
