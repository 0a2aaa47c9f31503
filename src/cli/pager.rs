//! The place of results: stdout, or a pager if they may be long and a person reads them.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

use super::display::Display;

/// A place for the output of a verb.
#[derive(Debug)]
pub(super) enum OutputSink {
    Stdout,
    Pager(Child),
}

impl OutputSink {
    /// Starts the pager if there is one; a pager that cannot be started is not used.
    pub(super) fn open(display: &Display) -> Self {
        let pager = display.pager.as_deref().and_then(|command| start_pager(command).ok());
        pager.map_or(Self::Stdout, Self::Pager)
    }

    /// Writes all bytes at once.
    ///
    /// # Errors
    /// When the reader is gone: the user quit the pager, or a pipe was closed.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(bytes)?;
                stdout.flush()
            }
            Self::Pager(pager) => match &mut pager.stdin {
                Some(stdin) => stdin.write_all(bytes),
                None => Err(io::ErrorKind::BrokenPipe.into()),
            },
        }
    }

    /// `true` if a pager shows the output.
    pub(super) const fn is_pager(&self) -> bool {
        matches!(self, Self::Pager(_))
    }

    /// Ends the output, and waits until the user has left the pager.
    pub(super) fn close(self) {
        if let Self::Pager(mut pager) = self {
            drop(pager.stdin.take());
            // The user has left the pager either way.
            pager.wait().ok();
        }
    }
}

fn start_pager(command: &str) -> io::Result<Child> {
    let is_plain = |c: char| c.is_alphanumeric() || " -_./+=:".contains(c);
    let mut words = command.split_whitespace();
    let program = words.next().ok_or(io::ErrorKind::NotFound)?;
    let mut start = if command.chars().all(is_plain) {
        let mut start = Command::new(program);
        start.args(words);
        start
    } else {
        let mut start = Command::new("/bin/sh");
        start.args(["-c", command]);
        start
    };
    start.stdin(Stdio::piped()).spawn()
}
