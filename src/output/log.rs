//! The append-only log of one job: what its writer does.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use memchr::memchr_iter;
use tokio::sync::watch;

use super::index::Run;
use super::reader::LogReader;
use super::shared::Shared;
use super::spill::{Store, nameless_file, push_bounded, write_prefix};
use crate::spec::Stream;

/// The largest piece that is stored at once.
const WRITE_BYTES: usize = 1024 * 1024;

/// Where a log keeps its bytes.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// Up to here the bytes stay in memory.
    pub memory_bytes: usize,
    /// Beyond that all of them go to a file without a name in this directory, which is made
    /// (mode 0700) where it is missing.
    pub spill_dir: PathBuf,
}

/// How far a log has come. One value is one moment: `closed` and `total_bytes` belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Bytes kept, of both streams: the offset after the last one.
    pub total_bytes: u64,
    /// Newlines among them.
    pub lines: u64,
    /// Whether bytes follow the last newline.
    pub open_line: bool,
    /// Bytes kept that came from stderr.
    pub stderr_bytes: u64,
    /// Bytes that could not be kept (disk full, I/O error).
    pub dropped_bytes: u64,
    /// Nothing will follow.
    pub closed: bool,
    /// When the job last wrote.
    pub last_output: Option<Instant>,
}

/// Starts an empty log: one writer, and a reader that may be cloned freely.
#[must_use]
pub fn open(settings: &LogSettings) -> (LogWriter, LogReader) {
    let shared = Arc::new(Shared::new());
    let (published, progress) = watch::channel(Progress::default());
    let writer = LogWriter {
        shared: Arc::clone(&shared),
        settings: settings.clone(),
        opened: Instant::now(),
        now: Progress::default(),
        published,
    };
    (writer, LogReader::new(shared, progress))
}

/// The one writer of a log. Dropping it closes the log.
#[derive(Debug)]
pub struct LogWriter {
    shared: Arc<Shared>,
    settings: LogSettings,
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
        let kept = if self.now.closed { 0 } else { self.keep(stream, bytes) };
        self.now.last_output = Some(Instant::now());
        if kept < bytes.len() {
            let lost = (bytes.len() - kept) as u64;
            self.shared.lock().gaps.note(self.now.total_bytes, lost);
            self.now.dropped_bytes += lost;
        }
        // Last: a reader that sees this progress can read all bytes that it speaks of.
        self.published.send_replace(self.now);
        self.now
    }

    /// Says that no byte will follow. Dropping the writer does the same.
    pub fn close(&mut self) {
        if self.now.closed {
            return;
        }
        let mut inner = self.shared.lock();
        inner.index.shrink();
        if let Store::Memory(memory) = &mut inner.store {
            memory.shrink_to_fit();
        }
        drop(inner);
        self.now.closed = true;
        self.published.send_replace(self.now);
    }

    /// Keeps as many of the bytes as possible, from the first on, and says how many.
    fn keep(&mut self, stream: Stream, bytes: &[u8]) -> usize {
        let mut kept = 0;
        // In blocks, so that one huge write cannot add more runs than memory may hold.
        for block in bytes.chunks(WRITE_BYTES) {
            let taken = self.keep_block(stream, block);
            kept += taken;
            if taken < block.len() {
                break;
            }
        }
        kept
    }

    fn keep_block(&mut self, stream: Stream, block: &[u8]) -> usize {
        // Without room for their runs, bytes could not be told apart by stream or found by line.
        if self.move_runs().is_err() {
            return 0;
        }
        let taken = self.store(block);
        self.note(stream, &block[..taken]);
        taken
    }

    /// Moves runs from memory to their file when there are too many.
    fn move_runs(&self) -> io::Result<()> {
        let (stored, runs) = {
            let inner = self.shared.lock();
            let Some(overdue) = inner.index.overdue() else { return Ok(()) };
            (inner.index.stored().clone(), overdue.to_vec())
        };
        let stored = stored.append(&runs, || nameless_file(&self.settings.spill_dir))?;
        self.shared.lock().index.moved(runs.len(), stored);
        Ok(())
    }

    /// Puts the bytes into the store and says how many it took.
    fn store(&self, bytes: &[u8]) -> usize {
        let limit = self.settings.memory_bytes;
        let file = {
            let mut inner = self.shared.lock();
            match &mut inner.store {
                Store::Memory(memory) if memory.len() + bytes.len() <= limit => {
                    push_bounded(memory, bytes, limit);
                    return bytes.len();
                }
                Store::Memory(_) => None,
                Store::Spilled(file) => Some(Arc::clone(file)),
            }
        };
        match file {
            Some(file) => write_prefix(&file, bytes, self.now.total_bytes),
            None => self.spill(bytes),
        }
    }

    /// Moves the memory to a file and adds the bytes there. Without a file, memory takes what
    /// it still may.
    fn spill(&self, bytes: &[u8]) -> usize {
        let file = self.spill_file();
        let mut inner = self.shared.lock();
        let Store::Memory(memory) = &mut inner.store else { return 0 };
        match file {
            Ok(file) => {
                let file = Arc::new(file);
                inner.store = Store::Spilled(Arc::clone(&file));
                drop(inner);
                write_prefix(&file, bytes, self.now.total_bytes)
            }
            Err(_) => {
                let room = self.settings.memory_bytes - memory.len();
                push_bounded(memory, &bytes[..room], self.settings.memory_bytes);
                room
            }
        }
    }

    /// A file that holds all that memory holds.
    fn spill_file(&self) -> io::Result<File> {
        // A copy, so that readers need not wait for the disk. Nobody else adds to it meanwhile.
        let bytes = match &self.shared.lock().store {
            Store::Memory(memory) => memory.clone(),
            Store::Spilled(_) => Vec::new(),
        };
        let file = nameless_file(&self.settings.spill_dir)?;
        file.write_all_at(&bytes, 0)?;
        Ok(file)
    }

    /// Adds bytes that the store has taken to the index and to the progress.
    fn note(&mut self, stream: Stream, mut bytes: &[u8]) {
        let time = self.opened.elapsed().as_micros() as u64;
        let mut inner = self.shared.lock();
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
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.close();
    }
}
