//! The times at which a log grew, so that a reader can start at a time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The first distance between two marks.
const FIRST_STEP: Duration = Duration::from_secs(1);

/// The most marks of a log. When there are more, every second one is dropped.
const MAX_MARKS: usize = 256;

/// The most marks of a log that are stored in a journal.
const MAX_STORED: usize = 64;

/// A mark for the next server: the times of the first and the last write in milliseconds since 1970,
/// and the offset of the first byte.
pub(crate) type StoredMark = (u64, u64, u64);

/// Converts a time to milliseconds since 1970, which mean the same in another process.
pub(crate) fn to_unix_ms(time: Instant) -> Option<u64> {
    let then = SystemTime::now().checked_sub(time.elapsed())?;
    u64::try_from(then.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

/// Converts milliseconds since 1970 to a time; one in the future is now.
pub(crate) fn from_unix_ms(millis: u64) -> Option<Instant> {
    let then = UNIX_EPOCH.checked_add(Duration::from_millis(millis))?;
    Instant::now().checked_sub(then.elapsed().unwrap_or_default())
}

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

    /// Rebuilds the marks of an earlier server.
    pub(crate) fn restore(marks: &[StoredMark]) -> Self {
        let mut times = Self::default();
        let mut previous = None;
        for (first, last, offset) in marks {
            if let Some(first) = from_unix_ms(*first) {
                times.mark(first, *offset, previous);
                previous = from_unix_ms(*last);
            }
        }
        times
    }

    /// Returns the marks for the next server, joined to at most [`MAX_STORED`]. None if there is one
    /// at most. `last_output` is the time of the last write.
    pub(crate) fn to_stored(&self, last_output: Option<Instant>) -> Vec<StoredMark> {
        if self.is_short() {
            return Vec::new();
        }
        let mut marks: Vec<WriteMark> = self.first.iter().chain(&self.more).copied().collect();
        if let (Some(newest), Some(last)) = (marks.last_mut(), last_output) {
            newest.last = last;
        }
        let joined = marks.chunks(marks.len().div_ceil(MAX_STORED)).filter_map(|part| {
            let (first, last) = (part.first()?, part.last()?);
            Some((to_unix_ms(first.first)?, to_unix_ms(last.last)?, first.offset))
        });
        joined.collect()
    }

    /// The time of the first write of the newest mark.
    pub(crate) fn newest_start(&self) -> Option<Instant> {
        self.more.last().or(self.first.as_ref()).map(|mark| mark.first)
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
    fn stored_marks_are_as_good_for_the_next_server_and_few() {
        let now = Instant::now();
        let start = now.checked_sub(Duration::from_secs(10_000)).unwrap_or(now);
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut times = WriteTimes::default();
        let mut previous = None;
        for number in 0..10_000 {
            times.mark(at(number), 10 * number, previous);
            previous = Some(at(number));
        }
        let stored = times.to_stored(previous);
        assert!(stored.len() <= MAX_STORED, "{}", stored.len());
        let restored = WriteTimes::restore(&stored);
        for seconds in (1..9_999).step_by(313) {
            let found = restored.offset_at(at(seconds), previous).unwrap();
            // The wall clock is read in milliseconds.
            assert!(found <= 10 * seconds + 10, "{seconds}: {found}");
            assert!(
                10 * seconds - found.min(10 * seconds) <= 10 * 10_000 / 20,
                "{seconds}: {found}"
            );
        }
        assert_eq!(WriteTimes::default().to_stored(previous), []);
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
