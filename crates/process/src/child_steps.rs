//! The steps of a new process before it executes its program, in order.
//!
//! Nothing that runs in the new process allocates, takes a lock or can panic: it runs in the memory of
//! the parent.
#![expect(unsafe_code, reason = "some system calls of a new process have no safe wrapper")]

use std::convert::Infallible;
use std::ffi::{CString, c_char, c_int};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{io, ptr};

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::{Errno, FdFlags, fcntl_setfd, retry_on_intr};
use rustix::process::{Resource, fchdir, getrlimit, ioctl_tiocsctty, setrlimit, setsid};
use rustix::thread::set_no_new_privs;

use crate::child_defaults::ChildDefaults;
use crate::confinement::{Backend, Confinement, NetworkAccess, ResourceLimits};
use crate::job_user::JobUser;
use crate::launch::EnvVariable;
use crate::processes::ProcessTag;
use crate::sandbox::mounts::Mount;
use crate::sandbox::restrictions::{self, FileRules};
use crate::sandbox::seccomp::{self, NetworkSockets, SeccompFilter, SeccompRules, SocketRules};
use crate::shell::REPORT_FD;
use crate::stdio::ChildFiles;
use crate::syscalls::{last_error, pointers};

/// Runs all steps of a leader that needs no namespaces.
pub(crate) fn run(
    setup: &ChildSetup<'_>,
    ruleset: Option<BorrowedFd<'_>>,
) -> Result<Infallible, SpawnFailure> {
    setup.enter_directory()?;
    setup.unshare_files()?;
    setup.enter_cgroup()?;
    let standard = StandardFiles::open(setup)?;
    become_leader(setup, &standard)?;
    execute(setup, ruleset)
}

/// Starts a session, with default signals and the standard files.
pub(crate) fn become_leader(
    setup: &ChildSetup<'_>,
    standard: &StandardFiles,
) -> Result<(), SpawnFailure> {
    setsid().map_err(|errno| SpawnStep::Session.failed(errno))?;
    // If the tag cannot be set, session, ancestors and marker show which processes belong to the
    // job.
    setup.request.tag.map(|tag| tag.put_on(None));
    reset_signals(setup.signals).map_err(|errno| SpawnStep::Session.failed(errno))?;
    standard.take(setup).map_err(|errno| SpawnStep::Files.failed(errno))
}

/// Enters the sandbox, by Landlock if there is a ruleset and by the seccomp filter last, and
/// executes the program.
pub(crate) fn execute(
    setup: &ChildSetup<'_>,
    ruleset: Option<BorrowedFd<'_>>,
) -> Result<Infallible, SpawnFailure> {
    let sandbox = setup.sandbox();
    setup
        .defaults
        .map_or(Ok(()), apply_open_file_limit)
        .map_err(|errno| SpawnStep::Limits.failed(errno))?;
    restrictions::apply_limits(&sandbox.limits, setup.max_tasks)
        .map_err(|error| SpawnStep::Limits.failed(error))?;
    // After everything that needs the server's rights, and before they are given up.
    if let Some(user) = &setup.request.user {
        user.become_user().map_err(|errno| SpawnStep::User.failed(errno))?;
    }
    restrictions::drop_capabilities(sandbox.confinement.profile)
        .map_err(|error| SpawnStep::Capabilities.failed(error))?;
    if sandbox.backend != Backend::Nothing {
        set_no_new_privs(true).map_err(|errno| SpawnStep::Privileges.failed(errno))?;
    }
    if let Some(ruleset) = ruleset {
        restrictions::restrict_self(ruleset).map_err(|errno| SpawnStep::Landlock.failed(errno))?;
    }
    if sandbox.backend != Backend::Nothing {
        seccomp::install(&setup.filters).map_err(|error| SpawnStep::Filter.failed(error))?;
    }
    let ChildSetup { request, argv, env, .. } = setup;
    // SAFETY: `setup` borrows the request that owns all strings, each NUL-terminated; `pointers` ends
    // both arrays with a null pointer.
    unsafe { libc::execve(request.path.as_ptr(), argv.as_ptr().cast(), env.as_ptr().cast()) };
    // It returns only if it failed.
    Err(SpawnStep::Program.failed(last_error()))
}

/// Sets the limits of jobs, after all files are open: the parent may have more of them open.
fn apply_open_file_limit(defaults: &ChildDefaults) -> Result<(), Errno> {
    setrlimit(Resource::Nofile, defaults.open_files(getrlimit(Resource::Nofile)))
}

/// The source of standard input, and of both outputs if they are not pipes of their own.
///
/// Opened before the sandbox applies: a job may not be able to open it by itself.
#[derive(Debug)]
pub(crate) enum StandardFiles {
    Terminal(OwnedFd),
    Nothing(OwnedFd),
    Provided,
}

impl StandardFiles {
    pub(crate) fn open(setup: &ChildSetup<'_>) -> Result<Self, SpawnFailure> {
        Self::try_open(setup).map_err(|errno| SpawnStep::Files.failed(errno))
    }

    fn try_open(setup: &ChildSetup<'_>) -> Result<Self, Errno> {
        let flags = OFlags::CLOEXEC | OFlags::NOCTTY;
        match &setup.request.terminal {
            Some(path) => open(path, flags | OFlags::RDWR, Mode::empty()).map(Self::Terminal),
            None if setup.files.stdin.is_none() => {
                open(c"/dev/null", flags | OFlags::RDONLY, Mode::empty()).map(Self::Nothing)
            }
            None => Ok(Self::Provided),
        }
    }

    /// Makes a terminal the standard input: the job finds it in its own /dev.
    pub(crate) fn show_terminal(&self) -> Result<(), Errno> {
        match self {
            Self::Terminal(terminal) => duplicate_to(terminal.as_fd(), 0),
            Self::Nothing(_) | Self::Provided => Ok(()),
        }
    }

    /// Puts every file under the number that a program expects.
    fn take(&self, setup: &ChildSetup<'_>) -> Result<(), Errno> {
        let files = setup.files;
        let (stdin, outputs) = match self {
            Self::Terminal(terminal) => {
                ioctl_tiocsctty(terminal)?;
                (Some(terminal.as_fd()), [Some(terminal.as_fd()); 2])
            }
            Self::Nothing(null) => (Some(null.as_fd()), [files.stdout, files.stderr]),
            Self::Provided => (files.stdin, [files.stdout, files.stderr]),
        };
        for (number, file) in (0..).zip([stdin].into_iter().chain(outputs)) {
            duplicate_to(file.ok_or(Errno::BADF)?, number)?;
        }
        match files.report.map_or(Ok(()), |file| duplicate_to(file, REPORT_FD)) {
            // So few files may be open that there is no such number: no report is better than no job.
            Err(Errno::BADF) => Ok(()),
            done => done,
        }
    }
}

/// Everything that a new process needs, prepared before it is created.
#[derive(Debug)]
pub(crate) struct ChildSetup<'a> {
    pub(crate) request: &'a SpawnRequest,
    pub(crate) files: ChildFiles<'a>,
    /// Pointers to the arguments in `request`, which is borrowed as long; set only by `prepare`.
    argv: Vec<*mut c_char>,
    /// Pointers to the variables in `request`, likewise.
    env: Vec<*mut c_char>,
    pub(crate) filters: Arc<SeccompFilter>,
    /// The number of tasks that its user may have, if the kernel is to enforce it.
    pub(crate) max_tasks: Option<u64>,
    /// The attributes that it gets instead of its parent's.
    pub(crate) defaults: Option<&'a ChildDefaults>,
    /// The signals whose disposition in the parent may differ from the default.
    pub(crate) signals: SignalSet,
    /// The cgroup that it still has to enter.
    pub(crate) cgroup: Option<BorrowedFd<'a>>,
    /// The number from which on it needs none of the files, if it shares its parent's file table.
    pub(crate) shares_files: Option<RawFd>,
}

impl<'a> ChildSetup<'a> {
    /// Prepares everything, for a parent from which a job may inherit everything.
    pub(crate) fn prepare(
        request: &'a SpawnRequest,
        files: ChildFiles<'a>,
        filters: &FilterCache,
    ) -> Result<Self, SpawnFailure> {
        let filters = request.sandbox.call_rules().map(|rules| filters.get(rules)).transpose();
        let filters = filters.map_err(|error| SpawnStep::Filter.failed(error))?.unwrap_or_default();
        let max_tasks = restrictions::max_tasks(&request.sandbox.limits, request.sandbox.backend);
        let argv = pointers(&request.argv);
        let env = pointers(&request.env);
        let defaults = None;
        let signals = ALL_SIGNALS;
        let cgroup = None;
        let shares_files = None;
        Ok(Self {
            request,
            files,
            argv,
            env,
            filters,
            max_tasks,
            defaults,
            signals,
            cgroup,
            shares_files,
        })
    }

    pub(crate) const fn sandbox(&self) -> &SandboxRules {
        &self.request.sandbox
    }

    pub(crate) fn enter_cgroup(&self) -> Result<(), SpawnFailure> {
        let Some(cgroup) = self.cgroup else { return Ok(()) };
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let members = openat(cgroup, c"cgroup.procs", flags, Mode::empty());
        let entered =
            members.and_then(|members| retry_on_intr(|| rustix::io::write(&members, b"0")));
        entered.map(drop).map_err(|errno| SpawnStep::Cgroup.failed(errno))
    }

    /// Gets its own file table; before that, it must neither open nor close a file.
    fn unshare_files(&self) -> Result<(), SpawnFailure> {
        let unshared = self.shares_files.map_or(Ok(()), unshare_files);
        unshared.map_err(|errno| SpawnStep::Files.failed(errno))
    }

    pub(crate) fn enter_directory(&self) -> Result<(), SpawnFailure> {
        fchdir(self.files.directory).map_err(|errno| SpawnStep::Directory.failed(errno))
    }
}

// The steps of a new process, and the failure of a step.

/// One step of a new process. If it fails, there is no job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpawnStep {
    Request,
    Clone,
    Cgroup,
    Files,
    Directory,
    Namespaces,
    UserMap,
    Network,
    Mounts,
    EnterDirectory,
    Session,
    Processes,
    Limits,
    User,
    Capabilities,
    Privileges,
    Landlock,
    Filter,
    Program,
}

impl SpawnStep {
    pub(crate) const ALL: [Self; 19] = [
        Self::Request,
        Self::Clone,
        Self::Cgroup,
        Self::Files,
        Self::Directory,
        Self::Namespaces,
        Self::UserMap,
        Self::Network,
        Self::Mounts,
        Self::EnterDirectory,
        Self::Session,
        Self::Processes,
        Self::Limits,
        Self::User,
        Self::Capabilities,
        Self::Privileges,
        Self::Landlock,
        Self::Filter,
        Self::Program,
    ];

    /// Returns the message for users if the step fails.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Request => "the process that creates jobs did not answer",
            Self::Clone => "no process could be created",
            Self::Cgroup => "it could not enter its cgroup",
            Self::Files => "its standard files could not be opened",
            Self::Directory => "its directory could not be entered",
            Self::Namespaces => "namespaces could not be made",
            Self::UserMap => "its user could not be mapped into the namespace",
            Self::Network => "its own network could not be made",
            Self::Mounts => "its view of the file system could not be made",
            Self::EnterDirectory => "its directory is not there in its view of the file system",
            Self::Session => "it got no session of its own",
            Self::Processes => "its own /proc could not be mounted",
            Self::Limits => "its limits could not be set",
            Self::User => "it could not become the user of its tenant",
            Self::Capabilities => "its privileges could not be given up",
            Self::Privileges => "it could not be kept from gaining privileges",
            Self::Landlock => "Landlock could not be applied",
            Self::Filter => "the filter of system calls could not be installed",
            Self::Program => "the program could not be executed",
        }
    }

    /// Converts an error of this step into a failed launch.
    pub(crate) fn failed(self, error: impl Into<io::Error>) -> SpawnFailure {
        let errno = Errno::from_io_error(&error.into()).unwrap_or(Errno::IO);
        SpawnFailure { step: self, errno }
    }
}

/// The step that failed and its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpawnFailure {
    pub(crate) step: SpawnStep,
    pub(crate) errno: Errno,
}

/// A process to create, without its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpawnRequest {
    pub(crate) path: CString,
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<EnvVariable>,
    /// The terminal that is its standard files, if it has one.
    pub(crate) terminal: Option<CString>,
    /// The tag of its tree, set before it can start other processes.
    pub(crate) tag: Option<ProcessTag>,
    /// The user that it becomes, if it is another one.
    pub(crate) user: Option<JobUser>,
    pub(crate) sandbox: SandboxRules,
}

/// The sandbox and the limits that a new process applies to itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxRules {
    pub(crate) confinement: Confinement,
    pub(crate) backend: Backend,
    pub(crate) sockets: SocketRules,
    pub(crate) limits: ResourceLimits,
    pub(crate) mounts: Vec<Mount>,
    /// The paths that Landlock lets it write; `None` if Landlock is not used.
    pub(crate) writable: Option<Vec<PathBuf>>,
    /// Processes and groups (as negative numbers) that it must not signal. Empty in a pid
    /// namespace, where its numbers mean other processes.
    pub(crate) protected_pids: Vec<i32>,
}

impl SandboxRules {
    /// Returns the rules for Landlock, if it is used.
    pub(crate) fn file_rules(&self) -> Option<FileRules> {
        // In its own network namespace a job's servers may listen.
        let network = match self.sockets.network {
            NetworkSockets::Any | NetworkSockets::OwnNamespace => NetworkAccess::On,
            NetworkSockets::Refused => NetworkAccess::Off,
        };
        self.writable.clone().map(|writable| FileRules { writable, network })
    }

    /// Returns the rules of its seccomp filter, if it has one.
    fn call_rules(&self) -> Option<SeccompRules> {
        match self.backend {
            Backend::Nothing => None,
            Backend::Namespaces | Backend::Landlock | Backend::Seccomp => Some(SeccompRules {
                profile: self.confinement.profile,
                sockets: self.sockets,
                protected_pids: self.protected_pids.clone(),
            }),
        }
    }
}

/// Compiled filters with their rules, the latest last.
#[derive(Debug, Default)]
pub(crate) struct FilterCache {
    known: Mutex<Vec<(SeccompRules, Arc<SeccompFilter>)>>,
}

/// The most filters that are kept: one for each confinement in use, times a few sets of our
/// threads.
const MOST_FILTERS: usize = 32;

impl FilterCache {
    /// Returns the filter with these rules.
    pub(crate) fn get(&self, rules: SeccompRules) -> io::Result<Arc<SeccompFilter>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, filters)) = known.iter().rev().find(|(known, _)| *known == rules) {
            return Ok(Arc::clone(filters));
        }
        let filters = Arc::new(seccomp::compile(&rules)?);
        if known.len() >= MOST_FILTERS {
            known.clear();
        }
        known.push((rules, Arc::clone(&filters)));
        Ok(filters)
    }
}

// System calls of a new process that have no safe wrapper.
//
// Some calls bypass the C library, whose wrappers may take a lock.

/// Duplicates a file to this number, and keeps it open after `exec`. A file that had the number is
/// closed.
pub(crate) fn duplicate_to(file: BorrowedFd<'_>, number: RawFd) -> Result<(), Errno> {
    if file.as_raw_fd() == number {
        // Copying it onto itself would change nothing, and `exec` would close it.
        return fcntl_setfd(file, FdFlags::empty());
    }
    // SAFETY: only numbers that a new process is to start with are assigned; nobody owns those.
    match unsafe { libc::dup2(file.as_raw_fd(), number) } {
        -1 => Err(last_error()),
        _ => Ok(()),
    }
}

/// Gives this process, which shares its parent's file table, its own table: with all files below
/// this number, and with the others only if the kernel cannot leave them out.
fn unshare_files(end: RawFd) -> Result<(), Errno> {
    const UNSHARE: c_int = libc::CLOSE_RANGE_UNSHARE.cast_signed();
    // SAFETY: both calls change the new table, which is this process's own; nobody owns the files
    // in it.
    let unshared = unsafe {
        libc::syscall(libc::SYS_close_range, end, u32::MAX, UNSHARE) == 0
            || libc::unshare(libc::CLONE_FILES) == 0
    };
    if unshared { Ok(()) } else { Err(last_error()) }
}

/// Ends this process at once, without flushing buffers or running destructors a second time.
pub(crate) fn exit_now(code: c_int) -> ! {
    // SAFETY: this ends the process without running any more of its code.
    unsafe { libc::_exit(code) }
}

/// A set of signals as the kernel has it: number N is bit N-1.
type SignalSet = u64;

/// The set of all signals.
pub(crate) const ALL_SIGNALS: SignalSet = SignalSet::MAX;

/// A guard: while it is held, no signal reaches this thread, nor a process that it creates.
#[derive(Debug)]
pub(crate) struct BlockedSignals {
    before: SignalSet,
}

impl BlockedSignals {
    pub(crate) fn block() -> Result<Self, Errno> {
        set_mask(ALL_SIGNALS).map(|before| Self { before })
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // This cannot fail: the mask was valid before.
        set_mask(self.before).ok();
    }
}

/// Gives these signals their default disposition, and then unblocks all signals: programs start
/// like that. If no other signal has a handler, no handler of the parent ever runs here.
fn reset_signals(which: SignalSet) -> Result<(), Errno> {
    for signal in signal_numbers(which) {
        // Two of them always have the default, and return an error.
        set_sigaction(signal, Some(&DEFAULT), None).ok();
    }
    set_mask(0).map(drop)
}

/// Returns the signals that this process ignores, as of the first call: a process that ignores a
/// signal does so from the start.
pub(crate) fn ignored_signals() -> SignalSet {
    static IGNORED: OnceLock<SignalSet> = OnceLock::new();
    *IGNORED.get_or_init(|| {
        let is_ignored = |signal: &c_int| {
            let mut now = DEFAULT;
            set_sigaction(*signal, None, Some(&mut now)).is_ok() && now[0] == libc::SIG_IGN as u64
        };
        // We ignore these two, sooner or later.
        let ours = [libc::SIGPIPE, libc::SIGXFSZ].into_iter();
        let all = signal_numbers(ALL_SIGNALS).filter(is_ignored).chain(ours);
        all.fold(0, |set, signal| set | 1 << (signal - 1))
    })
}

fn signal_numbers(set: SignalSet) -> impl Iterator<Item = c_int> {
    (1..=SignalSet::BITS).filter(move |number| set & 1 << (number - 1) != 0).map(u32::cast_signed)
}

/// The kernel's `struct sigaction`: the handler comes first.
type KernelSigaction = [u64; 4];

/// All zeroes: no handler, no flags, no mask.
const DEFAULT: KernelSigaction = [0; 4];

fn set_sigaction(
    signal: c_int,
    new: Option<&KernelSigaction>,
    old: Option<&mut KernelSigaction>,
) -> Result<(), Errno> {
    // SAFETY: the kernel reads and writes only these bytes, and nothing for a null pointer.
    let set = unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            new.map_or(ptr::null(), ptr::from_ref),
            old.map_or(ptr::null_mut(), ptr::from_mut),
            size_of::<SignalSet>(),
        )
    };
    if set == 0 { Ok(()) } else { Err(last_error()) }
}

/// Blocks these signals and no others, and returns those that were blocked before.
fn set_mask(blocked: SignalSet) -> Result<SignalSet, Errno> {
    let mut before: SignalSet = 0;
    // SAFETY: both pointers are to live sets of the given size.
    let set = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const blocked,
            &raw mut before,
            size_of::<SignalSet>(),
        )
    };
    if set == 0 { Ok(before) } else { Err(last_error()) }
}
