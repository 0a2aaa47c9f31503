//! The system calls of a new process that have no safe wrapper.
//!
//! Some that the C library wraps are made without it: its own may take a lock.
#![expect(unsafe_code, reason = "execve, signal dispositions and their like have no safe wrapper")]

use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::ptr;
use std::sync::OnceLock;

use rustix::io::{Errno, FdFlags, fcntl_setfd};

use super::order::Order;
use crate::raw::{last_error, pointers};

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
pub(crate) fn give_number(file: BorrowedFd<'_>, number: RawFd) -> Result<(), Errno> {
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

/// Gives this process, which shares its parent's table of files, one of its own: with all of them
/// below this number, and with the others only where the kernel cannot leave them out.
pub(super) fn part_with_files(end: RawFd) -> Result<(), Errno> {
    const UNSHARE: c_int = libc::CLOSE_RANGE_UNSHARE.cast_signed();
    // SAFETY: both change the new table, which is this process's own; nobody owns what is in it.
    let parted = unsafe {
        libc::syscall(libc::SYS_close_range, end, u32::MAX, UNSHARE) == 0
            || libc::unshare(libc::CLONE_FILES) == 0
    };
    if parted { Ok(()) } else { Err(last_error()) }
}

/// Ends this process at once: nothing is written or tidied up twice.
pub(crate) fn leave(code: c_int) -> ! {
    // SAFETY: ends the process without running any more of its code.
    unsafe { libc::_exit(code) }
}

/// A set of signals as the kernel has it: number N is bit N-1.
pub(super) type SignalSet = u64;

/// Every signal.
pub(super) const ALL_SIGNALS: SignalSet = SignalSet::MAX;

/// While this is held, no signal reaches this thread, nor a process that it creates.
#[derive(Debug)]
pub(super) struct BlockedSignals {
    before: SignalSet,
}

impl BlockedSignals {
    pub(super) fn block() -> Result<Self, Errno> {
        set_mask(ALL_SIGNALS).map(|before| Self { before })
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // It cannot fail: it is what was set before.
        set_mask(self.before).ok();
    }
}

/// Gives these signals their default meaning, and then blocks none any more: programs start so. Where
/// they are all that had another one, no handler of the parent ever runs here.
pub(super) fn default_signals(which: SignalSet) -> Result<(), Errno> {
    for signal in numbers(which) {
        // Two of them always have it, and say so by an error.
        action(signal, Some(&DEFAULT), None).ok();
    }
    set_mask(0).map(drop)
}

/// The signals that this process ignores, as it was when first asked: those that ignore one do so
/// from the start.
pub(super) fn ignored_signals() -> SignalSet {
    static IGNORED: OnceLock<SignalSet> = OnceLock::new();
    *IGNORED.get_or_init(|| {
        let is_ignored = |signal: &c_int| {
            let mut now = DEFAULT;
            action(*signal, None, Some(&mut now)).is_ok() && now[0] == libc::SIG_IGN as u64
        };
        // Those two are ignored by us, sooner or later.
        let ours = [libc::SIGPIPE, libc::SIGXFSZ].into_iter();
        let all = numbers(ALL_SIGNALS).filter(is_ignored).chain(ours);
        all.fold(0, |set, signal| set | 1 << (signal - 1))
    })
}

fn numbers(set: SignalSet) -> impl Iterator<Item = c_int> {
    (1..=SignalSet::BITS).filter(move |number| set & 1 << (number - 1) != 0).map(u32::cast_signed)
}

/// The kernel's `struct sigaction`: the handler comes first.
type Action = [u64; 4];

/// All zeroes: no handler, no flags, no mask.
const DEFAULT: Action = [0; 4];

fn action(signal: c_int, new: Option<&Action>, old: Option<&mut Action>) -> Result<(), Errno> {
    // SAFETY: the kernel reads and writes no more than these bytes, and nothing where there are none.
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
