//! The pipes, or the terminal, between a process and us.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::io::{fcntl_dupfd_cloexec, ioctl_fionbio};
use rustix::pipe::{PipeFlags, pipe_with};

use super::birth::Files;
use super::launch::LaunchStdin;
use super::pipe::{InputEnd, InputPipe, OutputPipe};
use super::pty::Terminal;

/// Both sides of what connects a process with us. Nothing of it passes to any other process.
#[derive(Debug)]
pub(super) struct Plumbing {
    pub(super) stdout: OutputPipe,
    pub(super) stderr: Option<OutputPipe>,
    pub(super) stdin: Option<InputPipe>,
    pub(super) theirs: Theirs,
}

/// The process's side. Ours to close once it has started, else we would never see the end.
#[derive(Debug)]
pub(super) enum Theirs {
    Pipes { stdin: Option<OwnedFd>, stdout: OwnedFd, stderr: OwnedFd },
    Terminal { path: CString },
}

/// What /proc/PID/fd calls the files of a process that lead to us.
#[derive(Debug, Default)]
pub(super) struct FileNames {
    /// What somebody reads who waits for our input.
    pub(super) inputs: Vec<PathBuf>,
    /// What only processes of this tree write to.
    pub(super) outputs: Vec<PathBuf>,
}

impl Plumbing {
    pub(super) fn lay(stdin: LaunchStdin) -> io::Result<Self> {
        match stdin {
            LaunchStdin::Null => Self::pipes(None, None),
            LaunchStdin::Inherited => {
                let theirs = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
                Self::pipes(Some(theirs), None)
            }
            LaunchStdin::Pipe => {
                let (theirs, ours) = pipe()?;
                ioctl_fionbio(&ours, true)?;
                Self::pipes(Some(theirs), Some(InputPipe::new(ours, InputEnd::Close)?))
            }
            LaunchStdin::Terminal => Self::terminal(),
        }
    }

    fn pipes(their_stdin: Option<OwnedFd>, stdin: Option<InputPipe>) -> io::Result<Self> {
        let (stdout, their_stdout) = output()?;
        let (stderr, their_stderr) = output()?;
        let theirs =
            Theirs::Pipes { stdin: their_stdin, stdout: their_stdout, stderr: their_stderr };
        Ok(Self { stdout, stderr: Some(stderr), stdin, theirs })
    }

    fn terminal() -> io::Result<Self> {
        let Terminal { ours, theirs } = Terminal::open()?;
        let stdin = InputPipe::new(ours.try_clone()?, InputEnd::EndOfFileKey)?;
        Ok(Self {
            stdout: OutputPipe::new(ours)?,
            stderr: None,
            stdin: Some(stdin),
            theirs: Theirs::Terminal { path: theirs },
        })
    }
}

impl Theirs {
    /// The files that the process starts with.
    pub(super) fn files<'a>(
        &'a self,
        directory: BorrowedFd<'a>,
        report: Option<BorrowedFd<'a>>,
    ) -> Files<'a> {
        let (stdin, stdout, stderr) = match self {
            Self::Pipes { stdin, stdout, stderr } => (stdin.as_ref(), Some(stdout), Some(stderr)),
            Self::Terminal { .. } => (None, None, None),
        };
        let lend = |file: Option<&'a OwnedFd>| file.map(OwnedFd::as_fd);
        let (stdin, stdout, stderr) = (lend(stdin), lend(stdout), lend(stderr));
        Files { directory, stdin, stdout, stderr, report }
    }

    /// The terminal that it opens instead.
    pub(super) fn terminal(&self) -> Option<&CString> {
        match self {
            Self::Pipes { .. } => None,
            // Opened in the new session, it becomes the controlling terminal.
            Self::Terminal { path } => Some(path),
        }
    }

    pub(super) fn names(&self) -> FileNames {
        match self {
            Self::Pipes { stdin, stdout, stderr } => FileNames {
                inputs: stdin.iter().filter_map(pipe_name).collect(),
                outputs: [stdout, stderr].into_iter().filter_map(pipe_name).collect(),
            },
            Self::Terminal { path } => {
                let path = PathBuf::from(path.to_string_lossy().into_owned());
                FileNames { inputs: vec![path.clone(), "/dev/tty".into()], outputs: vec![path] }
            }
        }
    }
}

fn output() -> io::Result<(OutputPipe, OwnedFd)> {
    let (ours, theirs) = pipe()?;
    ioctl_fionbio(&ours, true)?;
    Ok((OutputPipe::new(ours)?, theirs))
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((above_standard_files(reader)?, above_standard_files(writer)?))
}

/// The same file under a number above those of the standard files: there it would be overwritten
/// before it is copied. Only a server that was started without standard files has any to move.
pub(super) fn above_standard_files(file: OwnedFd) -> io::Result<OwnedFd> {
    if file.as_raw_fd() > 2 { Ok(file) } else { Ok(fcntl_dupfd_cloexec(file, 3)?) }
}

fn pipe_name(file: &OwnedFd) -> Option<PathBuf> {
    let inode = rustix::fs::fstat(file).ok()?.st_ino;
    Some(format!("pipe:[{inode}]").into())
}
