//! Expansions: `$name`, `${ … }` with every operator, `$( … )` and arithmetic.

use super::scope::{in_name, starts_name};
use super::walker::{Walk, Walker};
use super::word::{Draft, Quotes};
use crate::command::{
    AssignedValue, CommandContext, Redirect, Shape, SimpleCommand, UncertainReason, Word,
};

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
                self.doubt(UncertainReason::Code("`${!`"));
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
            self.assign(&of.name, AssignedValue::from(&word));
        }
        self.sink.scope.note_word(&word.text);
        Ok(())
    }

    fn transform(&mut self) -> Walk<()> {
        self.bash_only("`${x@`")?;
        match self.peek() {
            Some(b'P') => return self.fail(UncertainReason::Code("`${x@P}`")),
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

// Arithmetic, wherever it stands: what it reads is followed, what it cannot vouch for is uncertain.

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
                    self.doubt(UncertainReason::Code("arithmetic on what a command prints"));
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
                self.doubt(UncertainReason::Code("arithmetic on a value"));
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

// `$`: variables, substitutions, arithmetic, and the two quotes that start with it.

impl Walker<'_, '_> {
    /// What a `$` starts, or the `$` itself.
    pub(super) fn dollar(&mut self, draft: &mut Draft, quotes: Quotes) -> Walk<()> {
        let next = self.peek_second();
        self.pos = self.past_continuations(self.pos + 1);
        match next {
            Some(b'(') => self.parens(draft, quotes),
            Some(b'{') => {
                self.pos += 1;
                self.nested(|walker| walker.parameter(draft, quotes))
            }
            Some(b'[') => self.syntax("`$[`"),
            Some(b'\'') if quotes == Quotes::None => {
                self.bash_only("`$'`")?;
                self.ansi_quoted(draft)
            }
            Some(b'"') if quotes == Quotes::None => {
                self.bash_only("`$\"`")?;
                self.pos += 1;
                self.double_quoted(draft)
            }
            Some(byte) if starts_name(byte) => {
                let name = self.variable_name();
                draft.push_variable(quotes, &name);
                Ok(())
            }
            Some(byte) if byte.is_ascii_digit() || b"@*#?$!-".contains(&byte) => {
                self.pos += 1;
                draft.push_variable(quotes, special_name(byte).as_str());
                Ok(())
            }
            Some(_) | None => {
                draft.push("$");
                Ok(())
            }
        }
    }

    /// A name; line continuations inside it vanish.
    pub(super) fn variable_name(&mut self) -> String {
        let mut name = String::new();
        while let Some(byte) = self.peek().filter(|byte| in_name(*byte)) {
            name.push(char::from(byte));
            self.pos += 1;
        }
        name
    }

    /// `$( … )` and `$(( … ))`.
    fn parens(&mut self, draft: &mut Draft, quotes: Quotes) -> Walk<()> {
        self.pos += 1;
        if self.eat(b'(') {
            self.nested(|walker| walker.arithmetic(Closing::Parens))?;
            draft.push_variable(quotes, "#");
            return Ok(());
        }
        let (first, loose) = (self.sink.commands.len(), self.sink.redirects.len());
        self.via(CommandContext::Substitution, Self::commands_in_parens)?;
        match self.sink.commands.get(first..) {
            Some([command]) if prints_number(command) && self.sink.redirects.len() == loose => {
                if let Some(name) = command.name() {
                    self.sink.scope.count_on(name);
                }
                draft.push_variable(quotes, "#");
            }
            _ => draft.push_unknown(if quotes == Quotes::None { Shape::Many } else { Shape::One }),
        }
        Ok(())
    }
}

/// The name under which a special parameter is followed: `#` for all that are numbers.
pub(super) fn special_name(byte: u8) -> String {
    let name = if b"#?$!".contains(&byte) { b'#' } else { byte };
    char::from(name).to_string()
}

/// Whether all that a command prints is one number.
fn prints_number(command: &SimpleCommand) -> bool {
    let args: Option<Vec<&str>> = command.args.iter().map(Word::value).collect();
    let reads = command.redirects.iter().all(|redirect| matches!(redirect, Redirect::Read(_)));
    match (command.program.value(), args.as_deref()) {
        (Some("date"), Some(["+%s" | "+%s%N" | "+%s%3N"])) | (Some("nproc"), Some([])) => {
            command.redirects.is_empty()
        }
        (Some("wc"), Some(["-l" | "-c" | "-w"])) => reads,
        _ => false,
    }
}
