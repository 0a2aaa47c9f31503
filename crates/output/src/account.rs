//! What is held of one cap, and whether it is worth to wait for more room.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::quota::Answer;

/// What shall be left of a cap: more than what is read of all pipes of a job before the next look.
const SPARE_SHARE: u64 = 10;
const SPARE_BYTES: u64 = 512 * 1024;
/// How long nobody waits after a wish that nothing could be freed for.
const NO_HOPE: Duration = Duration::from_millis(50);

/// One counter and its limit.
#[derive(Debug)]
pub(super) struct Account {
    limit: AtomicU64,
    used: AtomicU64,
    /// When nothing could be freed for it, if that is how its last wish ended.
    fruitless: Mutex<Option<Instant>>,
    /// Held by the read that is the next of this tenant to get memory.
    read_line: Semaphore,
}

/// What is left of a cap once it counts as reached, at the least.
pub(super) const fn least_spare(limit: u64) -> u64 {
    if limit / 4 < SPARE_BYTES { limit / 4 } else { SPARE_BYTES }
}

impl Account {
    pub(super) const fn new(limit: u64) -> Self {
        let fruitless = Mutex::new(None);
        let read_line = Semaphore::const_new(1);
        Self { limit: AtomicU64::new(limit), used: AtomicU64::new(0), fruitless, read_line }
    }

    pub(super) const fn read_line(&self) -> &Semaphore {
        &self.read_line
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Remembers what came of a wish for room, if it was its own.
    pub(super) fn answered(&self, answer: Answer) {
        let mut fruitless = self.fruitless.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Answer::Room => *fruitless = None,
            Answer::NoRoom if self.is_short_after(0) => *fruitless = Some(Instant::now()),
            Answer::NoRoom => {}
        }
    }

    /// Whether room is short, and something may be freed.
    pub(super) fn wants_room(&self) -> bool {
        let leaves_hope = || {
            let fruitless = self.fruitless.lock().unwrap_or_else(PoisonError::into_inner);
            fruitless.is_none_or(|at| at.elapsed() > NO_HOPE)
        };
        self.is_short_after(0) && leaves_hope()
    }

    /// Takes all of it or nothing.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let within = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.limit());
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether less is left than shall be, or would be after so many bytes more.
    pub(super) fn is_short_after(&self, bytes: u64) -> bool {
        self.used().saturating_add(bytes) > self.mark()
    }

    /// What is missing to what shall be left.
    pub(super) fn shortage(&self) -> Option<u64> {
        self.used().checked_sub(self.mark()).filter(|bytes| *bytes > 0)
    }

    /// Above this room is short: a tenth shall be left; of a small cap a quarter at the most.
    fn mark(&self) -> u64 {
        let limit = self.limit();
        limit - (limit / SPARE_SHARE).max(least_spare(limit))
    }
}
