//! Redirections, before, between and after the words of a command.

use super::cursor::{in_name, starts_name};
use super::scope::is_address;
use super::walker::{Walk, Walker};
use crate::command::{Reason, Redirect, Shape, Value, Word};

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
            self.assign(&text, Value::Number);
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
            self.doubt(Reason::Connection);
        } else if matches!(word.shape, Shape::One | Shape::Many | Shape::Glob)
            && ["/dev/tcp/", "/dev/udp/"].into_iter().any(starts_like)
        {
            self.sink.scope.note_redirect();
            if word.text.starts_with("/dev/") {
                self.doubt(Reason::Connection);
            }
        }
        Ok(word)
    }
}
