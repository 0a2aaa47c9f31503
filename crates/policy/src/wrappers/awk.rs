//! `awk`: `system_effect()`, pipes and coprocesses in its programs run a shell.

use std::sync::LazyLock;

use super::effect::{Effect, SH};
use super::scan::{check_opaque_file, option_set, scan_options};
use crate::command::{SimpleCommand, Word};
use crate::options::OptionSet;
use crate::tables::has_word;

static AWK_OPTIONS: LazyLock<OptionSet> = LazyLock::new(|| option_set("awk"));

pub(super) fn awk_effects(command: &SimpleCommand) -> Vec<Effect> {
    let scan = match scan_options(&command.args, &AWK_OPTIONS) {
        Ok(scan) => scan,
        Err(odd) => return vec![Effect::unclear("awk", odd)],
    };
    if scan.has(&["l", "load", "i", "include", "D", "W", "o", "p", "d", "L"]) {
        return vec![Effect::unclear("awk", "an option that loads code or may have a value")];
    }
    let mut programs: Vec<&Word> = scan.values(&["e", "source"]).collect();
    let files = ["f", "file", "E", "exec"];
    if let Some(odd) = scan.values(&files).find_map(|file| check_opaque_file(file).err()) {
        return vec![Effect::unclear("awk", odd)];
    }
    if programs.is_empty() && !scan.has(&files) {
        programs.extend(command.args.get(scan.rest));
    }
    check_awk_programs(&programs)
}

/// Joins the programs by line ends and returns the effects of the result.
fn check_awk_programs(programs: &[&Word]) -> Vec<Effect> {
    let Some(texts) = programs.iter().map(|word| word.value()).collect::<Option<Vec<_>>>() else {
        return vec![Effect::unclear("awk", "a program of unknown value")];
    };
    match AwkProgram::read(&texts.join("\n")) {
        Ok(effects) => effects,
        Err(what) => vec![Effect::unclear("awk", what)],
    }
}

/// `true` if a program contains anything that could run a command.
fn could_run_command(text: &str) -> bool {
    ["system", "getline", "@"].iter().any(|it| text.contains(it))
        || text.replace("||", "").contains('|')
}

/// Words after which a slash may be a division or start a pattern, in some awk.
const AWK_KEYWORDS: &str = "BEGIN BEGINFILE END ENDFILE break case continue default delete exit for func function \
    getline if length next nextfile switch while";

/// A token of an awk program, as far as it matters for running commands.
#[derive(Debug, PartialEq, Eq)]
enum AwkToken {
    Text(String),
    Pattern,
    Name(String),
    Sign(char),
}

/// The meaning of a slash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlashMeaning {
    Divides,
    Starts,
    Either,
}

#[derive(Debug, Default)]
struct AwkProgram {
    tokens: Vec<AwkToken>,
}

impl AwkProgram {
    fn read(text: &str) -> Result<Vec<Effect>, String> {
        // Such a text runs nothing, whichever way it is tokenized.
        if !could_run_command(text) {
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
                    let (value, length) =
                        read_awk_string(rest).ok_or("a string without its end")?;
                    self.tokens.push(AwkToken::Text(value));
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
                    let length = self.read_slash(rest)?;
                    while chars.next_if(|(at, _)| *at <= start + length).is_some() {}
                }
                c if c.is_alphanumeric() || c == '_' => {
                    let mut name = String::from(c);
                    while let Some((_, c)) =
                        chars.next_if(|(_, c)| c.is_alphanumeric() || *c == '_')
                    {
                        name.push(c);
                    }
                    // `1system` is two tokens.
                    if c.is_ascii_digit() && !name.bytes().all(|b| b.is_ascii_digit()) {
                        return Err(format!("the number {name}"));
                    }
                    self.tokens.push(AwkToken::Name(name));
                }
                '\n' => self.tokens.push(AwkToken::Sign(';')),
                c if c.is_whitespace() => {}
                c => self.tokens.push(AwkToken::Sign(c)),
            }
        }
        Ok(())
    }

    /// Reads a slash. Returns the length of the pattern that it starts, or 0.
    fn read_slash(&mut self, rest: &str) -> Result<usize, String> {
        match self.slash_meaning() {
            SlashMeaning::Either if rest.contains('/') => {
                Err("a slash that divides or starts a pattern".to_owned())
            }
            // There is no second slash, so this one cannot start a pattern.
            SlashMeaning::Either | SlashMeaning::Divides => {
                self.tokens.push(AwkToken::Sign('/'));
                Ok(0)
            }
            SlashMeaning::Starts => {
                let length = awk_pattern_length(rest).ok_or("a pattern without its end")?;
                let text = rest.get(..length.saturating_sub(1)).unwrap_or_default();
                if !has_closed_brackets(text) {
                    return Err("a pattern with a bracket".to_owned());
                }
                self.tokens.push(AwkToken::Pattern);
                Ok(length)
            }
        }
    }

    /// Returns the meaning of a slash after the tokens so far, in every awk.
    fn slash_meaning(&self) -> SlashMeaning {
        match self.tokens.as_slice() {
            [] => SlashMeaning::Starts,
            [.., AwkToken::Text(_) | AwkToken::Sign(']')] => SlashMeaning::Divides,
            [.., AwkToken::Name(name)] => match name.as_str() {
                "return" | "print" | "printf" | "in" | "else" | "do" => SlashMeaning::Starts,
                name if has_word(AWK_KEYWORDS, name) => SlashMeaning::Either,
                _ => SlashMeaning::Divides,
            },
            [.., AwkToken::Sign('+'), AwkToken::Sign('+')]
            | [.., AwkToken::Sign('-'), AwkToken::Sign('-')] => SlashMeaning::Either,
            [.., AwkToken::Sign(sign)] if "{};(,!~&|=<>?:+-*%^".contains(*sign) => {
                SlashMeaning::Starts
            }
            _ => SlashMeaning::Either,
        }
    }

    fn effects(&self) -> Result<Vec<Effect>, String> {
        let mut effects = Vec::new();
        for (index, token) in self.tokens.iter().enumerate() {
            let next = self.tokens.get(index + 1);
            let before = index.checked_sub(1).and_then(|index| self.tokens.get(index));
            match token {
                AwkToken::Name(name) if name == "system" => {
                    effects.push(self.system_effect(index)?);
                }
                // `a | getline`, `print | "command"`, `|&`; `||` is an "or".
                AwkToken::Sign('|')
                    if next != Some(&AwkToken::Sign('|'))
                        && before != Some(&AwkToken::Sign('|')) =>
                {
                    effects.push(self.pipe_effect(index)?);
                }
                AwkToken::Sign('@') => return Err("the sign @".to_owned()),
                AwkToken::Text(_) | AwkToken::Pattern | AwkToken::Name(_) | AwkToken::Sign(_) => {}
            }
        }
        Ok(effects)
    }

    /// Returns the effect of `system("command")`.
    fn system_effect(&self, index: usize) -> Result<Effect, String> {
        match self.tokens.get(index + 1..index + 4) {
            Some([AwkToken::Sign('('), AwkToken::Text(code), AwkToken::Sign(')')]) => {
                Ok(shell_text(code))
            }
            Some(_) | None => Err("system() on a value".to_owned()),
        }
    }

    /// Returns the effect of a pipe from or to one string. Two adjacent strings would be one command.
    fn pipe_effect(&self, index: usize) -> Result<Effect, String> {
        let at =
            |offset: isize| index.checked_add_signed(offset).and_then(|it| self.tokens.get(it));
        let opens =
            matches!(at(-2), None | Some(AwkToken::Sign('{' | '}' | ';' | '(' | '!' | '&')));
        let closes = matches!(at(2), None | Some(AwkToken::Sign('}' | ';')));
        match (at(-1), at(1)) {
            (Some(AwkToken::Text(code)), Some(AwkToken::Name(name)))
                if name == "getline" && opens =>
            {
                Ok(shell_text(code))
            }
            (_, Some(AwkToken::Text(code))) if closes => Ok(shell_text(code)),
            _ => Err("a pipe with a value".to_owned()),
        }
    }
}

fn shell_text(code: &str) -> Effect {
    Effect::Script { text: code.to_owned(), reader: SH }
}

/// Returns the value of a string and the length of its text, including the closing quote.
fn read_awk_string(text: &str) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, at + 1)),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                c @ ('"' | '\\' | '/') => value.push(c),
                // A NUL for rarer escapes, so that the text is not read as commands.
                _ => value.push('\0'),
            },
            c => value.push(c),
        }
    }
    None
}

/// Returns the length of a pattern's text, including the closing slash.
fn awk_pattern_length(text: &str) -> Option<usize> {
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

/// `true` if every bracket expression of a pattern ends inside it, in every awk.
fn has_closed_brackets(pattern: &str) -> bool {
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
