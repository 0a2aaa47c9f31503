//! The recogniser: lists, pipelines, compound commands, assignments and redirections whose meaning
//! is certain.
//!
//! A text is proven if all of it is read by the functions here. Functions, aliases, arrays, traps,
//! `eval`, `select`, `coproc` and everything else that is not read are refused by name. Reading
//! collects the simple commands; `prove` then looks at their arguments.

use super::reader::{
    Facts, Proven, RawRedirect, RawWord, ShellReader, ValueFacts, WordPart, ends_word, is_name,
};
use crate::command::CommandContext;
use crate::options::has_word;

/// The most commands of one text.
const MAX_COMMANDS: usize = 500;

/// Words that start or end a compound command, where a command may start.
const RESERVED: &str = "! { } [[ ]] case coproc do done elif else esac fi for function if in select then until \
    while";

/// A simple command as written in the text.
#[derive(Debug, Clone, Default)]
pub(super) struct RawCommand {
    pub(super) assignments: Vec<(String, RawWord)>,
    pub(super) words: Vec<RawWord>,
    pub(super) redirects: Vec<RawRedirect>,
    pub(super) path: Vec<CommandContext>,
}

/// The end of a list of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Text,
    /// A closing parenthesis or backtick.
    Close(char),
    /// One of these reserved words.
    Words(&'static [&'static str]),
    /// `;;` or `esac`.
    Case,
}

impl ShellReader<'_> {
    /// Reads the whole text.
    pub(super) fn script(&mut self) -> Proven<()> {
        self.list(End::Text)?;
        if self.documents.is_empty() { Ok(()) } else { self.refuse("a here-document without text") }
    }

    /// Reads the commands of a command or process substitution, and its closing character.
    ///
    /// Bash 5.2 does not always find the end of `"$(…)"` if there are a here-document and a `case` in
    /// it: in `"$(a <<E; b; case x in *) c '`d`';; esac⏎E⏎)"` it ends at the first `)`, and `d` runs.
    /// All compound commands are refused, since the cause is not known.
    pub(super) fn list_until(&mut self, close: char) -> Proven<()> {
        let (compounds, heredocs) = (self.compounds, self.heredocs);
        let outside = std::mem::take(&mut self.documents);
        self.path.push(if close == '`' {
            CommandContext::Backticks
        } else {
            CommandContext::Substitution
        });
        self.apart(|reader| reader.list(End::Close(close)))?;
        self.path.pop();
        self.pos += close.len_utf8();
        if !self.documents.is_empty() {
            return self.refuse("a here-document that ends with a substitution");
        }
        if self.compounds > compounds && self.heredocs > heredocs {
            return self.refuse("a here-document and a compound command in one substitution");
        }
        self.documents = outside;
        Ok(())
    }

    /// Commands with `;`, `&`, newlines, `&&` and `||` between them: each is read, whether it would
    /// be reached or not.
    fn list(&mut self, end: End) -> Proven<()> {
        self.skip_lines()?;
        while !self.is_at(end) {
            if self.peek().is_none() {
                return self.refuse("a missing end of a compound command or a substitution");
            }
            let before = self.set.clone();
            self.and_or()?;
            self.skip_blanks();
            if self.starts_with("&") {
                // It runs in a process of its own.
                self.set = before;
            }
            let is_separated = match self.peek() {
                Some('\n' | '#') => true,
                Some(';') if !self.starts_with(";;") => self.take(";"),
                Some('&') if !self.starts_with("&&") && !self.starts_with("&>") => self.take("&"),
                _ => false,
            };
            self.skip_lines()?;
            if !is_separated && !self.is_at(end) && self.peek().is_some() {
                return self.refuse("text after a command");
            }
        }
        Ok(())
    }

    fn is_at(&self, end: End) -> bool {
        match end {
            End::Text => self.peek().is_none(),
            End::Close(close) => self.peek() == Some(close),
            End::Words(words) => words.contains(&self.next_word()),
            End::Case => self.starts_with(";;") || self.next_word() == "esac",
        }
    }

    /// Returns the characters up to the end of the word, as written.
    pub(super) fn next_word(&self) -> &str {
        let ends = |c: char| ends_word(c) || (c == '`' && self.in_backticks);
        self.rest().split(ends).next().unwrap_or_default()
    }

    /// Skips blanks, comments and newlines, and reads the here-documents that start there.
    fn skip_lines(&mut self) -> Proven<()> {
        loop {
            self.skip_blanks();
            if self.peek() == Some('#') {
                if !self.path.is_empty() {
                    return self.refuse("a comment inside a substitution");
                }
                self.pos += self.rest().find('\n').unwrap_or(self.rest().len());
            } else if self.take("\n") {
                self.read_documents()?;
            } else {
                return Ok(());
            }
        }
    }

    /// Pipelines with `&&` and `||` between them. Only the first is certain to run; what one after
    /// `&&` assigns is certain for the next after `&&`.
    fn and_or(&mut self) -> Proven<()> {
        self.pipeline()?;
        let certain = self.set.clone();
        let mut has_or = false;
        loop {
            self.skip_blanks();
            if self.take("||") {
                has_or = true;
            } else if !self.take("&&") {
                self.set = certain;
                return Ok(());
            }
            if has_or {
                self.set.clone_from(&certain);
            }
            self.skip_lines()?;
            self.pipeline()?;
        }
    }

    /// Commands with `|` between them; `!` and `time` before them start nothing.
    fn pipeline(&mut self) -> Proven<()> {
        self.skip_blanks();
        if self.at_time() {
            self.time()?;
        }
        while self.next_word() == "!" {
            self.pos += 1;
            self.skip_blanks();
            if self.at_time() {
                return self.refuse("`time` after `!`");
            }
        }
        let before = self.set.clone();
        self.command()?;
        loop {
            self.skip_blanks();
            if self.starts_with("||") || !self.starts_with("|") {
                return Ok(());
            }
            if self.starts_with("|&") {
                self.bash_only("`|&`")?;
                self.pos += 1;
            }
            self.pos += 1;
            self.skip_lines()?;
            // Each command of a pipeline has a process of its own.
            self.set.clone_from(&before);
            self.command()?;
            self.set.clone_from(&before);
        }
    }

    /// `true` at a `time` that is a reserved word; to other shells it is a program.
    fn at_time(&self) -> bool {
        self.next_word() == "time" && self.bash_only("time").is_ok()
    }

    /// `time` and `-p`, before a simple command. In a substitution, bash first takes `time` for the
    /// name of a program: in `"$(time case x in y) a;; esac)"` the substitution ends at the first
    /// `)`, and what follows is text in double quotes. Before a simple command both readings find
    /// the same end.
    fn time(&mut self) -> Proven<()> {
        self.pos += "time".len();
        self.skip_blanks();
        if self.next_word() == "-p" {
            self.pos += 2;
            self.skip_blanks();
        } else if self.next_word().starts_with('-') {
            return self.refuse("an option of `time`");
        }
        let word = self.next_word();
        if has_word(RESERVED, word) || self.starts_with("(") || self.at_time() {
            return self.refuse("`time` before something else than a simple command");
        }
        Ok(())
    }

    fn command(&mut self) -> Proven<()> {
        self.steps += 1;
        if self.steps > MAX_COMMANDS {
            return self.refuse(format!("a text with more than {MAX_COMMANDS} commands"));
        }
        self.skip_blanks();
        let before = self.set.clone();
        let word = self.next_word().to_owned();
        if !self.starts_with("(") && !has_word(RESERVED, word.as_str()) {
            return self.simple();
        }
        self.compounds += 1;
        if self.starts_with("((") {
            self.bash_only("`((…))`")?;
            self.pos += 2;
            // Arithmetic on numbers starts nothing.
            self.arithmetic()?;
        } else if self.take("(") {
            self.nested(|reader| reader.apart(|reader| reader.list(End::Close(')'))))?;
            self.pos += 1;
        } else {
            self.pos += word.len();
            match word.as_str() {
                "{" => self.nested(|reader| reader.compound(&word))?,
                _ => self.nested(|reader| reader.apart(|reader| reader.compound(&word)))?,
            }
        }
        if self.redirects_of_compound()? {
            // Where a file cannot be opened, nothing of the group runs.
            self.set = before;
        }
        Ok(())
    }

    fn compound(&mut self, word: &str) -> Proven<()> {
        match word {
            "{" => {
                self.list_to(&["}"])?;
                Ok(())
            }
            "if" => loop {
                self.list_to(&["then"])?;
                let end = self.apart(|reader| reader.list_to(&["elif", "else", "fi"]))?;
                match end.as_str() {
                    "elif" => {}
                    "else" => return self.list_to(&["fi"]).map(|_| ()),
                    _ => return Ok(()),
                }
            },
            "while" | "until" => {
                self.list_to(&["do"])?;
                self.list_to(&["done"]).map(|_| ())
            }
            "for" => self.for_loop(),
            "case" => self.case(),
            "[[" => {
                self.bash_only("`[[`")?;
                self.condition()
            }
            "function" => self.refuse("a function"),
            "select" | "coproc" => self.refuse(format!("`{word}`")),
            _ => self.refuse(format!("`{word}` here")),
        }
    }

    /// Reads commands up to one of these words, and that word.
    fn list_to(&mut self, ends: &'static [&'static str]) -> Proven<String> {
        let before = self.steps;
        self.list(End::Words(ends))?;
        if before == self.steps {
            return self.refuse("an empty list of commands");
        }
        let end = self.next_word().to_owned();
        self.pos += end.len();
        Ok(end)
    }

    /// `for NAME in WORDS; do …; done`: the variable gets each word.
    fn for_loop(&mut self) -> Proven<()> {
        self.skip_blanks();
        let name = self.next_word().to_owned();
        if !is_name(&name) {
            return self.refuse("this form of `for`");
        }
        self.pos += name.len();
        self.skip_blanks();
        if self.next_word() != "in" {
            return self.refuse("a `for` without `in`");
        }
        self.pos += 2;
        for word in self.words_to_end_of_line()? {
            if word.parts == [WordPart::Sequence] {
                // The loop runs once for each number.
                self.facts.assign(&name, ValueFacts::COUNT);
            } else if word.may_split(&Facts::default()) {
                // Only the first of several words begins as written.
                self.assign_unknown(&name);
            } else {
                self.assign(&name, &word);
            }
        }
        self.mark_set(&name);
        self.assigned.push((name, None));
        self.skip_blanks();
        self.take(";");
        self.skip_lines()?;
        if self.next_word() != "do" {
            return self.refuse("a `for` without `do`");
        }
        self.pos += 2;
        self.list_to(&["done"]).map(|_| ())
    }

    fn words_to_end_of_line(&mut self) -> Proven<Vec<RawWord>> {
        let mut words = Vec::new();
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some(';' | '\n') => return Ok(words),
                Some('`') if self.in_backticks => return Ok(words),
                Some('#') => return self.refuse("a comment here"),
                Some('&' | '|' | '<' | '>' | '(' | ')') => {
                    return self.refuse("this form of `for`");
                }
                Some(_) => words.extend(self.words()?),
            }
        }
    }

    /// `case WORD in PATTERN) …;; esac`: patterns are compared, nothing in them runs but
    /// substitutions, which are read.
    fn case(&mut self) -> Proven<()> {
        self.skip_blanks();
        self.word()?;
        self.skip_lines()?;
        if self.next_word() != "in" {
            return self.refuse("a `case` without `in`");
        }
        self.pos += 2;
        loop {
            self.skip_lines()?;
            if self.next_word() == "esac" {
                self.pos += 4;
                return Ok(());
            }
            self.take("(");
            self.parse_patterns()?;
            self.apart(|reader| reader.list(End::Case))?;
            if self.starts_with(";;&") || !(self.take(";;") || self.next_word() == "esac") {
                return self.refuse("this end of a `case` branch");
            }
        }
    }

    fn parse_patterns(&mut self) -> Proven<()> {
        loop {
            self.skip_blanks();
            self.word()?;
            self.skip_blanks();
            if self.take(")") {
                return Ok(());
            }
            if !self.take("|") {
                return self.refuse("this pattern of a `case`");
            }
        }
    }

    /// `[[ … ]]`: tests of files and comparisons of text. `-v` evaluates its operand and is
    /// refused. Comparisons of numbers evaluate theirs, too, so these must be numbers.
    fn condition(&mut self) -> Proven<()> {
        const UNARY: [&str; 13] =
            ["-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h", "-p", "-S", "-z", "-n"];
        const BINARY: [&str; 7] = ["=", "==", "!=", "=~", "-nt", "-ot", "-ef"];
        const NUMERIC: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
        let mut connective = None;
        loop {
            self.skip_condition_blanks()?;
            while self.next_word() == "!" {
                self.pos += 1;
                self.skip_condition_blanks()?;
            }
            if self.starts_with("(") {
                return self.refuse("parentheses in `[[`");
            }
            let first = self.word()?;
            let is_unary = first.bare().is_some_and(|text| UNARY.contains(&text));
            if !is_unary && first.bare().is_some_and(|text| text.starts_with('-')) {
                return self.refuse(format!("{} in `[[`", first.source));
            }
            self.skip_condition_blanks()?;
            let operator = self.next_word().to_owned();
            if is_unary {
                self.word()?;
            } else if BINARY.contains(&operator.as_str()) {
                self.pos += operator.len();
                self.skip_condition_blanks()?;
                self.word()?;
            } else if NUMERIC.contains(&operator.as_str()) {
                self.pos += operator.len();
                self.skip_condition_blanks()?;
                let second = self.word()?;
                self.numeric_operand(&first)?;
                self.numeric_operand(&second)?;
            }
            self.skip_condition_blanks()?;
            if self.next_word() == "]]" {
                self.pos += 2;
                return Ok(());
            }
            let found = ["&&", "||"].into_iter().find(|connective| self.take(connective));
            if found.is_none() || connective.is_some_and(|before| Some(before) != found) {
                return self.refuse("mixed or unknown operators in `[[`");
            }
            connective = found;
        }
    }

    /// An operand that `[[` evaluates as arithmetic: a number, or a variable that holds one.
    fn numeric_operand(&mut self, word: &RawWord) -> Proven<()> {
        let name = match word.parts.as_slice() {
            [WordPart::Count | WordPart::Integer] => return Ok(()),
            [WordPart::Text(text)] if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Ok(());
            }
            [WordPart::Text(name)] if is_name(name) => name,
            [WordPart::Variable { name, .. }] => name,
            _ => return self.refuse("a comparison of numbers in `[[`"),
        };
        self.arithmetic.push(name.clone());
        Ok(())
    }

    fn skip_condition_blanks(&mut self) -> Proven<()> {
        self.skip_blanks();
        if self.peek() == Some('\n') { self.refuse("a newline in `[[`") } else { Ok(()) }
    }

    // Simple commands.

    fn simple(&mut self) -> Proven<()> {
        let mut command = RawCommand { path: self.path.clone(), ..RawCommand::default() };
        loop {
            self.skip_blanks();
            if self.ends_simple() {
                break;
            }
            if self.redirect(&mut command.redirects)? {
                continue;
            }
            match self.peek() {
                Some('(') if command.words.len() == 1 => return self.refuse("a function"),
                Some('(') => return self.refuse("`(` in a command"),
                _ => {}
            }
            if command.words.is_empty()
                && let Some(name) = self.assignment_name()?
            {
                if command.assignments.len() > MAX_COMMANDS {
                    return self.refuse(format!("a text with over {MAX_COMMANDS} assignments"));
                }
                let value = self.assigned_value()?;
                command.assignments.push((name, value));
                continue;
            }
            command.words.extend(self.words()?);
        }
        if command.words.is_empty()
            && command.assignments.is_empty()
            && command.redirects.is_empty()
        {
            return self.refuse("a missing command");
        }
        // `IFS= read x` changes how this one builtin splits its line, and nothing else.
        let reads = command.words.first().and_then(RawWord::literal) == Some("read");
        command.assignments.retain(|(name, _)| !(reads && name == "IFS"));
        for (name, value) in &command.assignments {
            self.assign(name, value);
        }
        if command.words.is_empty() && command.redirects.is_empty() {
            for (name, _) in &command.assignments {
                self.mark_set(name);
            }
        }
        self.note_assigning_builtin(&command.words);
        self.commands.push(command);
        Ok(())
    }

    fn ends_simple(&self) -> bool {
        match self.peek() {
            None | Some('\n' | ';' | '|' | ')' | '#') => true,
            Some('&') => !self.starts_with("&>"),
            Some('`') => self.in_backticks,
            Some(_) => false,
        }
    }

    /// The name in `NAME=`, which is taken. The value is known to be text: there are no arrays, no
    /// attributes, and no variables that the shell evaluates (`prove` checks the name).
    fn assignment_name(&mut self) -> Proven<Option<String>> {
        let rest = self.rest();
        let Some((name, _)) = rest.split_once('=') else { return Ok(None) };
        if is_name(name) {
            let name = name.to_owned();
            self.pos += name.len() + 1;
            return Ok(Some(name));
        }
        let is_odd = |tail: &str| name.strip_suffix(tail).is_some_and(is_name);
        let has_subscript = name.split_once('[').is_some_and(|(name, _)| is_name(name));
        if is_odd("+") || has_subscript {
            return self.refuse("this form of assignment");
        }
        Ok(None)
    }

    fn assigned_value(&mut self) -> Proven<RawWord> {
        match self.peek() {
            None | Some(' ' | '\t' | '\n' | ';' | '|' | '&' | ')' | '`') => Ok(RawWord::default()),
            Some('(') => self.refuse("an array"),
            Some(_) => self.word(),
        }
    }

    /// `read NAME` and `export NAME=…` assign, wherever in the text the name is used.
    fn note_assigning_builtin(&mut self, words: &[RawWord]) {
        let program = words.first().and_then(RawWord::literal);
        if !matches!(program, Some("read" | "export" | "unset")) {
            return;
        }
        for word in words.iter().skip(1) {
            // The value may be unknown, the name may not: `look_up_builtin` refuses such a word.
            let name = word.prefix().split('=').next().unwrap_or_default();
            if is_name(name) {
                self.assign_unknown(name);
                let value = word.literal().and_then(|text| text.split_once('='));
                if let (Some((_, value)), Some((_, known))) = (value, self.assigned.last_mut()) {
                    *known = Some(value.to_owned());
                }
            }
        }
    }
}
