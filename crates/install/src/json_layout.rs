//! The layout of JSON texts: where a child goes in, what goes with a removed one, and how values look.

use std::ops::Range;

use crate::jsonc::quote;
use crate::value::SettingValue;

/// An object or a list: its range with the brackets, and the ranges of its children.
#[derive(Debug)]
pub(crate) struct JsonContainer {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) children: Vec<Range<usize>>,
}

/// The place of a new child.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ChildPlace<'a> {
    /// In the line of its neighbours.
    Inline,
    /// In a line of its own, with this indentation.
    Line(&'a str),
}

/// The line end and the indentation that a text uses.
#[derive(Debug)]
pub(crate) struct JsonLayout {
    pub(crate) newline: &'static str,
    unit: String,
    is_one_line: bool,
}

impl JsonLayout {
    pub(crate) fn of_text(text: &str) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let indented = text.lines().find_map(|line| {
            let rest = line.trim_start();
            let is_indented = rest.len() < line.len() && rest.starts_with('"');
            is_indented.then(|| &line[..line.len() - rest.len()])
        });
        let is_one_line = !text.trim().contains('\n') && !text.trim().is_empty();
        // A bare `{}` says nothing about the wishes of its author.
        let is_one_line = is_one_line && text.contains('"');
        Self { newline, unit: indented.unwrap_or("  ").to_owned(), is_one_line }
    }

    /// Formats a value that begins in a line with this indentation.
    pub(crate) fn format_value(&self, value: &SettingValue, indent: &str) -> String {
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
    pub(crate) fn format_at(&self, value: &SettingValue, place: ChildPlace<'_>) -> String {
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
pub(crate) fn insert_child(
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
pub(crate) fn remove_child(text: &str, container: &JsonContainer, index: usize) -> String {
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
