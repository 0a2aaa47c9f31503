//! Layers of values: the later wins, and each value remembers where it came from.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::check::{self, Rule};
use super::error::{Problem, Trouble};
use super::origin::Origin;
use super::schema::{self, Meaning};
use super::suggest;

/// A value in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The value as it was written.
    pub given: Value,
    /// Where it came from.
    pub origin: Origin,
    /// The value in the form that [`super::Settings`] is read from.
    pub(super) canonical: Value,
}

/// All layers laid so far, and every problem met on the way.
#[derive(Debug, Default)]
pub(super) struct Layers {
    entries: BTreeMap<String, Entry>,
    problems: Vec<Problem>,
}

impl Layers {
    /// Lays one value over what was there, if it keeps its rule.
    pub(super) fn set(&mut self, key: &str, given: Value, origin: Origin) {
        let key = &schema::spelled_out(key);
        match schema::meaning(key) {
            Meaning::Value(rule) => self.set_checked(key, *rule, given, origin),
            Meaning::Section => {
                self.report(origin, Trouble::SectionExpected { section: key.to_owned() });
            }
            Meaning::BadName => self.report(origin, Trouble::FreeName { key: key.to_owned() }),
            Meaning::Unknown => {
                let suggestion = suggest::for_key(key);
                self.report(origin, Trouble::UnknownKey { key: key.to_owned(), suggestion });
            }
        }
    }

    /// As [`Layers::set`], for a value that was given as text.
    pub(super) fn set_text(&mut self, key: &str, text: &str, origin: Origin) {
        let given = match schema::meaning(&schema::spelled_out(key)) {
            Meaning::Value(rule) => rule.value_of_text(text),
            Meaning::Section | Meaning::BadName | Meaning::Unknown => Value::from(text),
        };
        self.set(key, given, origin);
    }

    /// Notes a problem; loading goes on, so that all are found.
    pub(super) fn report(&mut self, origin: Origin, trouble: Trouble) {
        self.problems.push(Problem { origin, trouble });
    }

    /// The values in force, or every problem there is.
    pub(super) fn finish(mut self) -> Result<BTreeMap<String, Entry>, Vec<Problem>> {
        for &(key, bound) in schema::ORDERED {
            self.check_order(key, bound);
        }
        if self.problems.is_empty() { Ok(self.entries) } else { Err(self.problems) }
    }

    fn set_checked(&mut self, key: &str, rule: Rule, given: Value, origin: Origin) {
        match rule.check(&given) {
            Some(canonical) => {
                self.entries.insert(key.to_owned(), Entry { given, origin, canonical });
            }
            None => {
                let (allowed, meant) = (rule.allowed(), rule.meant(&given));
                let (key, given) = (key.to_owned(), given.to_string());
                self.report(origin, Trouble::NotAllowed { key, given, allowed, meant });
            }
        }
    }

    fn check_order(&mut self, key: &'static str, bound: &'static str) {
        let (Some(low), Some(high)) = (self.entries.get(key), self.entries.get(bound)) else {
            return;
        };
        // Both keep the same kind of rule, so that their numbers compare.
        if check::number(&low.canonical) <= check::number(&high.canonical) {
            return;
        }
        // Blame the one that somebody wrote: a default cannot be corrected.
        let origin = if low.origin == Origin::Default { &high.origin } else { &low.origin };
        let trouble = Trouble::OutOfOrder {
            key,
            value: low.given.to_string(),
            bound,
            bound_value: high.given.to_string(),
            bound_origin: Box::new(high.origin.clone()),
        };
        self.report(origin.clone(), trouble);
    }
}

/// The canonical values as one nested table.
pub(super) fn table_of(entries: &BTreeMap<String, Entry>) -> Table {
    let mut root = Table::new();
    for (key, entry) in entries {
        insert(&mut root, key, entry.canonical.clone());
    }
    root
}

fn insert(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((section, rest)) => {
            let inner = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}
