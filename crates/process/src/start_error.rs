//! Errors of starting a process.

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use rustix::process::{Resource, getrlimit, getuid};
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

/// A reason why no process was started. Each message says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartError {
    /// The program does not exist.
    #[error("`{program}` was not found in PATH; check the name, or give its full path")]
    NotFound {
        /// The requested program.
        program: String,
    },
    /// The program exists but cannot be executed.
    #[error(
        "`{program}` cannot be executed: permission denied; make it executable (chmod +x), or run it with its interpreter"
    )]
    NotExecutable {
        /// The requested program.
        program: String,
    },
    /// The working directory cannot be used.
    #[error("cannot run in `{cwd}`: {why}; give an existing directory as cwd")]
    BadCwd {
        /// The requested directory.
        cwd: String,
        /// The reason of the error.
        why: String,
    },
    /// Program, arguments and environment are longer than the kernel accepts.
    #[error(
        "command too long: {bytes} bytes of command, arguments and environment are more than this system takes; write the text to a file and run that, or pass it on stdin"
    )]
    TooLong {
        /// The length of all of them together.
        bytes: usize,
    },
    /// A NUL byte in program, arguments, environment or working directory.
    #[error("{what} contains a NUL byte, which no program can be given; remove it")]
    NulByte {
        /// The value that contains it.
        #[serde(deserialize_with = "deserialize_nul_place")]
        what: StaticText,
    },
    /// The required sandbox could not be set up, and the process was not run with less.
    #[error(
        "the command was not run, because it could not be confined: {what} ({why}); `shellyard doctor` says what this host can do"
    )]
    Confinement {
        /// The step that failed.
        what: String,
        /// The system's own message.
        why: String,
    },
    /// No directory could serve as the workspace.
    #[error("the command was not run, because it has no workspace: {why}")]
    NoWorkspace {
        /// The reason, and what to do.
        why: String,
    },
    /// The system refused to create a process.
    #[error("`{program}` was not started: {why}; or try again when other processes have ended")]
    OutOfProcesses {
        /// The requested program.
        program: String,
        /// The limit that was reached, and how to raise it.
        why: String,
    },
    /// Any other error of the system.
    #[error("the system could not start `{program}`: {why}; try again when the host has room")]
    System {
        /// The requested program.
        program: String,
        /// The system's own message.
        why: String,
    },
}

/// A text of this program. As a reference it could only be read from text that lives forever: serde takes every
/// reference for a part of its input.
type StaticText = &'static str;

/// The values of [`StartError::NulByte`].
const NUL_PLACES: [&str; 6] =
    ["the program's name", "an argument", "PATH", "the environment", "cwd", "command"];

/// Reads the place of a NUL byte; a place that this version does not know becomes `a value`.
fn deserialize_nul_place<'de, D: Deserializer<'de>>(input: D) -> Result<&'static str, D::Error> {
    let text = String::deserialize(input)?;
    Ok(NUL_PLACES.into_iter().find(|place| *place == text).unwrap_or("a value"))
}

impl StartError {
    /// Creates the error for a process or thread that the system did not provide for `program`.
    #[must_use]
    pub fn from_system(program: String, error: &io::Error) -> Self {
        match TaskLimit::reached(error) {
            Some(limit) => Self::OutOfProcesses { program, why: limit.to_string() },
            None => Self::System { program, why: error.to_string() },
        }
    }

    /// Returns the same error with `change` applied to every text in it.
    #[must_use]
    pub fn with_texts(self, change: impl Fn(String) -> String) -> Self {
        match self {
            Self::NotFound { program } => Self::NotFound { program: change(program) },
            Self::NotExecutable { program } => Self::NotExecutable { program: change(program) },
            Self::BadCwd { cwd, why } => Self::BadCwd { cwd: change(cwd), why: change(why) },
            Self::System { program, why } => {
                Self::System { program: change(program), why: change(why) }
            }
            Self::OutOfProcesses { program, why } => {
                Self::OutOfProcesses { program: change(program), why: change(why) }
            }
            Self::Confinement { what, why } => {
                Self::Confinement { what: change(what), why: change(why) }
            }
            Self::NoWorkspace { why } => Self::NoWorkspace { why: change(why) },
            Self::TooLong { bytes } => Self::TooLong { bytes },
            Self::NulByte { what } => Self::NulByte { what },
        }
    }

    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::NotExecutable { .. } => "not_executable",
            Self::BadCwd { .. } => "bad_cwd",
            Self::TooLong { .. } => "too_long",
            Self::NulByte { .. } => "nul_byte",
            Self::Confinement { .. } => "confinement",
            Self::NoWorkspace { .. } => "no_workspace",
            Self::OutOfProcesses { .. } => "out_of_processes",
            Self::System { .. } => "system",
        }
    }
}

// The limit that keeps this server from creating a thread or a process.

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
        let cgroups =
            cgroup_directories(&cgroups).into_iter().filter_map(CgroupTasks::read).collect();
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

/// Returns the directories of the cgroups in `/proc/self/cgroup` that may limit tasks, from the
/// innermost outwards.
fn cgroup_directories(cgroups: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in cgroups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let root = match controllers {
            "" => Path::new("/sys/fs/cgroup"),
            "pids" => Path::new("/sys/fs/cgroup/pids"),
            _ => continue,
        };
        let innermost = root.join(path.trim_start_matches('/'));
        let outwards = innermost.ancestors().take_while(|dir| dir.starts_with(root));
        found.extend(outwards.map(Path::to_owned));
    }
    found
}

/// Describes the server's own limit on open files, which it raised at start as far as it may.
pub(crate) fn describe_open_file_limit() -> String {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    format!(
        "this server may open {most} files and has them open, up to five for each running job; \
         raise its hard limit (ulimit -Hn, LimitNOFILE in systemd) or lower queue.slots"
    )
}

/// The result of a failed probe of a kernel feature.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ProbeError {
    /// The host does not have the feature.
    Missing(String),
    /// The system gave no thread or process to try it out with.
    NoTask,
}

impl ProbeError {
    /// Classifies the error of a probe; `why` describes a missing feature.
    pub(crate) fn new(error: &io::Error, why: String) -> Self {
        if TaskLimit::reached(error).is_some() { Self::NoTask } else { Self::Missing(why) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let refused = io::Error::from_raw_os_error(rustix::io::Errno::AGAIN.raw_os_error());
        assert!(TaskLimit::reached(&refused).is_some());
        assert_eq!(TaskLimit::reached(&io::ErrorKind::OutOfMemory.into()), None);
    }

    #[test]
    fn cgroups_of_both_versions_are_found_up_to_their_roots() {
        let found = cgroup_directories("9:name=systemd:/x\n8:pids:/a/b\n4:memory:/y\n0::/c\n");
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
