//! The memory that reading takes: a budget that queries, searches, digests and pages share, and two
//! bounded caches, of decoded frames and of logs that were closed recently.
//!
//! Each read reserves the memory that it may take before it begins, and waits if that is not free.
//! Small reads have a share of their own, so that a page never waits behind queries on large JSON.
//! Half of that share is for logs in memory, so that they never wait behind reads of a disk that
//! does not answer. Of each tenant only one large read waits in the common queue, so that a
//! thousand queries of one tenant do not delay the query of another.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::counters::Counters;

/// Memory is reserved in units of this many bytes.
const UNIT: usize = 1024;
/// The share of all memory that is for small reads is one in this many.
const SMALL_SHARE: usize = 8;
/// A read is small if it takes at most one in this many of all memory.
const SMALL_READ: usize = 64;
/// Free memory goes back to the system after reads that took this much together.
const TRIM_FROM: usize = 8 * 1024 * 1024;
/// The pause between the end of such a read and the release of memory. It bounds how often memory
/// is released.
const TRIM_PAUSE: Duration = Duration::from_millis(100);
/// The pauses before memory is released again: a reply is freed when its client has taken it, later
/// than the end of the read.
const LATER_TRIM_PAUSES: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60)];

/// The storage from which a log is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadFrom {
    /// Memory alone: such a read is soon over.
    Memory,
    /// The disk, which may not answer.
    Disk,
}

/// The memory budget for all reads of a server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ReadMemory(Arc<Pools>);

#[derive(Debug)]
struct Pools {
    small_from_memory: Arc<Semaphore>,
    small_from_disk: Arc<Semaphore>,
    large: Arc<Semaphore>,
    /// The units of each of the two pools for small reads.
    small_units: u32,
    large_units: u32,
    /// A read that takes more units than this is not small.
    small_read: u32,
    /// The bytes of the reads that have ended since memory was last given back to the system.
    ended: watch::Sender<usize>,
    counters: Arc<Counters>,
}

/// No memory was free for a read while its caller could wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "other queries and searches use all memory that there is for them ({} MiB, output.read_memory); nothing was read: try again in a few seconds, or ask for fewer at one time",
    .limit / (1024 * 1024)
)]
pub struct ReadBusy {
    limit: usize,
}

impl ReadBusy {
    /// The time after which another attempt is worth it.
    pub const RETRY_AFTER: Duration = Duration::from_secs(5);

    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(self) -> &'static str {
        "memory_busy"
    }
}

impl ReadMemory {
    /// Creates a budget of this many bytes for all reads.
    pub(crate) fn new(bytes: usize, counters: Arc<Counters>) -> Self {
        let units = units(bytes).max(2);
        let small_units = (units / SMALL_SHARE as u32 / 2).max(1);
        let large_units = units.saturating_sub(2 * small_units).max(1);
        Self(Arc::new(Pools {
            small_from_memory: Arc::new(Semaphore::new(small_units as usize)),
            small_from_disk: Arc::new(Semaphore::new(small_units as usize)),
            large: Arc::new(Semaphore::new(large_units as usize)),
            small_units,
            large_units,
            small_read: units / SMALL_READ as u32,
            ended: watch::Sender::new(0),
            counters,
        }))
    }

    /// Runs forever: calls `trim` after large reads, to give free memory back to the system. No
    /// read waits for it.
    pub async fn trim_after_reads(self, trim: fn()) {
        let mut ended = self.0.ended.subscribe();
        let is_much = |bytes: &usize| *bytes >= TRIM_FROM;
        // Does not fail, because `self` holds the sender.
        while ended.wait_for(is_much).await.is_ok() {
            sleep(TRIM_PAUSE).await;
            self.trim_now(trim).await;
            for pause in LATER_TRIM_PAUSES {
                if timeout(pause, ended.wait_for(is_much)).await.is_ok() {
                    break;
                }
                self.trim_now(trim).await;
            }
        }
    }

    async fn trim_now(&self, trim: fn()) {
        self.0.ended.send_replace(0);
        // Takes milliseconds. A panic in `trim` is logged elsewhere.
        spawn_blocking(trim).await.ok();
    }

    /// Reserves `bytes` for a read, or the whole pool if it is smaller, once they are free.
    /// `tenant_queue` is the queue of the tenant's large reads. Cancel-safe: nothing is reserved
    /// for a caller that is gone.
    pub(crate) async fn reserve(
        &self,
        from: ReadFrom,
        tenant_queue: &Semaphore,
        bytes: usize,
        wait: Duration,
    ) -> Result<ReadPermit, ReadBusy> {
        let wanted = units(bytes);
        let (pool, most, queue) = if wanted <= self.0.small_read {
            let pool = match from {
                ReadFrom::Memory => &self.0.small_from_memory,
                ReadFrom::Disk => &self.0.small_from_disk,
            };
            (pool, self.0.small_units, None)
        } else {
            (&self.0.large, self.0.large_units, Some(tenant_queue))
        };
        let units = wanted.clamp(1, most);
        let reserved = async {
            // Held by the first read of a tenant, until there is memory for it.
            let _first = match queue {
                Some(queue) => Some(queue.acquire().await.ok()?),
                None => None,
            };
            Arc::clone(pool).acquire_many_owned(units).await.ok()
        };
        let permit = timeout(wait, reserved).await.ok().flatten().ok_or_else(|| self.busy())?;
        let bytes = units as usize * UNIT;
        self.0.counters.add_read_memory(bytes as u64);
        Ok(ReadPermit { bytes, memory: self.clone(), _permit: permit })
    }

    fn busy(&self) -> ReadBusy {
        self.0.counters.add_refused_read();
        ReadBusy { limit: (2 * self.0.small_units + self.0.large_units) as usize * UNIT }
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

/// Memory that is reserved for a read. Hold the permit for as long as the bytes that were read;
/// dropping it releases the memory to the next read.
#[must_use = "dropping the permit gives the memory to others"]
#[derive(Debug)]
pub struct ReadPermit {
    bytes: usize,
    memory: ReadMemory,
    _permit: OwnedSemaphorePermit,
}

impl ReadPermit {
    /// The reserved bytes: fewer than requested if the pool is smaller.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for ReadPermit {
    fn drop(&mut self) {
        self.memory.0.counters.remove_read_memory(self.bytes as u64);
        // Small reads wake nobody.
        self.memory.0.ended.send_if_modified(|bytes| {
            *bytes = bytes.saturating_add(self.bytes);
            *bytes >= TRIM_FROM
        });
    }
}

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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use super::*;

    const MIB: usize = 1024 * 1024;
    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    fn memory() -> (ReadMemory, Semaphore) {
        (ReadMemory::new(256 * MIB, Arc::default()), Semaphore::new(1))
    }

    #[tokio::test]
    async fn a_read_waits_until_there_is_memory_for_it() {
        let (memory, line) = memory();
        let first = memory.reserve(ReadFrom::Disk, &line, 200 * MIB, LONG).await.unwrap();
        let refused = memory.reserve(ReadFrom::Disk, &line, 100 * MIB, SHORT).await.unwrap_err();
        assert_eq!(refused.code(), "memory_busy");
        assert!(refused.to_string().contains("256 MiB"), "{refused}");
        let second = memory.reserve(ReadFrom::Disk, &line, 100 * MIB, LONG);
        let (second, ()) = tokio::join!(second, async { drop(first) });
        assert_eq!(second.unwrap().bytes(), 100 * MIB);
    }

    #[tokio::test]
    async fn a_read_gets_at_most_the_whole_pool() {
        let (memory, line) = memory();
        let all = memory.reserve(ReadFrom::Disk, &line, usize::MAX, LONG).await.unwrap();
        assert_eq!(all.bytes(), 224 * MIB);
    }

    #[tokio::test]
    async fn small_reads_do_not_wait_for_large_ones() {
        let (memory, line) = memory();
        let _all = memory.reserve(ReadFrom::Disk, &line, usize::MAX, LONG).await.unwrap();
        let waiting = memory.reserve(ReadFrom::Disk, &line, usize::MAX, LONG);
        tokio::select! {
            biased;
            _ = waiting => panic!("all memory is in use"),
            small = memory.reserve(ReadFrom::Disk, &line, MIB, LONG) => assert_eq!(small.unwrap().bytes(), MIB),
        }
    }

    #[tokio::test]
    async fn small_reads_of_memory_do_not_wait_for_those_of_the_disk() {
        let (memory, line) = memory();
        let mut stuck = Vec::new();
        while let Ok(permit) = memory.reserve(ReadFrom::Disk, &line, 4 * MIB, SHORT).await {
            stuck.push(permit);
        }
        assert_eq!(stuck.len(), 4);
        let small = memory.reserve(ReadFrom::Memory, &line, 4 * MIB, LONG).await;
        assert_eq!(small.unwrap().bytes(), 4 * MIB);
    }

    #[tokio::test]
    async fn memory_is_released_after_large_reads_and_again_later() {
        static TRIMS: AtomicUsize = AtomicUsize::new(0);
        let deadline = Instant::now() + LONG;
        let trimmed = async |times| {
            while TRIMS.load(Ordering::Relaxed) < times {
                assert!(Instant::now() < deadline, "memory goes back");
                sleep(SHORT).await;
            }
        };
        let (memory, line) = memory();
        let trim = || {
            TRIMS.fetch_add(1, Ordering::Relaxed);
        };
        let trimming = tokio::spawn(memory.clone().trim_after_reads(trim));
        let woken = memory.0.ended.subscribe();
        let read = async |bytes| {
            drop(memory.reserve(ReadFrom::Disk, &line, bytes, LONG).await.unwrap());
        };
        read(TRIM_FROM / 2).await;
        assert!(!woken.has_changed().unwrap(), "little was read");
        read(TRIM_FROM / 2).await;
        assert!(woken.has_changed().unwrap(), "reads count together");
        trimmed(2).await;
        read(100 * MIB).await;
        trimmed(4).await;
        trimming.abort();
    }

    #[tokio::test]
    async fn a_tenant_with_many_reads_does_not_delay_another() {
        let (memory, other) = memory();
        let busy = Arc::new(Semaphore::new(1));
        let held = memory.reserve(ReadFrom::Disk, &busy, usize::MAX, LONG).await.unwrap();
        let (ended, mut endings) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..20 {
            let memory = memory.clone();
            let busy = Arc::clone(&busy);
            let ended = ended.clone();
            tokio::spawn(async move {
                let permit = memory.reserve(ReadFrom::Disk, &busy, usize::MAX, LONG).await;
                ended.send("busy").unwrap();
                drop(permit);
            });
        }
        while busy.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let late = async {
            let permit = memory.reserve(ReadFrom::Disk, &other, usize::MAX, LONG).await;
            ended.send("other").unwrap();
            drop(permit);
        };
        tokio::join!(late, async {
            tokio::task::yield_now().await;
            drop(held);
        });
        let mut order = Vec::new();
        while order.len() < 21 {
            order.push(endings.recv().await.unwrap());
        }
        let place = order.iter().position(|who| *who == "other").unwrap();
        assert!(place <= 2, "{order:?}");
    }

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
