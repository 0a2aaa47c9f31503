//! What this process uses, read from `/proc/self` when somebody asks.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// What `/proc/self/stat` tells of a process, in the kernel's units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    /// Ticks of CPU time, user and system.
    cpu: u64,
    threads: u64,
    /// Ticks between the start of the system and that of the process.
    started: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

/// What the process uses at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessUsage {
    /// CPU time, user and system, without children.
    pub(super) cpu: Duration,
    /// Threads.
    pub(super) threads: u64,
    /// Virtual memory.
    pub(super) virtual_bytes: u64,
    /// Resident memory.
    pub(super) resident_bytes: u64,
}

/// What this process uses; `None` where `/proc` does not tell.
pub(super) fn usage() -> Option<ProcessUsage> {
    let stat = stat()?;
    Some(ProcessUsage {
        cpu: from_ticks(stat.cpu),
        threads: stat.threads,
        virtual_bytes: stat.virtual_bytes,
        resident_bytes: stat.resident_pages.saturating_mul(rustix::param::page_size() as u64),
    })
}

/// When this process started, counted from 1970.
pub(super) fn started() -> Option<Duration> {
    let booted = booted_of(&fs::read_to_string("/proc/stat").ok()?)?;
    Some(booted + from_ticks(stat()?.started))
}

/// Open file descriptors, without the one that counts them.
pub(super) fn open_fds() -> Option<usize> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

/// File descriptors that may be open; `None` = no bound.
pub(super) fn max_fds() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

fn stat() -> Option<Stat> {
    stat_of(&fs::read_to_string("/proc/self/stat").ok()?)
}

fn stat_of(text: &str) -> Option<Stat> {
    // The name before it may hold anything, spaces and parentheses included.
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    // Numbered as in proc(5), where the state is the third.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        cpu: field(14)?.saturating_add(field(15)?),
        threads: field(20)?,
        started: field(22)?,
        virtual_bytes: field(23)?,
        resident_pages: field(24)?,
    })
}

fn booted_of(text: &str) -> Option<Duration> {
    let seconds = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(Duration::from_secs(seconds.trim().parse().ok()?))
}

fn from_ticks(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / per_second))
}

// Free space of the disk that holds output.

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
        let dir = Arc::clone(dir);
        let is_under_way = Arc::clone(&self.is_under_way);
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
    fn a_name_with_parentheses_hides_nothing() {
        let text = "7 (a ) R (b) S 1 7 7 0 -1 4194560 9 0 0 0 30 12 500 600 20 0 5 0 99 4096 3 18";
        let stat =
            Stat { cpu: 42, threads: 5, started: 99, virtual_bytes: 4096, resident_pages: 3 };
        assert_eq!(stat_of(text), Some(stat));
        assert_eq!(stat_of("7 (a) S 1 7"), None);
        assert_eq!(stat_of(""), None);
    }

    #[test]
    fn the_time_of_boot_is_one_line_of_many() {
        assert_eq!(
            booted_of("cpu 1 2\nbtime 1700\nprocesses 3\n"),
            Some(Duration::from_secs(1700))
        );
        assert_eq!(booted_of("cpu 1 2\n"), None);
    }

    #[test]
    fn this_process_uses_something() {
        let usage = usage().unwrap();
        assert!(usage.threads > 0 && usage.resident_bytes > 0, "{usage:?}");
        assert!(usage.virtual_bytes >= usage.resident_bytes, "{usage:?}");
        assert!(open_fds().is_some_and(|open| open > 0));
        assert!(started().is_some_and(|since_1970| since_1970 > Duration::from_secs(1 << 30)));
    }
}

#[cfg(test)]
mod disk_tests {
    use super::*;

    #[test]
    fn a_directory_has_room_and_one_that_is_not_there_tells_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let room = room_at(dir.path()).unwrap();
        assert!(room.size > 0 && room.free <= room.size, "{room:?}");
        assert_eq!(room_at(&dir.path().join("missing")), None);
    }
}
