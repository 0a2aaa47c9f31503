//! The index of a log: one small record per run, with the stream that wrote it and the number of
//! lines before it.
//!
//! A run is never longer than [`RUN_BYTES`], so a seek by byte or by line is one binary search and
//! a scan of one block. Records beyond [`RUNS_IN_MEMORY`] go to a file: two streams that alternate
//! byte by byte cost disk, not memory.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::counters::SpillOperation;
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
    file: Option<Arc<SpillFile>>,
    count: u64,
}

impl StoredRuns {
    pub(crate) fn file(&self) -> Option<Arc<SpillFile>> {
        self.file.clone()
    }

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
    stored: StoredRuns,
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
    pub(crate) fn stored(&self) -> &StoredRuns {
        &self.stored
    }

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
}
