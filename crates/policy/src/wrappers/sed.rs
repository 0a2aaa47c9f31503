//! `sed`: its `e` command and its `e` flag run a shell.

use std::sync::LazyLock;

use super::effect::{Effect, SH};
use super::scan::{check_opaque_file, option_set, scan_options};
use crate::command::{SimpleCommand, Word};
use crate::options::OptionSet;

static SED_OPTIONS: LazyLock<OptionSet> = LazyLock::new(|| option_set("sed"));

pub(super) fn sed_effects(command: &SimpleCommand) -> Vec<Effect> {
    match find_sed_scripts(&command.args) {
        Ok(scripts) => scripts.iter().flat_map(check_sed_script).collect(),
        Err(odd) => vec![Effect::unclear("sed", odd)],
    }
}

/// Finds the scripts in the arguments: each `-e`, or the first operand.
fn find_sed_scripts(args: &[Word]) -> Result<Vec<Word>, String> {
    let mut found = Vec::new();
    let mut operands = Vec::new();
    let mut from_file = false;
    let mut rest = args;
    // Options may follow operands.
    loop {
        let rest_now: Vec<Word> = rest.iter().map(remove_backup_suffix).collect();
        let scan = scan_options(&rest_now, &SED_OPTIONS)?;
        for file in scan.values(&["f", "file"]) {
            check_opaque_file(file)?;
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

/// Removes the suffix of `-i.bak`. The value of `-i` is always attached; other letters may come before
/// the `i`.
fn remove_backup_suffix(word: &Word) -> Word {
    let cluster = word.value().and_then(|text| text.strip_prefix('-'));
    let is_flag = |letter: char| SED_OPTIONS.takes_next(&format!("-{letter}")) == Some(false);
    let end = cluster.and_then(|text| text.find(|c| !is_flag(c) || c == 'i'));
    match (cluster, end) {
        (Some(text), Some(end)) if text.get(end..).is_some_and(|it| it.starts_with('i')) => {
            Word::literal(format!("-{}i", text.get(..end).unwrap_or_default()))
        }
        _ => word.clone(),
    }
}

fn check_sed_script(word: &Word) -> Vec<Effect> {
    let Some(text) = word.value() else {
        return vec![Effect::unclear("sed", "a script of unknown value")];
    };
    // Such a script would continue in the next one.
    if text.ends_with('\\') {
        return vec![Effect::unclear("sed", "a script that ends in a backslash")];
    }
    match SedScript::new(text).read() {
        Ok(codes) => codes.into_iter().map(|text| Effect::Script { text, reader: SH }).collect(),
        Err(what) => vec![Effect::unclear("sed", what)],
    }
}

/// The reader of one script.
struct SedScript<'t> {
    chars: std::iter::Peekable<std::str::Chars<'t>>,
}

impl<'t> SedScript<'t> {
    fn new(text: &'t str) -> Self {
        Self { chars: text.chars().peekable() }
    }

    /// Returns the command lines of all `e` commands.
    fn read(&mut self) -> Result<Vec<String>, String> {
        let mut codes = Vec::new();
        loop {
            self.skip(|c| c.is_whitespace() || matches!(c, ';' | '{' | '}'));
            self.skip_addresses()?;
            let Some(command) = self.chars.next() else {
                return Ok(codes);
            };
            match command {
                'e' => codes.push(self.read_code()?),
                's' => self.read_substitute()?,
                'y' => {
                    let separator = self.read_separator()?;
                    self.skip_replacement(separator)?;
                    self.skip_replacement(separator)?;
                }
                'a' | 'i' | 'c' => self.skip_text()?,
                'r' | 'R' | 'w' | 'W' | '#' => drop(self.read_line()),
                ':' | 'b' | 't' | 'T' => self.read_label(command)?,
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

    fn read_line(&mut self) -> String {
        std::iter::from_fn(|| self.chars.next_if(|c| *c != '\n')).collect()
    }

    /// Reads the command line of an `e`. sed would remove backslashes from it, or continue it.
    fn read_code(&mut self) -> Result<String, String> {
        let text = self.read_line();
        match text.trim() {
            "" => Err("the command e".to_owned()),
            text if text.contains('\\') => Err("the command e with a backslash".to_owned()),
            text => Ok(text.to_owned()),
        }
    }

    /// Reads a label. The end of an unusual label depends on the sed.
    fn read_label(&mut self, command: char) -> Result<(), String> {
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

    /// Skips the text of `a`, `i` or `c`, which continues after a line that ends in a backslash.
    fn skip_text(&mut self) -> Result<(), String> {
        loop {
            let line = self.read_line();
            let trimmed = line.trim_end();
            let slashes = trimmed.len() - trimmed.trim_end_matches('\\').len();
            if slashes > 0 && trimmed.len() < line.len() {
                return Err("a text with blanks after a backslash".to_owned());
            }
            if slashes.is_multiple_of(2) || self.chars.next().is_none() {
                return Ok(());
            }
        }
    }

    /// Reads the character that separates the parts of a command.
    fn read_separator(&mut self) -> Result<char, String> {
        match self.chars.next() {
            None | Some('[' | ']' | '\\' | '\n') => Err("a separator".to_owned()),
            Some(separator) => Ok(separator),
        }
    }

    /// Skips up to two addresses and a `!`.
    fn skip_addresses(&mut self) -> Result<(), String> {
        loop {
            match self.chars.peek() {
                Some('/') => {
                    self.chars.next();
                    self.skip_pattern('/')?;
                    self.skip(|c| matches!(c, 'I' | 'M'));
                }
                Some('\\') => {
                    self.chars.next();
                    let separator = self.read_separator()?;
                    self.skip_pattern(separator)?;
                    self.skip(|c| matches!(c, 'I' | 'M'));
                }
                Some(c) if c.is_ascii_digit() || matches!(c, '$' | ',' | '~' | '+' | '!' | ' ') => {
                    self.chars.next();
                }
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// Skips to after the next separator that is not escaped and not inside a bracket expression.
    fn skip_pattern(&mut self, separator: char) -> Result<(), String> {
        while let Some(c) = self.chars.next() {
            match c {
                c if c == separator => return Ok(()),
                '\\' => self.skip_escaped()?,
                '[' => self.skip_bracket_expression()?,
                '\n' => break,
                _ => {}
            }
        }
        Err("a pattern without its end".to_owned())
    }

    /// Skips the character after a backslash. `\c` takes one more, which could be any character.
    fn skip_escaped(&mut self) -> Result<(), String> {
        match self.chars.next() {
            None | Some('c') => Err("an escape".to_owned()),
            Some(_) => Ok(()),
        }
    }

    /// Skips the rest of a bracket expression, in which a separator has no meaning.
    fn skip_bracket_expression(&mut self) -> Result<(), String> {
        self.chars.next_if_eq(&'^');
        self.chars.next_if_eq(&']');
        while let Some(c) = self.chars.next() {
            match (c, self.chars.peek()) {
                (']', _) => return Ok(()),
                ('[', Some(':')) => self.skip_class()?,
                ('\n', _) | ('[', Some('.' | '=')) | ('\\', Some(']')) => {
                    return Err("a bracket expression".to_owned());
                }
                _ => {}
            }
        }
        Err("a bracket expression without its end".to_owned())
    }

    /// Skips the rest of a class such as `[:alpha:]`.
    fn skip_class(&mut self) -> Result<(), String> {
        self.chars.next();
        self.skip(|c| c.is_ascii_lowercase());
        match (self.chars.next(), self.chars.next()) {
            (Some(':'), Some(']')) => Ok(()),
            _ => Err("a character class".to_owned()),
        }
    }

    fn read_substitute(&mut self) -> Result<(), String> {
        let separator = self.read_separator()?;
        self.skip_pattern(separator)?;
        self.skip_replacement(separator)?;
        while let Some(flag) = self.chars.next_if(|c| !matches!(c, ';' | '\n' | '}' | '#')) {
            match flag {
                ' ' | '\t' | 'g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9' => {}
                'w' => {
                    self.read_line();
                }
                other => return Err(format!("the flag {other}")),
            }
        }
        Ok(())
    }

    /// Skips to after the next separator that is not escaped. Brackets have no meaning here.
    fn skip_replacement(&mut self, separator: char) -> Result<(), String> {
        while let Some(c) = self.chars.next() {
            match c {
                c if c == separator => return Ok(()),
                '\\' => self.skip_escaped()?,
                '\n' => break,
                _ => {}
            }
        }
        Err("a replacement without its end".to_owned())
    }
}
