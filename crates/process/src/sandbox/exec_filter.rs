//! The seccomp filter of the exec gate.

use std::io;
use std::mem::offset_of;

use libc::{BPF_JEQ, BPF_JGE, c_long};

use super::seccomp::{PROCESSOR, X32_CALLS, jump, load, return_action};
use super::seccomp_filter::SeccompFilter;

/// Compiles the filter of the exec gate: calls that start a program wait for an answer of the listener.
/// A process that uses the calls of another processor is killed: their numbers mean other calls.
///
/// # Errors
/// If this processor's system calls are not known.
pub(crate) fn compile_exec_gate() -> io::Result<SeccompFilter> {
    let number = |call: c_long| u32::try_from(call).map_err(|_| io::ErrorKind::Unsupported);
    let program = vec![
        load(offset_of!(libc::seccomp_data, arch)),
        jump(BPF_JEQ, PROCESSOR.ok_or(io::ErrorKind::Unsupported)?, 1, 0),
        return_action(libc::SECCOMP_RET_KILL_PROCESS),
        load(offset_of!(libc::seccomp_data, nr)),
        jump(BPF_JGE, X32_CALLS, 0, 1),
        return_action(libc::SECCOMP_RET_KILL_PROCESS),
        jump(BPF_JEQ, number(libc::SYS_execve)?, 1, 0),
        jump(BPF_JEQ, number(libc::SYS_execveat)?, 0, 1),
        return_action(libc::SECCOMP_RET_USER_NOTIF),
        return_action(libc::SECCOMP_RET_ALLOW),
    ];
    Ok(SeccompFilter::new(program))
}
