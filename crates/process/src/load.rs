//! The load and the limits of the whole host, in a few short reads.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs, io};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, getuid};
use thiserror::Error;

use crate::processes::{self, parse_kilobytes};

/// The names of lines of /proc/meminfo.
const AVAILABLE: &str = "MemAvailable:";
const TOTAL: &str = "MemTotal:";

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
pub(crate) fn read_host_load(jobs_cpu: Option<Duration>) -> Option<HostLoad> {
    let meminfo = processes::read_short_file("/proc/meminfo").ok()?;
    let available_bytes = parse_kilobytes(&meminfo, AVAILABLE)?;
    Some(HostLoad { tasks: host_tasks()?, available_bytes, jobs_cpu })
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

/// Returns the bytes of memory that this process and its jobs may use together, if known.
#[must_use]
pub fn total_memory() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok();
    let host = meminfo.and_then(|text| parse_kilobytes(&text, TOTAL));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let files = memory_limit_files(&groups);
    let bounds = files.iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    bounds.chain(host).min()
}

/// Returns the files that may limit our memory: those of our cgroup and of its ancestors.
fn memory_limit_files(cgroups: &str) -> Vec<PathBuf> {
    let directories = cgroup_directories(cgroups, "memory").into_iter();
    let name = |controllers: &str| {
        if controllers.is_empty() { "memory.max" } else { "memory.limit_in_bytes" }
    };
    directories.map(|(controllers, dir)| dir.join(name(controllers))).collect()
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

/// A limit on tasks, which is the kernel's word for threads and processes together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskLimit {
    /// A limit on all tasks of the server's user.
    User {
        /// The value of the limit.
        most: u64,
    },
    /// A limit on all tasks in a cgroup that the server is in.
    Cgroup {
        /// The value of the limit.
        most: u64,
        /// The directory of the cgroup.
        dir: PathBuf,
    },
    /// The limit of the whole host.
    Host,
}

impl TaskLimit {
    /// Returns the limit that made the kernel refuse a task with this error; `None` if it refused
    /// for another reason.
    pub fn reached(error: &io::Error) -> Option<Self> {
        if error.kind() != io::ErrorKind::WouldBlock {
            return None;
        }
        let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let cgroups = cgroup_directories(&cgroups, "pids").into_iter();
        let cgroups = cgroups.filter_map(|(_, dir)| CgroupTasks::read(dir)).collect();
        // The kernel does not apply this limit to root.
        let user = getrlimit(Resource::Nproc).current.filter(|_| !getuid().is_root());
        Some(likely_limit(cgroups, user))
    }

    /// Adds an explanation to an error by which a thread or a process was refused: the text names
    /// the limit that was reached, if any.
    #[must_use]
    pub fn explain(error: io::Error) -> io::Error {
        match Self::reached(&error) {
            Some(limit) => io::Error::new(error.kind(), limit.to_string()),
            None => error,
        }
    }
}

impl fmt::Display for TaskLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User { most } => write!(
                f,
                "the limit on processes and threads of this user (RLIMIT_NPROC {most}) is reached; \
                 raise it (ulimit -u, LimitNPROC= in systemd)"
            ),
            Self::Cgroup { most, dir } => write!(
                f,
                "the limit on processes and threads in {} (pids.max {most}) is reached; raise it \
                 (TasksMax= in systemd, --pids-limit of a container)",
                dir.display()
            ),
            Self::Host => f.write_str(
                "this host has no room for more processes and threads; end some, or raise \
                 kernel.threads-max and kernel.pid_max",
            ),
        }
    }
}

/// A cgroup that limits its tasks.
#[derive(Debug)]
struct CgroupTasks {
    dir: PathBuf,
    now: u64,
    most: u64,
}

impl CgroupTasks {
    fn read(dir: PathBuf) -> Option<Self> {
        let number = |name: &str| fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok();
        // A cgroup without a limit has a word there.
        let now = number("pids.current")?;
        let most = number("pids.max")?;
        Some(Self { dir, now, most })
    }
}

/// Returns the limit for which a task was most likely refused. A cgroup that is not full now may
/// have been full a moment ago; it is only blamed if nothing else limits tasks.
fn likely_limit(mut cgroups: Vec<CgroupTasks>, user: Option<u64>) -> TaskLimit {
    let full = cgroups.iter().position(|cgroup| cgroup.now >= cgroup.most);
    let nearly_full = || cgroups.iter().position(|cgroup| cgroup.now >= cgroup.most / 2);
    match (full, user) {
        (None, Some(most)) => TaskLimit::User { most },
        (full, _) => full.or_else(nearly_full).map_or(TaskLimit::Host, |index| {
            let CgroupTasks { dir, most, .. } = cgroups.swap_remove(index);
            TaskLimit::Cgroup { most, dir }
        }),
    }
}

/// Describes the limit on open files that made the kernel refuse one with this error; `None` if it
/// refused for another reason. The server raised its own limit at start as far as it may.
pub(crate) fn describe_open_file_limit(error: &io::Error) -> Option<String> {
    match Errno::from_io_error(error)? {
        Errno::MFILE => {}
        Errno::NFILE => {
            let why = "this host has no room for more open files; raise fs.file-max";
            return Some(why.to_owned());
        }
        _ => return None,
    }
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    Some(format!(
        "this server may open {most} files and has them open, up to five for each running job; \
         raise its hard limit (ulimit -Hn, LimitNOFILE in systemd) or lower queue.slots"
    ))
}

/// The result of a failed probe of a kernel feature.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ProbeError {
    /// The host does not have the feature.
    Missing(String),
    /// The system gave no thread, process, file or memory to try it out with.
    NoResources,
}

impl ProbeError {
    /// Classifies the error of a probe; `why` describes a missing feature.
    pub(crate) fn new(error: &io::Error, why: String) -> Self {
        let errno = Errno::from_io_error(error);
        match errno {
            Some(Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOMEM) => Self::NoResources,
            Some(_) | None => Self::Missing(why),
        }
    }
}

/// Returns the directories of the cgroups in `/proc/self/cgroup` by which this controller may limit
/// us: each cgroup and its ancestors, from the innermost outwards, with the controllers of its
/// hierarchy, which are empty for version 2. In a container the path is often that of the host, and
/// only the top of the mount exists.
fn cgroup_directories<'a>(cgroups: &'a str, controller: &str) -> Vec<(&'a str, PathBuf)> {
    let mut found = Vec::new();
    for line in cgroups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        // The hierarchy of version 2 is mounted at the top.
        let root = Path::new("/sys/fs/cgroup").join(controllers);
        if controllers.is_empty() || controllers == controller {
            let innermost = root.join(path.trim_start_matches('/'));
            let outwards = innermost.ancestors().take_while(|dir| dir.starts_with(&root));
            found.extend(outwards.map(|dir| (controllers, dir.to_owned())));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_files_are_parsed() {
        assert_eq!(parse_tasks("0.52 0.58 0.59 3/1234 56789\n"), Some(1234));
        assert_eq!(
            parse_kilobytes("MemTotal: 9 kB\nMemAvailable:    2048 kB\n", AVAILABLE),
            Some(2 << 20)
        );
        for text in ["", "0.1 0.2 0.3", "0.1 0.2 0.3 7 8", "MemAvailable: much kB", "MemFree: 1 kB"]
        {
            assert_eq!(
                (parse_tasks(text), parse_kilobytes(text, AVAILABLE)),
                (None, None),
                "{text:?}"
            );
        }
    }

    #[test]
    fn this_host_has_tasks_and_memory() {
        let glance = read_host_load(None).unwrap();
        assert!(glance.tasks > 0 && glance.available_bytes > 0, "{glance:?}");
    }

    #[test]
    fn the_memory_of_the_host_is_read() {
        assert_eq!(
            parse_kilobytes("MemTotal:       1000 kB\nMemFree: 1 kB\n", TOTAL),
            Some(1_024_000)
        );
        assert_eq!(parse_kilobytes("MemFree: 1 kB\n", TOTAL), None);
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
            .map(PathBuf::from)
        );
        assert_eq!(
            memory_limit_files("4:memory:/\n1:cpu,cpuacct:/x\n"),
            ["/sys/fs/cgroup/memory/memory.limit_in_bytes"].map(PathBuf::from)
        );
    }

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

    fn cgroup(dir: &str, now: u64, most: u64) -> CgroupTasks {
        CgroupTasks { dir: dir.into(), now, most }
    }

    #[test]
    fn the_limit_that_is_reached_is_named() {
        let user = |most| TaskLimit::User { most };
        let full = TaskLimit::Cgroup { most: 20, dir: "/b".into() };
        for (cgroups, limit, expected) in [
            (vec![], None, TaskLimit::Host),
            (vec![], Some(30), user(30)),
            (vec![cgroup("/a", 3, 900), cgroup("/b", 20, 20)], Some(30), full.clone()),
            (vec![cgroup("/a", 3, 900), cgroup("/b", 20, 20)], None, full.clone()),
            (vec![cgroup("/b", 19, 20)], Some(30), user(30)),
            // The cgroup was full when a task was requested, and a task has ended since.
            (vec![cgroup("/b", 19, 20)], None, full),
            (vec![cgroup("/b", 2, 20)], None, TaskLimit::Host),
        ] {
            let shown = format!("{cgroups:?} and {limit:?}");
            assert_eq!(likely_limit(cgroups, limit), expected, "{shown}");
        }
    }

    #[test]
    fn each_message_says_what_to_raise() {
        let cgroup = TaskLimit::Cgroup { most: 20, dir: "/sys/fs/cgroup/a".into() };
        for (limit, words) in [
            (TaskLimit::User { most: 20 }, ["RLIMIT_NPROC 20", "ulimit -u"]),
            (cgroup, ["/sys/fs/cgroup/a (pids.max 20)", "TasksMax="]),
            (TaskLimit::Host, ["this host", "kernel.pid_max"]),
        ] {
            let text = limit.to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }

    #[test]
    fn only_a_refused_task_is_explained_by_a_limit() {
        let refused = io::Error::from_raw_os_error(Errno::AGAIN.raw_os_error());
        assert!(TaskLimit::reached(&refused).is_some());
        assert_eq!(TaskLimit::reached(&io::ErrorKind::OutOfMemory.into()), None);
    }

    #[test]
    fn cgroups_of_both_versions_are_found_up_to_their_roots() {
        let cgroups = "9:name=systemd:/x\n8:pids:/a/b\n4:memory:/y\n0::/c\n";
        let found: Vec<_> =
            cgroup_directories(cgroups, "pids").into_iter().map(|(_, dir)| dir).collect();
        let expected = [
            "/sys/fs/cgroup/pids/a/b",
            "/sys/fs/cgroup/pids/a",
            "/sys/fs/cgroup/pids",
            "/sys/fs/cgroup/c",
            "/sys/fs/cgroup",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
    }
}
