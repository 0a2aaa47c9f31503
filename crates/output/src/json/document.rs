//! A JSON text as one array of small nodes.

use std::cell::Cell;
use std::fmt;
use std::ops::Range;

use serde::Deserializer;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::value::JsonValue;
use crate::line_scan::ScanDeadline;

/// A value or a key of a document.
///
/// Invariant: the nodes of an array follow it in order, the nodes of an object as alternating keys
/// and values, each with all nodes inside it; `end` is the index after the last of them.
#[derive(Debug, Clone)]
enum Node {
    Null,
    Bool(bool),
    Number(Number),
    /// A string that is in the text without escapes.
    Plain {
        start: u32,
        length: u32,
    },
    /// A string with escapes in the text; this is its unescaped form in `JsonDocument::unescaped`.
    Unescaped {
        start: u32,
        length: u32,
    },
    Array {
        length: u32,
        end: u32,
    },
    /// `length` counts all pairs, also pairs with the same key.
    Object {
        length: u32,
        end: u32,
    },
}

const _: () = assert!(size_of::<Node>() == 16, "a document is as small as its nodes");

/// A parsed JSON text. Strings without escapes stay in the text.
#[derive(Debug)]
pub(crate) struct JsonDocument<'t> {
    text: &'t str,
    nodes: Vec<Node>,
    unescaped: String,
    charge: MeterCharge<'t>,
}

impl<'t> JsonDocument<'t> {
    /// Parses a text of less than 4 GiB.
    pub(crate) fn parse(text: &'t str, meter: &'t Meter<'t>) -> Result<Self, JsonError> {
        let mut document =
            Self { text, nodes: Vec::new(), unescaped: String::new(), charge: meter.open() };
        let mut refused = None;
        let mut json = serde_json::Deserializer::from_str(text);
        let builder = DocumentBuilder { document: &mut document, meter, refused: &mut refused };
        let parsed = builder.deserialize(&mut json).and_then(|()| json.end());
        match (parsed, refused) {
            (Ok(()), _) => Ok(document),
            (Err(_), Some(error)) => Err(error),
            (Err(error), None) => Err(JsonError::NotJson(error)),
        }
    }

    pub(crate) fn root(&self) -> JsonValue<'_> {
        self.value(0)
    }

    fn value(&self, at: usize) -> JsonValue<'_> {
        match &self.nodes[at] {
            Node::Null => JsonValue::Null,
            Node::Bool(value) => JsonValue::Bool(*value),
            Node::Number(number) => JsonValue::Number(number.clone()),
            Node::Plain { .. } | Node::Unescaped { .. } => JsonValue::Str(self.string(at)),
            Node::Array { .. } => JsonValue::ParsedArray(Container { document: self, at }),
            Node::Object { .. } => JsonValue::ParsedObject(Container { document: self, at }),
        }
    }

    /// The string at a node; empty if the node is another value.
    fn string(&self, at: usize) -> &str {
        let range = |start: u32, length: u32| start as usize..(start as usize + length as usize);
        match self.nodes[at] {
            Node::Plain { start, length } => &self.text[range(start, length)],
            Node::Unescaped { start, length } => &self.unescaped[range(start, length)],
            Node::Null
            | Node::Bool(_)
            | Node::Number(_)
            | Node::Array { .. }
            | Node::Object { .. } => "",
        }
    }

    /// The index after the value at `at` and all nodes inside it.
    fn end_of(&self, at: usize) -> usize {
        match self.nodes[at] {
            Node::Array { end, .. } | Node::Object { end, .. } => end as usize,
            Node::Null
            | Node::Bool(_)
            | Node::Number(_)
            | Node::Plain { .. }
            | Node::Unescaped { .. } => at + 1,
        }
    }
}

/// An array or an object of a document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Container<'a> {
    document: &'a JsonDocument<'a>,
    at: usize,
}

impl<'a> Container<'a> {
    /// The number of elements of an array, or of pairs of an object.
    pub(super) fn length(self) -> usize {
        match self.document.nodes[self.at] {
            Node::Array { length, .. } | Node::Object { length, .. } => length as usize,
            Node::Null
            | Node::Bool(_)
            | Node::Number(_)
            | Node::Plain { .. }
            | Node::Unescaped { .. } => 0,
        }
    }

    /// The meter of the document, for the values that a query computes from it.
    pub(super) const fn meter(self) -> &'a Meter<'a> {
        self.document.charge.meter()
    }

    /// The elements of an array.
    pub(super) fn elements(self) -> ParsedElements<'a> {
        ParsedElements { document: self.document, rest: self.inside() }
    }

    /// The pairs of an object, in the order of the text.
    pub(super) fn pairs(self) -> impl Iterator<Item = (&'a str, JsonValue<'a>)> {
        let mut rest = self.inside();
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let key = rest.start;
            let value = rest.start + 1;
            rest.start = self.document.end_of(value);
            Some((self.document.string(key), self.document.value(value)))
        })
    }

    /// The value of a key; the last one if the text has several.
    pub(super) fn field(self, name: &str) -> Option<JsonValue<'a>> {
        let mut rest = self.inside();
        let mut found = None;
        while !rest.is_empty() {
            let key = rest.start;
            let value = rest.start + 1;
            if self.document.string(key) == name {
                found = Some(value);
            }
            rest.start = self.document.end_of(value);
        }
        found.map(|at| self.document.value(at))
    }

    fn inside(self) -> Range<usize> {
        self.at + 1..self.document.end_of(self.at)
    }
}

/// An iterator over the elements of an array of a document.
#[derive(Debug, Clone)]
pub(crate) struct ParsedElements<'a> {
    document: &'a JsonDocument<'a>,
    rest: Range<usize>,
}

impl<'a> Iterator for ParsedElements<'a> {
    type Item = JsonValue<'a>;

    fn next(&mut self) -> Option<JsonValue<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let at = self.rest.start;
        self.rest.start = self.document.end_of(at);
        Some(self.document.value(at))
    }
}

/// Adds the values that the parser visits to a document.
struct DocumentBuilder<'b, 't> {
    document: &'b mut JsonDocument<'t>,
    meter: &'t Meter<'t>,
    /// The reason why the parser was stopped, if the parser's own errors cannot express it.
    refused: &'b mut Option<JsonError>,
}

impl<'t> DocumentBuilder<'_, 't> {
    fn next(&mut self) -> DocumentBuilder<'_, 't> {
        DocumentBuilder { document: self.document, meter: self.meter, refused: self.refused }
    }

    fn add<E: serde::de::Error>(&mut self, node: Node) -> Result<(), E> {
        let JsonDocument { nodes, charge, .. } = &mut *self.document;
        let room = self.meter.step().and_then(|()| charge.reserve_one(nodes));
        room.map_err(|error| self.refuse(error))?;
        self.document.nodes.push(node);
        Ok(())
    }

    fn add_unescaped<E: serde::de::Error>(&mut self, string: &str) -> Result<(), E> {
        let start = as_u32(self.document.unescaped.len());
        self.document.charge.add(string.len()).map_err(|error| self.refuse(error))?;
        self.document.unescaped.push_str(string);
        self.add(Node::Unescaped { start, length: as_u32(string.len()) })
    }

    /// Adds a string that is a slice of the text.
    fn add_plain<E: serde::de::Error>(&mut self, string: &'t str) -> Result<(), E> {
        let start = as_u32(string.as_ptr().addr() - self.document.text.as_ptr().addr());
        self.add(Node::Plain { start, length: as_u32(string.len()) })
    }

    fn refuse<E: serde::de::Error>(&mut self, error: JsonError) -> E {
        *self.refused = Some(error);
        E::custom("refused")
    }

    fn here(&self) -> usize {
        self.document.nodes.len()
    }
}

/// Converts a length. Texts are far below 4 GiB.
fn as_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl<'t> DeserializeSeed<'t> for DocumentBuilder<'_, 't> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for DocumentBuilder<'_, 't> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: serde::de::Error>(mut self) -> Result<(), E> {
        self.add(Node::Null)
    }

    fn visit_bool<E: serde::de::Error>(mut self, value: bool) -> Result<(), E> {
        self.add(Node::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(mut self, value: i64) -> Result<(), E> {
        self.add(Node::Number(value.into()))
    }

    fn visit_u64<E: serde::de::Error>(mut self, value: u64) -> Result<(), E> {
        self.add(Node::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(mut self, value: f64) -> Result<(), E> {
        self.add(Number::from_f64(value).map_or(Node::Null, Node::Number))
    }

    fn visit_borrowed_str<E: serde::de::Error>(mut self, value: &'t str) -> Result<(), E> {
        self.add_plain(value)
    }

    fn visit_str<E: serde::de::Error>(mut self, value: &str) -> Result<(), E> {
        self.add_unescaped(value)
    }

    fn visit_seq<A: SeqAccess<'t>>(mut self, mut elements: A) -> Result<(), A::Error> {
        let at = self.here();
        self.add(Node::Array { length: 0, end: 0 })?;
        let mut length = 0;
        while elements.next_element_seed(self.next())?.is_some() {
            length += 1;
        }
        self.document.nodes[at] = Node::Array { length, end: as_u32(self.here()) };
        Ok(())
    }

    fn visit_map<A: MapAccess<'t>>(mut self, mut pairs: A) -> Result<(), A::Error> {
        let at = self.here();
        self.add(Node::Object { length: 0, end: 0 })?;
        let mut length = 0;
        while pairs.next_key_seed(self.next())?.is_some() {
            pairs.next_value_seed(self.next())?;
            length += 1;
        }
        self.document.nodes[at] = Node::Object { length, end: as_u32(self.here()) };
        Ok(())
    }
}

/// Steps between two checks of the deadline.
const STEPS_PER_LOOK: u32 = 4096;

/// The memory and the time of one query. Counts the bytes that the query holds, and refuses to
/// exceed the limit.
#[derive(Debug)]
pub(crate) struct Meter<'p> {
    limit: usize,
    held: Cell<usize>,
    steps: Cell<u32>,
    deadline: &'p ScanDeadline,
}

impl<'p> Meter<'p> {
    pub(crate) const fn new(limit: usize, deadline: &'p ScanDeadline) -> Self {
        Self { limit, held: Cell::new(0), steps: Cell::new(0), deadline }
    }

    pub(crate) const fn deadline(&self) -> &'p ScanDeadline {
        self.deadline
    }

    /// Opens a charge of 0 bytes.
    pub(crate) const fn open(&'p self) -> MeterCharge<'p> {
        MeterCharge { meter: self, bytes: 0 }
    }

    /// Counts one step of work. Loops over the values of a query call this, so that no expression
    /// runs longer than its caller waits.
    pub(super) fn step(&self) -> Result<(), JsonError> {
        let steps = self.steps.get().wrapping_add(1);
        self.steps.set(steps);
        if steps.is_multiple_of(STEPS_PER_LOOK) && self.deadline.is_over() {
            return Err(JsonError::TimeOver);
        }
        Ok(())
    }
}

/// Bytes that a query holds. Dropping the charge releases them.
#[derive(Debug)]
pub(crate) struct MeterCharge<'p> {
    meter: &'p Meter<'p>,
    bytes: usize,
}

impl<'p> MeterCharge<'p> {
    const fn meter(&self) -> &'p Meter<'p> {
        self.meter
    }

    /// Charges this many bytes more, before they are allocated.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), JsonError> {
        let held = self.meter.held.get().saturating_add(bytes);
        if held > self.meter.limit {
            return Err(JsonError::TooLarge);
        }
        self.meter.held.set(held);
        self.bytes += bytes;
        Ok(())
    }

    /// Makes room for another element, and charges it. Large vectors grow by a quarter: the system
    /// moves them without a copy.
    pub(super) fn reserve_one<T>(&mut self, values: &mut Vec<T>) -> Result<(), JsonError> {
        if values.len() == values.capacity() {
            let more = growth_of(values.len()).max(4);
            self.add(more * size_of::<T>())?;
            values.reserve_exact(more);
        }
        Ok(())
    }
}

/// The number of elements or bytes by which a full buffer grows.
pub(super) const fn growth_of(length: usize) -> usize {
    const LARGE: usize = 64 * 1024;
    if length < LARGE { length } else { length / 4 }
}

impl Drop for MeterCharge<'_> {
    fn drop(&mut self) {
        self.meter.held.set(self.meter.held.get() - self.bytes);
    }
}

/// The reason why a JSON text was not parsed or an expression not evaluated.
#[derive(Debug)]
pub(crate) enum JsonError {
    /// The query would hold more memory than its limit.
    TooLarge,
    /// The deadline of the query has passed, or its caller is gone.
    TimeOver,
    /// The text is not JSON.
    NotJson(serde_json::Error),
    /// The expression cannot be applied to these values.
    NoFit(Box<jmespath::JmespathError>),
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn released_bytes_can_be_charged_again() {
        let (deadline, _guard) = ScanDeadline::start(Duration::from_secs(3600));
        let meter = Meter::new(100, &deadline);
        let mut first = meter.open();
        let mut second = meter.open();
        first.add(60).unwrap();
        assert!(matches!(second.add(60), Err(JsonError::TooLarge)));
        second.add(40).unwrap();
        drop(first);
        second.add(60).unwrap();
        assert!(matches!(second.add(1), Err(JsonError::TooLarge)));
    }

    #[test]
    fn steps_fail_after_the_guard_is_dropped() {
        let (deadline, guard) = ScanDeadline::start(Duration::from_secs(3600));
        let meter = Meter::new(100, &deadline);
        assert!((0..2 * STEPS_PER_LOOK).all(|_| meter.step().is_ok()));
        drop(guard);
        assert!((0..STEPS_PER_LOOK).any(|_| meter.step().is_err()));
    }
}
