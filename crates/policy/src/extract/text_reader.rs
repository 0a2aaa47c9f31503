//! The reader of shell text: its entry points, state and limits, its position in the text, and
//! lists of commands.

use std::ops::Range;

use super::symbol_table::{SymbolTable, is_code_variable};
use crate::command::{
    Assignment, CommandContext, CommandLookup, Extraction, ShellSyntax, SimpleCommand,
    UncertainReason, Uncertainty, Word,
};

/// The longest text that is read, in bytes.
const MAX_TEXT: usize = 64 * 1024;
/// The deepest nesting of constructs that is followed.
pub(super) const MAX_DEPTH: usize = 60;
/// The most commands that are collected from a text.
pub(super) const MAX_COMMANDS: usize = 4096;
/// The limit on all work for one text: bytes read, including nested texts, and words passed on from
/// program to program. Both can repeat the outer text many times.
const MAX_WORK: usize = 4 * MAX_TEXT;
/// The work of passing on one word, in bytes read.
const WORD_WORK: usize = 8;

pub(super) type ReadResult<T> = Result<T, Uncertainty>;

/// The state that all nested readers of one text share.
#[derive(Debug, Default)]
pub(super) struct ExtractionState {
    pub(super) commands: Vec<SimpleCommand>,
    /// The numbers of assignments and redirections outside of single commands.
    pub(super) assignments: usize,
    pub(super) redirects: usize,
    pub(super) symbols: SymbolTable,
    pub(super) path: Vec<CommandContext>,
    pub(super) depth: usize,
    /// The numbers of compound commands and of here-documents that were read.
    pub(super) compounds: usize,
    pub(super) heredocs: usize,
    work: usize,
    uncertain: Option<Uncertainty>,
}

/// A here-document whose body is still to come.
#[derive(Debug)]
pub(super) struct PendingHeredoc {
    pub(super) delimiter: String,
    /// `true` if the delimiter was quoted, which makes the body plain data.
    pub(super) quoted: bool,
    pub(super) strip_tabs: bool,
    /// The commands that read the body, as indexes into `ExtractionState::commands`.
    pub(super) readers: Range<usize>,
}

/// A position in one text, with the shell that reads it.
#[derive(Debug)]
pub(super) struct TextReader<'t, 's> {
    pub(super) text: &'t str,
    pub(super) pos: usize,
    pub(super) shell: ShellSyntax,
    pub(super) pending_heredocs: Vec<PendingHeredoc>,
    /// Zero if the next command certainly runs in the outermost shell, in order.
    nesting: usize,
    pub(super) state: &'s mut ExtractionState,
}

/// Finds every command that `text` could run when `shell` reads it.
///
/// `environment` holds the variables that the caller adds: arithmetic can read their values.
#[must_use]
pub fn extract(text: &str, shell: ShellSyntax, environment: &[Assignment]) -> Extraction {
    let mut state = ExtractionState::with_environment(environment);
    if let Err(uncertain) = read(text, shell, TextKind::Top, &mut state) {
        state.note_doubt(uncertain);
    }
    state.finish()
}

/// Finds every command that a program could run if it is started without a shell.
pub(crate) fn extract_call(
    program: &str,
    args: &[String],
    environment: &[Assignment],
) -> Extraction {
    let mut state = ExtractionState::with_environment(environment);
    let words = std::iter::once(program).chain(args.iter().map(String::as_str));
    let command = SimpleCommand::from_words(words.map(Word::literal).collect());
    if let Some(command) = command
        && let Err(uncertain) =
            TextReader::new("", ShellSyntax::Bash, &mut state).add_command(command)
    {
        state.note_doubt(uncertain);
    }
    state.finish()
}

/// The kind of text that a reader gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKind {
    /// The outermost text: functions that it defines are certain.
    Top,
    /// Commands inside another text.
    Script,
    /// The body of a here-document in which the shell performs expansions.
    Heredoc,
}

/// Reads a whole text, start to end.
pub(super) fn read(
    text: &str,
    shell: ShellSyntax,
    kind: TextKind,
    state: &mut ExtractionState,
) -> ReadResult<()> {
    let mut reader = TextReader::new(text, shell, state);
    if text.len() > MAX_TEXT {
        return reader.fail(UncertainReason::TooLong { limit: MAX_TEXT });
    }
    reader.count_work(text.len())?;
    if text.contains('\0') {
        return reader.fail(UncertainReason::Syntax("a NUL byte"));
    }
    match kind {
        TextKind::Top => reader.read_all(),
        TextKind::Script => {
            reader.nesting = 1;
            reader.one_level_deeper(TextReader::read_all)
        }
        TextKind::Heredoc => reader.one_level_deeper(TextReader::read_heredoc_expansions),
    }
}

impl<'t, 's> TextReader<'t, 's> {
    pub(super) fn new(text: &'t str, shell: ShellSyntax, state: &'s mut ExtractionState) -> Self {
        Self { text, pos: 0, shell, pending_heredocs: Vec::new(), nesting: 0, state }
    }

    /// Stops the reader: the rest of the text cannot be trusted.
    pub(super) fn fail<T>(&self, reason: UncertainReason) -> ReadResult<T> {
        Err(Uncertainty { reason, at: self.pos })
    }

    pub(super) fn fail_syntax<T>(&self, what: &'static str) -> ReadResult<T> {
        self.fail(UncertainReason::Syntax(what))
    }

    /// Notes a doubt and goes on: the structure is clear, but a value is not.
    pub(super) fn note_doubt(&mut self, reason: UncertainReason) {
        let at = self.pos;
        self.state.note_doubt(Uncertainty { reason, at });
    }

    /// Counts work against `MAX_WORK`.
    fn count_work(&mut self, work: usize) -> ReadResult<()> {
        self.state.work += work;
        if self.state.work > MAX_WORK {
            return self.fail(UncertainReason::TooLong { limit: MAX_TEXT });
        }
        Ok(())
    }

    /// Counts a command and its words against the limits.
    pub(super) fn count_command(&mut self, command: &SimpleCommand) -> ReadResult<()> {
        if self.state.commands.len() + self.state.assignments >= MAX_COMMANDS {
            return self.fail(UncertainReason::TooMany { limit: MAX_COMMANDS });
        }
        let words = command.args.len() + command.assignments.len();
        if words > MAX_COMMANDS {
            return self.fail(UncertainReason::TooMany { limit: MAX_COMMANDS });
        }
        self.count_work(words * WORD_WORK)
    }

    /// Fails if a construct is not in POSIX and a POSIX shell reads the text.
    pub(super) fn require_bash(&self, what: &'static str) -> ReadResult<()> {
        match self.shell {
            ShellSyntax::Bash => Ok(()),
            ShellSyntax::Posix => self.fail(UncertainReason::Dialect(what)),
        }
    }

    /// `true` between the parentheses of `$(…)` or `<(…)`, at any depth.
    pub(super) fn is_in_substitution(&self) -> bool {
        let is_substitution = |via: &CommandContext| {
            matches!(via, CommandContext::Substitution | CommandContext::ProcessSubstitution)
        };
        self.state.path.iter().any(is_substitution)
    }

    /// Reads a construct one level deeper, within `MAX_DEPTH`.
    pub(super) fn one_level_deeper<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> ReadResult<T>,
    ) -> ReadResult<T> {
        if self.state.depth >= MAX_DEPTH {
            return self.fail(UncertainReason::TooDeep { limit: MAX_DEPTH });
        }
        self.state.depth += 1;
        let result = inner(self);
        self.state.depth -= 1;
        result
    }

    /// Reads a construct whose commands may not run, or run in another process.
    pub(super) fn in_construct<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> ReadResult<T>,
    ) -> ReadResult<T> {
        self.nesting += 1;
        let result = self.one_level_deeper(inner);
        self.nesting -= 1;
        result
    }

    /// Reads a construct that appears in the path of the commands inside it.
    pub(super) fn in_context<T>(
        &mut self,
        via: CommandContext,
        inner: impl FnOnce(&mut Self) -> ReadResult<T>,
    ) -> ReadResult<T> {
        self.state.path.push(via);
        let result = self.in_construct(inner);
        self.state.path.pop();
        result
    }
}

impl ExtractionState {
    /// Starts with the variables that the caller sets.
    fn with_environment(environment: &[Assignment]) -> Self {
        let mut state = Self::default();
        for Assignment { name, value, .. } in environment {
            state.symbols.assign(name, value.clone());
            if is_code_variable(name) {
                let reason = UncertainReason::Code("a variable that the shell evaluates");
                state.note_doubt(reason.into());
            }
        }
        state
    }

    /// Notes a doubt; only the first one is kept.
    pub(super) fn note_doubt(&mut self, uncertain: Uncertainty) {
        self.uncertain.get_or_insert(uncertain);
    }

    fn finish(mut self) -> Extraction {
        if self.symbols.may_evaluate_code() {
            self.note_doubt(UncertainReason::Code("a value used in arithmetic").into());
        }
        if self.symbols.may_read_array_from_value() {
            self.note_doubt(UncertainReason::Code("a value that becomes an array").into());
        }
        if self.symbols.may_connect() {
            self.note_doubt(UncertainReason::Connection.into());
        }
        if self.symbols.has_broken_assumption() {
            self.note_doubt(UncertainReason::Dynamic("the value of a variable").into());
        }
        if self.symbols.functions_removed() {
            for command in &mut self.commands {
                if command.lookup == CommandLookup::Function {
                    command.lookup = CommandLookup::Shell;
                }
            }
        }
        Extraction { commands: self.commands, uncertain: self.uncertain }
    }
}

// The position in the text: line continuations, blanks, comments and reserved words.

/// Words that are reserved at the start of a command.
const KEYWORDS: [&str; 21] = [
    "if", "then", "elif", "else", "fi", "for", "in", "while", "until", "do", "done", "case",
    "esac", "select", "function", "time", "{", "}", "!", "[[", "coproc",
];
const LONGEST_KEYWORD: usize = 8;

/// `true` if a byte ends an unquoted word.
pub(super) const fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'|' | b'&' | b';' | b'(' | b')' | b'<' | b'>')
}

impl<'t> TextReader<'t, '_> {
    /// Returns the byte at a position, without skipping line continuations.
    pub(super) fn byte_at(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// Skips line continuations, as the shell does outside of single quotes, and returns the next
    /// byte.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.pos = self.skip_continuations(self.pos);
        self.byte_at(self.pos)
    }

    /// Returns the byte after the next one, by the same rule.
    pub(super) fn peek_second(&mut self) -> Option<u8> {
        self.peek()?;
        self.byte_at(self.skip_continuations(self.pos + 1))
    }

    /// Returns the first position from `at` on without a line continuation.
    pub(super) fn skip_continuations(&self, mut at: usize) -> usize {
        while self.byte_at(at) == Some(b'\\') && self.byte_at(at + 1) == Some(b'\n') {
            at += 2;
        }
        at
    }

    /// Skips the next byte if it is this one.
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.pos += 1;
        }
        found
    }

    /// Skips the next bytes if they are these, ignoring line continuations between them.
    pub(super) fn eat_all(&mut self, bytes: &str) -> bool {
        let start = self.pos;
        if bytes.bytes().all(|byte| self.eat(byte)) {
            return true;
        }
        self.pos = start;
        false
    }

    pub(super) fn expect(&mut self, byte: u8, problem: &'static str) -> ReadResult<()> {
        if self.eat(byte) { Ok(()) } else { self.fail_syntax(problem) }
    }

    /// Returns the text from `start` up to the current position.
    pub(super) fn text_since(&self, start: usize) -> &'t str {
        self.text.get(start..self.pos).unwrap_or_default()
    }

    /// Skips blanks and a comment, up to the next token on this line.
    pub(super) fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t') = self.peek() {
            self.pos += 1;
        }
        if self.peek() == Some(b'#') {
            let rest = self.text.get(self.pos..).unwrap_or_default();
            self.pos += rest.find('\n').unwrap_or(rest.len());
        }
    }

    /// Skips blanks, comments and line ends, and reads here-documents at the line ends.
    pub(super) fn skip_lines(&mut self) -> ReadResult<()> {
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            self.end_line()?;
        }
    }

    /// Returns the unquoted reserved word at the current position, and its end.
    pub(super) fn peek_keyword(&self) -> Option<(&'static str, usize)> {
        let mut word = [0_u8; LONGEST_KEYWORD];
        let mut length = 0;
        let mut at = self.skip_continuations(self.pos);
        while let Some(byte) = self.byte_at(at) {
            if ends_word(byte) {
                break;
            }
            *word.get_mut(length)? = byte;
            length += 1;
            at = self.skip_continuations(at + 1);
        }
        let word = word.get(..length)?;
        let found = KEYWORDS.into_iter().find(|keyword| keyword.as_bytes() == word)?;
        Some((found, at))
    }

    /// Skips a reserved word if it is at the current position.
    pub(super) fn eat_keyword(&mut self, wanted: &str) -> bool {
        match self.peek_keyword() {
            Some((found, end)) if found == wanted => {
                self.pos = end;
                true
            }
            Some(_) | None => false,
        }
    }

    pub(super) fn expect_keyword(&mut self, wanted: &str, problem: &'static str) -> ReadResult<()> {
        if self.eat_keyword(wanted) { Ok(()) } else { self.fail_syntax(problem) }
    }
}

// Lists, `&&` and `||`, and pipelines.

/// The end of a list. The reader stops before it; the construct around the list reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListEnd {
    TextEnd,
    /// A closing parenthesis.
    Paren,
    /// The end of a `case` clause: `;;`, `;&`, `;;&` or `esac`.
    Clause,
    /// One of these reserved words.
    Keywords(&'static [&'static str]),
}

/// An entry of a list, as far as the list needs to know it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListEntry {
    Plain,
    /// The definition of the function with this name.
    Definition(String),
}

impl TextReader<'_, '_> {
    /// Reads the whole text as a list.
    fn read_all(&mut self) -> ReadResult<()> {
        self.read_list(ListEnd::TextEnd)?;
        if !self.pending_heredocs.is_empty() {
            return self.fail_syntax("a here-document without a body");
        }
        Ok(())
    }

    /// Reads a list up to its end and returns the number of its entries.
    pub(super) fn read_list(&mut self, until: ListEnd) -> ReadResult<usize> {
        let mut entries = 0;
        loop {
            self.skip_lines()?;
            if self.at_end(until) {
                return Ok(entries);
            }
            let entry = self.read_and_or_list()?;
            entries += 1;
            self.skip_blanks();
            let background = self.read_separator(until)?;
            if let ListEntry::Definition(name) = entry
                && self.nesting == 0
                && background == Separator::Plain
            {
                self.state.symbols.define_function(name);
            }
        }
    }

    /// Reads a list up to one of the reserved words. The list must not be empty.
    pub(super) fn read_list_before(&mut self, keyword: &'static [&'static str]) -> ReadResult<()> {
        if self.read_list(ListEnd::Keywords(keyword))? == 0 {
            return self.fail_syntax("an empty list of commands");
        }
        Ok(())
    }

    fn at_end(&mut self, until: ListEnd) -> bool {
        match (until, self.peek()) {
            (ListEnd::TextEnd, next) => next.is_none(),
            (ListEnd::Paren, next) => next == Some(b')'),
            (ListEnd::Clause, Some(b';')) => {
                matches!(self.peek_second(), Some(b';' | b'&'))
            }
            (ListEnd::Clause, _) => matches!(self.peek_keyword(), Some(("esac", _))),
            (ListEnd::Keywords(words), _) => {
                self.peek_keyword().is_some_and(|(found, _)| words.contains(&found))
            }
        }
    }

    fn read_separator(&mut self, until: ListEnd) -> ReadResult<Separator> {
        match self.peek() {
            Some(b'\n') => {
                self.end_line()?;
                Ok(Separator::Plain)
            }
            _ if self.at_end(until) => Ok(Separator::Plain),
            Some(b';') => {
                self.pos += 1;
                Ok(Separator::Plain)
            }
            Some(b'&') => {
                self.pos += 1;
                Ok(Separator::Background)
            }
            _ => self.fail_syntax("something after the end of a command"),
        }
    }

    /// Reads pipelines joined by `&&` and `||`.
    fn read_and_or_list(&mut self) -> ReadResult<ListEntry> {
        let first = self.read_pipeline()?;
        let mut joined = false;
        loop {
            self.skip_blanks();
            if !self.eat_all("&&") && !self.eat_all("||") {
                return Ok(if joined { ListEntry::Plain } else { first });
            }
            joined = true;
            self.skip_lines()?;
            self.in_construct(Self::read_pipeline)?;
        }
    }

    /// Reads commands joined by `|`, with `time` and `!` before them.
    fn read_pipeline(&mut self) -> ReadResult<ListEntry> {
        let mut plain = self.skip_pipeline_prefixes()?;
        let first = self.read_command()?;
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'|') || self.peek_second() == Some(b'|') {
                break;
            }
            self.pos += 1;
            if self.eat(b'&') {
                self.require_bash("`|&`")?;
            }
            plain = false;
            self.skip_lines()?;
            self.in_construct(Self::read_command)?;
        }
        Ok(if plain { first } else { ListEntry::Plain })
    }

    /// Skips `time`, `time -p` and `!`. Returns `true` if there was none.
    fn skip_pipeline_prefixes(&mut self) -> ReadResult<bool> {
        let mut plain = true;
        loop {
            self.skip_blanks();
            match self.peek_keyword() {
                Some(("!", end)) => {
                    self.pos = end;
                    if self.peek() == Some(b'(') {
                        // With `extglob` on, this is the pattern of a command's name.
                        return self.fail_syntax("`!(`");
                    }
                }
                Some(("time", end)) if self.shell == ShellSyntax::Bash => {
                    self.pos = end;
                    self.skip_time_options();
                    self.check_timed()?;
                }
                Some(_) | None => return Ok(plain),
            }
            plain = false;
        }
    }

    /// Fails if `time` comes before a compound command in a substitution: there bash 5.2 first
    /// takes `time` for the name of a program, and so ends `$(time case x in y) a;; esac)` at the
    /// first `)`.
    fn check_timed(&mut self) -> ReadResult<()> {
        let is_compound = self.peek_keyword().is_some() || self.peek() == Some(b'(');
        if is_compound && self.is_in_substitution() {
            return self.fail_syntax("`time` before a compound command inside a substitution");
        }
        Ok(())
    }

    fn skip_time_options(&mut self) {
        self.skip_blanks();
        for option in ["-p", "--"] {
            let start = self.pos;
            if !(self.eat_all(option) && matches!(self.peek(), None | Some(b' ' | b'\t' | b'\n'))) {
                self.pos = start;
            }
            self.skip_blanks();
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Separator {
    Plain,
    Background,
}
