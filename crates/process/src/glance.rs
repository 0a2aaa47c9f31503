//! How much of the whole host is in use, in a few short reads.

use std::time::Duration;

use super::confine::cgroup;
use super::short_file;

/// What all processes of the host together have at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glance {
    /// Processes and threads.
    pub tasks: u64,
    /// Memory that could still be given out, in bytes.
    pub available_bytes: u64,
    /// CPU time of all that ever ran in the cgroups of our jobs, where they have such.
    pub jobs_cpu: Option<Duration>,
}

/// A glance at the host; nothing where the kernel does not tell.
///
/// Reads what the kernel keeps anyway: it takes the same time however many processes there are.
#[must_use]
pub fn glance() -> Option<Glance> {
    let available_bytes = available_in(&short_file::read("/proc/meminfo").ok()?)?;
    Some(Glance { tasks: host_tasks()?, available_bytes, jobs_cpu: cgroup::jobs_cpu() })
}

/// Processes and threads of the whole host, by one read of a short line.
#[must_use]
pub fn host_tasks() -> Option<u64> {
    tasks_in(&short_file::read("/proc/loadavg").ok()?)
}

/// The fourth field is `running/all`.
fn tasks_in(loadavg: &str) -> Option<u64> {
    let field = loadavg.split_ascii_whitespace().nth(3)?;
    field.split_once('/')?.1.parse().ok()
}

/// The number that was given to the newest process or thread: the same twice, and none has begun in
/// between.
#[must_use]
pub fn newest_number() -> Option<u64> {
    short_file::read("/proc/loadavg").ok()?.split_ascii_whitespace().nth(4)?.parse().ok()
}

fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_understood() {
        assert_eq!(tasks_in("0.52 0.58 0.59 3/1234 56789\n"), Some(1234));
        assert_eq!(available_in("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        for text in ["", "0.1 0.2 0.3", "0.1 0.2 0.3 7 8", "MemAvailable: much kB", "MemFree: 1 kB"]
        {
            assert_eq!((tasks_in(text), available_in(text)), (None, None), "{text:?}");
        }
    }

    #[test]
    fn this_host_has_tasks_and_memory() {
        let glance = glance().unwrap();
        assert!(glance.tasks > 0 && glance.available_bytes > 0, "{glance:?}");
    }
}
