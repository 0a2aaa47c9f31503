//! Compound commands: groups, loops, conditions, `[[ … ]]`, `case`, functions, `coproc`.

use super::expansion::ArithmeticEnd;
use super::symbol_table::{is_name, is_name_byte};
use super::text_reader::{ListEnd, ListEntry, ReadResult, TextReader, ends_word};
use super::word::WordDraft;
use crate::command::{CommandContext, Shape, UncertainReason, VariableValue, Word};

impl TextReader<'_, '_> {
    /// Reads one command of a pipeline, with the redirections after it.
    pub(super) fn read_command(&mut self) -> ReadResult<ListEntry> {
        self.skip_blanks();
        if self.peek() == Some(b'(') {
            self.read_parenthesis()?;
            return self.read_compound_redirects();
        }
        let Some((keyword, end)) = self.peek_keyword() else {
            return self.read_simple_command();
        };
        if keyword == "time" || keyword == "in" {
            // `in` is an ordinary word here; to a POSIX shell `time` is a program.
            return self.read_simple_command();
        }
        self.pos = end;
        match keyword {
            "function" => return self.read_function_keyword(),
            "coproc" => self.read_coproc()?,
            _ => self.read_compound(keyword)?,
        }
        self.read_compound_redirects()
    }

    fn read_compound_redirects(&mut self) -> ReadResult<ListEntry> {
        let redirects = self.read_redirects()?;
        self.state.redirects += redirects.len();
        Ok(ListEntry::Plain)
    }

    /// Reads the rest of a compound command after its first word.
    fn read_compound(&mut self, keyword: &'static str) -> ReadResult<()> {
        self.state.compounds += 1;
        match keyword {
            "{" => self.in_construct(|reader| {
                reader.read_list_before(&["}"])?;
                reader.expect_keyword("}", "a group without `}`")
            }),
            "if" => self.in_construct(Self::read_if),
            "while" | "until" => self.in_construct(|reader| {
                reader.read_list_before(&["do"])?;
                reader.read_do_group()
            }),
            "for" => self.in_construct(Self::read_for),
            "select" => {
                self.require_bash("`select`")?;
                self.in_construct(Self::read_for_words)
            }
            "case" => self.in_construct(Self::read_case),
            "[[" => {
                self.require_bash("`[[`")?;
                self.one_level_deeper(Self::read_condition)
            }
            _ => self.fail_syntax("a reserved word in the wrong place"),
        }
    }

    fn read_parenthesis(&mut self) -> ReadResult<()> {
        self.state.compounds += 1;
        if self.peek_second() == Some(b'(') {
            self.require_bash("`((`")?;
            self.eat_all("((");
            return self.one_level_deeper(|reader| reader.read_arithmetic(ArithmeticEnd::Parens));
        }
        self.pos += 1;
        self.in_construct(|reader| {
            if reader.read_list(ListEnd::Paren)? == 0 {
                return reader.fail_syntax("an empty subshell");
            }
            reader.expect(b')', "a subshell without `)`")
        })
    }

    fn read_if(&mut self) -> ReadResult<()> {
        self.read_list_before(&["then"])?;
        self.expect_keyword("then", "`if` without `then`")?;
        self.read_list_before(&["elif", "else", "fi"])?;
        if self.eat_keyword("elif") {
            return self.one_level_deeper(Self::read_if);
        }
        if self.eat_keyword("else") {
            self.read_list_before(&["fi"])?;
        }
        self.expect_keyword("fi", "`if` without `fi`")
    }

    fn read_do_group(&mut self) -> ReadResult<()> {
        self.expect_keyword("do", "a loop without `do`")?;
        self.read_list_before(&["done"])?;
        self.expect_keyword("done", "a loop without `done`")
    }

    fn read_for(&mut self) -> ReadResult<()> {
        self.skip_blanks();
        if self.peek() != Some(b'(') {
            return self.read_for_words();
        }
        self.require_bash("`for ((`")?;
        if !self.eat_all("((") {
            return self.fail_syntax("`for (`");
        }
        self.read_arithmetic(ArithmeticEnd::Loop)?;
        self.skip_blanks();
        self.eat(b';');
        self.skip_lines()?;
        self.read_loop_body()
    }

    /// Reads `NAME [in WORDS] ; do … done`, for `for` and `select`.
    fn read_for_words(&mut self) -> ReadResult<()> {
        self.skip_blanks();
        let name = self.read_name()?;
        self.skip_blanks();
        let same_line = self.peek() != Some(b'\n');
        if self.peek() == Some(b';') {
            self.pos += 1;
            self.note_assignment(&name, VariableValue::Unknown);
            self.skip_lines()?;
            return self.read_loop_body();
        }
        self.skip_lines()?;
        if self.eat_keyword("in") {
            self.read_for_values(&name)?;
            self.skip_lines()?;
        } else {
            self.note_assignment(&name, VariableValue::Unknown);
            if !same_line && self.peek() == Some(b';') {
                return self.fail_syntax("`;` after a line end");
            }
        }
        self.read_loop_body()
    }

    fn read_for_values(&mut self, name: &str) -> ReadResult<()> {
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(b';') => {
                    self.pos += 1;
                    return Ok(());
                }
                Some(b'\n') => return self.end_line(),
                None => return self.fail_syntax("a loop without a body"),
                Some(_) => {
                    let word = self.read_word()?;
                    self.note_assignment(name, VariableValue::from(&word));
                }
            }
        }
    }

    fn read_loop_body(&mut self) -> ReadResult<()> {
        if self.eat_keyword("{") {
            self.read_list_before(&["}"])?;
            return self.expect_keyword("}", "a loop body without `}`");
        }
        self.read_do_group()
    }

    /// Reads the variable name of a loop.
    fn read_name(&mut self) -> ReadResult<String> {
        let word = self.read_word()?;
        match word.value() {
            Some(name) if !word.quoted && is_name(name) => Ok(name.to_owned()),
            Some(_) | None => self.fail_syntax("a name that is none"),
        }
    }

    fn read_case(&mut self) -> ReadResult<()> {
        self.skip_blanks();
        self.read_word()?;
        self.skip_lines()?;
        self.expect_keyword("in", "`case` without `in`")?;
        loop {
            self.skip_lines()?;
            if self.eat_keyword("esac") {
                return Ok(());
            }
            self.read_case_clause()?;
        }
    }

    fn read_case_clause(&mut self) -> ReadResult<()> {
        self.eat(b'(');
        loop {
            self.skip_blanks();
            self.read_word()?;
            self.skip_blanks();
            if self.eat(b')') {
                break;
            }
            self.expect(b'|', "a pattern without `)`")?;
        }
        self.read_list(ListEnd::Clause)?;
        if self.peek() == Some(b';') {
            self.pos += 1;
            if self.eat(b'&') {
                return self.require_bash("`;&`");
            }
            self.expect(b';', "a clause without `;;`")?;
            if self.eat(b'&') {
                return self.require_bash("`;;&`");
            }
        }
        Ok(())
    }

    fn read_function_keyword(&mut self) -> ReadResult<ListEntry> {
        self.require_bash("`function`")?;
        self.skip_blanks();
        let name = self.read_word()?;
        self.skip_blanks();
        if self.eat(b'(') {
            self.skip_blanks();
            self.expect(b')', "`function name(`")?;
        }
        self.read_function_body(&name)
    }

    /// Reads the compound command after `name ()`.
    pub(super) fn read_function_body(&mut self, name: &Word) -> ReadResult<ListEntry> {
        let Some(name) = name.value().filter(|text| !name.quoted && is_function_name(text)) else {
            return self.fail_syntax("a function's name that is not plain");
        };
        self.state.symbols.note_function(name);
        self.skip_lines()?;
        self.in_context(CommandContext::Function(name.to_owned()), |reader| {
            if reader.peek() == Some(b'(') {
                return reader.read_parenthesis();
            }
            match reader.peek_keyword() {
                Some((keyword, end))
                    if !matches!(keyword, "function" | "coproc" | "time" | "!") =>
                {
                    reader.pos = end;
                    reader.read_compound(keyword)
                }
                Some(_) | None => reader.fail_syntax("a function without a body"),
            }
        })?;
        self.read_compound_redirects()?;
        Ok(ListEntry::Definition(name.to_owned()))
    }

    fn read_coproc(&mut self) -> ReadResult<()> {
        self.require_bash("`coproc`")?;
        self.skip_blanks();
        if self.peek() == Some(b'(') || self.peek_keyword().is_some() {
            self.note_assignment("COPROC", VariableValue::Number);
            return self.in_construct(Self::read_command).map(drop);
        }
        let start = self.pos;
        let word = self.read_word()?;
        self.skip_blanks();
        if self.peek() == Some(b'(') || self.peek_keyword().is_some_and(|(found, _)| found != "in")
        {
            let Some(name) = word.value().filter(|name| is_name(name)) else {
                return self.fail_syntax("a coproc's name that is none");
            };
            let name = name.to_owned();
            self.note_assignment(&name, VariableValue::Number);
        } else {
            if word.value().is_none() {
                // Reading the word a second time could double the time at each level.
                return self.fail(UncertainReason::Dynamic("the command of a coproc"));
            }
            self.pos = start;
        }
        self.in_construct(Self::read_command).map(drop)
    }
}

fn is_function_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| is_name_byte(byte) || matches!(byte, b'-' | b'.' | b':'))
}

// `[[ … ]]`: it starts no command, but its words expand and some operators evaluate them.

/// Operators that evaluate both sides as arithmetic.
const ARITHMETIC_OPERATORS: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

/// The terms of one condition that were read so far.
#[derive(Debug, Default)]
struct ConditionTerms {
    open_parens: usize,
    /// Words since the last operator between terms.
    words: usize,
    /// `true` if some term is a single word, which a POSIX shell would run as a command.
    has_single_word: bool,
    has_and: bool,
    has_or: bool,
}

impl ConditionTerms {
    const fn end_term(&mut self) {
        self.has_single_word |= self.words == 1;
        self.words = 0;
    }
}

impl TextReader<'_, '_> {
    /// Reads the rest of a condition after `[[`.
    fn read_condition(&mut self) -> ReadResult<()> {
        let mut terms = ConditionTerms::default();
        let mut last: Option<Word> = None;
        loop {
            self.skip_condition_blanks()?;
            if self.read_condition_operator(&mut terms)? {
                last = None;
                continue;
            }
            if self.peek().is_none() {
                return self.fail_syntax("`[[` without `]]`");
            }
            let word = self.read_condition_word(&last)?;
            if word.is("]]") && !word.quoted {
                return self.end_condition(&mut terms);
            }
            self.note_evaluated_operands(last.as_ref(), &word);
            terms.words += usize::from(word.quoted || !word.is("!"));
            last = Some(word);
        }
    }

    fn end_condition(&self, terms: &mut ConditionTerms) -> ReadResult<()> {
        terms.end_term();
        if terms.open_parens != 0 {
            return self.fail_syntax("`(` without `)` in `[[`");
        }
        if terms.has_single_word && terms.has_and && terms.has_or {
            // A POSIX shell reads this as a chain of commands.
            return self.fail(UncertainReason::Dialect("a chain in `[[`"));
        }
        Ok(())
    }

    fn skip_condition_blanks(&mut self) -> ReadResult<()> {
        while let Some(byte @ (b' ' | b'\t' | b'\n')) = self.peek() {
            if byte == b'\n' && !self.pending_heredocs.is_empty() {
                return self.fail_syntax("a line end before a here-document");
            }
            self.pos += 1;
        }
        if self.peek() == Some(b'#') {
            return self.fail_syntax("a comment inside `[[`");
        }
        Ok(())
    }

    /// Reads an operator between terms, a parenthesis, or `<` or `>`. Returns `false` if there is
    /// none.
    fn read_condition_operator(&mut self, terms: &mut ConditionTerms) -> ReadResult<bool> {
        let next = self.peek();
        let second = self.peek_second();
        match next {
            Some(b'&') if self.eat_all("&&") => {
                terms.end_term();
                terms.has_and = true;
            }
            Some(b'|') if self.eat_all("||") => {
                terms.end_term();
                terms.has_or = true;
            }
            Some(b'<' | b'>') if second != Some(b'(') => {
                self.pos += 1;
                terms.words += 1;
            }
            Some(b'(') => {
                self.pos += 1;
                terms.open_parens += 1;
            }
            Some(b')') if terms.open_parens > 0 => {
                self.pos += 1;
                terms.open_parens -= 1;
                terms.words += 1;
            }
            Some(b'&' | b'|' | b')' | b';') => return self.fail_syntax("an operator inside `[[`"),
            Some(_) | None => return Ok(false),
        }
        Ok(true)
    }

    /// Reads a word; after a comparison it is a pattern or a regular expression.
    fn read_condition_word(&mut self, last: &Option<Word>) -> ReadResult<Word> {
        let pattern = last.as_ref().filter(|word| !word.quoted).and_then(Word::value);
        match pattern {
            Some("=~") => self.read_pattern(b"(|)"),
            Some("==" | "=" | "!=") => self.read_pattern(b"("),
            Some(_) | None => self.read_word(),
        }
    }

    /// Reads a word that may contain parentheses, and blanks and `|` inside them.
    fn read_pattern(&mut self, opening: &[u8]) -> ReadResult<Word> {
        let mut draft = WordDraft::default();
        let start = self.pos;
        let mut open = 0_usize;
        while let Some(byte) = self.peek() {
            let extended = start < self.pos
                && self.byte_at(self.pos - 1).is_some_and(|byte| b"@?*+!".contains(&byte));
            match byte {
                b'(' if opening.contains(&b'|') || extended || open > 0 => open += 1,
                b')' if open > 0 => open -= 1,
                b'|' if open > 0 || opening.contains(&b'|') => {}
                b' ' | b'\t' if open > 0 => {}
                _ if ends_word(byte) => break,
                _ => {
                    self.read_word_piece(&mut draft, byte)?;
                    continue;
                }
            }
            draft.push_unknown(Shape::Glob);
            self.pos += 1;
        }
        if open > 0 || self.pos == start {
            return self.fail_syntax("an odd pattern in `[[`");
        }
        Ok(draft.finish(self.text_since(start)))
    }

    /// Notes the words that an operator evaluates.
    fn note_evaluated_operands(&mut self, last: Option<&Word>, word: &Word) {
        let operator = last.filter(|word| !word.quoted).and_then(Word::value).unwrap_or_default();
        if matches!(operator, "-v" | "-R") {
            self.note_evaluated_word(word);
        }
        if ARITHMETIC_OPERATORS.contains(&operator) {
            self.note_evaluated_word(word);
        }
        if let (Some(left), Some(operator)) = (last, word.value())
            && ARITHMETIC_OPERATORS.contains(&operator)
        {
            self.note_evaluated_word(left);
        }
    }

    /// Notes that the shell evaluates a word as arithmetic, or as a name with a subscript.
    pub(super) fn note_evaluated_word(&mut self, word: &Word) {
        let is_clear = match (word.variable.as_deref(), word.value()) {
            (_, Some(name)) if is_name(name) => {
                self.state.symbols.note_evaluated(name);
                true
            }
            (_, Some(text)) => self.state.symbols.note_evaluated_text(text),
            (Some("#"), None) => true,
            (Some(name), None) => {
                self.state.symbols.note_evaluated(name);
                true
            }
            (None, None) => false,
        };
        if !is_clear {
            self.note_doubt(UncertainReason::Code("a value that the shell evaluates"));
        }
    }
}
