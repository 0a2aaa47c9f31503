//! Words: quoting, expansions, patterns, braces, until a byte that ends the word.

use super::cursor::ends_word;
use super::walker::{Walk, Walker};
use crate::command::{CommandContext, Shape, UncertainReason, Word};

/// The parts of a word while it is read.
#[derive(Debug, Default)]
pub(super) struct Draft {
    text: String,
    /// Something unknown was met: `text` is complete.
    closed: bool,
    shape: Option<Shape>,
    quoted: bool,
    /// It starts with a variable that always holds an absolute path.
    rooted: bool,
    parts: usize,
    variable: Option<String>,
    /// The length of the text before an open bracket.
    bracket: Option<usize>,
    braces: Braces,
}

/// What kind of quotes a piece of text stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    /// Outside: results are split and matched.
    None,
    /// Inside double quotes.
    Double,
    /// In the body of a here-document: as in double quotes, but quotes are plain text.
    Heredoc,
}

impl Draft {
    pub(super) fn push(&mut self, text: &str) {
        self.parts += 1;
        if !self.closed {
            self.text.push_str(text);
        }
    }

    /// Adds text that was quoted.
    pub(super) fn push_quoted(&mut self, text: &str) {
        self.quoted = true;
        self.push(text);
    }

    /// Adds the value of a variable.
    pub(super) fn push_variable(&mut self, quotes: Quotes, name: &str) {
        if self.parts == 0 {
            self.variable = Some(name.to_owned());
            self.rooted = quotes != Quotes::None && matches!(name, "HOME" | "PWD");
        }
        let splits = quotes == Quotes::None || name == "@";
        self.push_unknown(if splits { Shape::Many } else { Shape::One });
    }

    /// Adds something of unknown value.
    pub(super) fn push_unknown(&mut self, shape: Shape) {
        self.parts += 1;
        self.closed = true;
        self.shape = Some(match (self.shape, shape) {
            (None, shape) => shape,
            (Some(Shape::Many), _) | (_, Shape::Many) => Shape::Many,
            (Some(Shape::Glob), _) | (_, Shape::Glob) => Shape::Glob,
            (Some(_), Shape::One | Shape::Process | Shape::Literal) => Shape::One,
        });
    }

    /// Only the text up to `length` is known after all.
    fn cut(&mut self, length: usize, shape: Shape) {
        if !self.closed {
            self.text.truncate(length);
        }
        self.push_unknown(shape);
    }

    pub(super) fn finish(self, source: &str) -> Word {
        let shape = match self.shape {
            None => Shape::Literal,
            Some(Shape::Process) if self.parts > 1 => Shape::One,
            Some(shape) => shape,
        };
        let variable = self.variable.filter(|_| self.parts == 1);
        let source = if shape == Shape::Literal { String::new() } else { source.to_owned() };
        Word { text: self.text, shape, variable, quoted: self.quoted, plain: self.rooted, source }
    }
}

impl<'t> Walker<'t, '_> {
    /// A word that must stand here.
    pub(super) fn word(&mut self) -> Walk<Word> {
        self.peek();
        let start = self.pos;
        let word = self.word_or_empty()?;
        if self.pos == start {
            return self.syntax("a missing word");
        }
        Ok(word)
    }

    /// A word, or nothing where a byte that ends a word stands.
    pub(super) fn word_or_empty(&mut self) -> Walk<Word> {
        self.peek();
        let start = self.pos;
        let mut draft = Draft::default();
        if self.raw(start) == Some(b'~') {
            self.sink.scope.rely_on_roots();
        }
        while let Some(byte) = self.peek() {
            if ends_word(byte) && !self.process_substitution(&mut draft)? {
                break;
            }
            if !ends_word(byte) {
                self.word_byte(&mut draft, byte)?;
            }
        }
        Ok(draft.finish(self.since(start)))
    }

    /// One piece of a word outside of quotes, at a byte that does not end the word.
    pub(super) fn word_byte(&mut self, draft: &mut Draft, byte: u8) -> Walk<()> {
        match byte {
            b'\\' => self.escaped(draft),
            b'\'' => self.single_quoted(draft),
            b'"' => {
                self.pos += 1;
                self.double_quoted(draft)
            }
            b'$' => self.dollar(draft, Quotes::None),
            b'`' => self.backticks(draft, Quotes::None),
            _ => {
                self.plain(draft, byte);
                Ok(())
            }
        }
    }

    fn plain(&mut self, draft: &mut Draft, byte: u8) {
        let start = self.pos;
        match byte {
            b'*' | b'?' => draft.push_unknown(Shape::Glob),
            b'[' => {
                draft.bracket.get_or_insert(draft.text.len());
            }
            b']' => {
                if let Some(length) = draft.bracket {
                    draft.cut(length, Shape::Glob);
                }
            }
            b'{' => draft.braces.open(draft.text.len()),
            b'}' => {
                if let Some(length) = draft.braces.close() {
                    draft.cut(length, Shape::Many);
                }
            }
            b',' => draft.braces.comma(),
            b'.' if self.raw(self.past_continuations(start + 1)) == Some(b'.') => {
                draft.braces.comma();
            }
            _ => {}
        }
        self.pos += 1;
        while self.raw(self.pos).is_some_and(is_dull) {
            self.pos += 1;
        }
        draft.push(self.since(start));
    }

    fn escaped(&mut self, draft: &mut Draft) -> Walk<()> {
        draft.quoted = true;
        self.pos += 1;
        let start = self.pos;
        let Some(next) = self.text.get(start..).and_then(|rest| rest.chars().next()) else {
            return self.syntax("a backslash at the end");
        };
        self.pos += next.len_utf8();
        draft.push(self.since(start));
        Ok(())
    }

    fn single_quoted(&mut self, draft: &mut Draft) -> Walk<()> {
        draft.quoted = true;
        let start = self.pos + 1;
        let rest = self.text.get(start..).unwrap_or_default();
        let Some(length) = rest.find('\'') else {
            return self.syntax("a quote without its end");
        };
        self.pos = start + length + 1;
        draft.push(rest.get(..length).unwrap_or_default());
        Ok(())
    }

    /// The rest of a double-quoted string, its end included.
    pub(super) fn double_quoted(&mut self, draft: &mut Draft) -> Walk<()> {
        draft.quoted = true;
        loop {
            match self.peek() {
                None => return self.syntax("a quote without its end"),
                Some(b'"') => {
                    self.pos += 1;
                    return Ok(());
                }
                Some(byte) => self.quoted_byte(draft, byte, Quotes::Double)?,
            }
        }
    }

    /// One piece of text inside double quotes or of a here-document.
    pub(super) fn quoted_byte(&mut self, draft: &mut Draft, byte: u8, quotes: Quotes) -> Walk<()> {
        match byte {
            b'$' => self.dollar(draft, quotes),
            b'`' => self.backticks(draft, quotes),
            b'\\' => {
                let escapes = matches!(self.raw(self.pos + 1), Some(b'$' | b'`' | b'"' | b'\\'));
                self.pos += usize::from(escapes);
                let start = self.pos;
                self.pos += 1;
                draft.push(self.since(start));
                Ok(())
            }
            _ => {
                let start = self.pos;
                self.pos += 1;
                while self.raw(self.pos).is_some_and(is_dull_in_quotes) {
                    self.pos += 1;
                }
                draft.push(self.since(start));
                Ok(())
            }
        }
    }

    /// `<( )` and `>( )` inside a word; whether one stood here.
    fn process_substitution(&mut self, draft: &mut Draft) -> Walk<bool> {
        if !matches!(self.peek(), Some(b'<' | b'>')) || self.peek_second() != Some(b'(') {
            return Ok(false);
        }
        self.bash_only("process substitution")?;
        self.peek();
        self.pos += 1;
        self.eat(b'(');
        self.via(CommandContext::ProcessSubstitution, Self::commands_in_parens)?;
        draft.push_unknown(Shape::Process);
        Ok(true)
    }

    /// Backticks: the text between them is unescaped once and read as commands.
    fn backticks(&mut self, draft: &mut Draft, quotes: Quotes) -> Walk<()> {
        self.pos += 1;
        let mut code = String::new();
        loop {
            let Some(next) = self.text.get(self.pos..).and_then(|rest| rest.chars().next()) else {
                return self.syntax("a backtick without its end");
            };
            self.pos += next.len_utf8();
            match (next, self.raw(self.pos)) {
                ('`', _) => break,
                ('\\', Some(escaped @ (b'$' | b'`' | b'\\'))) => {
                    code.push(char::from(escaped));
                    self.pos += 1;
                }
                ('\\', Some(b'"')) if quotes == Quotes::Double => {
                    code.push('"');
                    self.pos += 1;
                }
                (other, _) => code.push(other),
            }
        }
        self.script(&code, self.shell, CommandContext::Backticks)?;
        draft.push_unknown(if quotes == Quotes::None { Shape::Many } else { Shape::One });
        Ok(())
    }

    /// The commands up to the closing parenthesis, which is taken.
    pub(super) fn commands_in_parens(&mut self) -> Walk<()> {
        let outer = std::mem::take(&mut self.pending);
        let start = self.pos;
        self.list(super::walker::Until::Paren)?;
        if !self.pending.is_empty() {
            return self.syntax("a here-document without a body");
        }
        self.expect(b')', "a substitution without `)`")?;
        if !outer.is_empty() && self.since(start).contains('\n') {
            return self
                .fail(UncertainReason::Syntax("lines of a substitution before a here-document"));
        }
        self.pending = outer;
        Ok(())
    }
}

/// Bytes that mean nothing in a word outside of quotes, wherever they stand.
const fn is_dull(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || matches!(byte, b'_' | b'-' | b'/' | b':' | b'=')
}

const fn is_dull_in_quotes(byte: u8) -> bool {
    !matches!(byte, b'$' | b'`' | b'\\' | b'"')
}

// `$'…'`: the escapes of ANSI C.

impl Walker<'_, '_> {
    /// The string at the quote that follows the `$`.
    pub(super) fn ansi_quoted(&mut self, draft: &mut Draft) -> Walk<()> {
        self.pos += 1;
        let mut value = String::new();
        // To a shell that has no `$'`, the string ends at its first escaped quote.
        let mut ended = None;
        loop {
            let Some(next) = self.text.get(self.pos..).and_then(|rest| rest.chars().next()) else {
                return self.syntax("a quote without its end");
            };
            self.pos += next.len_utf8();
            match next {
                '\'' => break,
                '\\' => {
                    if self.raw(self.pos) == Some(b'\'') {
                        ended.get_or_insert(self.pos + 1);
                    }
                    value.push(self.escape()?);
                }
                other => value.push(other),
            }
        }
        let rest = ended.map_or("", |start| self.since(start));
        if rest.contains([';', '&', '|', '(', ')', '<', '>', '`', '$', '\n']) {
            return self
                .fail(UncertainReason::Dialect("an operator after an escaped quote in `$'`"));
        }
        draft.push_quoted(&value);
        Ok(())
    }

    fn escape(&mut self) -> Walk<char> {
        let Some(kind) = self.raw(self.pos) else {
            return self.syntax("a quote without its end");
        };
        self.pos += 1;
        let value = match kind {
            b'a' => '\x07',
            b'b' => '\x08',
            b'e' | b'E' => '\x1b',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'v' => '\x0b',
            b'\\' => '\\',
            b'"' => '"',
            b'?' => '?',
            b'\'' => '\'',
            b'x' => return self.number(16, 2),
            b'u' => return self.number(16, 4),
            b'U' => return self.number(16, 8),
            b'0'..=b'7' => {
                self.pos -= 1;
                return self.number(8, 3);
            }
            _ => return self.syntax("an unknown escape in `$'`"),
        };
        Ok(value)
    }

    /// Up to `most` digits: an ASCII character, since others depend on the locale.
    fn number(&mut self, radix: u32, most: usize) -> Walk<char> {
        let mut value = 0_u32;
        let mut count = 0;
        while count < most
            && let Some(digit) =
                self.raw(self.pos).and_then(|byte| char::from(byte).to_digit(radix))
        {
            value = value.saturating_mul(radix).saturating_add(digit);
            self.pos += 1;
            count += 1;
        }
        match u8::try_from(value) {
            Ok(byte) if count > 0 && byte.is_ascii() && byte != 0 => Ok(char::from(byte)),
            Ok(_) | Err(_) => self.syntax("an escape in `$'` that is no ASCII character"),
        }
    }
}

// Brace expansion: whether a word has one. What it expands to is left unknown.

/// The unquoted braces of one word.
#[derive(Debug, Default)]
pub(super) struct Braces {
    /// The length of the text before the first brace that is open.
    first: Option<usize>,
    separated: bool,
}

impl Braces {
    pub(super) fn open(&mut self, length: usize) {
        self.first.get_or_insert(length);
    }

    /// A comma or `..`: behind an open brace it can make an expansion. Bash also pairs the first
    /// brace with a later one than the nearest: `{x},y}` is `x}` and `y`.
    pub(super) const fn comma(&mut self) {
        self.separated |= self.first.is_some();
    }

    /// The length of the text before the braces, if they close an expansion.
    pub(super) const fn close(&self) -> Option<usize> {
        if self.separated { self.first } else { None }
    }
}
