//! What one line looks like on a screen once it was written.

use std::borrow::Cow;

use anstream::adapter::strip_str;

/// One line, without its newline, as a screen shows it in the end: escape codes act or vanish,
/// text after a `\r` overwrites from the line's start, and a longer earlier text sticks out.
pub(crate) fn on_screen(line: &str) -> Cow<'_, str> {
    // A line that ends in CRLF needs no screen.
    let line = line.trim_end_matches('\r');
    if !line.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Cow::Borrowed(line);
    }
    if !line.contains('\r') {
        return Cow::Owned(strip_str(line).to_string());
    }
    let mut row = Row::default();
    for overwrite in line.split('\r') {
        row.column = 0;
        row.write_with_erasures(overwrite);
    }
    Cow::Owned(row.cells.into_iter().collect())
}

/// The part of the line that an erase code clears.
#[derive(Debug, Clone, Copy)]
enum Erase {
    ToEnd,
    All,
}

/// How the erase codes of progress bars are written.
const ERASE_CODES: [(&str, Erase); 3] =
    [("\x1b[K", Erase::ToEnd), ("\x1b[0K", Erase::ToEnd), ("\x1b[2K", Erase::All)];

/// One row of a screen that is as wide as need be.
#[derive(Debug, Default)]
struct Row {
    cells: Vec<char>,
    column: usize,
}

impl Row {
    fn write_with_erasures(&mut self, mut text: &str) {
        while let Some((at, code, erase)) = next_erasure(text) {
            self.write(&text[..at]);
            match erase {
                Erase::ToEnd => self.cells.truncate(self.column),
                Erase::All => self.cells.clear(),
            }
            text = &text[at + code.len()..];
        }
        self.write(text);
    }

    fn write(&mut self, text: &str) {
        for character in strip_str(text).flat_map(str::chars) {
            if self.cells.len() < self.column {
                self.cells.resize(self.column, ' ');
            }
            match self.cells.get_mut(self.column) {
                Some(cell) => *cell = character,
                None => self.cells.push(character),
            }
            self.column += 1;
        }
    }
}

fn next_erasure(text: &str) -> Option<(usize, &'static str, Erase)> {
    let found =
        ERASE_CODES.iter().filter_map(|(code, erase)| Some((text.find(code)?, *code, *erase)));
    found.min_by_key(|(at, ..)| *at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(on_screen(line), expected, "{line:?}");
    }

    #[test]
    fn later_text_overwrites_and_a_longer_tail_remains() {
        check("10%\r20%\r100%", "100%");
        check("downloading\rdone", "doneloading");
        check("abc\r", "abc");
        check("\rabc", "abc");
        check("a\r\rb", "b");
    }

    #[test]
    fn erase_codes_clear_what_was_there() {
        check("downloading\r\x1b[Kdone", "done");
        check("downloading\r\x1b[2Kdone", "done");
        check("abcdef\rxy\x1b[0K", "xy");
        check("long text\x1b[2K\rnew", "new");
    }

    #[test]
    fn escape_codes_vanish_and_tabs_stay() {
        check("\x1b[1;31merror\x1b[0m: a\tb", "error: a\tb");
        check("\x1b]0;title\x07text", "text");
        check("plain", "plain");
        check("crlf\r", "crlf");
    }

    #[test]
    fn an_unfinished_escape_code_ends_with_its_line() {
        check("before\x1b]0;never ended", "before");
        check("\x1b[31", "");
    }
}
