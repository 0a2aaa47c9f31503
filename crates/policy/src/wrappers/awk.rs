//! `awk`: `system()`, pipes and coprocesses in its programs run a shell.

use std::sync::LazyLock;

use super::effect::{Effect, SH};
use super::scan::{opaque_file, option_set, scan};
use crate::command::{SimpleCommand, Word};
use crate::options::OptionSet;
use crate::tables::has_word;

static AWK: LazyLock<OptionSet> = LazyLock::new(|| option_set("awk"));

pub(super) fn awk(command: &SimpleCommand) -> Vec<Effect> {
    let scan = match scan(&command.args, &AWK) {
        Ok(scan) => scan,
        Err(odd) => return vec![Effect::unclear("awk", odd)],
    };
    if scan.has(&["l", "load", "i", "include", "D", "W", "o", "p", "d", "L"]) {
        return vec![Effect::unclear("awk", "an option that loads code or may have a value")];
    }
    let mut programs: Vec<&Word> = scan.values(&["e", "source"]).collect();
    let files = ["f", "file", "E", "exec"];
    if let Some(odd) = scan.values(&files).find_map(|file| opaque_file(file).err()) {
        return vec![Effect::unclear("awk", odd)];
    }
    if programs.is_empty() && !scan.has(&files) {
        programs.extend(command.args.get(scan.rest));
    }
    check(&programs)
}

/// The programs are read as one, each on lines of its own.
fn check(programs: &[&Word]) -> Vec<Effect> {
    let Some(texts) = programs.iter().map(|word| word.value()).collect::<Option<Vec<_>>>() else {
        return vec![Effect::unclear("awk", "a program of unknown value")];
    };
    match Program::read(&texts.join("\n")) {
        Ok(effects) => effects,
        Err(what) => vec![Effect::unclear("awk", what)],
    }
}

/// Whether a program has, anywhere, what it takes to run a command.
fn could_run(text: &str) -> bool {
    ["system", "getline", "@"].iter().any(|it| text.contains(it))
        || text.replace("||", "").contains('|')
}

/// Words, to some awk, after which a slash may be either.
const KEYWORDS: &str = "BEGIN BEGINFILE END ENDFILE break case continue default delete exit for func function \
    getline if length next nextfile switch while";

/// A piece of an awk program, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    Text(String),
    Pattern,
    Name(String),
    Sign(char),
}

/// What a slash is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slash {
    Divides,
    Starts,
    Either,
}

#[derive(Debug, Default)]
struct Program {
    tokens: Vec<Token>,
}

impl Program {
    fn read(text: &str) -> Result<Vec<Effect>, String> {
        // However such a text is read, it runs nothing.
        if !could_run(text) {
            return Ok(Vec::new());
        }
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
                '#' => {
                    let mut last = c;
                    while let Some((_, c)) = chars.next_if(|(_, c)| *c != '\n') {
                        last = c;
                    }
                    if last == '\\' {
                        return Err("a comment that ends in a backslash".to_owned());
                    }
                }
                '\\' | '\r' => return Err("a backslash or a carriage return".to_owned()),
                '/' => {
                    let rest = text.get(start + 1..).unwrap_or_default();
                    let length = self.slash(rest)?;
                    while chars.next_if(|(at, _)| *at <= start + length).is_some() {}
                }
                c if c.is_alphanumeric() || c == '_' => {
                    let mut name = String::from(c);
                    while let Some((_, c)) =
                        chars.next_if(|(_, c)| c.is_alphanumeric() || *c == '_')
                    {
                        name.push(c);
                    }
                    // `1system` is two words.
                    if c.is_ascii_digit() && !name.bytes().all(|b| b.is_ascii_digit()) {
                        return Err(format!("the number {name}"));
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

    /// Takes a slash; the length of the pattern that it starts, or nothing.
    fn slash(&mut self, rest: &str) -> Result<usize, String> {
        match self.meaning() {
            Slash::Either if rest.contains('/') => {
                Err("a slash that divides or starts a pattern".to_owned())
            }
            // A pattern would have an end.
            Slash::Either | Slash::Divides => {
                self.tokens.push(Token::Sign('/'));
                Ok(0)
            }
            Slash::Starts => {
                let length = pattern(rest).ok_or("a pattern without its end")?;
                let text = rest.get(..length.saturating_sub(1)).unwrap_or_default();
                if !brackets_are_closed(text) {
                    return Err("a pattern with a bracket".to_owned());
                }
                self.tokens.push(Token::Pattern);
                Ok(length)
            }
        }
    }

    /// What a slash is after the tokens so far, to every awk.
    fn meaning(&self) -> Slash {
        match self.tokens.as_slice() {
            [] => Slash::Starts,
            [.., Token::Text(_) | Token::Sign(']')] => Slash::Divides,
            [.., Token::Name(name)] => match name.as_str() {
                "return" | "print" | "printf" | "in" | "else" | "do" => Slash::Starts,
                name if has_word(KEYWORDS, name) => Slash::Either,
                _ => Slash::Divides,
            },
            [.., Token::Sign('+'), Token::Sign('+')] | [.., Token::Sign('-'), Token::Sign('-')] => {
                Slash::Either
            }
            [.., Token::Sign(sign)] if "{};(,!~&|=<>?:+-*%^".contains(*sign) => Slash::Starts,
            _ => Slash::Either,
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
                Token::Text(_) | Token::Pattern | Token::Name(_) | Token::Sign(_) => {}
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

/// Whether every bracket expression of a pattern ends inside it, to every awk.
fn brackets_are_closed(pattern: &str) -> bool {
    let mut text = pattern.to_owned();
    for class in CLASSES {
        text = text.replace(class, "a");
    }
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '[' => {
                chars.next_if_eq(&'^');
                let mut first = true;
                loop {
                    match chars.next() {
                        Some(']') if !first => break,
                        Some('\\')
                            if !matches!(chars.next(), Some('/' | '.' | 't' | 'n' | '-')) =>
                        {
                            return false;
                        }
                        None | Some(']' | '[') => return false,
                        Some(_) => first = false,
                    }
                }
            }
            _ => {}
        }
    }
    true
}

const CLASSES: &[&str] = &[
    "[:alpha:]",
    "[:digit:]",
    "[:alnum:]",
    "[:space:]",
    "[:blank:]",
    "[:upper:]",
    "[:lower:]",
    "[:punct:]",
    "[:xdigit:]",
];
