//! Compression of closed logs: independent zstd frames, each of which can be read alone.
//!
//! The file consists of frames only, so `zstd -d` turns it into the log again. The file of a durable
//! log ends with a table of its frames: the seek table of the zstd seekable format, in a frame that
//! decoders skip.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Weak};
use std::thread;

use tokio::sync::{Semaphore, oneshot};
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use crate::counters::SpillOperation;
use crate::read_memory::{CachedPart, FrameCache, FrameKey};
use crate::segment::LogSegment;
use crate::spill::{SpillDir, SpillFile};

/// Uncompressed bytes of a frame, which a read at a random offset has to decode.
const FRAME_BYTES: u64 = 128 * 1024;
/// The largest frame, for a very large log.
const MAX_FRAME_BYTES: u64 = 1024 * 1024;
/// Frames of one log. Bounds the table of their ends to 512 KiB.
const MAX_FRAMES: u64 = 64 * 1024;
/// The zstd level. A higher level takes twice the time to make logs a hundredth smaller.
const LEVEL: i32 = 1;
/// Frames that are tried first, spread over the log.
const SAMPLES: u64 = 8;

/// The bytes of one closed log, compressed. Offsets are those of the uncompressed log.
#[derive(Debug)]
pub(crate) struct CompressedLog {
    pub(crate) file: SpillFile,
    raw_bytes: u64,
    /// The size of the file.
    pub(crate) stored_bytes: u64,
    /// The frames; `None` if they are read from the file when they are needed.
    table: Option<FrameTable>,
    cache: Arc<FrameCache>,
    /// The number of this log in the cache.
    number: u64,
}

/// A closed log in a spill file.
#[derive(Debug)]
pub(crate) struct UncompressedLog {
    /// The file. It holds the log from offset 0 on, and nothing is added to it any more.
    pub(crate) file: Arc<SpillFile>,
    pub(crate) bytes: u64,
}

impl UncompressedLog {
    /// Compresses into an empty file, for as long as `wanted` holds. Returns `None` if that would
    /// not save at least a tenth, or is no longer wanted.
    pub(crate) fn compress(
        &self,
        into: SpillFile,
        wanted: impl Fn() -> bool,
    ) -> io::Result<Option<CompressedLog>> {
        let Some(frame_bytes) = frame_bytes(self.bytes) else { return Ok(None) };
        let raw = self.file.open()?;
        let written = into.open()?;
        let mut frames = FrameEncoder::new(&raw, self.bytes, frame_bytes)?;
        if !frames.sample_shrinks()? {
            return Ok(None);
        }
        let mut ends = Vec::new();
        let mut end = 0;
        for number in 0..frames.count() {
            let frame = frames.compress(number)?;
            written.write_all_at(frame, end)?;
            end += frame.len() as u64;
            ends.push(end);
            if !wanted() || !saves_enough(end, self.bytes) {
                return Ok(None);
            }
        }
        ends.shrink_to_fit();
        let table = FrameTable { frame_bytes, ends };
        let compressed = match self
            .file
            .log_part()
            .and_then(|(log, part)| part.compressed().map(|part| (log, part)))
        {
            None => {
                drop(written);
                into.end_writing();
                CompressedLog::new(into, self.bytes, end, Some(table))
            }
            Some((log, part)) => {
                let encoded = table.encode(self.bytes);
                written.write_all_at(&encoded, end)?;
                drop(written);
                // From here on a server that starts finds the compressed file.
                let file = into.rename(log, part)?;
                file.end_writing();
                CompressedLog::new(file, self.bytes, end + encoded.len() as u64, None)
            }
        };
        Ok(Some(compressed))
    }
}

/// The size of all frames but the last; `None` if the log is too large for the table.
fn frame_bytes(raw_bytes: u64) -> Option<u64> {
    let doubled = |bytes: &u64| (*bytes < MAX_FRAME_BYTES).then_some(*bytes * 2);
    std::iter::successors(Some(FRAME_BYTES), doubled)
        .find(|bytes| raw_bytes.div_ceil(*bytes) <= MAX_FRAMES)
}

const fn saves_enough(compressed: u64, raw: u64) -> bool {
    compressed < raw - raw / 10
}

/// Compresses a log frame by frame.
struct FrameEncoder<'a> {
    raw: &'a File,
    raw_bytes: u64,
    frame_bytes: u64,
    compressor: Compressor<'static>,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl<'a> FrameEncoder<'a> {
    fn new(raw: &'a File, raw_bytes: u64, frame_bytes: u64) -> io::Result<Self> {
        let mut compressor = Compressor::new(LEVEL)?;
        // Makes a corrupted disk block a read error instead of a wrong log.
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        let output = Vec::with_capacity(zstd::zstd_safe::compress_bound(frame_bytes as usize));
        Ok(Self { raw, raw_bytes, frame_bytes, compressor, input: Vec::new(), output })
    }

    const fn count(&self) -> u64 {
        self.raw_bytes.div_ceil(self.frame_bytes)
    }

    fn compress(&mut self, number: u64) -> io::Result<&[u8]> {
        let start = number * self.frame_bytes;
        self.input.resize(self.frame_bytes.min(self.raw_bytes - start) as usize, 0);
        self.raw.read_exact_at(&mut self.input, start)?;
        self.output.clear();
        self.compressor.compress_to_buffer(&self.input, &mut self.output)?;
        Ok(&self.output)
    }

    /// `true` if a sample of frames shrinks. An incompressible log costs next to nothing this way.
    fn sample_shrinks(&mut self) -> io::Result<bool> {
        let mut compressed = 0;
        let mut raw = 0;
        for number in (0..self.count()).step_by(self.count().div_ceil(SAMPLES).max(1) as usize) {
            compressed += self.compress(number)?.len() as u64;
            raw += self.input.len() as u64;
        }
        Ok(saves_enough(compressed, raw))
    }
}

impl CompressedLog {
    fn new(file: SpillFile, raw_bytes: u64, stored_bytes: u64, table: Option<FrameTable>) -> Self {
        let cache = Arc::clone(file.dir_handle().frame_cache());
        let number = cache.number_for_log();
        Self { file, raw_bytes, stored_bytes, table, cache, number }
    }

    /// The compressed form of a durable log, as it was recorded. Does not touch the disk.
    pub(crate) fn closed(file: SpillFile, raw_bytes: u64, stored_bytes: u64) -> Self {
        Self::new(file, raw_bytes, stored_bytes, None)
    }

    /// Opens the compressed form of a durable log of `raw_bytes`. `None` if it does not exist or is
    /// not that of the log.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn open_durable(file: SpillFile, raw_bytes: u64) -> io::Result<Option<Self>> {
        let stored_bytes = file.length()?;
        let log = Self::closed(file, raw_bytes, stored_bytes);
        match log.read_table() {
            Ok(_) => Ok(Some(log)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound
                        | io::ErrorKind::InvalidData
                        | io::ErrorKind::UnexpectedEof
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// `true` if the file of a durable log has the size that was recorded.
    pub(crate) fn is_whole(&self) -> io::Result<bool> {
        Ok(self.table.is_some() || self.file.length()? == self.stored_bytes)
    }

    /// Fills `buffer` with the log's bytes at `offset`.
    pub(crate) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let read;
        let table = match &self.table {
            Some(table) => table,
            None => {
                read = self.read_table()?;
                &read
            }
        };
        let mut at = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let frame = self.frame(table, (at / table.frame_bytes) as usize)?;
            let bytes = frame.get((at % table.frame_bytes) as usize..).unwrap_or_default();
            let length = bytes.len().min(rest.len());
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let (filled, left) = rest.split_at_mut(length);
            filled.copy_from_slice(&bytes[..length]);
            at += length as u64;
            rest = left;
        }
        Ok(())
    }

    /// The table at the end of the file of a durable log.
    fn read_table(&self) -> io::Result<FrameTable> {
        let key = FrameKey { log: self.number, part: CachedPart::Table };
        if let Some(known) = self.cache.get(key) {
            return FrameTable::decode(&known, self.raw_bytes, self.stored_bytes);
        }
        let file = self.file.open()?;
        let encoded = Arc::new(FrameTable::read_encoded(&file, self.stored_bytes)?);
        let table = FrameTable::decode(&encoded, self.raw_bytes, self.stored_bytes)?;
        self.cache.put(key, &encoded);
        Ok(table)
    }

    fn frame(&self, table: &FrameTable, frame: usize) -> io::Result<Arc<Vec<u8>>> {
        let key = FrameKey { log: self.number, part: CachedPart::Frame(frame) };
        if let Some(known) = self.cache.get(key) {
            return Ok(known);
        }
        let bytes = Arc::new(self.decode(table, frame)?);
        self.cache.put(key, &bytes);
        Ok(bytes)
    }

    fn decode(&self, table: &FrameTable, frame: usize) -> io::Result<Vec<u8>> {
        let end = *table.ends.get(frame).ok_or(io::ErrorKind::UnexpectedEof)?;
        let start = frame.checked_sub(1).map_or(0, |before| table.ends[before]);
        let mut stored = vec![0; (end - start) as usize];
        self.file.open()?.read_exact_at(&mut stored, start)?;
        let raw_start = frame as u64 * table.frame_bytes;
        let length = table.frame_bytes.min(self.raw_bytes.saturating_sub(raw_start)) as usize;
        let bytes = zstd::bulk::decompress(&stored, length)?;
        if bytes.len() == length { Ok(bytes) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

/// The `nice` value of the compressing thread.
const NICENESS: i32 = 10;

/// Compresses closed logs in the background, one at a time. Cheap to clone; all clones take turns.
#[derive(Debug, Clone)]
pub struct LogCompressor {
    shared: Arc<CompressorShared>,
}

#[derive(Debug)]
struct CompressorShared {
    from_bytes: u64,
    dir: SpillDir,
    /// One permit: one log at a time.
    turn: Semaphore,
}

/// The task of compressing one log. It does not keep the log alive.
#[derive(Debug)]
pub struct CompressionTask {
    shared: Arc<CompressorShared>,
    parts: Vec<Weak<LogSegment>>,
}

impl LogCompressor {
    /// Compresses logs of at least `from_bytes`, into files in this directory.
    #[must_use]
    pub fn new(from_bytes: u64, dir: SpillDir) -> Self {
        let turn = Semaphore::new(1);
        Self { shared: Arc::new(CompressorShared { from_bytes, dir, turn }) }
    }

    /// The task for these segments of a closed log; `None` if the log is small or in memory.
    pub(crate) fn compression_task(
        &self,
        total_bytes: u64,
        mut parts: Vec<Arc<LogSegment>>,
    ) -> Option<CompressionTask> {
        parts.retain(|part| part.uncompressed_log().is_some());
        (total_bytes >= self.shared.from_bytes && !parts.is_empty()).then(|| CompressionTask {
            shared: Arc::clone(&self.shared),
            parts: parts.iter().map(Arc::downgrade).collect(),
        })
    }
}

impl CompressionTask {
    /// Waits for its turn and compresses. Reads are the same before, during and after.
    ///
    /// Returns at the end, whatever the result: if the compression fails or would not save room,
    /// the log stays as it was. Shutdown does not wait for it.
    pub async fn run(self) {
        let Self { shared, parts } = self;
        // The semaphore is never closed.
        let Ok(_turn) = shared.turn.acquire().await else { return };
        let (over, is_over) = oneshot::channel::<()>();
        let work = Arc::clone(&shared);
        // Not a blocking thread of the runtime: the runtime would wait for it at shutdown.
        let thread = thread::Builder::new().name("packer".to_owned()).spawn(move || {
            parts.iter().for_each(|part| work.compress(part));
            drop(over);
        });
        match thread {
            // The sender is dropped at the end, also by a panic.
            Ok(_) => drop(is_over.await),
            Err(error) => warn_not_compressed(&error),
        }
    }
}

fn warn_not_compressed(why: &io::Error) {
    let why = why.to_string();
    tracing::warn!(?why, "output not compressed; it stays readable as it is");
}

impl CompressorShared {
    fn compress(&self, part: &Weak<LogSegment>) {
        // On Linux this applies to this thread alone. Without it the work is only less polite.
        rustix::process::setpriority_process(None, NICENESS).ok();
        let Some(raw) = part.upgrade().and_then(|segment| segment.uncompressed_log()) else {
            return;
        };
        let is_wanted = || part.strong_count() > 0;
        let compressed = self
            .dir
            .create_file()
            .and_then(|file| {
                let compressed = raw.compress(file, is_wanted);
                self.dir.counters().checked(SpillOperation::Compress, compressed)
            })
            .unwrap_or_else(|error| {
                warn_not_compressed(&error);
                None
            });
        let Some(compressed) = compressed else { return };
        match part.upgrade() {
            Some(segment) => {
                let stored = compressed.stored_bytes;
                segment.replace_spilled(raw.bytes, compressed);
                self.dir.counters().add_compressed(raw.bytes, stored);
            }
            // The log was freed meanwhile, or the server ends and the uncompressed file stays.
            None => compressed.file.remove_on_drop(),
        }
    }
}

/// The first bytes of the skipped frame, and its last bytes.
const SKIPPED_FRAME: u32 = 0x184D_2A5E;
const SEEKABLE: u32 = 0x8F92_EAB1;
/// Magic number and length before the entries; count, flags and magic number after them.
const HEADER_BYTES: usize = 8;
const FOOTER_BYTES: usize = 9;
/// Two numbers for each frame: its bytes in the file and in the log.
const ENTRY_BYTES: usize = 8;

/// The frames of one compressed log.
#[derive(Debug, PartialEq, Eq)]
struct FrameTable {
    /// Uncompressed bytes of every frame but the last.
    frame_bytes: u64,
    /// The end of each frame in the file.
    ends: Vec<u64>,
}

impl FrameTable {
    /// The table as it is stored after the frames of a log of `raw_bytes`.
    fn encode(&self, raw_bytes: u64) -> Vec<u8> {
        let count = self.ends.len();
        let content = count * ENTRY_BYTES + FOOTER_BYTES;
        let mut encoded = Vec::with_capacity(HEADER_BYTES + content);
        encoded.extend(SKIPPED_FRAME.to_le_bytes());
        encoded.extend((content as u32).to_le_bytes());
        let mut start = 0;
        for (number, end) in (0..).zip(&self.ends) {
            let raw = self.frame_bytes.min(raw_bytes.saturating_sub(number * self.frame_bytes));
            encoded.extend(((*end - start) as u32).to_le_bytes());
            encoded.extend((raw as u32).to_le_bytes());
            start = *end;
        }
        encoded.extend((count as u32).to_le_bytes());
        encoded.push(0);
        encoded.extend(SEEKABLE.to_le_bytes());
        encoded
    }

    /// Reads the stored table from a file of this length.
    ///
    /// # Errors
    /// `InvalidData` if there is no table; else the system's error.
    fn read_encoded(file: &File, stored_bytes: u64) -> io::Result<Vec<u8>> {
        let mut footer = [0; FOOTER_BYTES];
        let before = stored_bytes.checked_sub(FOOTER_BYTES as u64).ok_or_else(no_table)?;
        file.read_exact_at(&mut footer, before)?;
        let count = number_at(&footer, 0).filter(|_| number_at(&footer, 5) == Some(SEEKABLE));
        let count = count.ok_or_else(no_table)? as usize;
        let bytes = HEADER_BYTES + count * ENTRY_BYTES + FOOTER_BYTES;
        let start = stored_bytes.checked_sub(bytes as u64).ok_or_else(no_table)?;
        let mut encoded = vec![0; bytes];
        file.read_exact_at(&mut encoded, start)?;
        Ok(encoded)
    }

    /// The table of a log of `raw_bytes` in a file of `stored_bytes`.
    ///
    /// # Errors
    /// `InvalidData` if the table does not fit the file and the log.
    fn decode(encoded: &[u8], raw_bytes: u64, stored_bytes: u64) -> io::Result<Self> {
        let content = encoded.len().checked_sub(HEADER_BYTES + FOOTER_BYTES);
        let entries = content.and_then(|length| encoded[HEADER_BYTES..].get(..length));
        let entries = entries.filter(|_| {
            number_at(encoded, 0) == Some(SKIPPED_FRAME)
                && number_at(encoded, 4) == u32::try_from(encoded.len() - HEADER_BYTES).ok()
        });
        let mut table = Self { frame_bytes: 0, ends: Vec::new() };
        let mut end = 0;
        let mut raw_end = 0;
        for entry in entries.ok_or_else(no_table)?.chunks_exact(ENTRY_BYTES) {
            let stored = number_at(entry, 0).ok_or_else(no_table)?;
            let raw = number_at(entry, 4).ok_or_else(no_table)?;
            if table.ends.is_empty() {
                table.frame_bytes = u64::from(raw);
            }
            // Only the last frame may be shorter.
            if raw_end != table.ends.len() as u64 * table.frame_bytes {
                return Err(no_table());
            }
            end += u64::from(stored);
            raw_end += u64::from(raw);
            table.ends.push(end);
        }
        let is_whole = end + encoded.len() as u64 == stored_bytes && raw_end == raw_bytes;
        if is_whole && table.frame_bytes > 0 { Ok(table) } else { Err(no_table()) }
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    let number = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*number))
}

fn no_table() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the compressed output has no table of its frames")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::segment::SegmentStore;
    use crate::{
        LogCompressor, LogReader, LogStorage, PageEnd, PageRequest, SpillDir, Stream, open_log,
    };

    /// Text that compresses, with lines of many lengths.
    fn text(bytes: usize) -> Vec<u8> {
        let lines = (0..).map(|number: u64| {
            format!("line {number} {}\n", "ab€".repeat((number * 7 % 23) as usize))
        });
        let mut text: Vec<u8> = lines
            .scan(0, |sum, line| {
                let before = *sum;
                *sum += line.len();
                (before < bytes).then_some(line)
            })
            .flat_map(String::into_bytes)
            .collect();
        text.truncate(bytes);
        text
    }

    /// Bytes that do not compress.
    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        std::iter::repeat_with(next).take(bytes).collect()
    }

    fn new_file() -> SpillFile {
        SpillDir::new(std::env::temp_dir(), Arc::default()).create_file().unwrap()
    }

    fn raw(bytes: &[u8]) -> UncompressedLog {
        let file = new_file();
        file.open().unwrap().write_all_at(bytes, 0).unwrap();
        UncompressedLog { file: Arc::new(file), bytes: bytes.len() as u64 }
    }

    fn compress(bytes: &[u8]) -> Option<CompressedLog> {
        raw(bytes).compress(new_file(), || true).unwrap()
    }

    /// A closed log in a spill file, with alternating streams.
    fn closed_log(bytes: &[u8], dir: &std::path::Path) -> LogReader {
        let (mut writer, reader) =
            open_log(&LogStorage { memory_bytes: 1000, spill_dir: dir.to_owned().into() });
        for (number, part) in bytes.chunks(7001).enumerate() {
            let stream = if number % 3 == 0 { Stream::Stderr } else { Stream::Stdout };
            writer.append(stream, part);
        }
        reader
    }

    /// All pages, tails and line offsets that a reader can get.
    fn everything(reader: &LogReader) -> Vec<(Vec<u8>, u64)> {
        let mut seen = Vec::new();
        for stream in [None, Some(Stream::Stdout), Some(Stream::Stderr)] {
            let mut from = 0;
            loop {
                let request =
                    PageRequest { from, to: u64::MAX, stream, max_bytes: 50_000, max_lines: 0 };
                let page = reader.blocking().read_page(&request).unwrap();
                let is_last = page.end_kind == PageEnd::Complete;
                from = page.end;
                seen.push((page.bytes, page.end));
                if is_last {
                    break;
                }
            }
            seen.push((Vec::new(), reader.blocking().tail_start(stream, 10_000, 20).unwrap()));
        }
        for line in (1..reader.progress().lines).step_by(997) {
            let offset = reader.blocking().offset_of_line(line).unwrap().unwrap();
            assert_eq!(reader.blocking().line_at(offset).unwrap(), line);
            seen.push((Vec::new(), offset));
        }
        seen
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

        #[test]
        fn any_range_reads_like_the_uncompressed_log(
            length in 1..700_000_usize,
            ranges in prop::collection::vec((any::<prop::sample::Index>(), 0..300_000_usize), 1..20),
        ) {
            let bytes = text(length);
            let Some(compressed) = compress(&bytes) else {
                // Only a log that is too short to gain anything stays uncompressed.
                prop_assert!(length < 100);
                return Ok(());
            };
            for (start, wanted) in ranges {
                let start = start.index(length);
                let mut buffer = vec![0; wanted.min(length - start)];
                compressed.read_at(start as u64, &mut buffer).unwrap();
                prop_assert!(buffer == bytes[start..start + buffer.len()], "{} + {}", start, wanted);
            }
            let beyond = compressed.read_at(length as u64 - 1, &mut [0; 2]).unwrap_err();
            prop_assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn the_file_is_plain_zstd_from_its_start_to_its_end() {
        let bytes = text(1_000_000);
        let compressed = compress(&bytes).unwrap();
        let mut stored = vec![0; compressed.stored_bytes as usize];
        compressed.file.open().unwrap().read_exact_at(&mut stored, 0).unwrap();
        assert_eq!(compressed.file.length().unwrap(), stored.len() as u64);
        assert!(stored.len() * 3 < bytes.len(), "{}", stored.len());
        assert!(zstd::decode_all(stored.as_slice()).unwrap() == bytes);
    }

    #[test]
    fn incompressible_logs_stay_uncompressed() {
        assert!(compress(&noise(1_000_000)).is_none());
        let mixed = [text(100_000), noise(3_000_000)].concat();
        assert!(compress(&mixed).is_none());
        assert!(compress(b"").is_none());
    }

    #[test]
    fn a_compression_that_is_no_longer_wanted_is_abandoned() {
        let asked = std::cell::Cell::new(0);
        let wanted = || {
            asked.set(asked.get() + 1);
            asked.get() < 3
        };
        assert!(raw(&text(2_000_000)).compress(new_file(), wanted).unwrap().is_none());
        assert_eq!(asked.get(), 3);
    }

    #[test]
    fn a_changed_byte_on_the_disk_is_a_read_error() {
        let compressed = compress(&text(500_000)).unwrap();
        let ends = &compressed.table.as_ref().unwrap().ends;
        let middle = ends[0] + (ends[1] - ends[0]) / 2;
        let mut byte = [0];
        compressed.file.open().unwrap().read_exact_at(&mut byte, middle).unwrap();
        compressed.file.open().unwrap().write_all_at(&[byte[0] ^ 0x40], middle).unwrap();
        let mut buffer = [0; 10];
        assert!(compressed.read_at(FRAME_BYTES, &mut buffer).is_err());
        compressed.read_at(0, &mut buffer).unwrap();
        compressed.file.open().unwrap().set_len(middle).unwrap();
        assert!(compressed.read_at(3 * FRAME_BYTES, &mut buffer).is_err());
    }

    #[test]
    fn frames_grow_with_the_log_so_that_their_table_does_not() {
        for (raw, frame) in [(0, 128), (8 << 30, 128), (10 << 30, 256), (64 << 30, 1024)] {
            assert_eq!(frame_bytes(raw), Some(frame * 1024), "{raw}");
        }
        assert_eq!(frame_bytes((64 << 30) + 1), None);
    }

    fn is_compressed(reader: &LogReader) -> bool {
        let segments = reader.log.segments();
        matches!(segments[0].lock().store, SegmentStore::Compressed(_))
    }

    /// Reads the log repeatedly, until it was read twice after it was compressed.
    fn read_until_compressed(reader: &LogReader, before: &Vec<(Vec<u8>, u64)>) {
        let mut rounds_after = 0;
        while rounds_after < 2 {
            rounds_after += usize::from(is_compressed(reader));
            assert!(everything(reader) == *before);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_log_reads_the_same_before_during_and_after() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = text(2_000_000);
        let reader = closed_log(&bytes, dir.path());
        let before = everything(&reader);
        let compressor = LogCompressor::new(1_000_000, SpillDir::new(dir.path(), Arc::default()));
        let task = reader.compression_task(&compressor).expect("large enough");
        let others = [0; 3].map(|_| {
            let reader = reader.clone();
            let before = before.clone();
            tokio::task::spawn_blocking(move || read_until_compressed(&reader, &before))
        });
        task.run().await;
        assert!(reader.stored_bytes() * 3 < bytes.len() as u64, "{}", reader.stored_bytes());
        for other in others {
            other.await.unwrap();
        }
        assert!(everything(&reader) == before);
        assert!(reader.compression_task(&compressor).is_none(), "nothing is left to do");
    }

    #[tokio::test]
    async fn only_large_closed_logs_are_compressed_and_a_task_keeps_no_log_alive() {
        let dir = tempfile::tempdir().unwrap();
        let settings = LogStorage { memory_bytes: 1000, spill_dir: dir.path().to_owned().into() };
        let compressor = LogCompressor::new(100_000, SpillDir::new(dir.path(), Arc::default()));
        let (mut writer, reader) = open_log(&settings);
        writer.append(Stream::Stdout, &text(200_000));
        assert!(reader.compression_task(&compressor).is_none(), "still open");
        writer.close();
        let task = reader.compression_task(&compressor).expect("closed and large");
        assert!(
            closed_log(&text(90_000), dir.path()).compression_task(&compressor).is_none(),
            "small"
        );
        let log = Arc::downgrade(&reader.log.segments()[0]);
        drop((writer, reader));
        assert_eq!(log.strong_count(), 0, "waiting for its turn holds nothing");
        task.run().await;
    }

    #[tokio::test]
    async fn a_log_stays_readable_if_it_cannot_be_compressed() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = text(300_000);
        let reader = closed_log(&bytes, dir.path());
        // A file is in the place of the directory.
        let blocked = dir.path().join("file");
        std::fs::write(&blocked, "").unwrap();
        reader
            .compression_task(&LogCompressor::new(1, SpillDir::new(blocked, Arc::default())))
            .expect("large enough")
            .run()
            .await;
        assert!(!is_compressed(&reader));
        assert!(reader.blocking().read(0..bytes.len() as u64).unwrap() == bytes);
    }

    #[test]
    fn a_table_survives_its_file_and_any_change_is_noticed() {
        let table = FrameTable { frame_bytes: 100, ends: vec![10, 25, 30] };
        let encoded = table.encode(250);
        let stored = 30 + encoded.len() as u64;
        assert_eq!(FrameTable::decode(&encoded, 250, stored).unwrap(), table);
        assert!(FrameTable::decode(&encoded, 251, stored).is_err());
        assert!(FrameTable::decode(&encoded, 250, stored + 1).is_err());
        for length in 0..encoded.len() {
            assert!(FrameTable::decode(&encoded[..length], 250, stored).is_err(), "{length}");
        }
        for entry in (HEADER_BYTES..encoded.len() - FOOTER_BYTES).step_by(4) {
            let mut changed = encoded.clone();
            changed[entry] ^= 1;
            assert!(FrameTable::decode(&changed, 250, stored).is_err(), "{entry}");
        }
    }
}
