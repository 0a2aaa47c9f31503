//! The load of the whole host, in a few short reads.

use std::time::Duration;
use std::{fs, io};

use rustix::io::Errno;
use thiserror::Error;

use super::cgroup::Cgroups;
use super::processes;

/// The load of all processes of the host together at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostLoad {
    /// Processes and threads.
    pub tasks: u64,
    /// Memory that is still available, in bytes.
    pub available_bytes: u64,
    /// CPU time of everything that ever ran in the cgroups of our jobs, if they have any.
    pub jobs_cpu: Option<Duration>,
}

/// Reads the load of the host; `None` if the kernel does not report it.
///
/// Reads what the kernel keeps anyway: it takes the same time however many processes there are.
pub(crate) fn read_host_load(cgroups: &Cgroups) -> Option<HostLoad> {
    let available_bytes = parse_available(&processes::read_short_file("/proc/meminfo").ok()?)?;
    Some(HostLoad { tasks: host_tasks()?, available_bytes, jobs_cpu: cgroups.jobs_cpu() })
}

/// Returns the number of processes and threads of the whole host, by one read of a short line.
#[must_use]
pub fn host_tasks() -> Option<u64> {
    parse_tasks(&processes::read_short_file("/proc/loadavg").ok()?)
}

/// Parses the fourth field, `running/all`.
fn parse_tasks(loadavg: &str) -> Option<u64> {
    let field = loadavg.split_ascii_whitespace().nth(3)?;
    field.split_once('/')?.1.parse().ok()
}

/// Returns the id of the newest process or thread. If two calls return the same, none has started
/// in between.
#[must_use]
pub fn newest_task_id() -> Option<u64> {
    processes::read_short_file("/proc/loadavg").ok()?.split_ascii_whitespace().nth(4)?.parse().ok()
}

fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

// The memory available to us: the host's, or our cgroup's limit.

/// Returns the bytes of memory that this process and its jobs may use together, if known.
#[must_use]
pub fn total_memory() -> Option<u64> {
    let host = fs::read_to_string("/proc/meminfo").ok().and_then(|text| parse_mem_total(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let files = memory_limit_files(&groups);
    let bounds = files.iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    bounds.chain(host).min()
}

/// Parses a line such as `MemTotal:       24567890 kB`.
fn parse_mem_total(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns the files that may limit our memory: those of our cgroup and of its ancestors. In a
/// container the path is often that of the host, and the files are at the top of the mount.
fn memory_limit_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        loop {
            files.push(format!("{root}{path}/{name}"));
            match path.rfind('/') {
                Some(end) => path = &path[..end],
                None => break,
            }
        }
    }
    files
}

// Pressure stall information (PSI): how much the system stalls, as the kernel measures it.
//
// It is read for the whole system, since that is what jobs compete for. A server in its own cgroup
// could read that group's files instead; they would leave out everyone else who makes the host
// stall.

/// A resource that processes stall for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PressureResource {
    /// The processors of the host.
    Cpu,
    /// The memory of the host.
    Memory,
    /// The disks of the host.
    Io,
}

/// A reason why pressure cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PressureError {
    /// The files do not exist.
    #[error("this kernel has no pressure stall information (/proc/pressure is not there)")]
    Missing,
    /// The files exist, but the feature is turned off.
    #[error("this kernel has its pressure stall information turned off")]
    TurnedOff,
    /// The files exist, but this process may not read them.
    #[error("this process may not read /proc/pressure")]
    Denied,
    /// Another error of the read.
    #[error("/proc/pressure cannot be read ({0})")]
    Unreadable(io::ErrorKind),
    /// The files have an unexpected content.
    #[error("/proc/pressure does not read as pressure stall information")]
    Garbled,
}

impl PressureError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Missing => "psi_missing",
            Self::TurnedOff => "psi_off",
            Self::Denied => "psi_denied",
            Self::Unreadable(_) => "psi_unreadable",
            Self::Garbled => "psi_garbled",
        }
    }

    /// Returns advice on how to fix it.
    #[must_use]
    pub const fn fix(self) -> &'static str {
        match self {
            Self::Missing | Self::TurnedOff => "boot with psi=1, on a kernel built with CONFIG_PSI",
            Self::Denied => "let the server read /proc/pressure, which a container may hide",
            Self::Unreadable(_) | Self::Garbled => "look at /proc/pressure by hand",
        }
    }
}

impl From<io::Error> for PressureError {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => Self::Missing,
            Some(Errno::OPNOTSUPP) => Self::TurnedOff,
            Some(Errno::PERM | Errno::ACCESS) => Self::Denied,
            Some(_) | None => Self::Unreadable(error.kind()),
        }
    }
}

/// Reads the share of the last ten seconds, in whole percent, in which some process stalled for a
/// processor or for memory, or all stalled for a disk.
///
/// Blocks for as long as the kernel needs to print two lines; no disk is read.
///
/// # Errors
/// If the kernel does not report it.
pub fn read_pressure(resource: PressureResource) -> Result<u8, PressureError> {
    let (file, line) = match resource {
        PressureResource::Cpu => ("/proc/pressure/cpu", "some "),
        PressureResource::Memory => ("/proc/pressure/memory", "some "),
        PressureResource::Io => ("/proc/pressure/io", "full "),
    };
    parse_percent(&processes::read_short_file(file)?, line).ok_or(PressureError::Garbled)
}

/// Rounds down: a threshold in whole percent is reached by the whole part exactly if the share
/// reaches it.
fn parse_percent(text: &str, line: &str) -> Option<u8> {
    let fields = text.lines().find_map(|found| found.strip_prefix(line))?;
    let share = fields.split_ascii_whitespace().find_map(|field| field.strip_prefix("avg10="))?;
    let share: f64 = share.parse().ok()?;
    (0.0..=100.0).contains(&share).then_some(share as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_parsed() {
        assert_eq!(parse_tasks("0.52 0.58 0.59 3/1234 56789\n"), Some(1234));
        assert_eq!(parse_available("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        for text in ["", "0.1 0.2 0.3", "0.1 0.2 0.3 7 8", "MemAvailable: much kB", "MemFree: 1 kB"]
        {
            assert_eq!((parse_tasks(text), parse_available(text)), (None, None), "{text:?}");
        }
    }

    #[test]
    fn this_host_has_tasks_and_memory() {
        let glance = read_host_load(&Cgroups::default()).unwrap();
        assert!(glance.tasks > 0 && glance.available_bytes > 0, "{glance:?}");
    }
}

#[cfg(test)]
mod host_memory_tests {
    use super::*;

    #[test]
    fn the_memory_of_the_host_is_read() {
        assert_eq!(parse_mem_total("MemTotal:       1000 kB\nMemFree: 1 kB\n"), Some(1_024_000));
        assert_eq!(parse_mem_total("MemFree: 1 kB\n"), None);
        assert!(total_memory().is_some_and(|bytes| bytes > 64 << 20));
    }

    #[test]
    fn every_cgroup_above_us_may_bound_it() {
        assert_eq!(
            memory_limit_files("0::/a/b\n"),
            [
                "/sys/fs/cgroup/a/b/memory.max",
                "/sys/fs/cgroup/a/memory.max",
                "/sys/fs/cgroup/memory.max"
            ]
        );
        assert_eq!(
            memory_limit_files("4:memory:/\n1:cpu,cpuacct:/x\n"),
            ["/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        );
    }
}

#[cfg(test)]
mod pressure_tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "some avg10=38.17 avg60=7.98 avg300=3.36 total=185928987\n\
                        full avg10=3.86 avg60=6.99 avg300=2.98 total=72329874\n";

    #[test]
    fn each_line_has_its_own_share_rounded_down() {
        assert_eq!(parse_percent(TEXT, "some "), Some(38));
        assert_eq!(parse_percent(TEXT, "full "), Some(3));
        assert_eq!(parse_percent("some avg10=100.00 total=1\n", "some "), Some(100));
        assert_eq!(parse_percent("some avg10=0.99\n", "some "), Some(0));
    }

    #[test]
    fn malformed_text_has_no_share() {
        for text in [
            "",
            "some\n",
            "full avg10=1.00\n",
            "some avg60=1.00 total=3\n",
            "some avg10= avg60=1.00\n",
            "some avg10=much\n",
            "some avg10=-1.00\n",
            "some avg10=NaN\n",
            "some avg10=inf\n",
            "some avg10=101.00\n",
        ] {
            assert_eq!(parse_percent(text, "some "), None, "{text:?}");
        }
    }

    #[test]
    fn every_errno_maps_to_its_reason() {
        for (errno, expected) in [
            (Errno::NOENT, PressureError::Missing),
            (Errno::OPNOTSUPP, PressureError::TurnedOff),
            (Errno::PERM, PressureError::Denied),
            (Errno::ACCESS, PressureError::Denied),
            (Errno::INTR, PressureError::Unreadable(io::ErrorKind::Interrupted)),
        ] {
            assert_eq!(PressureError::from(io::Error::from(errno)), expected, "{errno}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text in ".*", cut in 0..TEXT.len()) {
            prop_assert!(parse_percent(&text, "some ").is_none_or(|percent| percent <= 100));
            prop_assert!(parse_percent(&TEXT[..cut], "full ").is_none_or(|percent| percent <= 3));
        }
    }
}
