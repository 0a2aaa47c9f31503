//! Facts about the values of variables, wherever in the text they are used.
//!
//! Assignments are collected from the whole text, in no order: a fact holds for a variable only if
//! it holds for every value that the text or the caller gives it, in whichever branch or loop.

use std::collections::BTreeMap;

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
