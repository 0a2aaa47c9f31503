//! The disk that output is kept on.

use std::path::Path;

/// How large a disk is, and how much of it is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DiskRoom {
    /// Bytes that this process may still write.
    pub(super) free: u64,
    /// Bytes in all.
    pub(super) size: u64,
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
