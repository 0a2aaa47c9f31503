//! Edits of TOML texts: comments, order and layout stay as they are.

use toml_edit::{Document, DocumentMut, InlineTable, Item, RawString, Table, TableLike, Value};

use crate::format::{EditError, SettingValue, TextPlace, newline_of};
use crate::json::quote;

fn parse(text: &str) -> Result<DocumentMut, EditError> {
    let document = Document::parse(text).map_err(|error| EditError::Syntax {
        place: TextPlace::of_byte(text, error.span().map_or(0, |span| span.start)),
        why: error.message().lines().next().unwrap_or_default().to_owned(),
    })?;
    Ok(document.into_mut())
}

/// The content of a text.
pub(crate) fn read(text: &str) -> Result<SettingValue, EditError> {
    Ok(table_to_setting(parse(text)?.as_table()))
}

/// Sets the value at the end of a path. A map at the end of a new path of two keys becomes a table at
/// the end of the text.
pub(crate) fn set(text: &str, path: &[&str], value: &SettingValue) -> Result<String, EditError> {
    let mut document = parse(text)?;
    let found = table_to_setting(document.as_table());
    if found.at(path) == Some(value) {
        return Ok(text.to_owned());
    }
    let is_plain_parent = match path.first().and_then(|key| document.get(key)) {
        None | Some(Item::Table(_)) => true,
        Some(Item::None | Item::Value(_) | Item::ArrayOfTables(_)) => false,
    };
    let is_new = found.at(path).is_none();
    if let (SettingValue::Map(pairs), true) = (value, is_new && is_plain_parent && path.len() == 2)
    {
        return Ok(append_table(text, path, pairs));
    }
    let Some((last, above)) = path.split_last() else { return Ok(text.to_owned()) };
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for (depth, key) in above.iter().enumerate() {
        let next = table.entry(key).or_insert_with(|| Item::Value(InlineTable::new().into()));
        let shown = path.get(..=depth).unwrap_or_default();
        table = next.as_table_like_mut().ok_or_else(|| other_kind_error(text, shown))?;
    }
    let mut new = to_toml(value);
    if let Some(old) = table.get(last).and_then(Item::as_value) {
        *new.decor_mut() = old.decor().clone();
    }
    table.insert(last, Item::Value(new));
    Ok(to_text(&document, text))
}

/// Formats a document with the line ends of its text; the parser knows only one kind.
fn to_text(document: &DocumentMut, text: &str) -> String {
    let edited = document.to_string();
    let has_crlf = text.contains("\r\n") && !text.replace("\r\n", "").contains('\n');
    if has_crlf { edited.replace('\n', "\r\n") } else { edited }
}

/// The parser keeps no places for documents that are edited, so the first line with the key counts.
fn other_kind_error(text: &str, path: &[&str]) -> EditError {
    let byte = path.last().and_then(|key| text.find(*key)).unwrap_or(0);
    EditError::other_kind(text, byte, path, "a table")
}

/// Appends a table with a header, after an empty line.
fn append_table(text: &str, path: &[&str], pairs: &[(String, SettingValue)]) -> String {
    let newline = newline_of(text);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { newline };
    let gap = if text.is_empty() { "" } else { newline };
    let header: Vec<String> = path.iter().map(|key| format_key(key)).collect();
    let line = |(key, value): &(String, SettingValue)| {
        format!("{} = {}{newline}", format_key(key), to_toml(value))
    };
    let lines: String = pairs.iter().map(line).collect();
    format!("{text}{end}{gap}[{}]{newline}{lines}", header.join("."))
}

fn format_key(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if !key.is_empty() && key.chars().all(is_bare) { key.to_owned() } else { quote(key) }
}

/// Removes the key at the end of a path. Comments above a removed table stay, in front of what follows.
pub(crate) fn remove(text: &str, path: &[&str]) -> Result<String, EditError> {
    let mut document = parse(text)?;
    if table_to_setting(document.as_table()).at(path).is_none() {
        return Ok(text.to_owned());
    }
    let Some((last, above)) = path.split_last() else { return Ok(text.to_owned()) };
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for (depth, key) in above.iter().enumerate() {
        let next = table.get_mut(key).and_then(Item::as_table_like_mut);
        let shown = path.get(..=depth).unwrap_or_default();
        table = next.ok_or_else(|| other_kind_error(text, shown))?;
    }
    if let Some(Item::Table(removed)) = table.remove(last) {
        keep_comments(&mut document, &removed);
    }
    remove_empty_inline_table(&mut document, above);
    Ok(to_text(&document, text))
}

/// Moves the comments above a removed table to the table that follows it, or to the end of the text.
fn keep_comments(document: &mut DocumentMut, removed: &Table) {
    let prefix = removed.decor().prefix().and_then(RawString::as_str).unwrap_or_default();
    let prefix = prefix.replace("\r\n", "\n");
    // The empty line before a table goes with it.
    let is_gap = prefix == "\n" || prefix.ends_with("\n\n");
    let kept = if is_gap { &prefix[..prefix.len() - 1] } else { &prefix };
    if kept.is_empty() {
        return;
    }
    let position = last_position(removed);
    let next = position.and_then(|position| find_next_table(document.as_table_mut(), position));
    match next {
        Some(next) => {
            let own = next.decor().prefix().and_then(RawString::as_str).unwrap_or_default();
            let joined = format!("{kept}{own}");
            next.decor_mut().set_prefix(joined);
        }
        None => {
            let trailing = document.trailing().as_str().unwrap_or_default();
            let joined = format!("{kept}{trailing}");
            document.set_trailing(joined);
        }
    }
}

/// The position of the last table within this one.
fn last_position(table: &Table) -> Option<isize> {
    let inner = table.iter().filter_map(|(_, item)| item.as_table()).filter_map(last_position);
    inner.chain(table.position()).max()
}

/// The first table that stands after a position in the text.
fn find_next_table(table: &mut Table, after: isize) -> Option<&mut Table> {
    fn candidates<'t>(table: &'t mut Table, found: &mut Vec<(isize, &'t mut Table)>) {
        let is_shown = !table.is_implicit() && !table.is_dotted();
        // A table is either a candidate itself or a way to its tables, never both at once.
        match (is_shown, table.position()) {
            (true, Some(position)) => found.push((position, table)),
            (true | false, _) => table.iter_mut().for_each(|(_, item)| visit(item, found)),
        }
    }
    fn visit<'t>(item: &'t mut Item, found: &mut Vec<(isize, &'t mut Table)>) {
        match item {
            Item::Table(table) => candidates(table, found),
            Item::ArrayOfTables(tables) => {
                tables.iter_mut().for_each(|table| candidates(table, found));
            }
            Item::None | Item::Value(_) => {}
        }
    }
    let mut found = Vec::new();
    table.iter_mut().for_each(|(_, item)| visit(item, &mut found));
    found.retain(|(position, _)| *position > after);
    found.sort_by_key(|(position, _)| *position);
    found.into_iter().next().map(|(_, table)| table)
}

/// Removes an inline table that has become empty.
fn remove_empty_inline_table(document: &mut DocumentMut, path: &[&str]) {
    if let [key] = path
        && let Some(Item::Value(Value::InlineTable(table))) = document.get(key)
        && table.is_empty()
    {
        document.remove(key);
    }
}

fn table_to_setting(table: &dyn TableLike) -> SettingValue {
    let pair = |(key, item): (&str, &Item)| (key.to_owned(), item_to_setting(item));
    SettingValue::Map(table.iter().map(pair).collect())
}

fn item_to_setting(item: &Item) -> SettingValue {
    match item {
        Item::None => SettingValue::Other(String::new()),
        Item::Value(value) => value_to_setting(value),
        Item::Table(table) => table_to_setting(table),
        Item::ArrayOfTables(tables) => {
            SettingValue::List(tables.iter().map(|table| table_to_setting(table)).collect())
        }
    }
}

fn value_to_setting(value: &Value) -> SettingValue {
    match value {
        Value::String(text) => SettingValue::text(text.value()),
        Value::Integer(number) => SettingValue::Number(*number.value()),
        Value::Boolean(flag) => SettingValue::Flag(*flag.value()),
        Value::Float(number) => SettingValue::Other(number.display_repr().into_owned()),
        Value::Datetime(time) => SettingValue::Other(time.display_repr().into_owned()),
        Value::Array(items) => SettingValue::List(items.iter().map(value_to_setting).collect()),
        Value::InlineTable(table) => table_to_setting(table),
    }
}

fn to_toml(value: &SettingValue) -> Value {
    match value {
        SettingValue::Text(text) | SettingValue::Other(text) => text.as_str().into(),
        SettingValue::Number(number) => (*number).into(),
        SettingValue::Flag(flag) => (*flag).into(),
        SettingValue::List(items) => Value::Array(items.iter().map(to_toml).collect()),
        SettingValue::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| (key.as_str(), to_toml(value)));
            Value::InlineTable(pairs.collect())
        }
    }
}
