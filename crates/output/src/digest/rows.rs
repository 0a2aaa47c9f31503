//! Which row of a screen a line is written to, where a program moves the cursor up and down to
//! draw its progress anew.

use std::sync::LazyLock;

use memchr::memchr_iter;
use regex::bytes::Regex;

/// Cursor up and down, and to the start of an earlier or later line. A constant: a mistake in it
/// fails the first test that runs.
static MOVES: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?-u)\x1b\[([0-9]{0,4})([ABEF])").ok());

/// The rows of a log's lines, as far as it was looked at.
#[derive(Debug, Default)]
pub(super) struct Rows {
    row: i64,
}

impl Rows {
    /// Passes over bytes without a newline before a line of interest, or with some; gives the
    /// row after them.
    pub(super) fn pass(&mut self, bytes: &[u8], moves: Moves) -> i64 {
        self.row += memchr_iter(b'\n', bytes).count() as i64;
        if moves == Moves::Some {
            self.row += moved(bytes);
        }
        self.row
    }

    /// Goes on at a place from which no earlier row is reached.
    pub(super) const fn start_anew(&mut self) {
        self.row += 10_000_000;
    }
}

/// Whether bytes may have codes that move the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moves {
    None,
    Some,
}

/// How far down all codes in the bytes move the cursor.
fn moved(bytes: &[u8]) -> i64 {
    let Some(pattern) = MOVES.as_ref() else { return 0 };
    let one = |code: regex::bytes::Captures<'_>| {
        let (_, [number, direction]) = code.extract();
        let rows = str::from_utf8(number).ok().and_then(|digits| digits.parse().ok()).unwrap_or(1);
        if matches!(direction, b"A" | b"F") { -rows } else { rows }
    };
    pattern.captures_iter(bytes).map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newlines_go_down_and_codes_go_either_way() {
        let mut rows = Rows::default();
        assert_eq!(rows.pass(b"a\nb\n\x1b[31mc\n", Moves::Some), 3);
        assert_eq!(rows.pass(b"\x1b[2A\x1b[2K", Moves::Some), 1);
        assert_eq!(rows.pass(b"\x1b[F\x1b[A\x1b[3B", Moves::Some), 2);
        assert_eq!(rows.pass(b"plain\n", Moves::None), 3);
    }
}
