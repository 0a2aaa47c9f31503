//! Expansions: variables, arithmetic, substitutions.
//!
//! As for words, each accepted form has the reason why it starts no program of its own.

use crate::strict::reader::{Proven, ShellReader, ends_word, is_in_name, is_name, starts_name};
use crate::strict::recognise::RawCommand;
use crate::strict::word::{RawWord, WordPart};

/// The surroundings of a `$` expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    /// No quotes: values are split and matched against files.
    None,
    /// Double quotes, ended by `"`.
    Double,
    /// A here-document: expansions as in double quotes, but `"` is text.
    Document,
}

impl Quotes {
    const fn are_there(self) -> bool {
        match self {
            Self::None => false,
            Self::Double | Self::Document => true,
        }
    }
}

/// The characters of an arithmetic expression beside numbers, names and parentheses.
const ARITHMETIC: &str = "+-*/%<>=!&|^~?:, \t";

impl ShellReader<'_> {
    /// `$…`: reads a variable, counts, computes, or runs a substitution whose commands are read
    /// like all others.
    pub(super) fn dollar(&mut self, word: &mut RawWord, quotes: Quotes) -> Proven<()> {
        let quoted = quotes.are_there();
        if self.take("$((") {
            // Arithmetic on numbers starts nothing; the names in it are checked to be numbers.
            self.arithmetic()?;
            self.may_break_off = true;
            word.parts.push(WordPart::Integer);
            return Ok(());
        }
        if self.take("$(") {
            let before = self.commands.len();
            self.list_until(')')?;
            word.parts.push(match output(self.commands.get(before..)) {
                Output::Count => WordPart::Count,
                Output::Counts if !quoted => WordPart::Sequence,
                Output::Counts | Output::Unknown => WordPart::Unknown { quoted },
            });
            return Ok(());
        }
        if self.take("${") {
            return self.parameter(word, quotes);
        }
        self.pos += 1;
        match self.peek() {
            Some(c) if starts_name(c) => {
                let name = self.take_while(is_in_name).to_owned();
                let is_set = self.set.contains(&name);
                word.parts.push(WordPart::Variable { name, quoted, is_set });
                Ok(())
            }
            Some('?' | '$' | '#') => {
                self.pos += 1;
                word.parts.push(WordPart::Count);
                Ok(())
            }
            Some('!') => {
                self.pos += 1;
                word.parts.push(WordPart::Unknown { quoted });
                Ok(())
            }
            Some('@' | '*' | '-' | '0'..='9') => self.refuse("a positional parameter"),
            // A lone `$` stands for itself.
            None => {
                word.push_text("$");
                Ok(())
            }
            Some(c) if ends_word(c) && c != '(' || (c == '"' && quotes == Quotes::Double) => {
                word.push_text("$");
                Ok(())
            }
            Some(_) => self.refuse("this use of `$`"),
        }
    }

    /// An arithmetic expression up to `))`: integers, names, operators. A name whose value is not a
    /// number would be evaluated as an expression, substitutions included.
    pub(super) fn arithmetic(&mut self) -> Proven<()> {
        let start = self.pos;
        let mut names = Vec::new();
        let mut open = 0_usize;
        loop {
            match self.peek() {
                Some(')') if open == 0 => break,
                Some('(') => open += 1,
                Some(')') => open -= 1,
                Some('$') => {
                    self.pos += 1;
                    let in_braces = self.take("{");
                    let name = self.take_while(is_in_name);
                    if !is_name(name) || (in_braces && !self.take("}")) {
                        return self.refuse("this arithmetic expression");
                    }
                    names.push(name.to_owned());
                    continue;
                }
                Some(c) if is_in_name(c) => {
                    let name = self.take_while(is_in_name);
                    if is_name(name) {
                        names.push(name.to_owned());
                    }
                    continue;
                }
                Some(c) if ARITHMETIC.contains(c) => {}
                Some(_) | None => return self.refuse("this arithmetic expression"),
            }
            self.pos += 1;
        }
        let text = self.since(start);
        if !self.take("))") {
            return self.refuse("this arithmetic expression");
        }
        let assigns = text.contains('=') || text.contains("++") || text.contains("--");
        if assigns {
            // Which of the names is assigned does not matter: each may be, and gets a number.
            self.assigned.extend(names.iter().map(|name| (name.clone(), None)));
            self.counted.extend(names.iter().cloned());
        }
        self.arithmetic.extend(names);
        Ok(())
    }

    /// `${name}` and its forms that only cut or replace text.
    fn parameter(&mut self, word: &mut RawWord, quotes: Quotes) -> Proven<()> {
        let quoted = quotes.are_there();
        let counts = self.take("#");
        let name = self.take_while(is_in_name).to_owned();
        if !is_name(&name) {
            return self.refuse("this form of `${…}`");
        }
        if self.take("}") {
            let is_set = self.set.contains(&name);
            let variable = WordPart::Variable { name, quoted, is_set };
            word.parts.push(if counts { WordPart::Count } else { variable });
            return Ok(());
        }
        if counts {
            return self.refuse("this form of `${…}`");
        }
        let operator = [":-", ":+", "-", "+", "%%", "%", "##", "#", "//", "/", ":", "^^", ",,"]
            .into_iter()
            .find(|operator| self.take(operator));
        match operator {
            Some(":-" | ":+" | "-" | "+") => self.alternative(quotes)?,
            // Patterns and replacements of plain characters: the value is cut, nothing runs.
            Some("%%" | "%" | "##" | "#" | "//" | "/") => {
                self.take_while(|c| c.is_ascii_alphanumeric() || "_-.*?/:,=@ ".contains(c));
            }
            // Digits alone: bash evaluates an offset as arithmetic.
            Some(":") => {
                self.bash_only("a substring")?;
                self.substring()?;
            }
            Some("^^" | ",,") => self.bash_only("a change of case")?,
            Some(_) | None => return self.refuse("this form of `${…}`"),
        }
        if !self.take("}") {
            return self.refuse("this form of `${…}`");
        }
        word.parts.push(WordPart::Unknown { quoted });
        Ok(())
    }

    /// `N` or `N:N` of `${x:N:N}`: decimal numbers.
    fn substring(&mut self) -> Proven<()> {
        let offset = self.take_while(|c| c.is_ascii_digit());
        let length = if self.take(":") { self.take_while(|c| c.is_ascii_digit()) } else { "0" };
        let is_decimal = |text: &str| text == "0" || !(text.is_empty() || text.starts_with('0'));
        if is_decimal(offset) && is_decimal(length) {
            Ok(())
        } else {
            self.refuse("this form of `${…}`")
        }
    }

    /// The text of `${x:-text}`. In double quotes bash and POSIX shells take `'` for text and `"`
    /// for quotes; without them, only plain characters have one reading.
    fn alternative(&mut self, quotes: Quotes) -> Proven<()> {
        let mut ignored = RawWord::default();
        loop {
            match self.peek() {
                None => return self.refuse("a missing `}`"),
                Some('}') => return Ok(()),
                Some('$') => self.nested(|reader| reader.dollar(&mut ignored, quotes))?,
                Some('"') if quotes != Quotes::Document => {
                    self.pos += 1;
                    self.take_while(|c| !matches!(c, '"' | '$' | '`' | '\\' | '{' | '}' | '\''));
                    if !self.take("\"") {
                        return self.refuse("quotes inside `${…}`");
                    }
                }
                Some('\'') if quotes == Quotes::Double => self.pos += 1,
                Some(c) if quotes.are_there() && !matches!(c, '"' | '`' | '\\' | '{') => {
                    self.pos += c.len_utf8();
                }
                Some(c) if c.is_ascii_alphanumeric() || "_-./:,@%+= ".contains(c) => self.pos += 1,
                Some(_) => return self.refuse("quotes inside `${…}`"),
            }
        }
    }

    /// `` `…` ``: the same as `$(…)` if nothing inside is quoted, escaped or a comment.
    pub(super) fn backticks(&mut self, word: &mut RawWord, quotes: Quotes) -> Proven<()> {
        self.pos += 1;
        let inside = self.rest().split('`').next().unwrap_or_default();
        if self.in_backticks || inside.contains(['\\', '\'', '"', '#', '\n']) {
            return self.refuse("quotes inside backticks");
        }
        self.in_backticks = true;
        let result = self.list_until('`');
        self.in_backticks = false;
        result?;
        word.parts.push(WordPart::Unknown { quoted: quotes.are_there() });
        Ok(())
    }
}

/// The output of a substitution.
enum Output {
    /// One number.
    Count,
    /// Numbers.
    Counts,
    /// Any text.
    Unknown,
}

/// Judges the output of commands: `nproc` and `seq` with counts print numbers.
fn output(commands: Option<&[RawCommand]>) -> Output {
    let Some([RawCommand { assignments, words, redirects, .. }]) = commands else {
        return Output::Unknown;
    };
    let words: Option<Vec<&str>> = words.iter().map(RawWord::literal).collect();
    let is_count = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    match words.as_deref() {
        Some(_) if !assignments.is_empty() || !redirects.is_empty() => Output::Unknown,
        Some(["nproc"]) => Output::Count,
        Some(["seq", counts @ ..]) if counts.iter().all(is_count) => Output::Counts,
        Some(_) | None => Output::Unknown,
    }
}
