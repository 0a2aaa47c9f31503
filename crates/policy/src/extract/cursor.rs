//! Moving over the bytes: line continuations, blanks, comments, reserved words.

use super::walker::{Walk, Walker};

/// The words that mean structure where a command may start.
const KEYWORDS: [&str; 21] = [
    "if", "then", "elif", "else", "fi", "for", "in", "while", "until", "do", "done", "case",
    "esac", "select", "function", "time", "{", "}", "!", "[[", "coproc",
];
const LONGEST_KEYWORD: usize = 8;

/// Whether a byte ends an unquoted word.
pub(super) const fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'|' | b'&' | b';' | b'(' | b')' | b'<' | b'>')
}

impl<'t> Walker<'t, '_> {
    /// The byte at a position, as it stands.
    pub(super) fn raw(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// The next byte. Line continuations vanish, as they do for the shell outside of single quotes.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.pos = self.past_continuations(self.pos);
        self.raw(self.pos)
    }

    /// The byte after the next one; same rule.
    pub(super) fn peek_second(&mut self) -> Option<u8> {
        self.peek()?;
        self.raw(self.past_continuations(self.pos + 1))
    }

    /// The first position from `at` on where no line continuation stands.
    pub(super) fn past_continuations(&self, mut at: usize) -> usize {
        while self.raw(at) == Some(b'\\') && self.raw(at + 1) == Some(b'\n') {
            at += 2;
        }
        at
    }

    /// Takes the next byte if it is this one.
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.pos += 1;
        }
        found
    }

    /// Takes the next bytes if they are these, line continuations between them aside.
    pub(super) fn eat_all(&mut self, bytes: &str) -> bool {
        let start = self.pos;
        if bytes.bytes().all(|byte| self.eat(byte)) {
            return true;
        }
        self.pos = start;
        false
    }

    pub(super) fn expect(&mut self, byte: u8, otherwise: &'static str) -> Walk<()> {
        if self.eat(byte) { Ok(()) } else { self.syntax(otherwise) }
    }

    /// The text from `start` up to here.
    pub(super) fn since(&self, start: usize) -> &'t str {
        self.text.get(start..self.pos).unwrap_or_default()
    }

    /// Goes to the next token on this line: over blanks and a comment.
    pub(super) fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t') = self.peek() {
            self.pos += 1;
        }
        if self.peek() == Some(b'#') {
            let rest = self.text.get(self.pos..).unwrap_or_default();
            self.pos += rest.find('\n').unwrap_or(rest.len());
        }
    }

    /// Goes to the next token, over line ends too; here-documents are read where they stand.
    pub(super) fn skip_lines(&mut self) -> Walk<()> {
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            self.end_line()?;
        }
    }

    /// The reserved word that stands here, unquoted and whole.
    pub(super) fn keyword(&self) -> Option<(&'static str, usize)> {
        let mut word = [0_u8; LONGEST_KEYWORD];
        let mut length = 0;
        let mut at = self.past_continuations(self.pos);
        while let Some(byte) = self.raw(at) {
            if ends_word(byte) {
                break;
            }
            *word.get_mut(length)? = byte;
            length += 1;
            at = self.past_continuations(at + 1);
        }
        let word = word.get(..length)?;
        let found = KEYWORDS.into_iter().find(|keyword| keyword.as_bytes() == word)?;
        Some((found, at))
    }

    /// Takes a reserved word if it stands here.
    pub(super) fn eat_keyword(&mut self, wanted: &str) -> bool {
        match self.keyword() {
            Some((found, end)) if found == wanted => {
                self.pos = end;
                true
            }
            Some(_) | None => false,
        }
    }

    pub(super) fn expect_keyword(&mut self, wanted: &str, otherwise: &'static str) -> Walk<()> {
        if self.eat_keyword(wanted) { Ok(()) } else { self.syntax(otherwise) }
    }
}
