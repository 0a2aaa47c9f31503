//! Our ends of a process's input and output: pipes, or both sides of a terminal.
#![expect(unsafe_code, reason = "the runtime takes files that are not its own on trust")]

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
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
    /// The runtime's word that there is something to read, where it was asked for.
    told: Option<AsyncFd<RawFd>>,
    /// Closed after that: fields are dropped in this order.
    file: OwnedFd,
}

/// Large enough that its writer need not wait while we are away for a moment. With a larger one, more
/// of what is read comes from memory instead of from the cache.
const FLOOD_PIPE_BYTES: usize = 256 << 10;

impl OutputPipe {
    /// Takes a readable file that does not block. It is watched from the start: of what a process
    /// writes the runtime tells before it tells of its end.
    ///
    /// # Errors
    /// When the system has no room to watch it.
    pub fn new(file: OwnedFd) -> io::Result<Self> {
        let mut pipe = Self { told: None, file };
        pipe.watch()?;
        Ok(pipe)
    }

    /// Has the runtime tell when there is something to read. What is there by now is told as well.
    ///
    /// # Errors
    /// When the system has no room to do so.
    pub fn watch(&mut self) -> io::Result<()> {
        if self.told.is_none() {
            let number = self.file.as_raw_fd();
            // SAFETY: the file stays the same, and open until `told` was dropped.
            self.told = Some(unsafe { raw::register_lent(number, Interest::READABLE) }?);
        }
        Ok(())
    }

    /// Has it tell no longer: whoever reads this has a thread to wait with.
    pub fn unwatch(&mut self) {
        self.told = None;
    }

    /// Whether the runtime tells.
    #[must_use]
    pub const fn is_watched(&self) -> bool {
        self.told.is_some()
    }

    /// Returns when there may be something to read, or the end; never for one that is not watched.
    /// Cancel-safe.
    ///
    /// # Errors
    /// When the runtime shuts down.
    pub async fn readable(&self) -> io::Result<()> {
        match &self.told {
            Some(told) => told.readable().await.map(|mut ready| ready.retain_ready()),
            None => std::future::pending().await,
        }
    }

    /// Adds what is there to the buffer, within its capacity and without waiting, and says how many
    /// bytes that were; 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there; wait with [`OutputPipe::readable`] then.
    pub fn try_read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match &self.told {
            Some(told) => told.try_io(Interest::READABLE, |_| read_into(&self.file, buffer)),
            None => self.read_untold(buffer),
        }
    }

    /// The same, also where the runtime has not told yet that something is there.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there.
    pub fn read_untold(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        read_into(&self.file, buffer)
    }

    /// Gives a flooding process a larger pipe, so that reader and writer switch less often.
    ///
    /// Not done from the start: it would cost every job the memory. Where the system refuses
    /// (a terminal, or the user's limit on pipe memory) the pipe stays as it is.
    pub fn grow(&self) {
        fcntl_setpipe_size(&self.file, FLOOD_PIPE_BYTES).ok();
    }
}

/// Blocks until there is something to read in one of these, or its end, and says so; or until this
/// time has passed. Of none, nothing ever comes.
pub fn wait_for_any<'a>(pipes: impl Iterator<Item = &'a OutputPipe>, time: Duration) -> bool {
    let mut polled: Vec<PollFd<'_>> =
        pipes.map(|pipe| PollFd::new(&pipe.file, PollFlags::IN)).collect();
    let Ok(time) = Timespec::try_from(time) else { return false };
    // Whatever went wrong with a pipe shows in the read that follows.
    !polled.is_empty() && poll(&mut polled, Some(&time)) != Ok(0)
}

impl AsyncRead for OutputPipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.watch()?;
        let Self { told: Some(told), file } = &*self else { return Poll::Pending };
        loop {
            let mut ready = ready!(told.poll_read_ready(context))?;
            let unfilled = buffer.initialize_unfilled();
            let read = |_: &AsyncFd<RawFd>| {
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
