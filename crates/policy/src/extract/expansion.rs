//! Expansions: `$name`, `${ … }` with every operator, `$( … )` and arithmetic.

use super::symbol_table::{is_name_byte, is_name_start};
use super::text_reader::{ReadResult, TextReader};
use super::word::{QuoteContext, WordDraft};
use crate::command::{
    CommandContext, Redirect, Shape, SimpleCommand, UncertainReason, VariableValue, Word,
};

/// The elements of a variable that an expansion takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArrayElements {
    /// The variable without a subscript.
    Whole,
    One,
    /// All elements: `[@]` or `[*]`.
    All,
}

/// The variable of an expansion, and its elements.
#[derive(Debug)]
struct ParameterExpansion {
    name: String,
    elements: ArrayElements,
}

impl ParameterExpansion {
    fn push(&self, draft: &mut WordDraft, quotes: QuoteContext) {
        match self.elements {
            ArrayElements::Whole => draft.push_variable(quotes, &self.name),
            ArrayElements::One if quotes != QuoteContext::None => draft.push_unknown(Shape::One),
            ArrayElements::One | ArrayElements::All => draft.push_unknown(Shape::Many),
        }
    }
}

impl TextReader<'_, '_> {
    /// Reads the rest of an expansion after `${`.
    fn read_parameter(&mut self, draft: &mut WordDraft, quotes: QuoteContext) -> ReadResult<()> {
        match (self.peek(), self.peek_second()) {
            (Some(b'#'), Some(b'}')) | (Some(b'!'), Some(b'}')) => {
                self.eat_all("#");
                self.eat_all("!");
                self.eat(b'}');
                draft.push_variable(quotes, "#");
                Ok(())
            }
            (Some(b'#'), _) => self.read_length(draft, quotes),
            (Some(b'!'), _) => self.read_indirect(draft, quotes),
            _ => {
                let expansion = self.read_parameter_name()?;
                self.read_operator(expansion, draft, quotes)
            }
        }
    }

    /// Reads `${#name}`, which is a number.
    fn read_length(&mut self, draft: &mut WordDraft, quotes: QuoteContext) -> ReadResult<()> {
        self.pos += 1;
        self.read_parameter_name()?;
        self.expect(b'}', "`${#`")?;
        draft.push_variable(quotes, "#");
        Ok(())
    }

    /// Reads `${!name}`, which evaluates the value of `name` as a name, including subscripts.
    fn read_indirect(&mut self, draft: &mut WordDraft, quotes: QuoteContext) -> ReadResult<()> {
        self.require_bash("`${!`")?;
        self.pos += 1;
        let expansion = self.read_parameter_name()?;
        let listed = matches!(self.peek(), Some(b'@' | b'*')) && self.peek_second() == Some(b'}');
        if listed {
            self.pos += 1;
        } else if expansion.elements != ArrayElements::All {
            if expansion.elements == ArrayElements::One {
                self.note_doubt(UncertainReason::Code("`${!`"));
            }
            self.state.symbols.note_evaluated(&expansion.name);
        }
        draft.push_unknown(Shape::Many);
        self.read_operator(expansion, &mut WordDraft::default(), quotes)
    }

    /// Reads a name and its subscript.
    fn read_parameter_name(&mut self) -> ReadResult<ParameterExpansion> {
        let name = match self.peek() {
            Some(byte) if is_name_start(byte) || byte.is_ascii_digit() => self.read_variable_name(),
            Some(byte) if b"@*?$!-".contains(&byte) => {
                self.pos += 1;
                special_name(byte)
            }
            _ => return self.fail_syntax("`${` without a name"),
        };
        let mut elements = if name == "@" { ArrayElements::All } else { ArrayElements::Whole };
        if self.peek() == Some(b'[') {
            self.require_bash("a subscript")?;
            self.pos += 1;
            elements = ArrayElements::One;
            if self.eat_all("@]") || self.eat_all("*]") {
                elements = ArrayElements::All;
            } else {
                self.read_arithmetic(ArithmeticEnd::Bracket)?;
            }
        }
        Ok(ParameterExpansion { name, elements })
    }

    fn read_operator(
        &mut self,
        expansion: ParameterExpansion,
        draft: &mut WordDraft,
        quotes: QuoteContext,
    ) -> ReadResult<()> {
        let Some(operator) = self.peek() else {
            return self.fail_syntax("`${` without `}`");
        };
        self.pos += 1;
        match operator {
            b'}' => {
                expansion.push(draft, quotes);
                return Ok(());
            }
            b':' if !matches!(self.peek(), Some(b'-' | b'=' | b'?' | b'+')) => {
                self.require_bash("`${x:n}`")?;
                self.read_arithmetic(ArithmeticEnd::Brace)?;
            }
            b':' => {
                self.pos += 1;
                self.read_default_operator(self.byte_at(self.pos - 1), &expansion, quotes)?;
            }
            b'-' | b'=' | b'?' | b'+' => {
                self.read_default_operator(Some(operator), &expansion, quotes)?
            }
            b'#' | b'%' => {
                self.read_brace_word(quotes)?;
            }
            b'/' | b'^' | b',' => {
                self.require_bash("`${x/y}`")?;
                self.read_brace_word(quotes)?;
            }
            b'@' => self.read_transform()?,
            _ => return self.fail_syntax("an unknown operator in `${`"),
        }
        let shape = match (quotes, expansion.elements) {
            (QuoteContext::None, _) | (_, ArrayElements::All) => Shape::Many,
            (_, ArrayElements::Whole | ArrayElements::One) => Shape::One,
        };
        draft.push_unknown(shape);
        Ok(())
    }

    /// Reads the word of `${x:-word}`, `${x:=word}`, `${x:?word}` or `${x:+word}`.
    fn read_default_operator(
        &mut self,
        operator: Option<u8>,
        expansion: &ParameterExpansion,
        quotes: QuoteContext,
    ) -> ReadResult<()> {
        let word = self.read_brace_word(quotes)?;
        if operator == Some(b'=') {
            self.note_assignment(&expansion.name, VariableValue::from(&word));
        }
        self.state.symbols.note_word(&word.text);
        Ok(())
    }

    fn read_transform(&mut self) -> ReadResult<()> {
        self.require_bash("`${x@`")?;
        match self.peek() {
            Some(b'P') => return self.fail(UncertainReason::Code("`${x@P}`")),
            Some(b'Q' | b'E' | b'A' | b'K' | b'a' | b'U' | b'L' | b'u' | b'k') => self.pos += 1,
            _ => return self.fail_syntax("an unknown operator in `${`"),
        }
        self.expect(b'}', "`${` without `}`")
    }

    /// Reads the word of an operator, up to and including the closing brace.
    fn read_brace_word(&mut self, quotes: QuoteContext) -> ReadResult<Word> {
        let mut draft = WordDraft::default();
        let start = self.pos;
        loop {
            let Some(byte) = self.peek() else {
                return self.fail_syntax("`${` without `}`");
            };
            match (byte, quotes) {
                (b'}', _) => {
                    let word = draft.finish(self.text_since(start));
                    self.pos += 1;
                    return Ok(word);
                }
                (b'{', _) => return self.fail_syntax("a brace inside `${`"),
                (b'\'', QuoteContext::Double | QuoteContext::Heredoc)
                | (b'"', QuoteContext::Heredoc) => {
                    self.read_inner_quotes(&mut draft, byte, quotes)?;
                }
                (b'<' | b'>', QuoteContext::None) if self.peek_second() == Some(b'(') => {
                    return self.fail_syntax("process substitution inside `${`");
                }
                (b'"', QuoteContext::Double) => {
                    self.pos += 1;
                    self.read_double_quoted(&mut draft)?;
                }
                (b'\\', QuoteContext::Double | QuoteContext::Heredoc)
                    if self.byte_at(self.pos + 1) == Some(b'}') =>
                {
                    self.pos += 2;
                    draft.push("}");
                }
                (_, QuoteContext::None) => self.read_word_piece(&mut draft, byte)?,
                (_, QuoteContext::Double | QuoteContext::Heredoc) => {
                    self.read_brace_quoted_piece(&mut draft, byte, quotes)?;
                }
            }
        }
    }

    /// Reads single quotes inside `"${x:-…}"`, or any quotes inside `${x:-…}` in a here-document.
    ///
    /// Bash looks for the second quote before it looks for the closing brace; dash does not. The
    /// operator decides if the quotes are kept or protect the text. All shells agree on the end of
    /// the expansion if nothing between the quotes could end it or open another construct. Plain
    /// variables between them are read as expansions, which can only find more.
    fn read_inner_quotes(
        &mut self,
        draft: &mut WordDraft,
        quote: u8,
        quotes: QuoteContext,
    ) -> ReadResult<()> {
        let start = self.pos + 1;
        let rest = self.text.get(start..).unwrap_or_default();
        let inner = rest.split(char::from(quote)).next().unwrap_or_default();
        let is_closed = inner.len() < rest.len();
        if !is_closed || inner.contains(['\'', '"', '\\', '`', '{', '}', '(', '[', '\n']) {
            return self.fail_syntax("quotes inside `${` inside quotes");
        }
        let end = start + inner.len();
        // The operator decides if the quotes are kept, so the value is not known.
        draft.push_unknown(Shape::One);
        self.pos = start;
        while self.pos < end
            && let Some(byte) = self.byte_at(self.pos)
        {
            self.read_brace_quoted_piece(draft, byte, quotes)?;
        }
        self.pos = end + 1;
        Ok(())
    }

    /// Reads a short piece of text that contains no quotes and braces.
    fn read_brace_quoted_piece(
        &mut self,
        draft: &mut WordDraft,
        byte: u8,
        quotes: QuoteContext,
    ) -> ReadResult<()> {
        if matches!(byte, b'$' | b'`' | b'\\') {
            return self.read_quoted_piece(draft, byte, quotes);
        }
        let start = self.pos;
        self.pos += 1;
        while self
            .byte_at(self.pos)
            .is_some_and(|byte| byte >= 0x80 || byte.is_ascii_alphanumeric())
        {
            self.pos += 1;
        }
        draft.push(self.text_since(start));
        Ok(())
    }
}

// Arithmetic: the variables that it reads are followed; values that are not known are uncertain.

/// The end of an arithmetic expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArithmeticEnd {
    /// `))` of `((` or `$((`.
    Parens,
    /// `))` of a `for`, with `;` inside.
    Loop,
    /// `]` after a subscript.
    Bracket,
    /// `}` of `${x:offset:length}`.
    Brace,
}

/// The numbers of open parentheses and brackets.
#[derive(Debug, Default)]
struct OpenBrackets {
    parens: usize,
    brackets: usize,
}

impl OpenBrackets {
    const fn is_empty(&self) -> bool {
        self.parens == 0 && self.brackets == 0
    }
}

impl TextReader<'_, '_> {
    /// Reads the subscript of an assignment after `[`.
    pub(super) fn read_subscript(&mut self) -> ReadResult<()> {
        self.read_arithmetic(ArithmeticEnd::Bracket)
    }

    /// Reads arithmetic up to and including its end.
    ///
    /// Text that is not clearly arithmetic is an error: `((` can also open two subshells.
    pub(super) fn read_arithmetic(&mut self, closing: ArithmeticEnd) -> ReadResult<()> {
        let mut open = OpenBrackets::default();
        loop {
            let Some(byte) = self.peek() else {
                return self.fail_syntax("arithmetic without its end");
            };
            if open.is_empty() && self.eat_closing(byte, closing)? {
                return Ok(());
            }
            match byte {
                b'$' => self.read_arithmetic_dollar()?,
                b'`' => {
                    self.read_word_piece(&mut WordDraft::default(), byte)?;
                    self.note_doubt(UncertainReason::Code("arithmetic on what a command prints"));
                }
                b'"' | b'\'' => self.read_arithmetic_quotes(byte)?,
                b'\n' if !self.pending_heredocs.is_empty() => {
                    return self.fail_syntax("a line end before a here-document");
                }
                _ if is_name_start(byte) => {
                    let name = self.read_variable_name();
                    self.state.symbols.note_evaluated(&name);
                }
                _ => self.read_arithmetic_sign(byte, closing, &mut open)?,
            }
        }
    }

    fn eat_closing(&mut self, byte: u8, closing: ArithmeticEnd) -> ReadResult<bool> {
        match (closing, byte) {
            (ArithmeticEnd::Parens | ArithmeticEnd::Loop, b')') => {
                if self.eat_all("))") {
                    Ok(true)
                } else {
                    self.fail_syntax("`((` that is no arithmetic")
                }
            }
            (ArithmeticEnd::Bracket, b']') | (ArithmeticEnd::Brace, b'}') => {
                self.pos += 1;
                Ok(true)
            }
            (
                ArithmeticEnd::Parens
                | ArithmeticEnd::Loop
                | ArithmeticEnd::Bracket
                | ArithmeticEnd::Brace,
                _,
            ) => Ok(false),
        }
    }

    fn read_arithmetic_sign(
        &mut self,
        byte: u8,
        closing: ArithmeticEnd,
        open: &mut OpenBrackets,
    ) -> ReadResult<()> {
        match byte {
            b'(' => open.parens += 1,
            b')' if open.parens > 0 => open.parens -= 1,
            b'[' => open.brackets += 1,
            b']' if open.brackets > 0 => open.brackets -= 1,
            b';' if closing == ArithmeticEnd::Loop => {}
            b'<' | b'>' if self.peek_second() == Some(b'(') => {
                return self.fail_syntax("`<(` in arithmetic");
            }
            b'0'..=b'9' | b' ' | b'\t' | b'\n' => {}
            _ if b"+-*/%<>=!&|^~?:,#@.".contains(&byte) => {}
            _ => return self.fail_syntax("text in arithmetic"),
        }
        self.pos += 1;
        Ok(())
    }

    /// Reads an expansion inside arithmetic, whose value the shell evaluates as an expression.
    fn read_arithmetic_dollar(&mut self) -> ReadResult<()> {
        let start = self.pos;
        let mut draft = WordDraft::default();
        self.read_dollar(&mut draft, QuoteContext::Double)?;
        let word = draft.finish(self.text_since(start));
        match (word.variable.as_deref(), word.shape) {
            (Some("#"), _) => {}
            (Some(name), _) => self.state.symbols.note_evaluated(name),
            (None, Shape::Literal) => return self.fail_syntax("`$` in arithmetic"),
            (None, Shape::One | Shape::Many | Shape::Glob | Shape::Process) => {
                self.note_doubt(UncertainReason::Code("arithmetic on a value"));
            }
        }
        Ok(())
    }

    /// Reads quotes inside arithmetic. They protect nothing there, so only harmless text is
    /// accepted.
    fn read_arithmetic_quotes(&mut self, quote: u8) -> ReadResult<()> {
        self.pos += 1;
        loop {
            match self.peek() {
                Some(byte) if byte == quote => {
                    self.pos += 1;
                    return Ok(());
                }
                Some(b'$') if quote == b'"' => self.read_arithmetic_dollar()?,
                Some(byte) if is_name_start(byte) => {
                    let name = self.read_variable_name();
                    self.state.symbols.note_evaluated(&name);
                }
                Some(byte) if byte.is_ascii_digit() || b" .-/:+@%".contains(&byte) => self.pos += 1,
                Some(_) | None => return self.fail_syntax("quotes in arithmetic"),
            }
        }
    }
}

// `$`: variables, substitutions, arithmetic, and the two kinds of quotes that start with it.

impl TextReader<'_, '_> {
    /// Reads the expansion that a `$` starts, or the `$` itself.
    pub(super) fn read_dollar(
        &mut self,
        draft: &mut WordDraft,
        quotes: QuoteContext,
    ) -> ReadResult<()> {
        let next = self.peek_second();
        self.pos = self.skip_continuations(self.pos + 1);
        match next {
            Some(b'(') => self.read_dollar_parens(draft, quotes),
            Some(b'{') => {
                self.pos += 1;
                self.one_level_deeper(|reader| reader.read_parameter(draft, quotes))
            }
            Some(b'[') => self.fail_syntax("`$[`"),
            Some(b'\'') if quotes == QuoteContext::None => {
                self.require_bash("`$'`")?;
                self.read_ansi_quoted(draft)
            }
            Some(b'"') if quotes == QuoteContext::None => {
                self.require_bash("`$\"`")?;
                self.pos += 1;
                self.read_double_quoted(draft)
            }
            Some(byte) if is_name_start(byte) => {
                let name = self.read_variable_name();
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

    /// Reads a name, without the line continuations inside it.
    fn read_variable_name(&mut self) -> String {
        let mut name = String::new();
        while let Some(byte) = self.peek().filter(|byte| is_name_byte(*byte)) {
            name.push(char::from(byte));
            self.pos += 1;
        }
        name
    }

    /// Reads `$( … )` or `$(( … ))`.
    fn read_dollar_parens(
        &mut self,
        draft: &mut WordDraft,
        quotes: QuoteContext,
    ) -> ReadResult<()> {
        self.pos += 1;
        if self.eat(b'(') {
            self.one_level_deeper(|reader| reader.read_arithmetic(ArithmeticEnd::Parens))?;
            draft.push_variable(quotes, "#");
            return Ok(());
        }
        let first = self.state.commands.len();
        let redirects = self.state.redirects;
        self.in_context(CommandContext::Substitution, Self::read_commands_in_parens)?;
        match self.state.commands.get(first..) {
            Some([command]) if prints_number(command) && self.state.redirects == redirects => {
                if let Some(name) = command.name() {
                    self.state.symbols.assume_number_output(name);
                }
                draft.push_variable(quotes, "#");
            }
            _ => draft.push_unknown(if quotes == QuoteContext::None {
                Shape::Many
            } else {
                Shape::One
            }),
        }
        Ok(())
    }
}

/// Returns the name that stands for a special parameter: `#` for all parameters that are numbers.
fn special_name(byte: u8) -> String {
    let name = if b"#?$!".contains(&byte) { b'#' } else { byte };
    char::from(name).to_string()
}

/// `true` if the whole output of a command is one number.
fn prints_number(command: &SimpleCommand) -> bool {
    let args: Option<Vec<&str>> = command.args.iter().map(Word::value).collect();
    let only_reads = command.redirects.iter().all(|redirect| matches!(redirect, Redirect::Read(_)));
    match (command.program.value(), args.as_deref()) {
        (Some("date"), Some(["+%s" | "+%s%N" | "+%s%3N"])) | (Some("nproc"), Some([])) => {
            command.redirects.is_empty()
        }
        (Some("wc"), Some(["-l" | "-c" | "-w"])) => only_reads,
        _ => false,
    }
}
