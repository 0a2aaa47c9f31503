//! Output of the command line: messages on stderr, tables, and the output of verbs.

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;
use unicode_width::UnicodeWidthStr as _;

use super::wrap::wrap_text;

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

/// Returns the number of columns of the terminal behind a stream; `None` if it is not a terminal, or
/// does not tell its size.
pub(super) fn read_width(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = stream.is_terminal().then(|| tcgetwinsize(stream).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
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

// Tables: aligned columns, and no character that a terminal acts on.

/// Formats rows in aligned columns; the last column is not padded.
pub(super) fn format_table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or(0)).collect();
    rows.iter().map(|row| format_row(row, &widths)).collect()
}

fn format_row(row: &[String], widths: &[usize]) -> String {
    let pad = |cell: &str, width: usize| " ".repeat(width.saturating_sub(cell.width()));
    let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell}{}", pad(cell, *width)));
    format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
}

/// Escapes control characters, invisible characters and those that change the direction of text, so
/// that the text stays on one line and a terminal does not act on it.
pub(super) fn escape_for_terminal(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_invisible(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_trailing_spaces() {
        let rows = [["A", "BB", "C"], ["aaaa", "b", ""], ["é", "", "long text"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(format_table(&rows), "A     BB  C\naaaa  b\né         long text\n");
        assert_eq!(format_table(&[]), "");
    }

    #[test]
    fn characters_that_a_terminal_acts_on_are_escaped() {
        assert_eq!(
            escape_for_terminal("a\n\u{1b}[2Jb\r\t\u{9b}1m"),
            "a\\n\\u{1b}[2Jb\\r\\t\\u{9b}1m"
        );
        assert_eq!(
            escape_for_terminal("x\u{202e}y\u{200b}\u{feff}"),
            "x\\u{202e}y\\u{200b}\\u{feff}"
        );
        assert_eq!(escape_for_terminal("grep 'é' \\n \"日本\""), "grep 'é' \\n \"日本\"");
    }
}
