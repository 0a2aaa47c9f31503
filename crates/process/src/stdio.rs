//! The server's ends of a process's input and output: pipes, or a terminal.
#![expect(unsafe_code, reason = "the runtime registers file descriptors that it does not own")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec, ioctl_fionbio, retry_on_intr};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, Interest, ReadBuf};

use crate::job_user::JobUser;
use crate::launch::{LaunchStdin, StreamMode, TerminalSize};
use crate::shim::{Order, Role, memory_file};
use crate::shim_link::ShimLink;
use crate::syscalls;

/// The output of a process. It ends when no process can write any more, not when the leader ends.
#[derive(Debug)]
pub struct OutputPipe {
    /// The runtime's notification that there is something to read, if requested.
    readiness: Option<AsyncFd<RawFd>>,
    /// Closed after the notification: fields are dropped in this order.
    file: OwnedFd,
    /// The shim's copy, if there is one: closed last.
    held: Option<HeldEnd>,
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
        let mut pipe = Self { readiness: None, file, held: None };
        pipe.watch()?;
        Ok(pipe)
    }

    /// Creates a pipe that has nothing to read but its end.
    pub(crate) fn new_ended() -> io::Result<Self> {
        let (reader, _writer) = open_pipe()?;
        Self::new(reader)
    }

    /// Makes the shim close its copy when this pipe is dropped before its end.
    pub(crate) fn hold(&mut self, link: &Arc<ShimLink>, role: Role) {
        self.held = Some(HeldEnd { link: Arc::clone(link), role, is_over: AtomicBool::new(false) });
    }

    /// Returns what changes the size of the terminal, if this is one and there is a file to spare.
    pub(crate) fn terminal_resizer(&self, is_terminal: bool) -> Option<TerminalResizer> {
        is_terminal.then(|| self.file.try_clone().ok().map(TerminalResizer)).flatten()
    }

    /// Notes the end of the output: from then on no process minds that the shim holds it.
    fn note_end(&self, read: io::Result<usize>, room: usize) -> io::Result<usize> {
        if let (Ok(0), 1..) = (&read, room) {
            self.mark_ended();
        }
        read
    }

    /// Notes the end of the output that a caller of [`OutputPipe::try_take`] has found.
    pub fn mark_ended(&self) {
        if let Some(held) = &self.held {
            held.is_over.store(true, Ordering::Relaxed);
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

/// The shim's copy of an output. On drop the shim closes it, unless the next server takes over the job:
/// otherwise a process that writes would wait for a reader for ever.
#[derive(Debug)]
struct HeldEnd {
    link: Arc<ShimLink>,
    role: Role,
    /// `true` once the output has ended: then it makes no difference that the shim holds it.
    is_over: AtomicBool,
}

impl Drop for HeldEnd {
    fn drop(&mut self) {
        if !self.is_over.load(Ordering::Relaxed) && !self.link.is_handing_over() {
            // A shim that is gone holds nothing.
            self.link.order(&Order::Close(self.role), &[]).ok();
        }
    }
}

/// The most bytes of input in one message.
const MOST_INPUT_BYTES: usize = 8 << 10;

/// The input of a process, which its shim writes: what was accepted is delivered, whatever happens to
/// this server. Dropping it ends the input after that, unless the next server takes over the job. A
/// terminal is closed once its output was dropped too.
#[derive(Debug)]
pub struct ProcessInput {
    link: Arc<ShimLink>,
    /// Set if the input is a terminal.
    resizer: Option<TerminalResizer>,
    /// The bytes that were accepted.
    accepted: u64,
}

impl ProcessInput {
    /// Creates the input of a process with the bytes that were accepted and written so far.
    pub(crate) fn new(
        link: &Arc<ShimLink>,
        resizer: Option<TerminalResizer>,
        (accepted, _): (u64, u64),
    ) -> Self {
        Self { link: Arc::clone(link), resizer, accepted }
    }

    /// Sends bytes. Returns the number of bytes that were accepted since the start: they are written
    /// once an event says so.
    ///
    /// # Errors
    /// If the system has no room for them: then none was accepted.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<u64> {
        // By one message in any case: either all of it is accepted or nothing.
        if bytes.len() <= MOST_INPUT_BYTES {
            self.link.order(&Order::Input { bytes: bytes.to_vec() }, &[])?;
        } else {
            let file = memory_file(bytes)?;
            self.link.order(&Order::InputFile, &[file.as_fd()])?;
        }
        self.accepted += bytes.len() as u64;
        Ok(self.accepted)
    }

    /// Ends the input after what was sent, also while the next server takes over.
    pub fn end(self) {
        // A shim that is gone has no input to end.
        self.link.order(&Order::EndInput, &[]).ok();
    }

    /// Changes the size of the terminal; `None` if there is none.
    #[must_use]
    pub fn resize(&self, size: TerminalSize) -> Option<()> {
        self.resizer.as_ref()?.resize(size).ok()
    }
}

impl Drop for ProcessInput {
    fn drop(&mut self) {
        if !self.link.is_handing_over() {
            // A shim that is gone has no input to end.
            self.link.order(&Order::EndInput, &[]).ok();
        }
    }
}

// The pipes, or the terminal, between a process and us.

/// Both sides of the connection with a process. No other process inherits any of it.
#[derive(Debug)]
pub(crate) struct StdioPipes {
    pub(crate) stdout: OutputPipe,
    pub(crate) stderr: Option<OutputPipe>,
    pub(crate) child_stdio: ChildStdio,
    /// Our end of the input pipe, for the shim.
    pub(crate) stdin_writer: Option<OwnedFd>,
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

impl StdioPipes {
    pub(crate) fn open(stdin: &LaunchStdin, streams: StreamMode) -> io::Result<Self> {
        match stdin {
            LaunchStdin::Null => Self::pipes(None, None, streams),
            LaunchStdin::Inherited => {
                let theirs = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
                Self::pipes(Some(theirs), None, streams)
            }
            LaunchStdin::Text(_) | LaunchStdin::Pipe => {
                let (theirs, ours) = open_pipe()?;
                ioctl_fionbio(&ours, true)?;
                Self::pipes(Some(theirs), Some(ours), streams)
            }
            LaunchStdin::Terminal(size) => Self::terminal(*size),
        }
    }

    fn pipes(
        their_stdin: Option<OwnedFd>,
        stdin_writer: Option<OwnedFd>,
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
        Ok(Self { stdout, stderr, child_stdio, stdin_writer })
    }

    fn terminal(size: TerminalSize) -> io::Result<Self> {
        let PtyPair { ours, theirs } = PtyPair::open(size)?;
        Ok(Self {
            stdout: OutputPipe::new(ours)?,
            stderr: None,
            child_stdio: ChildStdio::Terminal { path: theirs },
            stdin_writer: None,
        })
    }

    /// Returns the files that the shim gets: the process's ends, and copies of ours.
    pub(crate) fn files(&self) -> Vec<(Role, BorrowedFd<'_>)> {
        let mut files = vec![(Role::StdoutReader, self.stdout.as_fd())];
        files.extend(self.stderr.as_ref().map(|pipe| (Role::StderrReader, pipe.as_fd())));
        files.extend(self.stdin_writer.as_ref().map(|file| (Role::StdinWriter, file.as_fd())));
        if let ChildStdio::Pipes { stdin, stdout, stderr } = &self.child_stdio {
            files.extend(stdin.as_ref().map(|file| (Role::Stdin, file.as_fd())));
            files.push((Role::Stdout, stdout.as_fd()));
            files.extend(stderr.as_ref().map(|file| (Role::Stderr, file.as_fd())));
        }
        files
    }
}

impl ChildStdio {
    /// Gives the files to the user of the process, so that it can open them by their names
    /// (`/dev/stderr`) too. A standard input that is the server's own stays as it is.
    pub(crate) fn give_to(&self, user: &JobUser, stdin: &LaunchStdin) -> Result<(), Errno> {
        match self {
            Self::Pipes { stdin: theirs, stdout, stderr } => {
                let theirs = theirs.iter().filter(|_| *stdin != LaunchStdin::Inherited);
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

    /// Returns the names in /proc/PID/fd of the files from which a process reads that waits for input.
    pub(crate) fn input_names(&self) -> Vec<PathBuf> {
        match self {
            Self::Pipes { stdin, .. } => stdin.iter().filter_map(pipe_name).collect(),
            Self::Terminal { path } => {
                vec![path.to_string_lossy().into_owned().into(), "/dev/tty".into()]
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

/// Changes the size of a job's terminal, also while the job does not read its input.
#[derive(Debug)]
pub(crate) struct TerminalResizer(OwnedFd);

impl TerminalResizer {
    /// Gives the terminal this size.
    ///
    /// # Errors
    /// The system's error.
    fn resize(&self, size: TerminalSize) -> io::Result<()> {
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
