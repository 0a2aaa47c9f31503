//! The times at which a log grew, so that a reader can start at a time.

use std::time::{Duration, Instant};

/// The first distance between two marks.
const FIRST_STEP: Duration = Duration::from_secs(1);

/// The most marks of a log. When there are more, every second one is dropped.
const MAX_MARKS: usize = 256;

/// Bytes that were written one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WriteMark {
    /// The time of the first write.
    first: Instant,
    /// The time of the last write; of the last mark it is not known here.
    last: Instant,
    /// The offset of the first byte.
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
    /// Records that the byte at `offset` and those after it were written now or later; the write
    /// before it was at `previous`. Returns the time before which no other mark is needed.
    pub(crate) fn mark(&mut self, now: Instant, offset: u64, previous: Option<Instant>) -> Instant {
        let mark = WriteMark { first: now, last: now, offset };
        match self.more.last_mut().or(self.first.as_mut()) {
            None => self.first = Some(mark),
            Some(last) if now.duration_since(last.first) >= self.step => {
                last.last = previous.unwrap_or(now);
                self.more.push(mark);
            }
            Some(_) => {}
        }
        if self.more.len() > MAX_MARKS {
            self.thin_out();
        }
        let last = self.more.last().or(self.first.as_ref());
        last.map_or(now, |last| last.first) + self.step
    }

    /// `true` if there is one mark at most, which says no more than the time of the last write.
    pub(crate) const fn is_short(&self) -> bool {
        self.more.is_empty()
    }

    /// Joins each two marks.
    fn thin_out(&mut self) {
        let joined = self.more.chunks(2).map(|two| match two {
            [first, second] => WriteMark { last: second.last, ..*first },
            one => one[0],
        });
        self.more = joined.collect();
        self.step *= 2;
    }

    /// Returns an offset at or before the first byte that was written at `since` or later; `None` if
    /// there is no such byte. `last_output` is the time of the last write.
    pub(crate) fn offset_at(&self, since: Instant, last_output: Option<Instant>) -> Option<u64> {
        let Some(first) = self.first.filter(|first| first.first <= since) else { return Some(0) };
        let marks: Vec<WriteMark> =
            std::iter::once(first).chain(self.more.iter().copied()).collect();
        let (newest, older) = marks.split_last()?;
        let found = older.iter().find(|mark| mark.last >= since);
        let is_in_newest = last_output.is_none_or(|last| last >= since);
        found.or(Some(newest).filter(|_| is_in_newest)).map(|mark| mark.offset)
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
        let mut previous = None;
        // A write of ten bytes every 300 ms.
        for number in 0..20_000 {
            times.mark(at(300 * number), 10 * number, previous);
            previous = Some(at(300 * number));
        }
        assert!(times.more.len() <= MAX_MARKS);
        let whole: u64 = 300 * 19_999;
        for millis in (0..whole).step_by(7919) {
            let wanted = 10 * millis.div_ceil(300);
            let found = times.offset_at(at(millis), previous).unwrap();
            assert!(found <= wanted, "{millis}: {found} is after {wanted}");
            let late = Duration::from_millis(300 * (wanted - found) / 10);
            assert!(late <= Duration::from_millis(whole) / 100, "{millis}: {late:?} too much");
        }
    }

    #[test]
    fn a_pause_belongs_to_no_mark() {
        let mut times = WriteTimes::default();
        let now = Instant::now();
        assert_eq!(times.offset_at(now, None), Some(0));
        let next = times.mark(now, 5, None);
        assert_eq!(next, now + FIRST_STEP);
        let second = now + FIRST_STEP / 2;
        assert_eq!(times.mark(second, 7, Some(now)), next);
        assert_eq!(times.more.capacity(), 0, "a short log has no list");
        let later = now + 10 * FIRST_STEP;
        times.mark(later, 9, Some(second));
        let found = |since| times.offset_at(since, Some(later));
        assert_eq!(found(now.checked_sub(FIRST_STEP).unwrap_or(now)), Some(0));
        assert_eq!(found(second), Some(5));
        assert_eq!(found(now + FIRST_STEP), Some(9), "nothing was written in the pause");
        assert_eq!(found(later), Some(9));
        assert_eq!(found(later + FIRST_STEP), None);
    }
}
