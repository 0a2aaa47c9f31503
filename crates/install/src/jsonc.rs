//! Edits of JSON texts, with or without comments: every byte outside of an edit stays as it is.

use std::ops::Range;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use crate::error::{EditError, TextPlace};
use crate::json_layout::{JsonContainer, JsonLayout, insert_child, remove_child};
use crate::value::SettingValue;

/// The strictness of the program that reads a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonSyntax {
    /// Neither comments nor trailing commas.
    Strict,
    /// Comments and trailing commas.
    Comments,
}

impl JsonSyntax {
    const fn options(self) -> ParseOptions {
        let is_loose = matches!(self, Self::Comments);
        ParseOptions {
            allow_comments: is_loose,
            allow_trailing_commas: is_loose,
            allow_loose_object_property_names: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        }
    }

    fn parse(self, text: &str) -> Result<Option<Value<'_>>, EditError> {
        let parsed = parse_to_ast(text, &CollectOptions::default(), &self.options());
        let parsed = parsed.map_err(|error| EditError::Syntax {
            place: TextPlace::of_byte(text, error.range().start),
            why: error.kind().to_string(),
        })?;
        if let Some(value) = &parsed.value {
            check_duplicates(text, value)?;
        }
        Ok(parsed.value)
    }

    /// The content of a text; an empty text is an empty map.
    pub(crate) fn read(self, text: &str) -> Result<SettingValue, EditError> {
        Ok(self.parse(text)?.map_or(SettingValue::Map(Vec::new()), |value| to_setting(&value)))
    }

    /// Sets the value at the end of a path; objects on the way are created.
    pub(crate) fn set(
        self,
        text: &str,
        path: &[&str],
        value: &SettingValue,
    ) -> Result<String, EditError> {
        let layout = JsonLayout::of_text(text);
        let Some(root) = self.parse(text)? else {
            let nested = SettingValue::Map(Vec::new()).with(path, value.clone());
            let newline = layout.newline;
            return Ok(format!("{text}{}{newline}", layout.format_value(&nested, "")));
        };
        let (mut object, mut depth) = (as_object(text, &root, path, 0)?, 0);
        while let Some(key) = path.get(depth) {
            let Some(found) = find_property(object, key) else {
                let nested = SettingValue::Map(Vec::new());
                let nested = nested.with(path.get(depth + 1..).unwrap_or_default(), value.clone());
                let nested = if depth + 1 == path.len() { value.clone() } else { nested };
                let container = object_container(object);
                return Ok(insert_child(text, &container, &layout, |place| {
                    format!("{}: {}", quote(key), layout.format_at(&nested, place))
                }));
            };
            depth += 1;
            if depth == path.len() {
                return Ok(replace_value(text, &layout, found, value));
            }
            object = as_object(text, found, path, depth)?;
        }
        Ok(text.to_owned())
    }

    /// Removes the key at the end of a path, and objects above it that are then `{}`.
    pub(crate) fn remove(self, text: &str, path: &[&str]) -> Result<String, EditError> {
        let Some((_, above)) = path.split_last() else { return Ok(text.to_owned()) };
        let Some(root) = self.parse(text)? else { return Ok(text.to_owned()) };
        let Some(index_and_container) = locate_property(text, &root, path)? else {
            return Ok(text.to_owned());
        };
        let (index, container) = index_and_container;
        let shorter = remove_child(text, &container, index);
        let is_bare = shorter.get(container.start..container.start + 2) == Some("{}");
        if is_bare && !above.is_empty() { self.remove(&shorter, above) } else { Ok(shorter) }
    }

    /// Appends a text to the list at the end of a path, unless it is in the list.
    pub(crate) fn append_item(
        self,
        text: &str,
        path: &[&str],
        item: &str,
    ) -> Result<String, EditError> {
        let root = self.parse(text)?;
        let list = root.as_ref().map(|root| find_value(text, root, path)).transpose()?.flatten();
        match list {
            None => self.set(text, path, &SettingValue::texts([item])),
            Some(Value::Array(array)) => {
                let has_item = |value: &Value<'_>| to_setting(value).as_text() == Some(item);
                if array.elements.iter().any(has_item) {
                    return Ok(text.to_owned());
                }
                let container = list_container(array.range, &array.elements);
                let layout = JsonLayout::of_text(text);
                Ok(insert_child(text, &container, &layout, |_| quote(item)))
            }
            Some(other) => Err(other_kind_error(text, other, path, "a list")),
        }
    }

    /// Removes a text from the list at the end of a path; the list and objects above it go, too, if
    /// they are then empty.
    pub(crate) fn remove_item(
        self,
        text: &str,
        path: &[&str],
        item: &str,
    ) -> Result<String, EditError> {
        let Some(root) = self.parse(text)? else { return Ok(text.to_owned()) };
        let Some(Value::Array(array)) = find_value(text, &root, path)? else {
            return Ok(text.to_owned());
        };
        let is_item = |value: &Value<'_>| to_setting(value).as_text() == Some(item);
        let Some(index) = array.elements.iter().position(is_item) else {
            return Ok(text.to_owned());
        };
        let shorter = remove_child(text, &list_container(array.range, &array.elements), index);
        let is_bare = shorter.get(array.range.start..array.range.start + 2) == Some("[]");
        if is_bare { self.remove(&shorter, path) } else { Ok(shorter) }
    }
}

/// Replaces a value, unless it has the same content.
fn replace_value(text: &str, layout: &JsonLayout, old: &Value<'_>, new: &SettingValue) -> String {
    if to_setting(old) == *new {
        return text.to_owned();
    }
    let range = old.range();
    let line_start = text[..range.start].rfind('\n').map_or(0, |index| index + 1);
    let line = &text[line_start..range.start];
    let indent = &line[..line.len() - line.trim_start().len()];
    let shown = layout.format_value(new, indent);
    format!("{}{shown}{}", &text[..range.start], &text[range.end..])
}

fn as_object<'v, 't>(
    text: &str,
    value: &'v Value<'t>,
    path: &[&str],
    depth: usize,
) -> Result<&'v Object<'t>, EditError> {
    let shown = path.get(..depth).unwrap_or_default();
    value.as_object().ok_or_else(|| other_kind_error(text, value, shown, "an object in braces"))
}

fn other_kind_error(
    text: &str,
    value: &Value<'_>,
    path: &[&str],
    expected: &'static str,
) -> EditError {
    let key = if path.is_empty() { "the whole file".to_owned() } else { path.join(".") };
    EditError::OtherKind { place: TextPlace::of_byte(text, value.start()), key, expected }
}

fn find_property<'v, 't>(object: &'v Object<'t>, key: &str) -> Option<&'v Value<'t>> {
    let property = object.properties.iter().find(|property| property.name.as_str() == key);
    property.map(|property| &property.value)
}

/// Finds the value at the end of a path. Fails if a value on the way is not an object.
fn find_value<'v, 't>(
    text: &str,
    root: &'v Value<'t>,
    path: &[&str],
) -> Result<Option<&'v Value<'t>>, EditError> {
    let mut value = root;
    for (depth, key) in path.iter().enumerate() {
        match find_property(as_object(text, value, path, depth)?, key) {
            Some(found) => value = found,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

/// Finds the object that has the last key of a path, and the index of that key in it.
fn locate_property(
    text: &str,
    root: &Value<'_>,
    path: &[&str],
) -> Result<Option<(usize, JsonContainer)>, EditError> {
    let Some((last, above)) = path.split_last() else { return Ok(None) };
    let Some(value) = find_value(text, root, above)? else { return Ok(None) };
    let object = as_object(text, value, path, above.len())?;
    let index = object.properties.iter().position(|property| property.name.as_str() == *last);
    Ok(index.map(|index| (index, object_container(object))))
}

fn object_container(object: &Object<'_>) -> JsonContainer {
    let children = object.properties.iter().map(|property| to_range(property.range)).collect();
    JsonContainer { start: object.range.start, end: object.range.end, children }
}

fn list_container(range: jsonc_parser::common::Range, items: &[Value<'_>]) -> JsonContainer {
    let children = items.iter().map(|item| to_range(item.range())).collect();
    JsonContainer { start: range.start, end: range.end, children }
}

const fn to_range(range: jsonc_parser::common::Range) -> Range<usize> {
    range.start..range.end
}

fn check_duplicates(text: &str, value: &Value<'_>) -> Result<(), EditError> {
    match value {
        Value::Object(object) => {
            let mut seen = std::collections::HashSet::new();
            for property in &object.properties {
                let key = property.name.as_str();
                if !seen.insert(key) {
                    let place = TextPlace::of_byte(text, property.range.start);
                    return Err(EditError::Duplicate { place, key: key.to_owned() });
                }
                check_duplicates(text, &property.value)?;
            }
            Ok(())
        }
        Value::Array(array) => {
            array.elements.iter().try_for_each(|item| check_duplicates(text, item))
        }
        Value::StringLit(_)
        | Value::NumberLit(_)
        | Value::BooleanLit(_)
        | Value::NullKeyword(_) => Ok(()),
    }
}

fn to_setting(value: &Value<'_>) -> SettingValue {
    match value {
        Value::StringLit(text) => SettingValue::text(text.value.as_ref()),
        Value::NumberLit(number) => match number.value.parse() {
            Ok(number) => SettingValue::Number(number),
            Err(_) => SettingValue::Other(number.value.to_owned()),
        },
        Value::BooleanLit(flag) => SettingValue::Flag(flag.value),
        Value::NullKeyword(_) => SettingValue::Other("null".to_owned()),
        Value::Array(array) => SettingValue::List(array.elements.iter().map(to_setting).collect()),
        Value::Object(object) => {
            let pair = |property: &jsonc_parser::ast::ObjectProp<'_>| {
                (property.name.as_str().to_owned(), to_setting(&property.value))
            };
            SettingValue::Map(object.properties.iter().map(pair).collect())
        }
    }
}

/// Formats a text as a JSON string.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
