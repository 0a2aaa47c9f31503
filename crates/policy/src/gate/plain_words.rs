//! The plain-words subset: the lines that an allow list accepts on a host without the gate.
//!
//! Accepted are simple commands of literal words, joined by `|`, `&&`, `||`, `;` and line ends,
//! with redirections to literal files. In such a line the names that are read are the names that
//! the shell starts. Everything else is refused, with the construct in the message.

use thiserror::Error;

use super::verdict::StartRefusal;
use crate::command::{Redirect, SimpleCommand, Word};

/// Words at the beginning of a command that begin or end a construct of the shell.
const KEYWORDS: [&str; 22] = [
    "!", "{", "}", "[[", "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done",
    "case", "esac", "select", "function", "time", "coproc", "in", "((",
];

/// The reason why a line is not accepted on a host without the gate.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlainWordsError {
    /// The line is not in the subset.
    #[error(
        "{construct} cannot be judged without the exec gate; \
         write plain words"
    )]
    Construct {
        /// The construct, in words that a user of the shell knows.
        construct: String,
    },
    /// A program is not listed.
    #[error("{0}")]
    Start(StartRefusal),
}

impl PlainWordsError {
    pub(super) fn new(construct: impl Into<String>) -> Self {
        Self::Construct { construct: construct.into() }
    }

    /// Returns the stable code word of the refusal.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Construct { .. } => "not_plain_words",
            Self::Start(refusal) => refusal.code(),
        }
    }
}

/// Reads a text of the subset.
pub(super) fn read_plain_words(text: &str) -> Result<Vec<SimpleCommand>, PlainWordsError> {
    let mut reader = PlainReader { rest: text, commands: Vec::new() };
    reader.read()?;
    Ok(reader.commands)
}

#[derive(Debug)]
struct PlainReader<'t> {
    rest: &'t str,
    commands: Vec<SimpleCommand>,
}

/// The end of a simple command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    /// `;` or a line end: a command may follow.
    End,
    /// `|`, `&&` or `||`: a command must follow.
    Joint,
    /// No more commands follow in the text.
    Text,
}

impl PlainReader<'_> {
    fn read(&mut self) -> Result<(), PlainWordsError> {
        let mut before = Separator::End;
        loop {
            let command = self.read_command()?;
            let separator = self.read_separator()?;
            let is_line_end = separator != Separator::Joint;
            match command {
                Some(command) => self.commands.push(command),
                // Empty lines, also after `&&`.
                None if is_line_end && before == Separator::End => {}
                None => return Err(PlainWordsError::new("a line that ends in an operator")),
            }
            if separator == Separator::Text {
                return Ok(());
            }
            before = separator;
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Removes a text at the beginning of the rest.
    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn read_separator(&mut self) -> Result<Separator, PlainWordsError> {
        if self.rest.is_empty() {
            return Ok(Separator::Text);
        }
        let is_joint =
            self.take("&&") || self.take("||") || (!self.rest.starts_with("|&") && self.take("|"));
        if is_joint {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n']);
            return Ok(Separator::Joint);
        }
        if (!self.rest.starts_with(";;") && self.take(";")) || self.take("\n") {
            return Ok(Separator::End);
        }
        let end = self.rest.char_indices().nth(1).map_or(self.rest.len(), |(at, _)| at);
        Err(PlainWordsError::new(format!("`{}`", self.rest[..end].escape_default())))
    }

    /// Reads a simple command; `None` if there is no word before the next separator.
    fn read_command(&mut self) -> Result<Option<SimpleCommand>, PlainWordsError> {
        let mut words = Vec::new();
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.read_redirect()? {
                redirects.push(redirect);
                continue;
            }
            match self.read_word()? {
                Some(word) => words.push(word),
                None => break,
            }
        }
        let Some(program) = words.first() else {
            return match redirects.is_empty() {
                true => Ok(None),
                false => Err(PlainWordsError::new("a redirection without a command")),
            };
        };
        check_program(program)?;
        let command = SimpleCommand::from_words(words);
        Ok(command.map(|command| SimpleCommand { redirects, ..command }))
    }

    /// Reads `[0-9]<`, `>`, `>>`, `&>`, with a literal file or a descriptor behind it.
    fn read_redirect(&mut self) -> Result<Option<Redirect>, PlainWordsError> {
        let rest = self.rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let has_number = rest.len() < self.rest.len();
        let operators = [("<<", false), ("<>", false), ("<(", false), (">(", false), (">|", false)];
        let is_other = operators.iter().any(|(operator, _)| rest.starts_with(operator));
        let operator = ["&>>", "&>", ">>", ">&", "<&", ">", "<"]
            .into_iter()
            .find(|operator| rest.starts_with(operator));
        let Some(operator) = operator.filter(|it| !(has_number && it.starts_with('&'))) else {
            return Ok(None);
        };
        if is_other {
            let end = rest.len().min(2);
            return Err(PlainWordsError::new(format!("`{}`", &rest[..end])));
        }
        self.rest = &rest[operator.len()..];
        self.skip_blanks();
        let Some(word) = self.read_word()? else {
            return Err(PlainWordsError::new("a redirection without a file"));
        };
        if operator == ">&" || operator == "<&" {
            let is_descriptor = word.text.parse::<u16>().is_ok() || word.is("-");
            let error = || PlainWordsError::new(format!("`{operator}` with a file"));
            return is_descriptor.then_some(Some(Redirect::Duplicate)).ok_or_else(error);
        }
        check_file(&word)?;
        Ok(Some(if operator == "<" { Redirect::Read(word) } else { Redirect::Write(word) }))
    }

    /// Reads a word; `None` at a separator or at the end of the text.
    fn read_word(&mut self) -> Result<Option<Word>, PlainWordsError> {
        let start = self.rest;
        let mut text = String::new();
        let mut quoted = false;
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '|' | '&' | '<' | '>' => break,
                '\'' => text.push_str(self.read_quoted('\'', &[])?),
                '"' => text.push_str(self.read_quoted('"', &['$', '`', '\\', '!'])?),
                c if is_plain(c) => {
                    text.push(c);
                    self.rest = &self.rest[c.len_utf8()..];
                    continue;
                }
                // `[` and `]` alone are the program `test`.
                '[' | ']' if is_alone(start, self.rest) => {
                    text.push(c);
                    self.rest = &self.rest[1..];
                    continue;
                }
                c => return Err(PlainWordsError::new(describe(c))),
            }
            quoted = true;
        }
        let is_empty = text.is_empty() && !quoted;
        Ok((!is_empty).then(|| Word { quoted, ..Word::literal(text) }))
    }

    /// Reads a text in quotes that contains none of these characters.
    fn read_quoted(&mut self, quote: char, special: &[char]) -> Result<&str, PlainWordsError> {
        let body = &self.rest[1..];
        let end = body.find(quote);
        let Some(end) = end else {
            return Err(PlainWordsError::new("a quote that is not closed"));
        };
        let text = &body[..end];
        match text.find(special).and_then(|at| text[at..].chars().next()) {
            Some(c) => Err(PlainWordsError::new(describe(c))),
            None => {
                self.rest = &body[end + 1..];
                Ok(text)
            }
        }
    }
}

/// `true` if one character is a whole word.
fn is_alone(start: &str, rest: &str) -> bool {
    let next = rest.chars().nth(1);
    start.len() == rest.len() && next.is_none_or(|c| " \t\n;".contains(c))
}

/// `true` for characters that mean themselves in every shell and locale.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c) || (!c.is_ascii() && c.is_alphanumeric())
}

fn describe(c: char) -> String {
    match c {
        '$' | '`' => format!("an expansion (`{c}`)"),
        '*' | '?' | '[' | ']' => format!("a file name pattern (`{c}`)"),
        '(' | ')' | '{' | '}' => format!("a compound command or brace expansion (`{c}`)"),
        '#' => "a comment".to_owned(),
        '\\' => "a backslash".to_owned(),
        c => format!("`{}`", c.escape_default()),
    }
}

/// Refuses keywords and assignments. The name must be a word without quotes, as a quoted one is
/// never a keyword but reads like one.
fn check_program(program: &Word) -> Result<(), PlainWordsError> {
    let name = &program.text;
    if KEYWORDS.contains(&name.as_str()) {
        return Err(PlainWordsError::new(format!("`{name}`")));
    }
    if program.quoted || name.is_empty() {
        return Err(PlainWordsError::new("a program name in quotes"));
    }
    if name.contains('=') {
        return Err(PlainWordsError::new("an assignment"));
    }
    Ok(())
}

/// Refuses the names under which bash opens network connections, and quoted ones.
fn check_file(file: &Word) -> Result<(), PlainWordsError> {
    let parts: Vec<&str> =
        file.text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let is_network = matches!(parts[..], ["dev", "tcp" | "udp", ..]) || parts.contains(&"..");
    if is_network && file.text.starts_with('/') {
        return Err(PlainWordsError::new(format!("a redirection to `{}`", file.text)));
    }
    if file.text.is_empty() {
        return Err(PlainWordsError::new("a redirection without a file"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_are_read() {
        for (text, expected) in [
            ("git status", "git status"),
            ("ls -l src | head -n 3", "ls -l src;head -n 3"),
            ("a && \n b || c; d\ne\n", "a;b;c;d;e"),
            ("\n\na\n", "a"),
            ("echo 'a $b' \"c d\" e''f", "echo a $b c d ef"),
            ("a 2>&1 >x.txt < y &>z", "a"),
            ("[ -f x ]; ls", "[ -f x ];ls"),
            ("cp a.txt \u{fc}ber", "cp a.txt \u{fc}ber"),
            ("", ""),
        ] {
            let commands = read_plain_words(text).unwrap();
            let shown: Vec<String> = commands.iter().map(ToString::to_string).collect();
            assert_eq!(shown.join(";"), expected, "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_by_name() {
        for (text, construct) in [
            ("echo $x", "an expansion (`$`)"),
            ("echo \"a $(b)\"", "an expansion (`$`)"),
            ("echo `a`", "an expansion (`` ` ``)"),
            ("ls *.rs", "a file name pattern (`*`)"),
            ("ls ~", "`~`"),
            ("ls {a,b}", "a compound command or brace expansion (`{`)"),
            ("f() { a; }", "a compound command or brace expansion (`(`)"),
            ("(a)", "a compound command or brace expansion (`(`)"),
            ("if a; then b; fi", "`if`"),
            ("! a", "`!`"),
            ("time a", "`time`"),
            ("x=1 a", "an assignment"),
            ("'if' a", "`if`"),
            ("\"a\" b", "a program name in quotes"),
            ("a # b", "a comment"),
            ("a \\\n b", "a backslash"),
            ("a &", "`&`"),
            ("a |& b", "`|`"),
            ("a ;; b", "`;`"),
            ("a &&", "a line that ends in an operator"),
            ("| a", "a line that ends in an operator"),
            ("> x", "a redirection without a command"),
            ("a <<E\nb\nE", "`<<`"),
            ("a <(b)", "`<(`"),
            ("a > /dev/tcp/h/1", "a redirection to `/dev/tcp/h/1`"),
            ("a > /dev//./tcp/h/1", "a redirection to `/dev//./tcp/h/1`"),
            ("a >& f", "`>&` with a file"),
            ("a 'b", "a quote that is not closed"),
            ("a\u{a0}b", "`\\u{a0}`"),
            ("a\r\nb", "`\\r`"),
        ] {
            let PlainWordsError::Construct { construct: shown } =
                read_plain_words(text).unwrap_err()
            else {
                panic!("{text}")
            };
            let shown = shown.replace("(```)", "(`` ` ``)");
            assert_eq!(shown, construct, "{text}");
        }
    }
}
