//! Words: quotes, escapes, patterns, braces, and the places of expansions in them.
//!
//! Every accepted form has a comment that says why it starts no program of its own. Whatever is
//! not accepted here is refused by name.

use super::reader::{
    Proven, RawWord, ShellReader, WordPart, ends_word, is_in_name, is_name, starts_name,
};
use super::recognise::RawCommand;

/// The most words that a sequence such as `{1..9}` may become.
const MAX_SEQUENCE: u32 = 100;

impl ShellReader<'_> {
    /// Reads a word; a brace expansion makes several of one.
    pub(super) fn words(&mut self) -> Proven<Vec<RawWord>> {
        let start = self.pos;
        let mut word = RawWord::default();
        let mut braces = None;
        while let Some(c) = self.peek() {
            match c {
                '<' | '>' if self.pos == start && self.is_process_substitution() => {
                    self.process_substitution(&mut word)?
                }
                '<' | '>' if self.is_process_substitution() => {
                    return self.refuse("a process substitution behind text");
                }
                c if ends_word(c) || (c == '`' && self.in_backticks) => break,
                '{' => {
                    if braces.is_some() {
                        return self.refuse("two pairs of braces in a word");
                    }
                    braces = self.braces(&mut word)?;
                }
                _ => self.part(&mut word, start)?,
            }
        }
        if self.pos == start {
            return self.refuse("a missing word");
        }
        word.source = self.since(start).to_owned();
        if word.source == "[" {
            // Alone it is the command, not a pattern.
            word.parts = vec![WordPart::Text(word.source.clone())];
        }
        match braces {
            None => Ok(vec![word]),
            Some(choices) => self.expand(&word, choices),
        }
    }

    /// Reads a word; refuses braces that make several words of it.
    pub(super) fn word(&mut self) -> Proven<RawWord> {
        let mut words = self.words()?;
        match (words.pop(), words.is_empty()) {
            (Some(word), true) if !word.source.is_empty() => Ok(word),
            (Some(_), true) => self.refuse("a missing word"),
            _ => self.refuse("braces where one word is needed"),
        }
    }

    fn part(&mut self, word: &mut RawWord, start: usize) -> Proven<()> {
        let Some(c) = self.peek() else { return Ok(()) };
        match c {
            '\'' => self.single_quotes(word),
            '"' => self.double_quotes(word),
            '\\' => self.escape(word),
            '$' if self.starts_with("$'") => self.ansi_quotes(word),
            '$' if self.starts_with("$\"") => self.refuse("a translated string"),
            '$' => self.nested(|reader| reader.dollar(word, Quotes::None)),
            '`' => self.nested(|reader| reader.backticks(word, Quotes::None)),
            // The shell replaces the pattern by names of files; nothing runs.
            '*' | '?' | '[' => {
                self.pos += 1;
                word.parts.push(WordPart::Wildcard(c));
                Ok(())
            }
            '~' => self.tilde(word, start),
            c if c.is_control() => self.refuse("a control character"),
            c if !c.is_ascii() => {
                // In the fixed UTF-8 locale these are ordinary characters to bash.
                self.bash_only("characters beyond ASCII")?;
                self.push_char(word, c);
                Ok(())
            }
            c => {
                self.push_char(word, c);
                Ok(())
            }
        }
    }

    fn push_char(&mut self, word: &mut RawWord, c: char) {
        self.pos += c.len_utf8();
        word.push_text(c.encode_utf8(&mut [0; 4]));
    }

    /// `'…'`: every character stands for itself.
    fn single_quotes(&mut self, word: &mut RawWord) -> Proven<()> {
        self.pos += 1;
        let text = self.take_while(|c| c != '\'');
        if !self.take("'") {
            return self.refuse("a missing `'`");
        }
        word.quoted = true;
        self.check_text(text)?;
        word.push_text(text);
        Ok(())
    }

    /// `\c`: the character stands for itself.
    fn escape(&mut self, word: &mut RawWord) -> Proven<()> {
        self.pos += 1;
        word.quoted = true;
        match self.peek() {
            Some('\n') => self.refuse("a continued line inside a word"),
            Some(c) if c.is_control() => self.refuse("a control character"),
            Some(c) => {
                self.push_char(word, c);
                Ok(())
            }
            None => self.refuse("a backslash at the end"),
        }
    }

    /// `$'…'` with the escapes that mean one plain character: data, as in single quotes. After
    /// `\'`, where another shell would end the quotes, only characters that separate nothing.
    fn ansi_quotes(&mut self, word: &mut RawWord) -> Proven<()> {
        self.bash_only("`$'…'`")?;
        self.pos += 2;
        word.quoted = true;
        let mut has_quote = false;
        loop {
            let text = self.take_while(|c| c != '\'' && c != '\\');
            self.check_text(text)?;
            if has_quote && text.contains([';', '&', '|', '\n', '<', '>', '(', ')', '`', '$']) {
                return self.refuse("an operator behind a quote in `$'…'`");
            }
            word.push_text(text);
            if self.take("'") {
                return Ok(());
            }
            self.pos += 1;
            let plain = match self.peek() {
                Some('n') => "\n",
                Some('t') => "\t",
                Some('\\') => "\\",
                Some('\'') => {
                    has_quote = true;
                    "'"
                }
                Some('"') => "\"",
                Some(_) | None => return self.refuse("an escape in `$'…'`"),
            };
            self.pos += 1;
            word.push_text(plain);
        }
    }

    /// `"…"`: text and expansions, which stay one word.
    fn double_quotes(&mut self, word: &mut RawWord) -> Proven<()> {
        self.pos += 1;
        word.quoted = true;
        loop {
            match self.peek() {
                None => return self.refuse("a missing `\"`"),
                Some('"') => {
                    self.pos += 1;
                    return Ok(());
                }
                Some(_) => self.quoted_part(word, Quotes::Double)?,
            }
        }
    }

    /// Reads one piece of text in double quotes or in a here-document.
    pub(super) fn quoted_part(&mut self, word: &mut RawWord, quotes: Quotes) -> Proven<()> {
        match self.peek() {
            Some('$') => self.nested(|reader| reader.dollar(word, quotes)),
            Some('`') => self.nested(|reader| reader.backticks(word, quotes)),
            Some('\\') => self.quoted_escape(word, quotes),
            Some(_) | None => {
                let text = self.take_while(|c| !matches!(c, '$' | '`' | '\\' | '"'));
                let text = match text.is_empty() && quotes == Quotes::StrictHeredoc {
                    true => self.take_while(|c| c == '"'),
                    false => text,
                };
                self.check_text(text)?;
                word.push_text(text);
                Ok(())
            }
        }
    }

    /// `\` in double quotes hides `$`, `` ` ``, `"` and `\`, and is text before anything else.
    fn quoted_escape(&mut self, word: &mut RawWord, quotes: Quotes) -> Proven<()> {
        self.pos += 1;
        match self.peek() {
            Some('\n') => self.refuse("a continued line inside a word"),
            Some('"') if quotes == Quotes::StrictHeredoc => {
                word.push_text("\\");
                Ok(())
            }
            Some(c @ ('$' | '`' | '"' | '\\')) => {
                self.push_char(word, c);
                Ok(())
            }
            Some(_) => {
                word.push_text("\\");
                Ok(())
            }
            None => self.refuse("a backslash at the end"),
        }
    }

    /// Text in quotes: anything but control characters that terminals and shells act on.
    fn check_text(&self, text: &str) -> Proven<()> {
        let is_odd = |c: char| c.is_control() && c != '\n' && c != '\t';
        if text.contains(is_odd) {
            return self.refuse("a control character");
        }
        if !text.is_ascii() {
            self.bash_only("characters beyond ASCII")?;
        }
        Ok(())
    }

    /// `~` and `~/…` are the home directory. `~+`, `~-` and `~name` depend on variables and users;
    /// after `=` and `:` bash expands a tilde in some words and not in others.
    fn tilde(&mut self, word: &mut RawWord, start: usize) -> Proven<()> {
        let before = self.since(start).chars().next_back();
        self.pos += 1;
        match (before, self.peek()) {
            (None, next) if next.is_none_or(|c| c == '/' || ends_word(c)) => {
                word.parts.push(WordPart::Home);
                Ok(())
            }
            (None | Some('=' | ':'), _) => self.refuse("this use of `~`"),
            (Some(_), _) => {
                word.push_text("~");
                Ok(())
            }
        }
    }

    fn is_process_substitution(&self) -> bool {
        self.starts_with("<(") || self.starts_with(">(")
    }

    /// `<(…)`, `>(…)`: the commands inside are read like all others; the word is a path.
    fn process_substitution(&mut self, word: &mut RawWord) -> Proven<()> {
        self.bash_only("a process substitution")?;
        self.pos += 2;
        self.nested(|reader| reader.list_until(')'))?;
        word.parts.push(WordPart::Pipe);
        match self.peek() {
            Some(c) if !ends_word(c) => self.refuse("text after a process substitution"),
            _ => Ok(()),
        }
    }

    /// `{}` is text. `{a,b}` and `{1..9}` are the words that they list, if nothing inside is
    /// quoted, nested or expanded, so that no other reading exists.
    fn braces(&mut self, word: &mut RawWord) -> Proven<Option<Choices>> {
        if self.take("{}") {
            word.push_text("{}");
            self.check_text_brace()?;
            return Ok(None);
        }
        self.bash_only("braces in a word")?;
        self.pos += 1;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+,".contains(c);
        let inside = self.take_while(is_plain);
        // `{x}>f` would store a descriptor in a variable.
        if !self.take("}") || self.rest().starts_with(['{', '}', '<', '>']) {
            return self.refuse("this use of braces");
        }
        let choices = match inside.split_once("..") {
            Some((from, to)) => sequence(from, to),
            None if inside.contains(',') => Some(inside.split(',').map(str::to_owned).collect()),
            // `stash@{0}` lists nothing and is text, unless braces or commas follow.
            None if !inside.is_empty() => {
                word.push_text(&format!("{{{inside}}}"));
                self.check_text_brace()?;
                return Ok(None);
            }
            None => None,
        };
        let Some(words) = choices else { return self.refuse("this use of braces") };
        let before = word.literal().map_or(0, str::len);
        Ok(Some(Choices { before, words }))
    }

    /// Braces that list nothing are text only if the rest of the word is plain: bash lets another
    /// brace or a comma after them change what they mean.
    fn check_text_brace(&self) -> Proven<()> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=^~".contains(c);
        let rest = self.rest();
        let rest = rest.split(|c: char| ends_word(c) || c == '`').next().unwrap_or_default();
        if rest.chars().all(is_plain) { Ok(()) } else { self.refuse("this use of braces") }
    }

    /// The words of a brace expansion. What stands around the braces must be plain text.
    fn expand(&self, word: &RawWord, choices: Choices) -> Proven<Vec<RawWord>> {
        let text = match word.literal() {
            Some(text) if !word.quoted && !text.contains('}') => text,
            Some(_) | None => return self.refuse("braces beside quotes or expansions"),
        };
        let (before, after) = text.split_at_checked(choices.before).unwrap_or((text, ""));
        let expanded = |choice: String| -> Proven<RawWord> {
            let text = format!("{before}{choice}{after}");
            if text.is_empty() {
                return self.refuse("braces that become nothing");
            }
            let parts = vec![WordPart::Text(text)];
            Ok(RawWord { parts, source: word.source.clone(), quoted: false })
        };
        choices.words.into_iter().map(expanded).collect()
    }
}

/// The words that a brace expansion lists, and where in the word it stands.
#[derive(Debug)]
struct Choices {
    /// The length of the text before the braces.
    before: usize,
    words: Vec<String>,
}

/// The numbers of `{from..to}`.
fn sequence(from: &str, to: &str) -> Option<Vec<String>> {
    // A leading zero pads the numbers.
    let number = |text: &str| -> Option<u32> {
        let is_plain = text == "0" || !text.starts_with(['0', '+', '-']);
        text.parse().ok().filter(|_| is_plain)
    };
    let from = number(from)?;
    let to = number(to)?;
    if from.abs_diff(to) > MAX_SEQUENCE {
        return None;
    }
    let up = (from..=to).map(|number| number.to_string());
    let down = (to..=from).rev().map(|number| number.to_string());
    Some(if from <= to { up.collect() } else { down.collect() })
}

// Expansions: variables, arithmetic, substitutions.
//
// As for words, each accepted form has the reason why it starts no program of its own.

/// The surroundings of a `$` expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    /// No quotes: values are split and matched against files.
    None,
    /// Double quotes, ended by `"`.
    Double,
    /// A here-document: expansions as in double quotes, but `"` is text.
    StrictHeredoc,
}

impl Quotes {
    const fn are_there(self) -> bool {
        match self {
            Self::None => false,
            Self::Double | Self::StrictHeredoc => true,
        }
    }
}

/// The characters of an arithmetic expression beside numbers, names and parentheses.
const ARITHMETIC: &str = "+-*/%<>=!&|^~?:, \t";

impl ShellReader<'_> {
    /// `$…`: reads a variable, counts, computes, or runs a substitution whose commands are read
    /// like all others.
    fn dollar(&mut self, word: &mut RawWord, quotes: Quotes) -> Proven<()> {
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
                Some('"') if quotes != Quotes::StrictHeredoc => {
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
    Count,
    Counts,
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
