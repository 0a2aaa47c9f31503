//! Moves bytes from a pipe to a file inside the kernel.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::pipe::{SpliceFlags, splice};

/// The state of the read end of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PipeState {
    /// This many bytes can be read, at least one.
    Bytes(usize),
    /// Nothing is left, and nobody can write any more.
    Ended,
    /// Something that does not tell how much can be read.
    NotAPipe,
}

/// Looks at a pipe without reading from it.
///
/// # Errors
/// `WouldBlock` if the pipe is empty and not at its end.
pub(crate) fn pipe_state(pipe: BorrowedFd<'_>) -> io::Result<PipeState> {
    let Ok(available) = ioctl_fionread(pipe) else { return Ok(PipeState::NotAPipe) };
    if let Ok(bytes @ 1..) = usize::try_from(available) {
        return Ok(PipeState::Bytes(bytes));
    }
    let mut waiting = [PollFd::from_borrowed_fd(pipe, PollFlags::IN)];
    poll(&mut waiting, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    let now = waiting[0].revents();
    if now.contains(PollFlags::IN) {
        // Bytes that came meanwhile.
        return Ok(PipeState::Bytes(1));
    }
    if now.contains(PollFlags::HUP) {
        return Ok(PipeState::Ended);
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// Moves up to `bytes` from a pipe to a position of a file, without waiting for the pipe. Returns
/// the number of bytes; 0 at the end of the pipe.
///
/// # Errors
/// `WouldBlock` if the pipe is empty; else the system's error, such as `InvalidInput` if one of the
/// two cannot do this.
pub(crate) fn splice_to_file(
    pipe: BorrowedFd<'_>,
    file: &File,
    position: u64,
    bytes: usize,
) -> io::Result<usize> {
    loop {
        let mut at = position;
        match splice(pipe, None, file, Some(&mut at), bytes, SpliceFlags::NONBLOCK) {
            Err(Errno::INTR) => {}
            moved => return Ok(moved?),
        }
    }
}
