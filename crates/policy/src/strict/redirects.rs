//! Redirections and here-documents.

use crate::strict::expansions::Quotes;
use crate::strict::reader::{Proven, ShellReader};
use crate::strict::recognise::RawCommand;
use crate::strict::word::RawWord;

/// A redirection as it stands in the text.
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
pub(super) struct Document {
    delimiter: String,
    /// Leading tabs are removed.
    is_indented: bool,
    /// The text is data: nothing in it is expanded.
    is_literal: bool,
}

impl ShellReader<'_> {
    /// Reads the redirections behind a compound command; `true` if there are any.
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
        let is_pipe = digits == 0 && (operator.starts_with("<(") || operator.starts_with(">("));
        if is_pipe || !(operator.starts_with(['<', '>']) || rest.starts_with("&>")) {
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
        self.documents.push(Document { delimiter, is_indented, is_literal });
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
            self.quoted_part(&mut ignored, Quotes::Document)?;
        }
        Ok(())
    }

    /// The length of a here-document's text.
    fn end_of_document(&self, document: &Document) -> Proven<usize> {
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
