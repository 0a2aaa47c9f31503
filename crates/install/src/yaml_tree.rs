//! YAML as a tree whose nodes know where they stand.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::error::{EditError, TextPlace};
use crate::value::SettingValue;

/// A value of a YAML text. `end` is the byte after its last character, without comments and blanks.
#[derive(Debug)]
pub(crate) struct YamlNode {
    pub(crate) start: usize,
    end: usize,
    pub(crate) kind: YamlKind,
}

#[derive(Debug)]
pub(crate) enum YamlKind {
    Scalar { text: String, is_plain: bool },
    List(Vec<YamlNode>),
    Map(Vec<YamlEntry>),
    Alias,
}

/// A key with its value; `colon` is the byte of the colon after the key.
#[derive(Debug)]
pub(crate) struct YamlEntry {
    pub(crate) key: String,
    pub(crate) key_start: usize,
    pub(crate) colon: usize,
    pub(crate) value: YamlNode,
}

impl YamlEntry {
    /// The byte after the value; an absent value ends at the colon.
    pub(crate) fn end(&self) -> usize {
        self.value.end.max(self.colon + 1)
    }
}

impl YamlNode {
    pub(crate) fn entries(&self) -> Option<&[YamlEntry]> {
        match &self.kind {
            YamlKind::Map(entries) => Some(entries),
            YamlKind::Scalar { .. } | YamlKind::List(_) | YamlKind::Alias => None,
        }
    }

    pub(crate) fn to_setting(&self) -> SettingValue {
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
pub(crate) fn parse_yaml(text: &str) -> Result<Option<YamlNode>, EditError> {
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
