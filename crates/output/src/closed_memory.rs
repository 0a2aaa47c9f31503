//! The memory of durable logs that were closed recently.

use std::collections::VecDeque;
use std::fmt;

/// The memory of closed durable logs, all together.
const CLOSED_BYTES: usize = 4 * 1024 * 1024;
/// The memory of an entry for a closed durable log, beside its bytes and index.
const ENTRY_BYTES: usize = 256;

/// Memory that can be released, because files hold the same. Invariant: `bytes` is the sum of all
/// entries, and the newest entry is at the back.
#[derive(Default)]
pub(crate) struct ClosedMemory {
    recent: VecDeque<(usize, ReleaseMemory)>,
    bytes: usize,
}

/// Releases memory of one log.
pub(crate) type ReleaseMemory = Box<dyn FnOnce() + Send>;

impl fmt::Debug for ClosedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClosedMemory").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl ClosedMemory {
    /// Adds memory of this size. Returns the older entries that are to be released for it.
    pub(crate) fn add(&mut self, bytes: usize, release: ReleaseMemory) -> Vec<ReleaseMemory> {
        let bytes = bytes + ENTRY_BYTES;
        self.bytes += bytes;
        self.recent.push_back((bytes, release));
        let mut released = Vec::new();
        while self.bytes > CLOSED_BYTES
            && let Some((bytes, oldest)) = self.recent.pop_front()
        {
            self.bytes -= bytes;
            released.push(oldest);
        }
        released
    }
}
