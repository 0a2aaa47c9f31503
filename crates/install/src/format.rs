//! Settings files by their format. Every edit is read again before it is used.

use crate::error::EditError;
use crate::jsonc::JsonSyntax;
use crate::value::SettingValue;
use crate::{toml_text, yaml_text};

/// The format of a settings file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsFormat {
    /// JSON, as a program reads it that accepts nothing else.
    Json,
    /// JSON with comments and trailing commas.
    Jsonc,
    /// TOML, as Codex uses it.
    Toml,
    /// YAML with one document.
    Yaml,
}

/// The mark that some editors put at the beginning of a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

impl SettingsFormat {
    const fn json_syntax(self) -> Option<JsonSyntax> {
        match self {
            Self::Json => Some(JsonSyntax::Strict),
            Self::Jsonc => Some(JsonSyntax::Comments),
            Self::Toml | Self::Yaml => None,
        }
    }

    /// Returns the content of a text; an empty text is an empty map.
    ///
    /// # Errors
    /// When the text is not valid in this format.
    pub fn read(self, text: &str) -> Result<SettingValue, EditError> {
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        match self {
            Self::Json | Self::Jsonc => {
                self.json_syntax().map_or(Err(EditError::Layout), |syntax| syntax.read(text))
            }
            Self::Toml => toml_text::read(text),
            Self::Yaml => yaml_text::read(text),
        }
    }

    /// Returns the text with a value at the end of a path; the same text if it has that value.
    ///
    /// # Errors
    /// When the text is not valid, a key on the way is no map, or the layout does not allow the edit.
    pub fn set(self, text: &str, path: &[&str], value: &SettingValue) -> Result<String, EditError> {
        let expected = |before: SettingValue| before.with(path, value.clone());
        self.edit(text, expected, |text| match self.json_syntax() {
            Some(syntax) => syntax.set(text, path, value),
            None if self == Self::Toml => toml_text::set(text, path, value),
            None => yaml_text::set(text, path, value),
        })
    }

    /// Returns the text without the key at the end of a path. Maps above it that are then empty may go,
    /// too.
    ///
    /// # Errors
    /// When the text is not valid, or the layout does not allow the edit.
    pub fn remove(self, text: &str, path: &[&str]) -> Result<String, EditError> {
        let expected = |before: SettingValue| before.without(path);
        self.edit(text, expected, |text| match self.json_syntax() {
            Some(syntax) => syntax.remove(text, path),
            None if self == Self::Toml => toml_text::remove(text, path),
            None => yaml_text::remove(text, path),
        })
    }

    /// Returns the text with an item in the list at the end of a path. Only for JSON.
    ///
    /// # Errors
    /// When the text is not valid, or the value there is not a list.
    pub fn append_item(self, text: &str, path: &[&str], item: &str) -> Result<String, EditError> {
        let syntax = self.json_syntax().ok_or(EditError::Layout)?;
        let expected = |before: SettingValue| {
            let mut items = before.at(path).and_then(SettingValue::as_list).unwrap_or(&[]).to_vec();
            if !items.contains(&SettingValue::text(item)) {
                items.push(SettingValue::text(item));
            }
            before.with(path, SettingValue::List(items))
        };
        self.edit(text, expected, |text| syntax.append_item(text, path, item))
    }

    /// Returns the text without an item in the list at the end of a path. Only for JSON.
    ///
    /// # Errors
    /// When the text is not valid.
    pub fn remove_item(self, text: &str, path: &[&str], item: &str) -> Result<String, EditError> {
        let syntax = self.json_syntax().ok_or(EditError::Layout)?;
        let expected = |before: SettingValue| {
            let Some(items) = before.at(path).and_then(SettingValue::as_list) else {
                return before;
            };
            let is_other = |value: &&SettingValue| value.as_text() != Some(item);
            let items = items.iter().filter(is_other).cloned().collect();
            before.with(path, SettingValue::List(items))
        };
        self.edit(text, expected, |text| syntax.remove_item(text, path, item))
    }

    /// Applies an edit and compares the content of the result with the expected one; empty maps and
    /// lists do not count.
    fn edit(
        self,
        text: &str,
        expected: impl FnOnce(SettingValue) -> SettingValue,
        apply: impl FnOnce(&str) -> Result<String, EditError>,
    ) -> Result<String, EditError> {
        let bare = text.strip_prefix(BYTE_ORDER_MARK);
        let before = self.read(text)?;
        let edited = apply(bare.unwrap_or(text))?;
        let edited = if bare.is_some() { format!("{BYTE_ORDER_MARK}{edited}") } else { edited };
        let after = self.read(&edited).map_err(|_| EditError::Layout)?;
        let is_expected = without_empty(expected(before)).is_equivalent(&without_empty(after));
        if is_expected { Ok(edited) } else { Err(EditError::Layout) }
    }
}

/// Removes maps and lists without content, at every level.
fn without_empty(value: SettingValue) -> SettingValue {
    let is_empty = |value: &SettingValue| match value {
        SettingValue::Map(pairs) => pairs.is_empty(),
        SettingValue::List(items) => items.is_empty(),
        SettingValue::Other(raw) => raw == "null",
        SettingValue::Text(_) | SettingValue::Number(_) | SettingValue::Flag(_) => false,
    };
    match value {
        SettingValue::Map(pairs) => {
            let pairs = pairs.into_iter().map(|(key, value)| (key, without_empty(value)));
            SettingValue::Map(pairs.filter(|(_, value)| !is_empty(value)).collect())
        }
        SettingValue::Text(_)
        | SettingValue::Number(_)
        | SettingValue::Flag(_)
        | SettingValue::List(_)
        | SettingValue::Other(_) => value,
    }
}
