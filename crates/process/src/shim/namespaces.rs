//! Creating a shim, in namespaces of its own if the job gets some.
#![expect(unsafe_code, reason = "clone3, kill and an ioctl have no safe wrappers")]

use std::collections::BTreeSet;
use std::ffi::{c_long, c_short};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{DumpableBehavior, Pid, Signal, set_dumpable_behavior};
use serde::{Deserialize, Serialize};

use crate::confinement::NetworkAccess;
use crate::job_user::JobUser;
use crate::spawn_request::{SpawnFailure, SpawnStep};
use crate::syscalls::last_error;

/// The namespaces of a job and its shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Isolation {
    /// The namespaces of the keeper.
    None,
    /// Users, processes, mounts, IPC and the host name; the network as well if it is off.
    Namespaces(NetworkAccess),
}

impl Isolation {
    const fn flags(self) -> i32 {
        const OWN: i32 = libc::CLONE_NEWUSER
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS;
        match self {
            Self::None => 0,
            Self::Namespaces(NetworkAccess::On) => OWN,
            Self::Namespaces(NetworkAccess::Off) => OWN | libc::CLONE_NEWNET,
        }
    }
}

/// The result of [`fork`] in each of the two processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForkResult {
    /// The calling process; the new one has this pid.
    Parent(Pid),
    /// The new process, in its namespaces.
    Child,
}

/// CLONE_INTO_CGROUP, which the libc crate has as a number that is too short.
const INTO_CGROUP: u64 = 0x2_0000_0000;

/// The arguments of `clone3`, as of Linux 5.7.
#[repr(C)]
#[derive(Debug, Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Copies this process, which must have one thread, into these namespaces.
pub(crate) fn fork(isolation: Isolation) -> Result<ForkResult, Errno> {
    const NONE: c_long = 0;
    let flags = c_long::from(isolation.flags() | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and without a stack this is `fork`: the new process has its own copy
    // of all memory. There is one thread, so no lock is held by a thread that does not exist there.
    fork_result(unsafe { libc::syscall(libc::SYS_clone, flags, NONE, NONE, NONE, NONE) })
}

/// Copies this process, which must have one thread, into the cgroup of this directory. Older kernels
/// and some containers refuse this.
///
/// Moving there later costs much more: the kernel first waits until every processor has left its
/// current critical section, which takes milliseconds.
pub(super) fn fork_in_cgroup(cgroup: BorrowedFd<'_>) -> Result<ForkResult, Errno> {
    let args = CloneArgs {
        flags: INTO_CGROUP,
        exit_signal: u64::from(libc::SIGCHLD.cast_unsigned()),
        cgroup: u64::try_from(cgroup.as_raw_fd()).map_err(|_| Errno::BADF)?,
        ..CloneArgs::default()
    };
    // SAFETY: as in `fork`; the kernel reads only the given number of bytes of `args`.
    fork_result(unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) })
}

fn fork_result(number: c_long) -> Result<ForkResult, Errno> {
    if number == 0 {
        return Ok(ForkResult::Child);
    }
    let pid = i32::try_from(number).ok().filter(|number| *number > 0);
    pid.and_then(Pid::from_raw).map(ForkResult::Parent).ok_or_else(last_error)
}

/// Sends a signal to every other process of this pid namespace, of which this is the first process.
pub(super) fn signal_all(signal: Signal) {
    // SAFETY: the call takes two numbers and touches no memory.
    unsafe { libc::kill(-1, signal.as_raw()) };
}

/// The user and the group of the keeper, as numbers. In a new user namespace they cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeeperIds {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// The users and groups that a keeper of root maps into the namespace of a job with a user of its own: a
/// process inside may map its own user alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MappedIds {
    users: Vec<u32>,
    groups: Vec<u32>,
}

impl MappedIds {
    /// Returns those of the keeper and of this user.
    pub(crate) fn new(user: &JobUser) -> Self {
        let groups = [&[user.gid][..], &user.groups].concat();
        Self { users: vec![user.uid], groups }
    }

    /// Maps them, and the keeper's own, into the namespace of this process.
    pub(crate) fn map_into(&self, shim: Pid, ids: KeeperIds) -> io::Result<()> {
        let lines = |own: u32, others: &[u32]| {
            let all: BTreeSet<u32> = [own].iter().chain(others).copied().collect();
            all.into_iter().map(|id| format!("{id} {id} 1\n")).collect::<String>()
        };
        // In this order: the shim waits for the users.
        write(&format!("/proc/{shim}/gid_map"), &lines(ids.group, &self.groups))?;
        write(&format!("/proc/{shim}/uid_map"), &lines(ids.user, &self.users))
    }
}

/// The longest wait of a shim for its keeper's mapping, and the pause between two looks.
const MAP_LIMIT: Duration = Duration::from_secs(5);
const MAP_PAUSE: Duration = Duration::from_micros(200);

fn wait_for_mapping() -> io::Result<()> {
    let deadline = Instant::now() + MAP_LIMIT;
    while fs::read_to_string("/proc/self/uid_map")?.is_empty() {
        if Instant::now() >= deadline {
            return Err(Errno::PERM.into());
        }
        thread::sleep(MAP_PAUSE);
    }
    Ok(())
}

/// Makes new namespaces usable: maps our user, unless the keeper does, and brings up the loopback
/// interface of a network.
pub(super) fn set_up(
    network: NetworkAccess,
    ids: KeeperIds,
    is_mapped_by_keeper: bool,
) -> Result<(), SpawnFailure> {
    let mapped = if is_mapped_by_keeper { wait_for_mapping() } else { map_users(ids) };
    mapped.map_err(|error| SpawnStep::UserMap.failed(error))?;
    match network {
        NetworkAccess::On => Ok(()),
        // The job can reach the servers of its own tests; nobody else can.
        NetworkAccess::Off => bring_up_loopback().map_err(|errno| SpawnStep::Network.failed(errno)),
    }
}

/// Maps our user and group, and no others, into the namespace.
fn map_users(KeeperIds { user, group }: KeeperIds) -> io::Result<()> {
    // The files in /proc of a process that is not dumpable belong to root.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("{user} {user} 1"))?;
    write("/proc/self/gid_map", &format!("{group} {group} 1"))?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

fn write(path: &str, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

/// Brings up the loopback interface of this network namespace.
///
/// The kernel gives it the addresses 127.0.0.1 and ::1 by itself.
fn bring_up_loopback() -> Result<(), Errno> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
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
