//! Compresses logs that are closed: in the background, one at a time, in nobody's way.

use std::io;
use std::sync::{Arc, Weak};
use std::thread;

use tokio::sync::{Semaphore, oneshot};

use super::frame_cache::FrameCache;
use super::reader::LogReader;
use super::shared::Shared;
use super::spill_dir::SpillDir;
use crate::counters::SpillOperation;

/// How far the compressing thread stands back behind everything else (as `nice` counts).
const NICENESS: i32 = 10;

/// Compresses closed logs. A cheap clone; all clones take turns.
#[derive(Debug, Clone)]
pub struct Packer {
    shop: Arc<Shop>,
}

#[derive(Debug)]
struct Shop {
    from_bytes: u64,
    dir: SpillDir,
    cache: Arc<FrameCache>,
    /// One permit: one log at a time.
    turn: Semaphore,
}

/// A log that is worth compressing. It holds nothing of the log: who frees it meanwhile frees it.
#[derive(Debug)]
pub struct Packing {
    shop: Arc<Shop>,
    parts: Vec<Weak<Shared>>,
}

impl Packer {
    /// Compresses logs of so many bytes and more, into files in this directory.
    #[must_use]
    pub fn new(from_bytes: u64, dir: SpillDir) -> Self {
        let (cache, turn) = (Arc::default(), Semaphore::new(1));
        Self { shop: Arc::new(Shop { from_bytes, dir, cache, turn }) }
    }

    /// What there is to do for this log: nothing while it is open, small or in memory.
    #[must_use]
    pub fn consider(&self, log: &LogReader) -> Option<Packing> {
        let progress = log.progress();
        let is_large = progress.closed && progress.total_bytes >= self.shop.from_bytes;
        let mut parts = log.parts().all();
        parts.retain(|part| is_large && part.spilled().is_some());
        (!parts.is_empty()).then(|| Packing {
            shop: Arc::clone(&self.shop),
            parts: parts.iter().map(Arc::downgrade).collect(),
        })
    }
}

impl Packing {
    /// Waits for its turn and compresses. Readers notice nothing, before, during and after.
    ///
    /// Returns once it is over, whatever came of it: where it fails, or would not save room,
    /// the log stays as it was. Nothing waits for it at shutdown.
    pub async fn run(self) {
        let Self { shop, parts } = self;
        // The semaphore is never closed.
        let Ok(_turn) = shop.turn.acquire().await else { return };
        let (over, is_over) = oneshot::channel::<()>();
        let work = Arc::clone(&shop);
        // Not a blocking thread of the runtime: its shutdown would wait for that.
        let thread = thread::Builder::new().name("packer".to_owned()).spawn(move || {
            parts.iter().for_each(|part| work.pack(part));
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

impl Shop {
    fn pack(&self, part: &Weak<Shared>) {
        // Of this thread alone, on Linux. Without it the work is only less polite.
        rustix::process::setpriority_process(None, NICENESS).ok();
        let Some(raw) = part.upgrade().and_then(|shared| shared.spilled()) else { return };
        let is_wanted = || part.strong_count() > 0;
        let packed = self
            .dir
            .create_file()
            .and_then(|file| {
                let packed = raw.pack(file, &self.cache, is_wanted);
                self.dir.counters().checked(SpillOperation::Compress, packed)
            })
            .unwrap_or_else(|error| {
                warn_not_compressed(&error);
                None
            });
        if let (Some(packed), Some(shared)) = (packed, part.upgrade()) {
            let stored = packed.stored_bytes();
            shared.replace_spilled(raw.bytes, packed);
            self.dir.counters().add_compressed(raw.bytes, stored);
        }
    }
}
