//! The removal of cgroups, which is possible only after the last process has left.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Removes cgroups in the background while processes leave them. A clone is the same reaper.
#[derive(Debug, Clone, Default)]
pub(crate) struct CgroupReaper {
    pending: Arc<Mutex<PendingCgroups>>,
}

#[derive(Debug, Default)]
struct PendingCgroups {
    dirs: Vec<PathBuf>,
    /// `true` while a thread works on them.
    has_worker: bool,
}

impl CgroupReaper {
    /// Removes a cgroup with all below it: at once, or in the background while processes leave it.
    pub(crate) fn remove(&self, dir: PathBuf) {
        if try_remove_tree(&dir) {
            return;
        }
        let mut pending = self.lock_pending();
        pending.dirs.push(dir);
        if !pending.has_worker {
            let reaper = self.clone();
            let work = move || reaper.remove_pending();
            let thread = thread::Builder::new().name("cgroup-reaper".to_owned()).spawn(work);
            // Without a thread the next removal tries again.
            pending.has_worker = thread.is_ok();
        }
    }

    fn remove_pending(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
            let mut pending = self.lock_pending();
            pending.dirs.retain(|dir| !try_remove_tree(dir));
            if pending.dirs.is_empty() {
                pending.has_worker = false;
                return;
            }
        }
    }

    fn lock_pending(&self) -> MutexGuard<'_, PendingCgroups> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tries once to remove a cgroup with all below it. Returns `true` if it no longer exists.
pub(crate) fn try_remove_tree(dir: &Path) -> bool {
    if try_remove(dir) {
        return true;
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            try_remove_tree(&entry.path());
        }
    }
    try_remove(dir)
}

fn try_remove(dir: &Path) -> bool {
    match fs::remove_dir(dir) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_cgroup_that_is_in_use_is_removed_later() {
        let dir = std::env::temp_dir().join(format!("cgroup-reaper-{}", std::process::id()));
        fs::create_dir_all(dir.join("below")).unwrap();
        fs::write(dir.join("below/process"), "").unwrap();
        CgroupReaper::default().remove(dir.clone());
        assert!(dir.join("below").exists(), "a process is in it");
        fs::remove_file(dir.join("below/process")).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while dir.exists() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!dir.exists());
    }
}
