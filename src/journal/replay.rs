//! Reading a journal.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::record::{JournalError, Record};
use super::segment::{self, FORMAT, LineSpan, Marker, read_segment, segment_path};
use super::state::{
    FinishedRecords, JournalState, LiveParts, LiveRecords, RecordKey, UnfinishedRecords,
};

/// The numbers of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayReport {
    /// The segments that were read.
    pub segments: u64,
    /// The records that were read, live or not.
    pub records: u64,
    /// The lines that were left out because they are damaged.
    pub damaged: u64,
    /// The valid lines of a kind that this version does not know.
    pub unknown: u64,
    /// The live records that have a known kind, but not its fields.
    pub unreadable: u64,
    /// The bytes after the last complete line, which are removed.
    pub torn_bytes: u64,
    /// The jobs without an ending.
    pub unfinished: u64,
    /// The jobs that have ended and were not freed.
    pub finished: u64,
}

/// The segments of a journal that are needed, in memory.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) segments: Vec<LoadedSegment>,
    pub(super) live: LiveRecords<LineSpan>,
    pub(super) report: ReplayReport,
}

/// A segment in memory.
#[derive(Debug)]
pub(super) struct LoadedSegment {
    pub(super) number: u64,
    pub(super) bytes: Vec<u8>,
    /// The length up to the end of the last valid line.
    pub(super) valid_len: usize,
}

/// The result of reading one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SegmentScan {
    valid_len: usize,
    has_checkpoint: bool,
}

/// Reads the newest segment with a complete checkpoint, and those after it. `numbers` are all segments in order.
pub(super) fn read_journal(dir: &Path, numbers: &[u64]) -> Result<Replay, JournalError> {
    let mut segments = Vec::new();
    for &number in numbers.iter().rev() {
        let path = segment_path(dir, number);
        let bytes =
            read_segment(dir, number).map_err(|error| JournalError::unusable(&path, error))?;
        if let Some(found) = read_newer_format(&bytes) {
            return Err(JournalError::NewerFormat { path, found, known: FORMAT });
        }
        let mut live = LiveRecords::default();
        let mut report = ReplayReport::default();
        let SegmentScan { valid_len, has_checkpoint } = scan(&bytes, 0, &mut live, &mut report);
        segments.insert(0, LoadedSegment { number, bytes, valid_len });
        if has_checkpoint {
            return Ok(if segments.len() == 1 {
                Replay::new(segments, live, report)
            } else {
                Replay::scan_all(segments)
            });
        }
    }
    Ok(Replay::scan_all(segments))
}

impl Replay {
    fn scan_all(segments: Vec<LoadedSegment>) -> Self {
        let mut live = LiveRecords::default();
        let mut report = ReplayReport::default();
        for (index, segment) in (0_u32..).zip(&segments) {
            scan(&segment.bytes, index, &mut live, &mut report);
        }
        Self::new(segments, live, report)
    }

    fn new(
        segments: Vec<LoadedSegment>,
        live: LiveRecords<LineSpan>,
        mut report: ReplayReport,
    ) -> Self {
        report.segments = segments.len() as u64;
        let last = segments.last();
        report.torn_bytes = last.map_or(0, |it| (it.bytes.len() - it.valid_len) as u64);
        Self { segments, live, report }
    }

    /// Returns the line at this place.
    pub(super) fn line(&self, span: LineSpan) -> Option<&[u8]> {
        let bytes = &self.segments.get(span.segment as usize)?.bytes;
        let start = usize::try_from(span.offset).ok()?;
        bytes.get(start..start.checked_add(span.len as usize)?)
    }

    /// Returns the bytes of all live records.
    pub(super) fn live_bytes(&self) -> u64 {
        self.live.entries().map(|span| u64::from(span.len)).sum()
    }

    /// Parses the live records. Two threads share the finished jobs, which are almost all of a journal.
    pub(super) fn read_state(&mut self) -> JournalState {
        let reader = RecordReader { replay: self, unreadable: AtomicU64::new(0) };
        let LiveParts { unfinished, finished, freed, approvals, numbers } = self.live.copy_parts();
        let (first, second) = finished.split_at(finished.len() / 2);
        let finished = thread::scope(|scope| {
            let other = thread::Builder::new().spawn_scoped(scope, || reader.read_finished(second));
            let mut finished = reader.read_finished(first);
            finished.extend(match other {
                Ok(other) => other.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(_) => reader.read_finished(second),
            });
            finished
        });
        let read_all = |spans: Vec<_>| spans.into_iter().filter_map(|it| reader.read(it)).collect();
        let state = JournalState::from_parts(LiveParts {
            unfinished: reader.read_unfinished(&unfinished),
            finished,
            freed: read_all(freed),
            approvals: read_all(approvals),
            numbers,
        });
        self.report.unreadable = reader.unreadable.into_inner();
        self.report.unfinished = state.unfinished.len() as u64;
        self.report.finished = state.finished.len() as u64;
        state
    }
}

/// Parses records, and counts those that cannot be parsed.
struct RecordReader<'a> {
    replay: &'a Replay,
    unreadable: AtomicU64,
}

impl RecordReader<'_> {
    fn read(&self, span: LineSpan) -> Option<Record> {
        let json = self.replay.line(span).and_then(segment::trim_line);
        let record = json.and_then(|json| serde_json::from_str(json).ok());
        if record.is_none() {
            self.unreadable.fetch_add(1, Ordering::Relaxed);
        }
        record
    }

    fn read_finished(&self, jobs: &[FinishedRecords<LineSpan>]) -> Vec<FinishedRecords<Record>> {
        let read = |job: &FinishedRecords<LineSpan>| {
            let accepted = self.read(job.accepted)?;
            Some(FinishedRecords { accepted, ended: self.read(job.ended)? })
        };
        jobs.iter().filter_map(read).collect()
    }

    fn read_unfinished(
        &self,
        jobs: &[UnfinishedRecords<LineSpan>],
    ) -> Vec<UnfinishedRecords<Record>> {
        let read = |job: &UnfinishedRecords<LineSpan>| {
            let read_step = |step: Option<LineSpan>| step.and_then(|span| self.read(span));
            Some(UnfinishedRecords {
                accepted: self.read(job.accepted)?,
                queued: read_step(job.queued),
                starting: read_step(job.starting),
                started: read_step(job.started),
            })
        };
        jobs.iter().filter_map(read).collect()
    }
}

/// Adds the records of a segment to `live`.
fn scan(
    bytes: &[u8],
    segment: u32,
    live: &mut LiveRecords<LineSpan>,
    report: &mut ReplayReport,
) -> SegmentScan {
    let mut scan = SegmentScan { valid_len: 0, has_checkpoint: false };
    let mut damaged = 0;
    let mut records_here = 0;
    for line in segment::lines(bytes) {
        let Some(json) = line.json else {
            damaged += 1;
            continue;
        };
        // Damaged lines count only if a valid one follows; otherwise they are cut off.
        report.damaged += std::mem::take(&mut damaged);
        scan.valid_len = line.offset + line.len;
        if let Some(marker) = Marker::parse(json) {
            scan.has_checkpoint |= marker == Marker::Checkpoint { records: records_here };
            continue;
        }
        records_here += 1;
        let Ok(len) = u32::try_from(line.len) else { continue };
        match RecordKey::parse(json) {
            Some(key) => {
                report.records += 1;
                live.apply(key, LineSpan { offset: line.offset as u64, len, segment });
            }
            None => report.unknown += 1,
        }
    }
    scan
}

/// Returns the format of a segment that a later version has written.
fn read_newer_format(bytes: &[u8]) -> Option<u32> {
    match Marker::parse(segment::lines(bytes).next()?.json?)? {
        Marker::Header { format } if format > FORMAT => Some(format),
        Marker::Header { .. } | Marker::Checkpoint { .. } => None,
    }
}

/// Reads bytes as the last segment of a journal. Any bytes are accepted, and the memory that is used is
/// proportional to their number.
#[must_use]
pub fn replay_bytes(bytes: &[u8]) -> ReplayReport {
    let mut live = LiveRecords::default();
    let mut report = ReplayReport::default();
    let SegmentScan { valid_len, .. } = scan(bytes, 0, &mut live, &mut report);
    let segment = LoadedSegment { number: 1, bytes: bytes.to_vec(), valid_len };
    let mut replay = Replay::new(vec![segment], live, report);
    replay.read_state();
    replay.report
}
