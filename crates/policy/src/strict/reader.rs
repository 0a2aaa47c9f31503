//! The cursor over a text, what is collected while it is read, and redirections.

use std::collections::BTreeSet;

use super::recognise::RawCommand;
use super::word::{Facts, RawWord, ValueFacts};
use super::words::Quotes;
use crate::command::{CommandContext, ShellSyntax, UncertainReason, Uncertainty};

/// The value, or the refusal of the construct that is not certain.
pub(super) type Proven<T> = Result<T, Uncertainty>;

/// The depth to which substitutions and compound commands may be nested.
const MAX_DEPTH: usize = 24;

/// The text, and what was collected from it so far.
#[derive(Debug)]
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
