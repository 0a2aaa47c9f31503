//! Our ends of a process's input and output: pipes, or both sides of a terminal.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};

use super::raw;

/// What a process writes. The end comes when nobody can write any more, not when the leader ends.
#[derive(Debug)]
pub struct OutputPipe {
    file: AsyncFd<OwnedFd>,
}

const FLOOD_PIPE_BYTES: usize = 1 << 20;

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

    /// Reads what is there without waiting; 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there; wait with [`OutputPipe::readable`] then.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.try_io(Interest::READABLE, |file| read(file, buffer))
    }

    /// Gives a flooding process a larger pipe, so that reader and writer switch less often.
    ///
    /// Not done from the start: it would cost every job the memory. Where the system refuses
    /// (a terminal, or the user's limit on pipe memory) the pipe stays as it is.
    pub fn grow(&self) {
        rustix::pipe::fcntl_setpipe_size(self.file.get_ref(), FLOOD_PIPE_BYTES).ok();
    }
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
            if let Ok(result) = ready.try_io(|file| read(file.get_ref(), unfilled)) {
                return Poll::Ready(result.map(|length| buffer.advance(length)));
            }
        }
    }
}

fn read(file: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    match rustix::io::retry_on_intr(|| rustix::io::read(file, &mut *buffer)) {
        // A terminal that nobody has open any more.
        Err(Errno::IO) => Ok(0),
        result => Ok(result?),
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
    Ok(rustix::io::retry_on_intr(|| rustix::io::write(file, bytes))?)
}
