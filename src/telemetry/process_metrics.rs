//! The resource usage of this process, read from `/proc/self` at each scrape, and the free disk space.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The fields of `/proc/self/stat` that the metrics need, in the kernel's units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SelfStat {
    /// CPU time in ticks, user and system.
    cpu: u64,
    threads: u64,
    /// The start of the process in ticks since boot.
    started: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

/// The resource usage of this process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessUsage {
    /// CPU time, user and system, without children.
    pub(super) cpu: Duration,
    pub(super) threads: u64,
    pub(super) virtual_bytes: u64,
    pub(super) resident_bytes: u64,
}

/// Reads the usage of this process; `None` if `/proc` cannot be read.
pub(super) fn read_usage() -> Option<ProcessUsage> {
    let stat = read_stat()?;
    Some(ProcessUsage {
        cpu: from_ticks(stat.cpu),
        threads: stat.threads,
        virtual_bytes: stat.virtual_bytes,
        resident_bytes: stat.resident_pages.saturating_mul(rustix::param::page_size() as u64),
    })
}

/// Returns the start time of this process since the Unix epoch.
pub(super) fn read_start_time() -> Option<Duration> {
    let booted = parse_boot_time(&fs::read_to_string("/proc/stat").ok()?)?;
    Some(booted + from_ticks(read_stat()?.started))
}

/// Counts the open file descriptors, without the one that lists them.
pub(super) fn count_open_fds() -> Option<usize> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1))
}

/// Returns the limit on open file descriptors; `None` = no limit.
pub(super) fn read_max_fds() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

fn read_stat() -> Option<SelfStat> {
    parse_stat(&fs::read_to_string("/proc/self/stat").ok()?)
}

fn parse_stat(text: &str) -> Option<SelfStat> {
    // The program name in front may contain spaces and parentheses.
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    // Numbered as in proc(5), where the state is field 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(SelfStat {
        cpu: field(14)?.saturating_add(field(15)?),
        threads: field(20)?,
        started: field(22)?,
        virtual_bytes: field(23)?,
        resident_pages: field(24)?,
    })
}

fn parse_boot_time(text: &str) -> Option<Duration> {
    let seconds = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(Duration::from_secs(seconds.trim().parse().ok()?))
}

fn from_ticks(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / per_second))
}

// The free space of the disk that holds output.

/// The time that a disk gets to report its free space.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The size and the free space of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DiskSpace {
    /// Bytes that this process may still write.
    pub(super) free: u64,
    pub(super) size: u64,
}

/// Asks a disk for its free space at each scrape. A disk that does not answer blocks one thread and
/// delays a scrape by at most a second.
#[derive(Debug, Default)]
pub(super) struct DiskProbe {
    is_running: Arc<AtomicBool>,
}

impl DiskProbe {
    /// Returns the space on the disk of `dir`; `None` if the disk does not answer in time, or an
    /// earlier probe still runs.
    pub(super) async fn measure_space(&self, dir: &Arc<Path>) -> Option<DiskSpace> {
        if self.is_running.swap(true, Ordering::AcqRel) {
            return None;
        }
        let dir = Arc::clone(dir);
        let is_running = Arc::clone(&self.is_running);
        let probe = move || {
            let space = read_disk_space(&dir);
            is_running.store(false, Ordering::Release);
            space
        };
        timeout(PROBE_TIMEOUT, spawn_blocking(probe)).await.ok()?.ok()?
    }
}

/// Reads the space on the disk of `dir`; `None` if the system call fails.
fn read_disk_space(dir: &Path) -> Option<DiskSpace> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Some(DiskSpace { free: bytes(stat.f_bavail), size: bytes(stat.f_blocks) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_parentheses_is_parsed() {
        let text = "7 (a ) R (b) S 1 7 7 0 -1 4194560 9 0 0 0 30 12 500 600 20 0 5 0 99 4096 3 18";
        let stat =
            SelfStat { cpu: 42, threads: 5, started: 99, virtual_bytes: 4096, resident_pages: 3 };
        assert_eq!(parse_stat(text), Some(stat));
        assert_eq!(parse_stat("7 (a) S 1 7"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn the_boot_time_is_found_among_other_lines() {
        assert_eq!(
            parse_boot_time("cpu 1 2\nbtime 1700\nprocesses 3\n"),
            Some(Duration::from_secs(1700))
        );
        assert_eq!(parse_boot_time("cpu 1 2\n"), None);
    }

    #[test]
    fn this_process_has_a_usage() {
        let usage = read_usage().unwrap();
        assert!(usage.threads > 0 && usage.resident_bytes > 0, "{usage:?}");
        assert!(usage.virtual_bytes >= usage.resident_bytes, "{usage:?}");
        assert!(count_open_fds().is_some_and(|open| open > 0));
        assert!(
            read_start_time().is_some_and(|since_1970| since_1970 > Duration::from_secs(1 << 30))
        );
    }
}

#[cfg(test)]
mod disk_tests {
    use super::*;

    #[test]
    fn an_existing_directory_has_space_and_a_missing_one_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let space = read_disk_space(dir.path()).unwrap();
        assert!(space.size > 0 && space.free <= space.size, "{space:?}");
        assert_eq!(read_disk_space(&dir.path().join("missing")), None);
    }
}
