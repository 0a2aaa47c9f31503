//! Closed recognisers of awk programs and sed scripts: gawk 5.2.1, mawk 1.3.4 and the POSIX language;
//! GNU sed 4.9, sed(1) and its manual.
//!
//! awk starts programs by `system`, by pipes and by gawk's `@` directives, of which only a pipe from
//! `print` to a text that is written out is known; it writes files by `>` after `print`. The tokens of a
//! program are told apart with certainty, or it is in doubt: the one ambiguity is `/`, which divides
//! after an operand and begins a regular expression elsewhere.
//!
//! Each command of sed is listed. `w`, `W` and the flag `w` write files, and `e COMMAND` hands text to a
//! shell: both are reported. `e` alone and the flag `e` of `s` run what they read, so they are not known.
//! A script that GNU sed and others read differently is in doubt.

use super::entry::{ArgumentEffect, Judged};
use crate::command::{Shape, ShellSyntax, Word};
use crate::options::{Arguments, Doubt, require_known};

pub(super) fn awk(found: &Arguments) -> Judged {
    let Some(program) = found.operands.first() else { return Ok(Vec::new()) };
    read_program(require_known(program)?)
}

/// Reads a program, and returns the files that it writes and the texts that it hands to a shell, or the
/// first token that is not known to be harmless.
fn read_program(program: &str) -> Judged {
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

pub(super) fn sed(found: &Arguments) -> Judged {
    let pieces: Vec<&Word> = found.values(&["-e", "--expression"]).collect();
    let (script, files) = if pieces.is_empty() {
        let Some((script, files)) = found.operands.split_first() else { return Ok(Vec::new()) };
        (require_known(script)?.to_owned(), files)
    } else {
        let pieces = pieces.into_iter().map(require_known).collect::<Result<Vec<&str>, Doubt>>()?;
        (pieces.join("\n"), found.operands.as_slice())
    };
    let mut all = read_script(&script)?;
    if found.has(&["-i", "--in-place"]) {
        all.extend(files.iter().cloned().map(ArgumentEffect::Writes));
        all.extend(backups(found, files)?);
    }
    Ok(all)
}

/// The copies that `sed -i.bak` leaves.
fn backups(found: &Arguments, files: &[Word]) -> Judged {
    let Some(suffix) = found.values(&["-i", "--in-place"]).last() else { return Ok(Vec::new()) };
    let suffix = require_known(suffix)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '~' | '_' | '-');
    if !suffix.chars().all(is_plain) {
        return Err(format!("the suffix {suffix}"));
    }
    let copy = |file: &Word| match file.shape {
        Shape::Literal => Word::literal(format!("{}{suffix}", file.text)),
        Shape::One | Shape::Many | Shape::Glob | Shape::Process => file.clone(),
    };
    Ok(files.iter().map(copy).map(ArgumentEffect::Writes).collect())
}

/// Reads a script, and returns the files that it writes and the texts that it hands to a shell, or the
/// first command or text that is not known to be harmless.
fn read_script(script: &str) -> Judged {
    let mut reader = SedReader { rest: script, depth: 0, found: Vec::new() };
    while !reader.rest.is_empty() {
        reader.command()?;
    }
    if reader.depth != 0 {
        return Err("the sed script with an open {".to_owned());
    }
    Ok(reader.found)
}

struct SedReader<'s> {
    rest: &'s str,
    /// The number of open braces.
    depth: usize,
    found: Vec<ArgumentEffect>,
}

impl<'s> SedReader<'s> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.rest = self.rest.get(letter.len_utf8()..).unwrap_or_default();
        Some(letter)
    }

    fn take_while(&mut self, matches: impl Fn(char) -> bool) -> &'s str {
        let end = self.rest.find(|c| !matches(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn skip_blanks(&mut self) {
        self.take_while(|c| c == ' ' || c == '\t');
    }

    fn eat(&mut self, letter: char) -> bool {
        let is_next = self.peek() == Some(letter);
        if is_next {
            self.next();
        }
        is_next
    }

    fn command(&mut self) -> Result<(), Doubt> {
        self.take_while(|c| matches!(c, ' ' | '\t' | '\n' | ';'));
        if self.rest.is_empty() {
            return Ok(());
        }
        self.addresses()?;
        let Some(name) = self.next() else { return Ok(()) };
        match name {
            '#' | 'r' | 'R' => {
                self.take_while(|c| c != '\n');
                Ok(())
            }
            '{' => {
                self.depth += 1;
                Ok(())
            }
            '}' => {
                self.depth = self.depth.checked_sub(1).ok_or("the sed command }")?;
                self.end()
            }
            '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'F' => {
                self.end()
            }
            'l' | 'L' | 'q' | 'Q' => {
                self.skip_blanks();
                self.take_while(|c| c.is_ascii_digit());
                self.end()
            }
            ':' | 'b' | 't' | 'T' => {
                self.skip_blanks();
                self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
                self.end()
            }
            'a' | 'i' | 'c' => self.text(),
            's' => self.substitute(),
            'y' => {
                let delimiter = self.delimiter()?;
                self.replacement(delimiter)?;
                self.replacement(delimiter)?;
                self.end()
            }
            'w' | 'W' => self.file(),
            'e' => self.execute(),
            _ => Err(format!("the sed command {name}")),
        }
    }

    /// Reads `1`, `$`, `/re/I`, `first~step`, `a,b`, `a,+n`, `a,~n`, and `!`.
    fn addresses(&mut self) -> Result<(), Doubt> {
        if self.address()? {
            self.skip_blanks();
            if self.eat(',') {
                self.skip_blanks();
                if matches!(self.peek(), Some('+' | '~')) {
                    self.next();
                    self.take_while(|c| c.is_ascii_digit());
                } else if !self.address()? {
                    return Err("the sed address".to_owned());
                }
            }
        }
        self.take_while(|c| matches!(c, ' ' | '\t' | '!'));
        Ok(())
    }

    fn address(&mut self) -> Result<bool, Doubt> {
        match self.peek() {
            Some('0'..='9') => {
                self.take_while(|c| c.is_ascii_digit());
                if self.eat('~') {
                    self.take_while(|c| c.is_ascii_digit());
                }
            }
            Some('$') => {
                self.next();
            }
            Some('/') => {
                self.next();
                self.regex('/')?;
            }
            Some('\\') => {
                self.next();
                let delimiter = self.delimiter()?;
                self.regex(delimiter)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads a regular expression in an address, with its flags.
    fn regex(&mut self, delimiter: char) -> Result<(), Doubt> {
        self.part(delimiter)?;
        self.take_while(|c| matches!(c, 'I' | 'M'));
        Ok(())
    }

    fn delimiter(&mut self) -> Result<char, Doubt> {
        match self.next() {
            Some(mark) if mark.is_ascii_punctuation() && mark != '\\' => Ok(mark),
            _ => Err("the sed delimiter".to_owned()),
        }
    }

    /// Reads up to the delimiter. Programs disagree on whether a delimiter between brackets ends
    /// the part, so that is in doubt, and so is a line that ends before the part does.
    fn part(&mut self, delimiter: char) -> Result<&'s str, Doubt> {
        let whole = self.rest;
        let mut in_brackets = false;
        while let Some(letter) = self.next() {
            match letter {
                _ if letter == delimiter => {
                    let length = whole.len() - self.rest.len() - delimiter.len_utf8();
                    let part = whole.get(..length).unwrap_or_default();
                    return if in_brackets {
                        Err(format!("the {delimiter} between brackets in a sed script"))
                    } else {
                        Ok(part)
                    };
                }
                // Within brackets a backslash stands for itself in some programs.
                '\\' if in_brackets && self.peek() == Some(delimiter) => {
                    return Err(format!("the {delimiter} between brackets in a sed script"));
                }
                '\\' if in_brackets && self.peek() == Some(']') => in_brackets = false,
                '\\' => {
                    self.next();
                }
                '\n' => return Err("the line end within a sed command".to_owned()),
                '[' if !in_brackets => {
                    in_brackets = true;
                    self.eat('^');
                    self.eat(']');
                }
                '[' if matches!(self.peek(), Some(':' | '.' | '=')) => self.class()?,
                ']' => in_brackets = false,
                _ => {}
            }
        }
        Err("the sed script, which ends within a command".to_owned())
    }

    /// Reads the rest of `[:name:]` between brackets.
    fn class(&mut self) -> Result<(), Doubt> {
        let mark = self.next();
        self.take_while(|c| c.is_ascii_alphabetic());
        if self.next() == mark && self.eat(']') {
            return Ok(());
        }
        Err("the brackets in a sed script".to_owned())
    }

    /// Reads the replacement of `s`, where brackets mean nothing.
    fn replacement(&mut self, delimiter: char) -> Result<(), Doubt> {
        while let Some(letter) = self.next() {
            match letter {
                _ if letter == delimiter => return Ok(()),
                '\\' => {
                    self.next();
                }
                '\n' => return Err("the line end within a sed command".to_owned()),
                _ => {}
            }
        }
        Err("the sed script, which ends within a command".to_owned())
    }

    fn substitute(&mut self) -> Result<(), Doubt> {
        let delimiter = self.delimiter()?;
        self.part(delimiter)?;
        self.replacement(delimiter)?;
        loop {
            match self.peek() {
                Some('g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9' | ' ') => {
                    self.next();
                }
                Some('w') => {
                    self.next();
                    return self.file();
                }
                Some(flag) if flag.is_alphabetic() => {
                    return Err(format!("the sed flag {flag}"));
                }
                _ => return self.end(),
            }
        }
    }

    /// Reads the text of `a`, `i` and `c`: `a text`, `a\text`, or lines after `a\`. It goes on to
    /// a line end without a backslash.
    fn text(&mut self) -> Result<(), Doubt> {
        self.skip_blanks();
        if self.eat('\\') {
            let blanks = self.take_while(|c| c == ' ' || c == '\t');
            match self.peek() {
                Some('\n') if blanks.is_empty() => {
                    self.next();
                }
                Some(letter) if !letter.is_whitespace() && letter != '\\' => {}
                _ => return Err("the text of a sed command".to_owned()),
            }
        }
        while let Some(letter) = self.next() {
            match letter {
                '\n' => break,
                '\\' => {
                    self.next();
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads a command for the shell: the rest of the line.
    fn execute(&mut self) -> Result<(), Doubt> {
        self.skip_blanks();
        let text = self.take_while(|c| c != '\n');
        // Without a command sed runs the line that it has read; a backslash has a meaning of its
        // own.
        if text.is_empty() || text.contains('\\') || text.starts_with(['#', ';', '}']) {
            return Err("the sed command e".to_owned());
        }
        let script = ArgumentEffect::Script { text: text.to_owned(), shell: ShellSyntax::Posix };
        self.found.push(script);
        Ok(())
    }

    /// Reads the name of a file that is written: the rest of the line.
    fn file(&mut self) -> Result<(), Doubt> {
        self.skip_blanks();
        let name = self.take_while(|c| c != '\n');
        if name.is_empty() {
            return Err("the sed command w without a file".to_owned());
        }
        if !matches!(name, "/dev/stdout" | "/dev/stderr") {
            self.found.push(ArgumentEffect::Writes(Word::literal(name)));
        }
        Ok(())
    }

    /// Reads the end of a command.
    fn end(&mut self) -> Result<(), Doubt> {
        self.skip_blanks();
        match self.peek() {
            None | Some('\n' | ';' | '}' | '#') => Ok(()),
            Some(letter) => Err(format!("the {letter} after a sed command")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strict::tests::{assert_doubts, assert_harmless, judged};

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

    #[test]
    fn everyday_scripts_are_known() {
        for script in [
            "10,40p",
            "$p",
            "$d",
            "1d;$d",
            "/^#/d",
            "/^$/d",
            "s/e/E/g; s/w/W/",
            "s|/usr|/opt|g",
            "s/[^a-z]//gI",
            "s/[]x]/y/",
            "s#a\\#b#c#2p",
            "/start/,/end/p",
            "/start/,+3{s/a/b/;p}",
            "0,/re/s//x/",
            "1~2d",
            "2q",
            "$!N;P;D",
            ":a;N;$!ba;s/\\n/ /g",
            ":a\ns/x/y/\nta",
            "/x/!d",
            "y/[]/()/",
            "/a/{s/x/y/ p; b }",
            "1a\\  foo",
            "s/[[:alpha:]_]*//",
            "1i\\header",
            "1i header",
            "$a\\\nlast line\\\nand more",
            "/x/a text with ; e and w file",
            "y/abc/xyz/",
            "/a/{/b/{p}}",
            "/x/r other.txt",
            "s/x/&&/w /dev/stdout",
            "n;d",
            "=",
            "l 20",
            "\\,x,d",
            "# comment e\np",
            "s/a/b\\\nc/",
            "",
            "s/\\(.*\\)@\\(.*\\)/\\2 \\1/",
            "s/^[[:space:]]*//",
            "/é/s//ü/",
        ] {
            assert_eq!(read_script(script), Ok(Vec::new()), "{script:?}");
        }
    }

    #[test]
    fn files_that_a_script_writes_are_reported() {
        for (script, file) in [
            ("w .git/config", ".git/config"),
            ("1w out\np", "out"),
            ("s/a/b/gw out", "out"),
            ("W x;p", "x;p"),
        ] {
            let expected = ArgumentEffect::Writes(Word::literal(file));
            assert_eq!(read_script(script), Ok(vec![expected]), "{script:?}");
        }
    }

    #[test]
    fn commands_for_the_shell_are_reported() {
        for (script, texts) in [
            ("1e touch x", vec!["touch x"]),
            ("1!e touch x", vec!["touch x"]),
            ("e echo\ne touch x; y", vec!["echo", "touch x; y"]),
            ("{e touch x\n}", vec!["touch x"]),
            ("a foo\ne touch x", vec!["touch x"]),
            ("a\\\nfoo\ne touch x", vec!["touch x"]),
            ("r x\n1e touch x", vec!["touch x"]),
            ("s/[[:space:]/\"]/x/;e touch x", vec![]),
        ] {
            let script_of = |text: &str| ArgumentEffect::Script {
                text: text.to_owned(),
                shell: ShellSyntax::Posix,
            };
            let expected: Vec<ArgumentEffect> = texts.into_iter().map(script_of).collect();
            let found = read_script(script).unwrap_or_default();
            assert_eq!(found, expected, "{script:?}");
        }
    }

    #[test]
    fn every_other_script_is_in_doubt() {
        for (script, doubt) in [
            ("e", "the sed command e"),
            ("s/a/touch x/e", "the sed flag e"),
            ("s/a/touch x/ge", "the sed flag e"),
            ("s,a,touch x,2e", "the sed flag e"),
            ("sxaxtouch yxe", "the sed delimiter"),
            ("s/[/]/x/;e", "the / between brackets in a sed script"),
            ("s/[\\/]/x/", "the / between brackets in a sed script"),
            ("/[/]/e touch x", "the / between brackets in a sed script"),
            ("a\\  \nfoo", "the text of a sed command"),
            ("a\\\\\ne touch x", "the text of a sed command"),
            ("s/a/b\nc/", "the line end within a sed command"),
            ("s/a/b", "the sed script, which ends within a command"),
            ("p e", "the e after a sed command"),
            ("s/a/b/ e", "the sed flag e"),
            ("e }", "the sed command e"),
            ("e \\\\\ntouch x", "the sed command e"),
            ("s/[[:space:]/\"]/x/;e touch x", "the / between brackets in a sed script"),
            ("}", "the sed command }"),
            ("{p", "the sed script with an open {"),
            ("v", "the sed command v"),
            (":a b;e", "the b after a sed command"),
            ("# x\ne", "the sed command e"),
            ("y/e/f/;e", "the sed command e"),
            ("1,e", "the sed address"),
        ] {
            assert_eq!(read_script(script), Err(doubt.to_owned()), "{script:?}");
        }
    }

    #[test]
    fn everyday_lines_have_no_doubt() {
        assert_harmless(&[
            "sed -n '10,40p' src/lib.rs",
            "sed -n -e 1p -e '$p' f",
            "sed -E 's/(a|b)+/x/g' f",
            "sed 's/e/E/g; s/w/W/' victim",
            "sed --expression='s/a/b/' f",
            "sed -n '/start/,/end/p' ./*.log",
            "sed 's/a/b/' -- $x",
            "sed -e 'a\\' -e 1e f",
            "sed --version",
            "awk '{print $1}' access.log",
            "awk -F: '{print $1}' /etc/passwd",
            "awk -F , -v n=$x '$1 > n {print \"a|b\"}' victim",
            "awk '{print}' $x *.log @m",
            "awk 'NR==1' -f",
            "gawk --version",
            "rg -n 'fn main' src",
            "rg -l --hidden -g '!target' -e $x",
            "rg --type rust -C 3 foo",
            "rg -c TODO -- $x",
            "ag -l foo src",
            "yq .a.b f.yaml",
            "yq -r .a f.yaml",
        ]);
    }

    #[test]
    fn text_written_files_are_reported() {
        for (line, expected) in [
            ("sed -i s/a/b/ f g", "writes f, writes g"),
            ("sed -i.bak s/a/b/ f", "writes f, writes f.bak"),
            ("sed -i -e s/a/b/ src/*.rs", "writes src/*.rs"),
            ("sed --in-place=.orig s/a/b/ f", "writes f, writes f.orig"),
            ("sed -n 'w .git/config' f", "writes .git/config"),
            ("sed -ni p f", "writes f"),
            ("sed -n -e p -e '1e pwn' victim", "Posix script pwn"),
            ("awk '{print | \"sort -n\"}' f", "Posix script sort -n"),
            ("awk '{print > \"out\"}' f", "writes out"),
            ("yq -i '.a = 1' f.yaml", "writes f.yaml"),
        ] {
            assert_eq!(judged(line), Ok(expected.to_owned()), "{line}");
        }
    }

    #[test]
    fn options_and_scripts_that_start_programs_are_in_doubt() {
        assert_doubts(&[
            ("sed -n -e p -e 1e victim", "the sed command e"),
            ("sed f '1e' -e p -e 1e", "the sed command e"),
            ("sed -f x.sed f", "the option -f"),
            ("sed --file=x.sed f", "the option --file"),
            ("sed --expr=1e f", "the option --expr"),
            ("sed s/a/$x/ f", "the word s/a/…"),
            ("sed s/a/b/ $x", "the word …"),
            ("sed s/a/b/ *.txt", "the word *.txt"),
            ("sed -e $x f", "the word …"),
            ("sed -i/../.git/config s/a/b/ f", "the suffix /../.git/config"),
            ("sed -e 'a\\' -e x -e 1e f", "the sed command e"),
            ("awk 'BEGIN{system(\"pwn\")}'", "the awk function system"),
            ("awk -f x.awk f", "the option -f"),
            ("gawk -i x '{print}'", "the option -i"),
            ("gawk -l x '{print}'", "the option -l"),
            ("gawk -e 'BEGIN{system(1)}'", "the option -e"),
            ("mawk -W exec x", "the option -W"),
            ("gawk -p.git/config '{print}'", "the option -p"),
            ("awk $x f", "the word …"),
            ("awk -F $x -- $y", "the word …"),
            ("rg --pre sh x", "the option --pre"),
            ("rg --pre=sh x", "the option --pre"),
            ("rg -z x", "the option -z"),
            ("rg x --engine --pre=sh", "the word --pre=sh"),
            ("rg --hostname-bin=./x y", "the option --hostname-bin"),
            ("rg $x", "the word …"),
            ("ag --pager sh x", "the option --pager"),
            ("ack --pager=sh x", "the arguments of ack"),
            ("rename 's/a/b/e' f", "the arguments of rename"),
            ("m4 x", "the arguments of m4"),
        ]);
    }
}
