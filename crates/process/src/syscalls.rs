//! System calls of the server that have no safe wrapper.
#![expect(unsafe_code, reason = "posix_spawn, wait4 and some small queries have no safe wrapper")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io, ptr};

use rustix::io::Errno;
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Handle, RuntimeFlavor};

/// The arguments of [`posix_spawn`]: `argv` and `env` in the form that the kernel takes them.
#[derive(Debug)]
pub(crate) struct PosixSpawnPlan<'a> {
    pub(crate) path: &'a CStr,
    pub(crate) argv: &'a [CString],
    pub(crate) env: &'a [CString],
    /// Done in this order, in the child, after it got its own session.
    pub(crate) actions: &'a [FileAction<'a>],
}

/// One change to the child's files before it executes the program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileAction<'a> {
    Dup { from: BorrowedFd<'a>, to: RawFd },
    Open { to: RawFd, path: &'a CStr, flags: c_int },
    Copy { from: RawFd, to: RawFd },
    Chdir(BorrowedFd<'a>),
}

/// Creates a child in its own session, with default signal dispositions and no blocked signals, without
/// `fork`.
///
/// On return the child runs the program; an error means that there is no child.
pub(crate) fn posix_spawn(plan: &PosixSpawnPlan<'_>) -> Result<Pid, Errno> {
    let mut actions = MaybeUninit::uninit();
    let actions = FileActions::new(&mut actions, plan.actions)?;
    let mut attributes = MaybeUninit::uninit();
    let attributes = SpawnAttributes::new(&mut attributes)?;
    let argv = pointers(plan.argv);
    let env = pointers(plan.env);
    let mut pid = 0;
    // SAFETY: path, argv and env are NUL-terminated and live through the call, the two arrays end
    // with a null pointer, and both objects were initialised above.
    let code = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            plan.path.as_ptr(),
            actions.0,
            attributes.0,
            argv.as_ptr(),
            env.as_ptr(),
        )
    };
    check(code)?;
    Pid::from_raw(pid).ok_or(Errno::CHILD)
}

/// Registers a file with the runtime, which reports when it is ready.
pub(crate) fn register(
    file: Arc<OwnedFd>,
    interest: Interest,
) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: an OwnedFd is open and stays the same file until it is dropped, and the AsyncFd shares
    // in it.
    Ok(unsafe { AsyncFd::register_with_interest(file, interest) }?)
}

/// Registers a file that another owner keeps.
///
/// # Safety
/// The descriptor must stay the same file, and open, until the returned value was dropped.
pub(crate) unsafe fn register_lent(file: RawFd, interest: Interest) -> io::Result<AsyncFd<RawFd>> {
    // SAFETY: the caller keeps the descriptor open and unchanged, as the contract above requires.
    Ok(unsafe { AsyncFd::register_with_interest(file, interest) }?)
}

/// The end of a child, as `wait4` reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChildExit {
    pub(crate) status: c_int,
    pub(crate) cpu: Duration,
    pub(crate) max_rss_bytes: u64,
}

/// Reaps this one child if it has ended; `None` while it runs.
pub(crate) fn try_wait(pid: Pid) -> Result<Option<ChildExit>, Errno> {
    Ok(wait_for(pid.as_raw_nonzero().get())?.map(|(_, exit)| exit))
}

/// Reaps a child that has ended; `None` while all run.
///
/// # Errors
/// `CHILD` if there is no child.
pub(crate) fn try_wait_any() -> Result<Option<(Pid, ChildExit)>, Errno> {
    wait_for(-1)
}

/// Returns the largest resident set of this process, which must not have executed a program since it was
/// forked: the value would be that of the process before.
pub(crate) fn own_peak_bytes() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to live memory of the right type, for which all zeroes is valid.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    rss_bytes(&usage)
}

fn wait_for(number: c_int) -> Result<Option<(Pid, ChildExit)>, Errno> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let found = rustix::io::retry_on_intr(|| {
        // SAFETY: both pointers are to live memory of the right type.
        match unsafe { libc::wait4(number, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) } {
            -1 => Err(last_error()),
            found => Ok(found),
        }
    })?;
    // SAFETY: all zeroes is a valid rusage, and so is what the kernel wrote over it.
    let usage = unsafe { usage.assume_init() };
    let cpu = duration(usage.ru_utime) + duration(usage.ru_stime);
    let exit = ChildExit { status, cpu, max_rss_bytes: rss_bytes(&usage) };
    Ok(Pid::from_raw(found).map(|pid| (pid, exit)))
}
/// `true` if this number is an open descriptor of this process.
pub(crate) fn is_open(number: RawFd) -> bool {
    // SAFETY: the call only reads the flags of the number, which need not be open.
    unsafe { libc::fcntl(number, libc::F_GETFD) != -1 }
}

/// Returns the CPU time that the calling thread has used.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec; every kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut used) };
    let nanos = u32::try_from(used.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(used.tv_sec).unwrap_or(0), nanos)
}

/// USER_HZ: part of the kernel's interface, 100 on x86-64 and aarch64.
pub(crate) const TICKS_PER_SECOND: u64 = 100;

/// Returns the size of a page of memory.
pub(crate) fn page_size() -> u64 {
    // SAFETY: the call takes a constant and touches no memory.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Returns the numbers of the open descriptors of this process.
pub(crate) fn list_open_files() -> io::Result<Vec<RawFd>> {
    let names = fs::read_dir("/proc/self/fd")?.flatten().map(|entry| entry.file_name());
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
}

/// Marks every inherited file, from number 3 on, as close-on-exec.
pub(crate) fn close_inherited_on_exec() -> Result<(), Errno> {
    // SAFETY: the call sets a flag on files and closes none.
    match unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// Makes children wait to be reaped if this process was started with SIGCHLD ignored: their exit
/// status would be lost. A handler that is already set stays.
pub(crate) fn keep_exit_statuses() {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeroes is a valid sigaction; the default disposition runs no code of ours.
    unsafe {
        libc::sigaction(libc::SIGCHLD, ptr::null(), action.as_mut_ptr());
        if action.assume_init_ref().sa_sigaction == libc::SIG_IGN {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        }
    }
}

/// Gives all signals their default disposition, which children inherit.
pub(crate) fn reset_signals() {
    // The kernel's `struct sigaction` for the default: no handler, no flags, no mask. The C library
    // refuses the two signals that it uses itself.
    let default: [u64; 4] = [0; 4];
    for signal in 1..=u64::BITS {
        // SAFETY: the kernel reads only these bytes. Two signals always have the default, and return an
        // error.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null_mut::<u64>(),
                size_of::<u64>(),
            )
        };
    }
}

/// Makes a write beyond the limit on file sizes an error, like a full disk, instead of the end of
/// this process. Children get the default back.
pub(crate) fn survive_file_size_limit() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Calls `start` with all signals blocked: threads that it starts never take a signal of the process.
pub(crate) fn with_blocked_signals<T>(start: impl FnOnce() -> T) -> T {
    let (all, mut before) = signal_sets(&[]);
    // SAFETY: both sets are initialised; only the mask of this thread is changed.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) };
    let result = start();
    // SAFETY: as above; `before` is the mask that this thread had.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
    result
}

/// Blocks all signals in this thread.
pub(crate) fn block_all_signals() {
    let (all, _) = signal_sets(&[]);
    // SAFETY: the set is initialised; only the mask of this thread is changed.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut()) };
}

/// Blocks these signals in this thread, and returns a file from which they are read, one by one.
pub(crate) fn open_signal_file(signals: &[c_int]) -> Result<OwnedFd, Errno> {
    let (_, mask) = signal_sets(signals);
    // SAFETY: the set is initialised; a new file belongs to nobody else.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const mask, ptr::null_mut());
        match libc::signalfd(-1, &raw const mask, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(last_error()),
            file => Ok(OwnedFd::from_raw_fd(file)),
        }
    }
}

/// Reads the next signal from such a file; `None` if there is none.
pub(crate) fn read_signal(file: BorrowedFd<'_>) -> Option<c_int> {
    const SIZE: usize = size_of::<libc::signalfd_siginfo>();
    let mut bytes = [0; SIZE];
    let length = rustix::io::retry_on_intr(|| rustix::io::read(file, &mut bytes)).ok()?;
    // The number of the signal is the first field.
    let number = bytes.first_chunk().filter(|_| length == SIZE)?;
    c_int::try_from(u32::from_ne_bytes(*number)).ok()
}

/// Returns the time of the monotonic clock in microseconds.
pub(crate) fn monotonic_micros() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec; every kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000 + nanos / 1000
}

/// An initialised `posix_spawn_file_actions_t`, which stays where it is and is destroyed on drop.
struct FileActions<'a>(&'a mut libc::posix_spawn_file_actions_t);

impl<'a> FileActions<'a> {
    fn new(
        place: &'a mut MaybeUninit<libc::posix_spawn_file_actions_t>,
        actions: &[FileAction<'_>],
    ) -> Result<Self, Errno> {
        // SAFETY: `place` is writable, and is read only after the call has initialised it.
        let mut this = unsafe {
            check(libc::posix_spawn_file_actions_init(place.as_mut_ptr()))?;
            Self(place.assume_init_mut())
        };
        actions.iter().try_for_each(|action| this.add(*action)).map(|()| this)
    }

    fn add(&mut self, action: FileAction<'_>) -> Result<(), Errno> {
        let actions = ptr::from_mut(self.0);
        // SAFETY: initialised by `new` and not shared; paths are copied by the call, files are
        // borrowed for as long as the plan lives.
        check(unsafe {
            match action {
                FileAction::Dup { from, to } => {
                    libc::posix_spawn_file_actions_adddup2(actions, from.as_raw_fd(), to)
                }
                FileAction::Copy { from, to } => {
                    libc::posix_spawn_file_actions_adddup2(actions, from, to)
                }
                FileAction::Open { to, path, flags } => {
                    libc::posix_spawn_file_actions_addopen(actions, to, path.as_ptr(), flags, 0)
                }
                FileAction::Chdir(dir) => {
                    libc::posix_spawn_file_actions_addfchdir_np(actions, dir.as_raw_fd())
                }
            }
        })
    }
}

impl Drop for FileActions<'_> {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, destroyed once.
        unsafe { libc::posix_spawn_file_actions_destroy(self.0) };
    }
}

/// An initialised `posix_spawnattr_t`, which stays where it is and is destroyed on drop.
struct SpawnAttributes<'a>(&'a mut libc::posix_spawnattr_t);

impl<'a> SpawnAttributes<'a> {
    fn new(place: &'a mut MaybeUninit<libc::posix_spawnattr_t>) -> Result<Self, Errno> {
        const FLAGS: c_int = libc::POSIX_SPAWN_SETSID as c_int
            | libc::POSIX_SPAWN_SETSIGDEF
            | libc::POSIX_SPAWN_SETSIGMASK;
        // SAFETY: `place` is writable, and is read only after the call has initialised it.
        let this = unsafe {
            check(libc::posix_spawnattr_init(place.as_mut_ptr()))?;
            Self(place.assume_init_mut())
        };
        let (all, none) = signal_sets(&[]);
        // SAFETY: all three objects are initialised and live through the calls.
        unsafe {
            check(libc::posix_spawnattr_setsigdefault(this.0, &raw const all))?;
            check(libc::posix_spawnattr_setsigmask(this.0, &raw const none))?;
            #[expect(clippy::cast_possible_truncation, reason = "the flags are eight bits")]
            check(libc::posix_spawnattr_setflags(this.0, FLAGS as libc::c_short))?;
        }
        Ok(this)
    }
}

impl Drop for SpawnAttributes<'_> {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, destroyed once.
        unsafe { libc::posix_spawnattr_destroy(self.0) };
    }
}

/// Returns the set of all signals, and the set of these.
fn signal_sets(some: &[c_int]) -> (libc::sigset_t, libc::sigset_t) {
    let mut all = MaybeUninit::uninit();
    let mut mask = MaybeUninit::uninit();
    // SAFETY: sigfillset and sigemptyset initialise the sets before they are read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::sigemptyset(mask.as_mut_ptr());
        for signal in some {
            libc::sigaddset(mask.as_mut_ptr(), *signal);
        }
        (all.assume_init(), mask.assume_init())
    }
}

/// Returns the array of C strings that `exec` takes: pointers, and a null pointer at the end.
pub(crate) fn pointers(strings: &[impl AsRef<CStr>]) -> Vec<*mut c_char> {
    let null = std::iter::once(ptr::null_mut());
    strings.iter().map(|string| string.as_ref().as_ptr().cast_mut()).chain(null).collect()
}

/// Returns a pidfd of the process that opened the connection of this unix socket, from Linux 6.5
/// on. It never refers to another process, even if the pid is given out again.
pub(crate) fn peer_pidfd(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    // From asm-generic/socket.h, as x86-64, aarch64 and riscv64 have it; the libc crate lacks it.
    const SO_PEERPIDFD: c_int = 77;
    let mut handle: c_int = -1;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the pointers are to a live integer and its size, which the kernel does not exceed.
    let code = unsafe {
        let value = (&raw mut handle).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_PEERPIDFD, value, &raw mut length)
    };
    if code != 0 {
        return Err(last_error());
    }
    // SAFETY: the kernel has just created this descriptor for us, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(handle) })
}

/// Converts a result of the posix_spawn family, which returns the error instead of setting errno.
fn check(code: c_int) -> Result<(), Errno> {
    match code {
        0 => Ok(()),
        code => Err(Errno::from_raw_os_error(code)),
    }
}

pub(crate) fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

fn duration(time: libc::timeval) -> Duration {
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0)) + Duration::from_micros(micros)
}

fn rss_bytes(usage: &libc::rusage) -> u64 {
    u64::try_from(usage.ru_maxrss).unwrap_or(0).saturating_mul(1024)
}

// Memory that the server has freed and the system could use.

/// The free bytes that each thread's arena may keep at its end, and the size from which a block is
/// mapped outside of the heap.
#[cfg(target_env = "gnu")]
const KEPT_FREE: c_int = 512 * 1024;

/// Limits the memory that glibc keeps after it was freed, whatever `MALLOC_ARENA_MAX` says: there are
/// at most this many arenas. Otherwise there are up to eight for each processor, each fills
/// separately, and each may keep 64 MiB at its end, once blocks of 32 MiB were freed;
/// [`trim_memory`] does not touch these ends. Call it before there are threads: the arena of a thread
/// remains after the thread.
#[cfg_attr(not(target_env = "gnu"), expect(unused_variables, reason = "glibc alone has arenas"))]
pub fn limit_retained_memory(arenas: usize) {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "the C library's own function")]
    // SAFETY: it may be called at any time, and changes only how memory is taken and given back.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, c_int::try_from(arenas).unwrap_or(c_int::MAX));
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT_FREE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_FREE);
    }
}

/// Returns memory to the system that is free between blocks in use. glibc keeps it otherwise.
pub fn trim_memory() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "the C library's own function")]
    // SAFETY: it may be called at any time, by any thread, and invalidates nothing.
    unsafe {
        libc::malloc_trim(0);
    }
}

// Blocking calls on a thread of the runtime.

/// Runs a call that may block on this thread. The runtime moves its other tasks to another thread,
/// which costs more than a short wait, so use this for waits that are rare and may be long.
pub fn block_in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // There is no other thread, or no runtime.
        Ok(_) | Err(_) => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_during_a_blocking_call() {
        let (sender, receiver) = mpsc::channel();
        let waiting = tokio::spawn(async move { block_in_place(move || receiver.recv()) });
        let other = tokio::spawn(async move { sender.send(7) });
        other.await.unwrap().unwrap();
        assert_eq!(waiting.await.unwrap(), Ok(7));
    }

    #[test]
    fn open_files_are_listed() {
        let file = fs::File::open("/dev/null").unwrap();
        let open = list_open_files().unwrap();
        assert!(open.contains(&0) && open.contains(&file.as_raw_fd()), "{open:?}");
        assert!(!open.contains(&i32::MAX));
    }

    #[tokio::test]
    async fn a_runtime_with_one_thread_works() {
        assert_eq!(block_in_place(|| 7), 7);
    }
}
