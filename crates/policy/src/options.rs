//! Option lists, the tables of programs in `tables/`, and lists of words.
//!
//! ```text
//! # A comment takes a whole line.
//! set NAME OPTION …           a list of options with a name
//! program NAME …
//!     KEY WORD …
//!         WORD …              more words of the line above
//! ```
//!
//! A line that is indented by eight spaces continues the line above. A list of options is a text of
//! tokens, each an option in its own spelling: `-v` or `--verbose` alone, `--name==` with a value
//! after `=` or in the next word, and `-#` for a dash and a number.

use std::collections::HashMap;

use crate::command::{Shape, Word};

/// A list of options. Of two tokens for one option the first counts.
#[derive(Debug, Default)]
pub(crate) struct OptionSet {
    /// Each option, and `true` if it takes a value.
    forms: HashMap<&'static str, bool>,
}

impl OptionSet {
    /// Reads tokens that are separated by white space.
    pub(crate) fn parse(text: &'static str) -> Self {
        Self::from_tokens(text.split_ascii_whitespace())
    }

    pub(crate) fn from_tokens(tokens: impl IntoIterator<Item = &'static str>) -> Self {
        let mut set = Self::default();
        for token in tokens {
            let takes_value = token.strip_suffix("==");
            set.forms.entry(takes_value.unwrap_or(token)).or_insert(takes_value.is_some());
        }
        set
    }

    /// `true` if the option takes a value that may be the next word; `None` if it is not listed.
    pub(crate) fn takes_next(&self, name: &str) -> Option<bool> {
        self.forms.get(name).copied()
    }

    /// `true` if a dash and a number is an option.
    pub(crate) fn has_numbers(&self) -> bool {
        self.forms.contains_key("-#")
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

/// A program with its fields.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) names: Vec<&'static str>,
    pub(crate) fields: Vec<(&'static str, Vec<&'static str>)>,
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
}

/// A parsed table of programs.
#[derive(Debug, Default)]
pub(crate) struct ProgramTable {
    pub(crate) programs: Vec<Block>,
    pub(crate) sets: HashMap<&'static str, Vec<&'static str>>,
    /// Lines that are not valid and were left out.
    pub(crate) faults: Vec<&'static str>,
}

impl ProgramTable {
    /// Reads the text of a table.
    pub(crate) fn parse(text: &'static str) -> Self {
        let mut table = Self::default();
        let mut set = None;
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let indent = line.len() - line.trim_start().len();
            let mut words = line.split_ascii_whitespace();
            let block = table.programs.last_mut().filter(|_| set.is_none());
            match (indent, block) {
                (8, Some(Block { names, fields })) => {
                    fields.last_mut().map_or(names, |(_, words)| words).extend(words);
                }
                (8, None) => table.sets.entry(set.unwrap_or_default()).or_default().extend(words),
                (4, Some(block)) => {
                    block.fields.extend(words.next().map(|key| (key, words.collect())))
                }
                (0, _) => match words.next() {
                    Some("program") => {
                        set = None;
                        let names = words.collect();
                        table.programs.push(Block { names, fields: Vec::new() });
                    }
                    Some("set") => {
                        set = words.next();
                        table.sets.entry(set.unwrap_or_default()).or_default().extend(words);
                    }
                    Some(_) | None => table.faults.push(line),
                },
                _ => table.faults.push(line),
            }
        }
        table
    }
}

/// `true` if a list of words separated by white space contains the word.
pub(crate) fn has_word(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == word)
}
