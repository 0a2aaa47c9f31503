//! Frames that were decoded lately, of all compressed logs together, in bounded memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What all frames in it may take: enough for a dozen readers that page through logs.
const CACHE_BYTES: usize = 2 * 1024 * 1024;

/// One frame of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameKey {
    /// The log's number in this cache.
    pub(super) log: u64,
    /// Which of its frames.
    pub(super) frame: usize,
}

/// The frames that were used last, so that neighbouring pages decode a frame once.
///
/// Its lock is held for looking and noting only, never while a frame is decoded.
#[derive(Debug, Default)]
pub(super) struct FrameCache {
    frames: Mutex<Frames>,
    last_log: AtomicU64,
}

/// Invariant: `bytes` is the sum of all frames; the one used last is at the back.
#[derive(Debug, Default)]
struct Frames {
    recent: VecDeque<(FrameKey, Arc<Vec<u8>>)>,
    bytes: usize,
}

impl FrameCache {
    /// A number that no other log has here.
    pub(super) fn number_for_log(&self) -> u64 {
        self.last_log.fetch_add(1, Ordering::Relaxed)
    }

    /// The frame, if it is still here.
    pub(super) fn get(&self, key: FrameKey) -> Option<Arc<Vec<u8>>> {
        let mut frames = self.lock();
        let at = frames.recent.iter().rposition(|(known, _)| *known == key)?;
        let found = frames.recent.remove(at)?;
        let bytes = Arc::clone(&found.1);
        frames.recent.push_back(found);
        Some(bytes)
    }

    /// Keeps a frame and lets go of those that were not used for the longest time.
    pub(super) fn put(&self, key: FrameKey, bytes: &Arc<Vec<u8>>) {
        let mut frames = self.lock();
        // Two readers may have decoded it at the same time.
        if frames.recent.iter().any(|(known, _)| *known == key) {
            return;
        }
        frames.bytes += bytes.len();
        frames.recent.push_back((key, Arc::clone(bytes)));
        while frames.bytes > CACHE_BYTES
            && let Some((_, oldest)) = frames.recent.pop_front()
        {
            frames.bytes -= oldest.len();
        }
    }

    /// A panic elsewhere leaves whole frames behind: a poisoned lock is taken as it is.
    fn lock(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn key(frame: usize) -> FrameKey {
        FrameKey { log: 1, frame }
    }

    #[test]
    fn the_frame_that_was_not_used_for_the_longest_time_goes_first() {
        let cache = FrameCache::default();
        let frame = Arc::new(vec![7; MIB]);
        for number in 0..CACHE_BYTES / MIB {
            cache.put(key(number), &frame);
        }
        assert!(cache.get(key(0)).is_some());
        cache.put(key(100), &frame);
        assert!(cache.get(key(0)).is_some() && cache.get(key(100)).is_some());
        assert!(cache.get(key(1)).is_none());
        assert!(cache.get(FrameKey { log: 2, frame: 0 }).is_none());
    }

    #[test]
    fn it_never_holds_more_than_its_bound_nor_a_frame_twice() {
        let cache = FrameCache::default();
        for number in 0..100 {
            cache.put(key(number % 50), &Arc::new(vec![7; MIB / 3]));
            let frames = cache.lock();
            let sum: usize = frames.recent.iter().map(|(_, bytes)| bytes.len()).sum();
            assert!(sum == frames.bytes && sum <= CACHE_BYTES, "{sum}");
        }
    }
}
