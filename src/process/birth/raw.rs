//! The system calls of a new process that have no safe wrapper.
//!
//! Some that the C library wraps are made without it: its own may take a lock.
#![expect(unsafe_code, reason = "execve, signal dispositions and their like have no safe wrapper")]

use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::ptr;

use rustix::io::{Errno, FdFlags, fcntl_setfd};

use super::order::Order;
use crate::process::raw::{last_error, pointers};

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
pub(in crate::process) fn give_number(file: BorrowedFd<'_>, number: RawFd) -> Result<(), Errno> {
    if file.as_raw_fd() == number {
        // To copy it onto itself would change nothing, and `exec` would close it.
        return fcntl_setfd(file, FdFlags::empty());
    }
    // SAFETY: only numbers that a new process is to start with are given out; nobody owns those.
    match unsafe { libc::dup2(file.as_raw_fd(), number) } {
        -1 => Err(last_error()),
        _ => Ok(()),
    }
}

/// Ends this process at once: nothing is written or tidied up twice.
pub(in crate::process) fn leave(code: c_int) -> ! {
    // SAFETY: ends the process without running any more of its code.
    unsafe { libc::_exit(code) }
}

/// A set of signals as the kernel has it: number N is bit N-1.
type SignalSet = u64;

const LAST_SIGNAL: c_int = SignalSet::BITS as c_int;

/// While this is held, no signal reaches this thread, nor a process that it creates.
#[derive(Debug)]
pub(super) struct BlockedSignals {
    before: SignalSet,
}

impl BlockedSignals {
    pub(super) fn block() -> Result<Self, Errno> {
        set_mask(SignalSet::MAX).map(|before| Self { before })
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // It cannot fail: it is what was set before.
        set_mask(self.before).ok();
    }
}

/// Gives every signal its default meaning, and then blocks none any more: programs start so, and
/// no handler of the parent ever runs here.
pub(super) fn default_signals() -> Result<(), Errno> {
    for signal in 1..=LAST_SIGNAL {
        // Two of them always have it, and say so by an error.
        set_default(signal).ok();
    }
    set_mask(0).map(drop)
}

/// All zeroes is the kernel's `struct sigaction` of the default: no handler, no flags, no mask.
fn set_default(signal: c_int) -> Result<(), Errno> {
    const DEFAULT: [u64; 4] = [0; 4];
    // SAFETY: the kernel reads no more than these bytes, and writes none.
    let set = unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            DEFAULT.as_ptr(),
            ptr::null_mut::<u64>(),
            size_of::<SignalSet>(),
        )
    };
    if set == 0 { Ok(()) } else { Err(last_error()) }
}

/// Blocks these signals and no others, and gives those that were blocked before.
fn set_mask(blocked: SignalSet) -> Result<SignalSet, Errno> {
    let mut before: SignalSet = 0;
    // SAFETY: both pointers are to live sets of the size that is named.
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
