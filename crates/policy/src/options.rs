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

    fn find(&self, name: &str) -> Option<Takes> {
        let index = self.forms.binary_search_by_key(&name, |(known, _)| known).ok()?;
        self.forms.get(index).map(|(_, takes)| *takes)
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

/// `true` if the word becomes exactly one word.
pub(crate) fn stays_one_word(word: &Word) -> bool {
    match word.shape {
        Shape::Literal | Shape::One | Shape::Process => true,
        // An unquoted word could also expand to nothing.
        Shape::Many | Shape::Glob => false,
    }
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
