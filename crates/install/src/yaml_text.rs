//! Edits of YAML texts by whole lines: comments, order and layout stay as they are.
//!
//! The parser tells where each key and value stands; everything else is splicing. A layout that this
//! does not understand shows when the result is read again, and the file is then left alone.

use crate::error::{EditError, TextPlace};
use crate::json_layout::format_inline;
use crate::jsonc::quote;
use crate::value::SettingValue;
use crate::yaml_tree::{YamlEntry, YamlKind, YamlNode, parse_yaml};

/// The content of a text; an empty text is an empty map.
pub(crate) fn read(text: &str) -> Result<SettingValue, EditError> {
    Ok(parse_yaml(text)?.map_or(SettingValue::Map(Vec::new()), |node| node.to_setting()))
}

/// Sets the value at the end of a path; maps on the way are created.
pub(crate) fn set(text: &str, path: &[&str], value: &SettingValue) -> Result<String, EditError> {
    let Some(root) = parse_yaml(text)? else { return Ok(append_lines(text, path, value)) };
    let mut entries = map_entries(text, &root, &[])?;
    let mut found: Option<&YamlEntry> = None;
    let mut depth = 0;
    while let Some(entry) = path.get(depth).and_then(|key| find_entry(entries, key)) {
        depth += 1;
        found = Some(entry);
        if depth == path.len() || entry.value.is_empty_value() {
            break;
        }
        entries = map_entries(text, &entry.value, path.get(..depth).unwrap_or_default())?;
    }
    let rest = path.get(depth..).unwrap_or_default();
    Ok(match found {
        Some(entry) if rest.is_empty() => replace_value(text, entry, value),
        Some(entry) if entry.value.is_empty_value() => {
            let nested = SettingValue::Map(Vec::new()).with(rest, value.clone());
            replace_value(text, entry, &nested)
        }
        Some(entry) => insert_entry(text, &entry.value, rest, value),
        None if root.entries().is_some_and(<[YamlEntry]>::is_empty) => text.to_owned(),
        None => insert_entry(text, &root, rest, value),
    })
}

fn find_entry<'n>(entries: &'n [YamlEntry], key: &str) -> Option<&'n YamlEntry> {
    entries.iter().find(|entry| entry.key == key)
}

/// Removes the key at the end of a path, and the key above it if that has no other.
pub(crate) fn remove(text: &str, path: &[&str]) -> Result<String, EditError> {
    let Some((last, above)) = path.split_last() else { return Ok(text.to_owned()) };
    let Some(root) = parse_yaml(text)? else { return Ok(text.to_owned()) };
    let mut node = &root;
    for key in above {
        let entries = node.entries().unwrap_or_default();
        match entries.iter().find(|entry| entry.key == *key) {
            Some(entry) => node = &entry.value,
            None => return Ok(text.to_owned()),
        }
    }
    let entries = node.entries().unwrap_or_default();
    match entries.iter().position(|entry| entry.key == *last) {
        None => Ok(text.to_owned()),
        Some(_) if entries.len() == 1 && !above.is_empty() => remove(text, above),
        Some(index) if node.is_flow(text) => Ok(remove_flow_entry(text, entries, index)),
        Some(index) => Ok(entries.get(index).map_or(text.to_owned(), |entry| {
            let start = line_start(text, entry.key_start);
            format!("{}{}", &text[..start], &text[line_end(text, entry.end())..])
        })),
    }
}

fn remove_flow_entry(text: &str, entries: &[YamlEntry], index: usize) -> String {
    let start = |index: usize| entries.get(index).map(|entry| entry.key_start);
    let end = |index: usize| entries.get(index).map(YamlEntry::end);
    let range = match (index.checked_sub(1).and_then(end), end(index), start(index + 1)) {
        (Some(before), Some(end), _) => before..end,
        (None, Some(_), Some(next)) => entries[index].key_start..next,
        (None, Some(end), None) => entries[index].key_start..end,
        (_, None, _) => return text.to_owned(),
    };
    format!("{}{}", &text[..range.start], &text[range.end..])
}

fn map_entries<'n>(
    text: &str,
    node: &'n YamlNode,
    path: &[&str],
) -> Result<&'n [YamlEntry], EditError> {
    node.entries().ok_or_else(|| {
        let key = if path.is_empty() { "the whole file".to_owned() } else { path.join(".") };
        let place = TextPlace::of_byte(text, node.start);
        EditError::OtherKind { place, key, expected: "a mapping" }
    })
}

/// Appends a path with its value to a text that has no document, or at the end of the root.
fn append_lines(text: &str, path: &[&str], value: &SettingValue) -> String {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { newline_of(text) };
    let nested = SettingValue::Map(Vec::new()).with(path, value.clone());
    format!("{text}{end}{}", format_lines(nested.pairs(), "", newline_of(text)))
}

fn insert_entry(text: &str, map: &YamlNode, path: &[&str], value: &SettingValue) -> String {
    let nested = SettingValue::Map(Vec::new()).with(path, value.clone());
    let entries = map.entries().unwrap_or_default();
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return text.to_owned();
    };
    if map.is_flow(text) {
        let shown = format_inline(&nested);
        let shown = shown.trim_start_matches("{ ").trim_end_matches(" }");
        let end = last.end();
        return format!("{}, {shown}{}", &text[..end], &text[end..]);
    }
    let indent = &text[line_start(text, first.key_start)..first.key_start];
    let end = line_end(text, last.end());
    let newline = newline_of(text);
    let gap = if text[..end].ends_with('\n') { "" } else { newline };
    let lines = format_lines(nested.pairs(), indent, newline);
    format!("{}{gap}{lines}{}", &text[..end], &text[end..])
}

/// Replaces the value of a key, unless it has the same content.
fn replace_value(text: &str, entry: &YamlEntry, value: &SettingValue) -> String {
    if entry.value.to_setting() == *value {
        return text.to_owned();
    }
    let newline = newline_of(text);
    let indent_end = entry.key_start;
    let indent = format!("{}  ", &text[line_start(text, indent_end)..indent_end]);
    let head = &text[..entry.colon + 1];
    let tail = &text[entry.end()..];
    match value {
        SettingValue::Map(pairs) if !pairs.is_empty() && indent.trim().is_empty() => {
            let lines = format_lines(pairs, &indent, newline);
            let lines = lines.trim_end_matches(['\r', '\n']);
            format!("{head}{newline}{lines}{tail}")
        }
        SettingValue::Map(_)
        | SettingValue::List(_)
        | SettingValue::Text(_)
        | SettingValue::Number(_)
        | SettingValue::Flag(_)
        | SettingValue::Other(_) => format!("{head} {}{tail}", format_scalar(value)),
    }
}

fn format_lines(pairs: &[(String, SettingValue)], indent: &str, newline: &str) -> String {
    let line = |(key, value): &(String, SettingValue)| {
        let key = format_text(key);
        match value {
            SettingValue::Map(inner) if !inner.is_empty() => {
                let inner = format_lines(inner, &format!("{indent}  "), newline);
                format!("{indent}{key}:{newline}{inner}")
            }
            SettingValue::Map(_)
            | SettingValue::List(_)
            | SettingValue::Text(_)
            | SettingValue::Number(_)
            | SettingValue::Flag(_)
            | SettingValue::Other(_) => {
                format!("{indent}{key}: {}{newline}", format_scalar(value))
            }
        }
    };
    pairs.iter().map(line).collect()
}

fn format_scalar(value: &SettingValue) -> String {
    match value {
        SettingValue::Text(text) => format_text(text),
        SettingValue::List(items) => {
            let items: Vec<String> = items.iter().map(format_scalar).collect();
            format!("[{}]", items.join(", "))
        }
        SettingValue::Map(_)
        | SettingValue::Number(_)
        | SettingValue::Flag(_)
        | SettingValue::Other(_) => format_inline(value),
    }
}

/// Formats a text without quotes if no reader can take it for something else.
fn format_text(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-/.".contains(c);
    let has_letter_first = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_word = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"]
        .contains(&text.to_ascii_lowercase().as_str());
    if has_letter_first && !is_word && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        quote(text)
    }
}

fn newline_of(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

fn line_start(text: &str, byte: usize) -> usize {
    text[..byte].rfind('\n').map_or(0, |index| index + 1)
}

/// The byte after the line that ends at, or contains, this place.
fn line_end(text: &str, byte: usize) -> usize {
    if byte > 0 && text[..byte].ends_with('\n') {
        return byte;
    }
    text[byte..].find('\n').map_or(text.len(), |index| byte + index + 1)
}

impl YamlNode {
    fn is_flow(&self, text: &str) -> bool {
        text[self.start..].starts_with('{')
    }

    /// `true` for an absent value, `~`, `null` and `{}`: a map can take its place.
    fn is_empty_value(&self) -> bool {
        match &self.kind {
            YamlKind::Scalar { text, is_plain } => {
                *is_plain && ["", "~", "null"].contains(&text.as_str())
            }
            YamlKind::Map(entries) => entries.is_empty(),
            YamlKind::List(_) | YamlKind::Alias => false,
        }
    }
}
