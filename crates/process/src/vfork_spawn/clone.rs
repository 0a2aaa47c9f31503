//! Creates a process that shares our memory while the creating thread waits.
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
/// A flag of `clone3`: the new process starts in another cgroup.
pub(crate) const INTO_CGROUP: u64 = 0x2_0000_0000;

/// A flag of `clone3`: the new process starts without our signal handlers. It ignores the signals
/// that we ignore.
const CLEAR_HANDLERS: u64 = 0x1_0000_0000;

/// Set once the system has refused `clone3` itself: then it always does.
static CLONE3_REFUSED: OnceLock<()> = OnceLock::new();

/// The function of a process that lives in our memory: it must neither return nor panic.
#[derive(Debug)]
struct CloneEntry<'a, T> {
    entry: fn(&T) -> !,
    with: &'a T,
}

/// Creates a child, with its pidfd. It runs its program, or is gone, when this returns.
pub(crate) fn spawn_child<T>(
    stacks: &StackPool,
    entry: fn(&T) -> !,
    with: &T,
) -> Result<(Pid, OwnedFd), Errno> {
    let mut pidfd = -1;
    let flags = libc::CLONE_PIDFD | libc::SIGCHLD;
    let pid = clone(stacks, flags, &CloneEntry { entry, with }, &mut pidfd)?;
    Ok((pid, own_pidfd(pidfd)?))
}

/// The file table that a new process starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileTable {
    /// A copy of the parent's table.
    Copied,
    /// The parent's table, until the child unshares it.
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

/// Creates a child in the cgroup of this directory and without our signal handlers. Older kernels
/// and some containers refuse this; then the child has to enter the cgroup by itself, which costs
/// much more: the kernel first waits until every processor has left its current critical section,
/// which takes milliseconds.
pub(crate) fn spawn_child_in_cgroup<T>(
    stacks: &StackPool,
    cgroup: BorrowedFd<'_>,
    table: FileTable,
    entry: fn(&T) -> !,
    with: &T,
) -> Result<(Pid, OwnedFd), Errno> {
    if CLONE3_REFUSED.get().is_some() {
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
    let start = CloneEntry { entry, with };
    let signals = BlockedSignals::block()?;
    // SAFETY: as in `clone`; the addresses in `args` are those of memory that lives as long.
    let result = unsafe { processor::clone3(&args, begin::<T>, ptr::from_ref(&start).cast()) };
    drop(signals);
    stacks.put_back(stack);
    let pid = parse_clone_result(result).inspect_err(|errno| {
        if [Errno::NOSYS, Errno::PERM, Errno::INVAL, Errno::TOOBIG].contains(errno) {
            CLONE3_REFUSED.get_or_init(|| ());
        }
    })?;
    Ok((pid, own_pidfd(pidfd)?))
}

/// Creates a child of our own parent in the same way. Only for the spawner and its descendants,
/// which have one thread: memory that such a child allocates and does not free stays with them.
pub(crate) fn spawn_sibling_and_wait<T>(
    stacks: &StackPool,
    entry: fn(&T) -> !,
    with: &T,
) -> Result<Pid, Errno> {
    clone(stacks, libc::CLONE_PARENT | libc::SIGCHLD, &CloneEntry { entry, with }, &mut -1)
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
    // SAFETY: the stack is writable, aligned, long enough, and grows down from its top. The stack
    // and the entry live until the call returns, and by then the new process no longer uses them.
    // The new process has its own file table, or unshares ours before it changes any file; it has
    // its own signals and directory; and it runs none of our handlers, since all signals are
    // blocked. This thread, whose thread-local memory the new process uses, is suspended meanwhile.
    // To our other threads it is one more thread that only uses what it was given.
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
    (start.entry)(start.with)
}

fn own_pidfd(pidfd: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: the kernel has just opened it, for us alone.
    if pidfd >= 0 { Ok(unsafe { OwnedFd::from_raw_fd(pidfd) }) } else { Err(Errno::BADF) }
}

/// Converts the kernel's result: a pid, or an error as a negative number.
fn parse_clone_result(result: isize) -> Result<Pid, Errno> {
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

/// `clone3` in assembly: the C library offers none that continues on another stack.
#[cfg(target_arch = "x86_64")]
mod processor {
    use std::arch::asm;
    use std::ffi::{c_int, c_void};

    use super::CloneArgs;

    /// Calls `clone3`; the child runs `begin` with `start`.
    ///
    /// # Safety
    /// As for `libc::clone`, with the contents of `args`; `begin` must not return.
    pub(crate) unsafe fn clone3(
        args: &CloneArgs,
        begin: extern "C" fn(*mut c_void) -> c_int,
        start: *const c_void,
    ) -> isize {
        let result;
        // SAFETY: the parent's registers stay as they are except for the three that the call itself
        // uses. The child starts on its own stack, which is aligned as a call requires.
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

/// `clone3` in assembly for this processor.
#[cfg(target_arch = "aarch64")]
mod processor {
    use std::arch::asm;
    use std::ffi::{c_int, c_void};

    use super::CloneArgs;

    /// Calls `clone3`; the child runs `begin` with `start`.
    ///
    /// # Safety
    /// As for `libc::clone`, with the contents of `args`; `begin` must not return.
    pub(crate) unsafe fn clone3(
        args: &CloneArgs,
        begin: extern "C" fn(*mut c_void) -> c_int,
        start: *const c_void,
    ) -> isize {
        let result;
        // SAFETY: the parent's registers stay as they are except for the result. The child starts
        // on its own stack, which is aligned as a call requires.
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
                // The call in the child sets it, and the child never returns there.
                lateout("x30") _,
            );
        }
        result
    }
}

/// On other processors a child enters its cgroup by itself.
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

// Stacks for processes that live in our memory until they execute their program.

/// More bytes than all steps of a new process need, unoptimised.
const BYTES: usize = 256 << 10;
/// The guard below the stack: the kernel ends a process that overruns its stack. At least a page on
/// every processor.
const GUARD_BYTES: usize = 64 << 10;

/// The most stacks that are kept: as many as there are threads that create processes at one time.
const MOST_IDLE: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct StackPool {
    idle: Mutex<Vec<Stack>>,
}

impl StackPool {
    /// Takes a used stack, or maps a new one.
    fn take(&self) -> Result<Stack, Errno> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(Stack::map, Ok)
    }

    fn put_back(&self, stack: Stack) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_IDLE {
            idle.push(stack);
        }
    }
}

/// A stack with a single user. It grows down from its top.
#[derive(Debug)]
pub(crate) struct Stack {
    /// The start of the guard, below the stack.
    guard: NonNull<c_void>,
}

// SAFETY: the memory belongs to this value alone, whichever thread has it.
unsafe impl Send for Stack {}

impl Stack {
    fn map() -> Result<Self, Errno> {
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE;
        // SAFETY: this maps new memory where the kernel finds room for it.
        let guard = unsafe { mmap_anonymous(ptr::null_mut(), GUARD_BYTES + BYTES, both, flags) }?;
        let stack = Self { guard: NonNull::new(guard).ok_or(Errno::NOMEM)? };
        // SAFETY: this is the first part of the new mapping, which nobody uses yet.
        unsafe { mprotect(guard, GUARD_BYTES, MprotectFlags::empty()) }?;
        Ok(stack)
    }

    /// Returns the lowest address, above the guard.
    pub(crate) fn base(&self) -> *mut c_void {
        self.guard.as_ptr().wrapping_byte_add(GUARD_BYTES)
    }

    /// Returns the size in bytes.
    pub(crate) const fn size(&self) -> usize {
        BYTES
    }

    /// Returns the address from which the stack grows down.
    pub(crate) fn top(&self) -> *mut c_void {
        self.base().wrapping_byte_add(BYTES)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this size, and no longer used. If the call were refused, the
        // memory would stay mapped.
        unsafe { munmap(self.guard.as_ptr(), GUARD_BYTES + BYTES) }.ok();
    }
}

// System calls of a new process that have no safe wrapper.
//
// Some calls bypass the C library, whose wrappers may take a lock.

/// A program in the form in which the kernel takes it.
#[derive(Debug)]
pub(crate) struct ProgramImage<'a> {
    path: &'a CStr,
    argv: Vec<*mut c_char>,
    env: Vec<*mut c_char>,
    strings: PhantomData<&'a SpawnRequest>,
}

impl<'a> ProgramImage<'a> {
    pub(crate) fn new(request: &'a SpawnRequest) -> Self {
        let argv = pointers(&request.argv);
        let env = pointers(&request.env);
        Self { path: &request.path, argv, env, strings: PhantomData }
    }

    /// Executes this program. Returns only if that failed.
    pub(crate) fn execute(&self) -> Errno {
        // SAFETY: all strings are NUL-terminated and live as long as the request; both arrays end
        // with a null pointer.
        unsafe {
            libc::execve(self.path.as_ptr(), self.argv.as_ptr().cast(), self.env.as_ptr().cast())
        };
        last_error()
    }
}

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
pub(crate) fn unshare_files(end: RawFd) -> Result<(), Errno> {
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
pub(crate) type SignalSet = u64;

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
pub(crate) fn reset_signals(which: SignalSet) -> Result<(), Errno> {
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
