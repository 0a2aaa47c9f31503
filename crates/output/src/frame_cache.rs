//! Recently decoded frames of compressed logs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes of all frames in the cache: enough for a dozen readers that page through logs.
const CACHE_BYTES: usize = 2 * 1024 * 1024;

/// A part of one compressed log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameKey {
    /// The log's number in this cache.
    pub(crate) log: u64,
    pub(crate) part: CachedPart,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CachedPart {
    /// The bytes of the log in one frame.
    Frame(usize),
    /// The encoded table of the frames.
    Table,
}

/// Recently decoded frames of all compressed logs, in bounded memory, so that neighbouring pages
/// decode a frame once.
///
/// The lock is held for lookups and inserts only, never while a frame is decoded.
#[derive(Debug, Default)]
pub(crate) struct FrameCache {
    frames: Mutex<RecentFrames>,
    last_log: AtomicU64,
}

/// Invariant: `bytes` is the sum of all frames, and the newest frame is at the back.
#[derive(Debug, Default)]
struct RecentFrames {
    recent: VecDeque<(FrameKey, Arc<Vec<u8>>)>,
    bytes: usize,
}

impl FrameCache {
    /// Returns a number that no other log has in this cache.
    pub(crate) fn number_for_log(&self) -> u64 {
        self.last_log.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn get(&self, key: FrameKey) -> Option<Arc<Vec<u8>>> {
        let mut frames = self.lock();
        let at = frames.recent.iter().rposition(|(known, _)| *known == key)?;
        let found = frames.recent.remove(at)?;
        let bytes = Arc::clone(&found.1);
        frames.recent.push_back(found);
        Some(bytes)
    }

    /// Adds a frame and evicts the least recently used ones.
    pub(crate) fn put(&self, key: FrameKey, bytes: &Arc<Vec<u8>>) {
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

    /// A panic elsewhere leaves whole frames behind, so a poisoned lock is used as it is.
    fn lock(&self) -> MutexGuard<'_, RecentFrames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn key(frame: usize) -> FrameKey {
        FrameKey { log: 1, part: CachedPart::Frame(frame) }
    }

    #[test]
    fn the_least_recently_used_frame_is_evicted_first() {
        let cache = FrameCache::default();
        let frame = Arc::new(vec![7; MIB]);
        for number in 0..CACHE_BYTES / MIB {
            cache.put(key(number), &frame);
        }
        assert!(cache.get(key(0)).is_some());
        cache.put(key(100), &frame);
        assert!(cache.get(key(0)).is_some() && cache.get(key(100)).is_some());
        assert!(cache.get(key(1)).is_none());
        assert!(cache.get(FrameKey { log: 2, ..key(0) }).is_none());
        assert!(cache.get(FrameKey { part: CachedPart::Table, ..key(0) }).is_none());
    }

    #[test]
    fn the_cache_never_exceeds_its_limit_nor_holds_a_frame_twice() {
        let cache = FrameCache::default();
        for number in 0..100 {
            cache.put(key(number % 50), &Arc::new(vec![7; MIB / 3]));
            let frames = cache.lock();
            let sum: usize = frames.recent.iter().map(|(_, bytes)| bytes.len()).sum();
            assert!(sum == frames.bytes && sum <= CACHE_BYTES, "{sum}");
        }
    }
}
