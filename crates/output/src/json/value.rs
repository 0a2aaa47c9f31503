//! The values that an expression is applied to, the values that it computes, and the argument types of
//! the functions of JMESPath.

use std::cmp::Ordering;
use std::io;
use std::io::Write;
use std::rc::Rc;
use std::slice;

use jmespath::ast::Ast;
use jmespath::{RuntimeError, Variable};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::Number;

use crate::json::document::{Container, JsonError, Meter, MeterCharge, ParsedElements, growth_of};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonKind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
    Expression,
}

impl JsonKind {
    /// The name of the type in expressions and errors.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
            Self::Expression => "expref",
        }
    }
}

/// A JSON value. Clones are cheap: they share their contents.
#[derive(Debug, Clone)]
pub(crate) enum JsonValue<'a> {
    Null,
    Bool(bool),
    Number(Number),
    /// A string of a document or of the expression.
    Str(&'a str),
    /// A string that a function computed.
    BuiltString(Rc<ChargedString<'a>>),
    ParsedArray(Container<'a>),
    BuiltArray(Rc<JsonList<'a>>),
    ParsedObject(Container<'a>),
    BuiltObject(Rc<ObjectFields<'a>>),
    Expression(&'a Ast),
}

impl<'a> JsonValue<'a> {
    /// Converts a literal of the expression.
    pub(super) fn literal(literal: &'a Variable, meter: &'a Meter<'a>) -> Result<Self, JsonError> {
        Ok(match literal {
            Variable::Null => Self::Null,
            Variable::Bool(value) => Self::Bool(*value),
            Variable::Number(number) => Self::Number(number.clone()),
            Variable::String(string) => Self::Str(string),
            Variable::Expref(ast) => Self::Expression(ast),
            Variable::Array(values) => {
                let mut list = JsonList::new(meter);
                for value in values {
                    list.push(Self::literal(value, meter)?)?;
                }
                list.into()
            }
            Variable::Object(pairs) => {
                let mut fields = ObjectFields::new(meter);
                for (key, value) in pairs {
                    fields.push(key, Self::literal(value, meter)?)?;
                }
                fields.into_object()
            }
        })
    }

    pub(super) const fn kind(&self) -> JsonKind {
        match self {
            Self::Null => JsonKind::Null,
            Self::Bool(_) => JsonKind::Boolean,
            Self::Number(_) => JsonKind::Number,
            Self::Str(_) | Self::BuiltString(_) => JsonKind::String,
            Self::ParsedArray(_) | Self::BuiltArray(_) => JsonKind::Array,
            Self::ParsedObject(_) | Self::BuiltObject(_) => JsonKind::Object,
            Self::Expression(_) => JsonKind::Expression,
        }
    }

    pub(super) const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// `true` unless the value is null, false or empty.
    pub(super) fn is_truthy(&self) -> bool {
        match self {
            Self::Null | Self::Expression(_) => false,
            Self::Bool(value) => *value,
            Self::Number(_) => true,
            Self::Str(string) => !string.is_empty(),
            Self::BuiltString(text) => !text.string.is_empty(),
            Self::ParsedArray(container) | Self::ParsedObject(container) => container.length() > 0,
            Self::BuiltArray(list) => !list.values.is_empty(),
            Self::BuiltObject(fields) => !fields.pairs.is_empty(),
        }
    }

    pub(super) fn as_number(&self) -> Option<f64> {
        if let Self::Number(number) = self { number.as_f64() } else { None }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(string) => Some(string),
            Self::BuiltString(text) => Some(&text.string),
            Self::Null
            | Self::Bool(_)
            | Self::Number(_)
            | Self::ParsedArray(_)
            | Self::BuiltArray(_)
            | Self::ParsedObject(_)
            | Self::BuiltObject(_)
            | Self::Expression(_) => None,
        }
    }

    /// The elements and their number, if the value is an array.
    pub(crate) fn elements(&self) -> Option<(JsonElements<'_, 'a>, usize)> {
        match self {
            Self::ParsedArray(array) => {
                Some((JsonElements::Parsed(array.elements()), array.length()))
            }
            Self::BuiltArray(list) => {
                Some((JsonElements::Built(list.values.iter()), list.values.len()))
            }
            Self::Null
            | Self::Bool(_)
            | Self::Number(_)
            | Self::Str(_)
            | Self::BuiltString(_)
            | Self::ParsedObject(_)
            | Self::BuiltObject(_)
            | Self::Expression(_) => None,
        }
    }

    /// The value of a key, if the value is an object that has it; else null.
    pub(super) fn field(&self, name: &str) -> Self {
        let found = match self {
            Self::ParsedObject(object) => object.field(name),
            Self::BuiltObject(fields) => fields.get(name).cloned(),
            Self::Null
            | Self::Bool(_)
            | Self::Number(_)
            | Self::Str(_)
            | Self::BuiltString(_)
            | Self::ParsedArray(_)
            | Self::BuiltArray(_)
            | Self::Expression(_) => None,
        };
        found.unwrap_or(Self::Null)
    }

    /// The pairs in the order of their keys, each key once, if the value is an object.
    pub(super) fn fields(&self) -> Result<Option<Rc<ObjectFields<'a>>>, JsonError> {
        match self {
            Self::BuiltObject(fields) => Ok(Some(Rc::clone(fields))),
            Self::ParsedObject(object) => {
                let meter = object.meter();
                let mut fields = ObjectFields::new(meter);
                for (key, value) in object.pairs() {
                    meter.step()?;
                    fields.push(key, value)?;
                }
                fields.sort();
                Ok(Some(Rc::new(fields)))
            }
            Self::Null
            | Self::Bool(_)
            | Self::Number(_)
            | Self::Str(_)
            | Self::BuiltString(_)
            | Self::ParsedArray(_)
            | Self::BuiltArray(_)
            | Self::Expression(_) => Ok(None),
        }
    }

    /// `true` if both values have the same type and are equal. Numbers may differ by a rounding
    /// error.
    pub(super) fn equals(&self, other: &Self, meter: &'a Meter<'a>) -> Result<bool, JsonError> {
        meter.step()?;
        if self.kind() != other.kind() {
            return Ok(false);
        }
        if let (Some((left, length)), Some((right, other_length))) =
            (self.elements(), other.elements())
        {
            if length != other_length {
                return Ok(false);
            }
            for (left, right) in left.zip(right) {
                if !left.equals(&right, meter)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        if let (Some(left), Some(right)) = (self.fields()?, other.fields()?) {
            if left.pairs.len() != right.pairs.len() {
                return Ok(false);
            }
            for ((key, left), (other_key, right)) in left.pairs.iter().zip(&right.pairs) {
                if key != other_key || !left.equals(right, meter)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        Ok(match (self, other) {
            (Self::Bool(left), Self::Bool(right)) => left == right,
            (Self::Expression(left), Self::Expression(right)) => left == right,
            _ => match (self.as_number(), other.as_number()) {
                (Some(left), Some(right)) => are_close(left, right),
                // Strings, or null on both sides.
                _ => self.as_str() == other.as_str(),
            },
        })
    }

    /// The order of two numbers or two strings. Other values count as equal.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        match (self.as_number(), other.as_number()) {
            (Some(left), Some(right)) => left.partial_cmp(&right).unwrap_or(Ordering::Less),
            _ => match (self.as_str(), other.as_str()) {
                (Some(left), Some(right)) => left.cmp(right),
                _ => Ordering::Equal,
            },
        }
    }
}

/// `true` if two numbers are equal except for rounding: 0.1 + 0.2 is 0.3.
fn are_close(left: f64, right: f64) -> bool {
    let difference = (left - right).abs();
    #[expect(clippy::float_cmp, reason = "infinite numbers are close only if they are the same")]
    if left == right {
        return true;
    }
    if !left.is_normal() || !right.is_normal() {
        // Near zero a relative difference means little.
        return difference < f64::EPSILON * f64::MIN_POSITIVE;
    }
    difference / (left.abs() + right.abs()) < f64::EPSILON
}

/// An iterator over the elements of an array.
#[derive(Debug)]
pub(super) enum JsonElements<'v, 'a> {
    Parsed(ParsedElements<'a>),
    Built(slice::Iter<'v, JsonValue<'a>>),
}

impl<'a> Iterator for JsonElements<'_, 'a> {
    type Item = JsonValue<'a>;

    fn next(&mut self) -> Option<JsonValue<'a>> {
        match self {
            Self::Parsed(elements) => elements.next(),
            Self::Built(elements) => elements.next().cloned(),
        }
    }
}

/// An array that a query builds.
#[derive(Debug)]
pub(crate) struct JsonList<'a> {
    pub(super) values: Vec<JsonValue<'a>>,
    charge: MeterCharge<'a>,
}

impl<'a> JsonList<'a> {
    pub(crate) const fn new(meter: &'a Meter<'a>) -> Self {
        Self { values: Vec::new(), charge: meter.open() }
    }

    pub(crate) fn push(&mut self, value: JsonValue<'a>) -> Result<(), JsonError> {
        self.charge.reserve_one(&mut self.values)?;
        self.values.push(value);
        Ok(())
    }
}

impl<'a> From<JsonList<'a>> for JsonValue<'a> {
    fn from(list: JsonList<'a>) -> Self {
        Self::BuiltArray(Rc::new(list))
    }
}

/// The pairs of an object that a query builds.
///
/// Invariant: once it is part of a value, its keys are sorted and unique.
#[derive(Debug)]
pub(crate) struct ObjectFields<'a> {
    pub(super) pairs: Vec<(&'a str, JsonValue<'a>)>,
    charge: MeterCharge<'a>,
}

impl<'a> ObjectFields<'a> {
    pub(super) const fn new(meter: &'a Meter<'a>) -> Self {
        Self { pairs: Vec::new(), charge: meter.open() }
    }

    /// Creates an object without pairs, with room for `count`: a query may build very many small
    /// objects.
    pub(super) fn with_capacity(count: usize, meter: &'a Meter<'a>) -> Result<Self, JsonError> {
        let mut fields = Self::new(meter);
        fields.charge.add(size_of::<Self>() + count * size_of::<(&str, JsonValue<'_>)>())?;
        fields.pairs.reserve_exact(count);
        Ok(fields)
    }

    pub(super) fn push(&mut self, key: &'a str, value: JsonValue<'a>) -> Result<(), JsonError> {
        self.charge.reserve_one(&mut self.pairs)?;
        self.pairs.push((key, value));
        Ok(())
    }

    fn get(&self, name: &str) -> Option<&JsonValue<'a>> {
        let found = self.pairs.binary_search_by(|(key, _)| (*key).cmp(name)).ok()?;
        Some(&self.pairs[found].1)
    }

    /// Sorts the keys. Of several pairs with the same key the last one stays.
    fn sort(&mut self) {
        self.pairs.reverse();
        self.pairs.sort_by_key(|(key, _)| *key);
        self.pairs.dedup_by_key(|(key, _)| *key);
    }

    pub(super) fn into_object(mut self) -> JsonValue<'a> {
        self.sort();
        JsonValue::BuiltObject(Rc::new(self))
    }
}

/// A string that a function computed.
#[derive(Debug)]
pub(super) struct ChargedString<'a> {
    string: String,
    /// Releases the bytes when the string is dropped.
    _charge: MeterCharge<'a>,
}

impl<'a> JsonValue<'a> {
    /// A string with its charge.
    pub(super) fn built_string(string: String, charge: MeterCharge<'a>) -> Self {
        Self::BuiltString(Rc::new(ChargedString { string, _charge: charge }))
    }
}

impl Serialize for JsonValue<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => to.serialize_unit(),
            Self::Bool(value) => to.serialize_bool(*value),
            Self::Number(number) => number.serialize(to),
            Self::Str(string) => to.serialize_str(string),
            Self::BuiltString(text) => to.serialize_str(&text.string),
            Self::ParsedArray(array) => to.collect_seq(array.elements()),
            Self::BuiltArray(list) => to.collect_seq(&list.values),
            Self::ParsedObject(_) | Self::BuiltObject(_) => {
                let fields = self.fields().map_err(|_| S::Error::custom("too large"))?;
                let pairs = fields.iter().flat_map(|fields| &fields.pairs);
                to.collect_map(pairs.map(|(key, value)| (key, value)))
            }
            // A reference to an expression has no JSON form.
            Self::Expression(ast) => to.serialize_str(&format!("<expression: {ast:?}>")),
        }
    }
}

/// Text of bounded length. A result may contain a large value many times, so its text is bounded
/// while it is written.
#[derive(Debug)]
pub(crate) struct JsonText<'a> {
    bytes: Vec<u8>,
    limit: usize,
    charge: MeterCharge<'a>,
}

impl<'a> JsonText<'a> {
    pub(crate) const fn new(limit: usize, meter: &'a Meter<'a>) -> Self {
        Self { bytes: Vec::new(), limit, charge: meter.open() }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends a value as JSON.
    pub(crate) fn write(&mut self, value: &impl Serialize) -> Result<(), JsonError> {
        // Writing fails only if the limit is reached.
        serde_json::to_writer(self, value).map_err(|_| JsonError::TooLarge)
    }

    pub(crate) fn push(&mut self, text: &str) -> Result<(), JsonError> {
        self.extend(text.as_bytes())
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), JsonError> {
        let length = self.bytes.len() + bytes.len();
        if length > self.limit {
            return Err(JsonError::TooLarge);
        }
        if length > self.bytes.capacity() {
            let grown = self.bytes.len() + growth_of(self.bytes.len());
            let capacity = length.max(grown).min(self.limit);
            self.charge.add(capacity - self.bytes.capacity())?;
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The text, and its charge.
    pub(crate) fn into_parts(self) -> (String, MeterCharge<'a>) {
        let text = String::from_utf8(self.bytes);
        // Never lossy: JSON is written as UTF-8.
        let text =
            text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        (text, self.charge)
    }
}

impl Write for JsonText<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.extend(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A type that an argument may have.
#[derive(Debug, Clone, Copy)]
enum ArgType {
    Of(JsonKind),
    /// An array with elements of this type alone.
    ArrayOf(JsonKind),
}

impl ArgType {
    fn word(self) -> String {
        match self {
            Self::Of(kind) => kind.word().to_owned(),
            Self::ArrayOf(kind) => format!("array[{}]", kind.word()),
        }
    }

    fn has(self, value: &JsonValue<'_>) -> bool {
        match self {
            Self::Of(kind) => value.kind() == kind,
            Self::ArrayOf(kind) => value
                .elements()
                .is_some_and(|(mut elements, _)| elements.all(|element| element.kind() == kind)),
        }
    }
}

/// The types that an argument may have; any type if empty.
type ArgTypes = &'static [ArgType];

const ANY: ArgTypes = &[];
const NUMBER: ArgTypes = &[ArgType::Of(JsonKind::Number)];
const STRING: ArgTypes = &[ArgType::Of(JsonKind::String)];
const ARRAY: ArgTypes = &[ArgType::Of(JsonKind::Array)];
const OBJECT: ArgTypes = &[ArgType::Of(JsonKind::Object)];
const EXPRESSION: ArgTypes = &[ArgType::Of(JsonKind::Expression)];
const NUMBERS: ArgTypes = &[ArgType::ArrayOf(JsonKind::Number)];
const STRINGS: ArgTypes = &[ArgType::ArrayOf(JsonKind::String)];
const SORTABLE: ArgTypes =
    &[ArgType::ArrayOf(JsonKind::String), ArgType::ArrayOf(JsonKind::Number)];
const STRING_OR_ARRAY: ArgTypes = &[ArgType::Of(JsonKind::String), ArgType::Of(JsonKind::Array)];
const WITH_LENGTH: ArgTypes =
    &[ArgType::Of(JsonKind::Array), ArgType::Of(JsonKind::Object), ArgType::Of(JsonKind::String)];
const JSON: ArgTypes = &[
    ArgType::Of(JsonKind::Object),
    ArgType::Of(JsonKind::Array),
    ArgType::Of(JsonKind::Boolean),
    ArgType::Of(JsonKind::Number),
    ArgType::Of(JsonKind::String),
    ArgType::Of(JsonKind::Null),
];

/// The types of a function's arguments, and of any further ones; `None` if there is no such
/// function.
fn signature(name: &str) -> Option<(&'static [ArgTypes], Option<ArgTypes>)> {
    let fixed: &[ArgTypes] = match name {
        "abs" | "ceil" | "floor" => &[NUMBER],
        "avg" | "sum" => &[NUMBERS],
        "contains" => &[STRING_OR_ARRAY, ANY],
        "ends_with" | "starts_with" => &[STRING, STRING],
        "join" => &[STRING, STRINGS],
        "keys" | "values" => &[OBJECT],
        "length" => &[WITH_LENGTH],
        "map" => &[EXPRESSION, ARRAY],
        "max" | "min" | "sort" => &[SORTABLE],
        "max_by" | "min_by" | "sort_by" => &[ARRAY, EXPRESSION],
        "merge" => return Some((&[OBJECT], Some(OBJECT))),
        "not_null" => return Some((&[ANY], Some(ANY))),
        "reverse" => &[STRING_OR_ARRAY],
        "to_array" | "to_number" | "type" => &[ANY],
        "to_string" => &[JSON],
        _ => return None,
    };
    Some((fixed, None))
}

/// Checks number and types of the arguments of a function.
pub(super) fn check_arguments(name: &str, args: &[JsonValue<'_>]) -> Result<(), RuntimeError> {
    let Some((fixed, more)) = signature(name) else {
        return Err(RuntimeError::UnknownFunction(name.to_owned()));
    };
    let expected = fixed.len();
    let actual = args.len();
    if actual < expected {
        return Err(RuntimeError::NotEnoughArguments { expected, actual });
    }
    if actual > expected && more.is_none() {
        return Err(RuntimeError::TooManyArguments { expected, actual });
    }
    let types = fixed.iter().copied().chain(std::iter::repeat(more.unwrap_or(ANY)));
    for (position, (value, types)) in args.iter().zip(types).enumerate() {
        if !types.is_empty() && !types.iter().any(|expected| expected.has(value)) {
            let words: Vec<String> = types.iter().map(|expected| expected.word()).collect();
            return Err(RuntimeError::InvalidType {
                expected: words.join("|"),
                actual: value.kind().word().to_owned(),
                position,
            });
        }
    }
    Ok(())
}
