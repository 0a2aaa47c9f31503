//! Which stream wrote which bytes, and how many lines came before: one small record per run.
//!
//! A record is never longer than [`RUN_BYTES`], so that a seek by byte or by line is one binary
//! search and one block to look through. Records beyond [`RUNS_IN_MEMORY`] go to a file: two
//! streams that take turns byte by byte cost disk, not memory.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::counters::SpillOperation;
use crate::spill::SpillFile;

/// One of the two streams that a program writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Standard output (and everything that a program on a terminal writes).
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// The stream's word in labels and replies.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The longest run: what a seek has to look through.
pub(crate) const RUN_BYTES: usize = 64 * 1024;
/// Records kept in memory before they move to a file (32 KiB).
pub(crate) const RUNS_IN_MEMORY: usize = 1024;
/// Bytes of one record in the file.
pub(crate) const RECORD_BYTES: usize = 32;

/// One stretch of the log that one stream wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamRun {
    /// Where it starts.
    pub(crate) offset: u64,
    /// Newlines in the log before it.
    pub(crate) line: u64,
    /// When its first byte came, in microseconds after the log was opened.
    pub(crate) time: u64,
    /// Its bytes, at most [`RUN_BYTES`].
    pub(crate) length: u32,
    /// Who wrote it.
    pub(crate) stream: Stream,
}

impl StreamRun {
    /// The offset after its last byte.
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }

    /// How many more bytes of `stream` it can take.
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

/// The records that no longer change, in a file. Readers search it without any lock.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoredRuns {
    file: Option<Arc<SpillFile>>,
    count: u64,
}

impl StoredRuns {
    /// The file, where there is one.
    pub(crate) fn file(&self) -> Option<Arc<SpillFile>> {
        self.file.clone()
    }

    /// The last run for which `holds` is true; it must hold for a prefix of all runs.
    pub(crate) fn find(
        &self,
        holds: impl Fn(&StreamRun) -> bool,
    ) -> io::Result<Option<NumberedRun>> {
        let (mut low, mut high) = (0, self.count);
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

    /// Adds records that will not change any more; on failure nothing has changed.
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

/// All runs of one log.
///
/// Invariant: the runs of `stored` and then of `recent` lie one behind the other, from offset 0
/// to the log's end. Only the last of `recent` still grows, so it is never in the file.
#[derive(Debug, Default)]
pub(crate) struct RunIndex {
    stored: StoredRuns,
    recent: Vec<StreamRun>,
    last: LastRun,
}

/// Whether the last run takes more bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LastRun {
    #[default]
    Grows,
    Ended,
}

impl RunIndex {
    /// The records that are in the file.
    pub(crate) fn stored(&self) -> &StoredRuns {
        &self.stored
    }

    /// How many bytes of `stream` the next [`RunIndex::add`] may speak of.
    pub(crate) fn room_for(&self, stream: Stream) -> usize {
        match self.recent.last() {
            Some(last) if self.last == LastRun::Grows && last.room_for(stream) > 0 => {
                last.room_for(stream)
            }
            Some(_) | None => RUN_BYTES,
        }
    }

    /// Whatever is added next starts a run of its own.
    pub(crate) const fn end_run(&mut self) {
        self.last = LastRun::Ended;
    }

    /// Adds bytes at the end: to the last run where it has room for them, else as a new one.
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

    /// Forgets the first `count` runs of memory: `stored` holds them now.
    pub(crate) fn moved(&mut self, count: usize, stored: StoredRuns) {
        self.recent.drain(..count);
        self.stored = stored;
    }

    /// The last run in memory for which `holds` is true; nothing when it would be in the file.
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

    /// Gives spare memory back once nothing will follow.
    pub(crate) fn shrink(&mut self) {
        self.recent.shrink_to_fit();
    }

    #[cfg(test)]
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
    fn a_run_takes_more_of_its_own_stream_only() {
        let run = StreamRun { offset: 0, line: 0, time: 0, length: 65_530, stream: Stream::Stdout };
        assert_eq!(run.room_for(Stream::Stdout), 6);
        assert_eq!(run.room_for(Stream::Stderr), 0);
    }
}
