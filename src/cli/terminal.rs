//! What the program says to the person who called it, on stderr.

use std::error::Error;
use std::io::{self, Write};

/// Says what went wrong, with its causes.
pub fn print_error(error: &dyn Error) {
    print_message(&message_with_causes(error));
}

/// What went wrong, with its causes, in one line.
#[must_use]
pub fn message_with_causes(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // A transparent wrapper says the same as what it wraps.
        if !message.ends_with(&text) {
            message = format!("{message}: {text}");
        }
        cause = error.source();
    }
    message
}

/// What is at the bottom of it: the last of its causes, or what went wrong itself.
#[must_use]
pub fn root_cause(error: &dyn Error) -> String {
    let mut root = error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    root.to_string()
}

/// Says one line.
pub fn print_message(message: &str) {
    eprintln!("shellyard: {message}");
}

// The output of a verb and its exit code.

/// The output of a verb and its exit code.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct VerbOutput {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) code: u8,
}

impl VerbOutput {
    /// Says it, and gives the exit code.
    pub(super) fn print(&self) -> u8 {
        let told = io::stderr().lock().write_all(self.stderr.as_bytes());
        let given = io::stdout().lock().write_all(self.stdout.as_bytes());
        // A reader that went away (`| head`) cannot be told anything any more.
        if told.and(given).is_ok() { self.code } else { 1 }
    }
}

// Tables for people: aligned columns, and no character that moves a cursor.

/// Rows in columns that are as wide as they need to be; the last is as long as it is.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or(0)).collect();
    rows.iter().map(|row| line(row, &widths)).collect()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
    format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
}

/// Text on one line that does nothing to a terminal: control characters, and those that turn the
/// direction of text or cannot be seen, are written out.
pub(super) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_unseen(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

const fn is_unseen(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Text that is at most so many characters long; what is cut ends in `…`.
pub(super) fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_without_blanks() {
        let rows = [["A", "BB", "C"], ["aaaa", "b", ""], ["é", "", "long text"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "A     BB  C\naaaa  b\né         long text\n");
        assert_eq!(table(&[]), "");
    }

    #[test]
    fn nothing_that_moves_a_cursor_is_shown() {
        assert_eq!(harmless("a\n\u{1b}[2Jb\r\t\u{9b}1m"), "a\\n\\u{1b}[2Jb\\r\\t\\u{9b}1m");
        assert_eq!(harmless("x\u{202e}y\u{200b}\u{feff}"), "x\\u{202e}y\\u{200b}\\u{feff}");
        assert_eq!(harmless("grep 'é' \\n \"日本\""), "grep 'é' \\n \"日本\"");
    }

    #[test]
    fn a_clipped_text_says_so_and_fits() {
        assert_eq!(clipped("éééé", 4), "éééé");
        assert_eq!(clipped("ééééé", 4), "ééé…");
        assert_eq!(clipped("abc", 1), "…");
    }
}
