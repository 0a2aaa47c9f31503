//! The terminal of the user and the streams of the program: messages and results, the properties of the
//! terminal, the pager, a sign of life while an answer takes long, and raw mode.

use std::error::Error;
use std::io::{self, IsTerminal, Read as _, Write as _};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::text_layout::{TableRoom, wrap_text};
use crate::config::Environment;
use crate::service::TerminalSize;

/// Prints an error with its causes to stderr.
pub fn print_error(error: &dyn Error) {
    print_message(&format_with_causes(error));
}

/// Formats an error with its causes in one line.
#[must_use]
pub fn format_with_causes(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // A transparent wrapper has the same text as its cause.
        if !message.ends_with(&text) {
            message = format!("{message}: {text}");
        }
        cause = error.source();
    }
    message
}

/// Returns the text of the last cause, or of the error itself.
#[must_use]
pub fn format_root_cause(error: &dyn Error) -> String {
    let mut root = error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    root.to_string()
}

/// Prints one line to stderr.
pub fn print_message(message: &str) {
    let message = wrap_text(&format!("shellyard: {message}"), read_width(&io::stderr()));
    eprintln!("{message}");
}

/// The format of a verb's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputFormat {
    Human,
    Json,
}

impl OutputFormat {
    /// The format that the flag `--json` selects.
    pub(super) const fn from_json_flag(is_json: bool) -> Self {
        if is_json { Self::Json } else { Self::Human }
    }
}

/// The output of a verb and its exit code.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct VerbOutput {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) code: u8,
}

impl VerbOutput {
    /// A result on stdout.
    pub(super) fn result(stdout: String) -> Self {
        Self { stdout, ..Self::default() }
    }

    /// JSON on stdout, and the exit code.
    pub(super) fn json(answer: &Value, code: u8) -> Self {
        Self { code, ..Self::result(format!("{answer:#}\n")) }
    }

    /// A message on stderr, and nothing else.
    pub(super) fn message(message: &str) -> Self {
        Self { stderr: format!("{message}\n"), ..Self::default() }
    }

    /// A message about an error on stderr, with the exit code 1.
    pub(super) fn failure(message: &str) -> Self {
        Self { code: 1, ..Self::message(&format!("shellyard: {message}")) }
    }

    /// An error as JSON on stdout, with its stable word and the exit code 1.
    pub(super) fn json_failure(word: &str, message: &str) -> Self {
        Self::json(&json!({ "ok": false, "code": word, "message": message }), 1)
    }

    /// Nothing but an exit code.
    pub(super) fn exit_code(code: u8) -> Self {
        Self { code, ..Self::default() }
    }

    /// Prints the output and returns the exit code. Messages are wrapped to the width of the terminal;
    /// a verb wraps its stdout itself, because that may be data.
    pub(super) fn print(&self) -> u8 {
        let messages = wrap_text(&self.stderr, read_width(&io::stderr()));
        let stderr = io::stderr().lock().write_all(messages.as_bytes());
        let stdout = io::stdout().lock().write_all(self.stdout.as_bytes());
        // A write fails if the reader is gone (`| head`).
        if stderr.and(stdout).is_ok() { self.code } else { 1 }
    }
}

// The properties of the terminal.

/// The width of a table if stdout is not a terminal.
const FILE_WIDTH: usize = 120;
/// The size of a terminal that does not tell its own.
const USUAL_SIZE: TerminalSize = TerminalSize { rows: 24, columns: 80 };

/// The properties of stdin, stdout and stderr that decide how results look.
#[derive(Debug, Clone, Default)]
pub struct Display {
    /// stdout is a terminal.
    pub is_terminal: bool,
    /// stdin is a terminal, so that a person can type.
    pub has_keyboard: bool,
    /// stderr is a terminal, so that a spinner reaches a person.
    pub has_messages: bool,
    /// stdout is a terminal that understands sequences, such as those that move its cursor.
    pub has_sequences: bool,
    /// Results are coloured.
    pub has_colors: bool,
    /// The command of the pager, or `None` for no pager.
    pub pager: Option<String>,
}

impl Display {
    /// Returns the properties of this process.
    #[must_use]
    pub fn detect(environment: &Environment) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let is_capable = !environment.has_dumb_terminal();
        Self {
            is_terminal,
            has_keyboard: io::stdin().is_terminal(),
            has_messages: io::stderr().is_terminal() && is_capable,
            has_sequences: is_terminal && is_capable,
            has_colors: is_terminal && is_capable && !environment.refuses_color(),
            pager: environment.pager().filter(|_| is_terminal && is_capable),
        }
    }

    /// The room for a table on stdout, at this moment.
    pub(super) fn table_room(&self) -> TableRoom {
        if self.is_terminal {
            TableRoom::Terminal(read_terminal_size().columns.into())
        } else {
            TableRoom::Lines(FILE_WIDTH)
        }
    }
}

/// Returns the size of the terminal on stdout, at this moment.
pub(super) fn read_terminal_size() -> TerminalSize {
    let size = tcgetwinsize(io::stdout()).ok();
    size.filter(|size| size.ws_col > 0 && size.ws_row > 0)
        .map_or(USUAL_SIZE, |size| TerminalSize { rows: size.ws_row, columns: size.ws_col })
}

/// Returns the number of columns of the terminal behind a stream; `None` if it is not a terminal, or
/// does not tell its size.
pub(super) fn read_width(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = stream.is_terminal().then(|| tcgetwinsize(stream).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

// The pager.

/// A place for the output of a verb: stdout, or a pager if the output may be long and a person reads it.
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
            Self::Stdout => print(bytes),
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

// A sign of life.

/// The label of a spinner for a request that takes long.
pub(super) const ASKING: &str = "waiting for the server";
/// The time without an answer after which the spinner appears.
const SPINNER_DELAY: Duration = Duration::from_secs(1);
const SPINNER_INTERVAL: Duration = Duration::from_millis(120);
/// The sequence that empties the line of the spinner.
const CLEAR_LINE: &str = "\r\u{1b}[K";
const SPINNER_FRAMES: [&str; 4] = ["|", "/", "-", "\\"];

/// Waits for `work`, with a spinner if that takes long and a person watches stderr.
pub(super) fn with_spinner<'a, T: 'a>(
    display: &'a Display,
    label: &'a str,
    work: impl Future<Output = T> + 'a,
) -> Pin<Box<dyn Future<Output = T> + 'a>> {
    // Boxed: a request is large, and would make every verb larger.
    Box::pin(spin(display, label, Box::pin(work)))
}

async fn spin<T>(display: &Display, label: &str, mut work: Pin<Box<impl Future<Output = T>>>) -> T {
    if !display.has_messages {
        return work.await;
    }
    let start = Instant::now();
    let mut next = start + SPINNER_DELAY;
    let mut frames = SPINNER_FRAMES.iter().cycle();
    loop {
        tokio::select! {
            done = &mut work => {
                if next > start + SPINNER_DELAY {
                    clear_spinner();
                }
                return done;
            }
            () = sleep_until(next) => {
                let frame = frames.next().copied().unwrap_or_default();
                print_frame(frame, label, start.elapsed());
                next += SPINNER_INTERVAL;
            }
        }
    }
}

/// Does blocking `work`, with a spinner if that takes long and a person watches stderr.
pub(super) fn with_spinner_thread<T>(
    display: &Display,
    label: &str,
    work: impl FnOnce() -> T,
) -> T {
    if !display.has_messages {
        return work();
    }
    let (sender, ended) = std::sync::mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || spin_until(&ended, label));
        let done = work();
        drop(sender);
        done
    })
}

/// Draws the spinner until the other side of the channel is dropped.
fn spin_until(ended: &Receiver<()>, label: &str) {
    let start = std::time::Instant::now();
    if ended.recv_timeout(SPINNER_DELAY) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    for frame in SPINNER_FRAMES.iter().cycle() {
        print_frame(frame, label, start.elapsed());
        if ended.recv_timeout(SPINNER_INTERVAL) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    clear_spinner();
}

/// Empties the line of the spinner, at its end or for a message; the spinner is drawn again below it.
pub(super) fn clear_spinner() {
    print_status(CLEAR_LINE);
}

fn print_frame(frame: &str, label: &str, elapsed: Duration) {
    print_status(&format!("{CLEAR_LINE}{frame} {label} ({}s)", elapsed.as_secs()));
}

fn print_status(text: &str) {
    let mut stderr = io::stderr().lock();
    // Only a sign of life: if nobody can see it, nothing is lost.
    stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()).ok();
}

// Raw mode, keys and signals.

/// The number of pieces of input that wait for their use.
const KEY_BUFFER: usize = 64;
const READ_BYTES: usize = 4096;

/// Sequences that undo what a program may have set: colours, a hidden cursor, mouse reports, and
/// marks around pasted text.
const RESET_MODES: &str =
    "\u{1b}[0m\u{1b}[?25h\u{1b}[?1000l\u{1b}[?1002l\u{1b}[?1003l\u{1b}[?1006l\u{1b}[?2004l";
/// The alternate screen, without a cursor; and back.
const ENTER_SCREEN: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE_SCREEN: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// Raw mode of the terminal on stdin. Dropping it restores the terminal, also after a panic.
#[derive(Debug)]
pub(super) struct RawTerminal {
    saved: Termios,
    on_leave: &'static str,
}

impl RawTerminal {
    /// Enters raw mode for a program that draws on the terminal itself.
    pub(super) fn enter(display: &Display) -> io::Result<Self> {
        Self::enter_with("", if display.has_sequences { RESET_MODES } else { "" })
    }

    /// Enters raw mode with a screen of its own; the previous screen returns at the end.
    pub(super) fn enter_full_screen() -> io::Result<Self> {
        Self::enter_with(ENTER_SCREEN, LEAVE_SCREEN)
    }

    fn enter_with(on_enter: &str, on_leave: &'static str) -> io::Result<Self> {
        let saved = tcgetattr(io::stdin())?;
        let mut raw = saved.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Drain, &raw)?;
        // From here on, every way out restores the terminal.
        let terminal = Self { saved, on_leave };
        print(on_enter.as_bytes())?;
        Ok(terminal)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        print(self.on_leave.as_bytes()).ok();
        tcsetattr(io::stdin(), OptionalActions::Drain, &self.saved).ok();
    }
}

/// Writes sequences or text to stdout at once.
pub(super) fn print(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Reads stdin on a thread of its own. The channel closes when stdin ends. The thread ends with the
/// process: nothing can interrupt its read.
pub(super) fn read_keys() -> io::Result<mpsc::Receiver<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(KEY_BUFFER);
    thread::Builder::new().name("keys".to_owned()).spawn(move || {
        let mut buffer = vec![0; READ_BYTES];
        while let Ok(count @ 1..) = io::stdin().lock().read(&mut buffer) {
            if sender.blocking_send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// The signals that end a verb which uses the terminal, and the one of a changed size.
#[derive(Debug)]
pub(super) struct TerminalSignals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
    resize: Signal,
}

/// A signal for a verb that uses the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TerminalSignal {
    End(i32),
    Resized,
}

impl TerminalSignals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            resize: signal(SignalKind::window_change())?,
        })
    }

    /// Returns the next signal. Cancel-safe.
    pub(super) async fn next(&mut self) -> TerminalSignal {
        tokio::select! {
            _ = self.interrupt.recv() => TerminalSignal::End(libc::SIGINT),
            _ = self.terminate.recv() => TerminalSignal::End(libc::SIGTERM),
            _ = self.hang_up.recv() => TerminalSignal::End(libc::SIGHUP),
            _ = self.resize.recv() => TerminalSignal::Resized,
        }
    }
}
