//! The system calls of a new process that have no safe wrapper.
#![expect(unsafe_code, reason = "clone, execve and their like have no safe wrapper")]

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::ptr;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

use super::wire::Order;
use crate::process::raw::{last_error, pointers};

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
    const INTO_CGROUP: u64 = 0x2_0000_0000;
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

/// `struct clone_args` of the kernel.
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

fn which(number: c_long) -> Result<Birth, Errno> {
    if number == 0 {
        return Ok(Birth::New);
    }
    let pid = i32::try_from(number).ok().filter(|number| *number > 0);
    pid.and_then(Pid::from_raw).map(Birth::Before).ok_or_else(last_error)
}

/// Creates a child of our own parent that lives in our memory while we wait. It has become its
/// program, or is gone, when this returns: nothing is copied for it, as `fork` does.
///
/// What it allocates and does not free stays with us. To be called in the spawner and what comes
/// out of it only: they have one thread.
pub(super) fn bear_sibling_and_wait<T>(life: fn(&T) -> !, with: &T) -> Result<Pid, Errno> {
    const FLAGS: c_int = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT | libc::SIGCHLD;
    let mut stack: Vec<u128> = Vec::with_capacity(STACK_BYTES / size_of::<u128>());
    let start = Start { life, with };
    // SAFETY: the stack is writable, aligned, long enough, and grows down from its end; it and the
    // start live until the call returns, which is when the new process uses them no more. It has
    // its own files, signals and directory; the memory is shared by two that never run at one time.
    let number = unsafe {
        let top = stack.as_mut_ptr().add(stack.capacity());
        libc::clone(begin::<T>, top.cast(), FLAGS, ptr::from_ref(&start).cast_mut().cast())
    };
    Some(number).filter(|number| *number > 0).and_then(Pid::from_raw).ok_or_else(last_error)
}

/// More than all steps of a new process take, unoptimised.
const STACK_BYTES: usize = 1 << 20;

/// What a process does that lives in our memory.
struct Start<'a, T> {
    life: fn(&T) -> !,
    with: &'a T,
}

extern "C" fn begin<T>(start: *mut c_void) -> c_int {
    // SAFETY: it points to the `Start` of this same type in `bear_sibling_and_wait`, which waits.
    let start = unsafe { &*start.cast::<Start<'_, T>>() };
    (start.life)(start.with)
}

/// Puts this process, or its children to come, into namespaces of its own.
pub(super) fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    // SAFETY: the flags are namespaces only, so no file table is shared out; there is one thread.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// A program in the form in which the kernel takes it.
#[derive(Debug)]
pub(super) struct Image<'a> {
    path: &'a CStr,
    argv: Vec<*mut c_char>,
    env: Vec<*mut c_char>,
    strings: PhantomData<&'a Order>,
}

impl<'a> Image<'a> {
    pub(super) fn of(order: &'a Order) -> Self {
        let (argv, env) = (pointers(&order.argv), pointers(&order.env));
        Self { path: &order.path, argv, env, strings: PhantomData }
    }

    /// Becomes this program. Returns only when that failed.
    pub(super) fn execute(&self) -> Errno {
        // SAFETY: all strings are NUL-terminated and live as long as the order; both arrays end with
        // a null pointer.
        unsafe {
            libc::execve(self.path.as_ptr(), self.argv.as_ptr().cast(), self.env.as_ptr().cast())
        };
        last_error()
    }
}

/// Makes this number mean this file, also after `exec`. What had the number is closed.
pub(super) fn give_number(file: BorrowedFd<'_>, number: RawFd) -> Result<(), Errno> {
    // SAFETY: only numbers that a new process is to start with are given out; nobody owns those.
    match unsafe { libc::dup2(file.as_raw_fd(), number) } {
        -1 => Err(last_error()),
        _ => Ok(()),
    }
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

/// Blocks no signal any more.
pub(super) fn unblock_signals() -> Result<(), Errno> {
    let mut none = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set before it is read; no handler of ours is installed.
    let set = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut())
    };
    if set == 0 { Ok(()) } else { Err(last_error()) }
}

/// Lets the kernel reap our children by itself.
pub(super) fn ignore_children() {
    // SAFETY: runs no code of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// Takes back what the Rust runtime did: programs start with the default.
pub(super) fn default_broken_pipe() {
    // SAFETY: runs no code of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Ends this process at once: nothing is written or tidied up twice.
pub(super) fn leave(code: c_int) -> ! {
    // SAFETY: ends the process without running any more of its code.
    unsafe { libc::_exit(code) }
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
            leave(0);
        }
    }
    be_spawner_if_called_so
};
