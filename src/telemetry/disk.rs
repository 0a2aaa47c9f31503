//! The disk that output is kept on.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The time that a disk gets to tell its room.
const LOOK_TIME: Duration = Duration::from_secs(1);

/// How large a disk is, and how much of it is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DiskRoom {
    /// Bytes that this process may still write.
    pub(super) free: u64,
    /// Bytes in all.
    pub(super) size: u64,
}

/// Asks one disk for its room, for each scrape. A disk that does not answer holds one thread and
/// delays a scrape by a second at most.
#[derive(Debug, Default)]
pub(super) struct DiskLook {
    is_under_way: Arc<AtomicBool>,
}

impl DiskLook {
    /// Returns the room on the disk of this directory; `None` where it is not told soon, or an
    /// earlier look still waits.
    pub(super) async fn room_at(&self, dir: &Arc<Path>) -> Option<DiskRoom> {
        if self.is_under_way.swap(true, Ordering::AcqRel) {
            return None;
        }
        let (dir, is_under_way) = (Arc::clone(dir), Arc::clone(&self.is_under_way));
        let look = move || {
            let room = room_at(&dir);
            is_under_way.store(false, Ordering::Release);
            room
        };
        timeout(LOOK_TIME, spawn_blocking(look)).await.ok()?.ok()?
    }
}

/// The disk that this directory is on; `None` where the system does not tell.
pub(super) fn room_at(dir: &Path) -> Option<DiskRoom> {
    let told = rustix::fs::statvfs(dir).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(told.f_frsize);
    Some(DiskRoom { free: bytes(told.f_bavail), size: bytes(told.f_blocks) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_room_and_one_that_is_not_there_tells_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let room = room_at(dir.path()).unwrap();
        assert!(room.size > 0 && room.free <= room.size, "{room:?}");
        assert_eq!(room_at(&dir.path().join("missing")), None);
    }
}
