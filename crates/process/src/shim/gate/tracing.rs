//! Tracing of a task from its permitted `execve` to the exec stop, by ptrace.
#![expect(unsafe_code, reason = "ptrace and tgkill have no safe wrappers")]

use std::ffi::{c_int, c_long, c_ulong};
use std::ptr;

use rustix::io::Errno;
use rustix::process::Pid;

use crate::syscalls::last_error;

/// `PTRACE_EVENT_STOP`, which the libc crate lacks for this system.
const EVENT_STOP: c_int = 128;

/// A stop of a traced task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TraceStop {
    /// It has loaded another program, and has not run one instruction of it.
    Exec,
    /// It was interrupted, or its whole process is stopped.
    Interrupted,
    /// It is about to take this signal.
    Signal(c_int),
}

impl TraceStop {
    /// Reads a status of `wait4`; `None` if it is not a stop.
    pub(super) const fn parse(status: c_int) -> Option<Self> {
        if !libc::WIFSTOPPED(status) {
            return None;
        }
        Some(match status >> 16 {
            libc::PTRACE_EVENT_EXEC => Self::Exec,
            EVENT_STOP => Self::Interrupted,
            _ => Self::Signal(libc::WSTOPSIG(status)),
        })
    }
}

/// Makes this process a traced one of its parent.
pub(super) fn trace_me() -> Result<(), Errno> {
    // SAFETY: the request uses no address.
    check(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, NONE, NONE) })
}

const NONE: *mut libc::c_void = ptr::null_mut();

/// Begins to trace a task, which goes on. It stops when it has loaded a program, and is killed if this
/// process ends before.
pub(super) fn seize(task: Pid) -> Result<(), Errno> {
    let options = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL;
    // SAFETY: the last argument is a set of options, and no address.
    check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, number(task), NONE, c_long::from(options)) })
}

/// Makes a task stop as soon as it leaves the kernel.
pub(super) fn interrupt(task: Pid) -> Result<(), Errno> {
    // SAFETY: the request uses no address.
    check(unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, number(task), NONE, NONE) })
}

/// Ends the tracing of a stopped task, which takes this signal; 0 is none.
pub(super) fn detach(task: Pid, signal: c_int) -> Result<(), Errno> {
    // SAFETY: the last argument is the number of a signal, and no address.
    check(unsafe { libc::ptrace(libc::PTRACE_DETACH, number(task), NONE, c_long::from(signal)) })
}

/// Lets a stopped task go on, traced as before, with this signal.
pub(super) fn resume(task: Pid, signal: c_int) -> Result<(), Errno> {
    // SAFETY: as in `detach`.
    check(unsafe { libc::ptrace(libc::PTRACE_CONT, number(task), NONE, c_long::from(signal)) })
}

/// Returns the number that a task at its exec stop had before: a thread takes that of its process.
pub(super) fn former_task(task: Pid) -> Result<Pid, Errno> {
    let mut message: c_ulong = 0;
    // SAFETY: the kernel writes one `unsigned long` to the last address.
    check(unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, number(task), NONE, &raw mut message) })?;
    i32::try_from(message).ok().and_then(crate::processes::parse_pid).ok_or(Errno::SRCH)
}

/// `true` if this task is the first thread of its process.
pub(super) fn is_first_thread(task: Pid) -> bool {
    let task = number(task);
    // SAFETY: signal 0 is sent to nobody; only the numbers are compared.
    match check(unsafe { libc::syscall(libc::SYS_tgkill, task, task, 0) }) {
        // It is one that may not be signalled.
        Ok(()) | Err(Errno::PERM) => true,
        Err(_) => false,
    }
}

const fn number(task: Pid) -> c_int {
    task.as_raw_nonzero().get()
}

fn check(result: c_long) -> Result<(), Errno> {
    if result == -1 { Err(last_error()) } else { Ok(()) }
}
