//! The process-wide state that the server sets up once for all its jobs.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, getpid, getrlimit, prlimit, set_child_subreaper,
    set_dumpable_behavior, setpriority_process, setrlimit,
};

use super::keeper::ServerIdentity;
use super::launch::EnvVariable;
use super::oom_score::OwnScore;
use super::processes::ProcessKey;
use super::syscalls::{FileAction, PosixSpawnPlan};
use super::{processes, syscalls};

/// The variable that marks every process of a job in its environment. It is not a setting: a server
/// that runs inside a job is not configured by it.
pub const JOB_VARIABLE: &str = "SHELLYARD_JOB";

const MOST_OPEN_FILES: u64 = 1 << 20;

/// Signals that a helper process blocks. It must outlive a polite end of everything around it, and
/// ends when the server does.
const BLOCKED: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// The path of this program, even if its file was moved.
pub(crate) const OURSELVES: &CStr = c"/proc/self/exe";

/// The niceness of a thread that must not wait for jobs.
const FIRST_NICE: i32 = -10;

/// The attributes that jobs get instead of the server's own.
#[derive(Debug)]
pub(crate) struct ChildDefaults {
    tag: HostTag,
    /// The limit on open files that the server was started with.
    open_files: Rlimit,
    /// The server's out-of-memory score, which is raised while jobs are created so that they
    /// inherit it; `None` if the kernel has no such scores.
    pub(crate) score: Option<OwnScore>,
}

impl ChildDefaults {
    /// Prepares this process for running jobs; call it once, early, before jobs are started.
    ///
    /// From now on the process adopts the orphans of its descendants, passes on none of the files
    /// that it was started with, may open as many files as the system allows, cannot be inspected
    /// by other processes of its user, and carries a tag that all descendants inherit.
    ///
    /// # Errors
    /// If the system refuses to make this process a subreaper or gives no random number: without
    /// those a job's tree cannot be kept together.
    pub(crate) fn set_up() -> io::Result<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let tag = ProcessTag::for_server(u64::from_ne_bytes(random));
        let owner = processes::own_key()?;
        let (score, carrier) = Self::prepare_process(tag)?;
        Ok(Self { tag: HostTag { tag, carrier, owner }, open_files: raise_open_files(), score })
    }

    /// Prepares this process as a server with the identity of its keeper.
    ///
    /// # Errors
    /// As [`Self::set_up`], or if the identity is not valid.
    pub(crate) fn set_up_kept(identity: &ServerIdentity) -> io::Result<Self> {
        let tag = ProcessTag::from_number(identity.tag).filter(|tag| tag.is_server_tag());
        let (Some(tag), Some(owner)) = (tag, identity.key()) else {
            return Err(Errno::PROTO.into());
        };
        let (score, _) = Self::prepare_process(tag)?;
        let carrier = TagCarrier::new(identity.is_tag_inherited);
        raise_open_files();
        let open_files = identity.open_file_limit();
        Ok(Self { tag: HostTag { tag, carrier, owner }, open_files, score })
    }

    /// Makes this process a subreaper that cannot be inspected and carries the tag.
    fn prepare_process(tag: ProcessTag) -> io::Result<(Option<OwnScore>, TagCarrier)> {
        set_child_subreaper(Some(getpid()))?;
        // Before Linux 5.11 this fails, and inherited files are passed on as usual.
        syscalls::close_inherited_on_exec().ok();
        syscalls::keep_exit_statuses();
        syscalls::survive_file_size_limit();
        let score = OwnScore::open().ok();
        // Our environment and memory hold tokens: no job may read them through /proc.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
        let carried = tag.put_on(None) && ProcessTag::read(getpid()) == Some(tag);
        Ok((score, TagCarrier::new(carried)))
    }

    /// Returns the identity that a server of this keeper gets.
    pub(crate) fn identity(&self) -> ServerIdentity {
        let HostTag { tag, owner: (pid, started), .. } = self.tag;
        ServerIdentity {
            tag: tag.to_number(),
            is_tag_inherited: self.tag.inherited().is_some(),
            pid: pid.as_raw_nonzero().get(),
            started,
            open_files: (self.open_files.current, self.open_files.maximum),
        }
    }

    #[cfg(test)]
    pub(crate) const fn open_files_at_start(&self) -> Rlimit {
        self.open_files
    }

    pub(crate) const fn tag(&self) -> HostTag {
        self.tag
    }

    /// Returns the tag of the child with this serial number, if the host lets us tag processes.
    pub(crate) fn child_tag(&self, serial: u32) -> Option<ProcessTag> {
        Some(self.tag.inherited()?.for_child(serial))
    }

    /// Gives a child the limit on open files that jobs get now.
    pub(crate) fn limit_open_files(&self, pid: Pid) {
        // A child that is already gone needs no limit.
        prlimit(Some(pid), Resource::Nofile, self.open_files(getrlimit(Resource::Nofile))).ok();
    }

    /// Starts a helper of this process in its own session, with an empty environment, in the root
    /// directory. Its standard input is `line`; its output is discarded.
    pub(crate) fn start_helper(
        &self,
        program: &CStr,
        argv: &[CString],
        line: BorrowedFd<'_>,
    ) -> Result<Pid, Errno> {
        let root = open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let actions = [
            FileAction::Chdir(root.as_fd()),
            FileAction::Dup { from: line, to: 0 },
            FileAction::Open { to: 1, path: c"/dev/null", flags: libc::O_WRONLY },
            FileAction::Copy { from: 1, to: 2 },
        ];
        // A helper is not a job: it keeps the score of the server.
        let _kept = self.score.as_ref().map(OwnScore::hold_normal);
        let plan =
            PosixSpawnPlan { path: program, argv, env: &[], actions: &actions, blocked: &BLOCKED };
        syscalls::posix_spawn(&plan)
    }

    /// Makes sure that a job which the server created has the score of jobs.
    pub(crate) fn ensure_job_score(&self, pid: Pid) {
        if let Some(score) = &self.score {
            score.ensure_on(pid);
        }
    }

    /// Checks the score of a process that the spawner created: it inherits the spawner's.
    pub(crate) fn check_job_score(&self, pid: Pid) {
        if let Some(score) = &self.score {
            score.check(pid);
        }
    }

    /// Returns the limit on open files that a new process gets: the one that the server was started
    /// with, within the hard limit of the process's parent, which may have been lowered since.
    pub(crate) fn open_files(&self, parent: Rlimit) -> Rlimit {
        let least = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (limit, None) | (None, limit) => limit,
        };
        Rlimit {
            current: least(self.open_files.current, parent.maximum),
            maximum: least(self.open_files.maximum, parent.maximum),
        }
    }
}

/// The identity that distinguishes this server's processes from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostTag {
    tag: ProcessTag,
    carrier: TagCarrier,
    /// The process that stands for the server in names and records: its keeper, or itself.
    owner: ProcessKey,
}

/// The means by which descendants inherit the tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagCarrier {
    LimitAndEnvironment,
    EnvironmentOnly,
}

impl TagCarrier {
    const fn new(is_inherited: bool) -> Self {
        if is_inherited { Self::LimitAndEnvironment } else { Self::EnvironmentOnly }
    }
}

impl HostTag {
    /// Returns a new variable that marks the processes of one run of this job, and of no other; the
    /// caller puts it into their environment.
    #[must_use]
    pub fn new_marker(&self, job: u64) -> EnvVariable {
        // Job numbers are per tenant, and one process may hold several servers. Jobs see this
        // value: a counter would tell a tenant how many jobs others start. `set_up` made sure that
        // the system gives random numbers.
        let run = getrandom::u64().unwrap_or_default();
        let text = format!("{}{job}:{run:016x}", self.marker_prefix());
        // The text contains no NUL byte.
        CString::new(text).unwrap_or_default().into()
    }

    /// Returns the process that stands for the server in names and records.
    pub(crate) const fn owner(&self) -> ProcessKey {
        self.owner
    }

    /// Returns the prefix that the markers of all jobs of this server share.
    pub(crate) fn marker_prefix(&self) -> String {
        format!("{JOB_VARIABLE}={:x}:", self.tag.to_number())
    }

    /// Returns the tag that descendants inherit in their limits, if the host lets us set one.
    pub(crate) fn inherited(&self) -> Option<ProcessTag> {
        match self.carrier {
            TagCarrier::LimitAndEnvironment => Some(self.tag),
            TagCarrier::EnvironmentOnly => None,
        }
    }
}

/// Raises our limit on open files, and returns the old one: to [`MOST_OPEN_FILES`] if we may go
/// beyond the hard limit, as root may, otherwise up to the hard limit.
fn raise_open_files() -> Rlimit {
    let old = getrlimit(Resource::Nofile);
    let needed = Some(MOST_OPEN_FILES);
    let hard = old.maximum.unwrap_or(MOST_OPEN_FILES);
    if old.current.is_some_and(|current| current < MOST_OPEN_FILES) {
        let maximum = old.maximum.map(|hard| hard.max(MOST_OPEN_FILES));
        let beyond = setrlimit(Resource::Nofile, Rlimit { current: needed, maximum });
        let current = Some(hard.min(MOST_OPEN_FILES));
        // If this is refused, the limit stays: fewer jobs at a time, each with a clear error.
        beyond.or_else(|_| setrlimit(Resource::Nofile, Rlimit { current, ..old })).ok();
    }
    old
}

/// Raises the priority of the calling thread, if the server has the privilege for that.
pub fn raise_thread_priority() {
    // `None` is the calling thread: on Linux each thread has its own niceness.
    setpriority_process(None, FIRST_NICE).ok();
}

/// Blocks until a child has ended since the last call, or until the first tree exists, for at most
/// `limit`. Returns `false` if neither happened. Needs [`crate::block_child_signals`].
///
/// # Errors
/// If the system call fails.
pub fn wait_for_child_exit(limit: Option<Duration>) -> io::Result<bool> {
    Ok(syscalls::take_child_signal(limit)?)
}

// A number that a tree carries in an inherited resource limit.
//
// The soft limit on real-time CPU use (RLIMIT_RTTIME, in microseconds) means nothing to ordinary
// processes, survives `fork`, `exec`, `setsid` and `env -i`, and can be read for any process. A
// value of millions of years means nothing to real-time processes either.

/// A server (upper bits) and one of its children (lower bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessTag(u64);

const CHILD_BITS: u32 = 24;
/// A number far above any limit that somebody would set, and below the range of signed readers.
const BASE: u64 = 1 << 62;

impl ProcessTag {
    /// Creates the server's own tag from a random number.
    pub(crate) const fn for_server(random: u64) -> Self {
        Self(BASE | ((random << CHILD_BITS) & (BASE - 1)))
    }

    /// Returns the tag of the server's child with this serial number.
    pub(crate) const fn for_child(self, serial: u32) -> Self {
        let low = (1 << CHILD_BITS) - 1;
        Self((self.0 & !low) | (serial as u64 & low))
    }

    /// Returns the serial number of the child, 0 for the server itself.
    pub(crate) const fn child_serial(self) -> u32 {
        // The mask leaves 24 bits.
        (self.0 & ((1 << CHILD_BITS) - 1)) as u32
    }

    pub(crate) const fn is_server_tag(self) -> bool {
        self.0.trailing_zeros() >= CHILD_BITS
    }

    pub(crate) const fn is_same_server(self, other: Self) -> bool {
        self.0 >> CHILD_BITS == other.0 >> CHILD_BITS
    }

    /// Returns the number that the guardian's command line and the record use.
    pub(crate) const fn to_number(self) -> u64 {
        self.0
    }

    /// Returns the tag with this number, or `None` if the number is not a tag.
    pub(crate) const fn from_number(number: u64) -> Option<Self> {
        if number >> 62 == 1 { Some(Self(number)) } else { None }
    }

    /// Reads the tag that a process carries.
    pub(crate) fn read(pid: Pid) -> Option<Self> {
        processes::realtime_limit(pid).and_then(Self::from_number)
    }

    /// Sets the tag on a process; `None` is this process. Returns `false` if the host does not
    /// allow it.
    pub(crate) fn put_on(self, pid: Option<Pid>) -> bool {
        let maximum = getrlimit(Resource::Rttime).maximum;
        prlimit(pid, Resource::Rttime, Rlimit { current: Some(self.0), maximum }).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_gets_no_more_files_than_the_hard_limit_of_its_parent() {
        let started_with = Rlimit { current: Some(1024), maximum: Some(4096) };
        let owner = (getpid(), 0);
        let carrier = TagCarrier::EnvironmentOnly;
        let tag = HostTag { tag: ProcessTag::for_server(7), carrier, owner };
        let defaults = ChildDefaults { tag, open_files: started_with, score: None };
        for (hard, expected) in [
            (None, started_with),
            (Some(1 << 20), started_with),
            (Some(2000), Rlimit { current: Some(1024), maximum: Some(2000) }),
            (Some(100), Rlimit { current: Some(100), maximum: Some(100) }),
        ] {
            assert_eq!(defaults.open_files(Rlimit { current: Some(50), maximum: hard }), expected);
        }
    }
}

#[cfg(test)]
mod tag_tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn children_share_their_server_and_nothing_else(random: u64, a in 1_u32..1 << 24, b in 1_u32..1 << 24) {
            let server = ProcessTag::for_server(random);
            let first = server.for_child(a);
            let second = server.for_child(b);
            prop_assert!(server.is_server_tag() && !first.is_server_tag());
            prop_assert!(first.is_same_server(second) && first.is_same_server(server));
            prop_assert_eq!(first == second, a == b);
            prop_assert_eq!(ProcessTag::from_number(first.to_number()), Some(first));
        }
    }

    #[test]
    fn an_ordinary_limit_is_not_a_tag() {
        for number in [0, 1, 200_000, 1 << 50, u64::MAX] {
            assert_eq!(ProcessTag::from_number(number), None, "{number}");
        }
    }
}
