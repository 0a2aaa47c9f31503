//! Edits of YAML texts by whole lines: comments, order and layout stay as they are.
//!
//! The parser tells where each key and value stands; everything else is splicing. A layout that this
//! does not understand shows when the result is read again, and the file is then left alone.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::format::{EditError, SettingValue, TextPlace, newline_of};
use crate::json::{format_inline, quote};

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
        match find_entry(entries, key) {
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
    node.entries().ok_or_else(|| EditError::other_kind(text, node.start, path, "a mapping"))
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

/// A value of a YAML text. `end` is the byte after its last character, without comments and blanks.
#[derive(Debug)]
struct YamlNode {
    start: usize,
    end: usize,
    kind: YamlKind,
}

#[derive(Debug)]
enum YamlKind {
    Scalar { text: String, is_plain: bool },
    List(Vec<YamlNode>),
    Map(Vec<YamlEntry>),
    Alias,
}

/// A key with its value; `colon` is the byte of the colon after the key.
#[derive(Debug)]
struct YamlEntry {
    key: String,
    key_start: usize,
    colon: usize,
    value: YamlNode,
}

impl YamlEntry {
    /// The byte after the value; an absent value ends at the colon.
    fn end(&self) -> usize {
        self.value.end.max(self.colon + 1)
    }
}

impl YamlNode {
    fn entries(&self) -> Option<&[YamlEntry]> {
        match &self.kind {
            YamlKind::Map(entries) => Some(entries),
            YamlKind::Scalar { .. } | YamlKind::List(_) | YamlKind::Alias => None,
        }
    }

    fn to_setting(&self) -> SettingValue {
        match &self.kind {
            YamlKind::Scalar { text, is_plain: false } => SettingValue::text(text),
            YamlKind::Scalar { text, is_plain: true } => read_plain(text),
            YamlKind::List(items) => {
                SettingValue::List(items.iter().map(Self::to_setting).collect())
            }
            YamlKind::Map(entries) => {
                let pair = |entry: &YamlEntry| (entry.key.clone(), entry.value.to_setting());
                SettingValue::Map(entries.iter().map(pair).collect())
            }
            YamlKind::Alias => SettingValue::Other("*".to_owned()),
        }
    }

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

/// A scalar without quotes, as YAML 1.2 reads it.
fn read_plain(text: &str) -> SettingValue {
    match text {
        "true" | "True" | "TRUE" => SettingValue::Flag(true),
        "false" | "False" | "FALSE" => SettingValue::Flag(false),
        "" | "~" | "null" | "Null" | "NULL" => SettingValue::Other("null".to_owned()),
        text => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(number), _) => SettingValue::Number(number),
            (Err(_), Ok(_)) => SettingValue::Other(text.to_owned()),
            (Err(_), Err(_)) => SettingValue::text(text),
        },
    }
}

/// Reads a text with at most one document. Without any content there is no node.
fn parse_yaml(text: &str) -> Result<Option<YamlNode>, EditError> {
    let mut events = Vec::new();
    let mut bytes: Vec<usize> = text.char_indices().map(|(byte, _)| byte).collect();
    bytes.push(text.len());
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| EditError::Syntax {
            place: TextPlace { line: error.marker().line(), column: error.marker().col() + 1 },
            why: error.info().to_owned(),
        })?;
        events.push((event, span));
    }
    let documents =
        events.iter().filter(|(event, _)| matches!(event, Event::DocumentStart(_))).count();
    if documents > 1 || text.lines().any(|line| line.trim_end() == "...") {
        return Err(EditError::Layout);
    }
    let mut builder = TreeBuilder { text, bytes, events: events.into_iter().peekable() };
    builder.skip_start();
    builder.build(0)
}

/// Levels of nesting that are read; a settings file has a handful.
const MAX_DEPTH: usize = 64;

struct TreeBuilder<'t, I: Iterator<Item = (Event<'t>, Span)>> {
    text: &'t str,
    /// The byte of each character: the parser counts characters.
    bytes: Vec<usize>,
    events: std::iter::Peekable<I>,
}

impl<'t, I: Iterator<Item = (Event<'t>, Span)>> TreeBuilder<'t, I> {
    fn skip_start(&mut self) {
        let is_start = |event: &Event<'_>| {
            matches!(event, Event::StreamStart | Event::DocumentStart(_) | Event::Nothing)
        };
        while self.events.next_if(|(event, _)| is_start(event)).is_some() {}
    }

    fn byte(&self, character: usize) -> usize {
        self.bytes.get(character).copied().unwrap_or(self.text.len())
    }

    fn build(&mut self, depth: usize) -> Result<Option<YamlNode>, EditError> {
        if depth > MAX_DEPTH {
            return Err(EditError::Layout);
        }
        let Some((event, span)) = self.events.next() else { return Ok(None) };
        let start = self.byte(span.start.index());
        let end = self.byte(span.end.index());
        let node = match event {
            Event::Scalar(text, style, ..) => {
                let is_plain = style == ScalarStyle::Plain;
                // An absent value is placed at the next token.
                let end = if is_plain && text.is_empty() { 0 } else { end };
                YamlNode {
                    start,
                    end,
                    kind: YamlKind::Scalar { text: text.into_owned(), is_plain },
                }
            }
            Event::SequenceStart(..) => self.build_list(start, depth)?,
            Event::MappingStart(..) => self.build_map(start, depth)?,
            Event::Alias(_) => YamlNode { start, end, kind: YamlKind::Alias },
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => return Ok(None),
        };
        Ok(Some(node))
    }

    fn build_list(&mut self, start: usize, depth: usize) -> Result<YamlNode, EditError> {
        let mut items = Vec::new();
        loop {
            if let Some((_, span)) =
                self.events.next_if(|(event, _)| matches!(event, Event::SequenceEnd))
            {
                let is_flow = self.text[start..].starts_with('[');
                let inner = items.last().map_or(start, |item: &YamlNode| item.end);
                let end = if is_flow { self.byte(span.end.index()) } else { inner };
                return Ok(YamlNode { start, end, kind: YamlKind::List(items) });
            }
            items.push(self.build(depth + 1)?.ok_or(EditError::Layout)?);
        }
    }

    fn build_map(&mut self, start: usize, depth: usize) -> Result<YamlNode, EditError> {
        let mut entries: Vec<YamlEntry> = Vec::new();
        loop {
            if let Some((_, span)) =
                self.events.next_if(|(event, _)| matches!(event, Event::MappingEnd))
            {
                let is_flow = self.text[start..].starts_with('{');
                let inner = entries.last().map_or(start, YamlEntry::end);
                let end = if is_flow { self.byte(span.end.index()) } else { inner };
                return Ok(YamlNode { start, end, kind: YamlKind::Map(entries) });
            }
            entries.push(self.build_entry(&entries, depth)?);
        }
    }

    fn build_entry(&mut self, before: &[YamlEntry], depth: usize) -> Result<YamlEntry, EditError> {
        let key = self.build(depth + 1)?.ok_or(EditError::Layout)?;
        let YamlKind::Scalar { text: name, .. } = &key.kind else { return Err(EditError::Layout) };
        if before.iter().any(|entry| entry.key == *name) {
            let place = TextPlace::of_byte(self.text, key.start);
            return Err(EditError::Duplicate { place, key: name.clone() });
        }
        let after_key = self.text.get(key.end..).ok_or(EditError::Layout)?;
        let colon = after_key.find(':').map(|index| key.end + index).ok_or(EditError::Layout)?;
        let value = self.build(depth + 1)?.ok_or(EditError::Layout)?;
        Ok(YamlEntry { key: name.clone(), key_start: key.start, colon, value })
    }
}
