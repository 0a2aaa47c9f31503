//! `awk` and `sed`: the constructs in their programs that run a shell.
//!
//! In awk these are `system()`, pipes and coprocesses; in sed the `e` command and the `e` flag.

use std::sync::LazyLock;

use super::prefix::{check_opaque_file, option_set, scan_options};
use crate::command::{Effect, SH, SimpleCommand, Word};
use crate::options::{OptionSet, has_word};

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

    /// Returns the effect of a pipe from or to one string. Two adjacent strings would be one
    /// command.
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

// `sed`.

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

/// Removes the suffix of `-i.bak`. The value of `-i` is always attached; other letters may come
/// before the `i`.
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
