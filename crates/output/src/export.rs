//! Reads the bytes of a log, or of one of its streams, exactly as they were written.
//!
//! Positions here count from the first byte of the log or stream; for one stream, only its own
//! bytes count. Finding a position in one stream costs a scan of the runs before it.

use std::fs::File;
use std::io;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use thiserror::Error;

use crate::Stream;
use crate::chunks::{Direction, LogChunks};
use crate::page::{BytesAfterPage, Hole, PageEnd, PageRequest, cut_page};
use crate::reader::{BlockingReader, LogReader, log_offset};
use crate::redaction::{LineMasker, Redactor};
use crate::shared_log::{LogProgress, LogSnapshot};
use crate::spill::SpillDir;
use crate::views::Charset;

/// The largest block of a [`RawReader`].
const BLOCK: u64 = 128 * 1024;
/// The smallest range. One character always fits, so every read makes progress.
const MIN_RANGE: u64 = 4;

/// Reads the bytes of a fixed range block by block, in bounded memory, without those in holes. The
/// bytes stay readable, whatever happens to the log meanwhile.
#[derive(Debug)]
pub struct RawReader {
    log: LogReader,
    holes: Vec<Hole>,
    next: RawBlocks,
}

impl RawReader {
    /// The holes of the range when it was opened.
    #[must_use]
    pub fn holes(&self) -> &[Hole] {
        &self.holes
    }

    /// The number of bytes that are left to read.
    #[must_use]
    pub const fn bytes_left(&self) -> u64 {
        self.next.left
    }

    /// Returns the next bytes, at most 128 KiB; `None` at the end of the range. Dropping the future
    /// loses nothing.
    ///
    /// # Errors
    /// If the bytes cannot be read, or are gone.
    pub async fn next_block(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut next = self.next.clone();
        let read = move |_: &BlockingReader| Ok((next.read_block()?, next));
        let (block, next) = self.log.read_with(read).await?;
        self.next = next;
        Ok(block)
    }
}

/// The blocks of a range that are left to read.
#[derive(Debug, Clone)]
struct RawBlocks {
    snapshot: Arc<LogSnapshot>,
    stream: Option<Stream>,
    /// The log's offset at which the search for the next byte starts.
    at: u64,
    left: u64,
}

impl RawBlocks {
    fn read_block(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.left == 0 {
            return Ok(None);
        }
        let wanted = self.left.min(BLOCK) as usize;
        let mut block = Vec::with_capacity(wanted);
        let range = self.at..self.snapshot.total_bytes();
        let mut chunks = LogChunks::new(&self.snapshot, self.stream, range, Direction::Forward);
        while block.len() < wanted {
            let (offset, chunk) = chunks.next()?.ok_or(io::ErrorKind::UnexpectedEof)?;
            // If bytes are missing that were there, an error is better than other bytes in their
            // place.
            if self.stream.is_none() && offset != self.snapshot.next_readable(self.at) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let taken = chunk.len().min(wanted - block.len());
            block.extend_from_slice(&chunk[..taken]);
            self.at = offset + taken as u64;
        }
        self.left -= wanted as u64;
        Ok(Some(block))
    }
}

/// The range of a log or stream to read.
#[derive(Debug, Clone, Copy)]
pub struct LogRangeRequest {
    /// The only stream to read; `None` reads both.
    pub stream: Option<Stream>,
    /// The position of the first byte.
    pub start: u64,
    /// The position after the last byte; `None` reads to the end.
    pub end: Option<u64>,
    /// Bytes at most; fewer than 4 count as 4.
    pub max_bytes: usize,
}

/// The bytes of a range of a log or of one of its streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRange {
    /// The position of the first byte.
    pub start: u64,
    /// The bytes. If the range is too long, they end like a page: on a whole line if one fits.
    pub bytes: Vec<u8>,
    /// The position after the last byte.
    pub end: u64,
    /// The state of the requested range after these bytes.
    pub end_kind: PageEnd,
    /// Requested bytes, before the last of these, that are missing. Bytes that could not be kept at
    /// all count only if both streams are read, because their stream is not known.
    pub gap_bytes: u64,
    /// All bytes of the log or stream at the time of the read.
    pub total_bytes: u64,
    /// The progress of the log at the time of the read.
    pub progress: LogProgress,
}

impl LogReader {
    /// Opens a reader of a range of positions that have been published. It skips holes.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub async fn raw_reader(
        &self,
        stream: Option<Stream>,
        range: Range<u64>,
    ) -> io::Result<RawReader> {
        let open = move |log: &BlockingReader| {
            let log = log.freeze();
            let holes = log.find_holes(stream, range.clone())?;
            let missing: u64 = holes.iter().map(|hole| hole.range.end - hole.range.start).sum();
            let mut next = log.open_blocks(stream, range)?;
            next.left -= missing;
            Ok((holes, next))
        };
        let (holes, next) = self.read_with(open).await?;
        Ok(RawReader { log: self.clone(), holes, next })
    }
}

impl BlockingReader {
    /// Prepares to read as many bytes as the range has, from its start on.
    fn open_blocks(&self, stream: Option<Stream>, range: Range<u64>) -> io::Result<RawBlocks> {
        let at = match stream {
            None => range.start,
            Some(stream) => log_offset(self, stream, range.start)?,
        };
        let left = range.end.saturating_sub(range.start);
        Ok(RawBlocks { snapshot: self.snapshot(), stream, at, left })
    }

    /// Reads the bytes at positions that have been published and have no hole.
    pub(crate) fn read_positions(
        &self,
        stream: Option<Stream>,
        range: Range<u64>,
    ) -> io::Result<Vec<u8>> {
        let log = self.freeze();
        if log.first_hole(stream, range.clone())?.is_some() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut blocks = log.open_blocks(stream, range)?;
        let mut bytes = Vec::new();
        while let Some(block) = blocks.read_block()? {
            bytes.extend_from_slice(&block);
        }
        Ok(bytes)
    }

    /// Reads one range. Repeated with `start` set to the last `end`, this returns every byte
    /// exactly once. A start past the end gives an empty range. Missing bytes are skipped: the
    /// result starts after them, and ends before the next hole.
    ///
    /// # Errors
    /// If the range cannot be read.
    pub fn read_range(&self, request: &LogRangeRequest) -> io::Result<LogRange> {
        // One snapshot, before the bytes are read: see `read_page_in`.
        let log = self.freeze();
        let progress = log.progress();
        let total_bytes = progress.bytes_of(request.stream);
        let end = request.end.unwrap_or(u64::MAX).min(total_bytes);
        let asked = request.start.min(end);
        let start = match log.first_hole(request.stream, asked..end)? {
            Some(hole) if hole.start <= asked => hole.end,
            Some(_) | None => asked,
        };
        let solid = log.first_hole(request.stream, start..end)?.map_or(end, |hole| hole.start);
        let limit = (request.max_bytes as u64).max(MIN_RANGE).min(solid.saturating_sub(start));
        let rest = if end.saturating_sub(start) > limit {
            BytesAfterPage::Bytes
        } else if progress.closed || request.end == Some(end) {
            BytesAfterPage::Closed
        } else {
            BytesAfterPage::Open
        };
        let range = start..start.saturating_add(limit);
        let mut bytes = log.read_positions(request.stream, range)?;
        let (kept, end_kind) = cut_page(&bytes, Charset::Utf8, 0, rest);
        bytes.truncate(kept);
        let end = start + kept as u64;
        let lost = match request.stream {
            None => log.missing_bytes_between(asked, end, end_kind),
            Some(_) => 0,
        };
        let gap_bytes = start - asked + lost;
        Ok(LogRange { start, bytes, end, end_kind, gap_bytes, total_bytes, progress })
    }
}

/// The largest output that is compressed: more would take minutes, and as much disk again.
const MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// Bytes that are compressed at a time.
const GZIP_BLOCK: usize = 256 * 1024;
/// Blocks that are compressed in one step.
const STEP_BLOCKS: usize = 16;

/// The reason why output was not compressed.
#[derive(Debug, Error)]
pub enum GzipError {
    /// The output is too large.
    #[error(
        "the output has {bytes} bytes, and at most {MAX_BYTES} are packed; read it without zip"
    )]
    TooLarge {
        /// The size of the output.
        bytes: u64,
    },
    /// The output could not be read, or the compressed form could not be written.
    #[error("the output could not be packed ({0}); try again, or read it without zip")]
    Io(#[from] io::Error),
}

impl GzipError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::Io(_) => "pack_failed",
        }
    }
}

/// Gzip data in an unnamed file, which is gone once its last reader is.
#[derive(Debug)]
pub struct Gzipped {
    dir: SpillDir,
    file: Arc<File>,
    bytes: u64,
}

impl Gzipped {
    /// The length of the data.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads at most `max` bytes from `from` on; none past the end.
    ///
    /// # Errors
    /// The system's error; `TimedOut` if the disk did not answer in time.
    pub async fn read(&self, from: u64, max: usize) -> io::Result<Vec<u8>> {
        let length = self.bytes.saturating_sub(from).min(max as u64);
        let file = Arc::clone(&self.file);
        let read = move || {
            let mut bytes = vec![0; length as usize];
            file.read_exact_at(&mut bytes, from)?;
            Ok(bytes)
        };
        self.dir.read_with(Duration::ZERO, read).await
    }
}

impl Drop for Gzipped {
    fn drop(&mut self) {
        self.dir.remove_unnamed(Arc::clone(&self.file));
    }
}

/// Compresses one stream as far as it is written, with its secrets masked, into a file in `dir`.
/// The same bytes always give the same data. Takes bounded memory, and a thread for one step at a
/// time.
///
/// # Errors
/// If the output is too large, or a file could not be read or written.
pub async fn gzip(
    reader: &LogReader,
    stream: Stream,
    redactor: &Arc<Redactor>,
    dir: &SpillDir,
) -> Result<Gzipped, GzipError> {
    let bytes = reader.progress().total_bytes;
    if bytes > MAX_BYTES {
        return Err(GzipError::TooLarge { bytes });
    }
    let redactor = Arc::clone(redactor);
    let dir_of_file = dir.clone();
    let begin = move |log: &BlockingReader| GzipTask::start(log, stream, redactor, &dir_of_file);
    let mut step = reader.read_on_thread(begin).await?;
    loop {
        match step {
            GzipStep::More(gzipping) => {
                step = reader.read_on_thread(move |log| gzipping.compress_next(log)).await?;
            }
            GzipStep::Done { file, bytes } => {
                return Ok(Gzipped { dir: dir.clone(), file: Arc::new(file), bytes });
            }
        }
    }
}

/// A compression that is under way.
struct GzipTask {
    encoder: GzEncoder<BufWriter<File>>,
    masker: LineMasker,
    stream: Stream,
    from: u64,
}

enum GzipStep {
    More(Box<GzipTask>),
    Done { file: File, bytes: u64 },
}

impl GzipTask {
    fn start(
        log: &BlockingReader,
        stream: Stream,
        redactor: Arc<Redactor>,
        dir: &SpillDir,
    ) -> io::Result<GzipStep> {
        let buffered = BufWriter::new(dir.create_unnamed()?);
        let encoder = GzEncoder::new(buffered, Compression::default());
        let masker = LineMasker::new(redactor);
        Box::new(Self { encoder, masker, stream, from: 0 }).compress_next(log)
    }

    /// Compresses the next blocks. The disk timeout applies to each step, however long all of them
    /// take.
    fn compress_next(mut self: Box<Self>, log: &BlockingReader) -> io::Result<GzipStep> {
        for _ in 0..STEP_BLOCKS {
            let request = PageRequest {
                from: self.from,
                to: u64::MAX,
                stream: Some(self.stream),
                max_bytes: GZIP_BLOCK,
                max_lines: 0,
            };
            let page = log.read_page(&request)?;
            self.encoder.write_all(&self.masker.push(&page.bytes))?;
            self.from = page.end;
            match page.end_kind {
                PageEnd::More => {}
                PageEnd::CaughtUp | PageEnd::Complete => return self.finish(),
            }
        }
        Ok(GzipStep::More(self))
    }

    fn finish(mut self) -> io::Result<GzipStep> {
        self.encoder.write_all(&self.masker.flush())?;
        let file = self.encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        let bytes = file.metadata()?.len();
        Ok(GzipStep::Done { file, bytes })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use proptest::prelude::*;

    use super::*;
    use crate::{LogStorage, LogWriter, open_log};

    fn log(memory_bytes: usize) -> (LogWriter, LogReader, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let settings = LogStorage { memory_bytes, spill_dir: folder.path().to_owned().into() };
        let (writer, reader) = open_log(&settings);
        (writer, reader, folder)
    }

    fn part(log: &LogReader, start: u64, end: Option<u64>, max_bytes: usize) -> LogRange {
        log.blocking().read_range(&LogRangeRequest { stream: None, start, end, max_bytes }).unwrap()
    }

    #[test]
    fn a_range_that_fits_is_exact_and_a_longer_one_ends_on_a_line() {
        let (mut writer, reader, _folder) = log(1024);
        writer.append(Stream::Stdout, b"one\ntwo\nthree\n");
        let exact = part(&reader, 1, Some(6), 100);
        assert_eq!((&exact.bytes[..], exact.end_kind), (&b"ne\ntw"[..], PageEnd::Complete));
        let long = part(&reader, 0, None, 6);
        assert_eq!((&long.bytes[..], long.end, long.end_kind), (&b"one\n"[..], 4, PageEnd::More));
        assert_eq!(part(&reader, 14, None, 6).end_kind, PageEnd::CaughtUp);
        assert_eq!(part(&reader, 99, None, 6).bytes, b"");
        writer.close();
        assert_eq!(part(&reader, 8, Some(99), 100).end_kind, PageEnd::Complete);
    }

    #[test]
    fn an_unfinished_character_is_held_back_unless_the_range_includes_it() {
        let (mut writer, reader, _folder) = log(1024);
        writer.append(Stream::Stdout, &"aé".as_bytes()[..2]);
        assert_eq!(part(&reader, 0, None, 100).bytes, b"a");
        assert_eq!(part(&reader, 0, Some(2), 100).bytes, b"a\xc3");
    }

    /// Writes of both streams, in order.
    fn writes() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
        proptest::collection::vec(
            (any::<bool>(), proptest::collection::vec(any::<u8>(), 0..90)),
            0..60,
        )
    }

    proptest! {
        #[test]
        fn every_range_of_every_stream_has_the_written_bytes(
            writes in writes(), ends in (0.0..1.0f64, 0.0..1.0f64),
        ) {
            let (mut writer, reader, _folder) = log(200);
            let mut views = [Vec::new(), Vec::new(), Vec::new()];
            for (is_error, bytes) in &writes {
                let stream = if *is_error { Stream::Stderr } else { Stream::Stdout };
                writer.append(stream, bytes);
                views[0].extend_from_slice(bytes);
                views[1 + usize::from(*is_error)].extend_from_slice(bytes);
            }
            let streams = [None, Some(Stream::Stdout), Some(Stream::Stderr)];
            for (stream, view) in streams.into_iter().zip(&views) {
                prop_assert_eq!(reader.progress().bytes_of(stream), view.len() as u64);
                let at = |share: f64| (share * (view.len() + 1) as f64) as usize;
                let start = at(ends.0.min(ends.1));
                let end = at(ends.0.max(ends.1));
                let read = reader.blocking().read_positions(stream, start as u64..end as u64).unwrap();
                prop_assert_eq!(&read, &view[start..end]);
            }
        }

        #[test]
        fn following_the_ends_gives_every_byte_once(writes in writes(), max_bytes in 1..50usize) {
            let (mut writer, reader, _folder) = log(200);
            let mut errors = Vec::new();
            for (is_error, bytes) in &writes {
                let stream = if *is_error { Stream::Stderr } else { Stream::Stdout };
                writer.append(stream, bytes);
                if *is_error {
                    errors.extend_from_slice(bytes);
                }
            }
            writer.close();
            let mut read = Vec::new();
            let mut start = 0;
            loop {
                let stream = Some(Stream::Stderr);
                let request = LogRangeRequest { stream, start, end: None, max_bytes };
                let part = reader.blocking().read_range(&request).unwrap();
                read.extend_from_slice(&part.bytes);
                start = part.end;
                if part.end_kind == PageEnd::Complete {
                    break;
                }
                prop_assert!(!part.bytes.is_empty());
            }
            prop_assert_eq!(read, errors);
        }
    }

    #[tokio::test]
    async fn gzip_data_decompresses_to_the_masked_stream() {
        let dir = SpillDir::new(std::env::temp_dir(), Arc::default());
        let settings = LogStorage { memory_bytes: 1 << 16, spill_dir: dir.clone() };
        let (mut writer, reader) = open_log(&settings);
        let line = b"a line of output, hush-123\n".repeat(400_000);
        writer.append(Stream::Stdout, &line);
        writer.append(Stream::Stderr, b"not this\n");
        writer.close();
        let redactor = Arc::new(Redactor::new(&["hush-[0-9]+".to_owned()]).unwrap());
        let packed = gzip(&reader, Stream::Stdout, &redactor, &dir).await.unwrap();
        assert!(packed.total_bytes() < line.len() as u64 / 10);
        let mut data = Vec::new();
        while (data.len() as u64) < packed.total_bytes() {
            data.extend(packed.read(data.len() as u64, 1000).await.unwrap());
        }
        assert_eq!(packed.read(packed.total_bytes() + 5, 1000).await.unwrap(), b"");
        let mut unpacked = Vec::new();
        GzDecoder::new(&data[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, b"a line of output, [redacted]\n".repeat(400_000));
        let again = gzip(&reader, Stream::Stdout, &redactor, &dir).await.unwrap();
        assert_eq!(again.read(0, data.len()).await.unwrap(), data);
    }
}
