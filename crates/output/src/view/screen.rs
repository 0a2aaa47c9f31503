//! What one line looks like on a screen once it was written.

use std::borrow::Cow;

use anstream::adapter::strip_str;

use super::codes::{Code, codes};
use super::row::Row;

/// One line, without its newline, as a screen shows it in the end: escape codes act or vanish,
/// text after a `\r` overwrites from the line's start, and a longer earlier text sticks out.
/// Codes that reach other rows are left out.
pub(crate) fn on_screen(line: &str) -> Cow<'_, str> {
    // A line that ends in CRLF needs no screen.
    let line = line.trim_end_matches('\r');
    if !line.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Cow::Borrowed(line);
    }
    if codes(line).all(|code| matches!(code, Code::Text(_))) {
        return Cow::Owned(strip_str(line).to_string());
    }
    let mut row = Row::default();
    codes(line).fold(0, |column, code| row.apply(column, code));
    Cow::Owned(row.text())
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
        check("abcdef\x1b[3D\x1b[1K", "    ef");
        check("abcdef\r\x1b[Jxy", "xy");
    }

    #[test]
    fn the_cursor_goes_where_it_is_sent_in_its_row() {
        check("abc\x08\x08X", "aXc");
        check("abc\x08 \x08", "ab ");
        check("50%\x1b[1G60%", "60%");
        check("ab\x1b[3Cc", "ab   c");
        check("ab\x1b[Dc", "ac");
        assert!(on_screen("\x1b[9999Cx").len() < 300, "no screen is endless");
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
