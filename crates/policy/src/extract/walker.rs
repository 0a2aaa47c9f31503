//! The state of one reading, its bounds, and the way in.

use super::heredoc::Pending;
use super::scope::Scope;
use super::simple::is_code;
use crate::command::{
    Assignment, Extraction, Lookup, Reason, Redirect, Shell, SimpleCommand, Uncertain, Via, Word,
};

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

pub(super) type Walk<T> = Result<T, Uncertain>;

/// What all nested readings of one text share.
#[derive(Debug, Default)]
pub(super) struct Sink {
    pub(super) commands: Vec<SimpleCommand>,
    pub(super) assignments: Vec<Assignment>,
    pub(super) redirects: Vec<Redirect>,
    pub(super) scope: Scope,
    pub(super) path: Vec<Via>,
    pub(super) depth: usize,
    work: usize,
    uncertain: Option<Uncertain>,
}

/// One reading of one text.
#[derive(Debug)]
pub(super) struct Walker<'t, 's> {
    pub(super) text: &'t str,
    pub(super) pos: usize,
    pub(super) shell: Shell,
    pub(super) pending: Vec<Pending>,
    /// Zero while the next command is certainly run in the outermost shell, in order.
    pub(super) nesting: usize,
    pub(super) sink: &'s mut Sink,
}

/// Finds every command that `text` could run when `shell` reads it.
///
/// `environment` are the variables that the caller adds: their values can reach arithmetic.
#[must_use]
pub fn extract(text: &str, shell: Shell, environment: &[Assignment]) -> Extraction {
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
    let command = SimpleCommand::of(words.map(Word::literal).collect());
    if let Some(command) = command
        && let Err(uncertain) = Walker::new("", Shell::Bash, &mut sink).emit(command)
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
pub(super) fn read(text: &str, shell: Shell, kind: Kind, sink: &mut Sink) -> Walk<()> {
    let mut walker = Walker::new(text, shell, sink);
    if text.len() > MAX_TEXT {
        return walker.fail(Reason::TooLong { limit: MAX_TEXT });
    }
    walker.charge(text.len())?;
    if text.contains('\0') {
        return walker.fail(Reason::Syntax("a NUL byte"));
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
    pub(super) fn new(text: &'t str, shell: Shell, sink: &'s mut Sink) -> Self {
        Self { text, pos: 0, shell, pending: Vec::new(), nesting: 0, sink }
    }

    /// Stops this reading: what follows cannot be trusted.
    pub(super) fn fail<T>(&self, reason: Reason) -> Walk<T> {
        Err(Uncertain { reason, at: self.pos })
    }

    pub(super) fn syntax<T>(&self, what: &'static str) -> Walk<T> {
        self.fail(Reason::Syntax(what))
    }

    /// Notes a doubt and goes on: the structure is clear, a value is not.
    pub(super) fn doubt(&mut self, reason: Reason) {
        let at = self.pos;
        self.sink.note(Uncertain { reason, at });
    }

    /// Counts work against the bound on all of it.
    fn charge(&mut self, work: usize) -> Walk<()> {
        self.sink.work += work;
        if self.sink.work > MAX_WORK {
            return self.fail(Reason::TooLong { limit: MAX_TEXT });
        }
        Ok(())
    }

    /// Counts a command and its words.
    pub(super) fn charge_command(&mut self, command: &SimpleCommand) -> Walk<()> {
        if self.sink.commands.len() + self.sink.assignments.len() >= MAX_COMMANDS {
            return self.fail(Reason::TooMany { limit: MAX_COMMANDS });
        }
        let words = command.args.len() + command.assignments.len();
        if words > MAX_COMMANDS {
            return self.fail(Reason::TooMany { limit: MAX_COMMANDS });
        }
        self.charge(words * WORD_WORK)
    }

    /// Stops where the text is not POSIX and a POSIX shell reads it.
    pub(super) fn bash_only(&self, what: &'static str) -> Walk<()> {
        match self.shell {
            Shell::Bash => Ok(()),
            Shell::Posix => self.fail(Reason::Dialect(what)),
        }
    }

    /// `true` between the parentheses of `$(…)` or `<(…)`, at any depth.
    pub(super) fn is_in_substitution(&self) -> bool {
        let is_substitution =
            |via: &Via| matches!(via, Via::Substitution | Via::ProcessSubstitution);
        self.sink.path.iter().any(is_substitution)
    }

    /// Goes one level down, within the bound.
    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Walk<T>) -> Walk<T> {
        if self.sink.depth >= MAX_DEPTH {
            return self.fail(Reason::TooDeep { limit: MAX_DEPTH });
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
    pub(super) fn via<T>(&mut self, via: Via, inner: impl FnOnce(&mut Self) -> Walk<T>) -> Walk<T> {
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
                let reason = Reason::Code("a variable that the shell evaluates");
                sink.note(Uncertain { reason, at: 0 });
            }
        }
        sink
    }

    /// Keeps the first doubt.
    pub(super) fn note(&mut self, uncertain: Uncertain) {
        self.uncertain.get_or_insert(uncertain);
    }

    fn finish(mut self) -> Extraction {
        if self.scope.reaches_code() {
            self.note(Uncertain { reason: Reason::Code("a value used in arithmetic"), at: 0 });
        }
        if self.scope.fills_array() {
            self.note(Uncertain { reason: Reason::Code("a value that becomes an array"), at: 0 });
        }
        if self.scope.may_connect() {
            self.note(Uncertain { reason: Reason::Connection, at: 0 });
        }
        if self.scope.is_broken() {
            self.note(Uncertain { reason: Reason::Dynamic("the value of a variable"), at: 0 });
        }
        if self.scope.functions_removed() {
            for command in &mut self.commands {
                if command.lookup == Lookup::Function {
                    command.lookup = Lookup::Shell;
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
