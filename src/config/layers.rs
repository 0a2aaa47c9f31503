//! Layers of values: the later wins, and each value remembers where it came from.

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

/// A value in force.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigEntry {
    /// The value as it was written.
    pub given: Value,
    /// Where it came from.
    pub origin: ValueOrigin,
    /// The value in the form that [`super::Settings`] is read from.
    pub(super) canonical: Value,
}

/// All layers laid so far, and every problem met on the way.
#[derive(Debug, Default)]
pub(super) struct Layers {
    entries: BTreeMap<String, ConfigEntry>,
    problems: Vec<Problem>,
}

impl Layers {
    /// Lays one value over what was there, if it keeps its rule.
    pub(super) fn set(&mut self, key: &str, given: Value, origin: ValueOrigin) {
        let key = &schema::spelled_out(key);
        match schema::meaning(key) {
            KeyMeaning::Value(rule) => self.set_checked(key, *rule, given, origin),
            KeyMeaning::Section => {
                self.report(origin, ProblemKind::SectionExpected { section: key.to_owned() });
            }
            KeyMeaning::BadName => {
                self.report(origin, ProblemKind::FreeName { key: key.to_owned() })
            }
            KeyMeaning::Unknown => {
                let suggestion = error::for_key(key);
                self.report(origin, ProblemKind::UnknownKey { key: key.to_owned(), suggestion });
            }
        }
    }

    /// As [`Layers::set`], for a value that was given as text.
    pub(super) fn set_text(&mut self, key: &str, text: &str, origin: ValueOrigin) {
        let given = match schema::meaning(&schema::spelled_out(key)) {
            KeyMeaning::Value(rule) => rule.value_of_text(text),
            KeyMeaning::Section | KeyMeaning::BadName | KeyMeaning::Unknown => Value::from(text),
        };
        self.set(key, given, origin);
    }

    /// Notes a problem; loading goes on, so that all are found.
    pub(super) fn report(&mut self, origin: ValueOrigin, trouble: ProblemKind) {
        self.problems.push(Problem { origin, trouble });
    }

    /// The values in force, or every problem there is.
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
                let allowed = rule.allowed();
                let meant = rule.meant(&given);
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
        // Both keep the same kind of rule, so that their numbers compare.
        if check::number(&low.canonical) <= check::number(&high.canonical) {
            return;
        }
        // Blame the one that somebody wrote: a default cannot be corrected.
        let origin = if low.origin == ValueOrigin::Default { &high.origin } else { &low.origin };
        let trouble = ProblemKind::OutOfOrder {
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
pub(super) fn table_of(entries: &BTreeMap<String, ConfigEntry>) -> Table {
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

// The origin of a value.

/// Where a value came from, precise enough to go and change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueOrigin {
    /// `config/default.toml`, compiled in.
    Default,
    /// A line of a configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
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

// Reads TOML text into layers, each value with its line.

/// Lays every value of `text` over `layers`. `origin_of` makes an origin from a line number.
pub(super) fn lay(layers: &mut Layers, text: &str, origin_of: &dyn Fn(usize) -> ValueOrigin) {
    let (root, mut errors) = DeTable::parse_recoverable(text);
    errors.sort_by_key(|error| error.span().map(|span| span.start));
    let lines = LineEnds::of(text);
    let origin_at = |span: Range<usize>| origin_of(lines.at(span.start));
    if errors.is_empty() {
        TableWalk { layers, origin_at: &origin_at }.table("", root.into_inner());
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
    fn table(&mut self, prefix: &str, table: DeTable<'_>) {
        // By position, so that problems come in the order of the lines.
        let mut pairs: Vec<_> = table.into_iter().collect();
        pairs.sort_by_key(|(name, _)| name.span().start);
        for (name, value) in pairs {
            let origin = (self.origin_at)(name.span());
            let name = name.into_inner();
            let key = if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") };
            self.pair(&key, value, origin);
        }
    }

    fn pair(&mut self, key: &str, value: Spanned<DeValue<'_>>, origin: ValueOrigin) {
        if matches!(schema::meaning(key), KeyMeaning::Section) && value.get_ref().is_table() {
            if let DeValue::Table(inner) = value.into_inner() {
                self.table(key, inner);
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

/// Where the lines of a text end: found once, and not again for each value.
struct LineEnds {
    ends: Vec<usize>,
}

impl LineEnds {
    fn of(text: &str) -> Self {
        Self { ends: memchr::memchr_iter(b'\n', text.as_bytes()).collect() }
    }

    /// The line of a byte, counted from 1.
    fn at(&self, byte: usize) -> usize {
        1 + self.ends.partition_point(|end| *end < byte)
    }
}
