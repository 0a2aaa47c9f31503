//! The append-only log of one job: what its writer does.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use memchr::memchr_iter;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::Stream;
use crate::counters::{DropReason, SpillOperation, Tier};
use crate::index::{RECORD, Run};
use crate::part::{Mark, Shared, Store, Taken, push_bounded, reason, write_prefix};
use crate::parts::{Keep, Noted, Parts, Progress};
use crate::quota::Allowance;
use crate::reader::LogReader;
use crate::spill::{SpillDir, SpillFile};

/// The largest piece that is stored at once.
const WRITE_BYTES: usize = 1024 * 1024;

/// Where a log keeps its bytes.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// Up to here the bytes stay in memory.
    pub memory_bytes: usize,
    /// Beyond that all of them go to a file in this directory, which is made (mode 0700) where it
    /// is missing.
    pub spill_dir: SpillDir,
}

/// What bounds a log.
#[derive(Debug, Clone)]
pub struct LogBounds {
    /// How much of it is kept.
    pub keep: Keep,
    /// What its bytes are taken from.
    pub allowance: Allowance,
}

/// Starts an empty log without bounds: one writer, and a reader that may be cloned freely.
#[must_use]
pub fn open(settings: &LogSettings) -> (LogWriter, LogReader) {
    open_bounded(settings, LogBounds { keep: Keep::All, allowance: Allowance::unlimited() })
}

/// Starts an empty log: one writer, and a reader that may be cloned freely.
#[must_use]
pub fn open_bounded(settings: &LogSettings, bounds: LogBounds) -> (LogWriter, LogReader) {
    let part = Arc::new(Shared::new(Mark::default(), bounds.allowance.charge()));
    let spill_dir = settings.spill_dir.clone();
    let parts = Arc::new(Parts::new(Arc::clone(&part), bounds.allowance.clone(), spill_dir));
    let (published, progress) = watch::channel(Progress::default());
    let writer = LogWriter {
        parts: Arc::clone(&parts),
        part,
        settings: settings.clone(),
        bounds,
        opened: Instant::now(),
        now: Progress::default(),
        published,
    };
    (writer, LogReader::new(parts, progress))
}

/// The one writer of a log. Dropping it closes the log.
#[derive(Debug)]
pub struct LogWriter {
    parts: Arc<Parts>,
    /// The last of them, which grows.
    part: Arc<Shared>,
    settings: LogSettings,
    bounds: LogBounds,
    opened: Instant,
    /// Ahead of what is published only inside `append` and `close`.
    now: Progress,
    published: watch::Sender<Progress>,
}

impl LogWriter {
    /// Adds bytes at the end of the log and wakes its readers.
    ///
    /// Never fails: what cannot be kept is counted in [`Progress::dropped_bytes`], and the next
    /// write tries again. Returns the progress after the write. Blocks while the disk does.
    pub fn append(&mut self, stream: Stream, bytes: &[u8]) -> Progress {
        if bytes.is_empty() {
            return self.now;
        }
        let taken = if self.now.closed {
            Taken::only(0, DropReason::IoError)
        } else {
            self.keep(stream, bytes)
        };
        self.now.last_output = Some(Instant::now());
        if let Some(why) = taken.lost {
            self.lose((bytes.len() - taken.bytes) as u64, why);
        }
        // Last: a reader that sees this progress can read all bytes that it speaks of.
        self.published.send_replace(self.now);
        self.now
    }

    /// `true` if what is added next goes to a file, because earlier bytes did.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        match self.part.lock().store {
            Store::Memory(_) => false,
            Store::Spilled(_) | Store::Packed(_) => true,
        }
    }

    /// `true` if so many bytes can be added without a file.
    #[must_use]
    pub fn fits_memory(&self, bytes: usize) -> bool {
        let inner = self.part.lock();
        let end = self.bounds.keep.end_of_part(self.part.start().offset);
        let fits_part = end.saturating_sub(self.now.total_bytes) >= bytes as u64;
        match &inner.store {
            Store::Memory(memory) => {
                let fits = memory.len() + bytes <= self.settings.memory_bytes;
                fits && fits_part && inner.index.overdue().is_none()
            }
            Store::Spilled(_) | Store::Packed(_) => false,
        }
    }

    /// Waits for its turn to write to the disk. However many logs are written, only so many threads
    /// can wait for a disk that does not answer.
    pub async fn disk_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.settings.spill_dir.write_permit().await
    }

    /// Whether a cap is near, so that it is worth to wait for room before more is written.
    #[must_use]
    pub fn wants_room(&self) -> bool {
        self.bounds.allowance.wants_room()
    }

    /// Asks for room and waits until some was freed or none can be, for a second at the most.
    pub async fn wait_for_room(&self) {
        self.bounds.allowance.wait_for_room().await;
    }

    /// Says that no byte will follow. Dropping the writer does the same.
    pub fn close(&mut self) {
        if self.now.closed {
            return;
        }
        self.part.shrink();
        self.now.closed = true;
        self.published.send_replace(self.now);
    }

    fn lose(&mut self, bytes: u64, why: DropReason) {
        // What comes next is no part of the line before it.
        let ended = self.now.lines + u64::from(self.now.open_line);
        let at = Mark { lines: ended, ..self.end() };
        if self.parts.note_lost(at, bytes) == Noted::Apart {
            (self.now.lines, self.now.open_line) = (ended, false);
            self.part.end_line(at);
        }
        self.now.dropped_bytes += bytes;
        self.now.dropped_why = Some(why);
        self.bounds.allowance.counters().add_dropped(why, bytes);
    }

    /// Keeps as many of the bytes as possible, from the first on.
    fn keep(&mut self, stream: Stream, bytes: &[u8]) -> Taken {
        let mut kept = 0;
        while kept < bytes.len() {
            let rest = &bytes[kept..];
            // In blocks, so that one huge write cannot add more runs than memory may hold.
            let block = &rest[..rest.len().min(WRITE_BYTES).min(self.room_in_part())];
            let taken = self.keep_block(stream, block);
            kept += taken.bytes;
            if taken.lost.is_some() {
                return Taken { bytes: kept, ..taken };
            }
        }
        Taken::all(kept)
    }

    /// How many bytes the part takes; a full one is followed by another.
    fn room_in_part(&mut self) -> usize {
        let end = self.bounds.keep.end_of_part(self.part.start().offset);
        if self.now.total_bytes >= end {
            self.start_part();
            return self.room_in_part();
        }
        usize::try_from(end - self.now.total_bytes).unwrap_or(usize::MAX)
    }

    fn start_part(&mut self) {
        self.part.shrink();
        self.part = Arc::new(Shared::new(self.end(), self.bounds.allowance.charge()));
        let left = self.parts.push(Arc::clone(&self.part));
        self.now.removed_bytes += left.map_or(0, |part| part.span());
        // Here too, so that what is published never ends before the parts that are left begin.
        self.published.send_replace(self.now);
    }

    fn keep_block(&mut self, stream: Stream, block: &[u8]) -> Taken {
        // Without room for their runs, bytes could not be told apart by stream or found by line.
        if let Err(why) = self.move_runs() {
            return Taken::only(0, why);
        }
        let taken = self.store(block);
        self.note(stream, &block[..taken.bytes]);
        taken
    }

    /// Moves runs from memory to their file when there are too many.
    fn move_runs(&self) -> Result<(), DropReason> {
        let (stored, runs) = {
            let inner = self.part.lock();
            let Some(overdue) = inner.index.overdue() else { return Ok(()) };
            (inner.index.stored().clone(), overdue.to_vec())
        };
        let bytes = runs.len() * RECORD;
        self.take_room(bytes)?;
        let stored = stored.append(&runs, || self.settings.spill_dir.create_file());
        let stored = stored.map_err(|error| {
            self.part.lock().charge.put_back(Tier::Disk, bytes as u64);
            reason(&error)
        })?;
        self.part.lock().index.moved(runs.len(), stored);
        Ok(())
    }

    /// Takes room on the disk for all of the bytes or for none.
    fn take_room(&self, bytes: usize) -> Result<(), DropReason> {
        let mut inner = self.part.lock();
        match inner.charge.take(Tier::Disk, bytes) {
            (_, None) => Ok(()),
            (taken, Some(why)) => {
                inner.charge.put_back(Tier::Disk, taken as u64);
                Err(why)
            }
        }
    }

    /// Puts the bytes into the store, as far as there is room and the store takes them.
    fn store(&self, bytes: &[u8]) -> Taken {
        let limit = self.settings.memory_bytes;
        let (room, lost, file) = {
            let mut inner = self.part.lock();
            let tier = inner.store.tier();
            let (room, lost) = inner.charge.take(tier, bytes.len());
            match &mut inner.store {
                Store::Memory(memory) if memory.len() + room <= limit => {
                    push_bounded(memory, &bytes[..room], limit);
                    return Taken { bytes: room, lost };
                }
                Store::Memory(_) => (room, lost, None),
                Store::Spilled(file) => (room, lost, Some(Arc::clone(file))),
                // Only closed logs are packed.
                Store::Packed(_) => (0, lost, None),
            }
        };
        let bytes = &bytes[..room];
        let taken = match file {
            Some(file) => self.write(&file, bytes),
            None => self.spill(bytes),
        };
        if taken.bytes < room {
            let mut inner = self.part.lock();
            let tier = inner.store.tier();
            inner.charge.put_back(tier, (room - taken.bytes) as u64);
        }
        Taken { bytes: taken.bytes, lost: taken.lost.or(lost) }
    }

    fn write(&self, file: &SpillFile, bytes: &[u8]) -> Taken {
        match file.open() {
            Ok(file) => self.write_open(&file, bytes),
            Err(error) => Taken::only(0, reason(&error)),
        }
    }

    fn write_open(&self, file: &File, bytes: &[u8]) -> Taken {
        let position = self.part.position(self.now.total_bytes);
        // A write behind the end of a file that was cut would hide the cut.
        let looked = match file.metadata() {
            Ok(metadata) if metadata.len() < position => self.part.look_for_cut(),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        match looked {
            Ok(()) => write_prefix(file, bytes, position, self.settings.spill_dir.counters()),
            Err(error) => Taken::only(0, reason(&error)),
        }
    }

    /// Moves the memory to a file and adds the bytes there. Without a file, memory takes what
    /// it still may.
    fn spill(&self, bytes: &[u8]) -> Taken {
        let file = self.spill_file();
        let mut inner = self.part.lock();
        let Store::Memory(memory) = &mut inner.store else {
            return Taken::only(0, DropReason::IoError);
        };
        match file {
            Ok(file) => {
                let file = Arc::new(file);
                let moved = (memory.len() + bytes.len()) as u64;
                inner.store = Store::Spilled(Arc::clone(&file));
                inner.charge.shift(Tier::Memory, Tier::Disk, moved);
                drop(inner);
                self.write(&file, bytes)
            }
            Err(error) => {
                let room = self.settings.memory_bytes - memory.len();
                push_bounded(memory, &bytes[..room], self.settings.memory_bytes);
                Taken::only(room, reason(&error))
            }
        }
    }

    /// A file that holds all that memory holds.
    fn spill_file(&self) -> io::Result<SpillFile> {
        // A copy, so that readers need not wait for the disk. Nobody else adds to it meanwhile.
        let bytes = match &self.part.lock().store {
            Store::Memory(memory) => memory.clone(),
            Store::Spilled(_) | Store::Packed(_) => Vec::new(),
        };
        let file = self.settings.spill_dir.create_file()?;
        let written = file.open()?.write_all_at(&bytes, 0);
        self.settings.spill_dir.counters().checked(SpillOperation::Write, written)?;
        Ok(file)
    }

    /// Adds bytes that the store has taken to the index and to the progress.
    fn note(&mut self, stream: Stream, mut bytes: &[u8]) {
        let time = self.opened.elapsed().as_micros() as u64;
        let mut inner = self.part.lock();
        while let Some(last) = bytes.last() {
            let (run, rest) = bytes.split_at(bytes.len().min(inner.index.room_for(stream)));
            let (offset, line) = (self.now.total_bytes, self.now.lines);
            inner.index.add(Run { offset, line, time, length: run.len() as u32, stream });
            self.now.total_bytes += run.len() as u64;
            self.now.lines += memchr_iter(b'\n', run).count() as u64;
            self.now.open_line = *last != b'\n';
            if stream == Stream::Stderr {
                self.now.stderr_bytes += run.len() as u64;
            }
            bytes = rest;
        }
        inner.end = self.end();
    }

    /// Where the log ends.
    const fn end(&self) -> Mark {
        let Progress { total_bytes: offset, lines, stderr_bytes, .. } = self.now;
        Mark { offset, lines, stderr_bytes }
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.close();
    }
}
