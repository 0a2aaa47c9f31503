//! A closed recogniser of awk programs: gawk 5.2.1, mawk 1.3.4 and the POSIX language.
//!
//! Programs are started by `system`, by pipes and by gawk's `@` directives, of which only a pipe
//! from `print` to a text that is written out is known; files are written by `>` after `print`. The
//! tokens of a program are told apart with certainty, or it is in doubt: the one ambiguity is `/`,
//! which divides after an operand and begins a regular expression elsewhere.

use super::entry::{ArgumentEffect, Judged};
use crate::command::{ShellSyntax, Word};
use crate::options::{Arguments, Doubt, require_known};

/// Reads a program, and returns the files that it writes and the texts that it hands to a shell.
///
/// # Errors
/// Names the first token that is not known to be harmless.
pub(super) fn read_program(program: &str) -> Judged {
    let mut reader = AwkReader {
        rest: program,
        before: Before::Operator,
        parentheses: Vec::new(),
        printing: None,
        found: Vec::new(),
    };
    while let Some(letter) = reader.peek() {
        reader.token(letter)?;
    }
    Ok(reader.found)
}

/// The kind of the token before the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A value: `/` divides.
    Operand,
    /// An operator, a line end or the start: `/` begins a regular expression.
    Operator,
    /// A token after which programs may disagree.
    Unclear,
    /// `if`, `while`, `for` or `switch`: its parentheses are followed by a statement.
    Condition,
}

struct AwkReader<'p> {
    rest: &'p str,
    before: Before,
    /// The kind of token that the end of each open parenthesis counts as.
    parentheses: Vec<Before>,
    /// The number of parentheses that were open at the `print` of this statement.
    printing: Option<usize>,
    found: Vec<ArgumentEffect>,
}

impl<'p> AwkReader<'p> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn token(&mut self, letter: char) -> Result<(), Doubt> {
        match letter {
            ' ' | '\t' => self.skip(1),
            '\\' if self.rest.starts_with("\\\n") => self.skip(2),
            '#' => self.skip(self.rest.find('\n').unwrap_or(self.rest.len())),
            '"' => {
                self.string()?;
            }
            '0'..='9' | '.' => self.number(),
            'a'..='z' | 'A'..='Z' | '_' => self.name()?,
            '/' => self.slash()?,
            _ => self.punctuation(letter)?,
        }
        Ok(())
    }

    fn string(&mut self) -> Result<&'p str, Doubt> {
        self.skip(1);
        let whole = self.rest;
        let mut escaped = false;
        for (index, letter) in whole.char_indices() {
            match letter {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => {
                    self.skip(index + 1);
                    self.before = Before::Operand;
                    return Ok(whole.get(..index).unwrap_or_default());
                }
                _ => {}
            }
        }
        Err("the awk string without an end".to_owned())
    }

    /// Reads digits. The letters of `1e5` and `0x1f` are read as a name, which is checked.
    fn number(&mut self) {
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        self.skip(self.rest.find(|c: char| !is_digit(c)).unwrap_or(self.rest.len()));
        self.before = Before::Operand;
    }

    fn name(&mut self) -> Result<(), Doubt> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = self.rest.find(|c: char| !is_part(c)).unwrap_or(self.rest.len());
        let name = self.rest.get(..end).unwrap_or_default();
        self.skip(end);
        self.before = match name {
            "system" | "extension" => return Err(format!("the awk function {name}")),
            "print" | "printf" => {
                self.printing = Some(self.parentheses.len());
                Before::Operator
            }
            "return" | "else" | "do" | "case" | "exit" => Before::Operator,
            "if" | "while" | "for" | "switch" => Before::Condition,
            "in" | "getline" | "next" | "nextfile" | "break" | "continue" | "delete" | "BEGIN"
            | "END" | "BEGINFILE" | "ENDFILE" | "function" | "func" | "default" => Before::Unclear,
            _ => Before::Operand,
        };
        Ok(())
    }

    fn slash(&mut self) -> Result<(), Doubt> {
        match self.before {
            Before::Operand => {
                self.skip(1);
                self.before = Before::Operator;
                Ok(())
            }
            Before::Operator => self.regex(),
            Before::Unclear | Before::Condition => Err("the awk token /".to_owned()),
        }
    }

    /// Reads a regular expression. Programs disagree on a slash between brackets.
    fn regex(&mut self) -> Result<(), Doubt> {
        let mut in_brackets = false;
        let mut letters = self.rest.char_indices().skip(1).peekable();
        while let Some((index, letter)) = letters.next() {
            match letter {
                '\n' => break,
                '\\' if in_brackets => match letters.next() {
                    Some((_, next)) if !matches!(next, '/' | ']' | '\n') => {}
                    _ => return Err("the brackets of an awk regular expression".to_owned()),
                },
                '\\' => {
                    letters.next_if(|(_, next)| *next != '\n');
                }
                '/' if in_brackets => {
                    return Err("the brackets of an awk regular expression".to_owned());
                }
                '/' => {
                    self.skip(index + 1);
                    // Nothing but an operator makes sense now, so another slash is not clear.
                    self.before = Before::Unclear;
                    return Ok(());
                }
                '[' if !in_brackets => {
                    in_brackets = true;
                    letters.next_if(|(_, next)| *next == '^');
                    letters.next_if(|(_, next)| *next == ']');
                }
                // A class `[:name:]`; other programs may read it as the letters that it holds.
                '[' if letters.next_if(|(_, next)| *next == ':').is_some() => {
                    while letters.next_if(|(_, next)| next.is_ascii_alphabetic()).is_some() {}
                    let end = (letters.next(), letters.next());
                    if !matches!(end, (Some((_, ':')), Some((_, ']')))) {
                        return Err("the brackets of an awk regular expression".to_owned());
                    }
                }
                '[' if letters.next_if(|(_, next)| matches!(next, '.' | '=')).is_some() => {
                    return Err("the brackets of an awk regular expression".to_owned());
                }
                ']' => in_brackets = false,
                _ => {}
            }
        }
        Err("the awk regular expression without an end".to_owned())
    }

    fn punctuation(&mut self, letter: char) -> Result<(), Doubt> {
        if self.rest.starts_with("++") || self.rest.starts_with("--") {
            self.skip(2);
            self.before = Before::Unclear;
            return Ok(());
        }
        if self.rest.starts_with("||") || self.rest.starts_with("&&") {
            self.skip(2);
            self.before = Before::Operator;
            return Ok(());
        }
        self.skip(1);
        self.before = match letter {
            '(' => {
                let end = match self.before {
                    Before::Condition => Before::Unclear,
                    Before::Operand | Before::Operator | Before::Unclear => Before::Operand,
                };
                self.parentheses.push(end);
                Before::Operator
            }
            ')' => self.parentheses.pop().ok_or("the awk token )")?,
            ']' => Before::Operand,
            ';' | '}' => {
                self.printing = None;
                Before::Operator
            }
            '>' => return self.greater(),
            '|' => return self.pipe(),
            '$' => Before::Unclear,
            '\n' if self.before == Before::Condition => return Err("the awk line end".to_owned()),
            '\n' | '\r' | '{' | '[' | ',' | '=' | '<' | '+' | '-' | '*' | '%' | '^' | '!' | '~'
            | '?' | ':' => Before::Operator,
            _ => return Err(format!("the awk token {letter}")),
        };
        Ok(())
    }

    /// `true` after `print`, outside of parentheses.
    fn is_printing(&self) -> bool {
        self.printing.is_some_and(|depth| self.parentheses.len() == depth)
    }

    /// Reads `>`: a comparison, or after `print` the file to write.
    fn greater(&mut self) -> Result<(), Doubt> {
        self.before = Before::Operator;
        if !self.is_printing() {
            return Ok(());
        }
        self.skip(usize::from(self.rest.starts_with('>')));
        let file = self.target().ok_or("the file that awk writes")?;
        if !matches!(file, "/dev/stdout" | "/dev/stderr") {
            self.found.push(ArgumentEffect::Writes(Word::literal(file)));
        }
        Ok(())
    }

    /// Reads `|` after `print`, and the command for the shell.
    fn pipe(&mut self) -> Result<(), Doubt> {
        let text = Some(self.is_printing()).filter(|is_printing| *is_printing);
        let text = text.and_then(|_| self.target()).ok_or("the awk token |")?;
        let script = ArgumentEffect::Script { text: text.to_owned(), shell: ShellSyntax::Posix };
        self.found.push(script);
        Ok(())
    }

    /// Reads the target of an output: one string, with nothing after it.
    fn target(&mut self) -> Option<&'p str> {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        let text = if self.peek() == Some('"') { self.string().ok()? } else { return None };
        let rest = self.rest.trim_start_matches([' ', '\t']);
        let is_whole = rest.is_empty() || rest.starts_with([';', '}', '\n']);
        (is_whole && !text.contains('\\')).then_some(text)
    }
}

pub(super) fn scan(found: &Arguments) -> Judged {
    let Some(program) = found.operands.first() else { return Ok(Vec::new()) };
    read_program(require_known(program)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyday_programs_are_known() {
        for program in [
            "{print $1}",
            "{ print $1, $NF }",
            "$1 > 5 {print \"a|b\"}",
            "NR>1 && $3 >= 10 { sum += $3 } END { print sum / NR }",
            "/error|warn/ {print}",
            "!/^#/",
            "/[[:space:]]+x[^[:alpha:]_]/",
            "$0 ~ /a[bc]d/ { n++ } END { print n }",
            "{ gsub(/[^a-z]/, \"\"); print tolower($0) }",
            "BEGIN { FS=\":\"; OFS=\"\\t\" } { print $1, $3 }",
            "{ a[$1]++ } END { for (k in a) printf \"%s %d\\n\", k, a[k] }",
            "length($0) > 80",
            "{ if ($1 > 2) print \"big\"; else print \"small\" }",
            "{ print ($1 > 2) }",
            "NR==FNR { a[$1]=$2; next } $1 in a { print $0, a[$1] }",
            "{ while ((getline line < \"f\") > 0) n++ }",
            "{ print > \"/dev/stderr\" }",
            "# system(\"x\")\n{ print }",
            "{ print substr($0, 1, 10) \" system | x\" }",
            "{ x = $1 / 2; y = $2 / 4; print x, y }",
            "!seen[$0]++",
            "/start/,/end/",
            "BEGIN{printf \"%.2f\\n\", 10/3}",
            "{ print ENVIRON[\"HOME\"] }",
            "function f(a, b) { return a > b } { print f($1, $2) }",
            "{ sum += $1 }\nEND { print sum }",
            "{$1=\"\"; print substr($0,2)}",
            "NR % 2 == 0",
            "{ printf(\"%s\\n\", $1) }",
            "1",
            "",
        ] {
            assert_eq!(read_program(program), Ok(Vec::new()), "{program}");
        }
    }

    #[test]
    fn a_pipe_to_a_literal_text_is_reported() {
        let script =
            ArgumentEffect::Script { text: "sort -u".to_owned(), shell: ShellSyntax::Posix };
        assert_eq!(read_program("{ print $1 / 2 | \"sort -u\" }"), Ok(vec![script]));
    }

    #[test]
    fn written_files_are_reported() {
        for (program, file) in [
            ("{ print > \"out.txt\" }", "out.txt"),
            ("{ print $1, $2 >> \".git/config\"; x = 1 }", ".git/config"),
            ("{ printf(\"%s\", $1) > \"f\" }", "f"),
            ("{ print a,\n b > \"f\" }", "f"),
        ] {
            let expected = ArgumentEffect::Writes(Word::literal(file));
            assert_eq!(read_program(program), Ok(vec![expected]), "{program}");
        }
    }

    #[test]
    fn everything_else_is_in_doubt() {
        for (program, doubt) in [
            ("BEGIN{system(\"touch x\")}", "the awk function system"),
            ("BEGIN{ system (\"touch x\")}", "the awk function system"),
            ("BEGIN{print 1e system(\"x\")}", "the awk function system"),
            ("{ print | $1 }", "the awk token |"),
            ("{ print | \"sort \" $1 }", "the awk token |"),
            ("{ x = (print | \"a\") }", "the awk token |"),
            (
                "/[[:space:]/\"]/{} BEGIN{system(\"pwn\")} #\"",
                "the brackets of an awk regular expression",
            ),
            ("/[[.a.]]/", "the brackets of an awk regular expression"),
            ("{ \"touch x\" | getline }", "the awk token |"),
            ("{ print |& \"sh\" }", "the awk token |"),
            ("@load \"x\"", "the awk token @"),
            ("@include \"x\"", "the awk token @"),
            ("BEGIN { f = \"system\"; @f(\"touch x\") }", "the awk token @"),
            ("{ print > $1 }", "the file that awk writes"),
            ("{ print > \"a\" $1 }", "the file that awk writes"),
            ("{ print > \"a\\x2e\" }", "the file that awk writes"),
            ("{ print > f }", "the file that awk writes"),
            ("{ print (1)(2) > f }", "the file that awk writes"),
            ("BEGIN { if (1) /\"/; system(\"x\"); #\"/\n}", "the awk token /"),
            ("BEGIN { x++ /\"/; system(\"x\") #\"/\n}", "the awk token /"),
            ("BEGIN { /a/ /\"/; system(\"x\") }", "the awk token /"),
            ("BEGIN { a = 1 /x/; system(\"x\") }", "the awk function system"),
            ("BEGIN { if\n(1) /\"/; system(\"x\"); #\"/\n}", "the awk line end"),
            ("BEGIN { $/\"/; system(\"x\") }", "the awk token /"),
            ("/[/\"]/ { system(\"x\") } #\"", "the brackets of an awk regular expression"),
            ("/[\\/]/", "the brackets of an awk regular expression"),
            ("/a\n/", "the awk regular expression without an end"),
            ("{ print \"a\nb\" }", "the awk string without an end"),
            ("{ print \u{201c}x\u{201d} }", "the awk token \u{201c}"),
            ("{ print 'x' }", "the awk token '"),
            ("{ extension(\"x\", \"y\") }", "the awk function extension"),
        ] {
            assert_eq!(read_program(program), Err(doubt.to_owned()), "{program}");
        }
    }
}
