//! Here-documents: their bodies start after the line on which they were announced.

use std::ops::Range;

use super::walker::{Kind, Walk, Walker, read};
use super::word::{Draft, Quotes};
use crate::command::Reason;
use crate::wrappers;

/// A here-document whose body is still to come.
#[derive(Debug)]
pub(super) struct Pending {
    delimiter: String,
    /// The delimiter was quoted: the body is plain data.
    quoted: bool,
    strip_tabs: bool,
    /// The commands that read it, by their place among all that were found.
    readers: Range<usize>,
}

impl Walker<'_, '_> {
    /// Takes the delimiter after `<<` or `<<-`.
    pub(super) fn announce(&mut self, strip_tabs: bool) -> Walk<()> {
        self.skip_blanks();
        let start = self.pos;
        let word = self.word()?;
        let source = self.since(start);
        let odd = source.contains(['$', '`', '\n', '\t', '(', '<', '>']) || word.text.is_empty();
        if odd || (word.quoted && word.value().is_none()) {
            return self.syntax("an odd delimiter of a here-document");
        }
        // Patterns and braces mean nothing in a delimiter: the text as written is the value.
        let delimiter = if word.value().is_some() { word.text } else { source.to_owned() };
        let quoted = word.quoted;
        self.pending.push(Pending { delimiter, quoted, strip_tabs, readers: 0..0 });
        Ok(())
    }

    /// The here-documents announced since `first` are read by these commands.
    pub(super) fn feed(&mut self, first: usize, readers: &Range<usize>) {
        for pending in self.pending.iter_mut().skip(first) {
            pending.readers = readers.clone();
        }
    }

    /// Takes a line end, and the here-documents that start after it.
    pub(super) fn end_line(&mut self) -> Walk<()> {
        self.pos += 1;
        for pending in std::mem::take(&mut self.pending) {
            let body = self.body(&pending)?;
            if !pending.quoted {
                read(&body, self.shell, Kind::Heredoc, self.sink)?;
            }
            self.pass_to_readers(&pending, &body)?;
        }
        Ok(())
    }

    fn body(&mut self, pending: &Pending) -> Walk<String> {
        let mut body = String::new();
        loop {
            if self.pos >= self.text.len() {
                return self.syntax("a here-document without its end");
            }
            let line = self.line(pending.quoted);
            let line = if pending.strip_tabs { line.trim_start_matches('\t') } else { &line };
            if line == pending.delimiter {
                return Ok(body);
            }
            body.push_str(line);
            body.push('\n');
        }
    }

    /// One line; in an unquoted here-document a backslash at its end joins the next one.
    fn line(&mut self, quoted: bool) -> String {
        let mut line = String::new();
        while let Some(next) = self.text.get(self.pos..).and_then(|rest| rest.chars().next()) {
            self.pos += next.len_utf8();
            match (next, self.raw(self.pos)) {
                ('\n', _) => break,
                ('\\', Some(b'\n')) if !quoted => self.pos += 1,
                ('\\', Some(b'\\')) if !quoted => {
                    line.push_str("\\\\");
                    self.pos += 1;
                }
                (other, _) => line.push(other),
            }
        }
        line
    }

    /// A shell that reads its commands from the here-document runs them.
    fn pass_to_readers(&mut self, pending: &Pending, body: &str) -> Walk<()> {
        let plain = pending.quoted || !body.contains(['$', '`', '\\']);
        for index in pending.readers.clone() {
            let Some(command) = self.sink.commands.get(index) else { continue };
            if wrappers::runs_shell_for(command, body) {
                self.doubt(Reason::Code("a here-document"));
                continue;
            }
            let Some((shell, via)) = wrappers::reads_commands(command) else { continue };
            if plain {
                self.script(body, shell, via)?;
            } else {
                self.doubt(Reason::Dynamic("a here-document that a shell runs"));
            }
        }
        Ok(())
    }

    /// Reads the expansions in a body.
    pub(super) fn heredoc_body(&mut self) -> Walk<()> {
        let mut draft = Draft::default();
        while let Some(byte) = self.peek() {
            self.quoted_byte(&mut draft, byte, Quotes::Heredoc)?;
        }
        Ok(())
    }
}
