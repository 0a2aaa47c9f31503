//! Arithmetic, wherever it stands: what it reads is followed, what it cannot vouch for is uncertain.

use super::cursor::starts_name;
use super::walker::{Walk, Walker};
use super::word::{Draft, Quotes};
use crate::command::{Reason, Shape};

/// What ends a piece of arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// `))`.
    Parens,
    /// `))` of a `for`, with `;` inside.
    Loop,
    /// `]` of a subscript.
    Bracket,
    /// `}` of `${x:offset:length}`.
    Brace,
}

/// How deep plain parentheses and brackets stand.
#[derive(Debug, Default)]
struct Open {
    parens: usize,
    brackets: usize,
}

impl Open {
    const fn none(&self) -> bool {
        self.parens == 0 && self.brackets == 0
    }
}

impl Walker<'_, '_> {
    /// The subscript of an assignment, `[` taken.
    pub(super) fn subscript(&mut self) -> Walk<()> {
        self.arithmetic(Closing::Bracket)
    }

    /// Arithmetic up to its end, which is taken.
    ///
    /// Text that is not plainly arithmetic is an error: `((` can also open two subshells.
    pub(super) fn arithmetic(&mut self, closing: Closing) -> Walk<()> {
        let mut open = Open::default();
        loop {
            let Some(byte) = self.peek() else {
                return self.syntax("arithmetic without its end");
            };
            if open.none() && self.closes(byte, closing)? {
                return Ok(());
            }
            match byte {
                b'$' => self.arithmetic_dollar()?,
                b'`' => {
                    self.word_byte(&mut Draft::default(), byte)?;
                    self.doubt(Reason::Code("arithmetic on what a command prints"));
                }
                b'"' | b'\'' => self.arithmetic_quotes(byte)?,
                b'\n' if !self.pending.is_empty() => {
                    return self.syntax("a line end before a here-document");
                }
                _ if starts_name(byte) => {
                    let name = self.variable_name();
                    self.sink.scope.touch(&name);
                }
                _ => self.arithmetic_sign(byte, closing, &mut open)?,
            }
        }
    }

    fn closes(&mut self, byte: u8, closing: Closing) -> Walk<bool> {
        match (closing, byte) {
            (Closing::Parens | Closing::Loop, b')') => {
                if self.eat_all("))") {
                    Ok(true)
                } else {
                    self.syntax("`((` that is no arithmetic")
                }
            }
            (Closing::Bracket, b']') | (Closing::Brace, b'}') => {
                self.pos += 1;
                Ok(true)
            }
            (Closing::Parens | Closing::Loop | Closing::Bracket | Closing::Brace, _) => Ok(false),
        }
    }

    fn arithmetic_sign(&mut self, byte: u8, closing: Closing, open: &mut Open) -> Walk<()> {
        match byte {
            b'(' => open.parens += 1,
            b')' if open.parens > 0 => open.parens -= 1,
            b'[' => open.brackets += 1,
            b']' if open.brackets > 0 => open.brackets -= 1,
            b';' if closing == Closing::Loop => {}
            b'<' | b'>' if self.peek_second() == Some(b'(') => {
                return self.syntax("`<(` in arithmetic");
            }
            b'0'..=b'9' | b' ' | b'\t' | b'\n' => {}
            _ if b"+-*/%<>=!&|^~?:,#@.".contains(&byte) => {}
            _ => return self.syntax("text in arithmetic"),
        }
        self.pos += 1;
        Ok(())
    }

    /// An expansion inside arithmetic: its value is evaluated as an expression.
    fn arithmetic_dollar(&mut self) -> Walk<()> {
        let start = self.pos;
        let mut draft = Draft::default();
        self.dollar(&mut draft, Quotes::Double)?;
        let word = draft.finish(self.since(start));
        match (word.variable.as_deref(), word.shape) {
            (Some("#"), _) => {}
            (Some(name), _) => self.sink.scope.evaluate(name),
            (None, Shape::Literal) => return self.syntax("`$` in arithmetic"),
            (None, Shape::One | Shape::Many | Shape::Glob | Shape::Process) => {
                self.doubt(Reason::Code("arithmetic on a value"));
            }
        }
        Ok(())
    }

    /// Quotes do not protect anything here, so only what needs no protection may stand in them.
    fn arithmetic_quotes(&mut self, quote: u8) -> Walk<()> {
        self.pos += 1;
        loop {
            match self.peek() {
                Some(byte) if byte == quote => {
                    self.pos += 1;
                    return Ok(());
                }
                Some(b'$') if quote == b'"' => self.arithmetic_dollar()?,
                Some(byte) if starts_name(byte) => {
                    let name = self.variable_name();
                    self.sink.scope.touch(&name);
                }
                Some(byte) if byte.is_ascii_digit() || b" .-/:+@%".contains(&byte) => self.pos += 1,
                Some(_) | None => return self.syntax("quotes in arithmetic"),
            }
        }
    }
}
