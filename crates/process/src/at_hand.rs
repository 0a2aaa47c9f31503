//! Directories on disks of this host: to open one never takes long. One that is on the network may take
//! for ever.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use rustix::fs::fstatfs;

/// How many are remembered.
const MOST: usize = 256;

static KNOWN: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

/// Whether this path was found to be such a directory.
pub(super) fn is_known(path: &Path) -> bool {
    known().contains(path)
}

/// Finds out what an open directory is, and remembers it by its path where it is at hand. It is asked
/// once: what stands under a path seldom moves to another disk.
pub(super) fn note(path: &Path, directory: impl AsFd) {
    if is_known(path)
        || !fstatfs(directory).is_ok_and(|system| is_of_this_host(system.f_type as u64))
    {
        return;
    }
    let mut known = known();
    if known.len() >= MOST {
        known.clear();
    }
    known.insert(path.to_owned());
}

fn known() -> MutexGuard<'static, HashSet<PathBuf>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// By the numbers that file systems have in `statfs`. One that is not here may be one of a network.
const fn is_of_this_host(kind: u64) -> bool {
    const BTRFS: u64 = 0x9123_683e;
    const EXT: u64 = 0xef53;
    const F2FS: u64 = 0xf2f5_2010;
    const OVERLAY: u64 = 0x794c_7630;
    const TMPFS: u64 = 0x0102_1994;
    const XFS: u64 = 0x5846_5342;
    const ZFS: u64 = 0x2fc1_2fc1;
    matches!(kind, BTRFS | EXT | F2FS | OVERLAY | TMPFS | XFS | ZFS)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn a_directory_is_known_once_it_was_seen_and_only_on_a_disk_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_known(dir.path()));
        note(dir.path(), File::open(dir.path()).unwrap());
        assert!(is_known(dir.path()));
        let odd = Path::new("/proc");
        note(odd, File::open(odd).unwrap());
        assert!(!is_known(odd));
    }
}
