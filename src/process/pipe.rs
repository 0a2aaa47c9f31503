//! Our ends of a process's input and output: pipes, or both sides of a terminal.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::fcntl_setpipe_size;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};

use super::raw;

/// What a process writes. The end comes when nobody can write any more, not when the leader ends.
#[derive(Debug)]
pub struct OutputPipe {
    file: AsyncFd<OwnedFd>,
}

/// Large enough that its writer need not wait while we are away for a moment. With a larger one, more
/// of what is read comes from memory instead of from the cache.
const FLOOD_PIPE_BYTES: usize = 256 << 10;

impl OutputPipe {
    /// Takes a readable file that does not block.
    pub(super) fn new(file: OwnedFd) -> io::Result<Self> {
        Ok(Self { file: raw::register(file, Interest::READABLE)? })
    }

    /// Returns when there may be something to read, or the end. Cancel-safe.
    ///
    /// # Errors
    /// When the runtime shuts down.
    pub async fn readable(&self) -> io::Result<()> {
        self.file.readable().await.map(|mut ready| ready.retain_ready())
    }

    /// Adds what is there to the buffer, within its capacity and without waiting, and says how many
    /// bytes that were; 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there; wait with [`OutputPipe::readable`] then.
    pub fn try_read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.file.try_io(Interest::READABLE, |file| read_into(file, buffer))
    }

    /// Has the runtime tell no longer when there is something to read.
    #[must_use]
    pub fn unwatched(self) -> UnwatchedPipe {
        UnwatchedPipe { file: self.file.into_inner() }
    }

    /// Gives a flooding process a larger pipe, so that reader and writer switch less often.
    ///
    /// Not done from the start: it would cost every job the memory. Where the system refuses
    /// (a terminal, or the user's limit on pipe memory) the pipe stays as it is.
    pub fn grow(&self) {
        fcntl_setpipe_size(self.file.get_ref(), FLOOD_PIPE_BYTES).ok();
    }
}

/// The same, of which the runtime knows nothing: whoever reads it has a thread to wait with.
#[derive(Debug)]
pub struct UnwatchedPipe {
    file: OwnedFd,
}

impl UnwatchedPipe {
    /// As [`OutputPipe::try_read`].
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there.
    pub fn try_read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        read_into(&self.file, buffer)
    }

    /// Has the runtime tell again. What is there by now is told as well.
    ///
    /// # Errors
    /// Gives it back where the runtime cannot.
    pub fn watched(self) -> Result<OutputPipe, Self> {
        // A copy, since the runtime would not give it back.
        self.file.try_clone().and_then(OutputPipe::new).map_err(|_| self)
    }
}

/// Blocks until there is something to read in one of these, or its end, and says so; or until this
/// time has passed. Of none, nothing ever comes.
pub fn wait_for_any<'a>(pipes: impl Iterator<Item = &'a UnwatchedPipe>, time: Duration) -> bool {
    let mut polled: Vec<PollFd<'_>> =
        pipes.map(|pipe| PollFd::new(&pipe.file, PollFlags::IN)).collect();
    let Ok(time) = Timespec::try_from(time) else { return false };
    // Whatever went wrong with a pipe shows in the read that follows.
    !polled.is_empty() && poll(&mut polled, Some(&time)) != Ok(0)
}

impl AsyncRead for OutputPipe {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.file.poll_read_ready(context))?;
            let unfilled = buffer.initialize_unfilled();
            let read = |file: &AsyncFd<OwnedFd>| {
                ended(retry_on_intr(|| rustix::io::read(file, &mut *unfilled)))
            };
            if let Ok(result) = ready.try_io(read) {
                return Poll::Ready(result.map(|length| buffer.advance(length)));
            }
        }
    }
}

fn read_into(file: &OwnedFd, buffer: &mut Vec<u8>) -> io::Result<usize> {
    ended(retry_on_intr(|| rustix::io::read(file, spare_capacity(buffer))))
}

/// What a read gives. It is the end when nobody has a terminal open any more.
fn ended(read: Result<usize, Errno>) -> io::Result<usize> {
    match read {
        Err(Errno::IO) => Ok(0),
        read => Ok(read?),
    }
}

/// Where a process's input goes. Dropping a pipe ends the input; a terminal has to be told
/// ([`InputPipe::end`]).
#[derive(Debug)]
pub struct InputPipe {
    file: AsyncFd<OwnedFd>,
    end: InputEnd,
}

/// How the reader learns that there is no more input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputEnd {
    Close,
    EndOfFileKey,
}

impl InputPipe {
    /// Takes a writable file that does not block.
    pub(super) fn new(file: OwnedFd, end: InputEnd) -> io::Result<Self> {
        Ok(Self { file: raw::register(file, Interest::WRITABLE)?, end })
    }

    /// Ends the input: a pipe is closed, a terminal gets control-D.
    ///
    /// # Errors
    /// When the terminal takes no more input, because nobody has it open any more.
    pub async fn end(mut self) -> io::Result<()> {
        match self.end {
            InputEnd::Close => Ok(()),
            InputEnd::EndOfFileKey => self.write_all(b"\x04").await,
        }
    }
}

impl AsyncWrite for InputPipe {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.file.poll_write_ready(context))?;
            if let Ok(result) = ready.try_io(|file| write(file.get_ref(), bytes)) {
                return Poll::Ready(result);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn write(file: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::io::write(file, bytes))?)
}
