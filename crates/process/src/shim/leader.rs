//! The job's first process, from its creation to its program.
#![expect(unsafe_code, reason = "execve, dup2 and signal calls have no safe wrappers")]

use std::convert::Infallible;
use std::ffi::{CString, c_int};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::ptr;

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::{Errno, FdFlags, fcntl_setfd, read, retry_on_intr, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Resource, fchdir, getrlimit, ioctl_tiocsctty, setrlimit, setsid};
use rustix::thread::set_no_new_privs;

use super::gate::{ExecGate, GatedLeader, LeaderStart};
use super::namespaces::{self, ForkResult, Isolation, KeeperIds};
use super::plan::ShimPlan;
use super::protocol::Role;
use crate::confinement::Backend;
use crate::launch::REPORT_FD;
use crate::own_process::limit_open_files;
use crate::sandbox::seccomp_filter::SeccompFilter;
use crate::sandbox::{kernel_settings, mounts, restrictions, seccomp};
use crate::spawn_request::{SpawnFailure, SpawnRequest, SpawnStep};
use crate::syscalls::{last_error, pointers};

/// The files of a job as the server gave them.
pub(super) type GivenFiles = Vec<(Role, OwnedFd)>;

/// A first process that was created.
#[derive(Debug)]
pub(super) struct NewLeader {
    pub(super) pid: Pid,
    /// The pipe through which it reports a failure. It ends when the program runs.
    pub(super) failure: OwnedFd,
    /// The shim's part of the exec gate, if the job has one.
    pub(super) gate: Option<ExecGate>,
}

/// Everything that a first process needs, prepared before it is created.
#[derive(Debug)]
struct LeaderSetup<'a> {
    plan: &'a ShimPlan,
    files: &'a GivenFiles,
    standard: StandardFiles,
    ruleset: Option<OwnedFd>,
    /// The settings of the kernel that it must not write.
    kernel_settings: Vec<CString>,
    /// Refuses signals to the shim, where numbers mean the same to the job.
    guard: SeccompFilter,
    /// The cgroup that it still has to enter.
    cgroup: Option<BorrowedFd<'a>>,
    gate: Option<GatedLeader>,
}

/// Creates the first process of a job. Sets up the namespaces of this shim before, if it has its own.
pub(super) fn start(
    plan: &ShimPlan,
    files: &GivenFiles,
    cgroup: Option<BorrowedFd<'_>>,
    ids: KeeperIds,
) -> Result<NewLeader, SpawnFailure> {
    if let Isolation::Namespaces(network) = plan.isolation {
        namespaces::set_up(network, ids, plan.request.user.is_some())?;
    }
    // Only now may this process open a terminal that belongs to another user.
    let standard =
        StandardFiles::open(plan, files).map_err(|errno| SpawnStep::Files.failed(errno))?;
    if plan.isolation != Isolation::None {
        enter_view(plan, files, &standard)?;
    }
    let sandbox = &plan.request.sandbox;
    // The ruleset must refer to what the job sees.
    let ruleset = sandbox.file_rules().map(|rules| restrictions::build_ruleset(&rules)).transpose();
    let ruleset = ruleset.map_err(|error| SpawnStep::Landlock.failed(error))?;
    let guard = match (plan.isolation, sandbox.backend) {
        (Isolation::None, Backend::Landlock | Backend::Seccomp) => {
            // The shim leads a group of its own.
            let own = rustix::process::getpid().as_raw_nonzero().get();
            seccomp::compile_signal_guard(&[own, -own])
        }
        (Isolation::None | Isolation::Namespaces(_), _) => Ok(SeccompFilter::default()),
    };
    let guard = guard.map_err(|error| SpawnStep::Filter.failed(error))?;
    let (profile, backend) = (sandbox.confinement.profile, sandbox.backend);
    let kernel_settings = if kernel_settings::are_at_stake(profile, backend) {
        let found = kernel_settings::find_kernel_settings();
        found.map_err(|error| SpawnStep::Mounts.failed(error))?
    } else {
        Vec::new()
    };
    let (mut gate, leader_gate) = prepare_gate(plan, files)?.unzip();
    let mut setup = LeaderSetup {
        plan,
        files,
        standard,
        ruleset,
        kernel_settings,
        guard,
        cgroup: None,
        gate: leader_gate,
    };
    let failed = |errno| SpawnStep::Clone.failed(errno);
    let (failure, report) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    let forked = match cgroup.map(namespaces::fork_in_cgroup) {
        Some(Ok(forked)) => forked,
        Some(Err(_)) | None => {
            setup.cgroup = cgroup;
            namespaces::fork(Isolation::None).map_err(failed)?
        }
    };
    match forked {
        ForkResult::Child => {
            let Err(failure) = setup.run();
            if let Ok(bytes) = postcard::to_stdvec(&failure) {
                retry_on_intr(|| write(&report, &bytes)).ok();
            }
            exit_now(1)
        }
        ForkResult::Parent(pid) => {
            gate.iter_mut().for_each(|gate| gate.set_leader(pid));
            Ok(NewLeader { pid, failure, gate })
        }
    }
}

/// Prepares the exec gate, if the job has one.
fn prepare_gate(
    plan: &ShimPlan,
    files: &GivenFiles,
) -> Result<Option<(ExecGate, GatedLeader)>, SpawnFailure> {
    let Some(rules) = &plan.gate else { return Ok(None) };
    let directory = match plan.isolation {
        Isolation::None => find(files, Role::Directory)
            .ok_or(Errno::BADF)
            .and_then(|directory| directory.try_clone_to_owned().map_err(|_| Errno::MFILE)),
        // This process has entered it.
        Isolation::Namespaces(_) => {
            open(".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        }
    };
    let directory = directory.map_err(|errno| SpawnStep::Directory.failed(errno))?;
    let SpawnRequest { path, argv, env, .. } = plan.request.clone();
    ExecGate::new(rules, LeaderStart { path, argv, env, directory }).map(Some)
}

/// Reads the failure of a first process; `None` if it runs its program, or has ended before.
pub(super) fn read_failure(pipe: &OwnedFd) -> Option<SpawnFailure> {
    let mut bytes = [0; 64];
    let length = retry_on_intr(|| read(pipe, &mut bytes)).ok()?;
    postcard::from_bytes(bytes.get(..length).filter(|bytes| !bytes.is_empty())?).ok()
}

/// Makes the file system of a job in its own mount namespace, and enters its directory.
fn enter_view(
    plan: &ShimPlan,
    files: &GivenFiles,
    standard: &StandardFiles,
) -> Result<(), SpawnFailure> {
    standard.show_terminal().map_err(|errno| SpawnStep::Files.failed(errno))?;
    mounts::apply_mounts(&plan.request.sandbox.mounts)
        .map_err(|error| SpawnStep::Mounts.failed(error))?;
    let directory = find(files, Role::Directory).ok_or(SpawnStep::Directory.failed(Errno::BADF))?;
    mounts::enter_directory(directory, &plan.directory)
        .map_err(|error| SpawnStep::EnterDirectory.failed(error))?;
    mounts::mount_proc().map_err(|error| SpawnStep::Processes.failed(error))
}

fn find(files: &GivenFiles, role: Role) -> Option<BorrowedFd<'_>> {
    files.iter().find(|(known, _)| *known == role).map(|(_, file)| file.as_fd())
}

impl LeaderSetup<'_> {
    /// Runs all steps, in the new process.
    fn run(&self) -> Result<Infallible, SpawnFailure> {
        if self.plan.isolation == Isolation::None {
            let directory = find(self.files, Role::Directory);
            directory
                .ok_or(Errno::BADF)
                .and_then(fchdir)
                .map_err(|errno| SpawnStep::Directory.failed(errno))?;
        }
        self.enter_cgroup()?;
        kernel_settings::protect_kernel_settings(&self.kernel_settings)
            .map_err(|errno| SpawnStep::Mounts.failed(errno))?;
        setsid().map_err(|errno| SpawnStep::Session.failed(errno))?;
        self.standard.take(self.files).map_err(|errno| SpawnStep::Files.failed(errno))?;
        unblock_signals().map_err(|errno| SpawnStep::Session.failed(errno))?;
        self.restrict()?;
        let request = &self.plan.request;
        let (argv, env) = (pointers(&request.argv), pointers(&request.env));
        // SAFETY: the request owns all strings, each NUL-terminated; `pointers` ends both arrays with
        // a null pointer.
        unsafe { libc::execve(request.path.as_ptr(), argv.as_ptr().cast(), env.as_ptr().cast()) };
        // It returns only if it failed.
        Err(SpawnStep::Program.failed(last_error()))
    }

    fn enter_cgroup(&self) -> Result<(), SpawnFailure> {
        let Some(cgroup) = self.cgroup else { return Ok(()) };
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let members = openat(cgroup, c"cgroup.procs", flags, Mode::empty());
        let entered = members.and_then(|members| retry_on_intr(|| write(&members, b"0")));
        entered.map(drop).map_err(|errno| SpawnStep::Cgroup.failed(errno))
    }

    /// Enters the sandbox: by Landlock if there is a ruleset, and by the seccomp filters last.
    fn restrict(&self) -> Result<(), SpawnFailure> {
        let ShimPlan { request, filters, max_tasks, open_files, .. } = self.plan;
        let sandbox = &request.sandbox;
        // The shim may have more files open.
        let open_files = limit_open_files(*open_files, getrlimit(Resource::Nofile).maximum);
        setrlimit(Resource::Nofile, open_files).map_err(|errno| SpawnStep::Limits.failed(errno))?;
        restrictions::apply_limits(&sandbox.limits, *max_tasks)
            .map_err(|error| SpawnStep::Limits.failed(error))?;
        // After everything that needs the server's rights, and before they are given up.
        if let Some(user) = &request.user {
            user.become_user().map_err(|errno| SpawnStep::User.failed(errno))?;
        }
        restrictions::drop_capabilities(sandbox.confinement.profile)
            .map_err(|error| SpawnStep::Capabilities.failed(error))?;
        if sandbox.backend == Backend::Nothing && self.gate.is_none() {
            return Ok(());
        }
        set_no_new_privs(true).map_err(|errno| SpawnStep::Privileges.failed(errno))?;
        // Before the sandbox's own filters, which could refuse what it needs. Of the answers of several
        // filters the kernel takes the strictest, so their order does not matter.
        if let Some(gate) = &self.gate {
            gate.install().map_err(|errno| SpawnStep::Gate.failed(errno))?;
        }
        if let Some(ruleset) = &self.ruleset {
            restrictions::restrict_self(ruleset.as_fd())
                .map_err(|errno| SpawnStep::Landlock.failed(errno))?;
        }
        seccomp::install(&self.guard)
            .and_then(|()| seccomp::install(filters))
            .map_err(|error| SpawnStep::Filter.failed(error))
    }
}

/// The source of standard input, and of both outputs if they are not pipes of their own.
///
/// Opened before the sandbox applies: a job may not be able to open it by itself.
#[derive(Debug)]
enum StandardFiles {
    Terminal(OwnedFd),
    Nothing(OwnedFd),
    Provided,
}

impl StandardFiles {
    fn open(plan: &ShimPlan, files: &GivenFiles) -> Result<Self, Errno> {
        let flags = OFlags::CLOEXEC | OFlags::NOCTTY;
        match &plan.request.terminal {
            Some(path) => open(path, flags | OFlags::RDWR, Mode::empty()).map(Self::Terminal),
            None if find(files, Role::Stdin).is_none() => {
                open(c"/dev/null", flags | OFlags::RDONLY, Mode::empty()).map(Self::Nothing)
            }
            None => Ok(Self::Provided),
        }
    }

    /// Makes a terminal the standard input: the job finds it in its own /dev.
    fn show_terminal(&self) -> Result<(), Errno> {
        match self {
            Self::Terminal(terminal) => duplicate_to(terminal.as_fd(), 0),
            Self::Nothing(_) | Self::Provided => Ok(()),
        }
    }

    /// Puts every file under the number that a program expects.
    fn take(&self, files: &GivenFiles) -> Result<(), Errno> {
        let stdout = find(files, Role::Stdout);
        let pipes = [stdout, find(files, Role::Stderr).or(stdout)];
        let (stdin, outputs) = match self {
            Self::Terminal(terminal) => {
                ioctl_tiocsctty(terminal)?;
                (Some(terminal.as_fd()), [Some(terminal.as_fd()); 2])
            }
            Self::Nothing(null) => (Some(null.as_fd()), pipes),
            Self::Provided => (find(files, Role::Stdin), pipes),
        };
        for (number, file) in (0..).zip([stdin].into_iter().chain(outputs)) {
            duplicate_to(file.ok_or(Errno::BADF)?, number)?;
        }
        match find(files, Role::Report).map_or(Ok(()), |file| duplicate_to(file, REPORT_FD)) {
            // So few files may be open that there is no such number: no report is better than no job.
            Err(Errno::BADF) => Ok(()),
            done => done,
        }
    }
}

/// Duplicates a file to this number, and keeps it open after `exec`. A file that had the number is
/// closed.
pub(super) fn duplicate_to(file: BorrowedFd<'_>, number: RawFd) -> Result<(), Errno> {
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

/// Ends this process at once, without flushing buffers or running destructors a second time.
pub(super) fn exit_now(code: c_int) -> ! {
    // SAFETY: this ends the process without running any more of its code.
    unsafe { libc::_exit(code) }
}

/// Unblocks all signals: programs start like that. All have their default disposition, which the keeper
/// has given them.
fn unblock_signals() -> Result<(), Errno> {
    let none: u64 = 0;
    // SAFETY: the kernel reads only this set.
    let done = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const none,
            ptr::null_mut::<u64>(),
            size_of::<u64>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

#[cfg(test)]
mod tests {
    use rustix::io::fcntl_getfd;

    use super::*;

    #[test]
    fn a_file_that_has_its_number_already_stays_open_for_the_program() {
        let (file, _) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        duplicate_to(file.as_fd(), file.as_raw_fd()).unwrap();
        assert_eq!(fcntl_getfd(&file), Ok(FdFlags::empty()));
    }
}
