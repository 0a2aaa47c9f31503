//! The shim's end of the filter: each `execve` of the job waits here for an answer.
#![expect(unsafe_code, reason = "the requests of a seccomp listener have no safe wrappers")]

use std::ffi::{c_int, c_long};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::Pid;

use crate::processes;
use crate::syscalls::last_error;
use crate::wire::{self, Received};

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`, which the libc crate lacks: the answered task gets the processor
/// of this one at once, since this one is about to wait. From Linux 6.6 on.
const SYNC_WAKE_UP: u64 = 1;

/// A task that waits in a call which starts a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Notification {
    /// The number of this wait, never given out again.
    pub(super) id: u64,
    pub(super) task: Pid,
    /// The number of the call.
    pub(super) call: c_long,
    pub(super) arguments: [u64; 6],
}

/// The result of looking for a waiting task.
#[derive(Debug)]
pub(super) enum Waiting {
    Task(Notification),
    Nobody,
    /// No process of the job is left.
    Over,
}

/// The listener of a filter. If it is closed, every waiting start fails, and every later one.
#[derive(Debug)]
pub(super) struct Listener {
    file: OwnedFd,
}

/// A notification, with room for the fields of later kernels.
#[repr(C)]
struct NotificationBuffer {
    known: libc::seccomp_notif,
    later: [u64; 16],
}

impl Listener {
    pub(super) fn new(file: OwnedFd) -> Self {
        let number = file.as_raw_fd();
        // An older kernel does without.
        // SAFETY: the last argument is a set of flags, and no address.
        unsafe { libc::ioctl(number, libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
        Self { file }
    }

    /// Returns the next waiting task. Never waits.
    pub(super) fn receive(&self) -> Waiting {
        let mut polled = [PollFd::new(&self.file, PollFlags::IN)];
        if poll(&mut polled, Some(&Timespec::default())) != Ok(1) {
            return Waiting::Nobody;
        }
        let found = polled[0].revents();
        if !found.contains(PollFlags::IN) {
            let is_over = found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
            return if is_over { Waiting::Over } else { Waiting::Nobody };
        }
        // An error: the task was killed meanwhile. If others wait, the file is still readable.
        self.take().map_or(Waiting::Nobody, Waiting::Task)
    }

    fn take(&self) -> Option<Notification> {
        let mut buffer = MaybeUninit::<NotificationBuffer>::zeroed();
        // SAFETY: the kernel writes one notification, for which there is room, into zeroed memory.
        let done = unsafe {
            let place = buffer.as_mut_ptr();
            libc::ioctl(self.file.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, place)
        };
        // SAFETY: all zeroes is a valid value, and so is what the kernel wrote over it.
        let libc::seccomp_notif { id, pid, flags: _, data } = unsafe { buffer.assume_init() }.known;
        let task = i32::try_from(pid).ok().filter(|_| done == 0).and_then(processes::parse_pid)?;
        let call = c_long::from(data.nr);
        Some(Notification { id, task, call, arguments: data.args })
    }

    /// `true` if the task still waits: what was read under its number belongs to it.
    pub(super) fn is_waiting(&self, id: u64) -> bool {
        let number = self.file.as_raw_fd();
        // SAFETY: the kernel reads one number.
        unsafe { libc::ioctl(number, libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
    }

    /// Lets the call go on.
    ///
    /// # Errors
    /// `NOENT` if the task does not wait any more.
    pub(super) fn proceed(&self, id: u64) -> Result<(), Errno> {
        #[expect(clippy::cast_possible_truncation, reason = "the flag is 1")]
        let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        self.answer(&libc::seccomp_notif_resp { id, val: 0, error: 0, flags })
    }

    /// Lets the call fail. A task that does not wait any more is ignored.
    pub(super) fn fail(&self, id: u64, errno: Errno) {
        let error: c_int = -errno.raw_os_error();
        self.answer(&libc::seccomp_notif_resp { id, val: 0, error, flags: 0 }).ok();
    }

    fn answer(&self, answer: &libc::seccomp_notif_resp) -> Result<(), Errno> {
        let number = self.file.as_raw_fd();
        // SAFETY: the kernel reads one answer.
        match unsafe { libc::ioctl(number, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const *answer) } {
            0 => Ok(()),
            _ => Err(last_error()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Sends the listener to the shim.
pub(super) fn send_listener(socket: BorrowedFd<'_>, listener: &OwnedFd) -> Result<(), Errno> {
    wire::send(socket, &(), &[listener.as_fd()], SendFlags::empty())
}

/// Receives the listener from the leader; `None` if there is none yet, an error if none will come.
pub(super) fn receive_listener(socket: BorrowedFd<'_>) -> Result<Option<Listener>, Errno> {
    match wire::receive::<()>(socket, RecvFlags::DONTWAIT) {
        Ok(Received::Message((), files)) => {
            files.into_iter().next().map(Listener::new).map(Some).ok_or(Errno::NFILE)
        }
        Err(Errno::WOULDBLOCK) => Ok(None),
        Ok(Received::Unknown | Received::End) => Err(Errno::PIPE),
        Err(errno) => Err(errno),
    }
}
