//! What a terminal is told between the texts of a line: where to go on, and what to clear.

use memchr::{memchr, memchr3};

/// A larger number in an escape code moves no further than this.
const MAX_NUMBER: usize = 9999;

/// A piece of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code<'a> {
    /// Text, with codes in it that change no place: colours, titles.
    Text(&'a str),
    /// To the start of the row.
    Return,
    /// So many columns to the left.
    Left(usize),
    /// So many columns to the right.
    Right(usize),
    /// To this column, counted from 0.
    Column(usize),
    /// So many rows up.
    Up(usize),
    /// So many rows down.
    Down(usize),
    /// To the start of the row that is so many rows up.
    StartUp(usize),
    /// To the start of the row that is so many rows down.
    StartDown(usize),
    /// To this row and column of the screen, counted from 0.
    Place(usize, usize),
    /// Clears a part of the row.
    EraseRow(Extent),
    /// Clears a part of the screen.
    EraseScreen(Extent),
}

/// Which part is cleared, seen from the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    ToEnd,
    ToStart,
    All,
}

impl Code<'_> {
    /// Whether it concerns other rows than the one that is being written.
    const fn leaves_row(self) -> bool {
        match self {
            Self::Up(_)
            | Self::Down(_)
            | Self::StartUp(_)
            | Self::StartDown(_)
            | Self::Place(..)
            | Self::EraseScreen(_) => true,
            Self::Text(_)
            | Self::Return
            | Self::Left(_)
            | Self::Right(_)
            | Self::Column(_)
            | Self::EraseRow(_) => false,
        }
    }
}

/// The pieces of one line, in order.
pub(super) fn codes(line: &str) -> impl Iterator<Item = Code<'_>> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let (at, code, length) = match next_code(rest) {
            Some(found) => found,
            None if rest.is_empty() => return None,
            None => (rest.len(), Code::Text(rest), 0),
        };
        if at > 0 {
            let (text, after) = rest.split_at(at);
            rest = after;
            return Some(Code::Text(text));
        }
        rest = &rest[length..];
        Some(code)
    })
}

/// Whether the line has a code that reaches other rows.
pub(super) fn leaves_row(line: &str) -> bool {
    memchr(0x1b, line.as_bytes()).is_some() && codes(line).any(Code::leaves_row)
}

/// The first code, where it is, and its length.
fn next_code(text: &str) -> Option<(usize, Code<'_>, usize)> {
    let bytes = text.as_bytes();
    let mut from = 0;
    loop {
        let at = from + memchr3(b'\r', 0x08, 0x1b, &bytes[from..])?;
        let found = match bytes[at] {
            b'\r' => Some((Code::Return, 1)),
            0x08 => Some((Code::Left(1), 1)),
            _ => escape(&text[at..]),
        };
        match found {
            Some((code, length)) => return Some((at, code, length)),
            None => from = at + 1,
        }
    }
}

/// The code at the start of the text, if it changes a place.
fn escape(text: &str) -> Option<(Code<'_>, usize)> {
    let code = text.strip_prefix("\x1b[")?;
    let digits = code.bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b';')).count();
    let (numbers, rest) = code.split_at(digits);
    let mut numbers = numbers.split(';').map(number);
    let (first, second) = (numbers.next().flatten(), numbers.next().flatten());
    let count = first.unwrap_or(1).max(1);
    let code = match rest.bytes().next()? {
        b'A' => Code::Up(count),
        b'B' => Code::Down(count),
        b'C' => Code::Right(count),
        b'D' => Code::Left(count),
        b'E' => Code::StartDown(count),
        b'F' => Code::StartUp(count),
        b'G' => Code::Column(count - 1),
        b'H' | b'f' => Code::Place(count - 1, second.unwrap_or(1).max(1) - 1),
        b'J' => Code::EraseScreen(extent(first)?),
        b'K' => Code::EraseRow(extent(first)?),
        _ => return None,
    };
    Some((code, "\x1b[".len() + digits + 1))
}

fn number(digits: &str) -> Option<usize> {
    (!digits.is_empty()).then(|| digits.parse().unwrap_or(MAX_NUMBER).min(MAX_NUMBER))
}

const fn extent(number: Option<usize>) -> Option<Extent> {
    match number {
        None | Some(0) => Some(Extent::ToEnd),
        Some(1) => Some(Extent::ToStart),
        Some(2 | 3) => Some(Extent::All),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[Code<'_>]) {
        assert_eq!(codes(line).collect::<Vec<_>>(), expected, "{line:?}");
    }

    #[test]
    fn a_line_is_taken_apart_at_what_moves_and_clears() {
        check("", &[]);
        check("plain", &[Code::Text("plain")]);
        check(
            "a\rb\x08c",
            &[Code::Text("a"), Code::Return, Code::Text("b"), Code::Left(1), Code::Text("c")],
        );
        check("\x1b[A\x1b[0A\x1b[12A", &[Code::Up(1), Code::Up(1), Code::Up(12)]);
        check("\x1b[3;5H\x1b[H", &[Code::Place(2, 4), Code::Place(0, 0)]);
        check("\x1b[2K\x1b[J", &[Code::EraseRow(Extent::All), Code::EraseScreen(Extent::ToEnd)]);
        check("\x1b[99999999999999999999A", &[Code::Up(MAX_NUMBER)]);
    }

    #[test]
    fn other_codes_stay_in_the_text() {
        for text in
            ["\x1b[31mred\x1b[0m", "\x1b[?25l", "\x1b]0;title\x07", "\x1b[", "\x1b[3", "\x1b"]
        {
            check(text, &[Code::Text(text)]);
            assert!(!leaves_row(text));
        }
        assert!(leaves_row("a\x1b[1Fb") && !leaves_row("a\x1b[1Gb"));
    }
}
