//! The thread that owns the files of the journal.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::durability::Durability;
use super::error::JournalError;
use super::handle::{JournalHealth, JournalSizes, Shared};
use super::live_records::LiveRecords;
use super::replay::{LoadedSegment, Replay};
use super::reserve::Reserve;
use super::segment_file::{
    LineSpan, NewSegment, SegmentFile, SyncNew, create_directory, create_segment, is_whole_line,
    remove_segment,
};
use super::write_queue::{Batch, WriterWork};

/// The time between two attempts to leave the degraded state.
const RETRY: Duration = Duration::from_secs(1);
/// The time between two attempts to create the reserve again.
const RESERVE_RETRY: Duration = Duration::from_secs(10);
/// A journal that is opened with more bytes than this is rewritten if most of them are not live.
const COMPACT_BYTES: u64 = 1 << 20;
/// The memory for lines that is kept from one batch to the next.
const SPARE_BYTES: usize = 1 << 20;

/// The owner of the files.
#[derive(Debug)]
pub(super) struct JournalWriter {
    dir: PathBuf,
    durability: Durability,
    sizes: JournalSizes,
    segment: SegmentFile,
    /// The length of the segment's checkpoint.
    checkpoint_len: u64,
    /// The segments before it that still exist.
    earlier: Vec<u64>,
    live: LiveRecords<LineSpan>,
    reserve: Reserve,
    condition: Condition,
    shared: Arc<Shared>,
}

/// The condition of the files.
#[derive(Debug)]
enum Condition {
    Writable,
    Degraded(Degraded),
}

/// The records that wait for a journal that cannot be written.
#[derive(Debug)]
struct Degraded {
    why: Arc<str>,
    kept: Batch,
    /// `true` if nothing may be written to the present segment any more.
    must_rotate: bool,
    last_attempt: Instant,
}

/// The part of a commit that failed.
#[derive(Debug)]
enum CommitError {
    /// None of the lines is in the segment.
    NotWritten(io::Error),
    /// The lines are in the segment, but nobody can rely on the segment.
    Unreliable(io::Error),
}

impl JournalWriter {
    /// Continues the last segment of a replay, or begins a new one if that is better or there is none.
    pub(super) fn new(
        dir: &Path,
        durability: Durability,
        sizes: JournalSizes,
        replay: Replay,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        let mut reserve = Reserve::new(dir, sizes.reserve);
        let (segment, live, checkpoint_len) = match open_last(dir, &replay) {
            Some(segment) => (segment?, replay.live, 0),
            None => begin_after(dir, replay, &mut reserve)?,
        };
        let mut earlier = super::segment_file::list_segments(dir).map_err(io::Error::other)?;
        earlier.retain(|number| *number < segment.number());
        let condition = Condition::Writable;
        let writer = Self {
            dir: dir.to_owned(),
            durability,
            sizes,
            segment,
            checkpoint_len,
            earlier,
            live,
            reserve,
            condition,
            shared,
        };
        writer.publish();
        Ok(writer)
    }

    fn run(mut self) {
        let mut spare = Batch::default();
        loop {
            match self.shared.queue.wait(spare, self.next_attempt()) {
                WriterWork::Batch(batch) => spare = self.handle_batch(batch),
                WriterWork::Timeout => {
                    self.repair();
                    spare = Batch::default();
                }
                WriterWork::Closed => break,
            }
        }
        self.repair();
        self.segment.sync().ok();
    }

    /// Returns the time until the next attempt to repair something, if anything needs that.
    const fn next_attempt(&self) -> Option<Duration> {
        match self.condition {
            Condition::Degraded(_) => Some(RETRY),
            Condition::Writable if !self.reserve.is_there() => Some(RESERVE_RETRY),
            Condition::Writable => None,
        }
    }

    /// Writes a batch, tells its tickets, and returns its memory.
    fn handle_batch(&mut self, mut batch: Batch) -> Batch {
        if let Condition::Degraded(degraded) = &self.condition {
            let is_due = degraded.last_attempt.elapsed() >= RETRY;
            self.keep(batch);
            if is_due {
                self.repair();
            }
            return Batch::default();
        }
        let begun = Instant::now();
        let result = match self.durability {
            Durability::Os | Durability::Group => self.commit(&batch),
            Durability::Each => self.commit_each(&mut batch),
        };
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.shared.counters.write_nanos.fetch_add(nanos, Ordering::Relaxed);
        if let Err(error) = result {
            self.degrade(error, batch);
            return Batch::default();
        }
        for record in &mut batch.records {
            record.send_result(Ok(()));
        }
        self.rotate_if_full();
        batch.records.clear();
        batch.lines.clear();
        batch.lines.shrink_to(SPARE_BYTES);
        batch
    }

    /// Writes each record of a batch by itself, and removes those from the batch that are durable.
    fn commit_each(&mut self, batch: &mut Batch) -> Result<(), CommitError> {
        while !batch.records.is_empty() {
            let rest = batch.records.split_off(1);
            let len = batch.records.first().map_or(0, |record| record.len as usize);
            let rest_lines = batch.lines.split_off(len);
            let result = self.commit(batch);
            if result.is_ok() {
                batch.records.iter_mut().for_each(|record| record.send_result(Ok(())));
                *batch = Batch { lines: rest_lines, records: rest };
            } else {
                batch.lines.extend(rest_lines);
                batch.records.extend(rest);
                return result;
            }
        }
        Ok(())
    }

    /// Writes all records of a batch, and makes them as durable as the setting demands.
    fn commit(&mut self, batch: &Batch) -> Result<(), CommitError> {
        self.write(batch).map_err(CommitError::NotWritten)?;
        self.make_durable().map_err(CommitError::Unreliable)
    }

    fn make_durable(&mut self) -> io::Result<()> {
        let synced = match self.durability {
            Durability::Os => Ok(()),
            Durability::Group | Durability::Each => self.segment.sync(),
        };
        if synced.is_ok() && self.segment.is_in_place() {
            return Ok(());
        }
        if synced.is_err() {
            self.count_error();
        }
        // After a failed sync the kernel takes the data for written, so a second sync would say that all is well.
        create_directory(&self.dir)?;
        self.rotate(SyncNew::BeforeUse)
    }

    /// Appends the lines of a batch. If the disk is full, the reserve makes room.
    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let mut offset = self.segment.len();
        if let Err(error) = self.segment.append(&batch.lines) {
            self.count_error();
            if !(is_out_of_space(&error) && self.reserve.release()) {
                return Err(error);
            }
            self.segment.append(&batch.lines)?;
            self.publish();
        }
        for record in &batch.records {
            self.live.apply(record.key.clone(), LineSpan { offset, len: record.len, segment: 0 });
            offset += u64::from(record.len);
        }
        let counters = &self.shared.counters;
        counters.batches.fetch_add(1, Ordering::Relaxed);
        counters.records.fetch_add(batch.records.len() as u64, Ordering::Relaxed);
        counters.bytes.fetch_add(batch.lines.len() as u64, Ordering::Relaxed);
        counters.segment_bytes.store(self.segment.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Begins a new segment if the present one has grown by more than it began with, and by enough.
    fn rotate_if_full(&mut self) {
        let grown = self.segment.len().saturating_sub(self.checkpoint_len);
        if grown > self.sizes.segment.max(self.checkpoint_len) {
            let sync = match self.durability {
                Durability::Os => SyncNew::Later,
                Durability::Group | Durability::Each => SyncNew::BeforeUse,
            };
            if let Err(error) = self.rotate(sync) {
                // The present segment still works. The next attempt comes when it has grown as much again.
                self.checkpoint_len = self.segment.len();
                self.shared.counters.errors.fetch_add(1, Ordering::Relaxed);
                drop(error);
            }
        }
    }

    /// Continues in a new segment with a checkpoint.
    fn rotate(&mut self, sync: SyncNew) -> io::Result<()> {
        let number = self.segment.number() + 1;
        let read_line = |span, line: &mut Vec<u8>| self.segment.read_line(span, line);
        let NewSegment { file, spans, lost } =
            create_segment(&self.dir, number, &self.live, read_line, sync)?;
        self.live.entries_mut().zip(spans).for_each(|(entry, span)| *entry = span);
        let previous = std::mem::replace(&mut self.segment, file);
        self.checkpoint_len = self.segment.len();
        // A segment is removed only when the disk has a later one.
        if sync == SyncNew::BeforeUse || previous.sync().is_ok() {
            for number in self.earlier.drain(..) {
                remove_segment(&self.dir, number);
            }
        }
        self.earlier.push(previous.number());
        let counters = &self.shared.counters;
        counters.lost.fetch_add(lost, Ordering::Relaxed);
        counters.segments.fetch_add(1, Ordering::Relaxed);
        counters.segment_bytes.store(self.segment.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Enters the degraded state with a batch that could not be committed.
    fn degrade(&mut self, error: CommitError, mut batch: Batch) {
        self.count_error();
        let (error, must_rotate) = match error {
            CommitError::NotWritten(error) => (error, false),
            CommitError::Unreliable(error) => (error, true),
        };
        let why: Arc<str> = error.to_string().into();
        self.condition = Condition::Degraded(Degraded {
            why: Arc::clone(&why),
            kept: Batch::default(),
            must_rotate,
            last_attempt: Instant::now(),
        });
        if must_rotate {
            // The next checkpoint has these records.
            let error = JournalError::Degraded { why, is_kept: true };
            batch.records.iter_mut().for_each(|record| record.send_result(Err(error.clone())));
        } else {
            self.keep(batch);
        }
        self.publish();
    }

    /// Keeps the records of a batch for later, as far as there is room.
    fn keep(&mut self, batch: Batch) {
        let Condition::Degraded(Degraded { why, kept, .. }) = &mut self.condition else { return };
        let mut rest = batch.lines.as_slice();
        for mut record in batch.records {
            let (line, after) = rest.split_at(rest.len().min(record.len as usize));
            rest = after;
            let bound =
                if record.is_announcement() { self.sizes.kept / 2 } else { self.sizes.kept };
            let is_kept = kept.lines.len() + line.len() <= bound;
            record.send_result(Err(JournalError::Degraded { why: Arc::clone(why), is_kept }));
            if is_kept {
                kept.lines.extend_from_slice(line);
                kept.records.push(record);
            } else {
                self.shared.counters.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.shared.counters.kept_bytes.store(kept.lines.len() as u64, Ordering::Relaxed);
    }

    /// Tries to leave the degraded state, or to create the reserve again.
    fn repair(&mut self) {
        match std::mem::replace(&mut self.condition, Condition::Writable) {
            Condition::Degraded(mut degraded) => match self.write_kept(&mut degraded) {
                Ok(()) => self.shared.counters.kept_bytes.store(0, Ordering::Relaxed),
                Err(error) => {
                    self.count_error();
                    degraded.why = error.to_string().into();
                    degraded.last_attempt = Instant::now();
                    self.condition = Condition::Degraded(degraded);
                }
            },
            Condition::Writable if !self.reserve.is_there() => self.reserve.restore(),
            Condition::Writable => {}
        }
        self.publish();
    }

    /// Writes the kept records, to a new segment if the present one cannot be relied on.
    fn write_kept(&mut self, degraded: &mut Degraded) -> io::Result<()> {
        if degraded.must_rotate || !self.segment.is_in_place() {
            create_directory(&self.dir)?;
            self.rotate(SyncNew::BeforeUse)?;
            degraded.must_rotate = false;
        }
        self.write(&degraded.kept)?;
        degraded.kept = Batch::default();
        self.make_durable().inspect_err(|_| degraded.must_rotate = true)
    }

    fn count_error(&self) {
        self.shared.counters.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Publishes the health, if it has changed.
    fn publish(&self) {
        let health = match &self.condition {
            Condition::Degraded(degraded) => {
                JournalHealth::Degraded { why: Arc::clone(&degraded.why) }
            }
            Condition::Writable if self.reserve.is_there() => JournalHealth::Healthy,
            Condition::Writable => JournalHealth::LowSpace,
        };
        self.shared.health.send_if_modified(|current| {
            let is_changed = *current != health;
            *current = health;
            is_changed
        });
    }
}

/// Ends the queue with its writer, even if that panics.
struct EndOfWriter(Arc<Shared>);

impl Drop for EndOfWriter {
    fn drop(&mut self) {
        self.0.queue.end_writer();
    }
}

/// Starts the thread.
pub(super) fn start_writer(writer: JournalWriter) -> io::Result<()> {
    let end = EndOfWriter(Arc::clone(&writer.shared));
    let run = move || {
        let _end = end;
        writer.run();
    };
    std::thread::Builder::new().name("journal".to_owned()).spawn(run)?;
    Ok(())
}

/// Opens the only segment of a replay to continue it; `None` if a new segment is better.
fn open_last(dir: &Path, replay: &Replay) -> Option<io::Result<SegmentFile>> {
    let [LoadedSegment { number, valid_len, .. }] = replay.segments.as_slice() else { return None };
    let valid_len = *valid_len as u64;
    let is_mostly_garbage = valid_len > COMPACT_BYTES && replay.live_bytes() < valid_len / 2;
    (!is_mostly_garbage).then(|| SegmentFile::open(dir, *number, valid_len))
}

/// Begins a segment with the live records of a replay.
fn begin_after(
    dir: &Path,
    replay: Replay,
    reserve: &mut Reserve,
) -> io::Result<(SegmentFile, LiveRecords<LineSpan>, u64)> {
    let number = replay.segments.last().map_or(1, |segment| segment.number + 1);
    let read_line = |span, line: &mut Vec<u8>| {
        let found = replay.line(span).filter(|line| is_whole_line(line));
        line.clear();
        line.extend_from_slice(found.unwrap_or_default());
        found.is_some()
    };
    let create = || create_segment(dir, number, &replay.live, read_line, SyncNew::BeforeUse);
    let created = match create() {
        Err(error) if is_out_of_space(&error) && reserve.release() => create(),
        created => created,
    };
    let NewSegment { file, spans, .. } = created?;
    let mut live = replay.live;
    live.entries_mut().zip(spans).for_each(|(entry, span)| *entry = span);
    let len = file.len();
    Ok((file, live, len))
}

fn is_out_of_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
