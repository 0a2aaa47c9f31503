//! Layers of values: later layers override earlier ones, and each value remembers its origin.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use serde::Deserialize;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Table, Value};

use super::check::{self, ValueRule};
use super::error::{self, Problem, ProblemKind};
use super::schema::{self, KeyMeaning};

/// The current value of a setting.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigEntry {
    /// The value as it was written.
    pub given: Value,
    pub origin: ValueOrigin,
    /// The value in canonical form, from which [`super::Settings`] is read.
    pub(super) canonical: Value,
}

/// The layers so far, and all problems in them.
#[derive(Debug, Default)]
pub(super) struct Layers {
    entries: BTreeMap<String, ConfigEntry>,
    problems: Vec<Problem>,
}

impl Layers {
    /// Sets a value, if it is valid; it overrides the value of an earlier layer.
    pub(super) fn set(&mut self, key: &str, given: Value, origin: ValueOrigin) {
        let key = &schema::expand_short_key(key);
        match schema::look_up(key) {
            KeyMeaning::Value(rule) => self.set_checked(key, *rule, given, origin),
            KeyMeaning::Section => {
                self.report(origin, ProblemKind::SectionExpected { section: key.to_owned() });
            }
            KeyMeaning::BadName => {
                self.report(origin, ProblemKind::InvalidName { key: key.to_owned() })
            }
            KeyMeaning::Unknown => {
                let suggestion = error::suggest_key(key);
                self.report(origin, ProblemKind::UnknownKey { key: key.to_owned(), suggestion });
            }
        }
    }

    /// Sets a value that was given as text, see [`Layers::set`].
    pub(super) fn set_text(&mut self, key: &str, text: &str, origin: ValueOrigin) {
        let given = match schema::look_up(&schema::expand_short_key(key)) {
            KeyMeaning::Value(rule) => rule.parse_text(text),
            KeyMeaning::Section | KeyMeaning::BadName | KeyMeaning::Unknown => Value::from(text),
        };
        self.set(key, given, origin);
    }

    /// Records a problem. Loading goes on, so that all problems are found.
    pub(super) fn report(&mut self, origin: ValueOrigin, kind: ProblemKind) {
        self.problems.push(Problem { origin, kind });
    }

    /// Returns the current values, or all problems.
    pub(super) fn finish(mut self) -> Result<BTreeMap<String, ConfigEntry>, Vec<Problem>> {
        for &(key, bound) in schema::ORDERED {
            self.check_order(key, bound);
        }
        if self.problems.is_empty() { Ok(self.entries) } else { Err(self.problems) }
    }

    fn set_checked(&mut self, key: &str, rule: ValueRule, given: Value, origin: ValueOrigin) {
        match rule.check(&given) {
            Some(canonical) => {
                self.entries.insert(key.to_owned(), ConfigEntry { given, origin, canonical });
            }
            None => {
                let allowed = rule.describe();
                let meant = rule.suggest(&given);
                let key = key.to_owned();
                let given = given.to_string();
                self.report(origin, ProblemKind::NotAllowed { key, given, allowed, meant });
            }
        }
    }

    fn check_order(&mut self, key: &'static str, bound: &'static str) {
        let (Some(low), Some(high)) = (self.entries.get(key), self.entries.get(bound)) else {
            return;
        };
        // Both have the same kind of rule, so their numbers can be compared.
        if check::parse_number(&low.canonical) <= check::parse_number(&high.canonical) {
            return;
        }
        // Blames the value that the user has set: a default cannot be corrected.
        let origin = if low.origin == ValueOrigin::Default { &high.origin } else { &low.origin };
        let kind = ProblemKind::OutOfOrder {
            key,
            value: low.given.to_string(),
            bound,
            bound_value: high.given.to_string(),
            bound_origin: Box::new(high.origin.clone()),
        };
        self.report(origin.clone(), kind);
    }
}

/// Returns the canonical values as one nested table.
pub(super) fn to_table(entries: &BTreeMap<String, ConfigEntry>) -> Table {
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

/// The origin of a value, precise enough to find and change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueOrigin {
    /// `config/default.toml`, compiled in.
    Default,
    /// A line of a configuration file, counted from 1.
    File { path: PathBuf, line: usize },
    /// An environment variable.
    Variable(String),
    /// A flag, such as `--bind`.
    Flag(&'static str),
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Adds every value of the TOML `text` to `layers`. `origin_of` makes an origin from a line number.
pub(super) fn add_toml(layers: &mut Layers, text: &str, origin_of: &dyn Fn(usize) -> ValueOrigin) {
    let (root, mut errors) = DeTable::parse_recoverable(text);
    errors.sort_by_key(|error| error.span().map(|span| span.start));
    let lines = LineEnds::find(text);
    let origin_at = |span: Range<usize>| origin_of(lines.find_line(span.start));
    if errors.is_empty() {
        TableWalk { layers, origin_at: &origin_at }.add_table("", root.into_inner());
    }
    for error in errors {
        let origin = origin_at(error.span().unwrap_or_default());
        layers.report(origin, ProblemKind::Syntax(error.message().to_owned()));
    }
}

struct TableWalk<'a> {
    layers: &'a mut Layers,
    origin_at: &'a dyn Fn(Range<usize>) -> ValueOrigin,
}

impl TableWalk<'_> {
    fn add_table(&mut self, prefix: &str, table: DeTable<'_>) {
        // Sorted by position, so that problems are in the order of the lines.
        let mut pairs: Vec<_> = table.into_iter().collect();
        pairs.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in pairs {
            let origin = (self.origin_at)(name.span());
            let name = name.into_inner();
            let key = if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") };
            self.add_pair(&key, value, origin);
        }
    }

    fn add_pair(&mut self, key: &str, value: Spanned<DeValue<'_>>, origin: ValueOrigin) {
        if matches!(schema::look_up(key), KeyMeaning::Section) && value.get_ref().is_table() {
            if let DeValue::Table(inner) = value.into_inner() {
                self.add_table(key, inner);
            }
            return;
        }
        match Value::deserialize(ValueDeserializer::from(value)) {
            Ok(value) => self.layers.set(key, value, origin),
            Err(error) => {
                self.layers.report(origin, ProblemKind::Syntax(error.message().to_owned()))
            }
        }
    }
}

/// The offsets of the line ends of a text: found once, and not again for each value.
struct LineEnds {
    ends: Vec<usize>,
}

impl LineEnds {
    fn find(text: &str) -> Self {
        Self { ends: memchr::memchr_iter(b'\n', text.as_bytes()).collect() }
    }

    /// Returns the line of a byte offset, counted from 1.
    fn find_line(&self, byte: usize) -> usize {
        1 + self.ends.partition_point(|end| *end < byte)
    }
}
