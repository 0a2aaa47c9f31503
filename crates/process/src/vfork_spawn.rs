//! Creates a job's leader: from a complete request to a process that runs its program, or the step
//! that failed.
//!
//! The server creates it itself, by `clone` with shared memory (`vfork`): the calling thread is
//! suspended until the new process executes its program. Nothing is copied, so the cost does not grow
//! with the server. While it lives in our memory, beside our other threads, the new process keeps
//! these rules (`child_steps`):
//!
//! - everything that it needs was prepared before ([`ChildSetup`]): it allocates nothing, takes no
//!   lock and cannot panic;
//! - it changes only what is its own: files, directory, signals, limits, privileges. It changes
//!   nothing that belongs to the memory, such as whether the process is dumpable;
//! - all signals are blocked until it has none of our handlers any more.
//!
//! It reports a failed step through that memory. The spawner uses the same steps for leaders in
//! namespaces, which need more than a process may do in the memory of the server.
#![expect(unsafe_code, reason = "clone has no safe wrapper")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{mem, ptr};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{DupFlags, Errno, dup3, fcntl_dupfd_cloexec};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::process::Pid;
use rustix::system::uname;

use crate::child_defaults::ChildDefaults;
use crate::child_steps::{
    self, ALL_SIGNALS, BlockedSignals, ChildSetup, FilterCache, SpawnFailure, SpawnRequest,
    SpawnStep, exit_now, ignored_signals,
};
use crate::children::{Child, Children};
use crate::sandbox::restrictions;
use crate::shell::REPORT_FD;
use crate::stdio::ChildFiles;
use crate::syscalls::last_error;

/// The exit code of a shell that cannot execute its program.
const NOT_EXECUTED: i32 = 127;

/// A process that has just executed its program.
#[derive(Debug)]
pub(crate) struct SpawnedChild {
    pub(crate) child: Child,
    /// Becomes readable when the process ends.
    pub(crate) pidfd: OwnedFd,
}

/// The input of a new process, and its results while it lives in our memory.
#[derive(Debug)]
struct ChildContext<'a> {
    setup: ChildSetup<'a>,
    ruleset: Option<BorrowedFd<'a>>,
    /// The process sets this first of all.
    exists: Arc<AtomicBool>,
    failure: Cell<Option<SpawnFailure>>,
}

/// Creates leaders in the memory of this process.
#[derive(Debug)]
pub(crate) struct VforkSpawner {
    children: Arc<Children>,
    defaults: Arc<ChildDefaults>,
    stacks: StackPool,
    low_fds: LowFds,
    filters: FilterCache,
}

impl VforkSpawner {
    /// Creates the spawner. Call it while low file numbers are free: without them, spawning beside
    /// many open files takes longer.
    pub(crate) fn new(children: Arc<Children>, defaults: Arc<ChildDefaults>) -> Self {
        let stacks = StackPool::default();
        let filters = FilterCache::default();
        let low_fds = LowFds::reserve().unwrap_or_default();
        Self { children, defaults, stacks, low_fds, filters }
    }

    /// Creates a process, which must need no namespaces, in the cgroup of this directory. It runs
    /// its program when this returns; after an error there is none.
    pub(crate) fn create(
        &self,
        request: &SpawnRequest,
        files: ChildFiles<'_>,
        cgroup: Option<BorrowedFd<'_>>,
    ) -> Result<SpawnedChild, SpawnFailure> {
        let rules = request.sandbox.file_rules();
        let ruleset = rules.map(|rules| restrictions::build_ruleset(&rules)).transpose();
        let ruleset = ruleset.map_err(|error| SpawnStep::Landlock.failed(error))?;
        let ruleset = ruleset.map(move_off_report_fd).transpose();
        let ruleset = ruleset.map_err(|errno| SpawnStep::Files.failed(errno))?;
        let ruleset = ruleset.as_ref().map(OwnedFd::as_fd);
        let mut low_fd_set = cgroup.and_then(|_| self.low_fds.take(&files));
        let low_files = low_fd_set
            .as_mut()
            .map(|low_fd_set| low_fd_set.duplicate_files(files, ruleset))
            .transpose();
        let low_files = low_files.map_err(|errno| SpawnStep::Files.failed(errno))?;
        let (files, ruleset, shares_files) = match low_files {
            Some(LowFdFiles { files, ruleset, end }) => (files, ruleset, Some(end)),
            None => (files, ruleset, None),
        };
        let mut setup = ChildSetup::prepare(request, files, &self.filters)?;
        setup.defaults = Some(&self.defaults);
        setup.shares_files = shares_files;
        let exists = Arc::new(AtomicBool::new(false));
        let mut context = ChildContext { setup, ruleset, exists, failure: Cell::new(None) };
        let spawned = self.children.with_creation(|creation| {
            let score = self.defaults.score.as_ref();
            let raised = score.map(|score| score.raise(Arc::clone(&context.exists)));
            let created = spawn_leader(&self.stacks, &mut context, cgroup);
            drop(raised);
            let (pid, pidfd) = created.map_err(|errno| SpawnStep::Clone.failed(errno))?;
            let child = creation.register(pid);
            match context.failure.get() {
                None => Ok(SpawnedChild { child, pidfd }),
                Some(failure) => {
                    child.wait_for_exit();
                    Err(failure)
                }
            }
        })?;
        self.defaults.ensure_job_score(spawned.child.pid());
        Ok(spawned)
    }
}

/// Moves a file to a number that no file of a new process gets: it is used after those are in
/// place.
fn move_off_report_fd(file: OwnedFd) -> Result<OwnedFd, Errno> {
    if file.as_raw_fd() == REPORT_FD { fcntl_dupfd_cloexec(file, REPORT_FD + 1) } else { Ok(file) }
}

fn spawn_leader<'a>(
    stacks: &StackPool,
    context: &mut ChildContext<'a>,
    cgroup: Option<BorrowedFd<'a>>,
) -> Result<(Pid, OwnedFd), Errno> {
    if let Some(cgroup) = cgroup {
        context.setup.signals = ignored_signals();
        let table = context.setup.shares_files.map_or(0, |_| libc::CLONE_FILES);
        if let Ok(created) = spawn_child_in_cgroup(stacks, cgroup, table, &*context) {
            return Ok(created);
        }
    }
    // The child enters its cgroup by itself, and has our handlers and a copy of our file table.
    context.setup.cgroup = cgroup;
    context.setup.shares_files = None;
    context.setup.signals = ALL_SIGNALS;
    let mut pidfd = -1;
    let flags = libc::CLONE_PIDFD | libc::SIGCHLD;
    let pid = clone(stacks, flags, &*context, &mut pidfd)?;
    Ok((pid, own_pidfd(pidfd)?))
}

impl VforkChild for ChildContext<'_> {
    fn run(&self) -> ! {
        self.exists.store(true, Ordering::Release);
        let Err(failure) = child_steps::run(&self.setup, self.ruleset);
        self.failure.set(Some(failure));
        exit_now(NOT_EXECUTED)
    }
}

// Low file numbers for new processes, for when the server has many files open.
//
// A new process gets a copy of our file table, and `exec` closes what is in it: with thousands of
// files that takes longer than everything else. So the new process then shares our table, and
// leaves it for its own table, which ends right above the files that it needs: higher files are
// never copied. For that its files need low numbers, which are reserved from the start.
//
// Kernels before 6.11 may leave marks of files that were not copied in such a table
// (CVE-2024-45025), so that the process could open only few: there a copy is made as usual.

/// The file number from which on the server has many files open. With fewer, a copy costs less than
/// this detour.
const MANY: RawFd = 512;

/// The number of sets. If none is free, a copy is made.
const SETS: usize = 2;

/// The size of a set: three standard files, the report, and the ruleset.
const SET_SIZE: usize = 5;

/// Reserved low file numbers.
#[derive(Debug, Default)]
struct LowFds {
    free: Mutex<Vec<Vec<OwnedFd>>>,
    /// The file that a free number refers to; `None` if none are reserved.
    nothing: Option<OwnedFd>,
}

/// The first kernel release without the bug in unshared file tables.
const SOUND: (u32, u32) = (6, 11);

impl LowFds {
    /// Reserves the numbers; call it while low ones are free.
    ///
    /// # Errors
    /// If the kernel has the bug or gives no files.
    fn reserve() -> Result<Self, Errno> {
        if parse_release(&uname().release().to_string_lossy()) < Some(SOUND) {
            return Err(Errno::NOSYS);
        }
        let nothing = open(c"/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let reserve_one = |_| (0..SET_SIZE).map(|_| reserve_number(&nothing)).collect();
        let free: Result<Vec<Vec<OwnedFd>>, Errno> = (0..SETS).map(reserve_one).collect();
        Ok(Self { free: Mutex::new(free?), nothing: Some(nothing) })
    }

    /// Takes numbers for these files, if they have high numbers and a set is free.
    fn take(&self, files: &ChildFiles<'_>) -> Option<LowFdSet<'_>> {
        let outputs = [files.stdout, files.stderr];
        let is_one_of_many = |file: BorrowedFd<'_>| file.as_raw_fd() >= MANY;
        let wanted = outputs.into_iter().flatten().any(is_one_of_many);
        let fds = wanted.then(|| self.lock_free().pop()).flatten()?;
        Some(LowFdSet { low_fds: self, fds })
    }

    fn lock_free(&self) -> MutexGuard<'_, Vec<Vec<OwnedFd>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parses the first two numbers of a kernel's release, such as `6.11.2-amd64`.
fn parse_release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Reserves the lowest number that no program expects.
fn reserve_number(nothing: &OwnedFd) -> Result<OwnedFd, Errno> {
    let fd = fcntl_dupfd_cloexec(nothing, 3)?;
    if fd.as_raw_fd() == REPORT_FD { fcntl_dupfd_cloexec(nothing, 3) } else { Ok(fd) }
}

/// Numbers for the files of one new process. On drop they are free again.
#[derive(Debug)]
struct LowFdSet<'a> {
    low_fds: &'a LowFds,
    fds: Vec<OwnedFd>,
}

/// The files of a new process under their low numbers, all below `end`.
#[derive(Debug, Clone, Copy)]
struct LowFdFiles<'a> {
    files: ChildFiles<'a>,
    ruleset: Option<BorrowedFd<'a>>,
    end: RawFd,
}

impl LowFdSet<'_> {
    /// Duplicates the files to the low numbers.
    fn duplicate_files<'a>(
        &'a mut self,
        files: ChildFiles<'a>,
        ruleset: Option<BorrowedFd<'a>>,
    ) -> Result<LowFdFiles<'a>, Errno> {
        let end = self.fds.iter().map(|fd| fd.as_raw_fd() + 1).max().unwrap_or(0);
        let mut fds = self.fds.iter_mut();
        let mut duplicate = |file: Option<BorrowedFd<'_>>| {
            let (Some(file), Some(fd)) = (file, fds.next()) else { return Ok(None) };
            dup3(file, fd, DupFlags::CLOEXEC)?;
            let fd: &'a OwnedFd = fd;
            Ok(Some(fd.as_fd()))
        };
        let stdin = duplicate(files.stdin)?;
        let report = duplicate(files.report)?;
        let stdout = duplicate(files.stdout)?;
        let stderr = duplicate(files.stderr)?;
        let ruleset = duplicate(ruleset)?;
        let directory = files.directory;
        Ok(LowFdFiles {
            files: ChildFiles { directory, stdin, stdout, stderr, report },
            ruleset,
            end,
        })
    }
}

impl Drop for LowFdSet<'_> {
    fn drop(&mut self) {
        let mut fds = mem::take(&mut self.fds);
        let Some(nothing) = &self.low_fds.nothing else { return };
        // A pipe that stayed open here would never end.
        let is_clear = fds.iter_mut().all(|it| dup3(nothing, it, DupFlags::CLOEXEC).is_ok());
        if is_clear {
            self.low_fds.lock_free().push(fds);
        }
    }
}

/// Shared memory, and a parent that waits.
const IN_OUR_MEMORY: c_int = libc::CLONE_VM | libc::CLONE_VFORK;
/// A flag of `clone3`: the new process starts in another cgroup.
pub(crate) const INTO_CGROUP: u64 = 0x2_0000_0000;

/// A flag of `clone3`: the new process starts without our signal handlers. It ignores the signals
/// that we ignore.
const CLEAR_HANDLERS: u64 = 0x1_0000_0000;

/// Set once the system has refused `clone3` itself: then it always does.
static CLONE3_REFUSED: OnceLock<()> = OnceLock::new();

/// The input of a process that lives in our memory until it executes its program or ends.
pub(crate) trait VforkChild {
    /// Runs the process in the memory of its parent, whose calling thread is suspended. Must not
    /// panic. If the parent has other threads, it must also allocate nothing and take no lock.
    fn run(&self) -> !;
}

/// Creates a child in the cgroup of this directory and without our signal handlers; `table` is
/// `CLONE_FILES` if it shares our file table until it unshares it, otherwise 0. Older kernels
/// and some containers refuse this; then the child has to enter the cgroup by itself, which costs
/// much more: the kernel first waits until every processor has left its current critical section,
/// which takes milliseconds.
fn spawn_child_in_cgroup<T: VforkChild>(
    stacks: &StackPool,
    cgroup: BorrowedFd<'_>,
    table: c_int,
    child: &T,
) -> Result<(Pid, OwnedFd), Errno> {
    if CLONE3_REFUSED.get().is_some() {
        return Err(Errno::NOSYS);
    }
    let mut pidfd: RawFd = -1;
    let stack = stacks.take()?;
    let shared = IN_OUR_MEMORY | libc::CLONE_PIDFD | table;
    let args = CloneArgs {
        flags: u64::from(shared.cast_unsigned()) | INTO_CGROUP | CLEAR_HANDLERS,
        pidfd: (&raw mut pidfd).expose_provenance() as u64,
        exit_signal: u64::from(libc::SIGCHLD.cast_unsigned()),
        stack: stack.base().expose_provenance() as u64,
        stack_size: BYTES as u64,
        cgroup: u64::try_from(cgroup.as_raw_fd()).map_err(|_| Errno::BADF)?,
        ..CloneArgs::default()
    };
    let signals = BlockedSignals::block()?;
    // SAFETY: as in `clone`; the addresses in `args` are those of memory that lives as long.
    let result = unsafe { processor::clone3(&args, begin::<T>, ptr::from_ref(child).cast()) };
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
pub(crate) fn spawn_sibling_and_wait(
    stacks: &StackPool,
    child: &impl VforkChild,
) -> Result<Pid, Errno> {
    clone(stacks, libc::CLONE_PARENT | libc::SIGCHLD, child, &mut -1)
}

fn clone<T: VforkChild>(
    stacks: &StackPool,
    flags: c_int,
    child: &T,
    pidfd: &mut RawFd,
) -> Result<Pid, Errno> {
    let stack = stacks.take()?;
    let signals = BlockedSignals::block()?;
    let start = ptr::from_ref(child).cast_mut().cast();
    // SAFETY: the stack is writable, aligned, long enough, and grows down from its top. The stack
    // and the input live until the call returns, and by then the new process no longer uses them.
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

extern "C" fn begin<T: VforkChild>(start: *mut c_void) -> c_int {
    // SAFETY: the suspended parent passed this `T` with `begin::<T>`, and keeps it until we end.
    let child = unsafe { &*start.cast::<T>() };
    child.run()
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
    pub(super) unsafe fn clone3(
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
    pub(super) unsafe fn clone3(
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

    pub(super) unsafe fn clone3(
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
struct Stack {
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
    fn base(&self) -> *mut c_void {
        self.guard.as_ptr().wrapping_byte_add(GUARD_BYTES)
    }

    /// Returns the address from which the stack grows down.
    fn top(&self) -> *mut c_void {
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

#[cfg(test)]
mod tests {
    //! Spawns in this process, which has many threads while tests run.

    use std::collections::BTreeSet;
    use std::ffi::CString;
    use std::fs::{self, File};
    use std::io::Read as _;
    use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use rustix::fs::{Mode, OFlags, open};
    use rustix::io::{Errno, fcntl_dupfd_cloexec};
    use rustix::pipe::{PipeFlags, pipe_with};
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;
    use crate::child_defaults::OwnScore;
    use crate::child_steps::{SandboxRules, duplicate_to, exit_now};
    use crate::confinement::{Backend, Confinement, NetworkAccess, ResourceLimits, SandboxProfile};
    use crate::host::host;
    use crate::sandbox::seccomp::SocketRules;

    const DEFAULT: Confinement =
        Confinement { profile: SandboxProfile::Default, network: NetworkAccess::On };

    fn request(argv: &[&str]) -> SpawnRequest {
        let words =
            |words: &[&str]| words.iter().map(|word| CString::new(*word).unwrap()).collect();
        SpawnRequest {
            path: CString::new(argv[0]).unwrap(),
            argv: words(argv),
            env: vec![c"PATH=/usr/local/bin:/usr/bin:/bin".to_owned().into()],
            terminal: None,
            tag: None,
            user: None,
            sandbox: SandboxRules {
                confinement: Confinement::NONE,
                backend: Backend::Nothing,
                sockets: SocketRules::new(Confinement::NONE, Backend::Nothing, None),
                limits: ResourceLimits::NONE,
                mounts: Vec::new(),
                writable: None,
                protected_pids: Vec::new(),
            },
        }
    }

    fn sh(text: &str) -> SpawnRequest {
        request(&["/bin/sh", "-c", text])
    }

    fn directory(path: &Path) -> OwnedFd {
        open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    /// Creates a process with one pipe as both of its outputs.
    fn create_in(
        request: &SpawnRequest,
        place: &OwnedFd,
        cgroup: Option<&OwnedFd>,
    ) -> Result<(SpawnedChild, File), SpawnFailure> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let files = outputs(place.as_fd(), theirs.as_fd());
        let spawned = host().vfork_spawner().create(request, files, cgroup.map(OwnedFd::as_fd))?;
        Ok((spawned, File::from(ours)))
    }

    /// Returns everything that the process wrote, after its end.
    fn output_of(request: &SpawnRequest) -> String {
        let (spawned, output) = create_in(request, &directory(Path::new("/")), None).unwrap();
        let text = std::io::read_to_string(output).unwrap();
        spawned.child.wait_for_exit();
        text
    }

    fn failure_of(request: &SpawnRequest, place: &Path) -> (SpawnStep, Errno) {
        let SpawnFailure { step, errno } = create_in(request, &directory(place), None).unwrap_err();
        (step, errno)
    }

    #[test]
    fn a_new_process_neither_ignores_nor_blocks_signals() {
        let status = output_of(&request(&["/bin/grep", "^Sig[BI]", "/proc/self/status"]));
        let sets = status.split_whitespace().filter_map(|word| u64::from_str_radix(word, 16).ok());
        assert_eq!(sets.collect::<Vec<_>>(), [0, 0], "{status}");
        let pipe =
            output_of(&request(&["/bin/bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}"]));
        assert_eq!(pipe, "y\n141\n");
    }

    #[test]
    fn the_signal_mask_of_the_parent_is_unchanged_afterwards() {
        let blocked = || {
            let status = fs::read_to_string("/proc/thread-self/status").unwrap();
            status.lines().find(|line| line.starts_with("SigBlk:")).unwrap().to_owned()
        };
        let before = blocked();
        assert_eq!(output_of(&sh("echo hi")), "hi\n");
        failure_of(&request(&["/no/such/program"]), Path::new("/"));
        assert_eq!(blocked(), before);
    }

    #[test]
    fn a_new_process_has_none_of_our_files() {
        let _ours = File::open("/dev/null").unwrap();
        // 3 is the directory that `ls` itself reads.
        assert_eq!(output_of(&request(&["/bin/ls", "/proc/self/fd"])), "0\n1\n2\n3\n");
    }

    /// Opens enough files that the next ones get high numbers.
    fn many_files() -> Vec<OwnedFd> {
        (0..600).map(|_| directory(Path::new("/"))).collect()
    }

    /// Reads a pipe to its end. The end may come a little later than that of the process: processes
    /// that other tests create have all our files until they execute their programs.
    fn all_of(mut pipe: File) -> String {
        rustix::io::ioctl_fionbio(&pipe, true).unwrap();
        let mut bytes = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(30);
        while pipe.read_to_end(&mut bytes).is_err() {
            assert!(Instant::now() < deadline, "another process still has the pipe of {bytes:?}");
            thread::sleep(Duration::from_millis(5));
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn beside_many_open_files_a_new_process_has_only_its_own() {
        let many = many_files();
        let Some(cgroup) = host().cgroups().create_job(&ResourceLimits::NONE) else { return };
        let place = directory(Path::new("/"));
        let cgroup = cgroup.open().unwrap();
        let listing = request(&["/bin/ls", "/proc/self/fd"]);
        let missing = request(&["/no/such"]);
        for _ in 0..3 {
            let (spawned, output) = create_in(&listing, &place, Some(&cgroup)).unwrap();
            spawned.child.wait_for_exit();
            assert_eq!(all_of(output), "0\n1\n2\n3\n");
            let failure = create_in(&missing, &place, Some(&cgroup)).unwrap_err();
            assert_eq!((failure.step, failure.errno), (SpawnStep::Program, Errno::NOENT));
        }
        for file in &many {
            rustix::fs::fstat(file).expect("the file is still open");
        }
    }

    #[test]
    fn beside_many_open_files_those_of_a_new_process_get_low_numbers() {
        let many = many_files();
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        // Other tests may have closed files meanwhile.
        let writer = fcntl_dupfd_cloexec(writer, 600).unwrap();
        let files = outputs(many[0].as_fd(), writer.as_fd());
        // Other tests use the low numbers now and then.
        let mut low_fd_set = loop {
            if let Some(low_fd_set) = host().vfork_spawner().low_fds.take(&files) {
                break low_fd_set;
            }
            thread::yield_now();
        };
        let low_files = low_fd_set.duplicate_files(files, Some(many[1].as_fd())).unwrap();
        let low =
            [low_files.files.stdout, low_files.files.stderr, low_files.ruleset].map(Option::unwrap);
        for file in low {
            assert!((3..low_files.end).contains(&file.as_raw_fd()));
            assert!(rustix::io::fcntl_getfd(file).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        }
        let inode = |file| rustix::fs::fstat(file).unwrap().st_ino;
        assert_eq!(inode(low[0]), inode(writer.as_fd()));
        drop((low_fd_set, writer));
        assert_eq!(all_of(File::from(reader)), "", "no other end is open");
        let few = outputs(many[0].as_fd(), rustix::stdio::stdout());
        assert!(host().vfork_spawner().low_fds.take(&few).is_none(), "a copy costs less");
    }

    /// Files with one file as both outputs.
    fn outputs<'a>(directory: BorrowedFd<'a>, output: BorrowedFd<'a>) -> ChildFiles<'a> {
        let output = Some(output);
        ChildFiles { directory, stdin: None, stdout: output, stderr: output, report: None }
    }

    #[test]
    fn the_step_that_failed_is_reported() {
        let root = Path::new("/");
        let dir = tempfile::tempdir().unwrap();
        let plain = dir.path().join("plain");
        let plain = plain.to_str().unwrap();
        // Written by another process: a child of another test may inherit what this one has open
        // for writing.
        let write = r#"printf text >"$1"; chmod 755 "$1""#;
        output_of(&request(&["/bin/sh", "-c", write, "sh", plain]));
        assert_eq!(failure_of(&request(&["/no/such"]), root), (SpawnStep::Program, Errno::NOENT));
        assert_eq!(failure_of(&request(&["/tmp"]), root), (SpawnStep::Program, Errno::ACCESS));
        assert_eq!(failure_of(&request(&[plain]), root), (SpawnStep::Program, Errno::NOEXEC));
        let long = "x".repeat(8 << 20);
        assert_eq!(failure_of(&sh(&long), root), (SpawnStep::Program, Errno::TOOBIG));
        let no_directory =
            open("/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let failure = create_in(&sh("true"), &no_directory, None).unwrap_err();
        assert_eq!((failure.step, failure.errno), (SpawnStep::Directory, Errno::NOTDIR));
        let terminal = SpawnRequest { terminal: Some(c"/no/terminal".into()), ..sh("true") };
        assert_eq!(failure_of(&terminal, root), (SpawnStep::Files, Errno::NOENT));
    }

    #[test]
    fn a_job_is_ended_before_its_server_when_memory_is_short() {
        let own = || -> i32 {
            // Other tests create processes as well, so it is raised now and then.
            let _kept = host().defaults().score.as_ref().map(OwnScore::hold_normal);
            fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim().parse().unwrap()
        };
        let before = own();
        let score: i32 =
            output_of(&request(&["/bin/cat", "/proc/self/oom_score_adj"])).trim().parse().unwrap();
        assert_eq!(score, (before + 300).min(1000));
        assert_eq!(own(), before, "ours is not changed by it");
    }

    #[test]
    fn the_limits_of_a_new_process_do_not_change_those_of_its_parent() {
        let before = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let mut limited = sh("ulimit -n; ulimit -f; ulimit -c");
        limited.sandbox.limits = ResourceLimits {
            open_files: Some(99),
            file_size: Some(1 << 20),
            ..ResourceLimits::NONE
        };
        assert_eq!(output_of(&limited), "99\n2048\n0\n");
        assert_eq!(rustix::process::getrlimit(rustix::process::Resource::Nofile), before);
        let inherited = host().defaults().open_files(before).current.unwrap();
        assert_eq!(output_of(&sh("ulimit -n")).trim(), inherited.to_string());
    }

    #[test]
    fn a_new_process_is_sandboxed_and_its_parent_is_not() {
        let mut confined = sh("grep -E 'NoNewPrivs|Seccomp:' /proc/self/status");
        confined.sandbox.confinement = DEFAULT;
        confined.sandbox.backend = Backend::Seccomp;
        assert_eq!(output_of(&confined), "NoNewPrivs:\t1\nSeccomp:\t2\n");
        let own = fs::read_to_string("/proc/self/status").unwrap();
        assert!(own.contains("NoNewPrivs:\t0\n") && own.contains("Seccomp:\t0\n"), "{own}");
    }

    #[test]
    fn a_new_process_starts_in_its_cgroup_or_enters_it_by_itself() {
        let Some(cgroup) = host().cgroups().create_job(&ResourceLimits::NONE) else { return };
        let place = cgroup.open().unwrap();
        let shown = request(&["/bin/sh", "-c", "grep ^0:: /proc/self/cgroup"]);
        let root = directory(Path::new("/"));
        let (spawned, mut output) = create_in(&shown, &root, Some(&place)).unwrap();
        let mut created = String::new();
        output.read_to_string(&mut created).unwrap();
        spawned.child.wait_for_exit();
        assert!(created.contains("/shellyard-") && created.contains("/job-"), "{created}");

        // The fallback, in which the process enters the cgroup itself.
        let (mut ours, theirs) =
            pipe_with(PipeFlags::CLOEXEC).map(|(a, b)| (File::from(a), b)).unwrap();
        let files = outputs(root.as_fd(), theirs.as_fd());
        let mut setup = ChildSetup::prepare(&shown, files, &FilterCache::default()).unwrap();
        setup.cgroup = Some(place.as_fd());
        let child = host()
            .trees()
            .children
            .create(|| clone(&StackPool::default(), libc::SIGCHLD, &setup, &mut -1))
            .unwrap();
        drop(theirs);
        let mut entered = String::new();
        ours.read_to_string(&mut entered).unwrap();
        child.wait_for_exit();
        assert_eq!(entered, created);
    }

    impl VforkChild for ChildSetup<'_> {
        fn run(&self) -> ! {
            child_steps::run(self, None).ok();
            exit_now(1)
        }
    }

    /// Runs hundreds at a time, while other threads allocate, come and go, and get signals.
    #[test]
    fn spawning_from_many_threads_disturbs_no_other_thread() {
        const THREADS: usize = 8;
        const EACH: usize = 40;
        // It has a handler, like a server: the runtime's.
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let _guard = runtime.enter();
        let _handled =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::user_defined2());
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    kill_process(getpid(), Signal::USR2).unwrap();
                    thread::yield_now();
                }
            });
            scope.spawn(|| {
                let mut kept = BTreeSet::new();
                while !is_over.load(Ordering::Relaxed) {
                    kept.insert(format!(
                        "{:?}",
                        thread::spawn(|| vec![7_u8; 9000]).join().unwrap().len()
                    ));
                }
                assert_eq!(kept.len(), 1);
            });
            let create_many =
                |number| (0..EACH).for_each(|round| create_and_fail(&format!("{number}.{round}")));
            let threads = (0..THREADS).map(|number| scope.spawn(move || create_many(number)));
            for thread in threads.collect::<Vec<_>>() {
                thread.join().unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }

    /// Creates a process that prints this text, and fails to create another.
    fn create_and_fail(text: &str) {
        assert_eq!(output_of(&request(&["/bin/echo", text])), format!("{text}\n"));
        let failure = failure_of(&request(&["/no/such"]), Path::new("/"));
        assert_eq!(failure, (SpawnStep::Program, Errno::NOENT));
    }

    #[test]
    fn a_file_that_has_its_number_already_stays_open_for_the_program() {
        let (reader, _writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let number = reader.as_raw_fd();
        duplicate_to(reader.as_fd(), number).unwrap();
        assert!(rustix::io::fcntl_getfd(&reader).unwrap().is_empty(), "exec would close it");
    }

    #[test]
    fn kernel_releases_are_compared_by_their_numbers() {
        for (text, expected) in [
            ("6.18.4-arch1-1", Some((6, 18))),
            ("6.11.0", Some((6, 11))),
            ("6.9-rc2", Some((6, 9))),
            ("10.0", Some((10, 0))),
            ("6", None),
            ("", None),
        ] {
            assert_eq!(parse_release(text), expected, "{text}");
        }
        assert!(parse_release("6.9") < Some(SOUND) && parse_release("?") < Some(SOUND));
    }
}
