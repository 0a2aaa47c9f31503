//! The tables of programs in `tables/`, read into blocks, and arguments read by the options in them.
//!
//! ```text
//! # A comment takes a whole line.
//! set NAME WORD …             words that other lists insert as @NAME
//! template NAME               fields that other blocks start from
//!     KEY WORD …
//! program NAME …
//!     like TEMPLATE
//!     KEY WORD …
//!         WORD …              more words of the line above
//!     subcommand NAME …
//!         KEY WORD …
//! ```
//!
//! Each level is indented by four spaces. A line that is indented by eight spaces more than its
//! block continues the line above.
//!
//! A list of options is a text of tokens, each an option in its own spelling:
//!
//! - `-v`, `--verbose`, `-version`: the option alone.
//! - `--name=`: with a value, after `=` or in the next word. The next word may not look like an
//!   option, because many programs then read it as one.
//! - `--name==`: the same for programs that take the next word whatever it is.
//! - `--name?`: with a value after `=`, or none.
//! - `-c=>`: with a value; all words after the value are operands.
//! - `-args>`: without a value; all words after it are operands.
//! - `-W*`: any word that starts like this.
//! - `-#`: a dash and a number.
//!
//! Short options may be joined (`-xq`) unless the text has a long option after a single dash.
//! Names are exact: an abbreviation, which GNU programs accept, is an unknown option here.

use std::collections::HashMap;

use crate::command::{Shape, Word};

/// The argument that is not known to be harmless, as a refusal names it:
/// "the option --use-compress-program", "the subcommand foreach", "the word $x".
pub(crate) type Doubt = String;

/// A list of options. Of two tokens for one option the first counts.
#[derive(Debug, Default)]
pub(crate) struct OptionSet {
    /// The options, sorted by name.
    forms: Vec<(&'static str, Takes)>,
    prefixes: Vec<&'static str>,
    has_numbers: bool,
    has_long_behind_one_dash: bool,
}

/// The form in which an option takes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Word,
    AnyWord,
    Attached,
    /// A value, and then nothing else is an option.
    Rest,
    /// No value, but then nothing else is an option.
    End,
}

/// The marks after the names of tokens, longest first.
const MARKS: [(&str, Takes); 5] = [
    ("==", Takes::AnyWord),
    ("=>", Takes::Rest),
    ("=", Takes::Word),
    ("?", Takes::Attached),
    (">", Takes::End),
];

impl OptionSet {
    /// Reads tokens that are separated by white space.
    pub(crate) fn parse(text: &'static str) -> Self {
        Self::from_tokens(text.split_ascii_whitespace())
    }

    pub(crate) fn from_tokens(tokens: impl IntoIterator<Item = &'static str>) -> Self {
        let mut set = Self::default();
        for token in tokens {
            if token == "-#" {
                set.has_numbers = true;
                continue;
            }
            let bare = token.trim_end_matches(['=', '?', '>', '*']);
            set.has_long_behind_one_dash |= !token.starts_with("--") && bare.chars().count() > 2;
            if let Some(prefix) = token.strip_suffix('*') {
                set.prefixes.push(prefix);
                continue;
            }
            let marked = MARKS
                .iter()
                .find_map(|(mark, takes)| token.strip_suffix(mark).map(|name| (name, *takes)));
            set.forms.push(marked.unwrap_or((token, Takes::Nothing)));
        }
        // A stable sort, so that the first token of a name stays the first.
        set.forms.sort_by_key(|(name, _)| *name);
        set.forms.dedup_by_key(|(name, _)| *name);
        set
    }

    /// `true` if the text is a valid token of an option list.
    pub(crate) fn is_token(text: &str) -> bool {
        let name = MARKS.iter().find_map(|(mark, _)| text.strip_suffix(mark)).unwrap_or(text);
        text.starts_with('-') && (text.ends_with('*') || text == "-#" || !name.contains('='))
    }

    /// Sorts arguments into options and operands, where options come before operands only or
    /// anywhere.
    ///
    /// # Errors
    /// The first word that is not a known option and may become one when the command runs.
    pub(crate) fn read(&self, args: &[Word], order: OptionOrder) -> Result<Arguments, Doubt> {
        let style = OptionStyle { order, ..OptionStyle::default() };
        OptionReader { sets: &[self], style }.read(args)
    }

    fn find(&self, name: &str) -> Option<Takes> {
        let index = self.forms.binary_search_by_key(&name, |(known, _)| known).ok()?;
        self.forms.get(index).map(|(_, takes)| *takes)
    }

    /// `true` if the option is listed.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.find(name).is_some() || self.prefixes.contains(&name)
    }

    /// `true` if the option takes a value that may be the next word; `None` if it is not listed.
    pub(crate) fn takes_next(&self, name: &str) -> Option<bool> {
        self.find(name).map(|takes| matches!(takes, Takes::Word | Takes::AnyWord))
    }

    /// `true` if a dash and a number is an option.
    pub(crate) fn has_numbers(&self) -> bool {
        self.has_numbers
    }
}

/// The position of options among the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum OptionOrder {
    /// Anywhere before `--`, as GNU programs read them.
    #[default]
    Anywhere,
    /// Only before the first operand: the words after it belong to another command.
    First,
}

/// The way in which a program reads its options.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OptionStyle {
    pub(crate) order: OptionOrder,
    /// `true` if no option of the program does harm, listed or not: a word that may become an
    /// option counts as an operand. Options that are written out are still checked.
    pub(crate) is_tolerant: bool,
    /// `true` if a value in a separate word may not begin with a dash, even after `==`. For
    /// programs with several option parsers, which may disagree on the options that take the next
    /// word.
    pub(crate) is_undashed: bool,
    /// `true` if every known long option `--name` also has the form `--no-name`, as in git.
    pub(crate) is_negated: bool,
}

/// One option of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParsedOption {
    /// The name with its dashes.
    pub(crate) name: String,
    pub(crate) value: Option<Word>,
}

/// Arguments, divided into options and operands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) options: Vec<ParsedOption>,
    pub(crate) operands: Vec<Word>,
}

impl Arguments {
    /// `true` if the arguments contain one of these options.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|given| names.contains(&given.name.as_str()))
    }

    /// Returns the values of all options with these names.
    pub(crate) fn values<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = &'a Word> {
        let named = self.options.iter().filter(|given| names.contains(&given.name.as_str()));
        named.filter_map(|given| given.value.as_ref())
    }
}

/// The reader of arguments, with the options of a program and of the commands around it.
pub(crate) struct OptionReader<'s> {
    pub(crate) sets: &'s [&'s OptionSet],
    pub(crate) style: OptionStyle,
}

/// An option whose value is the next word.
struct NeededValue {
    takes: Takes,
    name: String,
}

impl OptionReader<'_> {
    /// Divides arguments into options and operands.
    ///
    /// # Errors
    /// The first word that is not a known option and may become one when the command runs.
    pub(crate) fn read(&self, args: &[Word]) -> Result<Arguments, Doubt> {
        let mut found = Arguments::default();
        let mut words = args.iter();
        while let Some(word) = words.next() {
            if word.is("--") {
                found.operands.extend(words.cloned());
                break;
            }
            let is_operand = match check_operand(word) {
                Err(_) if self.style.is_tolerant => true,
                other => other?,
            };
            if is_operand {
                found.operands.push(word.clone());
                if self.style.order == OptionOrder::First {
                    found.operands.extend(words.cloned());
                    break;
                }
                continue;
            }
            let Some(needs) = self.read_option(word, &mut found.options)? else {
                continue;
            };
            if needs.takes == Takes::End {
                found.operands.extend(words.cloned());
                break;
            }
            let value = words.next();
            let value =
                value.ok_or_else(|| format!("the option {} without a value", needs.name))?;
            if !self.is_value(value, needs.takes) {
                return Err(format!("the word {value}"));
            }
            if let Some(given) = found.options.last_mut() {
                given.value = Some(value.clone());
            }
            if needs.takes == Takes::Rest {
                found.operands.extend(words.cloned());
                break;
            }
        }
        Ok(found)
    }

    /// Reads one word of options; returns the last of them if it needs the next word.
    fn read_option(
        &self,
        word: &Word,
        given: &mut Vec<ParsedOption>,
    ) -> Result<Option<NeededValue>, Doubt> {
        let text = word.text.as_str();
        let is_literal = word.shape == Shape::Literal;
        if is_literal && let Some(takes) = self.find(text) {
            given.push(ParsedOption { name: text.to_owned(), value: None });
            let needs_word = !matches!(takes, Takes::Nothing | Takes::Attached);
            return Ok(needs_word.then(|| NeededValue { takes, name: text.to_owned() }));
        }
        if let Some((name, value)) = text.split_once('=')
            && name.len() > 2
            && let Some(Takes::Word | Takes::AnyWord | Takes::Attached) = self.find(name)
        {
            given.push(ParsedOption {
                name: name.to_owned(),
                value: Some(value_in_word(word, value)),
            });
            return Ok(None);
        }
        if let Some(prefix) = self.prefix(text) {
            let value = text.get(prefix.len()..).unwrap_or_default();
            given.push(ParsedOption {
                name: prefix.to_owned(),
                value: Some(value_in_word(word, value)),
            });
            return Ok(None);
        }
        let digits = text.get(1..).unwrap_or_default();
        let is_number = is_literal && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && self.sets.iter().any(|set| set.has_numbers) {
            return Ok(None);
        }
        if text.starts_with("--") || self.sets.iter().any(|set| set.has_long_behind_one_dash) {
            return Err(format!("the option {}", text.split('=').next().unwrap_or(text)));
        }
        self.read_cluster(word, given)
    }

    /// Reads a cluster of short options such as `-abc`.
    fn read_cluster(
        &self,
        word: &Word,
        given: &mut Vec<ParsedOption>,
    ) -> Result<Option<NeededValue>, Doubt> {
        let cluster = word.text.get(1..).unwrap_or_default();
        let is_literal = word.shape == Shape::Literal;
        for (index, letter) in cluster.char_indices() {
            let name = format!("-{letter}");
            let rest = cluster.get(index + letter.len_utf8()..).unwrap_or_default();
            let takes = self.find(&name).ok_or_else(|| format!("the option {name}"))?;
            match takes {
                Takes::Nothing => given.push(ParsedOption { name, value: None }),
                Takes::Attached => {
                    let value =
                        (!rest.is_empty() || !is_literal).then(|| value_in_word(word, rest));
                    given.push(ParsedOption { name, value });
                    return Ok(None);
                }
                Takes::Rest | Takes::End if !rest.is_empty() => {
                    return Err(format!("the word {word}"));
                }
                Takes::Word | Takes::AnyWord | Takes::Rest | Takes::End if rest.is_empty() => {
                    // In `-n$x` an empty value would make the next word the value.
                    if !is_literal {
                        return Err(format!("the word {word}"));
                    }
                    given.push(ParsedOption { name: name.clone(), value: None });
                    return Ok(Some(NeededValue { takes, name }));
                }
                Takes::Word | Takes::AnyWord | Takes::Rest | Takes::End => {
                    given.push(ParsedOption { name, value: Some(value_in_word(word, rest)) });
                    return Ok(None);
                }
            }
        }
        if is_literal { Ok(None) } else { Err(format!("the word {word}")) }
    }

    fn find(&self, name: &str) -> Option<Takes> {
        self.sets.iter().find_map(|set| set.find(name)).or_else(|| {
            let positive = name.strip_prefix("--no-").filter(|_| self.style.is_negated)?;
            self.find(&format!("--{positive}")).map(|_| Takes::Nothing)
        })
    }

    fn prefix(&self, text: &str) -> Option<&'static str> {
        let prefixes = self.sets.iter().flat_map(|set| set.prefixes.iter().copied());
        prefixes.filter(|prefix| text.starts_with(prefix)).max_by_key(|prefix| prefix.len())
    }

    /// `true` if the word can be the value of an option that takes its value like this.
    fn is_value(&self, word: &Word, takes: Takes) -> bool {
        let is_dashed = self.style.is_undashed && word.text.starts_with('-');
        match takes {
            // A word that may become empty or split would make the next word an option or operand.
            Takes::AnyWord | Takes::Rest => stays_one_word(word) && !is_dashed,
            Takes::Word => stays_one_word(word) && check_operand(word) == Ok(true),
            Takes::Nothing | Takes::Attached | Takes::End => false,
        }
    }
}

/// Returns the value of a word that must be known.
///
/// # Errors
/// The word, if its value is not known.
pub(crate) fn require_known(word: &Word) -> Result<&str, Doubt> {
    word.value().ok_or_else(|| format!("the word {word}"))
}

/// `true` for a word that cannot be an option, for every value of its unknown part.
///
/// # Errors
/// The word may be an option or an operand.
pub(crate) fn check_operand(word: &Word) -> Result<bool, Doubt> {
    let is_plain = !word.text.starts_with('-');
    match word.shape {
        Shape::Literal => Ok(is_plain || word.text == "-"),
        Shape::Process => Ok(true),
        Shape::One | Shape::Glob | Shape::Many if word.plain && is_plain => Ok(true),
        Shape::One | Shape::Glob if !word.text.is_empty() && is_plain => Ok(true),
        Shape::One if word.text.len() > 1 => Ok(false),
        Shape::One | Shape::Glob | Shape::Many => Err(format!("the word {word}")),
    }
}

/// `true` if the word becomes exactly one word.
pub(crate) fn stays_one_word(word: &Word) -> bool {
    match word.shape {
        Shape::Literal | Shape::One | Shape::Process => true,
        // An unquoted word could also expand to nothing.
        Shape::Many | Shape::Glob => false,
    }
}

/// Returns the part of a word after an option's name.
fn value_in_word(word: &Word, rest: &str) -> Word {
    let source = if word.shape == Shape::Literal { String::new() } else { word.source.clone() };
    Word { text: rest.to_owned(), source, variable: None, ..word.clone() }
}

/// A program, a subcommand or a template, with its fields.
#[derive(Debug, Default, Clone)]
pub(crate) struct Block {
    pub(crate) names: Vec<&'static str>,
    pub(crate) fields: Vec<(&'static str, Vec<&'static str>)>,
    pub(crate) subcommands: Vec<Block>,
}

impl Block {
    /// Returns the words of a field; none if the block does not have the field.
    pub(crate) fn words(&self, key: &str) -> &[&'static str] {
        let field = self.fields.iter().find(|(name, _)| *name == key);
        field.map(|(_, words)| words.as_slice()).unwrap_or_default()
    }

    /// `true` if the block has the field.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.fields.iter().any(|(name, _)| *name == key)
    }

    /// Adds the fields of a template that the block lacks, and the template's subcommands if the
    /// block has none.
    fn extend(&mut self, template: &Self) {
        for field in &template.fields {
            if !self.has(field.0) {
                self.fields.push(field.clone());
            }
        }
        if self.subcommands.is_empty() {
            self.subcommands.clone_from(&template.subcommands);
        }
    }
}

/// A parsed table of programs.
#[derive(Debug, Default)]
pub(crate) struct ProgramTable {
    pub(crate) programs: Vec<Block>,
    pub(crate) sets: HashMap<&'static str, Vec<&'static str>>,
    /// `true` if a program must be named exactly as in the table. In other tables a version may
    /// follow the name: `python3.11`.
    pub(crate) has_exact_names: bool,
    /// Lines that are not valid and were left out.
    pub(crate) faults: Vec<String>,
    templates: HashMap<&'static str, Block>,
}

impl ProgramTable {
    /// Reads the text of a table.
    pub(crate) fn parse(text: &'static str) -> Self {
        let mut table = Self::default();
        let lines = joined_lines(text);
        let mut rest = lines.as_slice();
        while let Some((line, below)) = rest.split_first() {
            let inner = below.iter().take_while(|line| line.indent > 0).count();
            let (inner, after) = below.split_at(inner);
            rest = after;
            table.add(line, inner);
        }
        table
    }

    /// Returns the lines that are not valid, keys other than these, and names that two programs
    /// have.
    #[cfg(test)]
    pub(crate) fn find_faults(&self, keys: &[&str]) -> Vec<String> {
        let mut faults = self.faults.clone();
        let mut names = std::collections::HashSet::new();
        for block in &self.programs {
            let odd = block.fields.iter().filter(|(key, _)| !keys.contains(key));
            faults.extend(odd.map(|(key, _)| format!("{:?}: {key}", block.names)));
            let again = block.names.iter().filter(|name| !names.insert(**name));
            faults.extend(again.map(|name| format!("{name}: two entries")));
        }
        faults
    }

    fn add(&mut self, line: &TableLine, inner: &[TableLine]) {
        let words = line.words.as_slice();
        match (line.key, words) {
            ("names", ["exact"]) => self.has_exact_names = true,
            ("set", [name, words @ ..]) => {
                let words = self.insert_sets(words);
                self.sets.insert(name, words);
            }
            ("template", [name]) => {
                let block = self.block(Vec::new(), inner, 4);
                self.templates.insert(name, block);
            }
            ("program", [_, ..]) => {
                let block = self.block(words.to_vec(), inner, 4);
                self.programs.push(block);
            }
            _ => self.faults.push(format!("{} {}", line.key, words.join(" "))),
        }
    }

    fn block(&mut self, names: Vec<&'static str>, lines: &[TableLine], indent: usize) -> Block {
        let mut block = Block { names, ..Block::default() };
        let mut template = None;
        let mut rest = lines;
        while let Some((line, below)) = rest.split_first() {
            let inner = below.iter().take_while(|line| line.indent > indent).count();
            let (inner, after) = below.split_at(inner);
            rest = after;
            match line.key {
                "subcommand" if !line.words.is_empty() => {
                    let subcommand = self.block(line.words.clone(), inner, indent + 4);
                    block.subcommands.push(subcommand);
                }
                "like" => template = line.words.first().copied(),
                key if block.has(key) || !inner.is_empty() || line.indent != indent => {
                    self.faults.push(format!("{:?}: {key}", block.names));
                }
                key => {
                    let words = self.insert_sets(&line.words);
                    block.fields.push((key, words));
                }
            }
        }
        match template.map(|name| self.templates.get(name)) {
            Some(Some(template)) => block.extend(template),
            Some(None) => self.faults.push(format!("{:?}: like {template:?}", block.names)),
            None => {}
        }
        block
    }

    /// Replaces each `@NAME` by the words of the set.
    fn insert_sets(&mut self, words: &[&'static str]) -> Vec<&'static str> {
        let mut all = Vec::new();
        for word in words {
            let name = word.strip_prefix('@').filter(|name| !name.is_empty());
            match name.map(|name| self.sets.get(name)) {
                Some(Some(set)) => all.extend(set),
                Some(None) => self.faults.push(format!("the set {word}")),
                None => all.push(*word),
            }
        }
        all
    }
}

/// `true` if a list of words separated by white space contains the word.
pub(crate) fn has_word(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == word)
}

/// A line together with the lines that continue it.
#[derive(Debug)]
struct TableLine {
    indent: usize,
    key: &'static str,
    words: Vec<&'static str>,
}

fn joined_lines(text: &'static str) -> Vec<TableLine> {
    let mut lines: Vec<TableLine> = Vec::new();
    // The indentation of the innermost block.
    let mut block = 0;
    for line in text.lines() {
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let indent = line.len() - content.len();
        let mut words = content.split_ascii_whitespace();
        if indent >= block + 8
            && let Some(last) = lines.last_mut()
        {
            last.words.extend(words);
            continue;
        }
        let Some(key) = words.next() else { continue };
        let opens_block = indent == 0 || key == "subcommand";
        block = if opens_block { indent } else { indent.saturating_sub(4) };
        lines.push(TableLine { indent, key, words: words.collect() });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEGATED: OptionStyle = OptionStyle {
        order: OptionOrder::Anywhere,
        is_tolerant: true,
        is_undashed: false,
        is_negated: true,
    };

    /// Words, split at spaces; `$x` is a word of unknown value.
    fn words(line: &str) -> Vec<Word> {
        line.split(' ').filter(|word| !word.is_empty()).map(word).collect()
    }

    fn word(text: &str) -> Word {
        match text.split_once('$') {
            Some((prefix, _)) => Word::unknown(prefix, Shape::One),
            None => Word::literal(text),
        }
    }

    fn read(tokens: &'static str, style: OptionStyle, line: &str) -> Result<Vec<String>, Doubt> {
        let set = OptionSet::parse(tokens);
        let found = OptionReader { sets: &[&set], style }.read(&words(line))?;
        Ok(found.operands.iter().map(ToString::to_string).collect())
    }

    #[track_caller]
    fn check(tokens: &'static str, line: &str, expected: Result<(&[&str], &[&str]), &str>) {
        let found =
            OptionSet::parse(tokens).read(&words(line), OptionOrder::Anywhere).map(|found| {
                let options = found.options.into_iter().map(|given| match given.value {
                    Some(value) => format!("{}:{}", given.name, value.text),
                    None => given.name,
                });
                let operands = found.operands.into_iter().map(|word| word.text);
                (options.collect::<Vec<_>>(), operands.collect::<Vec<_>>())
            });
        let expected = expected.map_err(str::to_owned).map(|(options, operands)| {
            let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
            (owned(options), owned(operands))
        });
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn options_are_read_as_they_are_listed() {
        check("-v -n= --all", "-vn5 a --all b", Ok((&["-v", "-n:5", "--all"], &["a", "b"])));
        check("-n= --color?", "-n 5 --color --color=x y", {
            Ok((&["-n:5", "--color", "--color:x"], &["y"]))
        });
        check("-v", "-- -x", Ok((&[], &["-x"])));
        check("-c=> -q", "-q -c code -x", Ok((&["-q", "-c:code"], &["-x"])));
        check("-args> -v", "-v x -args -x", Ok((&["-v", "-args"], &["x", "-x"])));
        check("-jar= -D*", "-Da=b -jar x", Ok((&["-D:a=b", "-jar:x"], &[])));
        check("-#", "-20 x", Ok((&[], &["x"])));
        check("--since==", "--since -1h", Ok((&["--since:-1h"], &[])));
        check("-i? -q", "-qi.bak a", Ok((&["-q", "-i:.bak"], &["a"])));
    }

    #[test]
    fn a_word_that_is_not_listed_is_named() {
        check("-v --verbose", "--verb", Err("the option --verb"));
        check("-v --verbose", "--verbose=x", Err("the option --verbose"));
        check("-v --verbose", "--no-verbose", Err("the option --no-verbose"));
        check("-v --verbose", "--$x a", Err("the option --"));
        check("-v --verbose", "$x", Err("the word …"));
        check("-v --verbose", "-$x", Err("the word -…"));
        check("-v", "-vx", Err("the option -x"));
        check("-v -x -xv=", "-vx", Err("the option -vx"));
        check("--name=", "--name --other", Err("the word --other"));
        check("--name=", "--name --", Err("the word --"));
        check("--name=", "--name", Err("the option --name without a value"));
        check("-n=", "-5", Err("the option -5"));
    }

    #[test]
    fn two_dashes_end_options_unless_they_are_a_value() {
        check("-o==", "-- -x", Ok((&[], &["-x"])));
        check("-o==", "-o -- -x", Err("the option -x"));
    }

    #[test]
    fn a_value_may_be_required_to_start_without_a_dash() {
        let style = OptionStyle { is_undashed: true, ..OptionStyle::default() };
        assert_eq!(read("-o==", style, "-o -- a"), Err("the word --".to_owned()));
        assert_eq!(read("-o==", style, "-o x a"), Ok(vec!["a".to_owned()]));
        assert_eq!(read("-o==", style, "-o $x a"), Ok(vec!["a".to_owned()]));
    }

    #[test]
    fn a_tolerant_program_takes_unknown_words_and_still_refuses_unknown_options() {
        assert_eq!(read("--quiet", NEGATED, "$x --no-quiet"), Ok(vec!["…".to_owned()]));
        assert_eq!(read("--quiet", NEGATED, "$x --other"), Err("the option --other".to_owned()));
    }

    #[test]
    fn the_first_of_two_tokens_counts() {
        check("-n -n=", "-n 5", Ok((&["-n"], &["5"])));
    }

    #[test]
    fn unknown_parts_may_only_be_values() {
        let set = OptionSet::parse("-n= --name= --any== -v");
        let read = |words: &[Word]| set.read(words, OptionOrder::Anywhere).is_ok();
        let first = |word: &Word| read(&[word.clone(), Word::literal("x")]);
        assert!(first(&Word::unknown("--name=", Shape::One)));
        assert!(first(&Word::unknown("-n5", Shape::One)));
        assert!(!first(&Word::unknown("-n", Shape::One)));
        assert!(!first(&Word::unknown("-v", Shape::One)));
        assert!(!first(&Word::unknown("--na", Shape::One)));
        assert!(!first(&Word::unknown("", Shape::One)));
        assert!(!first(&Word::unknown("", Shape::Glob)));
        let value = |option: &str, shape| read(&[Word::literal(option), Word::unknown("", shape)]);
        assert!(value("--any", Shape::One));
        assert!(!value("--any", Shape::Many));
        assert!(!value("--name", Shape::One));
    }

    #[test]
    fn blocks_have_fields_sets_templates_and_subcommands() {
        let table = ProgramTable::parse(
            "# A comment.
set common -a
        -b
template base
    files x
    options -z
program one two
        three
    like base
    options @common
        -c
    subcommand get
        options -d
            -e
    opaque
program four
",
        );
        assert_eq!(table.faults, Vec::<String>::new());
        let [first, second] = table.programs.as_slice() else { panic!("{table:?}") };
        assert_eq!(first.names, ["one", "two", "three"]);
        assert_eq!(first.words("options"), ["-a", "-b", "-c"]);
        assert_eq!(first.words("files"), ["x"]);
        assert!(first.has("opaque"));
        let [inner] = first.subcommands.as_slice() else { panic!("{first:?}") };
        assert_eq!(inner.words("options"), ["-d", "-e"]);
        assert!(!inner.has("opaque"));
        assert_eq!(second.names, ["four"]);
    }

    #[test]
    fn lines_that_are_not_valid_are_reported() {
        for text in [
            "odd x",
            "program a\n    like b",
            "program a\n    options @b",
            "program a\n  options -b",
        ] {
            assert!(!ProgramTable::parse(text).faults.is_empty(), "{text}");
        }
    }
}
