//! Runs a command under ptrace and records every program that it or a descendant starts.
//!
//! Each process that a traced one creates is traced from its first instruction, so no program can
//! start unseen, and a run is over when no process of it is left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};

/// The wall time that a run may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLimits {
    script: Duration,
    /// For background processes after the shell itself has ended.
    stragglers: Duration,
}

impl TimeLimits {
    /// For scripts that may never end: one of them may be cut short on a busy machine.
    pub(crate) const SHORT: Self =
        Self { script: Duration::from_millis(1500), stragglers: Duration::from_millis(300) };
    /// For scripts that end by themselves, however busy the machine is.
    pub(crate) const LONG: Self =
        Self { script: Duration::from_secs(60), stragglers: Duration::from_secs(20) };
}

/// The interval at which the watchdog looks at the clock.
const TICK: Duration = Duration::from_millis(20);
/// Processes that one script may create.
const MAX_PROCESSES: usize = 200;
/// The longest path that the kernel takes.
const MAX_PATH: usize = 4096;
const KIB: u64 = 1024;
/// Bounds that each script inherits. CPU is in seconds, the others are bytes or counts.
const LIMITS: [(Resource, u64); 5] = [
    (Resource::Cpu, 2),
    (Resource::Fsize, 4 * KIB * KIB),
    (Resource::Nofile, 64),
    (Resource::Core, 0),
    (Resource::As, 2 * KIB * KIB * KIB),
];

/// A program that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exec {
    /// The path given to `execve`, symlinks not resolved.
    pub(crate) path: String,
    pub(crate) argv: Vec<String>,
    /// The index of the program that started it; `None`: the shell that runs the script.
    pub(crate) starter: Option<usize>,
}

/// Everything that a traced command did.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    pub(crate) execs: Vec<Exec>,
    /// The exit code of the command; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    /// `true` if a bound on time or processes ended the run.
    pub(crate) cut_short: bool,
}

/// The processes of the current run, shared with the watchdog.
#[derive(Debug, Default)]
struct TraceWatch {
    pids: BTreeSet<i32>,
    deadline: Option<Instant>,
    expired: bool,
}

impl TraceWatch {
    /// Kills everything once the deadline is over. Processes that are created meanwhile stop
    /// for the tracer first, which kills them.
    fn enforce(&mut self) {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.expired = true;
        }
        if self.expired {
            self.pids.iter().for_each(|pid| kill(*pid));
        }
    }
}

/// Traces one command at a time, from the thread that created it.
#[derive(Debug)]
pub(crate) struct Tracer {
    watch: Arc<Mutex<TraceWatch>>,
}

impl Tracer {
    /// Starts the watchdog, which ends with the tracer.
    pub(crate) fn new() -> Self {
        let watch = Arc::new(Mutex::new(TraceWatch::default()));
        let weak = Arc::downgrade(&watch);
        thread::spawn(move || {
            while let Some(watch) = weak.upgrade() {
                lock(&watch).enforce();
                drop(watch);
                thread::sleep(TICK);
            }
        });
        Self { watch }
    }

    /// Runs a command until no process of it is left, or its time is over.
    pub(crate) fn run(&self, command: &mut Command, limits: TimeLimits) -> Traced {
        let leader = spawn_traced(command);
        *lock(&self.watch) = TraceWatch {
            pids: BTreeSet::from([leader]),
            deadline: Some(Instant::now() + limits.script),
            expired: false,
        };
        let mut run = TracedRun::new(leader);
        while let Some((pid, status)) = wait_any() {
            let mut watch = lock(&self.watch);
            if libc::WIFSTOPPED(status) {
                watch.pids.insert(pid);
                run.stopped(pid, status);
                watch.expired |= run.created > MAX_PROCESSES;
                if watch.expired {
                    kill(pid);
                }
            } else {
                watch.pids.remove(&pid);
                run.ended(pid, status);
                if pid == leader {
                    watch.deadline = Some(Instant::now() + limits.stragglers);
                }
            }
        }
        let mut watch = lock(&self.watch);
        watch.deadline = None;
        run.traced.cut_short = watch.expired;
        run.traced
    }
}

fn lock(watch: &Mutex<TraceWatch>) -> MutexGuard<'_, TraceWatch> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One run, as the stops of its processes tell it.
#[derive(Debug)]
struct TracedRun {
    leader: i32,
    /// The program that each process runs, by index; `None` is the shell.
    images: BTreeMap<i32, Option<usize>>,
    /// New processes that stopped before their parent reported them.
    held: BTreeSet<i32>,
    created: usize,
    traced: Traced,
}

impl TracedRun {
    fn new(leader: i32) -> Self {
        Self {
            leader,
            images: BTreeMap::from([(leader, None)]),
            held: BTreeSet::new(),
            created: 1,
            traced: Traced::default(),
        }
    }

    fn stopped(&mut self, pid: i32, status: i32) {
        let signal = libc::WSTOPSIG(status);
        match (signal, status >> 16) {
            (libc::SIGTRAP, libc::PTRACE_EVENT_EXEC) => self.executed(pid),
            (
                libc::SIGTRAP,
                libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE,
            ) => self.forked(pid),
            // The first stop of a new process. It waits until its parent is known.
            (libc::SIGSTOP, 0) if !self.images.contains_key(&pid) => {
                self.held.insert(pid);
                return;
            }
            (libc::SIGTRAP | libc::SIGSTOP, _) => {}
            (signal, _) => return resume(pid, signal),
        }
        resume(pid, 0);
    }

    fn executed(&mut self, pid: i32) {
        let starter = self.images.get(&pid).copied().flatten();
        if let Some(exec) = read_exec(pid, starter) {
            self.images.insert(pid, Some(self.traced.execs.len()));
            self.traced.execs.push(exec);
        }
    }

    fn forked(&mut self, parent: i32) {
        let Some(child) = new_process(parent) else { return };
        self.adopt(child, parent);
    }

    /// A new process runs what its parent runs.
    fn adopt(&mut self, child: i32, parent: i32) {
        self.created += 1;
        let image = self.images.get(&parent).copied().flatten();
        self.images.insert(child, image);
        if self.held.remove(&child) {
            resume(child, 0);
        }
    }

    /// A parent that is killed within `fork` never reports its child, which then goes on here.
    fn ended(&mut self, pid: i32, status: i32) {
        if pid == self.leader {
            self.traced.code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
        }
        for child in self.held.clone() {
            self.adopt(child, pid);
        }
        self.images.remove(&pid);
    }
}

/// Reads what a process runs, at the stop after `execve`. `None` if it was killed meanwhile.
fn read_exec(pid: i32, starter: Option<usize>) -> Option<Exec> {
    let cmdline = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let argv = cmdline.strip_suffix(b"\0").unwrap_or(&cmdline).split(|byte| *byte == 0);
    let argv = argv.map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
    Some(Exec { path: read_path(pid)?, argv, starter })
}

/// The path as given to `execve`: the kernel leaves it in the memory of the new program.
fn read_path(pid: i32) -> Option<String> {
    const WORD: usize = size_of::<usize>();
    let auxv = fs::read(format!("/proc/{pid}/auxv")).ok()?;
    let words = auxv.chunks_exact(WORD).map(|it| usize::from_ne_bytes(it.try_into().unwrap()));
    let words: Vec<usize> = words.collect();
    let key = usize::try_from(libc::AT_EXECFN).ok()?;
    let address = words.chunks_exact(2).find(|pair| pair[0] == key)?[1];
    let mut bytes = vec![0; MAX_PATH];
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let length = memory.read_at(&mut bytes, u64::try_from(address).ok()?).ok()?;
    let path = bytes[..length].split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(path).into_owned())
}

fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        kill_process(pid, Signal::KILL).ok();
    }
}

/// Starts a command that its parent thread traces, and lets it run.
#[expect(unsafe_code, reason = "only a child itself can ask to be traced and limited")]
fn spawn_traced(command: &mut Command) -> i32 {
    // SAFETY: between fork and exec the closure makes system calls only, without allocating.
    unsafe { command.pre_exec(prepare_child) };
    #[expect(clippy::zombie_processes, reason = "the tracer waits for all processes of a run")]
    let child = command.spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let (stopped, status) = wait_any().unwrap();
    assert!(stopped == pid && libc::WIFSTOPPED(status), "{stopped} is not {pid}: {status:#x}");
    let options = libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_EXITKILL;
    // SAFETY: the call reads no memory of ours; `data` is a set of flags.
    let result = unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options) };
    assert_eq!(result, 0, "tracing is refused: {}", io::Error::last_os_error());
    resume(pid, 0);
    pid
}

#[expect(unsafe_code, reason = "ptrace has no safe form")]
fn prepare_child() -> io::Result<()> {
    for (resource, limit) in LIMITS {
        setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?;
    }
    // SAFETY: the call takes no pointers.
    match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets a stopped process go on; one that was killed meanwhile needs nothing.
#[expect(unsafe_code, reason = "ptrace has no safe form")]
fn resume(pid: i32, signal: i32) {
    // SAFETY: the call takes no pointers; `data` is the number of a signal.
    unsafe { libc::ptrace(libc::PTRACE_CONT, pid, 0, signal) };
}

/// The process that a stopped one has just created.
#[expect(unsafe_code, reason = "ptrace has no safe form")]
fn new_process(parent: i32) -> Option<i32> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: `message` lives until the call returns, and is of the type that is written.
    let result = unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, parent, 0, &raw mut message) };
    if result == 0 { i32::try_from(message).ok() } else { None }
}

/// Waits for a process of this thread to stop or to end; `None` if there is none.
#[expect(unsafe_code, reason = "a safe wait does not know the processes of one thread")]
fn wait_any() -> Option<(i32, i32)> {
    loop {
        let mut status = 0;
        // SAFETY: `status` lives until the call returns.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if pid > 0 {
            return Some((pid, status));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return None,
            _ => panic!("waiting failed: {error}"),
        }
    }
}
