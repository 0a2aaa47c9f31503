//! The cursor over a text, what is collected while it is read, and redirections; words as they stand in
//! the text, and what they become once all assignments are known: the facts about the values of
//! variables.

use std::collections::{BTreeMap, BTreeSet};

use super::recognise::RawCommand;
use super::words::Quotes;
use crate::command::{CommandContext, Shape, ShellSyntax, UncertainReason, Uncertainty, Word};

/// The value, or the refusal of the construct that is not certain.
pub(super) type Proven<T> = Result<T, Uncertainty>;

/// The depth to which substitutions and compound commands may be nested.
const MAX_DEPTH: usize = 24;

/// The text, and what was collected from it so far.
#[derive(Debug, Default)]
pub(super) struct ShellReader<'t> {
    text: &'t str,
    pub(super) pos: usize,
    end: usize,
    pub(super) shell: ShellSyntax,
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
    /// The numbers of compound commands and of here-documents that were read.
    pub(super) compounds: usize,
    pub(super) heredocs: usize,
    /// The simple commands, in the order of the text.
    pub(super) commands: Vec<RawCommand>,
    /// The substitutions around the next command, outermost first.
    pub(super) path: Vec<CommandContext>,
    /// Here-documents whose text starts after this line.
    pub(super) documents: Vec<StrictHeredoc>,
    /// Inside backticks, where the next one ends the commands.
    pub(super) in_backticks: bool,
}

impl<'t> ShellReader<'t> {
    pub(super) fn new(text: &'t str, shell: ShellSyntax, facts: Facts) -> Self {
        Self { text, end: text.len(), shell, facts, ..Self::default() }
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
        let reason = UncertainReason::Unproven { construct: construct.into() };
        Err(Uncertainty { reason, at: self.pos })
    }

    /// Refuses a construct that POSIX shells read differently from bash.
    pub(super) fn bash_only(&self, construct: &'static str) -> Proven<()> {
        match self.shell {
            ShellSyntax::Bash => Ok(()),
            ShellSyntax::Posix => {
                Err(Uncertainty { reason: UncertainReason::Dialect(construct), at: self.pos })
            }
        }
    }

    /// Reads a nested construct; refuses it beyond `MAX_DEPTH`.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Proven<T>) -> Proven<T> {
        if self.depth == MAX_DEPTH {
            let reason = UncertainReason::TooDeep { limit: MAX_DEPTH };
            return Err(Uncertainty { reason, at: self.pos });
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Skips blanks between words. A continued line counts only after a blank: elsewhere it would
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

// Redirections and here-documents.

/// A redirection as written in the text.
#[derive(Debug, Clone)]
pub(super) enum RawRedirect {
    /// Opens a file for reading.
    Read(RawWord),
    /// Opens a file for writing.
    Write(RawWord),
    /// Copies or closes a descriptor.
    Duplicate,
    /// Feeds text to the command.
    Feed,
}

/// A here-document whose text starts after the current line.
#[derive(Debug, Clone)]
pub(super) struct StrictHeredoc {
    delimiter: String,
    /// Leading tabs are removed.
    is_indented: bool,
    /// The text is data: nothing in it is expanded.
    is_literal: bool,
}

impl ShellReader<'_> {
    /// Reads the redirections after a compound command; `true` if there are any.
    pub(super) fn redirects_of_compound(&mut self) -> Proven<bool> {
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks();
            if !self.redirect(&mut redirects)? {
                break;
            }
        }
        let are_any = !redirects.is_empty();
        if are_any {
            let path = self.path.clone();
            self.commands.push(RawCommand { redirects, path, ..RawCommand::default() });
        }
        Ok(are_any)
    }

    /// Reads a redirection if there is one: a file is opened, nothing runs.
    pub(super) fn redirect(&mut self, redirects: &mut Vec<RawRedirect>) -> Proven<bool> {
        let rest = self.rest();
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let operator = rest.get(digits..).unwrap_or_default();
        if digits > 1 && operator.starts_with(['<', '>']) {
            return self.refuse("a descriptor beyond 9");
        }
        let is_process_substitution =
            digits == 0 && (operator.starts_with("<(") || operator.starts_with(">("));
        if is_process_substitution || !(operator.starts_with(['<', '>']) || rest.starts_with("&>"))
        {
            return Ok(false);
        }
        self.pos += digits;
        let operators = ["&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">"];
        let operator = operators.into_iter().find(|operator| self.take(operator));
        self.skip_blanks();
        let redirect = match operator {
            Some("<") => RawRedirect::Read(self.word()?),
            Some(">" | ">>" | ">|") => RawRedirect::Write(self.word()?),
            Some("&>" | "&>>") => {
                self.bash_only("`&>`")?;
                RawRedirect::Write(self.word()?)
            }
            Some("<<<") => {
                self.bash_only("`<<<`")?;
                self.word()?;
                RawRedirect::Feed
            }
            Some("<<" | "<<-") => {
                self.document(operator == Some("<<-"))?;
                RawRedirect::Feed
            }
            Some("<&" | ">&") => {
                let target = self.next_word().to_owned();
                if !matches!(target.as_bytes(), [b'0'..=b'9' | b'-']) {
                    return self.refuse("this copy of a descriptor");
                }
                self.pos += 1;
                RawRedirect::Duplicate
            }
            Some(_) | None => return self.refuse("a file opened for reading and writing"),
        };
        redirects.push(redirect);
        Ok(true)
    }

    /// `<<WORD`: the word is plain, or wholly quoted.
    fn document(&mut self, is_indented: bool) -> Proven<()> {
        let word = self.word()?;
        let Some(delimiter) = word.literal() else {
            return self.refuse("this delimiter of a here-document");
        };
        let is_plain = !delimiter.is_empty()
            && delimiter.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let is_whole = word.source == delimiter
            || word.source == format!("\\{delimiter}")
            || word.source == format!("'{delimiter}'")
            || word.source == format!("\"{delimiter}\"");
        if !is_plain || !is_whole {
            return self.refuse("this delimiter of a here-document");
        }
        let is_literal = word.quoted;
        let delimiter = delimiter.to_owned();
        self.heredocs += 1;
        self.documents.push(StrictHeredoc { delimiter, is_indented, is_literal });
        Ok(())
    }

    /// Reads the here-documents of the line that just ended. In one with an unquoted delimiter,
    /// substitutions are read like everywhere else.
    pub(super) fn read_documents(&mut self) -> Proven<()> {
        for document in std::mem::take(&mut self.documents) {
            let length = self.end_of_document(&document)?;
            if document.is_literal {
                self.pos += length;
            } else {
                self.within(length, Self::expanded_document)?;
            }
            // The line of the delimiter.
            let rest = self.rest();
            self.pos += rest.find('\n').unwrap_or(rest.len());
            self.take("\n");
        }
        Ok(())
    }

    /// The text of a here-document in which expansions are made.
    fn expanded_document(&mut self) -> Proven<()> {
        if self.rest().contains("\\\n") {
            return self.refuse("a continued line in a here-document");
        }
        let mut ignored = RawWord::default();
        while self.peek().is_some() {
            self.quoted_part(&mut ignored, Quotes::StrictHeredoc)?;
        }
        Ok(())
    }

    /// The length of a here-document's text.
    fn end_of_document(&self, document: &StrictHeredoc) -> Proven<usize> {
        let mut length = 0;
        for line in self.rest().split_inclusive('\n') {
            let text = line.trim_end_matches('\n');
            let text = if document.is_indented { text.trim_start_matches('\t') } else { text };
            if text == document.delimiter {
                return Ok(length);
            }
            // In a substitution bash ends the text at such a line, too.
            if text.starts_with(&document.delimiter) {
                return self.refuse("a line of a here-document that begins like its delimiter");
            }
            length += line.len();
        }
        self.refuse("a here-document without an end")
    }
}

/// A literal or an expansion in a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WordPart {
    /// Characters that stand for themselves.
    Text(String),
    /// The value of a variable.
    Variable {
        name: String,
        /// Inside double quotes: the value stays one word.
        quoted: bool,
        /// The text has certainly given it a value before.
        is_set: bool,
    },
    /// Text that is known only when it runs: a command's output, a cut value.
    Unknown {
        /// Inside double quotes: the text stays one word.
        quoted: bool,
    },
    /// A number without a sign, such as `$?` or `${#x}`.
    Count,
    /// The value of an arithmetic expression, which may be negative.
    Integer,
    /// The unquoted output of `seq`: words that are numbers.
    Sequence,
    /// The home directory: an absolute path, which the shell does not split.
    Home,
    /// An unquoted `*`, `?` or `[`, with which the word becomes names of files.
    Wildcard(char),
    /// The path of a pipe to a process substitution.
    Pipe,
}

/// A word before its variables are known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RawWord {
    pub(super) parts: Vec<WordPart>,
    /// The word's text as written.
    pub(super) source: String,
    /// `true` if a part of the word was quoted or escaped: it is not a reserved word or operator.
    pub(super) quoted: bool,
}

impl RawWord {
    pub(super) fn push_text(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(WordPart::Text(before)) => before.push_str(text),
            _ => self.parts.push(WordPart::Text(text.to_owned())),
        }
    }

    /// The value, where the word is nothing but text.
    pub(super) fn literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [WordPart::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The value of a word without quotes: a reserved word, a name, a delimiter.
    pub(super) fn bare(&self) -> Option<&str> {
        self.literal().filter(|_| !self.quoted)
    }

    /// `true` if the shell may make several words, or none, of this one, files aside.
    pub(super) fn may_split(&self, facts: &Facts) -> bool {
        self.parts.iter().any(|part| match part {
            WordPart::Variable { name, quoted, is_set } => {
                !(*quoted || *is_set && facts.value(name).is_atom)
            }
            WordPart::Unknown { quoted } => !quoted,
            WordPart::Sequence => true,
            WordPart::Text(_)
            | WordPart::Count
            | WordPart::Integer
            | WordPart::Home
            | WordPart::Wildcard(_)
            | WordPart::Pipe => false,
        })
    }

    /// The text before the first part that is not known.
    pub(super) fn prefix(&self) -> &str {
        match self.parts.first() {
            Some(WordPart::Text(text)) => text,
            _ => "",
        }
    }

    /// Returns the facts about a variable with this value.
    pub(super) fn value(&self) -> ValueFacts {
        if let Some(text) = self.literal() {
            return ValueFacts::of_text(text);
        }
        match self.parts.as_slice() {
            [WordPart::Count] => ValueFacts::COUNT,
            [WordPart::Integer] => ValueFacts::INTEGER,
            _ => {
                let prefix = self.prefix();
                let is_never_option = !prefix.is_empty() && !prefix.starts_with('-');
                ValueFacts { is_never_option, ..ValueFacts::UNKNOWN }
            }
        }
    }

    /// The word that a command gets, given what is known about all variables.
    pub(super) fn resolve(&self, facts: &Facts) -> Word {
        if let Some(text) = self.literal() {
            return Word { quoted: self.quoted, ..Word::literal(text) };
        }
        let is_pattern = |part: &WordPart| matches!(part, WordPart::Wildcard(_));
        let shape = if self.may_split(facts) {
            Shape::Many
        } else if self.parts.iter().any(is_pattern) {
            Shape::Glob
        } else if self.parts == [WordPart::Pipe] {
            Shape::Process
        } else {
            Shape::One
        };
        let is_absolute = match self.parts.first() {
            Some(WordPart::Home) => true,
            Some(WordPart::Variable { name, .. }) => facts.is_absolute(name),
            _ => false,
        };
        let plain = shape != Shape::Many
            && match self.parts.first() {
                Some(WordPart::Variable { name, is_set, .. }) => {
                    is_absolute || (*is_set && facts.value(name).is_never_option)
                }
                Some(WordPart::Count | WordPart::Home | WordPart::Pipe) => true,
                Some(WordPart::Text(text)) => !text.is_empty() && !text.starts_with('-'),
                Some(
                    WordPart::Unknown { .. }
                    | WordPart::Integer
                    | WordPart::Sequence
                    | WordPart::Wildcard(_),
                )
                | None => false,
            };
        let variable = match self.parts.as_slice() {
            [WordPart::Variable { name, .. }] => Some(name.clone()),
            _ => None,
        };
        let text = match shape {
            Shape::Many => "",
            Shape::Literal | Shape::One | Shape::Glob | Shape::Process if is_absolute => "/",
            Shape::Literal | Shape::One | Shape::Glob | Shape::Process => self.prefix(),
        };
        Word {
            text: text.to_owned(),
            shape,
            variable,
            quoted: self.quoted,
            plain,
            source: self.source.clone(),
        }
    }
}

// Facts about the values of variables, wherever in the text they are used.
//
// Assignments are collected from the whole text, in no order: a fact holds for a variable only if
// it holds for every value that the text or the caller gives it, in whichever branch or loop.

/// The facts about one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValueFacts {
    /// Not empty, and without a leading dash.
    is_never_option: bool,
    /// Not empty, without blanks and wildcards: one word, also without quotes.
    is_atom: bool,
    /// Nothing but digits, perhaps with a sign: arithmetic evaluates nothing in it.
    pub(super) is_number: bool,
}

impl ValueFacts {
    pub(super) const UNKNOWN: Self =
        Self { is_never_option: false, is_atom: false, is_number: false };
    pub(super) const COUNT: Self = Self { is_never_option: true, is_atom: true, is_number: true };
    const INTEGER: Self = Self { is_never_option: false, ..Self::COUNT };

    pub(super) fn of_text(text: &str) -> Self {
        let first = text.chars().next();
        let is_special = |c: char| c.is_whitespace() || matches!(c, '*' | '?' | '[' | '\\');
        Self {
            is_never_option: first.is_some_and(|c| c != '-'),
            is_atom: first.is_some() && !text.contains(is_special),
            is_number: first.is_some() && text.bytes().all(|byte| byte.is_ascii_digit()),
        }
    }

    const fn and(self, other: Self) -> Self {
        Self {
            is_never_option: self.is_never_option && other.is_never_option,
            is_atom: self.is_atom && other.is_atom,
            is_number: self.is_number && other.is_number,
        }
    }
}

/// The variables that get a value.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts(BTreeMap<String, ValueFacts>);

impl Facts {
    pub(super) fn assign(&mut self, name: &str, value: ValueFacts) {
        let known = self.0.entry(name.to_owned()).or_insert(value);
        *known = known.and(value);
    }

    /// Notes that arithmetic may change a variable. One that gets no other value stays unknown: it
    /// may only have been read.
    pub(super) fn count(&mut self, name: &str) {
        if let Some(known) = self.0.get_mut(name) {
            *known = known.and(ValueFacts::INTEGER);
        }
    }

    /// Returns the facts about a variable. There are none about one of the server's environment.
    pub(super) fn value(&self, name: &str) -> ValueFacts {
        self.0.get(name).copied().unwrap_or(ValueFacts::UNKNOWN)
    }

    /// `true` for the home and the working directory, unless something sets them: their values
    /// begin with a slash.
    pub(super) fn is_absolute(&self, name: &str) -> bool {
        (name == "HOME" || name == "PWD") && !self.0.contains_key(name)
    }

    /// `true` if arithmetic may read the variable: neither the text nor the caller gives it
    /// anything but numbers. A value that it has from the server's environment is the operator's.
    pub(super) fn is_arithmetic(&self, name: &str) -> bool {
        self.0.get(name).is_none_or(|value| value.is_number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_holds_only_if_it_holds_for_every_value() {
        let mut facts = Facts::default();
        facts.assign("x", ValueFacts::of_text("1"));
        assert!(facts.value("x").is_atom && facts.is_arithmetic("x"));
        facts.assign("x", ValueFacts::of_text("a b"));
        assert!(!facts.value("x").is_atom && facts.value("x").is_never_option);
        assert!(!facts.is_arithmetic("x") && facts.is_arithmetic("y"));
        assert_eq!(facts.value("y"), ValueFacts::UNKNOWN);
    }

    #[test]
    fn a_text_is_judged_by_its_characters() {
        for (text, expected) in [
            ("a", [true, true, false]),
            ("", [false; 3]),
            ("-a", [false, true, false]),
            ("/a", [true, true, false]),
            ("a b", [true, false, false]),
            ("*", [true, false, false]),
            ("12", [true; 3]),
            ("a[$(x)]", [true, false, false]),
        ] {
            let value = ValueFacts::of_text(text);
            let found = [value.is_never_option, value.is_atom, value.is_number];
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
