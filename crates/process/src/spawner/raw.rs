//! The system calls of the spawner that have no safe wrapper.
#![expect(unsafe_code, reason = "clone and its like have no safe wrapper")]

use std::ffi::{c_int, c_long, c_short};
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

use crate::birth::{CloneArgs, INTO_CGROUP};
use crate::raw::last_error;

/// Which of the two a process is after [`bear_sibling`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Birth {
    /// It was there before; the new one has this number.
    Before(Pid),
    /// It is the new one.
    New,
}

/// Creates a copy of this process that is a child of our own parent.
///
/// To be called in the spawner and what comes out of it only: they have one thread.
pub(super) fn bear_sibling() -> Result<Birth, Errno> {
    const FLAGS: c_long = (libc::CLONE_PARENT | libc::SIGCHLD) as c_long;
    const NONE: c_long = 0;
    // SAFETY: without CLONE_VM and without a stack this is `fork`: the new process has its own copy
    // of all memory. There is one thread, so no lock is held by somebody who does not exist there.
    which(unsafe { libc::syscall(libc::SYS_clone, FLAGS, NONE, NONE, NONE, NONE) })
}

/// The same, born in the cgroup of this directory. An older kernel cannot, nor can some containers.
///
/// To move there later costs much more: the kernel first waits until every processor has let go
/// of what it was at, which takes milliseconds.
pub(super) fn bear_sibling_in(cgroup: BorrowedFd<'_>) -> Result<Birth, Errno> {
    let args = CloneArgs {
        flags: u64::from(libc::CLONE_PARENT.cast_unsigned()) | INTO_CGROUP,
        // With this flag the signal is that of our own birth, and none may be named.
        exit_signal: 0,
        cgroup: u64::try_from(cgroup.as_raw_fd()).map_err(|_| Errno::BADF)?,
        ..CloneArgs::default()
    };
    // SAFETY: as in `bear_sibling`; the kernel reads as many bytes of `args` as it is told.
    which(unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) })
}

fn which(number: c_long) -> Result<Birth, Errno> {
    if number == 0 {
        return Ok(Birth::New);
    }
    let pid = i32::try_from(number).ok().filter(|number| *number > 0);
    pid.and_then(Pid::from_raw).map(Birth::Before).ok_or_else(last_error)
}

/// Puts this process, or its children to come, into namespaces of its own.
pub(super) fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: the flags are namespaces only, so no file table is shared out; there is one thread.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Brings up the loopback interface of this network namespace.
///
/// The kernel gives it the addresses 127.0.0.1 and ::1 by itself.
pub(super) fn bring_up_loopback() -> Result<(), Errno> {
    let kind = rustix::net::SocketType::DGRAM;
    let flags = rustix::net::SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(rustix::net::AddressFamily::INET, kind, flags, None)?;
    // SAFETY: all bytes zero are an interface without a name and without flags.
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

/// Closes every file from this number on. To be called where nothing of ours is used any more.
pub(super) fn close_from(number: u32) {
    // SAFETY: the callers own no file from this number on, or never touch those again: the first
    // process of a namespace, which only reads file 0, and a spawner that has just begun.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, number, u32::MAX, 0) };
    if closed != 0 {
        close_one_by_one(number);
    }
}

/// The same before Linux 5.9.
fn close_one_by_one(first: u32) {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = u32::try_from(most.unwrap_or(1 << 16)).unwrap_or(1 << 16);
    for number in (first..most).filter_map(|number| c_int::try_from(number).ok()) {
        // SAFETY: as above; closing a number that means nothing is harmless.
        unsafe { libc::close(number) };
    }
}

/// Lets the kernel reap our children by itself.
pub(super) fn ignore_children() {
    // SAFETY: runs no code of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Unit tests start the spawner from their own program, whose `main` is not ours: so it becomes one
/// before that, where it is called as one.
#[cfg(test)]
#[used]
// SAFETY: the loader calls each function in this section once, before `main`, on the only thread; the
// standard library has taken the arguments by then.
#[unsafe(link_section = ".init_array")]
static TEST_SPAWNER: extern "C" fn() = {
    extern "C" fn be_spawner_if_called_so() {
        if super::spawner_main(std::env::args_os().skip(1)).is_some() {
            crate::birth::leave(0);
        }
    }
    be_spawner_if_called_so
};
