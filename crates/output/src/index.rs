//! The index of a log: one small record per run, with the stream that wrote it and the number of
//! lines before it; and beside the runs, the bytes that could not be kept, and the times at which the
//! log grew.
//!
//! A run is never longer than [`RUN_BYTES`], so a seek by byte or by line is one binary search and
//! a scan of one block. Records beyond [`RUNS_IN_MEMORY`] go to a file: two streams that alternate
//! byte by byte cost disk, not memory.

use std::io;
use std::ops::{Range, RangeInclusive};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::counters::{DropReason, SpillOperation};
use crate::spill::SpillFile;

/// One of the two output streams of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Standard output; also everything that a program writes to a terminal, or to one pipe for both
    /// streams.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// The name of the stream in labels and replies.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// A position in a log, with the number of finished lines and of stderr bytes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LogPosition {
    pub(crate) offset: u64,
    pub(crate) lines: u64,
    pub(crate) stderr_bytes: u64,
}

/// Bytes that are gone, and the position at which the segment continues. A run starts there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileCut {
    pub(crate) from: u64,
    pub(crate) to: LogPosition,
}

impl FileCut {
    pub(crate) const fn bytes(&self) -> u64 {
        self.to.offset - self.from
    }
}

/// The length of the longest run, which a seek has to scan.
pub(crate) const RUN_BYTES: usize = 64 * 1024;
/// Records in memory before they move to a file (32 KiB).
pub(crate) const RUNS_IN_MEMORY: usize = 1024;
/// Bytes of one record in the file.
pub(crate) const RECORD_BYTES: usize = 32;

/// Consecutive bytes of the log that one stream wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamRun {
    pub(crate) offset: u64,
    /// Newlines in the log before the run.
    pub(crate) line: u64,
    /// The arrival of the first byte, in microseconds after the log was opened.
    pub(crate) time: u64,
    /// The number of bytes, at most [`RUN_BYTES`].
    pub(crate) length: u32,
    pub(crate) stream: Stream,
}

impl StreamRun {
    /// The offset after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }

    /// The number of bytes of `stream` that the run can still take.
    fn room_for(&self, stream: Stream) -> usize {
        if self.stream == stream { RUN_BYTES - self.length as usize } else { 0 }
    }

    fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        record[0..8].copy_from_slice(&self.offset.to_le_bytes());
        record[8..16].copy_from_slice(&self.line.to_le_bytes());
        record[16..24].copy_from_slice(&self.time.to_le_bytes());
        record[24..28].copy_from_slice(&self.length.to_le_bytes());
        record[28] = match self.stream {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
        };
        record
    }

    fn decode(record: &[u8; RECORD_BYTES]) -> Self {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&record[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let length = u32::from_le_bytes([record[24], record[25], record[26], record[27]]);
        let stream = if record[28] == 0 { Stream::Stdout } else { Stream::Stderr };
        Self { offset: word(0), line: word(8), time: word(16), length, stream }
    }
}

/// A run and its number, counted from 0.
pub(crate) type NumberedRun = (u64, StreamRun);

/// The records that no longer change, in a file. Readers search it without a lock.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoredRuns {
    pub(crate) file: Option<Arc<SpillFile>>,
    count: u64,
}

impl StoredRuns {
    /// Finds the last run for which `holds` is true; it must hold for a prefix of all runs.
    pub(crate) fn find(
        &self,
        holds: impl Fn(&StreamRun) -> bool,
    ) -> io::Result<Option<NumberedRun>> {
        let mut low = 0;
        let mut high = self.count;
        let mut found = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let run = self.get(middle)?;
            if holds(&run) {
                found = Some((middle, run));
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(found)
    }

    /// The runs with these numbers, as far as they are stored.
    pub(crate) fn read(&self, numbers: Range<u64>) -> io::Result<Vec<StreamRun>> {
        let end = numbers.end.min(self.count);
        let Some(file) = self.file.as_ref().filter(|_| numbers.start < end) else {
            return Ok(Vec::new());
        };
        let mut records = vec![[0; RECORD_BYTES]; (end - numbers.start) as usize];
        let at = numbers.start * RECORD_BYTES as u64;
        let read = file.open().and_then(|file| file.read_exact_at(records.as_flattened_mut(), at));
        file.counters().checked(SpillOperation::Read, read)?;
        Ok(records.iter().map(StreamRun::decode).collect())
    }

    fn get(&self, number: u64) -> io::Result<StreamRun> {
        let runs = self.read(number..number + 1)?;
        runs.first().copied().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Appends records that no longer change. On failure nothing has changed.
    pub(crate) fn append(
        &self,
        runs: &[StreamRun],
        make_file: impl FnOnce() -> io::Result<SpillFile>,
    ) -> io::Result<Self> {
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => Arc::new(make_file()?),
        };
        let records: Vec<[u8; RECORD_BYTES]> = runs.iter().map(StreamRun::encode).collect();
        let at = self.count * RECORD_BYTES as u64;
        let written = file.open().and_then(|file| file.write_all_at(records.as_flattened(), at));
        file.counters().checked(SpillOperation::Write, written)?;
        Ok(Self { file: Some(file), count: self.count + runs.len() as u64 })
    }
}

/// All runs of one segment.
///
/// Invariant: the runs of `stored` and then of `recent` follow each other from the start to the end
/// of the segment. Only the last run of `recent` still grows, so it is never in the file.
#[derive(Debug, Default)]
pub(crate) struct RunIndex {
    pub(crate) stored: StoredRuns,
    recent: Vec<StreamRun>,
    last: LastRun,
}

/// The state of the last run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LastRun {
    #[default]
    Grows,
    Ended,
}

impl RunIndex {
    /// The number of bytes of `stream` that the next [`RunIndex::add`] may add.
    pub(crate) fn room_for(&self, stream: Stream) -> usize {
        match self.recent.last() {
            Some(last) if self.last == LastRun::Grows && last.room_for(stream) > 0 => {
                last.room_for(stream)
            }
            Some(_) | None => RUN_BYTES,
        }
    }

    /// Ends the last run: the next bytes start a new one.
    pub(crate) const fn end_run(&mut self) {
        self.last = LastRun::Ended;
    }

    /// Adds bytes at the end: to the last run if it has room for them, else as a new run.
    pub(crate) fn add(&mut self, run: StreamRun) {
        match self.recent.last_mut() {
            Some(last)
                if self.last == LastRun::Grows
                    && last.room_for(run.stream) >= run.length as usize =>
            {
                last.length += run.length;
            }
            Some(_) | None => {
                self.recent.push(run);
                self.last = LastRun::Grows;
            }
        }
    }

    /// The runs that must move to the file before another write may add to memory.
    pub(crate) fn overdue(&self) -> Option<&[StreamRun]> {
        let (_, settled) = self.recent.split_last()?;
        (settled.len() + 1 >= RUNS_IN_MEMORY).then_some(settled)
    }

    /// Moves runs from memory to their file if there are too many.
    pub(crate) fn move_overdue(
        &mut self,
        make_file: impl FnOnce() -> io::Result<SpillFile>,
    ) -> io::Result<()> {
        let Some(runs) = self.overdue() else { return Ok(()) };
        let stored = self.stored.append(runs, make_file)?;
        self.forget_moved(runs.len(), stored);
        Ok(())
    }

    /// Removes the first `count` runs from memory: `stored` holds them now.
    pub(crate) fn forget_moved(&mut self, count: usize, stored: StoredRuns) {
        self.recent.drain(..count);
        self.stored = stored;
    }

    /// Finds the last run in memory for which `holds` is true; `None` if it would be in the file.
    pub(crate) fn find_recent(&self, holds: impl Fn(&StreamRun) -> bool) -> Option<NumberedRun> {
        let position = self.recent.partition_point(holds).checked_sub(1)?;
        Some((self.stored.count + position as u64, self.recent[position]))
    }

    /// The runs with these numbers, as far as they are in memory.
    pub(crate) fn read_recent(&self, numbers: Range<u64>) -> &[StreamRun] {
        let position = |number: u64| {
            (number.saturating_sub(self.stored.count)).min(self.recent.len() as u64) as usize
        };
        &self.recent[position(numbers.start)..position(numbers.end)]
    }

    pub(crate) fn shrink(&mut self) {
        self.recent.shrink_to_fit();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.recent.capacity() * size_of::<StreamRun>()
    }
}

/// Gaps that are stored separately; later losses are added to the last one.
const MAX_GAPS: usize = 1024;

/// Bytes that the job wrote and that could not be kept, by the offset at which they are missing.
///
/// Lost bytes have no offsets of their own: offsets count kept bytes. Losses at one offset for
/// different reasons are a gap each, in their order. Invariant: offsets never fall, and there are at
/// most [`MAX_GAPS`]. Only the last gap grows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gaps(Vec<Gap>);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Gap {
    pub(crate) at: LogPosition,
    pub(crate) bytes: u64,
    /// The reason for the first loss.
    pub(crate) why: DropReason,
}

/// Bytes that were lost before they got positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostBytes {
    /// Their number.
    pub bytes: u64,
    /// The reason for their loss.
    pub why: DropReason,
}

/// The way in which a loss was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GapKind {
    /// The first loss at its offset: the bytes after it do not continue the bytes before it.
    New,
    /// A loss at the offset of the previous gap.
    Merged,
}

impl Gaps {
    /// Records that `bytes` were lost right before the byte at this position.
    pub(crate) fn record(&mut self, at: LogPosition, bytes: u64, why: DropReason) -> GapKind {
        let full = self.0.len() == MAX_GAPS;
        match self.0.last_mut() {
            Some(last) if full || (last.at.offset == at.offset && last.why == why) => {
                last.bytes += bytes;
                GapKind::Merged
            }
            last => {
                let is_first = last.is_none_or(|last| last.at.offset != at.offset);
                self.0.push(Gap { at, bytes, why });
                if is_first { GapKind::New } else { GapKind::Merged }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All gaps, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Gap> {
        self.0.iter()
    }

    /// The positions of all gaps, in order.
    pub(crate) fn positions(&self) -> impl Iterator<Item = LogPosition> {
        self.0.iter().map(|gap| gap.at)
    }

    /// The number of bytes that are missing before any of these offsets.
    pub(crate) fn lost_bytes_in(&self, offsets: RangeInclusive<u64>) -> u64 {
        self.0.iter().filter(|gap| offsets.contains(&gap.at.offset)).map(|gap| gap.bytes).sum()
    }

    /// Returns the next bytes that were lost right before this offset, after the first `known` of
    /// them.
    pub(crate) fn find_loss(&self, offset: u64, known: u64) -> Option<LostBytes> {
        let mut known = known;
        for gap in self.0.iter().filter(|gap| gap.at.offset == offset) {
            if gap.bytes > known {
                return Some(LostBytes { bytes: gap.bytes - known, why: gap.why });
            }
            known -= gap.bytes;
        }
        None
    }
}

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
    fn a_record_survives_the_file() {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let run =
                StreamRun { offset: u64::MAX - 1, line: 7, time: 1 << 40, length: 65_536, stream };
            assert_eq!(StreamRun::decode(&run.encode()), run);
        }
    }

    #[test]
    fn a_run_grows_only_with_its_own_stream() {
        let run = StreamRun { offset: 0, line: 0, time: 0, length: 65_530, stream: Stream::Stdout };
        assert_eq!(run.room_for(Stream::Stdout), 6);
        assert_eq!(run.room_for(Stream::Stderr), 0);
    }

    const FULL: DropReason = DropReason::DiskFull;

    fn at(offset: u64) -> LogPosition {
        LogPosition { offset, ..LogPosition::default() }
    }

    #[test]
    fn losses_are_recorded_at_their_offsets() {
        let mut gaps = Gaps::default();
        let noted =
            [(10, 5), (10, 5), (30, 1)].map(|(offset, bytes)| gaps.record(at(offset), bytes, FULL));
        assert_eq!(noted, [GapKind::New, GapKind::Merged, GapKind::New]);
        assert_eq!(gaps.lost_bytes_in(0..=9), 0);
        assert_eq!(gaps.lost_bytes_in(10..=29), 10);
        assert_eq!(gaps.lost_bytes_in(0..=30), 11);
    }

    #[test]
    fn each_loss_keeps_its_reason_and_is_found_once() {
        let mut gaps = Gaps::default();
        let crash = DropReason::ServerCrash;
        let noted = [(10, 7, crash), (10, 2, FULL), (10, 3, FULL), (20, 1, crash)]
            .map(|(offset, bytes, why)| gaps.record(at(offset), bytes, why));
        let merged = GapKind::Merged;
        assert_eq!(noted, [GapKind::New, merged, merged, GapKind::New]);
        let lost = |bytes, why| Some(LostBytes { bytes, why });
        for (offset, known, found) in [
            (10, 0, lost(7, crash)),
            (10, 4, lost(3, crash)),
            (10, 7, lost(5, FULL)),
            (10, 9, lost(3, FULL)),
            (10, 12, None),
            (10, 99, None),
            (15, 0, None),
            (20, 0, lost(1, crash)),
        ] {
            assert_eq!(gaps.find_loss(offset, known), found, "{offset} {known}");
        }
    }

    #[test]
    fn any_number_of_losses_is_counted_in_bounded_memory() {
        let mut gaps = Gaps::default();
        let apart =
            (0..10_000).filter(|offset| gaps.record(at(*offset), 1, FULL) == GapKind::New).count();
        assert_eq!(apart, MAX_GAPS);
        assert_eq!(gaps.0.len(), MAX_GAPS);
        assert_eq!(gaps.lost_bytes_in(0..=u64::MAX), 10_000);
    }

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
