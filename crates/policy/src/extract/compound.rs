//! Compound commands: groups, loops, conditions, `[[ … ]]`, `case`, functions, `coproc`.

use super::cursor::ends_word;
use super::expansion::Closing;
use super::scope::{in_name, is_name};
use super::walker::{Entry, Until, Walk, Walker};
use super::word::Draft;
use crate::command::{AssignedValue, CommandContext, Shape, UncertainReason, Word};

impl Walker<'_, '_> {
    /// One command of a pipeline, with the redirections after it.
    pub(super) fn command(&mut self) -> Walk<Entry> {
        self.skip_blanks();
        if self.peek() == Some(b'(') {
            self.parenthesis()?;
            return self.after_compound();
        }
        let Some((keyword, end)) = self.keyword() else {
            return self.simple();
        };
        if keyword == "time" || keyword == "in" {
            // `in` is a word like any other here; `time` is a program to a POSIX shell.
            return self.simple();
        }
        self.pos = end;
        match keyword {
            "function" => return self.function_keyword(),
            "coproc" => self.coproc()?,
            _ => self.compound(keyword)?,
        }
        self.after_compound()
    }

    fn after_compound(&mut self) -> Walk<Entry> {
        let redirects = self.redirects()?;
        self.sink.redirects.extend(redirects);
        Ok(Entry::Plain)
    }

    /// The rest of a compound command whose first word was taken.
    fn compound(&mut self, keyword: &'static str) -> Walk<()> {
        match keyword {
            "{" => self.inside(|walker| {
                walker.list_then(&["}"])?;
                walker.expect_keyword("}", "a group without `}`")
            }),
            "if" => self.inside(Self::if_rest),
            "while" | "until" => self.inside(|walker| {
                walker.list_then(&["do"])?;
                walker.do_group()
            }),
            "for" => self.inside(Self::for_rest),
            "select" => {
                self.bash_only("`select`")?;
                self.inside(Self::for_words)
            }
            "case" => self.inside(Self::case_rest),
            "[[" => {
                self.bash_only("`[[`")?;
                self.nested(Self::condition)
            }
            _ => self.syntax("a reserved word in the wrong place"),
        }
    }

    fn parenthesis(&mut self) -> Walk<()> {
        if self.peek_second() == Some(b'(') {
            self.bash_only("`((`")?;
            self.eat_all("((");
            return self.nested(|walker| walker.arithmetic(Closing::Parens));
        }
        self.pos += 1;
        self.inside(|walker| {
            if walker.list(Until::Paren)? == 0 {
                return walker.syntax("an empty subshell");
            }
            walker.expect(b')', "a subshell without `)`")
        })
    }

    fn if_rest(&mut self) -> Walk<()> {
        self.list_then(&["then"])?;
        self.expect_keyword("then", "`if` without `then`")?;
        self.list_then(&["elif", "else", "fi"])?;
        if self.eat_keyword("elif") {
            return self.nested(Self::if_rest);
        }
        if self.eat_keyword("else") {
            self.list_then(&["fi"])?;
        }
        self.expect_keyword("fi", "`if` without `fi`")
    }

    fn do_group(&mut self) -> Walk<()> {
        self.expect_keyword("do", "a loop without `do`")?;
        self.list_then(&["done"])?;
        self.expect_keyword("done", "a loop without `done`")
    }

    fn for_rest(&mut self) -> Walk<()> {
        self.skip_blanks();
        if self.peek() != Some(b'(') {
            return self.for_words();
        }
        self.bash_only("`for ((`")?;
        if !self.eat_all("((") {
            return self.syntax("`for (`");
        }
        self.arithmetic(Closing::Loop)?;
        self.skip_blanks();
        self.eat(b';');
        self.skip_lines()?;
        self.loop_body()
    }

    /// `NAME [in WORDS] ; do … done`, for `for` and `select`.
    fn for_words(&mut self) -> Walk<()> {
        self.skip_blanks();
        let name = self.name()?;
        self.skip_blanks();
        let same_line = self.peek() != Some(b'\n');
        if self.peek() == Some(b';') {
            self.pos += 1;
            self.assign(&name, AssignedValue::Unknown);
            self.skip_lines()?;
            return self.loop_body();
        }
        self.skip_lines()?;
        if self.eat_keyword("in") {
            self.for_values(&name)?;
            self.skip_lines()?;
        } else {
            self.assign(&name, AssignedValue::Unknown);
            if !same_line && self.peek() == Some(b';') {
                return self.syntax("`;` after a line end");
            }
        }
        self.loop_body()
    }

    fn for_values(&mut self, name: &str) -> Walk<()> {
        loop {
            self.skip_blanks();
            match self.peek() {
                Some(b';') => {
                    self.pos += 1;
                    return Ok(());
                }
                Some(b'\n') => return self.end_line(),
                None => return self.syntax("a loop without a body"),
                Some(_) => {
                    let word = self.word()?;
                    self.assign(name, AssignedValue::from(&word));
                }
            }
        }
    }

    fn loop_body(&mut self) -> Walk<()> {
        if self.eat_keyword("{") {
            self.list_then(&["}"])?;
            return self.expect_keyword("}", "a loop body without `}`");
        }
        self.do_group()
    }

    /// A plain name, as loops take it.
    fn name(&mut self) -> Walk<String> {
        let word = self.word()?;
        match word.value() {
            Some(name) if !word.quoted && is_name(name) => Ok(name.to_owned()),
            Some(_) | None => self.syntax("a name that is none"),
        }
    }

    fn case_rest(&mut self) -> Walk<()> {
        self.skip_blanks();
        self.word()?;
        self.skip_lines()?;
        self.expect_keyword("in", "`case` without `in`")?;
        loop {
            self.skip_lines()?;
            if self.eat_keyword("esac") {
                return Ok(());
            }
            self.case_clause()?;
        }
    }

    fn case_clause(&mut self) -> Walk<()> {
        self.eat(b'(');
        loop {
            self.skip_blanks();
            self.word()?;
            self.skip_blanks();
            if self.eat(b')') {
                break;
            }
            self.expect(b'|', "a pattern without `)`")?;
        }
        self.list(Until::Clause)?;
        if self.peek() == Some(b';') {
            self.pos += 1;
            if self.eat(b'&') {
                return self.bash_only("`;&`");
            }
            self.expect(b';', "a clause without `;;`")?;
            if self.eat(b'&') {
                return self.bash_only("`;;&`");
            }
        }
        Ok(())
    }

    fn function_keyword(&mut self) -> Walk<Entry> {
        self.bash_only("`function`")?;
        self.skip_blanks();
        let name = self.word()?;
        self.skip_blanks();
        if self.eat(b'(') {
            self.skip_blanks();
            self.expect(b')', "`function name(`")?;
        }
        self.function_body(&name)
    }

    /// What follows `name ()`: any compound command.
    pub(super) fn function_body(&mut self, name: &Word) -> Walk<Entry> {
        let Some(name) = name.value().filter(|text| !name.quoted && is_function_name(text)) else {
            return self.syntax("a function's name that is not plain");
        };
        self.sink.scope.note_function(name);
        self.skip_lines()?;
        self.via(CommandContext::Function(name.to_owned()), |walker| {
            if walker.peek() == Some(b'(') {
                return walker.parenthesis();
            }
            match walker.keyword() {
                Some((keyword, end))
                    if !matches!(keyword, "function" | "coproc" | "time" | "!") =>
                {
                    walker.pos = end;
                    walker.compound(keyword)
                }
                Some(_) | None => walker.syntax("a function without a body"),
            }
        })?;
        self.after_compound()?;
        Ok(Entry::Definition(name.to_owned()))
    }

    fn coproc(&mut self) -> Walk<()> {
        self.bash_only("`coproc`")?;
        self.skip_blanks();
        if self.peek() == Some(b'(') || self.keyword().is_some() {
            self.assign("COPROC", AssignedValue::Number);
            return self.inside(Self::command).map(drop);
        }
        let start = self.pos;
        let word = self.word()?;
        self.skip_blanks();
        if self.peek() == Some(b'(') || self.keyword().is_some_and(|(found, _)| found != "in") {
            let Some(name) = word.value().filter(|name| is_name(name)) else {
                return self.syntax("a coproc's name that is none");
            };
            let name = name.to_owned();
            self.assign(&name, AssignedValue::Number);
        } else {
            if word.value().is_none() {
                // Read once already: reading twice could take twice as long at each level.
                return self.fail(UncertainReason::Dynamic("the command of a coproc"));
            }
            self.pos = start;
        }
        self.inside(Self::command).map(drop)
    }
}

fn is_function_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| in_name(byte) || matches!(byte, b'-' | b'.' | b':'))
}

// `[[ … ]]`: no command by itself, but its words expand and some operators evaluate.

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
            return self.fail(UncertainReason::Dialect("a chain in `[[`"));
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
            self.doubt(UncertainReason::Code("a value that the shell evaluates"));
        }
    }
}
