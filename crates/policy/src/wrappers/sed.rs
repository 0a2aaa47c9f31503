//! `sed`: its `e` command and its `e` flag run a shell.

use std::sync::LazyLock;

use super::effect::{Effect, SH};
use super::scan::{opaque_file, option_set, scan};
use crate::command::{SimpleCommand, Word};
use crate::options::OptionSet;

static SED: LazyLock<OptionSet> = LazyLock::new(|| option_set("sed"));

pub(super) fn sed(command: &SimpleCommand) -> Vec<Effect> {
    match scripts(&command.args) {
        Ok(scripts) => scripts.iter().flat_map(check).collect(),
        Err(odd) => vec![Effect::unclear("sed", odd)],
    }
}

/// The scripts among the words: each `-e`, or the first operand.
fn scripts(args: &[Word]) -> Result<Vec<Word>, String> {
    let mut found = Vec::new();
    let mut operands = Vec::new();
    let mut from_file = false;
    let mut rest = args;
    // Options may follow operands.
    loop {
        let rest_now: Vec<Word> = rest.iter().map(without_suffix).collect();
        let scan = scan(&rest_now, &SED)?;
        for file in scan.values(&["f", "file"]) {
            opaque_file(file)?;
            from_file = true;
        }
        found.extend(scan.values(&["e", "expression"]).cloned());
        let Some((operand, more)) = rest.get(scan.rest..).and_then(<[Word]>::split_first) else {
            break;
        };
        operands.push(operand.clone());
        let closed = scan.rest > 0 && rest.get(scan.rest - 1).is_some_and(|word| word.is("--"));
        rest = more;
        let plain = |word: &Word| !word.text.starts_with('-') && !word.may_become_option();
        if closed || operands.len() > 1 && more.iter().all(plain) {
            break;
        }
    }
    if found.is_empty() && !from_file {
        found.extend(operands.into_iter().take(1));
    }
    Ok(found)
}

/// `-i.bak` has its value attached, and only there; other letters may come before the `i`.
fn without_suffix(word: &Word) -> Word {
    let cluster = word.value().and_then(|text| text.strip_prefix('-'));
    let is_flag = |letter: char| SED.takes_next(&format!("-{letter}")) == Some(false);
    let end = cluster.and_then(|text| text.find(|c| !is_flag(c) || c == 'i'));
    match (cluster, end) {
        (Some(text), Some(end)) if text.get(end..).is_some_and(|it| it.starts_with('i')) => {
            Word::literal(format!("-{}i", text.get(..end).unwrap_or_default()))
        }
        _ => word.clone(),
    }
}

fn check(word: &Word) -> Vec<Effect> {
    let Some(text) = word.value() else {
        return vec![Effect::unclear("sed", "a script of unknown value")];
    };
    // It would go on in the next script.
    if text.ends_with('\\') {
        return vec![Effect::unclear("sed", "a script that ends in a backslash")];
    }
    match Script::new(text).read() {
        Ok(codes) => codes.into_iter().map(|text| Effect::Script { text, reader: SH }).collect(),
        Err(what) => vec![Effect::unclear("sed", what)],
    }
}

/// A reading of one script.
struct Script<'t> {
    chars: std::iter::Peekable<std::str::Chars<'t>>,
}

impl<'t> Script<'t> {
    fn new(text: &'t str) -> Self {
        Self { chars: text.chars().peekable() }
    }

    /// The command lines of all `e` commands.
    fn read(&mut self) -> Result<Vec<String>, String> {
        let mut codes = Vec::new();
        loop {
            self.skip(|c| c.is_whitespace() || matches!(c, ';' | '{' | '}'));
            self.addresses()?;
            let Some(command) = self.chars.next() else {
                return Ok(codes);
            };
            match command {
                'e' => codes.push(self.code()?),
                's' => self.substitute()?,
                'y' => {
                    let mark = self.mark()?;
                    self.plain(mark)?;
                    self.plain(mark)?;
                }
                'a' | 'i' | 'c' => self.text()?,
                'r' | 'R' | 'w' | 'W' | '#' => drop(self.line()),
                ':' | 'b' | 't' | 'T' => self.label(command)?,
                'q' | 'Q' | 'l' | 'L' => self.skip(|c| c.is_ascii_digit() || c == ' '),
                'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | '='
                | 'F' | '{' | '}' => {}
                other => return Err(format!("the command {other}")),
            }
        }
    }

    fn skip(&mut self, wanted: impl Fn(char) -> bool) {
        while self.chars.next_if(|c| wanted(*c)).is_some() {}
    }

    fn line(&mut self) -> String {
        std::iter::from_fn(|| self.chars.next_if(|c| *c != '\n')).collect()
    }

    /// The command line of an `e`. Backslashes would be taken out of it, or continue it.
    fn code(&mut self) -> Result<String, String> {
        let text = self.line();
        match text.trim() {
            "" => Err("the command e".to_owned()),
            text if text.contains('\\') => Err("the command e with a backslash".to_owned()),
            text => Ok(text.to_owned()),
        }
    }

    /// A label. Where an odd one ends depends on the sed.
    fn label(&mut self, command: char) -> Result<(), String> {
        let blank = |c: &char| matches!(c, ' ' | '\t');
        self.skip(|c| blank(&c));
        let ends = |c: &char| c.is_whitespace() || *c == ';';
        let label: String = std::iter::from_fn(|| self.chars.next_if(|c| !ends(c))).collect();
        let name = if command == ':' { &label } else { label.trim_end_matches('}') };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        self.skip(|c| blank(&c));
        let ended = matches!(self.chars.peek(), None | Some(';' | '\n' | '}'));
        if ended && name.chars().all(plain) { Ok(()) } else { Err(format!("the label {label}")) }
    }

    /// Text of `a`, `i`, `c`: it goes on over lines that end in a backslash.
    fn text(&mut self) -> Result<(), String> {
        loop {
            let line = self.line();
            let kept = line.trim_end();
            let slashes = kept.len() - kept.trim_end_matches('\\').len();
            if slashes > 0 && kept.len() < line.len() {
                return Err("a text with blanks after a backslash".to_owned());
            }
            if slashes.is_multiple_of(2) || self.chars.next().is_none() {
                return Ok(());
            }
        }
    }

    /// What separates the parts of a command.
    fn mark(&mut self) -> Result<char, String> {
        match self.chars.next() {
            None | Some('[' | ']' | '\\' | '\n') => Err("a separator".to_owned()),
            Some(mark) => Ok(mark),
        }
    }

    /// Up to two addresses and a `!`.
    fn addresses(&mut self) -> Result<(), String> {
        loop {
            match self.chars.peek() {
                Some('/') => {
                    self.chars.next();
                    self.until('/')?;
                    self.skip(|c| matches!(c, 'I' | 'M'));
                }
                Some('\\') => {
                    self.chars.next();
                    let mark = self.mark()?;
                    self.until(mark)?;
                    self.skip(|c| matches!(c, 'I' | 'M'));
                }
                Some(c) if c.is_ascii_digit() || matches!(c, '$' | ',' | '~' | '+' | '!' | ' ') => {
                    self.chars.next();
                }
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// Goes behind the next `mark` that is not escaped and not inside a bracket expression.
    fn until(&mut self, mark: char) -> Result<(), String> {
        while let Some(c) = self.chars.next() {
            match c {
                c if c == mark => return Ok(()),
                '\\' => self.escaped()?,
                '[' => self.bracket()?,
                '\n' => break,
                _ => {}
            }
        }
        Err("a pattern without its end".to_owned())
    }

    /// What follows a backslash. `\c` takes one more, which could be any sign.
    fn escaped(&mut self) -> Result<(), String> {
        match self.chars.next() {
            None | Some('c') => Err("an escape".to_owned()),
            Some(_) => Ok(()),
        }
    }

    /// The rest of a bracket expression, in which a mark is plain.
    fn bracket(&mut self) -> Result<(), String> {
        self.chars.next_if_eq(&'^');
        self.chars.next_if_eq(&']');
        while let Some(c) = self.chars.next() {
            match (c, self.chars.peek()) {
                (']', _) => return Ok(()),
                ('[', Some(':')) => self.class()?,
                ('\n', _) | ('[', Some('.' | '=')) | ('\\', Some(']')) => {
                    return Err("a bracket expression".to_owned());
                }
                _ => {}
            }
        }
        Err("a bracket expression without its end".to_owned())
    }

    /// The rest of a class such as `[:alpha:]`.
    fn class(&mut self) -> Result<(), String> {
        self.chars.next();
        self.skip(|c| c.is_ascii_lowercase());
        match (self.chars.next(), self.chars.next()) {
            (Some(':'), Some(']')) => Ok(()),
            _ => Err("a character class".to_owned()),
        }
    }

    fn substitute(&mut self) -> Result<(), String> {
        let mark = self.mark()?;
        self.until(mark)?;
        self.plain(mark)?;
        while let Some(flag) = self.chars.next_if(|c| !matches!(c, ';' | '\n' | '}' | '#')) {
            match flag {
                ' ' | '\t' | 'g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9' => {}
                'w' => {
                    self.line();
                }
                other => return Err(format!("the flag {other}")),
            }
        }
        Ok(())
    }

    /// Goes behind the next `mark` that is not escaped: brackets mean nothing here.
    fn plain(&mut self, mark: char) -> Result<(), String> {
        while let Some(c) = self.chars.next() {
            match c {
                c if c == mark => return Ok(()),
                '\\' => self.escaped()?,
                '\n' => break,
                _ => {}
            }
        }
        Err("a replacement without its end".to_owned())
    }
}
