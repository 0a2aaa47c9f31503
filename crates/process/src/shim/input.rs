//! The input of a job that is not written yet. The shim keeps it, large pieces in files in memory, so that
//! it outlives the server that accepted it.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::fstat;
use rustix::io::{Errno, pread, retry_on_intr, write};
use rustix::termios::{LocalModes, tcgetattr};

use super::leader::GivenFiles;
use super::plan::ShimPlan;
use super::protocol::{EchoMode, Role};

/// The size of one read and write.
const BLOCK_BYTES: usize = 16 << 10;

/// The input of a job: the end to write to, and the pieces that wait.
#[derive(Debug)]
pub(super) struct InputQueue {
    /// `None` once the input has ended.
    writer: Option<OwnedFd>,
    is_terminal: bool,
    pieces: VecDeque<Piece>,
    ends_after_last: bool,
    accepted: u64,
    written: u64,
    echo: EchoMode,
}

#[derive(Debug)]
struct Piece {
    content: Content,
    length: u64,
    written: u64,
}

/// The input that was there from the start can be large, and lies in a file in memory.
#[derive(Debug)]
enum Content {
    File(OwnedFd),
    Bytes(Vec<u8>),
}

/// The result of an attempt to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputProgress {
    Nothing,
    /// At least one piece was written as a whole.
    PieceWritten,
    /// The job reads no more: its end was closed.
    Closed,
}

impl InputQueue {
    /// Creates the queue of an input; without a writer it takes nothing.
    pub(super) fn new(writer: Option<OwnedFd>, is_terminal: bool) -> Self {
        Self {
            writer,
            is_terminal,
            pieces: VecDeque::new(),
            ends_after_last: false,
            accepted: 0,
            written: 0,
            echo: EchoMode::Off,
        }
    }

    /// Adds the content of a file.
    pub(super) fn push(&mut self, file: OwnedFd) {
        let length = fstat(&file).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        self.add(Content::File(file), length);
    }

    /// Adds these bytes.
    pub(super) fn push_bytes(&mut self, bytes: Vec<u8>) {
        let length = bytes.len() as u64;
        self.add(Content::Bytes(bytes), length);
    }

    fn add(&mut self, content: Content, length: u64) {
        self.accepted += length;
        if self.writer.is_some() {
            self.pieces.push_back(Piece { content, length, written: 0 });
        }
    }

    /// Ends the input after everything that was added.
    pub(super) fn end(&mut self) {
        self.ends_after_last = true;
        if self.pieces.is_empty() {
            self.writer = None;
        }
    }

    /// Closes the input, with everything that waits.
    pub(super) fn close(&mut self) {
        self.writer = None;
        self.pieces.clear();
    }

    pub(super) const fn is_open(&self) -> bool {
        self.writer.is_some() && !self.ends_after_last
    }

    /// Returns the bytes that were accepted, and those of them that were written.
    pub(super) const fn totals(&self) -> (u64, u64) {
        (self.accepted, self.written)
    }

    /// Returns how the last piece is echoed.
    pub(super) const fn echo(&self) -> EchoMode {
        self.echo
    }

    /// Returns the file that must become writable before there is progress.
    pub(super) fn waits_for(&self) -> Option<BorrowedFd<'_>> {
        self.writer.as_ref().filter(|_| !self.pieces.is_empty()).map(|file| file.as_fd())
    }

    /// Writes what the job takes now. Never waits.
    pub(super) fn write(&mut self) -> InputProgress {
        let mut progress = InputProgress::Nothing;
        while let (Some(writer), Some(piece)) = (&self.writer, self.pieces.front_mut()) {
            if piece.written == 0 && self.is_terminal {
                self.echo = read_echo_mode(writer.as_fd());
            }
            match piece.write_to(writer.as_fd()) {
                Ok(written) => self.written += written,
                Err(Errno::WOULDBLOCK) => return progress,
                Err(_) => {
                    self.close();
                    return InputProgress::Closed;
                }
            }
            if piece.written >= piece.length {
                self.pieces.pop_front();
                progress = InputProgress::PieceWritten;
            }
        }
        if self.ends_after_last {
            self.writer = None;
        }
        progress
    }
}

impl Piece {
    fn write_to(&mut self, writer: BorrowedFd<'_>) -> Result<u64, Errno> {
        let mut block = [0; BLOCK_BYTES];
        let bytes = match &self.content {
            Content::File(file) => {
                let length = pread(file, &mut block, self.written)?;
                block.get(..length)
            }
            Content::Bytes(bytes) => {
                usize::try_from(self.written).ok().and_then(|written| bytes.get(written..))
            }
        };
        let bytes = bytes.unwrap_or_default();
        if bytes.is_empty() {
            self.written = self.length;
            return Ok(0);
        }
        let written = retry_on_intr(|| write(writer, bytes))? as u64;
        self.written += written;
        Ok(written)
    }
}

/// Returns how text that is written to a terminal now will be echoed. Its settings can be read from our
/// side as well.
fn read_echo_mode(terminal: BorrowedFd<'_>) -> EchoMode {
    match tcgetattr(terminal).ok().map(|settings| settings.local_modes) {
        None => EchoMode::Off,
        Some(modes) if modes.contains(LocalModes::ECHO) => EchoMode::Terminal,
        Some(modes) if modes.contains(LocalModes::ICANON) => EchoMode::Off,
        Some(_) => EchoMode::Program,
    }
}

/// Creates the queue of the job's input: for a terminal, through our side of it.
pub(super) fn new_input(plan: &ShimPlan, given: &GivenFiles, first: Option<OwnedFd>) -> InputQueue {
    let is_terminal = plan.request.terminal.is_some();
    let role = if is_terminal { Role::StdoutReader } else { Role::StdinWriter };
    let writer = given.iter().find(|(known, _)| *known == role);
    let writer = writer.and_then(|(_, file)| file.try_clone().ok());
    let mut input = InputQueue::new(writer, is_terminal);
    first.into_iter().for_each(|file| input.push(file));
    if plan.ends_input {
        input.end();
    }
    input
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;

    use rustix::io::ioctl_fionbio;
    use rustix::pipe::pipe;

    use super::super::plan::memory_file;
    use super::*;

    fn queue() -> (InputQueue, File) {
        let (reader, writer) = pipe().unwrap();
        ioctl_fionbio(&writer, true).unwrap();
        (InputQueue::new(Some(writer), false), reader.into())
    }

    #[test]
    fn pieces_are_written_in_order_as_the_job_reads_and_then_the_input_ends() {
        let (mut input, mut reader) = queue();
        let big: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        input.push(memory_file(&big).unwrap());
        input.push_bytes(b"last".to_vec());
        input.end();
        assert!(!input.is_open());
        let mut read = Vec::new();
        while input.waits_for().is_some() {
            input.write();
            let mut block = [0; 10_000];
            let length = reader.read(&mut block).unwrap();
            read.extend_from_slice(&block[..length]);
        }
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, [big.as_slice(), b"last"].concat());
        assert_eq!(input.totals(), (300_004, 300_004));
    }

    #[test]
    fn an_empty_input_needs_no_writing() {
        let (mut input, mut reader) = queue();
        input.end();
        assert_eq!(reader.read(&mut [0; 1]).unwrap(), 0);
        assert_eq!(input.write(), InputProgress::Nothing);
    }

    #[test]
    fn a_job_that_closed_its_end_gets_nothing_more() {
        let (mut input, reader) = queue();
        drop(reader);
        input.push(memory_file(b"text").unwrap());
        assert_eq!(input.write(), InputProgress::Closed);
        assert!(!input.is_open() && input.waits_for().is_none());
    }
}
