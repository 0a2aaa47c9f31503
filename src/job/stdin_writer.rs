//! Writes a job's standard input from a task of its own, so that a job that does not read blocks no
//! caller.

use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

use crate::ids::JobId;
use crate::process::{EchoMode, InputPipe, TerminalResizer, TerminalSize};

/// The number of pieces of input that may wait for a job that does not read.
const BACKLOG: usize = 64;

/// The writing side of a job's standard input. Dropping it is the end of input.
#[derive(Debug)]
pub(super) struct StdinWriter {
    pieces: mpsc::Sender<StdinPiece>,
    /// Set if the input is a terminal.
    resizer: Option<TerminalResizer>,
}

#[derive(Debug)]
struct StdinPiece {
    bytes: Vec<u8>,
    /// Told how the bytes are echoed, once they are written.
    written: oneshot::Sender<EchoMode>,
}

/// The reason why a piece was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StdinWriteError {
    /// Earlier pieces still wait.
    Full,
    /// The job closed its input.
    Closed,
}

impl StdinWriter {
    /// Starts the task that writes to this pipe.
    pub(super) fn start(pipe: InputPipe) -> Self {
        let (pieces, queue) = mpsc::channel(BACKLOG);
        let resizer = pipe.resizer();
        tokio::spawn(write_pieces(pipe, queue));
        Self { pieces, resizer }
    }

    /// Changes the size of the terminal; `None` if there is none.
    pub(super) fn resize(&self, size: TerminalSize) -> Option<()> {
        self.resizer.as_ref()?.resize(size).ok()
    }

    /// Queues one piece, which is written when the job reads.
    pub(super) fn push(&self, bytes: Vec<u8>) -> Result<InputReceipt, StdinWriteError> {
        let (written, receipt) = oneshot::channel();
        self.pieces.try_send(StdinPiece { bytes, written }).map_err(|refused| match refused {
            TrySendError::Full(_) => StdinWriteError::Full,
            TrySendError::Closed(_) => StdinWriteError::Closed,
        })?;
        Ok(InputReceipt(Some(receipt)))
    }
}

/// Writes pieces until the last one is written, or the job no longer reads.
async fn write_pieces(mut pipe: InputPipe, mut queue: mpsc::Receiver<StdinPiece>) {
    while let Some(StdinPiece { bytes, written }) = queue.recv().await {
        let echo = pipe.echo_mode();
        if pipe.write_all(&bytes).await.is_err() {
            return;
        }
        // The sender may not want to know.
        written.send(echo).ok();
    }
}

/// The receipt of input that was queued for a job.
#[derive(Debug, Default)]
pub struct InputReceipt(Option<oneshot::Receiver<EchoMode>>);

impl InputReceipt {
    /// Returns how the input is echoed, once the job has been given all of it or reads no more.
    pub async fn written(self) -> EchoMode {
        match self.0 {
            Some(written) => written.await.unwrap_or_default(),
            None => EchoMode::Off,
        }
    }
}

// Input for a running job, and the reasons to refuse it.

/// Input for a running job: the bytes first, then the key, then the end of input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobInput {
    /// The bytes, sent unchanged.
    pub bytes: Vec<u8>,
    pub key: Option<KeyPress>,
    /// The state of the input after this piece.
    pub end: StdinEnd,
}

impl JobInput {
    /// Returns the bytes that a terminal gets.
    #[must_use]
    pub fn typed_bytes(&self) -> Vec<u8> {
        let key = self.key.map_or("", KeyPress::bytes);
        [self.bytes.as_slice(), key.as_bytes()].concat()
    }
}

/// The state of the input after a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StdinEnd {
    #[default]
    KeepOpen,
    /// The job reads the end of its input after this piece.
    Close,
}

/// A key press. On a terminal it is the bytes that the key sends; without one, the
/// control keys act as the terminal would: they signal the job, or end its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPress {
    CtrlC,
    CtrlD,
    CtrlZ,
    CtrlBackslash,
    Enter,
    Tab,
    Escape,
    Up,
    Down,
    Left,
    Right,
    Backspace,
}

/// The effect of a key on a job without a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlainKey {
    Signal(i32),
    End,
    Bytes(&'static str),
}

impl KeyPress {
    const ALL: [(&'static str, Self); 12] = [
        ("ctrl_c", Self::CtrlC),
        ("ctrl_d", Self::CtrlD),
        ("ctrl_z", Self::CtrlZ),
        ("ctrl_backslash", Self::CtrlBackslash),
        ("enter", Self::Enter),
        ("tab", Self::Tab),
        ("escape", Self::Escape),
        ("up", Self::Up),
        ("down", Self::Down),
        ("left", Self::Left),
        ("right", Self::Right),
        ("backspace", Self::Backspace),
    ];

    /// Returns the names of all keys in a fixed order.
    #[must_use]
    pub fn names() -> [&'static str; 12] {
        Self::ALL.map(|(name, _)| name)
    }

    /// Returns the key with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, key)| *key)
    }

    /// Returns the bytes that the key sends on a terminal.
    pub(super) const fn bytes(self) -> &'static str {
        match self {
            Self::CtrlC => "\x03",
            Self::CtrlD => "\x04",
            Self::CtrlZ => "\x1a",
            Self::CtrlBackslash => "\x1c",
            Self::Enter => "\r",
            Self::Tab => "\t",
            Self::Escape => "\x1b",
            Self::Up => "\x1b[A",
            Self::Down => "\x1b[B",
            Self::Left => "\x1b[D",
            Self::Right => "\x1b[C",
            Self::Backspace => "\x7f",
        }
    }

    /// Returns the effect of the key on a job without a terminal.
    pub(super) const fn without_terminal(self) -> PlainKey {
        match self {
            Self::CtrlC => PlainKey::Signal(2),
            Self::CtrlBackslash => PlainKey::Signal(3),
            Self::CtrlZ => PlainKey::Signal(20),
            Self::CtrlD => PlainKey::End,
            Self::Enter => PlainKey::Bytes("\n"),
            Self::Tab
            | Self::Escape
            | Self::Up
            | Self::Down
            | Self::Left
            | Self::Right
            | Self::Backspace => PlainKey::Bytes(self.bytes()),
        }
    }
}

/// The reason why input was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InputError {
    #[error("job {0} has finished and takes no more input")]
    Finished(JobId),
    #[error("job {0} is still queued; send input once it runs")]
    NotStarted(JobId),
    /// The job's standard input was never open, or is closed now.
    #[error(
        "job {0} has no open standard input; to send input later, start the command with tty=true, or without stdin and with wait_s=0, until, port or quiet_s"
    )]
    Closed(JobId),
    /// The job does not read earlier input.
    #[error(
        "job {0} does not read its input: what was sent before still waits; try again when it has read"
    )]
    Full(JobId),
    #[error("job {0} does not run in a terminal, so that it has no size; start it with a terminal")]
    NoTerminal(JobId),
}

impl InputError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Finished(_) => "job_finished",
            Self::NotStarted(_) => "job_queued",
            Self::Closed(_) => "input_closed",
            Self::Full(_) => "input_full",
            Self::NoTerminal(_) => "no_terminal",
        }
    }
}
