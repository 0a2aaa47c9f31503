//! Lists, chains and pipelines.

use super::walker::{Walk, Walker};
use crate::command::Shell;

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
                Some(("time", end)) if self.shell == Shell::Bash => {
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
