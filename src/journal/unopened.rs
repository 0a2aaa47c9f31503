//! A journal that was read, and whose files cannot be written yet.
//!
//! A server that starts on a full or read-only disk knows all jobs from what it has read. Records wait
//! in memory, as they do when a journal cannot be written any more. Once the files can be opened, the
//! writer takes over: it has everything that was read, and writes what waits.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::handle::{Batch, Durability, JournalHealth, JournalSizes, Shared, WriterWork};
use super::replay::Replay;
use super::writer::{Degraded, JournalWriter, RETRY};

/// The directory of a journal, and how it is written.
#[derive(Debug, Clone)]
pub(super) struct JournalPlace {
    pub(super) dir: PathBuf,
    pub(super) durability: Durability,
    pub(super) sizes: JournalSizes,
}

impl JournalPlace {
    pub(super) fn new(dir: &Path, durability: Durability, sizes: JournalSizes) -> Self {
        Self { dir: dir.to_owned(), durability, sizes }
    }
}

/// A journal whose files cannot be opened.
#[derive(Debug)]
pub(super) struct UnopenedJournal {
    place: JournalPlace,
    replay: Replay,
    degraded: Degraded,
    shared: Arc<Shared>,
}

impl UnopenedJournal {
    /// Publishes why the files could not be opened.
    pub(super) fn new(
        place: JournalPlace,
        replay: Replay,
        why: &io::Error,
        shared: Arc<Shared>,
    ) -> Self {
        let journal = Self { place, replay, degraded: Degraded::new(why), shared };
        journal.publish();
        journal
    }

    /// Keeps records until the files can be opened, and returns their writer; `None` if the journal was
    /// closed before.
    pub(super) fn wait(mut self) -> Option<JournalWriter> {
        loop {
            let work = self.shared.queue.wait(Batch::default(), Some(RETRY));
            let is_closed = matches!(work, WriterWork::Closed);
            if let WriterWork::Batch(batch) = work {
                self.degraded.keep(batch, &self.place.sizes, &self.shared.counters);
            }
            if !is_closed && self.degraded.last_attempt.elapsed() < RETRY {
                continue;
            }
            match JournalWriter::open(&self.place, &mut self.replay, Arc::clone(&self.shared)) {
                Ok(writer) => return Some(writer.with_kept(self.degraded)),
                Err(_) if is_closed => return None,
                Err(error) => {
                    self.shared.counters.errors.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    self.degraded.why = error.to_string().into();
                    self.degraded.last_attempt = Instant::now();
                    self.publish();
                }
            }
        }
    }

    fn publish(&self) {
        self.shared.publish(JournalHealth::Degraded { why: Arc::clone(&self.degraded.why) });
    }
}
