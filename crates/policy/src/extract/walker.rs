//! The state of one reading, its bounds, and the way in: lists of commands, and each command that
//! is found.

use std::ops::Range;

use super::scope::{Scope, Settled, is_code, is_name};
use crate::command::{
    AssignedValue, Assignment, AssignmentScope, CommandContext, CommandLookup, Extraction,
    Redirect, Shape, ShellSyntax, SimpleCommand, UncertainReason, Uncertainty, Word,
};
use crate::wrappers;
use crate::wrappers::{Effect, Reader};

/// A longer text is not read at all.
pub const MAX_TEXT: usize = 64 * 1024;
/// Deeper nesting is not followed.
pub const MAX_DEPTH: usize = 60;
/// More commands are not collected.
pub const MAX_COMMANDS: usize = 4096;
/// Bytes read in all, nested texts included, and words passed on from program to program: both can
/// repeat the outer text many times.
const MAX_WORK: usize = 4 * MAX_TEXT;
/// What passing on one word costs, in bytes read.
const WORD_WORK: usize = 8;

pub(super) type Walk<T> = Result<T, Uncertainty>;

/// What all nested readings of one text share.
#[derive(Debug, Default)]
pub(super) struct Sink {
    pub(super) commands: Vec<SimpleCommand>,
    pub(super) assignments: Vec<Assignment>,
    pub(super) redirects: Vec<Redirect>,
    pub(super) scope: Scope,
    pub(super) path: Vec<CommandContext>,
    pub(super) depth: usize,
    work: usize,
    uncertain: Option<Uncertainty>,
}

/// A here-document whose body is still to come.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) delimiter: String,
    /// The delimiter was quoted: the body is plain data.
    pub(super) quoted: bool,
    pub(super) strip_tabs: bool,
    /// The commands that read it, by their place among all that were found.
    pub(super) readers: Range<usize>,
}

/// One reading of one text.
#[derive(Debug)]
pub(super) struct Walker<'t, 's> {
    pub(super) text: &'t str,
    pub(super) pos: usize,
    pub(super) shell: ShellSyntax,
    pub(super) pending: Vec<Pending>,
    /// Zero while the next command is certainly run in the outermost shell, in order.
    pub(super) nesting: usize,
    pub(super) sink: &'s mut Sink,
}

/// Finds every command that `text` could run when `shell` reads it.
///
/// `environment` are the variables that the caller adds: their values can scope arithmetic.
#[must_use]
pub fn extract(text: &str, shell: ShellSyntax, environment: &[Assignment]) -> Extraction {
    let mut sink = Sink::within(environment);
    if let Err(uncertain) = read(text, shell, Kind::Top, &mut sink) {
        sink.note(uncertain);
    }
    sink.finish()
}

/// Finds every command that a program could run which is started directly, with no shell.
#[must_use]
pub fn extract_call(program: &str, args: &[String], environment: &[Assignment]) -> Extraction {
    let mut sink = Sink::within(environment);
    let words = std::iter::once(program).chain(args.iter().map(String::as_str));
    let command = SimpleCommand::from_words(words.map(Word::literal).collect());
    if let Some(command) = command
        && let Err(uncertain) = Walker::new("", ShellSyntax::Bash, &mut sink).emit(command)
    {
        sink.note(uncertain);
    }
    sink.finish()
}

/// What kind of text a nested reading gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The whole line: functions that it defines are certain.
    Top,
    /// Commands inside another text.
    Script,
    /// The body of a here-document whose expansions are performed.
    Heredoc,
}

/// Reads a whole text, start to end.
pub(super) fn read(text: &str, shell: ShellSyntax, kind: Kind, sink: &mut Sink) -> Walk<()> {
    let mut walker = Walker::new(text, shell, sink);
    if text.len() > MAX_TEXT {
        return walker.fail(UncertainReason::TooLong { limit: MAX_TEXT });
    }
    walker.charge(text.len())?;
    if text.contains('\0') {
        return walker.fail(UncertainReason::Syntax("a NUL byte"));
    }
    match kind {
        Kind::Top => walker.whole(),
        Kind::Script => {
            walker.nesting = 1;
            walker.nested(Walker::whole)
        }
        Kind::Heredoc => walker.nested(Walker::heredoc_body),
    }
}

impl<'t, 's> Walker<'t, 's> {
    pub(super) fn new(text: &'t str, shell: ShellSyntax, sink: &'s mut Sink) -> Self {
        Self { text, pos: 0, shell, pending: Vec::new(), nesting: 0, sink }
    }

    /// Stops this reading: what follows cannot be trusted.
    pub(super) fn fail<T>(&self, reason: UncertainReason) -> Walk<T> {
        Err(Uncertainty { reason, at: self.pos })
    }

    pub(super) fn syntax<T>(&self, what: &'static str) -> Walk<T> {
        self.fail(UncertainReason::Syntax(what))
    }

    /// Notes a doubt and goes on: the structure is clear, a value is not.
    pub(super) fn doubt(&mut self, reason: UncertainReason) {
        let at = self.pos;
        self.sink.note(Uncertainty { reason, at });
    }

    /// Counts work against the bound on all of it.
    fn charge(&mut self, work: usize) -> Walk<()> {
        self.sink.work += work;
        if self.sink.work > MAX_WORK {
            return self.fail(UncertainReason::TooLong { limit: MAX_TEXT });
        }
        Ok(())
    }

    /// Counts a command and its words.
    pub(super) fn charge_command(&mut self, command: &SimpleCommand) -> Walk<()> {
        if self.sink.commands.len() + self.sink.assignments.len() >= MAX_COMMANDS {
            return self.fail(UncertainReason::TooMany { limit: MAX_COMMANDS });
        }
        let words = command.args.len() + command.assignments.len();
        if words > MAX_COMMANDS {
            return self.fail(UncertainReason::TooMany { limit: MAX_COMMANDS });
        }
        self.charge(words * WORD_WORK)
    }

    /// Stops where the text is not POSIX and a POSIX shell reads it.
    pub(super) fn bash_only(&self, what: &'static str) -> Walk<()> {
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
        self.sink.path.iter().any(is_substitution)
    }

    /// Goes one level down, within the bound.
    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Walk<T>) -> Walk<T> {
        if self.sink.depth >= MAX_DEPTH {
            return self.fail(UncertainReason::TooDeep { limit: MAX_DEPTH });
        }
        self.sink.depth += 1;
        let result = inner(self);
        self.sink.depth -= 1;
        result
    }

    /// Goes into a construct whose commands may not run, or run in another process.
    pub(super) fn inside<T>(&mut self, inner: impl FnOnce(&mut Self) -> Walk<T>) -> Walk<T> {
        self.nesting += 1;
        let result = self.nested(inner);
        self.nesting -= 1;
        result
    }

    /// Goes into a construct that is named in the path of the commands inside.
    pub(super) fn via<T>(
        &mut self,
        via: CommandContext,
        inner: impl FnOnce(&mut Self) -> Walk<T>,
    ) -> Walk<T> {
        self.sink.path.push(via);
        let result = self.inside(inner);
        self.sink.path.pop();
        result
    }
}

impl Sink {
    /// Begins with variables that the caller sets.
    fn within(environment: &[Assignment]) -> Self {
        let mut sink = Self::default();
        for Assignment { name, value, .. } in environment {
            sink.scope.assign(name, value.clone());
            if is_code(name) {
                let reason = UncertainReason::Code("a variable that the shell evaluates");
                sink.note(Uncertainty { reason, at: 0 });
            }
        }
        sink
    }

    /// Keeps the first doubt.
    pub(super) fn note(&mut self, uncertain: Uncertainty) {
        self.uncertain.get_or_insert(uncertain);
    }

    fn finish(mut self) -> Extraction {
        if self.scope.reaches_code() {
            self.note(Uncertainty {
                reason: UncertainReason::Code("a value used in arithmetic"),
                at: 0,
            });
        }
        if self.scope.fills_array() {
            self.note(Uncertainty {
                reason: UncertainReason::Code("a value that becomes an array"),
                at: 0,
            });
        }
        if self.scope.may_connect() {
            self.note(Uncertainty { reason: UncertainReason::Connection, at: 0 });
        }
        if self.scope.is_broken() {
            self.note(Uncertainty {
                reason: UncertainReason::Dynamic("the value of a variable"),
                at: 0,
            });
        }
        if self.scope.functions_removed() {
            for command in &mut self.commands {
                if command.lookup == CommandLookup::Function {
                    command.lookup = CommandLookup::Shell;
                }
            }
        }
        self.assignments.extend(self.scope.set_in_arithmetic());
        Extraction {
            commands: self.commands,
            assignments: self.assignments,
            writes: Vec::new(),
            redirects: self.redirects,
            uncertain: self.uncertain,
        }
    }
}

// Taking down what was found, and following the programs that run others.

impl Walker<'_, '_> {
    /// Takes a command down, with everything that it would run in turn.
    pub(super) fn emit(&mut self, mut command: SimpleCommand) -> Walk<()> {
        self.charge_command(&command)?;
        let pending = self.pending.len() - heredocs(&command).min(self.pending.len());
        let first = self.sink.commands.len();
        command.path.clone_from(&self.sink.path);
        self.check_program(&mut command);
        command.args.iter_mut().for_each(|word| self.settle(word));
        command.args.iter().for_each(|word| self.sink.scope.note_word(&word.text));
        let effects = wrappers::effects(&command);
        self.sink.commands.push(command);
        for effect in effects {
            self.carry_out(effect, first)?;
        }
        let readers = first..self.sink.commands.len();
        self.feed(pending, &readers);
        Ok(())
    }

    fn check_program(&mut self, command: &mut SimpleCommand) {
        match command.program.value() {
            None => self.doubt(UncertainReason::Dynamic("the name of a command")),
            Some(text) if text.starts_with('~') => {
                self.doubt(UncertainReason::Dynamic("a command in somebody's home directory"));
            }
            // The path of a program to zsh, which is among the POSIX shells here.
            Some(text) if text.starts_with('=') => {
                self.doubt(UncertainReason::Dialect("a command that starts with `=`"));
            }
            Some(text) => {
                if command.lookup == CommandLookup::Shell && self.sink.scope.defines(text) {
                    command.lookup = CommandLookup::Function;
                }
            }
        }
    }

    /// Uses what the text says about a variable that is a whole word.
    fn settle(&mut self, word: &mut Word) {
        if word.plain {
            return self.sink.scope.rely_on_roots();
        }
        let Some(name) = word.variable.as_deref().filter(|name| is_name(name)) else { return };
        match self.sink.scope.settle(name) {
            Settled::Plain => word.plain = true,
            Settled::File => word.shape = Shape::Glob,
            Settled::Open => {}
        }
    }

    fn carry_out(&mut self, effect: Effect, of: usize) -> Walk<()> {
        let starter = self.sink.commands.get(of).and_then(SimpleCommand::name).unwrap_or_default();
        let starter = starter.to_owned();
        match effect {
            Effect::Runs(mut inner) => {
                if let Some(outer) = self.sink.commands.get(of) {
                    inner.redirects.clone_from(&outer.redirects);
                }
                self.via(CommandContext::Wrapper(starter), |walker| walker.emit(*inner))
            }
            Effect::Script { text, reader } => {
                let shell = match reader {
                    Reader::Same => self.shell,
                    Reader::Other(shell) => shell,
                };
                self.script(&text, shell, CommandContext::Script(starter))
            }
            Effect::Assigns { name, value, scope } => {
                self.assign_word(&name, value, scope);
                Ok(())
            }
            Effect::Evaluates(word) => {
                self.evaluate_word(&word);
                Ok(())
            }
            Effect::IsArray(name) => {
                self.sink.scope.note_array(&name);
                Ok(())
            }
            Effect::Declares(name) => {
                self.sink.scope.note_declared(&name);
                Ok(())
            }
            Effect::ReliesOnOneWord(names) => {
                self.sink.scope.rely_on_one_word(names);
                Ok(())
            }
            Effect::RemovesFunctions => {
                self.sink.scope.remove_functions();
                Ok(())
            }
            Effect::Unclear(reason) => {
                self.doubt(reason);
                Ok(())
            }
        }
    }

    /// A builtin sets `NAME` or `NAME[subscript]`.
    fn assign_word(&mut self, target: &str, value: AssignedValue, scope: AssignmentScope) {
        let (name, subscript) = target.split_once('[').unwrap_or((target, ""));
        if !subscript.is_empty() && !self.sink.scope.evaluate_text(subscript.trim_end_matches(']'))
        {
            self.doubt(UncertainReason::Code("a subscript"));
        }
        if !subscript.is_empty() {
            self.sink.scope.note_array(name);
        }
        self.check_assignment(name, &value);
        self.sink.scope.assign(name, value.clone());
        self.sink.assignments.push(Assignment { name: name.to_owned(), value, scope });
    }

    /// Reads text that is run as commands. A doubt inside it does not hide what stands outside.
    pub(super) fn script(
        &mut self,
        text: &str,
        shell: ShellSyntax,
        via: CommandContext,
    ) -> Walk<()> {
        // Another shell does not know this one's functions.
        let own = via == CommandContext::Backticks;
        let functions = if own { None } else { Some(self.sink.scope.hide_functions()) };
        self.sink.path.push(via);
        let result = read(text, shell, Kind::Script, self.sink);
        self.sink.path.pop();
        if let Some(functions) = functions {
            self.sink.scope.show_functions(functions);
        }
        if let Err(uncertain) = result {
            self.sink.note(uncertain);
        }
        Ok(())
    }
}

fn heredocs(command: &SimpleCommand) -> usize {
    command.redirects.iter().filter(|redirect| **redirect == Redirect::Heredoc).count()
}

// ApplicableRules, chains and pipelines.

/// What ends a list. Nothing here is taken: the construct around it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// The end of the text.
    End,
    /// A closing parenthesis.
    Paren,
    /// The end of a `case` clause.
    Clause,
    /// One of these reserved words.
    Keywords(&'static [&'static str]),
}

/// What an entry of a list was, as far as its surroundings care.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Nothing to remember.
    Plain,
    /// The definition of a function.
    Definition(String),
}

impl Walker<'_, '_> {
    /// Reads the whole text as a list.
    pub(super) fn whole(&mut self) -> Walk<()> {
        self.list(Until::End)?;
        if !self.pending.is_empty() {
            return self.syntax("a here-document without a body");
        }
        Ok(())
    }

    /// Reads a list up to its end and says how many entries it had.
    pub(super) fn list(&mut self, until: Until) -> Walk<usize> {
        let mut entries = 0;
        loop {
            self.skip_lines()?;
            if self.at_end(until) {
                return Ok(entries);
            }
            let entry = self.chain()?;
            entries += 1;
            self.skip_blanks();
            let background = self.separator(until)?;
            if let Entry::Definition(name) = entry
                && self.nesting == 0
                && background == Separator::Plain
            {
                self.sink.scope.define_function(name);
            }
        }
    }

    /// A list that must not be empty, and the reserved word after it.
    pub(super) fn list_then(&mut self, keyword: &'static [&'static str]) -> Walk<()> {
        if self.list(Until::Keywords(keyword))? == 0 {
            return self.syntax("an empty list of commands");
        }
        Ok(())
    }

    fn at_end(&mut self, until: Until) -> bool {
        match (until, self.peek()) {
            (Until::End, next) => next.is_none(),
            (Until::Paren, next) => next == Some(b')'),
            (Until::Clause, Some(b';')) => {
                matches!(self.peek_second(), Some(b';' | b'&'))
            }
            (Until::Clause, _) => matches!(self.keyword(), Some(("esac", _))),
            (Until::Keywords(words), _) => {
                self.keyword().is_some_and(|(found, _)| words.contains(&found))
            }
        }
    }

    fn separator(&mut self, until: Until) -> Walk<Separator> {
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
            _ => self.syntax("something after the end of a command"),
        }
    }

    /// Pipelines joined by `&&` and `||`.
    fn chain(&mut self) -> Walk<Entry> {
        let first = self.pipeline()?;
        let mut joined = false;
        loop {
            self.skip_blanks();
            if !self.eat_all("&&") && !self.eat_all("||") {
                return Ok(if joined { Entry::Plain } else { first });
            }
            joined = true;
            self.skip_lines()?;
            self.inside(Self::pipeline)?;
        }
    }

    /// Commands joined by `|`, with `time` and `!` before them.
    fn pipeline(&mut self) -> Walk<Entry> {
        let mut plain = self.prefixes()?;
        let first = self.command()?;
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'|') || self.peek_second() == Some(b'|') {
                break;
            }
            self.pos += 1;
            if self.eat(b'&') {
                self.bash_only("`|&`")?;
            }
            plain = false;
            self.skip_lines()?;
            self.inside(Self::command)?;
        }
        Ok(if plain { first } else { Entry::Plain })
    }

    /// Takes `time`, `time -p` and `!`; whether there was none.
    fn prefixes(&mut self) -> Walk<bool> {
        let mut plain = true;
        loop {
            self.skip_blanks();
            match self.keyword() {
                Some(("!", end)) => {
                    self.pos = end;
                    if self.peek() == Some(b'(') {
                        // With `extglob` on, this is the pattern of a command's name.
                        return self.syntax("`!(`");
                    }
                }
                Some(("time", end)) if self.shell == ShellSyntax::Bash => {
                    self.pos = end;
                    self.time_option();
                    self.check_timed()?;
                }
                Some(_) | None => return Ok(plain),
            }
            plain = false;
        }
    }

    /// In a substitution, bash 5.2 first takes `time` for the name of a program, and so finds the end
    /// of `$(time case x in y) a;; esac)` at the first `)`.
    fn check_timed(&mut self) -> Walk<()> {
        let is_compound = self.keyword().is_some() || self.peek() == Some(b'(');
        if is_compound && self.is_in_substitution() {
            return self.syntax("`time` before a compound command inside a substitution");
        }
        Ok(())
    }

    fn time_option(&mut self) {
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
