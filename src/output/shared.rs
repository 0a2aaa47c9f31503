//! What the writer and all readers of one log share: the store and the index, behind one lock.

use std::io;
use std::ops::{Range, RangeInclusive};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::gap::Gaps;
use super::index::{Index, Numbered, Run};
use super::spill::Store;

/// The lock is held for copies in memory only, never during file access: a slow disk delays
/// its writer, not the readers.
#[derive(Debug)]
pub(super) struct Shared {
    inner: Mutex<Inner>,
}

/// Invariant: every byte that the index speaks of is in the store.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) store: Store,
    pub(super) index: Index,
    pub(super) gaps: Gaps,
}

impl Shared {
    /// An empty log.
    pub(super) fn new() -> Self {
        let inner = Inner {
            store: Store::Memory(Vec::new()),
            index: Index::default(),
            gaps: Gaps::default(),
        };
        Self { inner: Mutex::new(inner) }
    }

    /// A panic elsewhere cannot break the invariant, since bytes are added before their run:
    /// a poisoned lock is taken as it is.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills `buffer` with the bytes at `offset`, which must have been published.
    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        let file = match &self.lock().store {
            Store::Memory(memory) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let bytes = memory.get(start..).and_then(|rest| rest.get(..buffer.len()));
                buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
                return Ok(());
            }
            Store::Spilled(file) => Arc::clone(file),
        };
        file.read_exact_at(buffer, offset)
    }

    /// The bytes of this range, which must have been published.
    pub(super) fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
        self.read_at(range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// The last run for which `holds` is true; it must hold for a prefix of all runs.
    pub(super) fn find_run(&self, holds: impl Fn(&Run) -> bool) -> io::Result<Option<Numbered>> {
        let stored = {
            let inner = self.lock();
            if let Some(found) = inner.index.find_recent(&holds) {
                return Ok(Some(found));
            }
            inner.index.stored().clone()
        };
        stored.find(holds)
    }

    /// The runs with these numbers, as far as there are such.
    pub(super) fn runs(&self, numbers: Range<u64>) -> io::Result<Vec<Run>> {
        // Both under one lock: a run that moves to the file in between would be missed.
        let (stored, recent) = {
            let inner = self.lock();
            (inner.index.stored().clone(), inner.index.read_recent(numbers.clone()).to_vec())
        };
        let mut runs = stored.read(numbers)?;
        runs.extend(recent);
        Ok(runs)
    }

    /// How many bytes were lost before any of these offsets.
    pub(super) fn lost(&self, offsets: RangeInclusive<u64>) -> u64 {
        self.lock().gaps.within(offsets)
    }
}
