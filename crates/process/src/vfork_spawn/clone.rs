//! Creating a process that lives in our memory while the thread that creates it waits.
#![expect(unsafe_code, reason = "clone has no safe wrapper")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::ptr;
use std::ptr::NonNull;
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::process::Pid;

use super::child_steps::SpawnRequest;
use crate::syscalls::{last_error, pointers};

/// Shared memory, and a parent that waits.
const IN_OUR_MEMORY: c_int = libc::CLONE_VM | libc::CLONE_VFORK;
/// A flag of `clone3`: the new process begins in another cgroup.
pub(crate) const INTO_CGROUP: u64 = 0x2_0000_0000;

/// Another: it begins without our handlers of signals. It ignores what we ignore.
const CLEAR_HANDLERS: u64 = 0x1_0000_0000;

/// Set once the system has refused `clone3` itself: it does so always then.
static IS_REFUSED: OnceLock<()> = OnceLock::new();

/// What a process does that lives in our memory: it must neither return nor panic.
#[derive(Debug)]
struct CloneEntry<'a, T> {
    life: fn(&T) -> !,
    with: &'a T,
}

/// Creates a child, with the file that tells of its end. It has become its program, or is gone, when
/// this returns.
pub(crate) fn bear_child<T>(
    stacks: &StackPool,
    life: fn(&T) -> !,
    with: &T,
) -> Result<(Pid, OwnedFd), Errno> {
    let mut pidfd = -1;
    let flags = libc::CLONE_PIDFD | libc::SIGCHLD;
    let pid = clone(stacks, flags, &CloneEntry { life, with }, &mut pidfd)?;
    Ok((pid, own(pidfd)?))
}

/// Whose files a new process begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileTable {
    /// A copy of ours.
    Copied,
    /// Ours, until it parts with them.
    Shared,
}

impl FileTable {
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
pub(crate) fn bear_child_in<T>(
    stacks: &StackPool,
    cgroup: BorrowedFd<'_>,
    table: FileTable,
    life: fn(&T) -> !,
    with: &T,
) -> Result<(Pid, OwnedFd), Errno> {
    if IS_REFUSED.get().is_some() {
        return Err(Errno::NOSYS);
    }
    let mut pidfd: RawFd = -1;
    let stack = stacks.take()?;
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
    let start = CloneEntry { life, with };
    let signals = BlockedSignals::block()?;
    // SAFETY: as in `clone`; the addresses in `args` are those of memory that lives as long.
    let result = unsafe { processor::clone3(&args, begin::<T>, ptr::from_ref(&start).cast()) };
    drop(signals);
    stacks.put_back(stack);
    let pid = number(result).inspect_err(|errno| {
        if [Errno::NOSYS, Errno::PERM, Errno::INVAL, Errno::TOOBIG].contains(errno) {
            IS_REFUSED.get_or_init(|| ());
        }
    })?;
    Ok((pid, own(pidfd)?))
}

/// Creates a child of our own parent in the same way. To be called in the spawner and what comes out
/// of it only, which have one thread: what such a child allocates and does not free stays with them.
pub(crate) fn bear_sibling_and_wait<T>(
    stacks: &StackPool,
    life: fn(&T) -> !,
    with: &T,
) -> Result<Pid, Errno> {
    clone(stacks, libc::CLONE_PARENT | libc::SIGCHLD, &CloneEntry { life, with }, &mut -1)
}

fn clone<T>(
    stacks: &StackPool,
    flags: c_int,
    start: &CloneEntry<'_, T>,
    pidfd: &mut RawFd,
) -> Result<Pid, Errno> {
    let stack = stacks.take()?;
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
    stacks.put_back(stack);
    Some(number).filter(|number| *number > 0).and_then(Pid::from_raw).ok_or(error)
}

extern "C" fn begin<T>(start: *mut c_void) -> c_int {
    // SAFETY: it points to the `CloneEntry` of this same type in the function that waits for us.
    let start = unsafe { &*start.cast::<CloneEntry<'_, T>>() };
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
    pub(crate) unsafe fn clone3(
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
    pub(crate) unsafe fn clone3(
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

    pub(crate) unsafe fn clone3(
        _args: &CloneArgs,
        _begin: extern "C" fn(*mut c_void) -> c_int,
        _start: *const c_void,
    ) -> isize {
        -(libc::ENOSYS as isize)
    }
}

// Stacks for processes that live in our memory until they are their program.

/// More than all steps of a new process take, unoptimised.
const BYTES: usize = 256 << 10;
/// Whoever runs over the end of the stack is ended by the kernel. A page or more on every processor.
const GUARD_BYTES: usize = 64 << 10;

/// How many are kept for later; as many as there are threads that create processes at one time.
const MOST_IDLE: usize = 16;

/// Stacks that were used before.
#[derive(Debug, Default)]
pub(crate) struct StackPool {
    idle: Mutex<Vec<Stack>>,
}

impl StackPool {
    /// Takes one that was used before, or a new one.
    fn take(&self) -> Result<Stack, Errno> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(Stack::map, Ok)
    }

    /// Keeps one for later.
    fn put_back(&self, stack: Stack) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_IDLE {
            idle.push(stack);
        }
    }
}

/// A stack that nobody else uses. It grows down from its top.
#[derive(Debug)]
pub(crate) struct Stack {
    /// Where the guard begins, below the stack.
    guard: NonNull<c_void>,
}

// SAFETY: it is memory that belongs to this value alone, whichever thread has it.
unsafe impl Send for Stack {}

impl Stack {
    fn map() -> Result<Self, Errno> {
        let (both, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: new memory where the kernel finds room for it.
        let guard = unsafe { mmap_anonymous(ptr::null_mut(), GUARD_BYTES + BYTES, both, flags) }?;
        let stack = Self { guard: NonNull::new(guard).ok_or(Errno::NOMEM)? };
        // SAFETY: the first part of what was just mapped, which nobody uses yet.
        unsafe { mprotect(guard, GUARD_BYTES, MprotectFlags::empty()) }?;
        Ok(stack)
    }

    /// Its lowest address, above the guard.
    pub(crate) fn base(&self) -> *mut c_void {
        self.guard.as_ptr().wrapping_byte_add(GUARD_BYTES)
    }

    /// Its size in bytes.
    pub(crate) const fn size(&self) -> usize {
        BYTES
    }

    /// Where it begins, and grows down from.
    pub(crate) fn top(&self) -> *mut c_void {
        self.base().wrapping_byte_add(BYTES)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this size, and used by nobody any more. Were it refused, it
        // would stay.
        unsafe { munmap(self.guard.as_ptr(), GUARD_BYTES + BYTES) }.ok();
    }
}

// The system calls of a new process that have no safe wrapper.
//
// Some that the C library wraps are made without it: its own may take a lock.

/// A program in the form in which the kernel takes it.
#[derive(Debug)]
pub(crate) struct ProgramImage<'a> {
    path: &'a CStr,
    argv: Vec<*mut c_char>,
    env: Vec<*mut c_char>,
    strings: PhantomData<&'a SpawnRequest>,
}

impl<'a> ProgramImage<'a> {
    pub(crate) fn of(order: &'a SpawnRequest) -> Self {
        let (argv, env) = (pointers(&order.argv), pointers(&order.env));
        Self { path: &order.path, argv, env, strings: PhantomData }
    }

    /// Becomes this program. Returns only when that failed.
    pub(crate) fn execute(&self) -> Errno {
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
pub(crate) fn part_with_files(end: RawFd) -> Result<(), Errno> {
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
pub(crate) type SignalSet = u64;

/// Every signal.
pub(crate) const ALL_SIGNALS: SignalSet = SignalSet::MAX;

/// While this is held, no signal reaches this thread, nor a process that it creates.
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
        // It cannot fail: it is what was set before.
        set_mask(self.before).ok();
    }
}

/// Gives these signals their default meaning, and then blocks none any more: programs start so. Where
/// they are all that had another one, no handler of the parent ever runs here.
pub(crate) fn default_signals(which: SignalSet) -> Result<(), Errno> {
    for signal in numbers(which) {
        // Two of them always have it, and say so by an error.
        action(signal, Some(&DEFAULT), None).ok();
    }
    set_mask(0).map(drop)
}

/// The signals that this process ignores, as it was when first asked: those that ignore one do so
/// from the start.
pub(crate) fn ignored_signals() -> SignalSet {
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
type KernelSigaction = [u64; 4];

/// All zeroes: no handler, no flags, no mask.
const DEFAULT: KernelSigaction = [0; 4];

fn action(
    signal: c_int,
    new: Option<&KernelSigaction>,
    old: Option<&mut KernelSigaction>,
) -> Result<(), Errno> {
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
