//! The descriptors that are free for the start of another process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, getrlimit};

use crate::syscalls;

/// Descriptors that a start leaves free: for connections, and output that moves to disk.
const FILES_KEPT_FREE: u64 = 8;

/// The most descriptors that are open at one time for a start; a running job keeps about five.
const FILES_FOR_START: u64 = 14;

/// `true` if at least as many descriptors are free as every start leaves free.
pub(crate) fn has_files_to_spare() -> bool {
    has_free_files(getrlimit(Resource::Nofile).current, FILES_KEPT_FREE)
}

/// The starts of this process that may still open files. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(crate) struct PendingStarts(Arc<AtomicU64>);

/// The descriptors for one start, which no other start counts as free. Dropped once the start is
/// over.
#[derive(Debug)]
pub struct FileReservation(PendingStarts);

impl PendingStarts {
    /// Reserves the descriptors for one more start; `None` if too few are free.
    pub(crate) fn reserve_files(&self) -> Option<FileReservation> {
        // Read each time: the limit of a running process can be changed.
        let limit = getrlimit(Resource::Nofile).current;
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        let reservation = FileReservation(self.clone());
        let needed = FILES_KEPT_FREE + (before + 1) * FILES_FOR_START;
        has_free_files(limit, needed).then_some(reservation)
    }
}

impl Drop for FileReservation {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// `true` if at least so many descriptors below the limit are free.
///
/// Needs no descriptor itself. The kernel gives the lowest free number, so the search from the top
/// is short unless few are free.
fn has_free_files(limit: Option<u64>, needed: u64) -> bool {
    let limit = limit.and_then(|limit| i32::try_from(limit).ok()).unwrap_or(i32::MAX);
    // The search would look at every number.
    if i64::from(limit) < i64::try_from(needed).unwrap_or(i64::MAX) {
        return false;
    }
    let free = (0..limit).rev().filter(|number| !syscalls::is_open(*number));
    let needed = usize::try_from(needed).unwrap_or(usize::MAX);
    free.take(needed).count() >= needed
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn numbers_below_the_limit_that_are_not_open_are_free() {
        let file = File::open("/dev/null").unwrap();
        let number = file.as_raw_fd();
        assert!(syscalls::is_open(number) && !syscalls::is_open(i32::MAX - 1));
        let below = u64::try_from(number).unwrap() + 1;
        assert!(!has_free_files(Some(below), below), "this file is open");
        assert!(!has_free_files(Some(5), 6), "there are not more numbers than the limit");
        assert!(has_free_files(None, 1000));
        assert!(has_files_to_spare());
    }

    #[test]
    fn each_pending_start_needs_files_of_its_own() {
        let starts = PendingStarts::default();
        let limit = getrlimit(Resource::Nofile).current.unwrap();
        let most = usize::try_from(limit.min(1 << 20) / FILES_FOR_START + 1).unwrap();
        let mut reserved = Vec::new();
        while reserved.len() < most.min(64)
            && let Some(reservation) = starts.reserve_files()
        {
            reserved.push(reservation);
        }
        assert!(!reserved.is_empty());
        assert_eq!(starts.0.load(Ordering::Relaxed), reserved.len() as u64);
        starts.0.store(limit, Ordering::Relaxed);
        assert!(starts.reserve_files().is_none(), "the limit leaves no room for so many");
        assert_eq!(starts.0.load(Ordering::Relaxed), limit, "a refused start reserves nothing");
        starts.0.store(reserved.len() as u64, Ordering::Relaxed);
        drop(reserved);
        assert_eq!(starts.0.load(Ordering::Relaxed), 0);
    }
}
