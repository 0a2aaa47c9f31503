//! Opens the logs of an earlier server again: those of running jobs for writing, those of finished
//! jobs for reading.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::compression::CompressedLog;
use crate::counters::{DropReason, Tier};
use crate::durable_writer::{DurableBytes, DurableWriter, MemoryCopy};
use crate::index::{
    FileCut, Gaps, LogPosition, StoredMark, Stream, WriteTimes, from_unix_ms, to_unix_ms,
};
use crate::log::{LogBounds, LogStorage, LogWriter};
use crate::positions::{
    PositionReader, PositionRecord, PositionWriter, ScanRange, ScannedSegment, TimeRecord,
    scan_segment,
};
use crate::reader::LogReader;
use crate::segment::{LogSegment, SegmentContent, SegmentStore};
use crate::server_dir::{FilePart, LogName};
use crate::shared_log::{LogContent, LogProgress, PublishedProgress, SharedLog, TAIL_SEGMENTS};
use crate::spill::{SpillDir, SpillFile};

/// The version of [`ClosedLog`] that this crate writes.
const VERSION: u8 = 1;

/// The state of a closed durable log, without its bytes. It is stored in a journal, and
/// [`open_closed_log`] needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedLog {
    #[serde(rename = "v", deserialize_with = "deserialize_version")]
    version: u8,
    end: StoredPosition,
    #[serde(default, skip_serializing_if = "is_default")]
    open_line: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    dropped: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    dropped_why: Option<DropReason>,
    #[serde(default, skip_serializing_if = "is_default")]
    removed: u64,
    /// Milliseconds since 1970.
    #[serde(default, skip_serializing_if = "is_default")]
    last_output: Option<u64>,
    /// The times at which the log grew, unless that took no longer than a second.
    #[serde(default, skip_serializing_if = "is_default")]
    times: Vec<StoredMark>,
    /// Positions, each with the bytes that are missing there.
    #[serde(default, skip_serializing_if = "is_default")]
    gaps: Vec<(StoredPosition, u64)>,
    /// The reason for each gap; empty if all have that of the last loss.
    #[serde(default, skip_serializing_if = "is_default")]
    gap_reasons: Vec<DropReason>,
    /// Empty for a log of one segment in an uncompressed file.
    #[serde(default, skip_serializing_if = "is_default")]
    segments: Vec<ClosedSegment>,
    /// `true` if the log has a file of positions.
    #[serde(default, skip_serializing_if = "is_default")]
    positions: bool,
}

/// Offset, lines and bytes of stderr.
type StoredPosition = (u64, u64, u64);

/// One segment of a closed log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ClosedSegment {
    start: StoredPosition,
    end: StoredPosition,
    /// The size of the compressed file, if the segment is compressed.
    #[serde(default, skip_serializing_if = "is_default")]
    compressed: Option<u64>,
    /// The bytes that the file does not have: their start, and the position after them.
    #[serde(default, skip_serializing_if = "is_default")]
    cut: Option<(u64, StoredPosition)>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn deserialize_version<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    match u8::deserialize(from)? {
        version @ 1..=VERSION => Ok(version),
        other => Err(de::Error::custom(format!("version {other} of a closed log is not known"))),
    }
}

const fn to_stored(position: LogPosition) -> StoredPosition {
    (position.offset, position.lines, position.stderr_bytes)
}

const fn to_position((offset, lines, stderr_bytes): StoredPosition) -> LogPosition {
    LogPosition { offset, lines, stderr_bytes }
}

impl ClosedLog {
    /// The state of a log; `None` if it is open or not durable.
    pub(crate) fn new(log: &SharedLog) -> Option<Self> {
        let progress = log.progress();
        let parts = log.segments();
        let mut segments =
            parts.iter().map(|part| ClosedSegment::new(part)).collect::<Option<Vec<_>>>()?;
        let LogProgress { total_bytes, lines, stderr_bytes, .. } = progress;
        let end = (total_bytes, lines, stderr_bytes);
        if let [only] = segments.as_slice()
            && *only == ClosedSegment::plain(end)
        {
            segments.clear();
        }
        let times = log.write_times().as_ref().map(|times| times.to_stored(progress.last_output));
        let gaps = log.gaps();
        let mut gap_reasons: Vec<DropReason> = gaps.iter().map(|gap| gap.why).collect();
        if gap_reasons.iter().all(|why| Some(*why) == progress.dropped_why) {
            gap_reasons.clear();
        }
        progress.closed.then(|| Self {
            version: VERSION,
            end,
            open_line: progress.open_line,
            dropped: progress.dropped_bytes,
            dropped_why: progress.dropped_why,
            removed: progress.removed_bytes,
            last_output: progress.last_output.and_then(to_unix_ms),
            times: times.unwrap_or_default(),
            gaps: gaps.iter().map(|gap| (to_stored(gap.at), gap.bytes)).collect(),
            gap_reasons,
            segments,
            positions: parts.iter().any(|part| part.lock().positions.is_some()),
        })
    }

    /// The progress of the log when it was closed.
    #[must_use]
    pub fn progress(&self) -> LogProgress {
        LogProgress {
            total_bytes: self.end.0,
            lines: self.end.1,
            open_line: self.open_line,
            stderr_bytes: self.end.2,
            dropped_bytes: self.dropped,
            dropped_at_most: self.dropped_why == Some(DropReason::ServerCrash)
                || self.gap_reasons.contains(&DropReason::ServerCrash),
            dropped_why: self.dropped_why,
            removed_bytes: self.removed,
            cut_bytes: 0,
            closed: true,
            last_output: self.last_output.and_then(from_unix_ms),
        }
    }
}

impl ClosedSegment {
    /// The only segment of a log in an uncompressed file.
    const fn plain(end: StoredPosition) -> Self {
        Self { start: (0, 0, 0), end, compressed: None, cut: None }
    }

    /// `None` if the segment is not part of a durable log.
    fn new(segment: &LogSegment) -> Option<Self> {
        let cut = segment.cut().map(|cut| (cut.from, to_stored(cut.to)));
        let inner = segment.lock();
        let compressed = match &inner.store {
            SegmentStore::Durable(_) => None,
            SegmentStore::Compressed(log) if log.file.log_part().is_some() => {
                Some(log.stored_bytes)
            }
            SegmentStore::Memory(_) | SegmentStore::Spilled(_) | SegmentStore::Compressed(_) => {
                return None;
            }
        };
        let end = to_stored(inner.end);
        Some(Self { start: to_stored(segment.start), end, compressed, cut })
    }

    fn open(
        &self,
        dir: &SpillDir,
        name: &LogName,
        positions: Option<&Arc<SpillFile>>,
        bounds: &LogBounds,
    ) -> LogSegment {
        let (start, end) = (to_position(self.start), to_position(self.end));
        let bytes = end.offset.saturating_sub(start.offset);
        let mut charge = bounds.quota.open_charge();
        let store = match self.compressed {
            Some(stored) => {
                charge.charge_stored(Tier::Compressed, stored);
                let file = dir.named_file(name, FilePart::Compressed(start.offset));
                SegmentStore::Compressed(Arc::new(CompressedLog::closed(file, bytes, stored)))
            }
            None => {
                charge.charge_stored(Tier::Disk, bytes);
                let file = dir.named_file(name, FilePart::Segment(start.offset));
                let file = (bytes > 0).then(|| Arc::new(file));
                SegmentStore::Durable(DurableBytes { file, copy: None })
            }
        };
        let cut = self.cut.map(|(from, to)| FileCut { from, to: to_position(to) });
        let positions = positions.cloned();
        let content = SegmentContent { start, end, index: None, cut, store, positions };
        LogSegment::with_content(content, charge)
    }
}

/// Opens the log of a finished job of an earlier server. Does not touch the disk: if a file is
/// missing or too short, reads report the missing bytes, as for a file that somebody truncated.
#[must_use]
pub fn open_closed_log(
    settings: &LogStorage,
    bounds: &LogBounds,
    name: &LogName,
    state: &ClosedLog,
) -> LogReader {
    let dir = &settings.spill_dir;
    // What is missing of a closed log shows in the length of its files.
    if let Some(mut note) = dir.unstored_note(name) {
        note.set(name, 0);
    }
    let positions = state.positions.then(|| Arc::new(dir.named_file(name, FilePart::Positions)));
    let plain = ClosedSegment::plain(state.end);
    let (head, tail) = state.segments.split_first().unwrap_or((&plain, &[]));
    let open = |part: &ClosedSegment| Arc::new(part.open(dir, name, positions.as_ref(), bounds));
    let mut gaps = Gaps::default();
    let mut reasons = state.gap_reasons.iter().copied();
    for (at, bytes) in &state.gaps {
        let why = reasons.next().or(state.dropped_why).unwrap_or(DropReason::IoError);
        gaps.record(to_position(*at), *bytes, why);
    }
    let content = LogContent::with_tail(open(head), tail.iter().map(open).collect(), gaps);
    let quota = bounds.quota.clone();
    let log =
        SharedLog::new(content, PublishedProgress::Closed(state.progress()), quota, dir.clone());
    if !state.times.is_empty() {
        *log.write_times() = Some(Box::new(WriteTimes::restore(&state.times)));
    }
    LogReader::new(Arc::new(log))
}

/// Opens the log of a running job of an earlier server, to go on at the end of its file. The
/// progress is the same as after the last write, and a gap stands for bytes that the last server may
/// have taken and not stored. If there is no file, nothing was written.
///
/// # Errors
/// If a file exists and cannot be read.
pub fn reopen_log(
    settings: &LogStorage,
    bounds: LogBounds,
    name: LogName,
) -> io::Result<(LogWriter, LogReader)> {
    let dir = &settings.spill_dir;
    let positions = dir.reopen_named(&name, FilePart::Positions)?.map(Arc::new);
    let recorded = RecordedSegments::read(positions.as_deref())?;
    let mut segments = VecDeque::new();
    let mut progress = LogProgress::default();
    let last = recorded.starts.len() - 1;
    for (number, start) in recorded.starts.iter().enumerate() {
        let next = recorded.starts.get(number + 1);
        if number > 0 && number + TAIL_SEGMENTS <= last {
            // Its file may have been about to be removed.
            dir.named_file(&name, FilePart::Segment(start.offset)).remove_on_drop();
            progress.removed_bytes += next.map_or(0, |next| next.offset - start.offset);
            continue;
        }
        let reopened =
            ReopenedSegment::read(settings, &name, positions.as_ref(), *start, |length| {
                recorded.find_end(start.offset, length, next)
            })?;
        let end = reopened.content.end;
        if end.offset > start.offset {
            progress.open_line = reopened.open_line;
        }
        progress.total_bytes = end.offset;
        progress.lines = end.lines;
        progress.stderr_bytes = end.stderr_bytes;
        progress.last_output = reopened.last_output.or(progress.last_output);
        let mut charge = bounds.quota.open_charge();
        charge.charge_stored(Tier::Disk, end.offset - start.offset);
        let segment = LogSegment::with_content(reopened.content, charge);
        if number < last {
            segment.shrink();
        }
        segments.push_back(Arc::new(segment));
    }
    let past = PastRecords::read(positions.as_deref(), progress.total_bytes)?;
    progress.dropped_bytes = past.dropped_bytes;
    progress.dropped_why = past.dropped_why;
    progress.dropped_at_most = past.gaps.iter().any(|gap| gap.why == DropReason::ServerCrash);
    progress.open_line &= !past.ends_with_gap;
    let writer = match positions {
        None => PositionWriter::new(),
        Some(file) => PositionWriter::resume(file, past.count, past.stream),
    };
    // The first segment is never removed.
    let head = segments.pop_front().ok_or(io::ErrorKind::InvalidData)?;
    let content = LogContent::with_tail(head, segments, past.gaps);
    let note = dir.unstored_note(&name);
    let durable = DurableWriter::new(name, writer, note);
    let (mut writer, reader) = LogWriter::open(settings, bounds, content, progress, Some(durable));
    if let Some(last_output) = progress.last_output {
        let mut times = WriteTimes::restore(&past.times);
        if past.times.is_empty() {
            // Everything was written within a second: it counts as written at the last byte.
            times.mark(last_output, 0, None);
        }
        *reader.log.write_times() = Some(Box::new(times));
    }
    writer.record_noted_loss();
    Ok((writer, reader))
}

/// The segments and cuts by the positions of a log.
#[derive(Debug)]
struct RecordedSegments {
    /// The start of each segment, also of those that were removed; the first is 0.
    starts: Vec<LogPosition>,
    cuts: Vec<FileCut>,
}

impl RecordedSegments {
    fn read(positions: Option<&SpillFile>) -> io::Result<Self> {
        let mut recorded = Self { starts: vec![LogPosition::default()], cuts: Vec::new() };
        let mut records = PositionReader::new(positions)?;
        while let Some(record) = records.next()? {
            match record {
                PositionRecord::Segment(start) => recorded.starts.push(start),
                PositionRecord::Cut(cut) => recorded.cuts.push(cut),
                PositionRecord::Stream { .. }
                | PositionRecord::Gap { .. }
                | PositionRecord::Time(_) => {}
            }
        }
        Ok(recorded)
    }

    /// The end of a segment whose file has this length, and the bytes that are missing before it.
    fn find_end(
        &self,
        start: u64,
        length: u64,
        next: Option<&LogPosition>,
    ) -> (u64, Option<FileCut>) {
        let is_inside = |cut: &&FileCut| {
            cut.from >= start && next.is_none_or(|next| cut.to.offset <= next.offset)
        };
        let known = self.cuts.iter().rev().find(is_inside).copied();
        let there = start + length;
        // The position after bytes that are missing at the end.
        let resumes = next.copied().or(known.map(|cut| cut.to)).filter(|to| to.offset > there);
        match resumes {
            Some(to) => {
                let from = known.map_or(there, |cut| cut.from.min(there));
                (to.offset, Some(FileCut { from, to }))
            }
            None => (there, known),
        }
    }
}

/// A segment that was read from its file.
#[derive(Debug)]
struct ReopenedSegment {
    content: SegmentContent,
    open_line: bool,
    last_output: Option<Instant>,
}

impl ReopenedSegment {
    fn read(
        settings: &LogStorage,
        name: &LogName,
        positions: Option<&Arc<SpillFile>>,
        start: LogPosition,
        find_end: impl FnOnce(u64) -> (u64, Option<FileCut>),
    ) -> io::Result<Self> {
        let dir = &settings.spill_dir;
        let file = dir.reopen_named(name, FilePart::Segment(start.offset))?;
        let open = file.as_ref().map(SpillFile::open).transpose()?;
        let metadata = open.as_ref().map(|file| file.metadata()).transpose()?;
        let (end, cut) = find_end(metadata.as_ref().map_or(0, std::fs::Metadata::len));
        let read_at = |offset: u64, block: &mut [u8]| match &open {
            Some(file) => file.read_exact_at(block, offset - start.offset),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        };
        let range = ScanRange { start, end, cut };
        let scanned =
            scan_segment(&range, positions.map(Arc::as_ref), read_at, || dir.create_file())?;
        let ScannedSegment { index, end, open_line } = scanned;
        let bytes = end.offset - start.offset;
        let fits = cut.is_none() && bytes <= settings.memory_bytes as u64;
        let copy = fits.then(|| read_all(open.as_deref(), bytes)).transpose()?;
        let copy = copy.map(|content| Box::new(MemoryCopy { bytes: content, in_file: bytes }));
        let store = DurableBytes { file: file.map(Arc::new), copy };
        let content = SegmentContent {
            start,
            end,
            index: Some(Box::new(index)),
            cut,
            store: SegmentStore::Durable(store),
            positions: positions.cloned(),
        };
        let age = metadata.and_then(|metadata| metadata.modified().ok()?.elapsed().ok());
        let last_output = age.and_then(|age| Instant::now().checked_sub(age));
        Ok(Self { content, open_line, last_output })
    }
}

fn read_all(file: Option<&File>, bytes: u64) -> io::Result<Vec<u8>> {
    let mut content = vec![0; bytes as usize];
    if let Some(file) = file {
        file.read_exact_at(&mut content, 0)?;
    }
    Ok(content)
}

/// The records that belong to bytes that a log has.
#[derive(Debug)]
struct PastRecords {
    count: u64,
    /// The stream of the next byte by the last record.
    stream: Stream,
    gaps: Gaps,
    dropped_bytes: u64,
    dropped_why: Option<DropReason>,
    ends_with_gap: bool,
    times: Vec<StoredMark>,
}

impl PastRecords {
    fn add_time(&mut self, mark: TimeRecord) {
        let (first, last) = mark.previous;
        match self.times.last_mut() {
            Some(previous) => previous.1 = last,
            None => self.times.push((first, last, 0)),
        }
        self.times.push((mark.time, mark.time, mark.offset));
    }

    fn read(positions: Option<&SpillFile>, total_bytes: u64) -> io::Result<Self> {
        let mut past = Self {
            count: 0,
            stream: Stream::Stdout,
            gaps: Gaps::default(),
            dropped_bytes: 0,
            dropped_why: None,
            ends_with_gap: false,
            times: Vec::new(),
        };
        let mut records = PositionReader::new(positions)?;
        while let Some(record) = records.next()?.filter(|record| record.offset() <= total_bytes) {
            past.count += 1;
            match record {
                PositionRecord::Stream { stream, .. } => past.stream = stream,
                PositionRecord::Gap { at, bytes, why } => {
                    past.gaps.record(at, bytes, why);
                    past.dropped_bytes += bytes;
                    past.dropped_why = Some(why);
                    past.ends_with_gap = at.offset == total_bytes;
                }
                PositionRecord::Time(mark) => past.add_time(mark),
                PositionRecord::Cut(_) | PositionRecord::Segment(_) => {}
            }
        }
        Ok(past)
    }
}
