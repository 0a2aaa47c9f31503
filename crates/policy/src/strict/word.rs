//! Words as they stand in the text, and what they become once all assignments are known.

use crate::command::{Shape, Word};
use crate::strict::facts::{Facts, ValueFacts};

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WordPart {
    /// Characters that stand for themselves.
    Text(String),
    /// The value of a variable.
    Variable {
        /// Its name.
        name: String,
        /// Inside double quotes: the value stays one word.
        quoted: bool,
        /// The text has certainly given it a value before.
        is_set: bool,
    },
    /// Text that is known only when it runs: a command's output, a cut value.
    Unknown {
        /// Inside double quotes: the text stays one word.
        quoted: bool,
    },
    /// A number without a sign, such as `$?` or `${#x}`.
    Count,
    /// The value of an arithmetic expression, which may be negative.
    Integer,
    /// The unquoted output of `seq`: words that are numbers.
    Sequence,
    /// The home directory: an absolute path, which the shell does not split.
    Home,
    /// An unquoted `*`, `?` or `[`, with which the word becomes names of files.
    Wildcard(char),
    /// The path of a pipe to a process substitution.
    Pipe,
}

/// A word before its variables are known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RawWord {
    pub(super) parts: Vec<WordPart>,
    /// The word as written.
    pub(super) source: String,
    /// Some part of it was quoted or escaped, so that it is no reserved word and no operator.
    pub(super) quoted: bool,
}

impl RawWord {
    pub(super) fn push_text(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(WordPart::Text(before)) => before.push_str(text),
            _ => self.parts.push(WordPart::Text(text.to_owned())),
        }
    }

    /// The value, where the word is nothing but text.
    pub(super) fn literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [WordPart::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The value of a word without quotes: a reserved word, a name, a delimiter.
    pub(super) fn bare(&self) -> Option<&str> {
        self.literal().filter(|_| !self.quoted)
    }

    /// `true` if the shell may make several words, or none, of this one, files aside.
    pub(super) fn may_split(&self, facts: &Facts) -> bool {
        self.parts.iter().any(|part| match part {
            WordPart::Variable { name, quoted, is_set } => {
                !(*quoted || *is_set && facts.value(name).is_atom)
            }
            WordPart::Unknown { quoted } => !quoted,
            WordPart::Sequence => true,
            WordPart::Text(_)
            | WordPart::Count
            | WordPart::Integer
            | WordPart::Home
            | WordPart::Wildcard(_)
            | WordPart::Pipe => false,
        })
    }

    /// The text before the first part that is not known.
    pub(super) fn prefix(&self) -> &str {
        match self.parts.first() {
            Some(WordPart::Text(text)) => text,
            _ => "",
        }
    }

    /// Returns the facts about a variable with this value.
    pub(super) fn value(&self) -> ValueFacts {
        if let Some(text) = self.literal() {
            return ValueFacts::of_text(text);
        }
        match self.parts.as_slice() {
            [WordPart::Count] => ValueFacts::COUNT,
            [WordPart::Integer] => ValueFacts::INTEGER,
            _ => {
                let prefix = self.prefix();
                let is_never_option = !prefix.is_empty() && !prefix.starts_with('-');
                ValueFacts { is_never_option, ..ValueFacts::UNKNOWN }
            }
        }
    }

    /// The word that a command gets, given what is known about all variables.
    pub(super) fn resolve(&self, facts: &Facts) -> Word {
        if let Some(text) = self.literal() {
            return Word { quoted: self.quoted, ..Word::literal(text) };
        }
        let is_pattern = |part: &WordPart| matches!(part, WordPart::Wildcard(_));
        let shape = if self.may_split(facts) {
            Shape::Many
        } else if self.parts.iter().any(is_pattern) {
            Shape::Glob
        } else if self.parts == [WordPart::Pipe] {
            Shape::Process
        } else {
            Shape::One
        };
        let is_absolute = match self.parts.first() {
            Some(WordPart::Home) => true,
            Some(WordPart::Variable { name, .. }) => facts.is_absolute(name),
            _ => false,
        };
        let plain = shape != Shape::Many
            && match self.parts.first() {
                Some(WordPart::Variable { name, is_set, .. }) => {
                    is_absolute || (*is_set && facts.value(name).is_never_option)
                }
                Some(WordPart::Count | WordPart::Home | WordPart::Pipe) => true,
                Some(WordPart::Text(text)) => !text.is_empty() && !text.starts_with('-'),
                Some(
                    WordPart::Unknown { .. }
                    | WordPart::Integer
                    | WordPart::Sequence
                    | WordPart::Wildcard(_),
                )
                | None => false,
            };
        let variable = match self.parts.as_slice() {
            [WordPart::Variable { name, .. }] => Some(name.clone()),
            _ => None,
        };
        let text = match shape {
            Shape::Many => "",
            Shape::Literal | Shape::One | Shape::Glob | Shape::Process if is_absolute => "/",
            Shape::Literal | Shape::One | Shape::Glob | Shape::Process => self.prefix(),
        };
        Word {
            text: text.to_owned(),
            shape,
            variable,
            quoted: self.quoted,
            plain,
            source: self.source.clone(),
        }
    }
}
