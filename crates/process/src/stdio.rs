//! The server's ends of a process's input and output: pipes, or a terminal.
#![expect(unsafe_code, reason = "the runtime registers file descriptors that it does not own")]

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{io, iter};

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec, ioctl_fionbio, retry_on_intr};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};

use crate::job_user::JobUser;
use crate::keeper::KeptFile;
use crate::launch::{LaunchStdin, StreamMode, TerminalSize};
use crate::syscalls;

/// The output of a process. It ends when no process can write any more, not when the leader ends.
#[derive(Debug)]
pub struct OutputPipe {
    /// The runtime's notification that there is something to read, if requested.
    readiness: Option<AsyncFd<RawFd>>,
    /// Closed after the notification: fields are dropped in this order.
    file: OwnedFd,
    /// The keeper's copy, if there is one: closed last.
    kept: Option<KeptFile>,
}

/// The pipe size for a process that writes a lot: large enough that the writer need not wait while
/// the reader is away for a moment. With a larger pipe, more of the data would come from memory
/// instead of from the cache.
const FLOOD_PIPE_BYTES: usize = 256 << 10;

impl OutputPipe {
    /// Takes a readable file that does not block. It is watched from the start, so that the runtime
    /// reports a process's output before it reports its end.
    ///
    /// # Errors
    /// If the system has no room to watch it.
    pub fn new(file: OwnedFd) -> io::Result<Self> {
        let mut pipe = Self { readiness: None, file, kept: None };
        pipe.watch()?;
        Ok(pipe)
    }

    /// Creates a pipe that has nothing to read but its end.
    pub(crate) fn new_ended() -> io::Result<Self> {
        let (reader, _writer) = open_pipe()?;
        Self::new(reader)
    }

    /// Makes the keeper close its copy when this pipe is dropped before its end.
    pub(crate) fn keep(&mut self, kept: KeptFile) {
        self.kept = Some(kept);
    }

    /// Notes the end of the output: from then on no process minds that the keeper holds it.
    fn note_end(&self, read: io::Result<usize>, room: usize) -> io::Result<usize> {
        if let (Ok(0), 1..) = (&read, room) {
            self.mark_ended();
        }
        read
    }

    /// Notes the end of the output that a caller of [`OutputPipe::try_take`] has found.
    pub fn mark_ended(&self) {
        if let Some(kept) = &self.kept {
            kept.mark_over();
        }
    }

    /// Makes the runtime report when there is something to read. Data that is already there is
    /// reported as well.
    ///
    /// # Errors
    /// If the system has no room to do so.
    pub fn watch(&mut self) -> io::Result<()> {
        if self.readiness.is_none() {
            let number = self.file.as_raw_fd();
            // SAFETY: the descriptor stays the same file, and open until `readiness` was dropped.
            self.readiness = Some(unsafe { syscalls::register_lent(number, Interest::READABLE) }?);
        }
        Ok(())
    }

    /// Stops the notifications, for a reader with its own thread to wait with.
    pub fn unwatch(&mut self) {
        self.readiness = None;
    }

    /// `true` if the runtime reports readiness.
    #[must_use]
    pub const fn is_watched(&self) -> bool {
        self.readiness.is_some()
    }

    /// Returns when there may be something to read, or the end; never if the pipe is not watched.
    /// Cancel-safe.
    ///
    /// # Errors
    /// If the runtime shuts down.
    pub async fn readable(&self) -> io::Result<()> {
        match &self.readiness {
            Some(readiness) => readiness.readable().await.map(|mut ready| ready.retain_ready()),
            None => std::future::pending().await,
        }
    }

    /// Appends the available data to the buffer, within its capacity and without waiting, and
    /// returns the number of bytes; 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there; then wait with [`OutputPipe::readable`].
    pub fn try_read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match &self.readiness {
            Some(readiness) => {
                readiness.try_io(Interest::READABLE, |_| self.try_read_now(&mut *buffer))
            }
            None => self.try_read_now(buffer),
        }
    }

    /// Does the same even if the runtime has not reported yet that something is there.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there.
    pub fn try_read_now(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let room = buffer.capacity() - buffer.len();
        self.note_end(read_into(&self.file, buffer), room)
    }

    /// Takes data out of the pipe with `take`, which must not wait. `WouldBlock` of `take` means that
    /// nothing is there.
    ///
    /// # Errors
    /// The error of `take`; `WouldBlock` also if the runtime has not reported that something is
    /// there.
    pub fn try_take<T>(
        &self,
        mut take: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        match &self.readiness {
            Some(readiness) => readiness.try_io(Interest::READABLE, |_| take(self.file.as_fd())),
            None => self.try_take_now(take),
        }
    }

    /// Does the same even if the runtime has not reported yet that something is there.
    ///
    /// # Errors
    /// The error of `take`.
    pub fn try_take_now<T>(
        &self,
        mut take: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        take(self.file.as_fd())
    }

    /// Gives a process that writes a lot a larger pipe, so that reader and writer switch less
    /// often.
    ///
    /// Not done from the start: it would cost every job the memory. If the system refuses (a
    /// terminal, or the user's limit on pipe memory), the pipe stays as it is.
    pub fn grow(&self) {
        fcntl_setpipe_size(&self.file, FLOOD_PIPE_BYTES).ok();
    }
}

/// Blocks until one of these pipes has something to read, or its end, and returns `true`; or until
/// this time has passed. Returns `false` at once if there are no pipes.
pub fn wait_until_readable<'a>(
    pipes: impl Iterator<Item = &'a OutputPipe>,
    time: Duration,
) -> bool {
    let mut polled: Vec<PollFd<'_>> =
        pipes.map(|pipe| PollFd::new(&pipe.file, PollFlags::IN)).collect();
    let Ok(time) = Timespec::try_from(time) else { return false };
    // Any error of a pipe shows in the read that follows.
    !polled.is_empty() && poll(&mut polled, Some(&time)) != Ok(0)
}

impl AsFd for OutputPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsyncRead for OutputPipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.watch()?;
        let Self { readiness: Some(readiness), file, .. } = &*self else { return Poll::Pending };
        loop {
            let mut ready = ready!(readiness.poll_read_ready(context))?;
            let unfilled = buffer.initialize_unfilled();
            let read = |_: &AsyncFd<RawFd>| {
                map_terminal_end(retry_on_intr(|| rustix::io::read(file, &mut *unfilled)))
            };
            if let Ok(result) = ready.try_io(read) {
                let result = self.note_end(result, buffer.remaining());
                return Poll::Ready(result.map(|length| buffer.advance(length)));
            }
        }
    }
}

fn read_into(file: &OwnedFd, buffer: &mut Vec<u8>) -> io::Result<usize> {
    map_terminal_end(retry_on_intr(|| rustix::io::read(file, spare_capacity(buffer))))
}

/// Maps the result of a read. `EIO` is the end of a terminal that no process has open any more.
fn map_terminal_end(read: Result<usize, Errno>) -> io::Result<usize> {
    match read {
        Err(Errno::IO) => Ok(0),
        read => Ok(read?),
    }
}

/// The input of a process. Dropping a pipe ends the input; a terminal needs [`InputPipe::end`].
#[derive(Debug)]
pub struct InputPipe {
    file: AsyncFd<OwnedFd>,
    end: EndOfInput,
    /// The keeper's copy, if there is one: closed with this pipe.
    kept: Option<KeptFile>,
}

/// The way in which the reader learns that there is no more input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndOfInput {
    Close,
    EndOfFileKey,
}

/// The part of a terminal job that echoes typed text to the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EchoMode {
    /// None: the input is a pipe, or the program asks for a password.
    #[default]
    Off,
    /// The terminal, at once.
    Terminal,
    /// The program itself, if it does: it reads key by key, as line editors do.
    Program,
}

impl InputPipe {
    /// Returns how text that is written now will be echoed.
    #[must_use]
    pub fn echo_mode(&self) -> EchoMode {
        let modes = match self.end {
            EndOfInput::Close => None,
            // The settings of a terminal can be read from our side as well.
            EndOfInput::EndOfFileKey => tcgetattr(self.file.get_ref()).ok(),
        };
        match modes.map(|settings| settings.local_modes) {
            None => EchoMode::Off,
            Some(modes) if modes.contains(LocalModes::ECHO) => EchoMode::Terminal,
            Some(modes) if modes.contains(LocalModes::ICANON) => EchoMode::Off,
            Some(_) => EchoMode::Program,
        }
    }

    /// Returns what changes the size of the terminal; `None` for a pipe, or if the process has no
    /// file to spare.
    #[must_use]
    pub fn resizer(&self) -> Option<TerminalResizer> {
        match self.end {
            EndOfInput::Close => None,
            EndOfInput::EndOfFileKey => self.file.get_ref().try_clone().ok().map(TerminalResizer),
        }
    }

    /// Takes a writable file that does not block.
    pub(crate) fn new(file: OwnedFd, end: EndOfInput) -> io::Result<Self> {
        Ok(Self { file: syscalls::register(file, Interest::WRITABLE)?, end, kept: None })
    }

    /// Makes the keeper close its copy when this pipe is dropped.
    pub(crate) fn keep(&mut self, kept: KeptFile) {
        self.kept = Some(kept);
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.get_ref().as_fd()
    }

    pub(crate) const fn end_of_input(&self) -> EndOfInput {
        self.end
    }

    /// Ends the input: a pipe is closed, a terminal gets control-D.
    ///
    /// # Errors
    /// If the terminal takes no more input, because no process has it open any more.
    pub async fn end(mut self) -> io::Result<()> {
        match self.end {
            EndOfInput::Close => Ok(()),
            EndOfInput::EndOfFileKey => self.write_all(b"\x04").await,
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

// The pipes, or the terminal, between a process and us.

/// Both sides of the connection with a process. No other process inherits any of it.
#[derive(Debug)]
pub(crate) struct StdioPipes {
    pub(crate) stdout: OutputPipe,
    pub(crate) stderr: Option<OutputPipe>,
    pub(crate) stdin: Option<InputPipe>,
    pub(crate) child_stdio: ChildStdio,
}

/// The process's side. We must close it once the process has started, or we would never see the
/// end.
#[derive(Debug)]
pub(crate) enum ChildStdio {
    Pipes {
        stdin: Option<OwnedFd>,
        stdout: OwnedFd,
        /// `None` if the standard error is the same pipe as the standard output.
        stderr: Option<OwnedFd>,
    },
    Terminal {
        path: CString,
    },
}

/// The names in /proc/PID/fd of the files that connect a process with us.
#[derive(Debug, Default)]
pub(crate) struct StdioNames {
    /// Files from which a process reads that waits for our input.
    pub(crate) inputs: Vec<PathBuf>,
    /// Files to which only processes of this tree write.
    pub(crate) outputs: Vec<PathBuf>,
}

impl StdioPipes {
    pub(crate) fn open(stdin: LaunchStdin, streams: StreamMode) -> io::Result<Self> {
        match stdin {
            LaunchStdin::Null => Self::pipes(None, None, streams),
            LaunchStdin::Inherited => {
                let theirs = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
                Self::pipes(Some(theirs), None, streams)
            }
            LaunchStdin::Pipe => {
                let (theirs, ours) = open_pipe()?;
                ioctl_fionbio(&ours, true)?;
                let ours = InputPipe::new(ours, EndOfInput::Close)?;
                Self::pipes(Some(theirs), Some(ours), streams)
            }
            LaunchStdin::Terminal(size) => Self::terminal(size),
        }
    }

    fn pipes(
        their_stdin: Option<OwnedFd>,
        stdin: Option<InputPipe>,
        streams: StreamMode,
    ) -> io::Result<Self> {
        let (stdout, their_stdout) = open_output()?;
        let (stderr, their_stderr) = match streams {
            StreamMode::Merged => (None, None),
            StreamMode::Separate => {
                let (ours, theirs) = open_output()?;
                (Some(ours), Some(theirs))
            }
        };
        let child_stdio =
            ChildStdio::Pipes { stdin: their_stdin, stdout: their_stdout, stderr: their_stderr };
        Ok(Self { stdout, stderr, stdin, child_stdio })
    }

    fn terminal(size: TerminalSize) -> io::Result<Self> {
        let PtyPair { ours, theirs } = PtyPair::open(size)?;
        let stdin = InputPipe::new(ours.try_clone()?, EndOfInput::EndOfFileKey)?;
        Ok(Self {
            stdout: OutputPipe::new(ours)?,
            stderr: None,
            stdin: Some(stdin),
            child_stdio: ChildStdio::Terminal { path: theirs },
        })
    }
}

impl ChildStdio {
    /// Returns the files that the process starts with.
    pub(crate) fn files<'a>(
        &'a self,
        directory: BorrowedFd<'a>,
        report: Option<BorrowedFd<'a>>,
    ) -> ChildFiles<'a> {
        let (stdin, stdout, stderr) = match self {
            Self::Pipes { stdin, stdout, stderr } => {
                (stdin.as_ref(), Some(stdout), stderr.as_ref().or(Some(stdout)))
            }
            Self::Terminal { .. } => (None, None, None),
        };
        let lend = |file: Option<&'a OwnedFd>| file.map(OwnedFd::as_fd);
        let stdin = lend(stdin);
        let stdout = lend(stdout);
        let stderr = lend(stderr);
        ChildFiles { directory, stdin, stdout, stderr, report }
    }

    /// Gives the files to the user of the process, so that it can open them by their names
    /// (`/dev/stderr`) too. A standard input that is the server's own stays as it is.
    pub(crate) fn give_to(&self, user: &JobUser, stdin: LaunchStdin) -> Result<(), Errno> {
        match self {
            Self::Pipes { stdin: theirs, stdout, stderr } => {
                let theirs = theirs.iter().filter(|_| stdin == LaunchStdin::Pipe);
                theirs.chain([stdout]).chain(stderr).try_for_each(|file| user.give_file(file))
            }
            Self::Terminal { path } => user.give_path(path.as_c_str()),
        }
    }

    /// Returns the terminal that the process opens instead.
    pub(crate) fn terminal(&self) -> Option<&CString> {
        match self {
            Self::Pipes { .. } => None,
            // Opened in the new session, it becomes the controlling terminal.
            Self::Terminal { path } => Some(path),
        }
    }

    pub(crate) fn fd_names(&self) -> StdioNames {
        match self {
            Self::Pipes { stdin, stdout, stderr } => StdioNames {
                inputs: stdin.iter().filter_map(pipe_name).collect(),
                outputs: iter::once(stdout).chain(stderr).filter_map(pipe_name).collect(),
            },
            Self::Terminal { path } => {
                let path = PathBuf::from(path.to_string_lossy().into_owned());
                StdioNames { inputs: vec![path.clone(), "/dev/tty".into()], outputs: vec![path] }
            }
        }
    }
}

fn open_output() -> io::Result<(OutputPipe, OwnedFd)> {
    let (ours, theirs) = open_pipe()?;
    ioctl_fionbio(&ours, true)?;
    Ok((OutputPipe::new(ours)?, theirs))
}

fn open_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((move_above_standard_files(reader)?, move_above_standard_files(writer)?))
}

/// Moves a file to a number above those of the standard files: there it would be overwritten before
/// it is copied. Only a server that was started without standard files has any to move.
pub(crate) fn move_above_standard_files(file: OwnedFd) -> io::Result<OwnedFd> {
    if file.as_raw_fd() > 2 { Ok(file) } else { Ok(fcntl_dupfd_cloexec(file, 3)?) }
}

fn pipe_name(file: &OwnedFd) -> Option<PathBuf> {
    let inode = rustix::fs::fstat(file).ok()?.st_ino;
    Some(format!("pipe:[{inode}]").into())
}

/// The files that a new process starts with. Outputs are `None` if a terminal is both.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChildFiles<'a> {
    /// The directory in which it runs.
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) stdin: Option<BorrowedFd<'a>>,
    pub(crate) stdout: Option<BorrowedFd<'a>>,
    pub(crate) stderr: Option<BorrowedFd<'a>>,
    /// The file in which a shell leaves the exit codes of its last pipeline.
    pub(crate) report: Option<BorrowedFd<'a>>,
}

/// Changes the size of a job's terminal, also while the job does not read its input.
#[derive(Debug)]
pub struct TerminalResizer(OwnedFd);

impl TerminalResizer {
    /// Gives the terminal this size.
    ///
    /// # Errors
    /// The system's error.
    pub fn resize(&self, size: TerminalSize) -> io::Result<()> {
        set_size(&self.0, size)
    }
}

/// A pseudoterminal: our side, which does not block, and the path of the process's side.
///
/// We never open the process's side, so that reading ends when the last process has closed it.
#[derive(Debug)]
struct PtyPair {
    ours: OwnedFd,
    theirs: CString,
}

impl PtyPair {
    fn open(size: TerminalSize) -> io::Result<Self> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        ioctl_fionbio(&ours, true)?;
        set_size(&ours, size)?;
        let theirs = ptsname(&ours, Vec::new())?;
        Ok(Self { ours, theirs })
    }
}

/// Gives this size to a terminal; its foreground processes get SIGWINCH.
fn set_size(terminal: &OwnedFd, size: TerminalSize) -> io::Result<()> {
    let TerminalSize { rows: ws_row, columns: ws_col } = size;
    Ok(tcsetwinsize(terminal, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 })?)
}
