//! `[[ … ]]`: no command by itself, but its words expand and some operators evaluate.

use super::compound::is_name;
use super::cursor::ends_word;
use super::walker::{Walk, Walker};
use super::word::Draft;
use crate::command::{Reason, Shape, Word};

/// Operators whose two sides are arithmetic.
const ARITHMETIC: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// What was seen so far of the terms of one expression.
#[derive(Debug, Default)]
struct Terms {
    open: usize,
    /// Words since the last operator between terms.
    words: usize,
    bare: bool,
    ands: bool,
    ors: bool,
}

impl Terms {
    /// A term ends. One that is a single word would be a command to a POSIX shell.
    const fn end(&mut self) {
        self.bare |= self.words == 1;
        self.words = 0;
    }
}

impl Walker<'_, '_> {
    /// The rest of the condition, `[[` taken.
    pub(super) fn condition(&mut self) -> Walk<()> {
        let mut terms = Terms::default();
        let mut last: Option<Word> = None;
        loop {
            self.condition_blanks()?;
            if self.condition_sign(&mut terms)? {
                last = None;
                continue;
            }
            if self.peek().is_none() {
                return self.syntax("`[[` without `]]`");
            }
            let word = self.condition_word(&last)?;
            if word.is("]]") && !word.quoted {
                return self.condition_end(&mut terms);
            }
            self.operand(last.as_ref(), &word);
            terms.words += usize::from(word.quoted || !word.is("!"));
            last = Some(word);
        }
    }

    fn condition_end(&self, terms: &mut Terms) -> Walk<()> {
        terms.end();
        if terms.open != 0 {
            return self.syntax("`(` without `)` in `[[`");
        }
        if terms.bare && terms.ands && terms.ors {
            // To a POSIX shell this is a chain of commands.
            return self.fail(Reason::Dialect("a chain in `[[`"));
        }
        Ok(())
    }

    fn condition_blanks(&mut self) -> Walk<()> {
        while let Some(byte @ (b' ' | b'\t' | b'\n')) = self.peek() {
            if byte == b'\n' && !self.pending.is_empty() {
                return self.syntax("a line end before a here-document");
            }
            self.pos += 1;
        }
        if self.peek() == Some(b'#') {
            return self.syntax("a comment inside `[[`");
        }
        Ok(())
    }

    /// Takes an operator between terms, or a comparison by `<` or `>`.
    fn condition_sign(&mut self, terms: &mut Terms) -> Walk<bool> {
        let (next, second) = (self.peek(), self.peek_second());
        match next {
            Some(b'&') if self.eat_all("&&") => {
                terms.end();
                terms.ands = true;
            }
            Some(b'|') if self.eat_all("||") => {
                terms.end();
                terms.ors = true;
            }
            Some(b'<' | b'>') if second != Some(b'(') => {
                self.pos += 1;
                terms.words += 1;
            }
            Some(b'(') => {
                self.pos += 1;
                terms.open += 1;
            }
            Some(b')') if terms.open > 0 => {
                self.pos += 1;
                terms.open -= 1;
                terms.words += 1;
            }
            Some(b'&' | b'|' | b')' | b';') => return self.syntax("an operator inside `[[`"),
            Some(_) | None => return Ok(false),
        }
        Ok(true)
    }

    /// A word; after a comparison it is a pattern or a regular expression.
    fn condition_word(&mut self, last: &Option<Word>) -> Walk<Word> {
        let pattern = last.as_ref().filter(|word| !word.quoted).and_then(Word::value);
        match pattern {
            Some("=~") => self.pattern(b"(|)"),
            Some("==" | "=" | "!=") => self.pattern(b"("),
            Some(_) | None => self.word(),
        }
    }

    /// A word in which parentheses may stand; within them blanks and `|` too.
    fn pattern(&mut self, opening: &[u8]) -> Walk<Word> {
        let mut draft = Draft::default();
        let start = self.pos;
        let mut open = 0_usize;
        while let Some(byte) = self.peek() {
            let extended = start < self.pos
                && self.raw(self.pos - 1).is_some_and(|byte| b"@?*+!".contains(&byte));
            match byte {
                b'(' if opening.contains(&b'|') || extended || open > 0 => open += 1,
                b')' if open > 0 => open -= 1,
                b'|' if open > 0 || opening.contains(&b'|') => {}
                b' ' | b'\t' if open > 0 => {}
                _ if ends_word(byte) => break,
                _ => {
                    self.word_byte(&mut draft, byte)?;
                    continue;
                }
            }
            draft.push_unknown(Shape::Glob);
            self.pos += 1;
        }
        if open > 0 || self.pos == start {
            return self.syntax("an odd pattern in `[[`");
        }
        Ok(draft.finish(self.since(start)))
    }

    /// Notes what an operator evaluates.
    fn operand(&mut self, last: Option<&Word>, word: &Word) {
        let operator = last.filter(|word| !word.quoted).and_then(Word::value).unwrap_or_default();
        if matches!(operator, "-v" | "-R") {
            self.evaluate_word(word);
        }
        if ARITHMETIC.contains(&operator) {
            self.evaluate_word(word);
        }
        if let (Some(left), Some(operator)) = (last, word.value())
            && ARITHMETIC.contains(&operator)
        {
            self.evaluate_word(left);
        }
    }

    /// A word whose value the shell evaluates as arithmetic, or as a name with a subscript.
    pub(super) fn evaluate_word(&mut self, word: &Word) {
        let clear = match (word.variable.as_deref(), word.value()) {
            (_, Some(name)) if is_name(name) => {
                self.sink.scope.evaluate(name);
                true
            }
            (_, Some(text)) => self.sink.scope.evaluate_text(text),
            (Some("#"), None) => true,
            (Some(name), None) => {
                self.sink.scope.evaluate(name);
                true
            }
            (None, None) => false,
        };
        if !clear {
            self.doubt(Reason::Code("a value that the shell evaluates"));
        }
    }
}
