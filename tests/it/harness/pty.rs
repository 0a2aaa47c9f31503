//! The program in a pseudo-terminal, as a person uses it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use unicode_width::UnicodeWidthStr as _;

use super::proc::signal;
use super::wait::eventually_some;

/// A program whose stdin, stdout and stderr are a terminal. Killed on drop.
#[derive(Debug)]
pub(crate) struct TerminalProgram {
    child: Child,
    terminal: File,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl TerminalProgram {
    /// Starts a program in a terminal of this size. Build its command with [`in_terminal`] words, so
    /// that the terminal controls it.
    #[track_caller]
    pub(crate) fn start(mut command: Command, rows: u16, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("a terminal of ours");
        unlockpt(&master).expect("a terminal of ours");
        set_size(&master, rows, columns);
        let name = ptsname(&master, Vec::new()).expect("a name");
        let open = || -> OwnedFd {
            let flags = OFlags::RDWR | OFlags::NOCTTY;
            rustix::fs::open(&name, flags, Mode::empty()).expect("the other side")
        };
        let (stdin, stdout, stderr) = (open(), open(), open());
        command.stdin(Stdio::from(stdin)).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
        let child = command.spawn().expect("the binary starts");
        // The command holds our copies of the other side, which would keep the terminal open.
        drop(command);
        let terminal = File::from(master);
        let shown = Arc::new(Mutex::new(Vec::new()));
        let mut reader = terminal.try_clone().expect("a second handle");
        let collected = Arc::clone(&shown);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails once the program is gone.
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                let mut shown = collected.lock().unwrap_or_else(PoisonError::into_inner);
                shown.extend_from_slice(&buffer[..count]);
            }
        });
        Self { child, terminal, shown }
    }

    /// Everything that the terminal got so far.
    pub(crate) fn text(&self) -> String {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// Waits until the terminal has got this text, and returns everything.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) -> String {
        eventually_some(&format!("the terminal shows {text:?}"), || {
            Some(self.text()).filter(|shown| shown.contains(text))
        })
    }

    /// Types bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.terminal.write_all(bytes).expect("the terminal is open");
    }

    /// Changes the size; the program gets SIGWINCH.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        set_size(&self.terminal, rows, columns);
    }

    /// `true` while the program has the terminal in raw mode.
    pub(crate) fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.terminal).expect("a terminal").local_modes;
        !modes.contains(LocalModes::ICANON)
    }

    pub(crate) fn signal(&self, which: Signal) {
        signal(i32::try_from(self.child.id()).expect("a pid fits"), which);
    }

    /// Waits for the end; returns the exit code and everything that the terminal got.
    #[track_caller]
    pub(crate) fn finish(&mut self) -> (Option<i32>, String) {
        let status =
            eventually_some("the program ends", || self.child.try_wait().expect("a child of ours"));
        // The reader takes what is left in the terminal.
        let mut before = usize::MAX;
        let text = eventually_some("the terminal is read to its end", || {
            thread::sleep(std::time::Duration::from_millis(50));
            let text = self.text();
            (std::mem::replace(&mut before, text.len()) == text.len()).then_some(text)
        });
        (status.code(), text)
    }
}

impl Drop for TerminalProgram {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn set_size(terminal: impl std::os::fd::AsFd, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("a terminal");
}

/// The words before a program that make the terminal on stdin control it, so that it gets SIGWINCH.
/// Keys such as Ctrl-C work even if whoever runs the tests ignores their signals.
pub(crate) const fn in_terminal() -> &'static [&'static str] {
    &["setsid", "--ctty", "env", "--default-signal=INT,QUIT"]
}

/// Fails if a line of this text is wider than the terminal. Sequences take no room. A line may be wider
/// if it is one word that people copy: a path, a URL, a token, a command between backquotes or after an
/// arrow, or an indented command line.
#[track_caller]
pub(crate) fn assert_fits(text: &str, columns: usize) {
    // A screen is drawn again from its first line.
    let text = text.replace("\u{1b}[H", "\n");
    let plain = anstream::adapter::strip_str(&text).to_string();
    for line in plain.lines() {
        let line = line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
        let is_narrow = line.width() <= columns;
        assert!(is_narrow || is_copied(line), "wider than {columns}: {line:?} in\n{plain}");
    }
}

/// `true` for a line that must not be wrapped, because people copy it.
fn is_copied(line: &str) -> bool {
    let is_command = line.starts_with("→ shellyard ") || line.starts_with("  claude mcp add ");
    // Every second part is between backquotes.
    let mut unquoted = line.trim().split('`').step_by(2);
    is_command || unquoted.all(|part| !part.contains(' '))
}
