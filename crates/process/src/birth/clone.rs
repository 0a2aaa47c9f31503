//! Creating a process that lives in our memory while the thread that creates it waits.
#![expect(unsafe_code, reason = "clone has no safe wrapper")]

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::process::Pid;

use super::raw::BlockedSignals;
use super::stack::Stack;
use crate::raw::last_error;

/// Shared memory, and a parent that waits.
const IN_OUR_MEMORY: c_int = libc::CLONE_VM | libc::CLONE_VFORK;
/// A flag of `clone3`: the new process begins in another cgroup.
pub(crate) const INTO_CGROUP: u64 = 0x2_0000_0000;

/// Another: it begins without our handlers of signals. It ignores what we ignore.
const CLEAR_HANDLERS: u64 = 0x1_0000_0000;

/// Set once the system has refused `clone3` itself: it does so always then.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// What a process does that lives in our memory: it must neither return nor panic.
#[derive(Debug)]
struct Start<'a, T> {
    life: fn(&T) -> !,
    with: &'a T,
}

/// Creates a child, with the file that tells of its end. It has become its program, or is gone, when
/// this returns.
pub(super) fn bear_child<T>(life: fn(&T) -> !, with: &T) -> Result<(Pid, OwnedFd), Errno> {
    let mut pidfd = -1;
    let flags = libc::CLONE_PIDFD | libc::SIGCHLD;
    let pid = clone(flags, &Start { life, with }, &mut pidfd)?;
    Ok((pid, own(pidfd)?))
}

/// Whose files a new process begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    /// A copy of ours.
    Copied,
    /// Ours, until it parts with them.
    Shared,
}

impl Table {
    const fn flag(self) -> c_int {
        match self {
            Self::Copied => 0,
            Self::Shared => libc::CLONE_FILES,
        }
    }
}

/// The same, born in the cgroup of this directory and without our handlers of signals. An older
/// kernel cannot, nor can some containers: then it is to enter by itself, which costs much more. The
/// kernel first waits until every processor has let go of what it was at, which takes milliseconds.
pub(super) fn bear_child_in<T>(
    cgroup: BorrowedFd<'_>,
    table: Table,
    life: fn(&T) -> !,
    with: &T,
) -> Result<(Pid, OwnedFd), Errno> {
    if IS_REFUSED.load(Ordering::Relaxed) {
        return Err(Errno::NOSYS);
    }
    let mut pidfd: RawFd = -1;
    let stack = Stack::take()?;
    let shared = IN_OUR_MEMORY | libc::CLONE_PIDFD | table.flag();
    let args = CloneArgs {
        flags: u64::from(shared.cast_unsigned()) | INTO_CGROUP | CLEAR_HANDLERS,
        pidfd: (&raw mut pidfd).expose_provenance() as u64,
        exit_signal: u64::from(libc::SIGCHLD.cast_unsigned()),
        stack: stack.base().expose_provenance() as u64,
        stack_size: stack.size() as u64,
        cgroup: u64::try_from(cgroup.as_raw_fd()).map_err(|_| Errno::BADF)?,
        ..CloneArgs::default()
    };
    let start = Start { life, with };
    let signals = BlockedSignals::block()?;
    // SAFETY: as in `clone`; the addresses in `args` are those of memory that lives as long.
    let result = unsafe { processor::clone3(&args, begin::<T>, ptr::from_ref(&start).cast()) };
    drop(signals);
    stack.put_back();
    let pid = number(result).inspect_err(|errno| {
        if [Errno::NOSYS, Errno::PERM, Errno::INVAL, Errno::TOOBIG].contains(errno) {
            IS_REFUSED.store(true, Ordering::Relaxed);
        }
    })?;
    Ok((pid, own(pidfd)?))
}

/// Creates a child of our own parent in the same way. To be called in the spawner and what comes out
/// of it only, which have one thread: what such a child allocates and does not free stays with them.
pub(crate) fn bear_sibling_and_wait<T>(life: fn(&T) -> !, with: &T) -> Result<Pid, Errno> {
    clone(libc::CLONE_PARENT | libc::SIGCHLD, &Start { life, with }, &mut -1)
}

fn clone<T>(flags: c_int, start: &Start<'_, T>, pidfd: &mut RawFd) -> Result<Pid, Errno> {
    let stack = Stack::take()?;
    let signals = BlockedSignals::block()?;
    let start = ptr::from_ref(start).cast_mut().cast();
    // SAFETY: the stack is writable, aligned, long enough, and grows down from its top; it and the
    // start live until the call returns, which is when the new process uses them no more. It has
    // its own files, or parts with ours before it changes any, its own signals and directory, and
    // runs none of our handlers, since all signals are blocked. This thread, whose memory for
    // threads it uses, is suspended meanwhile; to the others it is one more thread that keeps to
    // what it was given.
    let number = unsafe {
        let top = stack.top();
        libc::clone(begin::<T>, top, IN_OUR_MEMORY | flags, start, ptr::from_mut(pidfd))
    };
    let error = last_error();
    drop(signals);
    stack.put_back();
    Some(number).filter(|number| *number > 0).and_then(Pid::from_raw).ok_or(error)
}

extern "C" fn begin<T>(start: *mut c_void) -> c_int {
    // SAFETY: it points to the `Start` of this same type in the function that waits for us.
    let start = unsafe { &*start.cast::<Start<'_, T>>() };
    (start.life)(start.with)
}

fn own(pidfd: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: the kernel has just opened it, for us alone.
    if pidfd >= 0 { Ok(unsafe { OwnedFd::from_raw_fd(pidfd) }) } else { Err(Errno::BADF) }
}

/// What the kernel returned: a process, or an error as a negative number.
fn number(result: isize) -> Result<Pid, Errno> {
    let result = i32::try_from(result).map_err(|_| Errno::OVERFLOW)?;
    if result > 0 {
        return Pid::from_raw(result).ok_or(Errno::CHILD);
    }
    Err(Errno::from_raw_os_error(result.saturating_neg()))
}

/// `struct clone_args` of the kernel.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct CloneArgs {
    pub(crate) flags: u64,
    pub(crate) pidfd: u64,
    pub(crate) child_tid: u64,
    pub(crate) parent_tid: u64,
    pub(crate) exit_signal: u64,
    pub(crate) stack: u64,
    pub(crate) stack_size: u64,
    pub(crate) tls: u64,
    pub(crate) set_tid: u64,
    pub(crate) set_tid_size: u64,
    pub(crate) cgroup: u64,
}

/// `clone3` in the language of the processor: the C library offers none that goes on with another
/// stack.
#[cfg(target_arch = "x86_64")]
mod processor {
    use std::arch::asm;
    use std::ffi::{c_int, c_void};

    use super::CloneArgs;

    /// # Safety
    /// As for `libc::clone`, with what `args` says; `begin` must not return.
    pub(super) unsafe fn clone3(
        args: &CloneArgs,
        begin: extern "C" fn(*mut c_void) -> c_int,
        start: *const c_void,
    ) -> isize {
        let result;
        // SAFETY: the parent's registers stay as they are but for the three that the call itself
        // uses. The child begins on its own stack, which is aligned as a call wants it.
        unsafe {
            asm!(
                "syscall",
                "test rax, rax",
                "jnz 2f",
                "xor ebp, ebp",
                "mov rdi, r8",
                "call rdx",
                "ud2",
                "2:",
                inlateout("rax") libc::SYS_clone3 as isize => result,
                in("rdi") args,
                in("rsi") size_of::<CloneArgs>(),
                in("rdx") begin,
                in("r8") start,
                lateout("rcx") _,
                lateout("r11") _,
            );
        }
        result
    }
}

/// The same for this processor.
#[cfg(target_arch = "aarch64")]
mod processor {
    use std::arch::asm;
    use std::ffi::{c_int, c_void};

    use super::CloneArgs;

    /// # Safety
    /// As for `libc::clone`, with what `args` says; `begin` must not return.
    pub(super) unsafe fn clone3(
        args: &CloneArgs,
        begin: extern "C" fn(*mut c_void) -> c_int,
        start: *const c_void,
    ) -> isize {
        let result;
        // SAFETY: the parent's registers stay as they are but for the result. The child begins on
        // its own stack, which is aligned as a call wants it.
        unsafe {
            asm!(
                "svc #0",
                "cbnz x0, 2f",
                "mov x29, xzr",
                "mov x0, x10",
                "blr x9",
                "brk #1",
                "2:",
                inlateout("x0") args => result,
                in("x1") size_of::<CloneArgs>(),
                in("x8") libc::SYS_clone3,
                in("x9") begin,
                in("x10") start,
                // The call in the child sets it, and nobody returns there.
                lateout("x30") _,
            );
        }
        result
    }
}

/// Elsewhere a child enters its cgroup by itself.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod processor {
    use std::ffi::{c_int, c_void};

    use super::CloneArgs;

    pub(super) unsafe fn clone3(
        _args: &CloneArgs,
        _begin: extern "C" fn(*mut c_void) -> c_int,
        _start: *const c_void,
    ) -> isize {
        -(libc::ENOSYS as isize)
    }
}
