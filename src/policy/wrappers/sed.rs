//! `sed`: its `e` command and its `e` flag run a shell.

use super::dispatch::{Effect, SH};
use super::options::{Grammar, opaque_file, scan};
use crate::policy::command::{SimpleCommand, Word};

const SED: Grammar = Grammar {
    flags: "nrEsuzbi",
    values: "efl",
    long_flags: &[
        "quiet",
        "silent",
        "regexp-extended",
        "separate",
        "unbuffered",
        "null-data",
        "in-place",
        "posix",
        "debug",
        "sandbox",
        "follow-symlinks",
        "binary",
        "help",
        "version",
    ],
    long_values: &["expression", "file", "line-length"],
    numbers: false,
};

pub(super) fn sed(command: &SimpleCommand) -> Vec<Effect> {
    match scripts(&command.args) {
        Ok(scripts) => scripts.iter().filter_map(check).collect(),
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
        if let Some(file) = scan.value(&["f", "file"]) {
            opaque_file(file)?;
            from_file = true;
        }
        let texts =
            scan.given.iter().filter(|given| given.name == "e" || given.name == "expression");
        found.extend(texts.filter_map(|given| given.value.clone()));
        let Some((operand, more)) = rest.get(scan.rest..).and_then(<[Word]>::split_first) else {
            break;
        };
        operands.push(operand.clone());
        let closed = scan.rest > 0 && rest.get(scan.rest - 1).is_some_and(|word| word.is("--"));
        rest = more;
        if closed || operands.len() > 1 && !more.iter().any(|word| word.text.starts_with('-')) {
            break;
        }
    }
    if found.is_empty() && !from_file {
        found.extend(operands.into_iter().take(1));
    }
    Ok(found)
}

/// `-i.bak` has its value attached, and only there.
fn without_suffix(word: &Word) -> Word {
    match word.value() {
        Some(text) if text.starts_with("-i") => Word::literal("-i"),
        Some(_) | None => word.clone(),
    }
}

fn check(word: &Word) -> Option<Effect> {
    let Some(text) = word.value() else {
        return Some(Effect::unclear("sed", "a script of unknown value"));
    };
    match Script::new(text).read() {
        Ok(code) => code.map(|text| Effect::Script { text, reader: SH }),
        Err(what) => Some(Effect::unclear("sed", what)),
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

    /// The command line of an `e` command, if there is one.
    fn read(&mut self) -> Result<Option<String>, String> {
        loop {
            self.skip(|c| c.is_whitespace() || matches!(c, ';' | '{' | '}'));
            self.addresses()?;
            let Some(command) = self.chars.next() else {
                return Ok(None);
            };
            match command {
                'e' => {
                    let text = self.line();
                    return match text.trim() {
                        "" => Err("the command e".to_owned()),
                        text => Ok(Some(text.to_owned())),
                    };
                }
                's' => self.substitute()?,
                'y' => {
                    let mark = self.chars.next().ok_or("the command y")?;
                    self.until(mark)?;
                    self.until(mark)?;
                }
                'a' | 'i' | 'c' => self.text(),
                'r' | 'R' | 'w' | 'W' | '#' => drop(self.line()),
                // To GNU a label ends at `;`, to others at the line's end: what follows is read.
                ':' => self.skip(|c| !matches!(c, ';' | '\n')),
                'b' | 't' | 'T' => self.skip(|c| !matches!(c, ';' | '\n' | '}')),
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

    /// Text of `a`, `i`, `c`: it goes on over lines that end in a backslash.
    fn text(&mut self) {
        let mut escaped = false;
        while let Some(c) = self.chars.next_if(|c| escaped || *c != '\n') {
            escaped = c == '\\' && !escaped;
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
                    let mark = self.chars.next().ok_or("an address")?;
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
                '\\' => {
                    self.chars.next();
                }
                '[' => self.bracket()?,
                c if c == mark => return Ok(()),
                _ => {}
            }
        }
        Err("a pattern without its end".to_owned())
    }

    /// The rest of a bracket expression, in which a mark is plain.
    fn bracket(&mut self) -> Result<(), String> {
        self.chars.next_if_eq(&'^');
        self.chars.next_if_eq(&']');
        while let Some(c) = self.chars.next() {
            match (c, self.chars.peek()) {
                (']', _) => return Ok(()),
                ('[', Some(':' | '.' | '=')) | ('\\', Some(']')) => {
                    return Err("a bracket expression".to_owned());
                }
                _ => {}
            }
        }
        Err("a bracket expression without its end".to_owned())
    }

    fn substitute(&mut self) -> Result<(), String> {
        let mark = self.chars.next().ok_or("the command s")?;
        self.until(mark)?;
        self.replacement(mark)?;
        while let Some(flag) = self.chars.next_if(|c| !matches!(c, ';' | '\n' | '}' | ' ' | '#')) {
            match flag {
                'g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9' => {}
                'w' => {
                    self.line();
                }
                other => return Err(format!("the flag {other}")),
            }
        }
        Ok(())
    }

    fn replacement(&mut self, mark: char) -> Result<(), String> {
        while let Some(c) = self.chars.next() {
            match c {
                '\\' => drop(self.chars.next()),
                c if c == mark => return Ok(()),
                _ => {}
            }
        }
        Err("a replacement without its end".to_owned())
    }
}
