//! Simple commands: assignments, words, redirections and here-documents; and functions, which
//! start like one.

use std::ops::Range;

use super::super::command::{
    AssignedValue, Assignment, AssignmentScope, CommandLookup, Redirect, Shape, SimpleCommand,
    UncertainReason, Word,
};
use super::super::wrappers;
use super::cursor::ends_word;
use super::scope::{in_name, is_address, is_code, is_name, starts_name};
use super::walker::{Entry, Kind, MAX_COMMANDS, Pending, Walk, Walker, read};
use super::word::{Draft, Quotes};

/// The builtins after which bash accepts `name=( … )` as an argument.
const DECLARERS: [&str; 8] =
    ["declare", "typeset", "local", "export", "readonly", "alias", "eval", "let"];

/// The parts of a simple command while it is read.
#[derive(Debug, Default)]
struct Parts {
    assignments: Vec<Assignment>,
    words: Vec<Word>,
    redirects: Vec<Redirect>,
}

impl Parts {
    /// Something stands before the program.
    const fn is_prefixed(&self) -> bool {
        !self.assignments.is_empty() || !self.redirects.is_empty()
    }
}

impl Walker<'_, '_> {
    pub(super) fn simple(&mut self) -> Walk<Entry> {
        let mut parts = Parts::default();
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some(b'\n' | b';' | b'|' | b')') => break,
                Some(b'(') => return self.function(&parts),
                Some(b'&') if self.peek_second() != Some(b'>') => break,
                Some(_) => self.part(&mut parts)?,
            }
        }
        self.finish_simple(parts)?;
        Ok(Entry::Plain)
    }

    fn part(&mut self, parts: &mut Parts) -> Walk<()> {
        if let Some(redirect) = self.redirect()? {
            parts.redirects.push(redirect);
            return Ok(());
        }
        if parts.words.is_empty() {
            let reserved = self.keyword().is_some_and(|(found, _)| found != "in");
            if reserved && parts.is_prefixed() {
                return self.syntax("a reserved word after an assignment or a redirection");
            }
            return self.push_word(parts);
        }
        let declares = parts
            .words
            .first()
            .and_then(Word::value)
            .is_some_and(|program| DECLARERS.contains(&program));
        let word = match if declares { self.declaration()? } else { None } {
            // An array is no single word; what it holds was read already.
            Some(name) => Word::unknown(name, Shape::Process),
            None => self.word()?,
        };
        parts.words.push(word);
        Ok(())
    }

    /// The next assignment, or the program.
    fn push_word(&mut self, parts: &mut Parts) -> Walk<()> {
        if let Some((name, value)) = self.assignment()? {
            parts.assignments.push(Assignment { name, value, scope: AssignmentScope::Environment });
            return Ok(());
        }
        let word = self.word()?;
        if looks_like_assignment(&word.text) {
            return self.syntax("a command whose name looks like an assignment");
        }
        parts.words.push(word);
        Ok(())
    }

    /// `NAME=VALUE`, `NAME+=VALUE`, `NAME[…]=VALUE`, `NAME=( … )` where a command may start.
    fn assignment(&mut self) -> Walk<Option<(String, AssignedValue)>> {
        self.peek();
        let start = self.pos;
        let name = self.plain_name();
        if name.is_empty() {
            return Ok(None);
        }
        if self.raw(self.pos) == Some(b'[') {
            self.bash_only("a subscript")?;
            self.pos += 1;
            self.nested(Self::subscript)?;
            self.sink.scope.note_array(&name);
            if !matches!(self.raw(self.pos), Some(b'=' | b'+')) {
                return self.syntax("a subscript without an assignment");
            }
        }
        let appends = self.raw(self.pos) == Some(b'+');
        if self.raw(self.pos + usize::from(appends)) != Some(b'=') {
            self.pos = start;
            return Ok(None);
        }
        self.pos += 1 + usize::from(appends);
        if appends {
            self.bash_only("`+=`")?;
        }
        let value = self.assigned_value(&name)?;
        Ok(Some((name, value)))
    }

    fn plain_name(&mut self) -> String {
        let start = self.pos;
        if self.raw(start).is_some_and(starts_name) {
            while self.raw(self.pos).is_some_and(in_name) {
                self.pos += 1;
            }
        }
        self.since(start).to_owned()
    }

    fn assigned_value(&mut self, name: &str) -> Walk<AssignedValue> {
        match self.peek() {
            Some(b'(') => {
                self.bash_only("an array")?;
                self.pos += 1;
                self.nested(|walker| walker.array(name))?;
                // Each element was noted by itself.
                Ok(AssignedValue::Text(String::new()))
            }
            None | Some(b' ' | b'\t' | b'\n' | b';' | b'|' | b'&' | b')') => {
                Ok(AssignedValue::Text(String::new()))
            }
            Some(_) => self.word_or_empty().map(|word| AssignedValue::from(&word)),
        }
    }

    /// The elements of `( … )`; each value is noted for the array.
    fn array(&mut self, name: &str) -> Walk<()> {
        let start = self.pos;
        self.sink.scope.note_array(name);
        self.elements(name)?;
        // Bash 5.2 writes a substitution out again before it runs it, and gets this one wrong.
        let escapes = self.since(start).replace("\\\n", "").contains('\\');
        if escapes && self.is_in_substitution() {
            return self.syntax("a backslash in an array inside a substitution");
        }
        // The word goes on behind the parenthesis: `a=()#b` is no comment.
        if self.peek().is_some_and(|byte| !ends_word(byte) || matches!(byte, b'(' | b'<' | b'>')) {
            return self.syntax("text after an array");
        }
        Ok(())
    }

    fn elements(&mut self, name: &str) -> Walk<()> {
        let before = self.pending.len();
        loop {
            self.skip_lines()?;
            if self.pending.len() != before {
                return self.syntax("a here-document inside an array");
            }
            match self.peek() {
                None => return self.syntax("an array without `)`"),
                Some(b')') => {
                    self.pos += 1;
                    return Ok(());
                }
                Some(b'[') => {
                    self.pos += 1;
                    self.subscript()?;
                    self.expect(b'=', "a subscript without a value")?;
                    let word = self.word_or_empty()?;
                    self.assign(name, AssignedValue::from(&word));
                }
                Some(_) => {
                    let word = self.word()?;
                    self.assign(name, AssignedValue::from(&word));
                }
            }
        }
    }

    /// `name=( … )` as an argument of a declaring builtin: the name, if it stands here.
    fn declaration(&mut self) -> Walk<Option<String>> {
        self.peek();
        let start = self.pos;
        let name = self.plain_name();
        let appends = usize::from(self.raw(self.pos) == Some(b'+'));
        let at = self.pos + appends;
        if name.is_empty() || self.raw(at) != Some(b'=') || self.raw(at + 1) != Some(b'(') {
            self.pos = start;
            return Ok(None);
        }
        self.bash_only("an array")?;
        self.pos = at + 2;
        self.assign(&name, AssignedValue::Text(String::new()));
        self.nested(|walker| walker.array(&name))?;
        Ok(Some(name))
    }

    fn function(&mut self, parts: &Parts) -> Walk<Entry> {
        let [name] = parts.words.as_slice() else {
            return self.syntax("`(` in a command");
        };
        if parts.is_prefixed() {
            return self.syntax("`(` in a command");
        }
        self.pos += 1;
        self.skip_blanks();
        self.expect(b')', "`(` in a command")?;
        self.function_body(name)
    }

    fn finish_simple(&mut self, parts: Parts) -> Walk<()> {
        let Parts { assignments, words, redirects } = parts;
        for Assignment { name, value, .. } in &assignments {
            self.sink.scope.assign(name, value.clone());
            self.check_assignment(name, value);
        }
        let Some(mut command) = SimpleCommand::from_words(words) else {
            if assignments.len() + self.sink.assignments.len() > MAX_COMMANDS {
                return self.fail(UncertainReason::TooMany { limit: MAX_COMMANDS });
            }
            if assignments.is_empty() && redirects.is_empty() {
                return self.syntax("a missing command");
            }
            let bare = assignments
                .into_iter()
                .map(|it| Assignment { scope: AssignmentScope::Shell, ..it });
            self.sink.assignments.extend(bare);
            self.sink.redirects.extend(redirects);
            return Ok(());
        };
        command.assignments = assignments;
        command.redirects = redirects;
        command.lookup = CommandLookup::Shell;
        self.emit(command)
    }

    /// Notes that the shell sets a variable by itself: a loop, `read`, `${x:=…}`.
    pub(super) fn assign(&mut self, name: &str, value: AssignedValue) {
        self.check_assignment(name, &value);
        self.sink.scope.assign(name, value.clone());
        let name = name.to_owned();
        self.sink.assignments.push(Assignment { name, value, scope: AssignmentScope::Shell });
    }

    /// Some variables are code, or change how names are found.
    pub(super) fn check_assignment(&mut self, name: &str, value: &AssignedValue) {
        if is_code(name) {
            self.doubt(UncertainReason::Code("a variable that the shell evaluates"));
        }
        if matches!(name, "LC_ALL" | "LC_CTYPE" | "LANG") && !is_known_locale(value) {
            self.doubt(UncertainReason::Dialect("text in another character set"));
        }
    }
}

/// `true` if quotes mean the same in this locale as in UTF-8. In some multibyte character sets a
/// quote or a backslash can be the second half of a character.
fn is_known_locale(value: &AssignedValue) -> bool {
    match value {
        AssignedValue::Text(text) => {
            let name = text.split('@').next().unwrap_or_default();
            let set = name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
            matches!(set.as_str(), "" | "c" | "posix" | "utf-8" | "utf8")
        }
        AssignedValue::Copy(other) => other == "LANG" || other.starts_with("LC_"),
        AssignedValue::Number | AssignedValue::File | AssignedValue::Unknown => false,
    }
}

/// A net under the reader: such a word would be an assignment to the shell in some spelling.
fn looks_like_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        is_name(name.split_once('[').map_or(name, |(name, _)| name))
    })
}

// Redirections, before, between and after the words of a command.

/// More digits than a descriptor can have make a word of them.
const MAX_DIGITS: usize = 4;

impl Walker<'_, '_> {
    /// All redirections that stand here.
    pub(super) fn redirects(&mut self) -> Walk<Vec<Redirect>> {
        let mut found = Vec::new();
        loop {
            self.skip_blanks();
            match self.redirect()? {
                Some(redirect) => found.push(redirect),
                None => return Ok(found),
            }
        }
    }

    /// The redirection that stands here.
    pub(super) fn redirect(&mut self) -> Walk<Option<Redirect>> {
        self.peek();
        let start = self.pos;
        self.descriptor()?;
        let explicit = self.pos != start;
        match (self.peek(), self.peek_second()) {
            (Some(b'<' | b'>'), Some(b'(')) if !explicit => Ok(None),
            (Some(b'<' | b'>'), Some(b'(')) => self.syntax("`n<(`"),
            (Some(b'<'), _) => self.input().map(Some),
            (Some(b'>'), _) => self.output().map(Some),
            (Some(b'&'), Some(b'>')) if !explicit => {
                self.bash_only("`&>`")?;
                self.eat_all("&>");
                self.eat(b'>');
                self.file().map(|word| Some(Redirect::Write(word)))
            }
            _ => {
                self.pos = start;
                Ok(None)
            }
        }
    }

    /// `3` or `{name}` directly before a redirection; else nothing is taken.
    fn descriptor(&mut self) -> Walk<()> {
        let start = self.pos;
        let name = self.eat(b'{');
        let inner = self.pos;
        while self
            .peek()
            .is_some_and(|byte| if name { in_name(byte) } else { byte.is_ascii_digit() })
        {
            self.pos += 1;
        }
        let length = self.pos - inner;
        let text = self.since(inner).replace("\\\n", "");
        let closed = !name || self.eat(b'}');
        if length == 0 || !closed || !matches!(self.peek(), Some(b'<' | b'>')) {
            self.pos = start;
            return Ok(());
        }
        if !name && length > MAX_DIGITS {
            return self.syntax("a large descriptor");
        }
        if name {
            self.bash_only("`{name}>`")?;
            if !text.bytes().next().is_some_and(starts_name) {
                return self.syntax("a number in braces before a redirection");
            }
            self.assign(&text, AssignedValue::Number);
        }
        Ok(())
    }

    fn input(&mut self) -> Walk<Redirect> {
        if self.eat_all("<<<") {
            self.bash_only("`<<<`")?;
            let word = self.target()?;
            return Ok(Redirect::Text(word.value().map(str::to_owned)));
        }
        if self.eat_all("<<-") {
            self.announce(true)?;
            return Ok(Redirect::Heredoc);
        }
        if self.eat_all("<<") {
            self.announce(false)?;
            return Ok(Redirect::Heredoc);
        }
        if self.eat_all("<>") {
            return self.file().map(Redirect::Write);
        }
        if self.eat_all("<&") {
            self.target()?;
            return Ok(Redirect::Duplicate);
        }
        self.eat(b'<');
        self.file().map(Redirect::Read)
    }

    fn output(&mut self) -> Walk<Redirect> {
        if self.eat_all(">&") {
            let word = self.file()?;
            let digits = word.text.strip_suffix('-').unwrap_or(&word.text);
            if word.value().is_some() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Ok(Redirect::Duplicate);
            }
            self.bash_only("`>&word`")?;
            return Ok(Redirect::Write(word));
        }
        if !self.eat_all(">>") && !self.eat_all(">|") {
            self.eat(b'>');
        }
        self.file().map(Redirect::Write)
    }

    fn target(&mut self) -> Walk<Word> {
        self.skip_blanks();
        self.word()
    }

    /// The name of a file that is opened. Bash opens connections for some names.
    fn file(&mut self) -> Walk<Word> {
        let word = self.target()?;
        let starts_like = |address: &str| address.starts_with(&word.text);
        if is_address(&word.text) {
            self.doubt(UncertainReason::Connection);
        } else if matches!(word.shape, Shape::One | Shape::Many | Shape::Glob)
            && ["/dev/tcp/", "/dev/udp/"].into_iter().any(starts_like)
        {
            self.sink.scope.note_redirect();
            if word.text.starts_with("/dev/") {
                self.doubt(UncertainReason::Connection);
            }
        }
        Ok(word)
    }
}

// Here-documents: their bodies start after the line on which they were announced.

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
                self.doubt(UncertainReason::Code("a here-document"));
                continue;
            }
            let Some((shell, via)) = wrappers::reads_commands(command) else { continue };
            if plain {
                self.script(body, shell, via)?;
            } else {
                self.doubt(UncertainReason::Dynamic("a here-document that a shell runs"));
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
