//! `awk` and `sed`: the constructs in their programs that run a shell. A program that is not
//! understood is uncertain.

use std::iter::Peekable;
use std::str::Chars;

use crate::command::{Effect, SH, SimpleCommand, Word};

/// Returns the effects of `awk`: `system()`, pipes and coprocesses run a shell.
pub(super) fn awk_effects(command: &SimpleCommand) -> Vec<Effect> {
    let mut args = command.args.iter();
    while let Some(word) = args.next() {
        let text = word.text.as_str();
        match text {
            "-F" | "-v" => drop(args.next()),
            "--" => {}
            // A file of code is opaque, unless it is the input of this command.
            "-f" | "--file" => {
                let is_file = |path: &str| !path.contains("/dev") && !path.contains("/proc");
                let is_opaque = args.next().and_then(Word::value).is_some_and(is_file);
                return if is_opaque { Vec::new() } else { unclear("awk", "its program") };
            }
            _ if text.starts_with("-F") || text.starts_with("-v") => {}
            _ if text.starts_with("--field-separator=") || text.starts_with("--assign=") => {}
            _ if text.starts_with('-') => return unclear("awk", format!("the option {text}")),
            _ => {
                return match word.value() {
                    Some(text) => read_awk(text).unwrap_or_else(|what| unclear("awk", what)),
                    None => unclear("awk", "a program of unknown value"),
                };
            }
        }
    }
    Vec::new()
}

fn unclear(name: &str, what: impl Into<String>) -> Vec<Effect> {
    vec![Effect::unclear(name, what)]
}

/// The mark of a string in a program without its texts.
const TEXT: char = '\u{1}';

/// Returns the commands in an awk program.
fn read_awk(text: &str) -> Result<Vec<Effect>, &'static str> {
    let could_run = ["system", "getline", "@"].iter().any(|it| text.contains(it))
        || text.replace("||", "").contains('|');
    if !could_run {
        return Ok(Vec::new());
    }
    let (code, texts) = remove_awk_texts(text)?;
    if code.contains('@') {
        return Err("the sign @");
    }
    // Each use takes the strings in front of it or behind it, which are counted by their marks.
    let text_at = |at: usize| {
        let index = code.get(..at).unwrap_or_default().matches(TEXT).count();
        texts.get(index).cloned().unwrap_or_default()
    };
    let mut effects = Vec::new();
    let mut run = |text: String| effects.push(Effect::Script { text, reader: SH });
    for (at, _) in code.match_indices("system") {
        if !code.get(at..).unwrap_or_default().starts_with("system(\u{1})") {
            return Err("system() on a value");
        }
        run(text_at(at));
    }
    for (at, _) in code.replace("||", "  ").match_indices('|') {
        let before = code.get(..at).unwrap_or_default();
        let behind = code.get(at + 1..).unwrap_or_default().trim_start_matches('&');
        let ends = |rest: &str| rest.is_empty() || rest.starts_with(['}', ';']);
        let starts = |rest: &str| rest.is_empty() || rest.ends_with(['{', '}', ';', '(', '!', '&']);
        if behind.starts_with("getline") && before.strip_suffix(TEXT).is_some_and(starts) {
            run(text_at(at - TEXT.len_utf8()));
        } else if behind.strip_prefix(TEXT).is_some_and(ends) {
            run(text_at(at));
        } else {
            return Err("a pipe with a value");
        }
    }
    Ok(effects)
}

/// Returns an awk program without blanks, comments and patterns, with a mark for each string, and
/// the strings.
fn remove_awk_texts(text: &str) -> Result<(String, Vec<String>), &'static str> {
    let mut code = String::new();
    let mut texts = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                texts.push(read_until('"', &mut chars)?);
                code.push(TEXT);
            }
            '#' => while chars.next_if(|c| *c != '\n').is_some() {},
            '\\' | '\r' => return Err("a backslash or a carriage return"),
            // Behind these signs a slash starts a pattern; elsewhere it may divide.
            '/' if code.is_empty() || code.ends_with(['{', '}', ';', '(', ',', '!', '~', '&']) => {
                let pattern = read_until('/', &mut chars)?;
                if pattern.matches('[').count() != pattern.matches(']').count() {
                    return Err("a pattern with a bracket");
                }
                code.push('0');
            }
            '/' if chars.clone().any(|c| c == '/') => return Err("a slash"),
            '\n' => code.push(';'),
            c if c.is_whitespace() => {}
            c => code.push(c),
        }
    }
    Ok((code, texts))
}

/// Reads up to and including the delimiter, and returns the text without backslashes before it.
fn read_until(delimiter: char, chars: &mut Peekable<Chars<'_>>) -> Result<String, &'static str> {
    let mut text = String::new();
    loop {
        match chars.next().ok_or("a text without its end")? {
            c if c == delimiter => return Ok(text),
            '\\' => match chars.next().ok_or("a text without its end")? {
                c if c == delimiter => text.push(c),
                c => text.extend(['\\', c]),
            },
            c => text.push(c),
        }
    }
}

/// Returns the effects of `sed`: the `e` command and the `e` flag run a shell.
pub(super) fn sed_effects(command: &SimpleCommand) -> Vec<Effect> {
    let mut scripts = Vec::new();
    let mut operands = Vec::new();
    let mut args = command.args.iter();
    while let Some(word) = args.next() {
        let text = word.text.as_str();
        match text {
            "-e" | "--expression" => scripts.extend(args.next().cloned()),
            "--quiet" | "--silent" | "--regexp-extended" | "--null-data" | "--separate" | "--" => {}
            _ if text.starts_with("--in-place") => {}
            _ if text.starts_with("--") => match text.strip_prefix("--expression=") {
                Some(code) => scripts.push(Word { text: code.to_owned(), ..word.clone() }),
                None => return unclear("sed", format!("the option {text}")),
            },
            _ if text.len() > 1 && text.starts_with('-') => {
                let end = text.find(['i', 'e', 'f', 'l']).unwrap_or(text.len());
                let rest = text.get(end..).unwrap_or_default();
                match rest.strip_prefix('e') {
                    Some("") => scripts.extend(args.next().cloned()),
                    Some(code) => scripts.push(Word { text: code.to_owned(), ..word.clone() }),
                    None if rest.starts_with(['f', 'l']) => {
                        return unclear("sed", format!("the option {text}"));
                    }
                    None => {}
                }
            }
            _ => operands.push(word.clone()),
        }
    }
    if scripts.is_empty() {
        scripts.extend(operands.into_iter().take(1));
    }
    scripts.iter().flat_map(sed_script_effects).collect()
}

fn sed_script_effects(script: &Word) -> Vec<Effect> {
    let Some(text) = script.value() else { return unclear("sed", "a script of unknown value") };
    // Without this letter a script has neither the command nor the flag.
    if !text.contains('e') {
        return Vec::new();
    }
    let mut reader = SedReader { chars: text.chars().peekable(), commands: Vec::new() };
    match reader.read() {
        Ok(()) => {
            let script = |text| Effect::Script { text, reader: SH };
            reader.commands.into_iter().map(script).collect()
        }
        Err(what) => unclear("sed", what),
    }
}

struct SedReader<'t> {
    chars: Peekable<Chars<'t>>,
    /// The shell commands of the script.
    commands: Vec<String>,
}

impl SedReader<'_> {
    fn read(&mut self) -> Result<(), &'static str> {
        loop {
            self.skip(" \t\n;}");
            self.skip_address()?;
            let Some(command) = self.chars.next() else { return Ok(()) };
            match command {
                's' => self.read_substitution()?,
                'y' => {
                    self.read_parts()?;
                }
                'e' => {
                    let text = self.rest_of_line();
                    self.commands.push(text);
                }
                'a' | 'i' | 'c' => {
                    if self.rest_of_line().ends_with('\\') && self.rest_of_line().contains('\\') {
                        return Err("a text of several lines");
                    }
                }
                '#' | 'r' | 'w' => drop(self.rest_of_line()),
                ':' | 'b' | 't' | 'T' => {
                    // Some versions end a label at a blank or a semicolon.
                    let mut label = String::new();
                    while let Some(c) = self.chars.next_if(|c| !"\n;}".contains(*c)) {
                        label.push(c);
                    }
                    if label.trim().contains(' ') || label.trim().len() > 8 {
                        return Err("an odd label");
                    }
                    if command != ':' && self.chars.peek() == Some(&'}') && !label.is_empty() {
                        return Err("an odd label");
                    }
                }
                '{' | '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'l' | 'n' | 'N' | 'p' | 'P'
                | 'q' | 'Q' | 'x' | 'z' => self.skip("0123456789"),
                _ => return Err("an unknown command"),
            }
        }
    }

    fn skip(&mut self, signs: &str) {
        while self.chars.next_if(|c| signs.contains(*c)).is_some() {}
    }

    fn rest_of_line(&mut self) -> String {
        let mut line = String::new();
        for c in self.chars.by_ref().take_while(|c| *c != '\n') {
            line.push(c);
        }
        line
    }

    fn skip_address(&mut self) -> Result<(), &'static str> {
        loop {
            self.skip("0123456789$,~+! \tIM");
            match self.chars.peek() {
                Some('/') => {
                    self.chars.next();
                    self.read_part('/')?;
                }
                Some('\\') => return Err("an odd address"),
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// Reads the text up to a delimiter, in which brackets must be closed and must not hide one.
    fn read_part(&mut self, delimiter: char) -> Result<(), &'static str> {
        let text = read_until(delimiter, &mut self.chars)?;
        if text.contains("\\c") || text.matches('[').count() != text.matches(']').count() {
            return Err("a bracket");
        }
        Ok(())
    }

    /// Reads the two parts of `s` or `y`.
    fn read_parts(&mut self) -> Result<(), &'static str> {
        let delimiter = self.chars.next().ok_or("a command without its end")?;
        if delimiter.is_alphanumeric() || "\\\n[]; ".contains(delimiter) {
            return Err("an odd delimiter");
        }
        self.read_part(delimiter)?;
        self.read_part(delimiter)
    }

    fn read_substitution(&mut self) -> Result<(), &'static str> {
        self.read_parts()?;
        while let Some(flag) = self.chars.next_if(|c| !"\n;}".contains(*c)) {
            match flag {
                'e' => return Err("the flag e"),
                'w' => drop(self.rest_of_line()),
                _ => {}
            }
        }
        Ok(())
    }
}
