//! The spawner process itself: serves one launch after the other.
#![expect(unsafe_code, reason = "clone, unshare and close_range have no safe wrappers")]

use std::convert::Infallible;
use std::ffi::{OsStr, OsString, c_int, c_long, c_short};
use std::fs::OpenOptions;
use std::io;
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    DumpableBehavior, Pid, WaitOptions, chdir, getcwd, getgid, getuid, set_dumpable_behavior,
    waitpid,
};
use rustix::thread::{UnshareFlags, set_name, set_no_new_privs};

use crate::child_defaults;
use crate::child_steps::{
    ChildSetup, FilterCache, SpawnFailure, SpawnStep, StandardFiles, become_leader, duplicate_to,
    execute, exit_now,
};
use crate::confinement::NetworkAccess;
use crate::job_user::JobUser;
use crate::sandbox::{mounts, restrictions};
use crate::spawner_wire::{self, ReceivedFiles, SpawnerNote, SpawnerRequest};
use crate::syscalls::last_error;
use crate::vfork_spawn::{CloneArgs, INTO_CGROUP, StackPool, VforkChild, spawn_sibling_and_wait};

/// The first argument that makes the program a spawner.
pub(crate) const SPAWNER_ARG: &str = "__spawner";

/// Runs the spawner if the program's arguments (without its name) say so: creates what the server
/// requests until the server is gone, and returns the exit code. `None` for every other call.
///
/// Must be called before anything else in `main`: a spawner has one thread.
pub(crate) fn spawner_main(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    args.into_iter().next().filter(|first| first == SPAWNER_ARG)?;
    let served = prepare_process().and_then(|()| Ok(serve(rustix::stdio::stdin())?));
    Some(if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sets what every job inherits, here once and not in each of them.
fn prepare_process() -> io::Result<()> {
    close_from(3);
    set_name(c"shellyard-spawn")?;
    // Any process may raise its score; without it jobs and server are equals.
    child_defaults::raise_own_score().ok();
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

fn serve(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let filters = FilterCache::default();
    let stacks = StackPool::default();
    while let Some(request_bytes) = spawner_wire::receive_request(socket)? {
        let answer =
            create_maker(request_bytes, &filters, &stacks).unwrap_or_else(SpawnerNote::Failed);
        spawner_wire::send_answer(socket, answer)?;
    }
    Ok(())
}

/// Creates the maker of a launch. Its files are closed here afterwards.
fn create_maker(
    request_bytes: SpawnerRequest,
    filters: &FilterCache,
    stacks: &StackPool,
) -> Result<SpawnerNote, SpawnFailure> {
    let malformed = || SpawnStep::Request.failed(Errno::PROTO);
    let (request, roles) = spawner_wire::decode(&request_bytes.bytes).ok_or_else(malformed)?;
    drop(request_bytes.bytes);
    let files = ReceivedFiles::sort(&roles, request_bytes.files).ok_or_else(malformed)?;
    let setup = ChildSetup::prepare(&request, files.leader_files(), filters)?;
    match files.cgroup.as_ref().map(|cgroup| fork_sibling_in_cgroup(cgroup.as_fd())) {
        Some(Ok(ForkResult::Child)) => run_maker(&setup, &files, stacks),
        Some(Ok(ForkResult::Parent(maker))) => Ok(SpawnerNote::Maker(maker)),
        Some(Err(_)) | None => create_maker_outside_cgroup(setup, &files, stacks),
    }
}

/// Creates a maker that enters its cgroup by itself.
fn create_maker_outside_cgroup<'a>(
    mut setup: ChildSetup<'a>,
    files: &'a ReceivedFiles,
    stacks: &StackPool,
) -> Result<SpawnerNote, SpawnFailure> {
    setup.cgroup = files.cgroup.as_ref().map(OwnedFd::as_fd);
    match fork_sibling().map_err(|errno| SpawnStep::Clone.failed(errno))? {
        ForkResult::Child => run_maker(&setup, files, stacks),
        ForkResult::Parent(maker) => Ok(SpawnerNote::Maker(maker)),
    }
}

// The three processes of a launch with namespaces.
//
// The *maker* leaves the server's namespaces for new ones and sets up their file system. A process
// can put only its children into a pid namespace: so it creates two siblings there, the *init*,
// with which the namespace ends, and the leader. Then it exits.

/// Runs a maker.
fn run_maker(setup: &ChildSetup<'_>, files: &ReceivedFiles, stacks: &StackPool) -> ! {
    match try_run_maker(setup, files, stacks) {
        Ok(()) => exit_now(0),
        Err(failure) => report_failure(&files.notes, failure),
    }
}

/// Reports why there is no job, and exits.
fn report_failure(notes: &OwnedFd, failure: SpawnFailure) -> ! {
    send_note(notes, SpawnerNote::Failed(failure));
    exit_now(1)
}

fn send_note(notes: &OwnedFd, note: SpawnerNote) {
    // Without a server nobody reads it, and the job ends with its pipes.
    retry_on_intr(|| rustix::io::write(notes, &note.encode())).ok();
}

fn try_run_maker(
    setup: &ChildSetup<'_>,
    files: &ReceivedFiles,
    stacks: &StackPool,
) -> Result<(), SpawnFailure> {
    setup.enter_cgroup()?;
    let standard = StandardFiles::open(setup)?;
    // Done before the new mount namespace, where this directory would still be the old one's.
    setup.enter_directory()?;
    let place = getcwd(Vec::new()).map_err(|errno| SpawnStep::Directory.failed(errno))?;
    enter_new_namespaces(setup.sandbox().confinement.network, setup.request.user.as_ref())?;
    standard.show_terminal().map_err(|errno| SpawnStep::Files.failed(errno))?;
    mounts::apply_mounts(&setup.sandbox().mounts)
        .map_err(|error| SpawnStep::Mounts.failed(error))?;
    let place = Path::new(OsStr::from_bytes(place.to_bytes()));
    mounts::enter_directory(setup.files.directory, place)
        .map_err(|error| SpawnStep::EnterDirectory.failed(error))?;
    // The ruleset must refer to what the job sees.
    let ruleset =
        setup.sandbox().file_rules().map(|rules| restrictions::build_ruleset(&rules)).transpose();
    let ruleset = ruleset.map_err(|error| SpawnStep::Landlock.failed(error))?;
    let failed = |errno| SpawnStep::Clone.failed(errno);
    let init = match fork_sibling().map_err(failed)? {
        ForkResult::Child => run_init(setup, files),
        ForkResult::Parent(init) => init,
    };
    let ruleset = ruleset.as_ref().map(OwnedFd::as_fd);
    let leader = spawn_sibling_and_wait(
        stacks,
        &LeaderContext { setup, standard, ruleset, notes: &files.notes },
    );
    // Both are sent now, so that the server need not wake up for each.
    send_note(&files.notes, SpawnerNote::Init(init));
    send_note(&files.notes, SpawnerNote::Leader(leader.map_err(failed)?));
    Ok(())
}

fn enter_new_namespaces(
    network: NetworkAccess,
    job_user: Option<&JobUser>,
) -> Result<(), SpawnFailure> {
    let user = getuid();
    let group = getgid();
    let failed = |error: io::Error| SpawnStep::UserMap.failed(error);
    let mapper = job_user.map(UserMapper::start).transpose().map_err(failed)?;
    let mut flags = UnshareFlags::NEWUSER
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS;
    match network {
        NetworkAccess::On => {}
        NetworkAccess::Off => flags |= UnshareFlags::NEWNET,
    }
    unshare(flags).map_err(|errno| SpawnStep::Namespaces.failed(errno))?;
    match mapper {
        Some(mapper) => mapper.finish(),
        None => map_users(user.as_raw(), group.as_raw()),
    }
    .map_err(failed)?;
    match network {
        NetworkAccess::On => Ok(()),
        // The job can reach the servers of its own tests; nobody else can.
        NetworkAccess::Off => bring_up_loopback().map_err(|errno| SpawnStep::Network.failed(errno)),
    }
}

/// Maps our user and group, and no others, into the namespace.
fn map_users(user: u32, group: u32) -> io::Result<()> {
    // The files in /proc of a process that is not dumpable belong to root.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("{user} {user} 1"))?;
    write("/proc/self/gid_map", &format!("{group} {group} 1"))?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// A process that stays outside of the new user namespace and maps a second user into it: only from
/// there is more than one's own user allowed.
#[derive(Debug)]
struct UserMapper {
    process: Pid,
    /// Our end: a byte from us says that the namespace exists, one from the process that it is mapped.
    socket: OwnedFd,
}

impl UserMapper {
    fn start(user: &JobUser) -> io::Result<Self> {
        let (ours, theirs) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )?;
        let lines = |own: u32, others: &[u32]| {
            let mut ids: Vec<u32> = [own].iter().chain(others).copied().collect();
            ids.sort_unstable();
            ids.dedup();
            ids.into_iter().map(|id| format!("{id} {id} 1\n")).collect::<String>()
        };
        let users = lines(getuid().as_raw(), &[user.uid]);
        let groups = lines(getgid().as_raw(), &[&[user.gid][..], &user.groups].concat());
        let maker = rustix::process::getpid();
        match fork_child()? {
            ForkResult::Parent(process) => Ok(Self { process, socket: ours }),
            ForkResult::Child => {
                // It would see no end of ours otherwise.
                drop(ours);
                let mut order = [0];
                let is_ordered =
                    retry_on_intr(|| rustix::io::read(&theirs, &mut order)).is_ok_and(|n| n == 1);
                let of_maker = |name: &str| format!("/proc/{maker}/{name}");
                let mapped = is_ordered
                    && write(&of_maker("uid_map"), &users).is_ok()
                    && write(&of_maker("gid_map"), &groups).is_ok();
                rustix::io::write(&theirs, &[u8::from(mapped)]).ok();
                exit_now(0)
            }
        }
    }

    /// Maps the users into the namespace that this process has entered meanwhile.
    fn finish(self) -> io::Result<()> {
        // The files in /proc of a process that is not dumpable belong to root.
        set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        let mut answer = [0];
        rustix::io::write(&self.socket, &[1])?;
        let answered = retry_on_intr(|| rustix::io::read(&self.socket, &mut answer));
        // The kernel may reap our children by itself.
        waitpid(Some(self.process), WaitOptions::empty()).ok();
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        if answered? == 1 && answer == [1] { Ok(()) } else { Err(Errno::PERM.into()) }
    }
}

fn write(path: &str, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

/// Runs the init: waits until the server closes the lifeline, or is gone. Every process of the
/// namespace ends with it.
fn run_init(setup: &ChildSetup<'_>, files: &ReceivedFiles) -> ! {
    ignore_children();
    let kept = drop_all_but_lifeline(setup, files);
    while kept.is_ok() {
        let mut nothing = [0; 8];
        match retry_on_intr(|| rustix::io::read(rustix::stdio::stdin(), &mut nothing)) {
            Ok(1..) => {}
            Ok(0) | Err(_) => break,
        }
    }
    exit_now(0)
}

/// Drops everything else. Jobs see this process as pid 1: it has no files, no privileges and no
/// readable memory.
fn drop_all_but_lifeline(setup: &ChildSetup<'_>, files: &ReceivedFiles) -> io::Result<()> {
    // Done while it holds the notes: a reader that has read them to their end finds no second
    // spawner.
    set_name(c"shellyard-init")?;
    duplicate_to(files.lifeline.as_fd(), 0)?;
    close_from(1);
    chdir("/")?;
    set_no_new_privs(true)?;
    restrictions::drop_capabilities(setup.sandbox().confinement.profile)?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// The input of a leader.
#[derive(Debug)]
struct LeaderContext<'a> {
    setup: &'a ChildSetup<'a>,
    standard: StandardFiles,
    ruleset: Option<BorrowedFd<'a>>,
    notes: &'a OwnedFd,
}

impl VforkChild for LeaderContext<'_> {
    fn run(&self) -> ! {
        let Err(failure) = prepare_and_execute(self);
        report_failure(self.notes, failure)
    }
}

fn prepare_and_execute(context: &LeaderContext<'_>) -> Result<Infallible, SpawnFailure> {
    // The mounting process determines which pid namespace /proc shows.
    mounts::mount_proc().map_err(|error| SpawnStep::Processes.failed(error))?;
    become_leader(context.setup, &context.standard)?;
    execute(context.setup, context.ruleset)
}

// System calls of the spawner that have no safe wrapper.

/// The result of [`fork_sibling`] in each of the two processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ForkResult {
    /// The calling process; the new one has this pid.
    Parent(Pid),
    /// The new process.
    Child,
}

/// Creates a copy of this process that is a child of our own parent.
///
/// Only for the spawner and its descendants: they have one thread.
fn fork_sibling() -> Result<ForkResult, Errno> {
    const FLAGS: c_long = (libc::CLONE_PARENT | libc::SIGCHLD) as c_long;
    const NONE: c_long = 0;
    // SAFETY: without CLONE_VM and without a stack this is `fork`: the new process has its own copy
    // of all memory. There is one thread, so no lock is held by a thread that does not exist there.
    fork_result(unsafe { libc::syscall(libc::SYS_clone, FLAGS, NONE, NONE, NONE, NONE) })
}

/// Creates a copy of this process that is its child.
///
/// Only for the spawner and its descendants, as above.
fn fork_child() -> Result<ForkResult, Errno> {
    const FLAGS: c_long = libc::SIGCHLD as c_long;
    const NONE: c_long = 0;
    // SAFETY: as in `fork_sibling`.
    fork_result(unsafe { libc::syscall(libc::SYS_clone, FLAGS, NONE, NONE, NONE, NONE) })
}

/// Creates the copy in the cgroup of this directory. Older kernels and some containers refuse this.
///
/// Moving there later costs much more: the kernel first waits until every processor has left its
/// current critical section, which takes milliseconds.
fn fork_sibling_in_cgroup(cgroup: BorrowedFd<'_>) -> Result<ForkResult, Errno> {
    let args = CloneArgs {
        flags: u64::from(libc::CLONE_PARENT.cast_unsigned()) | INTO_CGROUP,
        // With this flag the signal is that of our own creation, and none may be given.
        exit_signal: 0,
        cgroup: u64::try_from(cgroup.as_raw_fd()).map_err(|_| Errno::BADF)?,
        ..CloneArgs::default()
    };
    // SAFETY: as in `fork_sibling`; the kernel reads only the given number of bytes of `args`.
    fork_result(unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) })
}

fn fork_result(number: c_long) -> Result<ForkResult, Errno> {
    if number == 0 {
        return Ok(ForkResult::Child);
    }
    let pid = i32::try_from(number).ok().filter(|number| *number > 0);
    pid.and_then(Pid::from_raw).map(ForkResult::Parent).ok_or_else(last_error)
}

/// Puts this process, or its future children, into new namespaces.
pub(crate) fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: the flags are namespaces only, so no file table is unshared; there is one thread.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Brings up the loopback interface of this network namespace.
///
/// The kernel gives it the addresses 127.0.0.1 and ::1 by itself.
fn bring_up_loopback() -> Result<(), Errno> {
    let kind = rustix::net::SocketType::DGRAM;
    let flags = rustix::net::SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(rustix::net::AddressFamily::INET, kind, flags, None)?;
    // SAFETY: all zeroes is a valid interface request without a name and without flags.
    let mut interface: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in interface.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    let up = c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).map_err(|_| Errno::INVAL)?;
    interface.ifr_ifru.ifru_flags = up;
    // SAFETY: the kernel reads the interface's name and flags, which live through the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const interface) };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

/// Closes every file from this number on. Only for callers that no longer use any of them.
fn close_from(number: u32) {
    // SAFETY: the callers own no file from this number on, or never touch those again: the init of
    // a namespace, which only reads file 0, and a spawner that has just started.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, number, u32::MAX, 0) };
    if closed != 0 {
        close_one_by_one(number);
    }
}

/// Does the same before Linux 5.9.
fn close_one_by_one(first: u32) {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = u32::try_from(most.unwrap_or(1 << 16)).unwrap_or(1 << 16);
    for number in (first..most).filter_map(|number| c_int::try_from(number).ok()) {
        // SAFETY: as above; closing an unused number is harmless.
        unsafe { libc::close(number) };
    }
}

/// Lets the kernel reap our children by itself.
fn ignore_children() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Unit tests start the spawner from their own program, whose `main` is not ours. So it becomes a
/// spawner before `main` if its arguments say so.
#[cfg(test)]
#[used]
// SAFETY: the loader calls each function in this section once, before `main`, on the only thread;
// the standard library has read the arguments by then.
#[unsafe(link_section = ".init_array")]
static TEST_SPAWNER: extern "C" fn() = {
    extern "C" fn run_spawner_if_requested() {
        if spawner_main(std::env::args_os().skip(1)).is_some() {
            exit_now(0);
        }
    }
    run_spawner_if_requested
};
