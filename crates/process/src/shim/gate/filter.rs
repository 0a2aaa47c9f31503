//! The leader's part of the gate: it installs the filter on itself, and on everything that it starts.
#![expect(unsafe_code, reason = "the seccomp call has no safe wrapper")]

use std::ffi::{c_long, c_uint, c_ulong};
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};

use rustix::io::Errno;

use super::listener::send_listener;
use super::tracing;
use crate::sandbox::seccomp_filter::SeccompFilter;
use crate::syscalls::last_error;

/// Everything that a leader needs for the gate.
#[derive(Debug)]
pub(in crate::shim) struct GatedLeader {
    pub(super) filter: SeccompFilter,
    /// The end of the connection on which the shim waits for the listener.
    pub(super) socket: OwnedFd,
}

impl GatedLeader {
    /// Installs the filter. From here on this process can start no program that the shim does not judge.
    /// It must not be able to gain privileges any more.
    ///
    /// The shim could not begin to trace a leader: its memory is a copy of the shim's, which nobody may
    /// inspect, so ptrace refuses it even to the shim if that is not root. The leader asks for it instead,
    /// before the filter is there. What it starts is known from the plan, as long as no other program has
    /// run in it.
    ///
    /// # Errors
    /// `BUSY` if the filter of a parent has a listener already, `PERM` or `NOSYS` if tracing or filters
    /// are forbidden.
    pub(in crate::shim) fn install(&self) -> Result<(), Errno> {
        tracing::trace_me()?;
        let waits = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        // With the second flag, which Linux 5.19 has, only the end of a task interrupts its wait.
        let listener = match install_filter(&self.filter, waits | KILLABLE) {
            Err(Errno::INVAL) => install_filter(&self.filter, waits),
            done => done,
        }?;
        // The listener is closed here: if the shim ends, waiting starts must fail.
        send_listener(self.socket.as_fd(), &listener)
    }
}

const KILLABLE: c_ulong = libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;

fn install_filter(filter: &SeccompFilter, flags: c_ulong) -> Result<OwnedFd, Errno> {
    let steps = filter.steps();
    let program = libc::sock_fprog {
        len: u16::try_from(steps.len()).map_err(|_| Errno::INVAL)?,
        filter: steps.as_ptr().cast_mut().cast(),
    };
    const MODE: c_uint = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the kernel reads the program, whose steps have the kernel's layout and live through the
    // call; a new file belongs to nobody else.
    unsafe {
        let number: c_long = libc::syscall(libc::SYS_seccomp, MODE, flags, &raw const program);
        match i32::try_from(number) {
            Ok(number) if number >= 0 => Ok(OwnedFd::from_raw_fd(number)),
            Ok(_) | Err(_) => Err(last_error()),
        }
    }
}
