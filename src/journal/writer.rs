//! The thread that owns the files of the journal: its segments, and the reserve.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

use super::handle::{
    Batch, Counters, Durability, JournalHealth, JournalSizes, QueuedRecord, Shared, WriterWork,
    is_announcement,
};
use super::record::JournalError;
use super::replay::{LoadedSegment, Replay};
use super::segment::{
    LineSpan, NewSegment, SegmentFile, SyncNew, create_directory, create_segment, is_whole_line,
    list_segments, remove_segment,
};
use super::state::LiveRecords;
use super::unopened::JournalPlace;
use crate::private_files::Symlinks;

/// The time between two attempts to leave the degraded state.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// The time between two attempts to create the reserve again.
const RESERVE_RETRY: Duration = Duration::from_secs(2);
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
pub(super) struct Degraded {
    pub(super) why: Arc<str>,
    kept: Batch,
    /// `true` if nothing may be written to the present segment any more.
    must_rotate: bool,
    pub(super) last_attempt: Instant,
}

impl Degraded {
    pub(super) fn new(why: &io::Error) -> Self {
        Self {
            why: why.to_string().into(),
            kept: Batch::default(),
            must_rotate: false,
            last_attempt: Instant::now(),
        }
    }

    /// Keeps the records of a batch for later, as far as there is room.
    pub(super) fn keep(&mut self, batch: Batch, sizes: &JournalSizes, counters: &Counters) {
        let Self { why, kept, .. } = self;
        let mut rest = batch.lines.as_slice();
        for mut record in batch.records {
            let (line, after) = rest.split_at(rest.len().min(record.len as usize));
            rest = after;
            let bound = if is_announcement(&record.key) { sizes.kept / 2 } else { sizes.kept };
            let is_kept = kept.lines.len() + line.len() <= bound;
            record.send_result(Err(JournalError::Degraded { why: Arc::clone(why), is_kept }));
            if is_kept {
                kept.lines.extend_from_slice(line);
                kept.records.push(record);
            } else {
                counters.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        counters.kept_bytes.store(kept.lines.len() as u64, Ordering::Relaxed);
    }
}

/// The reason why records are not durable.
#[derive(Debug)]
struct CommitError {
    source: io::Error,
    must_rotate: bool,
}

impl JournalWriter {
    /// Continues the last segment of a replay, or begins a new one if that is better or there is none. Takes
    /// the live records out of the replay, unless it fails.
    pub(super) fn open(
        place: &JournalPlace,
        replay: &mut Replay,
        shared: Arc<Shared>,
    ) -> io::Result<Self> {
        let JournalPlace { dir, durability, sizes } = place.clone();
        create_directory(&dir)?;
        let mut reserve = Reserve::find(&dir, sizes.reserve);
        let live_bytes = replay.live_bytes();
        let mut earlier = list_segments(&dir).map_err(io::Error::other)?;
        // A disk that was mounted meanwhile: its journal must not be replaced.
        if earlier.last() > replay.segments.last().map(|last| &last.number) {
            return Err(io::Error::other(
                "it has segments that were not there when the server started; restart the server to read them",
            ));
        }
        let segment = match open_last(&dir, replay) {
            Some(Ok(segment)) => segment,
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // Somebody has removed it since it was read.
            Some(Err(_)) | None => begin_after(&dir, replay, sync_new(durability), &mut reserve)?,
        };
        earlier.retain(|number| *number < segment.number());
        let live = std::mem::take(&mut replay.live);
        let writer = Self {
            dir,
            durability,
            sizes,
            segment,
            checkpoint_len: live_bytes,
            earlier,
            live,
            reserve,
            condition: Condition::Writable,
            shared,
        };
        Ok(writer)
    }

    /// Continues with records that waited while the files could not be opened.
    pub(super) fn with_kept(mut self, degraded: Degraded) -> Self {
        self.condition = Condition::Degraded(degraded);
        self.repair();
        self
    }

    fn run(mut self) {
        self.reserve.restore();
        self.publish();
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
        if self.durability != Durability::Os {
            self.segment.sync().ok();
        }
    }

    /// Returns the time until the next attempt to repair something, if anything needs that.
    const fn next_attempt(&self) -> Option<Duration> {
        match self.condition {
            Condition::Degraded(_) => Some(RETRY),
            Condition::Writable if !self.reserve.is_there => Some(RESERVE_RETRY),
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
        let operation = self.shared.disk.begin();
        let result = match self.durability {
            Durability::Os | Durability::Group => self.commit(&batch.lines, &batch.records),
            Durability::Each => self.commit_each(&mut batch),
        };
        drop(operation);
        let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.shared.counters.write_nanos.fetch_add(nanos, Ordering::Relaxed);
        if let Err(error) = result {
            self.degrade(&error, batch);
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

    /// Writes each record of a batch by itself. After an error the batch has only records that are not durable.
    fn commit_each(&mut self, batch: &mut Batch) -> Result<(), CommitError> {
        let mut start = 0;
        for index in 0..batch.records.len() {
            let end = start + batch.records[index].len as usize;
            let result = self.commit(&batch.lines[start..end], &batch.records[index..=index]);
            if let Err(error) = result {
                batch.lines.drain(..start);
                batch.records.drain(..index);
                return Err(error);
            }
            batch.records[index].send_result(Ok(()));
            start = end;
        }
        Ok(())
    }

    /// Writes records, and makes them as durable as the setting demands.
    fn commit(&mut self, lines: &[u8], records: &[QueuedRecord]) -> Result<(), CommitError> {
        self.write(lines, records).map_err(|source| CommitError { source, must_rotate: false })?;
        if self.is_durable() {
            return Ok(());
        }
        // After a failed sync the kernel takes the data for written, whether it is or not: a second sync would
        // succeed. So these records are written again, to a new segment.
        let must_rotate = true;
        self.begin_segment().map_err(|source| CommitError { source, must_rotate })?;
        self.write(lines, records).map_err(|source| CommitError { source, must_rotate: false })?;
        if self.is_durable() {
            return Ok(());
        }
        let source = io::Error::other("two segments in a row cannot be synced or were removed");
        Err(CommitError { source, must_rotate })
    }

    /// Syncs the segment if the setting demands that; `false` if nobody can rely on what was written to it.
    fn is_durable(&self) -> bool {
        let is_synced = match self.durability {
            Durability::Os => true,
            Durability::Group | Durability::Each => self.segment.sync().is_ok(),
        };
        let is_durable = is_synced && self.segment.is_in_place();
        if !is_durable {
            self.count_error();
        }
        is_durable
    }

    /// Continues in a new segment, because the present one cannot be used.
    fn begin_segment(&mut self) -> io::Result<()> {
        create_directory(&self.dir)?;
        self.rotate(SyncNew::BeforeUse)
    }

    /// Appends the lines of records. If the disk is full, the reserve makes room.
    fn write(&mut self, lines: &[u8], records: &[QueuedRecord]) -> io::Result<()> {
        let mut offset = self.segment.len();
        if let Err(error) = self.segment.append(lines) {
            self.count_error();
            if !(is_out_of_space(&error) && self.reserve.release()) {
                return Err(error);
            }
            self.segment.append(lines)?;
            self.publish();
        }
        for record in records {
            self.live.apply(record.key.clone(), LineSpan { offset, len: record.len, segment: 0 });
            offset += u64::from(record.len);
        }
        let counters = &self.shared.counters;
        counters.batches.fetch_add(1, Ordering::Relaxed);
        counters.records.fetch_add(records.len() as u64, Ordering::Relaxed);
        counters.bytes.fetch_add(lines.len() as u64, Ordering::Relaxed);
        counters.segment_bytes.store(self.segment.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Begins a new segment if the present one has grown by more than it began with, and by enough.
    fn rotate_if_full(&mut self) {
        let grown = self.segment.len().saturating_sub(self.checkpoint_len);
        let is_full = grown > self.sizes.segment.max(self.checkpoint_len);
        if is_full && self.rotate(sync_new(self.durability)).is_err() {
            // The present segment still works. The next attempt comes when it has grown as much again.
            self.checkpoint_len = self.segment.len();
            self.count_error();
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
        let earlier = std::mem::replace(&mut self.earlier, vec![previous.number()]);
        self.remove_earlier(earlier, previous);
        let counters = &self.shared.counters;
        counters.lost.fetch_add(lost, Ordering::Relaxed);
        counters.segments.fetch_add(1, Ordering::Relaxed);
        counters.segment_bytes.store(self.segment.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Removes segments, once the disk has the one that followed them. A thread of its own waits for the disk;
    /// without it, they are removed when the next journal is opened and grows.
    fn remove_earlier(&self, earlier: Vec<u64>, following: SegmentFile) {
        if earlier.is_empty() {
            return;
        }
        let dir = self.dir.clone();
        let remove = move || {
            if following.sync().is_ok() {
                earlier.into_iter().for_each(|number| remove_segment(&dir, number));
            }
        };
        std::thread::Builder::new().name("journal-remove".to_owned()).spawn(remove).ok();
    }

    /// Enters the degraded state with a batch that could not be committed.
    fn degrade(&mut self, error: &CommitError, batch: Batch) {
        self.count_error();
        let degraded = Degraded::new(&error.source);
        self.condition =
            Condition::Degraded(Degraded { must_rotate: error.must_rotate, ..degraded });
        self.keep(batch);
        self.publish();
    }

    /// Keeps the records of a batch for later, as far as there is room.
    fn keep(&mut self, batch: Batch) {
        if let Condition::Degraded(degraded) = &mut self.condition {
            degraded.keep(batch, &self.sizes, &self.shared.counters);
        }
    }

    /// Tries to leave the degraded state, or to create the reserve again.
    fn repair(&mut self) {
        match std::mem::replace(&mut self.condition, Condition::Writable) {
            Condition::Degraded(mut degraded) => match self.write_kept(&degraded) {
                Ok(()) => self.shared.counters.kept_bytes.store(0, Ordering::Relaxed),
                Err(error) => {
                    self.count_error();
                    degraded.why = error.source.to_string().into();
                    degraded.must_rotate = error.must_rotate;
                    degraded.last_attempt = Instant::now();
                    self.condition = Condition::Degraded(degraded);
                }
            },
            Condition::Writable if !self.reserve.is_there => self.reserve.restore(),
            Condition::Writable => {}
        }
        self.publish();
    }

    /// Writes the kept records, to a new segment if the present one cannot be relied on.
    fn write_kept(&mut self, degraded: &Degraded) -> Result<(), CommitError> {
        if degraded.must_rotate || !self.segment.is_in_place() {
            let must_rotate = true;
            self.begin_segment().map_err(|source| CommitError { source, must_rotate })?;
        }
        self.commit(&degraded.kept.lines, &degraded.kept.records)
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
            Condition::Writable if self.reserve.is_there => JournalHealth::Healthy,
            Condition::Writable => JournalHealth::LowSpace,
        };
        self.shared.publish(health);
    }
}

/// Ends the queue with its writer, even if that panics.
struct EndOfWriter(Arc<Shared>);

impl Drop for EndOfWriter {
    fn drop(&mut self) {
        self.0.queue.end_writer();
    }
}

/// Starts the thread. `find_writer` may take as long as the files cannot be opened.
pub(super) fn start_writer(
    shared: Arc<Shared>,
    find_writer: impl FnOnce() -> Option<JournalWriter> + Send + 'static,
) -> io::Result<()> {
    let end = EndOfWriter(shared);
    let run = move || {
        let _end = end;
        if let Some(writer) = find_writer() {
            writer.run();
        }
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

/// Begins a segment with the live records of a replay, which then have their places in it.
fn begin_after(
    dir: &Path,
    replay: &mut Replay,
    sync: SyncNew,
    reserve: &mut Reserve,
) -> io::Result<SegmentFile> {
    let number = replay.segments.last().map_or(1, |segment| segment.number + 1);
    let read_line = |span, line: &mut Vec<u8>| {
        let found = replay.line(span).filter(|line| is_whole_line(line));
        line.clear();
        line.extend_from_slice(found.unwrap_or_default());
        found.is_some()
    };
    let create = || create_segment(dir, number, &replay.live, read_line, sync);
    let created = match create() {
        Err(error) if is_out_of_space(&error) && reserve.release() => create(),
        created => created,
    };
    let NewSegment { file, spans, .. } = created?;
    replay.live.entries_mut().zip(spans).for_each(|(entry, span)| *entry = span);
    Ok(file)
}

const fn sync_new(durability: Durability) -> SyncNew {
    match durability {
        Durability::Os => SyncNew::Later,
        Durability::Group | Durability::Each => SyncNew::BeforeUse,
    }
}

fn is_out_of_space(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

const RESERVE_NAME: &str = "reserve";

/// The reserve of a journal: a file that only takes room, and is removed when the disk is full. Then endings of
/// jobs can still be recorded.
#[derive(Debug)]
struct Reserve {
    path: PathBuf,
    bytes: u64,
    is_there: bool,
}

impl Reserve {
    /// Returns the reserve that an earlier server may have left. It is not created here: the server's start does
    /// not wait for that.
    fn find(dir: &Path, bytes: u64) -> Self {
        let path = dir.join(RESERVE_NAME);
        let is_there = fs::symlink_metadata(&path).is_ok_and(|found| found.len() == bytes);
        Self { path, bytes, is_there }
    }

    /// Removes the file; `false` if there is none.
    fn release(&mut self) -> bool {
        let was_there = std::mem::replace(&mut self.is_there, false);
        was_there && fs::remove_file(&self.path).is_ok()
    }

    /// Creates the file if the disk has twice as much room: a reserve that takes the last bytes would
    /// only fill the disk.
    fn restore(&mut self) {
        if self.is_there {
            return;
        }
        self.is_there = self.create().is_ok();
        if !self.is_there {
            fs::remove_file(&self.path).ok();
        }
    }

    fn create(&self) -> io::Result<()> {
        let mut options = Symlinks::Refuse.options();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&self.path)?;
        let disk = fstatvfs(&file)?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < self.bytes.saturating_mul(2) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match fallocate(&file, FallocateFlags::empty(), 0, self.bytes) {
            Err(Errno::OPNOTSUPP) => {
                io::copy(&mut io::repeat(0).take(self.bytes), &mut &file).map(|_| ())
            }
            allocated => Ok(allocated?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use tokio::sync::oneshot;

    use super::super::handle::{Counters, WriteQueue};
    use super::super::tests::{SMALL, accepted, job};
    use super::super::{JournalState, Record};
    use super::*;
    use crate::journal::replay::read_journal;
    use crate::output::DiskWatch;

    fn queue_batch(shared: &Shared, records: &[Record]) -> Batch {
        for record in records {
            let (sender, _) = oneshot::channel();
            shared.queue.push(record, sender).unwrap();
        }
        match shared.queue.wait(Batch::default(), None) {
            WriterWork::Batch(batch) => batch,
            WriterWork::Timeout | WriterWork::Closed => panic!("nothing waits"),
        }
    }

    #[test]
    fn after_a_failed_sync_the_records_are_written_to_a_new_segment() {
        let dir = tempfile::tempdir().unwrap();
        let shared = Arc::new(Shared {
            queue: WriteQueue::new(1 << 20),
            health: tokio::sync::watch::Sender::new(JournalHealth::Healthy),
            counters: Counters::default(),
            disk: DiskWatch::default(),
        });
        let mut replay = read_journal(dir.path(), &[]).unwrap();
        let place = JournalPlace::new(dir.path(), Durability::Group, SMALL);
        let mut writer = JournalWriter::open(&place, &mut replay, Arc::clone(&shared)).unwrap();
        let null = File::options().read(true).write(true).open("/dev/null").unwrap();
        assert!(null.sync_data().is_err(), "this device must refuse to sync");
        writer.segment.file = null;
        let records = [accepted(job(1)), accepted(job(2))];
        let batch = queue_batch(&shared, &records);
        writer.commit(&batch.lines, &batch.records).unwrap();
        assert_eq!(writer.segment.number(), 2);
        drop(writer);
        let numbers = list_segments(dir.path()).unwrap();
        let state = read_journal(dir.path(), &numbers).unwrap().read_state();
        assert_eq!(state, JournalState::replay(records));
    }
}
