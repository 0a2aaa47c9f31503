//! Reads TOML text into layers, each value with its line.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::error::Trouble;
use super::layers::Layers;
use super::origin::Origin;
use super::schema::{self, Meaning};

/// Lays every value of `text` over `layers`. `origin_of` makes an origin from a line number.
pub(super) fn lay(layers: &mut Layers, text: &str, origin_of: &dyn Fn(usize) -> Origin) {
    let (root, mut errors) = DeTable::parse_recoverable(text);
    errors.sort_by_key(|error| error.span().map(|span| span.start));
    let lines = Lines::of(text);
    let origin_at = |span: Range<usize>| origin_of(lines.at(span.start));
    if errors.is_empty() {
        Walk { layers, origin_at: &origin_at }.table("", root.into_inner());
    }
    for error in errors {
        let origin = origin_at(error.span().unwrap_or_default());
        layers.report(origin, Trouble::Syntax(error.message().to_owned()));
    }
}

struct Walk<'a> {
    layers: &'a mut Layers,
    origin_at: &'a dyn Fn(Range<usize>) -> Origin,
}

impl Walk<'_> {
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

    fn pair(&mut self, key: &str, value: Spanned<DeValue<'_>>, origin: Origin) {
        if matches!(schema::meaning(key), Meaning::Section) && value.get_ref().is_table() {
            if let DeValue::Table(inner) = value.into_inner() {
                self.table(key, inner);
            }
            return;
        }
        match toml::Value::deserialize(ValueDeserializer::from(value)) {
            Ok(value) => self.layers.set(key, value, origin),
            Err(error) => self.layers.report(origin, Trouble::Syntax(error.message().to_owned())),
        }
    }
}

/// Where the lines of a text end: found once, and not again for each value.
struct Lines {
    ends: Vec<usize>,
}

impl Lines {
    fn of(text: &str) -> Self {
        Self { ends: memchr::memchr_iter(b'\n', text.as_bytes()).collect() }
    }

    /// The line of a byte, counted from 1.
    fn at(&self, byte: usize) -> usize {
        1 + self.ends.partition_point(|end| *end < byte)
    }
}
