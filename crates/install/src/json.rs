//! Edits of JSON texts, with or without comments: every byte outside of an edit stays as it is.

use std::ops::Range;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use crate::format::{EditError, SettingValue, SettingsFormat, TextPlace, newline_of};

/// The content of a text; an empty text is an empty map.
pub(crate) fn read(format: SettingsFormat, text: &str) -> Result<SettingValue, EditError> {
    Ok(parse(format, text)?.map_or(SettingValue::Map(Vec::new()), |value| to_setting(&value)))
}

/// Sets the value at the end of a path; objects on the way are created.
pub(crate) fn set(
    format: SettingsFormat,
    text: &str,
    path: &[&str],
    value: &SettingValue,
) -> Result<String, EditError> {
    let layout = JsonLayout::of_text(text);
    let Some(root) = parse(format, text)? else {
        let nested = SettingValue::Map(Vec::new()).with(path, value.clone());
        let newline = layout.newline;
        return Ok(format!("{text}{}{newline}", layout.format_value(&nested, "")));
    };
    let mut object = as_object(text, &root, path, 0)?;
    let mut depth = 0;
    while let Some(key) = path.get(depth) {
        let Some(found) = find_property(object, key) else {
            let rest = path.get(depth + 1..).unwrap_or_default();
            let nested = SettingValue::Map(Vec::new()).with(rest, value.clone());
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
pub(crate) fn remove(
    format: SettingsFormat,
    text: &str,
    path: &[&str],
) -> Result<String, EditError> {
    let Some((_, above)) = path.split_last() else { return Ok(text.to_owned()) };
    let Some(root) = parse(format, text)? else { return Ok(text.to_owned()) };
    let Some((index, container)) = locate_property(text, &root, path)? else {
        return Ok(text.to_owned());
    };
    let shorter = remove_child(text, &container, index);
    let is_bare = shorter.get(container.start..container.start + 2) == Some("{}");
    if is_bare && !above.is_empty() { remove(format, &shorter, above) } else { Ok(shorter) }
}

/// Appends a text to the list at the end of a path, unless it is in the list.
pub(crate) fn append_item(
    format: SettingsFormat,
    text: &str,
    path: &[&str],
    item: &str,
) -> Result<String, EditError> {
    let root = parse(format, text)?;
    let list = root.as_ref().map(|root| find_value(text, root, path)).transpose()?.flatten();
    match list {
        None => set(format, text, path, &SettingValue::texts([item])),
        Some(Value::Array(array)) => {
            let has_item = |value: &Value<'_>| to_setting(value).as_text() == Some(item);
            if array.elements.iter().any(has_item) {
                return Ok(text.to_owned());
            }
            let container = list_container(array.range, &array.elements);
            let layout = JsonLayout::of_text(text);
            Ok(insert_child(text, &container, &layout, |_| quote(item)))
        }
        Some(other) => Err(EditError::other_kind(text, other.start(), path, "a list")),
    }
}

/// Removes a text from the list at the end of a path; the list and objects above it go, too, if
/// they are then empty.
pub(crate) fn remove_item(
    format: SettingsFormat,
    text: &str,
    path: &[&str],
    item: &str,
) -> Result<String, EditError> {
    let Some(root) = parse(format, text)? else { return Ok(text.to_owned()) };
    let Some(Value::Array(array)) = find_value(text, &root, path)? else {
        return Ok(text.to_owned());
    };
    let is_item = |value: &Value<'_>| to_setting(value).as_text() == Some(item);
    let Some(index) = array.elements.iter().position(is_item) else {
        return Ok(text.to_owned());
    };
    let shorter = remove_child(text, &list_container(array.range, &array.elements), index);
    let is_bare = shorter.get(array.range.start..array.range.start + 2) == Some("[]");
    if is_bare { remove(format, &shorter, path) } else { Ok(shorter) }
}

fn parse(format: SettingsFormat, text: &str) -> Result<Option<Value<'_>>, EditError> {
    // The client that reads a file decides how strict it is.
    let is_loose = matches!(format, SettingsFormat::Jsonc);
    let options = ParseOptions {
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
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options);
    let parsed = parsed.map_err(|error| EditError::Syntax {
        place: TextPlace::of_byte(text, error.range().start),
        why: error.kind().to_string(),
    })?;
    if let Some(value) = &parsed.value {
        check_duplicates(text, value)?;
    }
    Ok(parsed.value)
}

/// Replaces a value, unless it has the same content.
fn replace_value(text: &str, layout: &JsonLayout, old: &Value<'_>, new: &SettingValue) -> String {
    if to_setting(old) == *new {
        return text.to_owned();
    }
    let range = old.range();
    let shown = layout.format_value(new, line_indent(text, range.start));
    format!("{}{shown}{}", &text[..range.start], &text[range.end..])
}

fn as_object<'v, 't>(
    text: &str,
    value: &'v Value<'t>,
    path: &[&str],
    depth: usize,
) -> Result<&'v Object<'t>, EditError> {
    let shown = path.get(..depth).unwrap_or_default();
    let error = || EditError::other_kind(text, value.start(), shown, "an object in braces");
    value.as_object().ok_or_else(error)
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

/// An object or a list: its range with the brackets, and the ranges of its children.
#[derive(Debug)]
struct JsonContainer {
    start: usize,
    end: usize,
    children: Vec<Range<usize>>,
}

/// The place of a new child.
#[derive(Debug, Clone, Copy)]
enum ChildPlace<'a> {
    /// In the line of its neighbours.
    Inline,
    /// In a line of its own, with this indentation.
    Line(&'a str),
}

/// The line end and the indentation that a text uses.
#[derive(Debug)]
struct JsonLayout {
    newline: &'static str,
    unit: String,
    is_one_line: bool,
}

impl JsonLayout {
    fn of_text(text: &str) -> Self {
        let indented = text.lines().find_map(|line| {
            let rest = line.trim_start();
            let is_indented = rest.len() < line.len() && rest.starts_with('"');
            is_indented.then(|| &line[..line.len() - rest.len()])
        });
        let is_one_line = !text.trim().contains('\n') && !text.trim().is_empty();
        // A bare `{}` says nothing about the wishes of its author.
        let is_one_line = is_one_line && text.contains('"');
        Self { newline: newline_of(text), unit: indented.unwrap_or("  ").to_owned(), is_one_line }
    }

    /// Formats a value that begins in a line with this indentation.
    fn format_value(&self, value: &SettingValue, indent: &str) -> String {
        if self.is_one_line {
            return format_inline(value);
        }
        match value {
            SettingValue::Map(pairs) if !pairs.is_empty() => {
                let inner = format!("{indent}{}", self.unit);
                let line = |(key, value): &(String, SettingValue)| {
                    format!("{inner}{}: {}", quote(key), self.format_value(value, &inner))
                };
                let lines: Vec<String> = pairs.iter().map(line).collect();
                let newline = self.newline;
                let separator = format!(",{newline}");
                format!("{{{newline}{}{newline}{indent}}}", lines.join(&separator))
            }
            SettingValue::Map(_)
            | SettingValue::List(_)
            | SettingValue::Text(_)
            | SettingValue::Number(_)
            | SettingValue::Flag(_)
            | SettingValue::Other(_) => format_inline(value),
        }
    }

    /// Formats a value at the place of a new child.
    fn format_at(&self, value: &SettingValue, place: ChildPlace<'_>) -> String {
        match place {
            ChildPlace::Inline => format_inline(value),
            ChildPlace::Line(indent) => self.format_value(value, indent),
        }
    }
}

/// Formats a value in one line.
pub(crate) fn format_inline(value: &SettingValue) -> String {
    match value {
        SettingValue::Text(text) => quote(text),
        SettingValue::Number(number) => number.to_string(),
        SettingValue::Flag(flag) => flag.to_string(),
        SettingValue::Other(raw) => raw.clone(),
        SettingValue::List(items) => {
            let items: Vec<String> = items.iter().map(format_inline).collect();
            format!("[{}]", items.join(", "))
        }
        SettingValue::Map(pairs) if pairs.is_empty() => "{}".to_owned(),
        SettingValue::Map(pairs) => {
            let pair = |(key, value): &(String, SettingValue)| {
                format!("{}: {}", quote(key), format_inline(value))
            };
            format!("{{ {} }}", pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Inserts a child at the end of a container, after the comments in the line of the last child.
fn insert_child(
    text: &str,
    container: &JsonContainer,
    layout: &JsonLayout,
    render: impl Fn(ChildPlace<'_>) -> String,
) -> String {
    let Some(last) = container.children.last() else {
        return insert_only_child(text, container, layout, render);
    };
    let comma = find_comma(text, last.end);
    let after = comma.map_or(last.end, |comma| comma + 1);
    let separator = if comma.is_some() { "" } else { "," };
    let trailing = if comma.is_some() { "," } else { "" };
    let first_start = container.children.first().map_or(container.start, |first| first.start);
    let is_inline = !text[container.start..first_start].contains('\n');
    if is_inline {
        let (head, tail) = text.split_at(after);
        return format!("{head}{separator} {}{trailing}{tail}", render(ChildPlace::Inline));
    }
    let indent = match own_indent(text, last.start) {
        Some(indent) => indent.to_owned(),
        None => format!("{}{}", line_indent(text, container.start), layout.unit),
    };
    let place = end_of_line_comments(text, after);
    let (newline, shown) = (layout.newline, render(ChildPlace::Line(&indent)));
    format!(
        "{}{separator}{}{newline}{indent}{shown}{trailing}{}",
        &text[..after],
        &text[after..place],
        &text[place..]
    )
}

fn insert_only_child(
    text: &str,
    container: &JsonContainer,
    layout: &JsonLayout,
    render: impl Fn(ChildPlace<'_>) -> String,
) -> String {
    let inner = &text[container.start + 1..container.end - 1];
    let head = &text[..=container.start];
    let tail = &text[container.end - 1..];
    let is_list = text[container.start..].starts_with('[');
    if layout.is_one_line || (is_list && inner.trim().is_empty()) {
        return format!("{head}{}{}{tail}", inner.trim(), render(ChildPlace::Inline));
    }
    let base = line_indent(text, container.start);
    let indent = format!("{base}{}", layout.unit);
    let (newline, shown) = (layout.newline, render(ChildPlace::Line(&indent)));
    format!("{head}{}{newline}{indent}{shown}{newline}{base}{tail}", inner.trim_end())
}

/// Removes a child with its comma, its line break and the comment that follows it in its line.
fn remove_child(text: &str, container: &JsonContainer, index: usize) -> String {
    let Some(child) = container.children.get(index) else { return text.to_owned() };
    let comma = find_comma(text, child.end);
    let end = comma.map_or(child.end, |comma| comma + 1);
    let has_own_line = own_indent(text, child.start).is_some();
    let end = if has_own_line { end_of_line_comments(text, end) } else { end };
    let start = start_of_gap(text, child.start);
    let is_last = index + 1 == container.children.len();
    let before = index.checked_sub(1).and_then(|index| container.children.get(index));
    // The comma before a last child goes with it, unless the list has a comma after each child.
    let comma_before = before
        .filter(|_| is_last && comma.is_none())
        .and_then(|before| find_comma(text, before.end));
    let head = match comma_before {
        Some(comma) => format!("{}{}", &text[..comma], &text[comma + 1..start]),
        None => text[..start].to_owned(),
    };
    if container.children.len() == 1 {
        let open = &text[..=container.start];
        let rest = format!("{}{}", &text[open.len()..start], &text[end..container.end - 1]);
        let rest = if rest.trim().is_empty() { "" } else { rest.as_str() };
        return format!("{open}{rest}{}", &text[container.end - 1..]);
    }
    // The first child of a line leaves the space after the bracket to the next one.
    let end = if has_own_line || index > 0 { end } else { end_of_blanks(text, end) };
    let gap = if has_own_line || index > 0 { "" } else { &text[start..child.start] };
    format!("{head}{gap}{}", &text[end..])
}

/// The index of the comma after a child, if there is one.
fn find_comma(text: &str, from: usize) -> Option<usize> {
    let place = skip_trivia(text, from);
    text[place..].starts_with(',').then_some(place)
}

/// The end of white space and comments that begin at `from`.
fn skip_trivia(text: &str, from: usize) -> usize {
    let mut place = from;
    loop {
        let rest = &text[place..];
        let blank = rest.len() - rest.trim_start().len();
        let rest = &rest[blank..];
        place += blank;
        place += if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            return place;
        };
    }
}

/// The end of the comments in the rest of a line; `from` itself if something else follows there.
fn end_of_line_comments(text: &str, from: usize) -> usize {
    let mut place = from;
    loop {
        place = end_of_blanks(text, place);
        let rest = &text[place..];
        let line = rest.split(['\n', '\r']).next().unwrap_or_default();
        if line.is_empty() {
            // Blanks at the end of a line stay with the line.
            return place;
        } else if line.starts_with("//") {
            return place + line.len();
        } else if let Some(end) = line.starts_with("/*").then(|| line.find("*/")).flatten() {
            place += end + 2;
        } else {
            return from;
        }
    }
}

fn end_of_blanks(text: &str, from: usize) -> usize {
    let rest = &text[from..];
    from + rest.len() - rest.trim_start_matches([' ', '\t']).len()
}

/// The start of the white space before a child: up to the end of the line before, and with it.
fn start_of_gap(text: &str, child: usize) -> usize {
    let before = text[..child].trim_end_matches([' ', '\t']);
    let before = before.strip_suffix('\n').map_or(before, |line| line.trim_end_matches('\r'));
    before.len()
}

/// The indentation of a child that stands at the beginning of its line.
fn own_indent(text: &str, child: usize) -> Option<&str> {
    let line_start = text[..child].rfind('\n')? + 1;
    let indent = &text[line_start..child];
    indent.trim().is_empty().then_some(indent)
}

/// The indentation of the line that has this byte.
fn line_indent(text: &str, byte: usize) -> &str {
    let line_start = text[..byte].rfind('\n').map_or(0, |index| index + 1);
    let line = &text[line_start..byte];
    &line[..line.len() - line.trim_start().len()]
}
