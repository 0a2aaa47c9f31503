//! The terminal of the user in raw mode: keys arrive one by one, and the terminal is restored on every
//! way out.

use std::io::{self, Read as _, Write as _};
use std::thread;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::display::Display;

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
        print(on_enter)?;
        Ok(terminal)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        print(self.on_leave).ok();
        tcsetattr(io::stdin(), OptionalActions::Drain, &self.saved).ok();
    }
}

/// Writes sequences or text to the terminal at once.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
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
