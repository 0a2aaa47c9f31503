//! `${ … }`: every operator, with the words and the arithmetic inside it.

use super::arith::Closing;
use super::cursor::starts_name;
use super::dollar::special_name;
use super::walker::{Walk, Walker};
use super::word::{Draft, Quotes};
use crate::command::{Reason, Shape, Value, Word};

/// Which elements of a variable an expansion takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Elements {
    /// The variable itself.
    Whole,
    /// One element.
    One,
    /// `[@]` or `[*]`.
    All,
}

/// What an expansion yields.
#[derive(Debug)]
struct Expansion {
    name: String,
    elements: Elements,
}

impl Expansion {
    fn push(&self, draft: &mut Draft, quotes: Quotes) {
        match self.elements {
            Elements::Whole => draft.push_variable(quotes, &self.name),
            Elements::One if quotes != Quotes::None => draft.push_unknown(Shape::One),
            Elements::One | Elements::All => draft.push_unknown(Shape::Many),
        }
    }
}

impl Walker<'_, '_> {
    /// The rest of an expansion, `${` taken.
    pub(super) fn parameter(&mut self, draft: &mut Draft, quotes: Quotes) -> Walk<()> {
        match (self.peek(), self.peek_second()) {
            (Some(b'#'), Some(b'}')) | (Some(b'!'), Some(b'}')) => {
                self.eat_all("#");
                self.eat_all("!");
                self.eat(b'}');
                draft.push_variable(quotes, "#");
                Ok(())
            }
            (Some(b'#'), _) => self.length(draft, quotes),
            (Some(b'!'), _) => self.indirect(draft, quotes),
            _ => {
                let expansion = self.named()?;
                self.operator(expansion, draft, quotes)
            }
        }
    }

    /// `${#name}`: a number.
    fn length(&mut self, draft: &mut Draft, quotes: Quotes) -> Walk<()> {
        self.pos += 1;
        self.named()?;
        self.expect(b'}', "`${#`")?;
        draft.push_variable(quotes, "#");
        Ok(())
    }

    /// `${!name}` evaluates the value of `name` as a name, subscripts included.
    fn indirect(&mut self, draft: &mut Draft, quotes: Quotes) -> Walk<()> {
        self.bash_only("`${!`")?;
        self.pos += 1;
        let expansion = self.named()?;
        let listed = matches!(self.peek(), Some(b'@' | b'*')) && self.peek_second() == Some(b'}');
        if listed {
            self.pos += 1;
        } else if expansion.elements != Elements::All {
            if expansion.elements == Elements::One {
                self.doubt(Reason::Code("`${!`"));
            }
            self.sink.scope.evaluate(&expansion.name);
        }
        draft.push_unknown(Shape::Many);
        self.operator(expansion, &mut Draft::default(), quotes)
    }

    /// The name and its subscript.
    fn named(&mut self) -> Walk<Expansion> {
        let name = match self.peek() {
            Some(byte) if starts_name(byte) || byte.is_ascii_digit() => self.variable_name(),
            Some(byte) if b"@*?$!-".contains(&byte) => {
                self.pos += 1;
                special_name(byte)
            }
            _ => return self.syntax("`${` without a name"),
        };
        let mut elements = if name == "@" { Elements::All } else { Elements::Whole };
        if self.peek() == Some(b'[') {
            self.bash_only("a subscript")?;
            self.pos += 1;
            elements = Elements::One;
            if self.eat_all("@]") || self.eat_all("*]") {
                elements = Elements::All;
            } else {
                self.arithmetic(Closing::Bracket)?;
            }
        }
        Ok(Expansion { name, elements })
    }

    fn operator(&mut self, of: Expansion, draft: &mut Draft, quotes: Quotes) -> Walk<()> {
        let Some(operator) = self.peek() else {
            return self.syntax("`${` without `}`");
        };
        self.pos += 1;
        match operator {
            b'}' => {
                of.push(draft, quotes);
                return Ok(());
            }
            b':' if !matches!(self.peek(), Some(b'-' | b'=' | b'?' | b'+')) => {
                self.bash_only("`${x:n}`")?;
                self.arithmetic(Closing::Brace)?;
            }
            b':' => {
                self.pos += 1;
                self.default(self.raw(self.pos - 1), &of, quotes)?;
            }
            b'-' | b'=' | b'?' | b'+' => self.default(Some(operator), &of, quotes)?,
            b'#' | b'%' => {
                self.brace_word(quotes)?;
            }
            b'/' | b'^' | b',' => {
                self.bash_only("`${x/y}`")?;
                self.brace_word(quotes)?;
            }
            b'@' => self.transform()?,
            _ => return self.syntax("an unknown operator in `${`"),
        }
        let shape = match (quotes, of.elements) {
            (Quotes::None, _) | (_, Elements::All) => Shape::Many,
            (_, Elements::Whole | Elements::One) => Shape::One,
        };
        draft.push_unknown(shape);
        Ok(())
    }

    /// `${x:-word}` and its kin.
    fn default(&mut self, operator: Option<u8>, of: &Expansion, quotes: Quotes) -> Walk<()> {
        let word = self.brace_word(quotes)?;
        if operator == Some(b'=') {
            self.assign(&of.name, Value::from(&word));
        }
        self.sink.scope.note_word(&word.text);
        Ok(())
    }

    fn transform(&mut self) -> Walk<()> {
        self.bash_only("`${x@`")?;
        match self.peek() {
            Some(b'P') => return self.fail(Reason::Code("`${x@P}`")),
            Some(b'Q' | b'E' | b'A' | b'K' | b'a' | b'U' | b'L' | b'u' | b'k') => self.pos += 1,
            _ => return self.syntax("an unknown operator in `${`"),
        }
        self.expect(b'}', "`${` without `}`")
    }

    /// The word of an operator, up to the closing brace, which is taken.
    fn brace_word(&mut self, quotes: Quotes) -> Walk<Word> {
        let mut draft = Draft::default();
        let start = self.pos;
        loop {
            let Some(byte) = self.peek() else {
                return self.syntax("`${` without `}`");
            };
            match (byte, quotes) {
                (b'}', _) => {
                    let word = draft.finish(self.since(start));
                    self.pos += 1;
                    return Ok(word);
                }
                (b'{', _) => return self.syntax("a brace inside `${`"),
                (b'\'', Quotes::Double | Quotes::Heredoc) | (b'"', Quotes::Heredoc) => {
                    self.quoted_in_quotes(&mut draft, byte, quotes)?;
                }
                (b'<' | b'>', Quotes::None) if self.peek_second() == Some(b'(') => {
                    return self.syntax("process substitution inside `${`");
                }
                (b'"', Quotes::Double) => {
                    self.pos += 1;
                    self.double_quoted(&mut draft)?;
                }
                (b'\\', Quotes::Double | Quotes::Heredoc)
                    if self.raw(self.pos + 1) == Some(b'}') =>
                {
                    self.pos += 2;
                    draft.push("}");
                }
                (_, Quotes::None) => self.word_byte(&mut draft, byte)?,
                (_, Quotes::Double | Quotes::Heredoc) => {
                    self.brace_quoted_byte(&mut draft, byte, quotes)?;
                }
            }
        }
    }

    /// Quotes of the other kind inside `"${x:-…}"`, or any inside `${x:-…}` of a here-document.
    ///
    /// Bash looks for the second quote before it looks for the closing brace, dash does not, and
    /// whether the quotes stay or protect depends on the operator. All readings agree on where the
    /// expansion ends if nothing between the quotes could end it or open another construct. Plain
    /// variables between them are read as expansions: that can only find more.
    fn quoted_in_quotes(&mut self, draft: &mut Draft, quote: u8, quotes: Quotes) -> Walk<()> {
        let start = self.pos + 1;
        let rest = self.text.get(start..).unwrap_or_default();
        let inner = rest.split(char::from(quote)).next().unwrap_or_default();
        let is_closed = inner.len() < rest.len();
        if !is_closed || inner.contains(['\'', '"', '\\', '`', '{', '}', '(', '[', '\n']) {
            return self.syntax("quotes inside `${` inside quotes");
        }
        let end = start + inner.len();
        // Whether the quotes themselves stay depends on the operator, so the value is not known.
        draft.push_unknown(Shape::One);
        self.pos = start;
        while self.pos < end
            && let Some(byte) = self.raw(self.pos)
        {
            self.brace_quoted_byte(draft, byte, quotes)?;
        }
        self.pos = end + 1;
        Ok(())
    }

    /// One byte at a time, so that quotes and braces are seen.
    fn brace_quoted_byte(&mut self, draft: &mut Draft, byte: u8, quotes: Quotes) -> Walk<()> {
        if matches!(byte, b'$' | b'`' | b'\\') {
            return self.quoted_byte(draft, byte, quotes);
        }
        let start = self.pos;
        self.pos += 1;
        while self.raw(self.pos).is_some_and(|byte| byte >= 0x80 || byte.is_ascii_alphanumeric()) {
            self.pos += 1;
        }
        draft.push(self.since(start));
        Ok(())
    }
}
