//! `awk`: `system()`, pipes and coprocesses in its programs run a shell.

use super::dispatch::{Effect, SH};
use super::options::{Grammar, opaque_file, scan};
use crate::policy::command::{SimpleCommand, Word};

const AWK: Grammar = Grammar {
    flags: "bcCghMnNOrsStVP",
    values: "FvfeiElDopWLd",
    long_flags: &[
        "posix",
        "traditional",
        "sandbox",
        "re-interval",
        "lint",
        "csv",
        "characters-as-bytes",
    ],
    long_values: &["field-separator", "assign", "file", "source", "include", "load", "exec"],
    numbers: false,
};

pub(super) fn awk(command: &SimpleCommand) -> Vec<Effect> {
    let scan = match scan(&command.args, &AWK) {
        Ok(scan) => scan,
        Err(odd) => return vec![Effect::unclear("awk", odd)],
    };
    if scan.has(&["l", "load", "i", "include", "D", "W"]) {
        return vec![Effect::unclear("awk", "an option that loads code")];
    }
    let sources = scan.given.iter().filter(|given| given.name == "e" || given.name == "source");
    let mut programs: Vec<&Word> = sources.filter_map(|given| given.value.as_ref()).collect();
    match scan.value(&["f", "file", "E", "exec"]).map(opaque_file) {
        Some(Ok(())) => {}
        Some(Err(odd)) => return vec![Effect::unclear("awk", odd)],
        None if programs.is_empty() => programs.extend(command.args.get(scan.rest)),
        None => {}
    }
    programs.into_iter().flat_map(check).collect()
}

fn check(word: &Word) -> Vec<Effect> {
    let Some(text) = word.value() else {
        return vec![Effect::unclear("awk", "a program of unknown value")];
    };
    match Program::read(text) {
        Ok(effects) => effects,
        Err(what) => vec![Effect::unclear("awk", what)],
    }
}

/// A piece of an awk program, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    Text(String),
    Name(String),
    Sign(char),
}

#[derive(Debug, Default)]
struct Program {
    tokens: Vec<Token>,
}

impl Program {
    fn read(text: &str) -> Result<Vec<Effect>, String> {
        let mut program = Self::default();
        program.tokenize(text)?;
        program.effects()
    }

    fn tokenize(&mut self, text: &str) -> Result<(), String> {
        let mut chars = text.char_indices().peekable();
        while let Some((start, c)) = chars.next() {
            match c {
                '"' => {
                    let rest = text.get(start + 1..).unwrap_or_default();
                    let (value, length) = string(rest).ok_or("a string without its end")?;
                    self.tokens.push(Token::Text(value));
                    while chars.next_if(|(at, _)| *at <= start + length).is_some() {}
                }
                '#' => while chars.next_if(|(_, c)| *c != '\n').is_some() {},
                '/' if self.is_ambiguous(text.get(start + 1..).unwrap_or_default()) => {
                    return Err("a slash after a parenthesis".to_owned());
                }
                '/' if self.pattern_may_start() => {
                    let rest = text.get(start + 1..).unwrap_or_default();
                    let length = pattern(rest).ok_or("a pattern without its end")?;
                    self.tokens.push(Token::Text(String::new()));
                    while chars.next_if(|(at, _)| *at <= start + length).is_some() {}
                }
                c if c.is_alphanumeric() || c == '_' => {
                    let mut name = String::from(c);
                    while let Some((_, c)) =
                        chars.next_if(|(_, c)| c.is_alphanumeric() || *c == '_')
                    {
                        name.push(c);
                    }
                    self.tokens.push(Token::Name(name));
                }
                '\n' => self.tokens.push(Token::Sign(';')),
                c if c.is_whitespace() => {}
                c => self.tokens.push(Token::Sign(c)),
            }
        }
        Ok(())
    }

    /// After `)`, a slash divides, or starts a pattern: `if (x) /y/`. A pattern ends on its line.
    fn is_ambiguous(&self, rest: &str) -> bool {
        let line = rest.split('\n').next().unwrap_or_default();
        self.tokens.last() == Some(&Token::Sign(')')) && line.contains('/')
    }

    /// After a value, `/` divides; elsewhere it starts a pattern.
    fn pattern_may_start(&self) -> bool {
        match self.tokens.last() {
            Some(Token::Text(_)) => false,
            Some(Token::Name(name)) => {
                matches!(name.as_str(), "return" | "print" | "printf" | "in" | "case")
            }
            Some(Token::Sign(sign)) => !matches!(sign, ')' | ']' | '$'),
            None => true,
        }
    }

    fn effects(&self) -> Result<Vec<Effect>, String> {
        let mut effects = Vec::new();
        for (index, token) in self.tokens.iter().enumerate() {
            let next = self.tokens.get(index + 1);
            let before = index.checked_sub(1).and_then(|index| self.tokens.get(index));
            match token {
                Token::Name(name) if name == "system" => {
                    effects.push(self.system(index)?);
                }
                // `a | getline`, `print | "command"`, `|&`; `||` is an "or".
                Token::Sign('|')
                    if next != Some(&Token::Sign('|')) && before != Some(&Token::Sign('|')) =>
                {
                    effects.push(self.pipe(index)?);
                }
                Token::Sign('@') => return Err("the sign @".to_owned()),
                Token::Text(_) | Token::Name(_) | Token::Sign(_) => {}
            }
        }
        Ok(effects)
    }

    /// `system("command")`.
    fn system(&self, index: usize) -> Result<Effect, String> {
        match self.tokens.get(index + 1..index + 4) {
            Some([Token::Sign('('), Token::Text(code), Token::Sign(')')]) => Ok(script(code)),
            Some(_) | None => Err("system() on a value".to_owned()),
        }
    }

    /// A pipe from or to one string. Two strings side by side would be one command.
    fn pipe(&self, index: usize) -> Result<Effect, String> {
        let at =
            |offset: isize| index.checked_add_signed(offset).and_then(|it| self.tokens.get(it));
        let opens = matches!(at(-2), None | Some(Token::Sign('{' | '}' | ';' | '(' | '!' | '&')));
        let closes = matches!(at(2), None | Some(Token::Sign('}' | ';')));
        match (at(-1), at(1)) {
            (Some(Token::Text(code)), Some(Token::Name(name))) if name == "getline" && opens => {
                Ok(script(code))
            }
            (_, Some(Token::Text(code))) if closes => Ok(script(code)),
            _ => Err("a pipe with a value".to_owned()),
        }
    }
}

fn script(code: &str) -> Effect {
    Effect::Script { text: code.to_owned(), reader: SH }
}

/// The value of a string and the length of its text, the closing quote included.
fn string(text: &str) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, at + 1)),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                c @ ('"' | '\\' | '/') => value.push(c),
                // Rarer escapes: keep them from being read as commands.
                _ => value.push('\0'),
            },
            c => value.push(c),
        }
    }
    None
}

/// The length of a pattern's text, the closing slash included.
fn pattern(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '\n' => return None,
            '/' if !escaped => return Some(at + 1),
            _ => escaped = c == '\\' && !escaped,
        }
    }
    None
}
