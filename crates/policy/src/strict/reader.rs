//! The cursor over a text, and what is collected while it is read.

use std::collections::BTreeSet;

use crate::command::{Reason, Shell, Uncertain, Via};
use crate::strict::facts::{Facts, ValueFacts};
use crate::strict::recognise::RawCommand;
use crate::strict::redirects::Document;
use crate::strict::word::RawWord;

/// A refusal, or the value.
pub(super) type Proven<T> = Result<T, Uncertain>;

/// The depth to which substitutions and compound commands may be nested.
const MAX_DEPTH: usize = 24;

/// The text, and what was collected from it so far.
#[derive(Debug)]
pub(super) struct ShellReader<'t> {
    text: &'t str,
    pub(super) pos: usize,
    end: usize,
    pub(super) shell: Shell,
    depth: usize,
    /// Assignments, from everywhere in the text.
    pub(super) facts: Facts,
    /// Names that arithmetic reads, checked once all assignments are known.
    pub(super) arithmetic: Vec<String>,
    /// Variables that certainly have a value from the text at this point.
    pub(super) set: BTreeSet<String>,
    /// An arithmetic expansion was read. If it fails, bash drops the rest of its line, so no later
    /// assignment is certain to happen.
    pub(super) may_break_off: bool,
    /// Names that arithmetic may assign to.
    pub(super) counted: Vec<String>,
    /// Names that the text assigns to, each with its value where that is known.
    pub(super) assigned: Vec<(String, Option<String>)>,
    /// The number of commands and conditions that were read.
    pub(super) steps: usize,
    /// The simple commands, in the order in which they stand.
    pub(super) commands: Vec<RawCommand>,
    /// The substitutions around the next command, outermost first.
    pub(super) path: Vec<Via>,
    /// Here-documents whose text starts after this line.
    pub(super) documents: Vec<Document>,
    /// Inside backticks, where the next one ends the commands.
    pub(super) in_backticks: bool,
}

impl<'t> ShellReader<'t> {
    pub(super) fn new(text: &'t str, shell: Shell, facts: Facts) -> Self {
        Self {
            text,
            pos: 0,
            end: text.len(),
            shell,
            depth: 0,
            facts,
            arithmetic: Vec::new(),
            set: BTreeSet::new(),
            may_break_off: false,
            counted: Vec::new(),
            assigned: Vec::new(),
            steps: 0,
            commands: Vec::new(),
            path: Vec::new(),
            documents: Vec::new(),
            in_backticks: false,
        }
    }

    // The cursor.

    pub(super) fn rest(&self) -> &'t str {
        self.text.get(self.pos..self.end).unwrap_or_default()
    }

    /// Reads as if the text ended after `length` more bytes.
    pub(super) fn within<T>(
        &mut self,
        length: usize,
        read: impl FnOnce(&mut Self) -> Proven<T>,
    ) -> Proven<T> {
        let end = std::mem::replace(&mut self.end, self.pos + length);
        let result = read(self);
        self.end = end;
        result
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn starts_with(&self, text: &str) -> bool {
        self.rest().starts_with(text)
    }

    /// Takes this text if it is next.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let found = self.starts_with(text);
        if found {
            self.pos += text.len();
        }
        found
    }

    pub(super) fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        self.pos += length;
        rest.get(..length).unwrap_or_default()
    }

    pub(super) fn since(&self, start: usize) -> &'t str {
        self.text.get(start..self.pos).unwrap_or_default()
    }

    /// Refuses a construct by name.
    pub(super) fn refuse<T>(&self, construct: impl Into<String>) -> Proven<T> {
        let reason = Reason::Unproven { construct: construct.into() };
        Err(Uncertain { reason, at: self.pos })
    }

    /// Refuses a construct that POSIX shells read differently from bash.
    pub(super) fn bash_only(&self, construct: &'static str) -> Proven<()> {
        match self.shell {
            Shell::Bash => Ok(()),
            Shell::Posix => Err(Uncertain { reason: Reason::Dialect(construct), at: self.pos }),
        }
    }

    /// Reads something that lies in something else; its depth is bounded.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Proven<T>) -> Proven<T> {
        if self.depth == MAX_DEPTH {
            let reason = Reason::TooDeep { limit: MAX_DEPTH };
            return Err(Uncertain { reason, at: self.pos });
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Skips blanks between words. A continued line counts only behind a blank: elsewhere it would
    /// join what stands on both sides to one word or one operator.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            let blanks = self.take_while(|c| matches!(c, ' ' | '\t'));
            if blanks.is_empty() || !self.take("\\\n") {
                return;
            }
        }
    }

    /// Notes that the text assigns to a variable.
    pub(super) fn assign(&mut self, name: &str, value: &RawWord) {
        self.facts.assign(name, value.value());
        self.assigned.push((name.to_owned(), value.literal().map(str::to_owned)));
    }

    /// Notes that a variable has a value from here on.
    pub(super) fn mark_set(&mut self, name: &str) {
        if !self.may_break_off {
            self.set.insert(name.to_owned());
        }
    }

    /// Reads commands that may not run, or run in a process of their own: what they assign is not
    /// certain afterwards.
    pub(super) fn apart<T>(&mut self, read: impl FnOnce(&mut Self) -> Proven<T>) -> Proven<T> {
        let set = self.set.clone();
        let result = read(self);
        self.set = set;
        result
    }

    /// Notes that a variable gets a value that is not known.
    pub(super) fn assign_unknown(&mut self, name: &str) {
        self.facts.assign(name, ValueFacts::UNKNOWN);
        self.assigned.push((name.to_owned(), None));
    }
}

/// `true` for the first character of a name.
pub(super) const fn starts_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// `true` for the further characters of a name.
pub(super) const fn is_in_name(c: char) -> bool {
    starts_name(c) || c.is_ascii_digit()
}

/// `true` for the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(starts_name) && text.chars().all(is_in_name)
}

/// `true` for characters that end a word.
pub(super) const fn ends_word(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')
}
