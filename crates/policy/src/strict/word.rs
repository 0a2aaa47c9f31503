//! Words as they stand in the text, and what they become once all assignments are known: the
//! facts about the values of variables.

use std::collections::BTreeMap;

use crate::command::{Shape, Word};

/// A literal or an expansion in a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WordPart {
    /// Characters that stand for themselves.
    Text(String),
    /// The value of a variable.
    Variable {
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
    /// The word's text as written.
    pub(super) source: String,
    /// `true` if a part of the word was quoted or escaped: it is not a reserved word or operator.
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

// Facts about the values of variables, wherever in the text they are used.
//
// Assignments are collected from the whole text, in no order: a fact holds for a variable only if
// it holds for every value that the text or the caller gives it, in whichever branch or loop.

/// The facts about one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValueFacts {
    /// Not empty, and without a leading dash.
    pub(super) is_never_option: bool,
    /// Not empty, without blanks and wildcards: one word, also without quotes.
    pub(super) is_atom: bool,
    /// Nothing but digits, perhaps with a sign: arithmetic evaluates nothing in it.
    pub(super) is_number: bool,
}

impl ValueFacts {
    pub(super) const UNKNOWN: Self =
        Self { is_never_option: false, is_atom: false, is_number: false };
    pub(super) const COUNT: Self = Self { is_never_option: true, is_atom: true, is_number: true };
    pub(super) const INTEGER: Self = Self { is_never_option: false, ..Self::COUNT };

    pub(super) fn of_text(text: &str) -> Self {
        let first = text.chars().next();
        let is_special = |c: char| c.is_whitespace() || matches!(c, '*' | '?' | '[' | '\\');
        Self {
            is_never_option: first.is_some_and(|c| c != '-'),
            is_atom: first.is_some() && !text.contains(is_special),
            is_number: first.is_some() && text.bytes().all(|byte| byte.is_ascii_digit()),
        }
    }

    const fn and(self, other: Self) -> Self {
        Self {
            is_never_option: self.is_never_option && other.is_never_option,
            is_atom: self.is_atom && other.is_atom,
            is_number: self.is_number && other.is_number,
        }
    }
}

/// The variables that get a value.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts(BTreeMap<String, ValueFacts>);

impl Facts {
    pub(super) fn assign(&mut self, name: &str, value: ValueFacts) {
        let known = self.0.entry(name.to_owned()).or_insert(value);
        *known = known.and(value);
    }

    /// Notes that arithmetic may change a variable. One that gets no other value stays unknown: it
    /// may only have been read.
    pub(super) fn count(&mut self, name: &str) {
        if let Some(known) = self.0.get_mut(name) {
            *known = known.and(ValueFacts::INTEGER);
        }
    }

    /// Returns the facts about a variable. There are none about one of the server's environment.
    pub(super) fn value(&self, name: &str) -> ValueFacts {
        self.0.get(name).copied().unwrap_or(ValueFacts::UNKNOWN)
    }

    /// `true` for the home and the working directory, unless something sets them: their values
    /// begin with a slash.
    pub(super) fn is_absolute(&self, name: &str) -> bool {
        (name == "HOME" || name == "PWD") && !self.0.contains_key(name)
    }

    /// `true` if arithmetic may read the variable: neither the text nor the caller gives it
    /// anything but numbers. A value that it has from the server's environment is the operator's.
    pub(super) fn is_arithmetic(&self, name: &str) -> bool {
        self.0.get(name).is_none_or(|value| value.is_number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_holds_only_if_it_holds_for_every_value() {
        let mut facts = Facts::default();
        facts.assign("x", ValueFacts::of_text("1"));
        assert!(facts.value("x").is_atom && facts.is_arithmetic("x"));
        facts.assign("x", ValueFacts::of_text("a b"));
        assert!(!facts.value("x").is_atom && facts.value("x").is_never_option);
        assert!(!facts.is_arithmetic("x") && facts.is_arithmetic("y"));
        assert_eq!(facts.value("y"), ValueFacts::UNKNOWN);
    }

    #[test]
    fn a_text_is_judged_by_its_characters() {
        for (text, expected) in [
            ("a", [true, true, false]),
            ("", [false; 3]),
            ("-a", [false, true, false]),
            ("/a", [true, true, false]),
            ("a b", [true, false, false]),
            ("*", [true, false, false]),
            ("12", [true; 3]),
            ("a[$(x)]", [true, false, false]),
        ] {
            let value = ValueFacts::of_text(text);
            let found = [value.is_never_option, value.is_atom, value.is_number];
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
