//! Words: quoting, patterns and braces, up to a byte that ends the word; and here-documents.

use std::ops::Range;

use super::text_reader::{
    ListEnd, PendingHeredoc, ReadResult, TextKind, TextReader, ends_word, read,
};
use crate::command::{CommandContext, Shape, UncertainReason, Word};
use crate::wrappers;

/// A word while it is read.
#[derive(Debug, Default)]
pub(super) struct WordDraft {
    text: String,
    /// `true` once an unknown part was read: `text` no longer grows.
    is_text_complete: bool,
    shape: Option<Shape>,
    quoted: bool,
    /// `true` if the word starts with a variable that always contains an absolute path.
    is_absolute_path: bool,
    parts: usize,
    variable: Option<String>,
    /// The length of the text before an open bracket.
    bracket: Option<usize>,
    braces: Braces,
}

/// The quotes around a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuoteContext {
    /// No quotes: the shell splits the results of expansions and matches file names.
    None,
    Double,
    /// The body of a here-document: like double quotes, but quotes are plain text.
    Heredoc,
}

impl WordDraft {
    pub(super) fn push(&mut self, text: &str) {
        self.parts += 1;
        if !self.is_text_complete {
            self.text.push_str(text);
        }
    }

    fn push_quoted(&mut self, text: &str) {
        self.quoted = true;
        self.push(text);
    }

    pub(super) fn push_variable(&mut self, quotes: QuoteContext, name: &str) {
        if self.parts == 0 {
            self.variable = Some(name.to_owned());
            self.is_absolute_path = quotes != QuoteContext::None && matches!(name, "HOME" | "PWD");
        }
        let splits = quotes == QuoteContext::None || name == "@";
        self.push_unknown(if splits { Shape::Many } else { Shape::One });
    }

    /// Adds a part of unknown value.
    pub(super) fn push_unknown(&mut self, shape: Shape) {
        self.parts += 1;
        self.is_text_complete = true;
        self.shape = Some(match (self.shape, shape) {
            (None, shape) => shape,
            (Some(Shape::Many), _) | (_, Shape::Many) => Shape::Many,
            (Some(Shape::Glob), _) | (_, Shape::Glob) => Shape::Glob,
            (Some(_), Shape::One | Shape::Process | Shape::Literal) => Shape::One,
        });
    }

    /// Forgets the text after `length` and adds a part of unknown value.
    fn truncate(&mut self, length: usize, shape: Shape) {
        if !self.is_text_complete {
            self.text.truncate(length);
        }
        self.push_unknown(shape);
    }

    pub(super) fn finish(self, source: &str) -> Word {
        let shape = match self.shape {
            None => Shape::Literal,
            Some(Shape::Process) if self.parts > 1 => Shape::One,
            Some(shape) => shape,
        };
        let variable = self.variable.filter(|_| self.parts == 1);
        let source = if shape == Shape::Literal { String::new() } else { source.to_owned() };
        Word {
            text: self.text,
            shape,
            variable,
            quoted: self.quoted,
            plain: self.is_absolute_path,
            source,
        }
    }
}

impl<'t> TextReader<'t, '_> {
    /// Reads a word; fails if there is none.
    pub(super) fn read_word(&mut self) -> ReadResult<Word> {
        self.peek();
        let start = self.pos;
        let word = self.read_optional_word()?;
        if self.pos == start {
            return self.fail_syntax("a missing word");
        }
        Ok(word)
    }

    /// Reads a word, which is empty if the next byte ends a word.
    pub(super) fn read_optional_word(&mut self) -> ReadResult<Word> {
        self.peek();
        let start = self.pos;
        let mut draft = WordDraft::default();
        if self.byte_at(start) == Some(b'~') {
            self.state.symbols.assume_path_variables();
        }
        while let Some(byte) = self.peek() {
            if ends_word(byte) && !self.read_process_substitution(&mut draft)? {
                break;
            }
            if !ends_word(byte) {
                self.read_word_piece(&mut draft, byte)?;
            }
        }
        Ok(draft.finish(self.text_since(start)))
    }

    /// Reads one piece of a word outside of quotes, at a byte that does not end the word.
    pub(super) fn read_word_piece(&mut self, draft: &mut WordDraft, byte: u8) -> ReadResult<()> {
        match byte {
            b'\\' => self.read_escaped(draft),
            b'\'' => self.read_single_quoted(draft),
            b'"' => {
                self.pos += 1;
                self.read_double_quoted(draft)
            }
            b'$' => self.read_dollar(draft, QuoteContext::None),
            b'`' => self.read_backticks(draft, QuoteContext::None),
            _ => {
                self.read_plain_text(draft, byte);
                Ok(())
            }
        }
    }

    fn read_plain_text(&mut self, draft: &mut WordDraft, byte: u8) {
        let start = self.pos;
        match byte {
            b'*' | b'?' => draft.push_unknown(Shape::Glob),
            b'[' => {
                draft.bracket.get_or_insert(draft.text.len());
            }
            b']' => {
                if let Some(length) = draft.bracket {
                    draft.truncate(length, Shape::Glob);
                }
            }
            b'{' => draft.braces.open(draft.text.len()),
            b'}' => {
                if let Some(length) = draft.braces.close() {
                    draft.truncate(length, Shape::Many);
                }
            }
            b',' => draft.braces.note_separator(),
            b'.' if self.byte_at(self.skip_continuations(start + 1)) == Some(b'.') => {
                draft.braces.note_separator();
            }
            _ => {}
        }
        self.pos += 1;
        while self.byte_at(self.pos).is_some_and(is_ordinary) {
            self.pos += 1;
        }
        draft.push(self.text_since(start));
    }

    fn read_escaped(&mut self, draft: &mut WordDraft) -> ReadResult<()> {
        draft.quoted = true;
        self.pos += 1;
        let start = self.pos;
        let Some(next) = self.text.get(start..).and_then(|rest| rest.chars().next()) else {
            return self.fail_syntax("a backslash at the end");
        };
        self.pos += next.len_utf8();
        draft.push(self.text_since(start));
        Ok(())
    }

    fn read_single_quoted(&mut self, draft: &mut WordDraft) -> ReadResult<()> {
        draft.quoted = true;
        let start = self.pos + 1;
        let rest = self.text.get(start..).unwrap_or_default();
        let Some(length) = rest.find('\'') else {
            return self.fail_syntax("a quote without its end");
        };
        self.pos = start + length + 1;
        draft.push(rest.get(..length).unwrap_or_default());
        Ok(())
    }

    /// Reads the rest of a double-quoted string, including the closing quote.
    pub(super) fn read_double_quoted(&mut self, draft: &mut WordDraft) -> ReadResult<()> {
        draft.quoted = true;
        loop {
            match self.peek() {
                None => return self.fail_syntax("a quote without its end"),
                Some(b'"') => {
                    self.pos += 1;
                    return Ok(());
                }
                Some(byte) => self.read_quoted_piece(draft, byte, QuoteContext::Double)?,
            }
        }
    }

    /// Reads one piece of text inside double quotes or in a here-document.
    pub(super) fn read_quoted_piece(
        &mut self,
        draft: &mut WordDraft,
        byte: u8,
        quotes: QuoteContext,
    ) -> ReadResult<()> {
        match byte {
            b'$' => self.read_dollar(draft, quotes),
            b'`' => self.read_backticks(draft, quotes),
            b'\\' => {
                let escapes =
                    matches!(self.byte_at(self.pos + 1), Some(b'$' | b'`' | b'"' | b'\\'));
                self.pos += usize::from(escapes);
                let start = self.pos;
                self.pos += 1;
                draft.push(self.text_since(start));
                Ok(())
            }
            _ => {
                let start = self.pos;
                self.pos += 1;
                while self.byte_at(self.pos).is_some_and(is_ordinary_in_quotes) {
                    self.pos += 1;
                }
                draft.push(self.text_since(start));
                Ok(())
            }
        }
    }

    /// Reads `<( )` or `>( )` inside a word. Returns `false` if there is none.
    fn read_process_substitution(&mut self, draft: &mut WordDraft) -> ReadResult<bool> {
        if !matches!(self.peek(), Some(b'<' | b'>')) || self.peek_second() != Some(b'(') {
            return Ok(false);
        }
        self.require_bash("process substitution")?;
        self.peek();
        self.pos += 1;
        self.eat(b'(');
        self.in_context(CommandContext::ProcessSubstitution, Self::read_commands_in_parens)?;
        draft.push_unknown(Shape::Process);
        Ok(true)
    }

    /// Reads the text between backticks: it is unescaped once, then read as commands.
    fn read_backticks(&mut self, draft: &mut WordDraft, quotes: QuoteContext) -> ReadResult<()> {
        self.pos += 1;
        let mut code = String::new();
        loop {
            let Some(next) = self.text.get(self.pos..).and_then(|rest| rest.chars().next()) else {
                return self.fail_syntax("a backtick without its end");
            };
            self.pos += next.len_utf8();
            match (next, self.byte_at(self.pos)) {
                ('`', _) => break,
                ('\\', Some(escaped @ (b'$' | b'`' | b'\\'))) => {
                    code.push(char::from(escaped));
                    self.pos += 1;
                }
                ('\\', Some(b'"')) if quotes == QuoteContext::Double => {
                    code.push('"');
                    self.pos += 1;
                }
                (other, _) => code.push(other),
            }
        }
        self.read_script(&code, self.shell, CommandContext::Backticks)?;
        draft.push_unknown(if quotes == QuoteContext::None { Shape::Many } else { Shape::One });
        Ok(())
    }

    /// Reads the commands up to and including the closing parenthesis.
    pub(super) fn read_commands_in_parens(&mut self) -> ReadResult<()> {
        let outer = std::mem::take(&mut self.pending_heredocs);
        let start = self.pos;
        let (compounds, heredocs) = (self.state.compounds, self.state.heredocs);
        self.read_list(ListEnd::Paren)?;
        // Bash 5.2 may end such a substitution at an earlier `)`, in the body of the here-document.
        if self.state.compounds > compounds && self.state.heredocs > heredocs {
            return self.fail_syntax("a here-document and a compound command in one substitution");
        }
        if !self.pending_heredocs.is_empty() {
            return self.fail_syntax("a here-document without a body");
        }
        self.expect(b')', "a substitution without `)`")?;
        if !outer.is_empty() && self.text_since(start).contains('\n') {
            return self
                .fail(UncertainReason::Syntax("lines of a substitution before a here-document"));
        }
        self.pending_heredocs = outer;
        Ok(())
    }
}

/// `true` if a byte has no special meaning anywhere in an unquoted word.
const fn is_ordinary(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || matches!(byte, b'_' | b'-' | b'/' | b':' | b'=')
}

const fn is_ordinary_in_quotes(byte: u8) -> bool {
    !matches!(byte, b'$' | b'`' | b'\\' | b'"')
}

// `$'…'`: the escapes of ANSI C.

impl TextReader<'_, '_> {
    /// Reads the string at the quote after the `$`.
    pub(super) fn read_ansi_quoted(&mut self, draft: &mut WordDraft) -> ReadResult<()> {
        self.pos += 1;
        let mut value = String::new();
        // In a shell without `$'` the string ends at its first escaped quote.
        let mut posix_end = None;
        loop {
            let Some(next) = self.text.get(self.pos..).and_then(|rest| rest.chars().next()) else {
                return self.fail_syntax("a quote without its end");
            };
            self.pos += next.len_utf8();
            match next {
                '\'' => break,
                '\\' => {
                    if self.byte_at(self.pos) == Some(b'\'') {
                        posix_end.get_or_insert(self.pos + 1);
                    }
                    value.push(self.read_ansi_escape()?);
                }
                other => value.push(other),
            }
        }
        let rest = posix_end.map_or("", |start| self.text_since(start));
        if rest.contains([';', '&', '|', '(', ')', '<', '>', '`', '$', '\n']) {
            return self
                .fail(UncertainReason::Dialect("an operator after an escaped quote in `$'`"));
        }
        draft.push_quoted(&value);
        Ok(())
    }

    fn read_ansi_escape(&mut self) -> ReadResult<char> {
        let Some(kind) = self.byte_at(self.pos) else {
            return self.fail_syntax("a quote without its end");
        };
        self.pos += 1;
        let value = match kind {
            b'a' => '\x07',
            b'b' => '\x08',
            b'e' | b'E' => '\x1b',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'v' => '\x0b',
            b'\\' => '\\',
            b'"' => '"',
            b'?' => '?',
            b'\'' => '\'',
            b'x' => return self.read_number_escape(16, 2),
            b'u' => return self.read_number_escape(16, 4),
            b'U' => return self.read_number_escape(16, 8),
            b'0'..=b'7' => {
                self.pos -= 1;
                return self.read_number_escape(8, 3);
            }
            _ => return self.fail_syntax("an unknown escape in `$'`"),
        };
        Ok(value)
    }

    /// Reads up to `max_digits` digits as an ASCII character; other characters depend on the
    /// locale.
    fn read_number_escape(&mut self, radix: u32, max_digits: usize) -> ReadResult<char> {
        let mut value = 0_u32;
        let mut count = 0;
        while count < max_digits
            && let Some(digit) =
                self.byte_at(self.pos).and_then(|byte| char::from(byte).to_digit(radix))
        {
            value = value.saturating_mul(radix).saturating_add(digit);
            self.pos += 1;
            count += 1;
        }
        match u8::try_from(value) {
            Ok(byte) if count > 0 && byte.is_ascii() && byte != 0 => Ok(char::from(byte)),
            Ok(_) | Err(_) => self.fail_syntax("an escape in `$'` that is no ASCII character"),
        }
    }
}

// Brace expansion: the reader finds out if a word has one, and leaves its value unknown.

/// The unquoted braces of one word.
#[derive(Debug, Default)]
pub(super) struct Braces {
    /// The length of the text before the first open brace.
    first_open: Option<usize>,
    has_separator: bool,
}

impl Braces {
    pub(super) fn open(&mut self, length: usize) {
        self.first_open.get_or_insert(length);
    }

    /// Notes a comma or `..`: after an open brace it can make an expansion. Bash also pairs the
    /// first brace with a later one than the nearest: `{x},y}` is `x}` and `y`.
    const fn note_separator(&mut self) {
        self.has_separator |= self.first_open.is_some();
    }

    /// Returns the length of the text before the braces, if a closing brace ends an expansion.
    pub(super) const fn close(&self) -> Option<usize> {
        if self.has_separator { self.first_open } else { None }
    }
}

// Here-documents: their bodies start after the line with `<<`.

impl TextReader<'_, '_> {
    /// Reads the delimiter after `<<` or `<<-`.
    pub(super) fn read_heredoc_delimiter(&mut self, strip_tabs: bool) -> ReadResult<()> {
        self.skip_blanks();
        let start = self.pos;
        let word = self.read_word()?;
        let source = self.text_since(start);
        let is_odd = source.contains(['$', '`', '\n', '\t', '(', '<', '>']) || word.text.is_empty();
        if is_odd || (word.quoted && word.value().is_none()) {
            return self.fail_syntax("an odd delimiter of a here-document");
        }
        // Patterns and braces have no meaning in a delimiter: the text as written is the value.
        let delimiter = if word.value().is_some() { word.text } else { source.to_owned() };
        let quoted = word.quoted;
        self.state.heredocs += 1;
        self.pending_heredocs.push(PendingHeredoc { delimiter, quoted, strip_tabs, readers: 0..0 });
        Ok(())
    }

    /// Sets the commands that read the pending here-documents from index `first` on.
    pub(super) fn set_heredoc_readers(&mut self, first: usize, readers: &Range<usize>) {
        for pending_heredocs in self.pending_heredocs.iter_mut().skip(first) {
            pending_heredocs.readers = readers.clone();
        }
    }

    /// Reads a line end, and the here-documents that start after it.
    pub(super) fn end_line(&mut self) -> ReadResult<()> {
        self.pos += 1;
        for pending_heredocs in std::mem::take(&mut self.pending_heredocs) {
            let body = self.read_heredoc_body(&pending_heredocs)?;
            if !pending_heredocs.quoted {
                read(&body, self.shell, TextKind::Heredoc, self.state)?;
            }
            self.run_heredoc_in_readers(&pending_heredocs, &body)?;
        }
        Ok(())
    }

    fn read_heredoc_body(&mut self, pending_heredocs: &PendingHeredoc) -> ReadResult<String> {
        let mut body = String::new();
        loop {
            if self.pos >= self.text.len() {
                return self.fail_syntax("a here-document without its end");
            }
            let line = self.read_heredoc_line(pending_heredocs.quoted);
            let line =
                if pending_heredocs.strip_tabs { line.trim_start_matches('\t') } else { &line };
            if line == pending_heredocs.delimiter {
                return Ok(body);
            }
            body.push_str(line);
            body.push('\n');
        }
    }

    /// Reads one line; in an unquoted here-document a backslash at its end joins the next one.
    fn read_heredoc_line(&mut self, quoted: bool) -> String {
        let mut line = String::new();
        while let Some(next) = self.text.get(self.pos..).and_then(|rest| rest.chars().next()) {
            self.pos += next.len_utf8();
            match (next, self.byte_at(self.pos)) {
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

    /// Reads the body as commands if a reader of the here-document is a shell that runs them.
    fn run_heredoc_in_readers(
        &mut self,
        pending_heredocs: &PendingHeredoc,
        body: &str,
    ) -> ReadResult<()> {
        let plain = pending_heredocs.quoted || !body.contains(['$', '`', '\\']);
        for index in pending_heredocs.readers.clone() {
            let Some(command) = self.state.commands.get(index) else { continue };
            if wrappers::runs_shell_on_input(command, body) {
                self.note_doubt(UncertainReason::Code("a here-document"));
                continue;
            }
            let Some((shell, via)) = wrappers::heredoc_shell(command) else { continue };
            if plain {
                self.read_script(body, shell, via)?;
            } else {
                self.note_doubt(UncertainReason::Dynamic("a here-document that a shell runs"));
            }
        }
        Ok(())
    }

    /// Reads the expansions in the body of a here-document.
    pub(super) fn read_heredoc_expansions(&mut self) -> ReadResult<()> {
        let mut draft = WordDraft::default();
        while let Some(byte) = self.peek() {
            self.read_quoted_piece(&mut draft, byte, QuoteContext::Heredoc)?;
        }
        Ok(())
    }
}
