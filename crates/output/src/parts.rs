//! The parts of one log: all in one, or a head and the last parts of what came after it.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::watch;

use super::gap::{Gaps, Noted};
use super::kept::Kept;
use super::log::Progress;
use super::quota::Allowance;
use super::shared::{Mark, Shared, Stretch};
use super::spill_dir::SpillDir;
use super::view::Charset;

/// Parts behind the head that stay: those before the newest are full, and together they hold
/// at least the wanted tail.
const TAIL_PARTS: usize = 3;

/// How much of a log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// All of it.
    All,
    /// At least the first and the last half of so many bytes; at most a quarter more than these.
    Ends(u64),
}

impl Keep {
    /// Where the part that starts at this offset ends.
    pub(super) fn end_of_part(self, start: u64) -> u64 {
        match self {
            Self::All => u64::MAX,
            Self::Ends(bytes) => {
                let head = bytes.div_ceil(2);
                let tail = head.div_ceil(TAIL_PARTS as u64 - 1);
                let length = if start == 0 { head } else { tail };
                start.saturating_add(length.max(1))
            }
        }
    }
}

/// What the writer and all readers of one log share.
///
/// A part that leaves is dropped whole, its file with it, and nothing is ever overwritten: whoever
/// still reads it reads what was written.
#[derive(Debug)]
pub(super) struct Parts {
    inner: Mutex<Inner>,
    spill_dir: SpillDir,
    /// Its character set, from when it can no longer change.
    charset: OnceLock<Charset>,
    allowance: Allowance,
}

/// Invariant: the parts of `tail` lie one behind the other, and end where the log does.
#[derive(Debug)]
struct Inner {
    head: Arc<Shared>,
    tail: VecDeque<Arc<Shared>>,
    gaps: Gaps,
}

impl Parts {
    /// A log that has only its first part.
    pub(super) fn new(head: Arc<Shared>, allowance: Allowance, spill_dir: SpillDir) -> Self {
        let inner = Inner { head, tail: VecDeque::new(), gaps: Gaps::default() };
        Self { inner: Mutex::new(inner), spill_dir, charset: OnceLock::new(), allowance }
    }

    /// The bounds of the log's tenant.
    pub(super) const fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    /// The place of those parts that are not in memory.
    pub(super) const fn spill_dir(&self) -> &SpillDir {
        &self.spill_dir
    }

    /// `true` if no file has to be read for any of it.
    pub(super) fn are_in_memory(&self) -> bool {
        self.lock().each().all(|part| part.is_in_memory())
    }

    /// The character set, once it was settled.
    pub(super) fn charset(&self) -> Option<Charset> {
        self.charset.get().copied()
    }

    /// The character set will not change any more.
    pub(super) fn settle_charset(&self, charset: Charset) {
        self.charset.get_or_init(|| charset);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a part at the end. Gives the one that leaves for it, if one does.
    pub(super) fn push(&self, part: Arc<Shared>) -> Option<Arc<Shared>> {
        let mut inner = self.lock();
        inner.tail.push_back(part);
        (inner.tail.len() > TAIL_PARTS).then(|| inner.tail.pop_front()).flatten()
    }

    /// Notes that bytes were lost right before this place.
    pub(super) fn note_lost(&self, at: Mark, bytes: u64) -> Noted {
        self.lock().gaps.note(at, bytes)
    }

    /// How many bytes were lost before any of these offsets.
    pub(super) fn lost(&self, offsets: RangeInclusive<u64>) -> u64 {
        self.lock().gaps.within(offsets)
    }

    /// What can be read now, and goes on being readable for as long as this is held.
    pub(super) fn kept(&self, progress: &watch::Receiver<Progress>) -> Kept {
        let inner = self.lock();
        // Under the lock: what was published when a part left or came is in the other parts.
        let mut progress = *progress.borrow();
        let parts = inner.all();
        let gaps = inner.gaps.clone();
        drop(inner);
        for part in &parts {
            // A file that cannot be asked says so when it is read.
            part.look_for_cut().ok();
        }
        progress.cut_bytes = parts.iter().map(|part| part.cut_bytes()).sum();
        let stretches = parts.iter().flat_map(|part| part.stretches(progress.total_bytes));
        Kept { stretches: split_at_gaps(stretches, &gaps), progress }
    }

    /// The progress of the log, with what is known to be cut off.
    pub(super) fn progress(&self, published: &watch::Receiver<Progress>) -> Progress {
        Progress { cut_bytes: self.cut_bytes(), ..*published.borrow() }
    }

    /// How much is known to be cut off.
    fn cut_bytes(&self) -> u64 {
        self.lock().each().map(|part| part.cut_bytes()).sum()
    }

    /// All of them, in order.
    pub(super) fn all(&self) -> Vec<Arc<Shared>> {
        self.lock().all()
    }
}

impl Inner {
    fn each(&self) -> impl Iterator<Item = &Arc<Shared>> {
        std::iter::once(&self.head).chain(&self.tail)
    }

    fn all(&self) -> Vec<Arc<Shared>> {
        self.each().cloned().collect()
    }
}

/// A stretch ends where bytes were lost.
fn split_at_gaps(stretches: impl Iterator<Item = Stretch>, gaps: &Gaps) -> Vec<Stretch> {
    let mut places = gaps.places().peekable();
    let mut split = Vec::new();
    for mut stretch in stretches {
        while let Some(place) = places.next_if(|place| place.offset < stretch.range.end) {
            // One in a hole, or in what has left, parts nothing.
            if stretch.range.start <= place.offset {
                split.extend(stretch.split_off_before(place));
            }
        }
        split.push(stretch);
    }
    split
}
