//! Settings files by their format: the values in them, their edits, and the reasons why a text is left
//! alone. Every edit is read again before it is used.

use thiserror::Error;

use crate::{json, toml, yaml};

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
    /// Returns the content of a text; an empty text is an empty map.
    ///
    /// # Errors
    /// When the text is not valid in this format.
    pub fn read(self, text: &str) -> Result<SettingValue, EditError> {
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        match self {
            Self::Json | Self::Jsonc => json::read(self, text),
            Self::Toml => toml::read(text),
            Self::Yaml => yaml::read(text),
        }
    }

    /// Returns the text with a value at the end of a path; the same text if it has that value.
    ///
    /// # Errors
    /// When the text is not valid, a key on the way is no map, or the layout does not allow the edit.
    pub fn set(self, text: &str, path: &[&str], value: &SettingValue) -> Result<String, EditError> {
        let expected = |before: SettingValue| before.with(path, value.clone());
        self.edit(text, expected, |text| match self {
            Self::Json | Self::Jsonc => json::set(self, text, path, value),
            Self::Toml => toml::set(text, path, value),
            Self::Yaml => yaml::set(text, path, value),
        })
    }

    /// Returns the text without the key at the end of a path. Maps above it that are then empty may go,
    /// too.
    ///
    /// # Errors
    /// When the text is not valid, or the layout does not allow the edit.
    pub fn remove(self, text: &str, path: &[&str]) -> Result<String, EditError> {
        let expected = |before: SettingValue| before.without(path);
        self.edit(text, expected, |text| match self {
            Self::Json | Self::Jsonc => json::remove(self, text, path),
            Self::Toml => toml::remove(text, path),
            Self::Yaml => yaml::remove(text, path),
        })
    }

    /// Returns the text with an item in the list at the end of a path. Only for JSON.
    ///
    /// # Errors
    /// When the text is not valid, or the value there is not a list.
    pub fn append_item(self, text: &str, path: &[&str], item: &str) -> Result<String, EditError> {
        let expected = |before: SettingValue| {
            let mut items = before.at(path).and_then(SettingValue::as_list).unwrap_or(&[]).to_vec();
            if !items.contains(&SettingValue::text(item)) {
                items.push(SettingValue::text(item));
            }
            before.with(path, SettingValue::List(items))
        };
        self.edit(text, expected, |text| match self {
            Self::Json | Self::Jsonc => json::append_item(self, text, path, item),
            Self::Toml | Self::Yaml => Err(EditError::Layout),
        })
    }

    /// Returns the text without an item in the list at the end of a path. Only for JSON.
    ///
    /// # Errors
    /// When the text is not valid.
    pub fn remove_item(self, text: &str, path: &[&str], item: &str) -> Result<String, EditError> {
        let expected = |before: SettingValue| {
            let Some(items) = before.at(path).and_then(SettingValue::as_list) else {
                return before;
            };
            let is_other = |value: &&SettingValue| value.as_text() != Some(item);
            let items = items.iter().filter(is_other).cloned().collect();
            before.with(path, SettingValue::List(items))
        };
        self.edit(text, expected, |text| match self {
            Self::Json | Self::Jsonc => json::remove_item(self, text, path, item),
            Self::Toml | Self::Yaml => Err(EditError::Layout),
        })
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

/// The line end that a text uses.
pub(crate) fn newline_of(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
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

/// A value in a settings file. The order of keys is that of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingValue {
    /// A string, without its quotes.
    Text(String),
    /// An integer of 64 bits.
    Number(i64),
    /// One of `true` and `false`.
    Flag(bool),
    /// A list of any values.
    List(Vec<Self>),
    /// Keys with their values.
    Map(Vec<(String, Self)>),
    /// A value that is never written, only compared: null, a fraction, a date; as it stands in the file.
    Other(String),
}

impl SettingValue {
    /// Creates a value that is a text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Creates a list of texts.
    #[must_use]
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::List(texts.into_iter().map(Self::text).collect())
    }

    /// Creates a map from its pairs.
    #[must_use]
    pub fn map<const N: usize>(pairs: [(&str, Self); N]) -> Self {
        Self::Map(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// The value of a key, if this is a map that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.pairs().iter().find_map(|(name, value)| (name == key).then_some(value))
    }

    /// The value at the end of a path of keys.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |value, key| value.get(key))
    }

    /// The pairs of a map; none of anything else.
    #[must_use]
    pub fn pairs(&self) -> &[(String, Self)] {
        match self {
            Self::Map(pairs) => pairs,
            Self::Text(_) | Self::Number(_) | Self::Flag(_) | Self::List(_) | Self::Other(_) => &[],
        }
    }

    /// The text, if this is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) | Self::Flag(_) | Self::List(_) | Self::Map(_) | Self::Other(_) => None,
        }
    }

    /// The items, if this is a list.
    pub(crate) fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            Self::Text(_) | Self::Number(_) | Self::Flag(_) | Self::Map(_) | Self::Other(_) => None,
        }
    }

    /// The texts of a list, if this is a list of nothing else.
    pub(crate) fn as_texts(&self) -> Option<Vec<String>> {
        self.as_list()?.iter().map(|item| item.as_text().map(str::to_owned)).collect()
    }

    /// `true` if both have the same content; the order of keys does not count.
    fn is_equivalent(&self, other: &Self) -> bool {
        self.clone().sorted() == other.clone().sorted()
    }

    fn sorted(self) -> Self {
        match self {
            Self::Map(pairs) => {
                let mut pairs: Vec<_> =
                    pairs.into_iter().map(|(key, value)| (key, value.sorted())).collect();
                pairs.sort_by(|(left, _), (right, _)| left.cmp(right));
                Self::Map(pairs)
            }
            Self::List(items) => Self::List(items.into_iter().map(Self::sorted).collect()),
            Self::Text(_) | Self::Number(_) | Self::Flag(_) | Self::Other(_) => self,
        }
    }

    /// Returns this value with another one at the end of a path; maps on the way are created.
    pub(crate) fn with(self, path: &[&str], value: Self) -> Self {
        let Some((first, rest)) = path.split_first() else { return value };
        let mut pairs = match self {
            Self::Map(pairs) => pairs,
            Self::Text(_) | Self::Number(_) | Self::Flag(_) | Self::List(_) | Self::Other(_) => {
                Vec::new()
            }
        };
        match pairs.iter_mut().find(|(key, _)| key == first) {
            Some((_, old)) => {
                let inner = std::mem::replace(old, Self::Flag(false));
                *old = inner.with(rest, value);
            }
            None => pairs.push(((*first).to_owned(), Self::Map(Vec::new()).with(rest, value))),
        }
        Self::Map(pairs)
    }

    /// Returns this value without the key at the end of a path.
    pub(crate) fn without(self, path: &[&str]) -> Self {
        let (Self::Map(pairs), Some((first, rest))) = (self.clone(), path.split_first()) else {
            return self;
        };
        let keep = |(key, value): (String, Self)| match (key == *first, rest.is_empty()) {
            (true, true) => None,
            (true, false) => Some((key, value.without(rest))),
            (false, _) => Some((key, value)),
        };
        Self::Map(pairs.into_iter().filter_map(keep).collect())
    }
}

/// A place in a text, counted from one. Columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPlace {
    /// The number of the line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl TextPlace {
    /// The place of a byte in a text.
    pub(crate) fn of_byte(text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |index| index + 1);
        let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
        Self { line: before.matches('\n').count() + 1, column }
    }
}

impl std::fmt::Display for TextPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The reason why a text was not edited.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EditError {
    /// The text is not valid in its format.
    #[error("{place}: {why}")]
    Syntax {
        /// The place of the first mistake.
        place: TextPlace,
        /// The mistake, in the words of the parser.
        why: String,
    },
    /// A key on the way to the setting has another kind of value.
    #[error("{place}: `{key}` is not {expected}")]
    OtherKind {
        /// The place of the value.
        place: TextPlace,
        /// The key, with the keys above it.
        key: String,
        /// The kind of value that is needed.
        expected: &'static str,
    },
    /// A key occurs twice in the same place; programs differ in which one counts.
    #[error("{place}: the key `{key}` occurs twice")]
    Duplicate {
        /// The place of the second one.
        place: TextPlace,
        /// The key that occurs twice.
        key: String,
    },
    /// The edited text would have meant something else than intended.
    #[error("the layout of the file is unusual, and no edit keeps the rest as it is")]
    Layout,
}

impl EditError {
    /// The value at this byte, at the end of a path, has another kind.
    pub(crate) fn other_kind(
        text: &str,
        byte: usize,
        path: &[&str],
        expected: &'static str,
    ) -> Self {
        let key = if path.is_empty() { "the whole file".to_owned() } else { path.join(".") };
        Self::OtherKind { place: TextPlace::of_byte(text, byte), key, expected }
    }

    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "settings_syntax",
            Self::OtherKind { .. } => "settings_other_kind",
            Self::Duplicate { .. } => "settings_duplicate_key",
            Self::Layout => "settings_layout",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_creates_replaces_and_removes() {
        let empty = SettingValue::Map(Vec::new());
        let made = empty.clone().with(&["a", "b"], SettingValue::Number(1));
        assert_eq!(made.at(&["a", "b"]), Some(&SettingValue::Number(1)));
        let other = made.clone().with(&["a", "c"], SettingValue::Flag(true));
        assert_eq!(other.at(&["a", "b"]), Some(&SettingValue::Number(1)));
        assert_eq!(other.clone().without(&["a", "c"]), made);
        assert_eq!(other.without(&["a"]), empty);
        assert_eq!(made.clone().without(&["x", "y"]), made);
    }

    #[test]
    fn the_order_of_keys_does_not_make_a_difference() {
        let one =
            SettingValue::map([("a", SettingValue::Number(1)), ("b", SettingValue::Number(2))]);
        let two =
            SettingValue::map([("b", SettingValue::Number(2)), ("a", SettingValue::Number(1))]);
        assert!(one != two && one.is_equivalent(&two));
    }

    #[test]
    fn a_place_counts_lines_and_characters() {
        let text = "é\nab\r\nc";
        let place = |byte| TextPlace::of_byte(text, byte).to_string();
        assert_eq!(place(0), "line 1, column 1");
        assert_eq!(place(2), "line 1, column 2");
        assert_eq!(place(4), "line 2, column 2");
        assert_eq!(place(7), "line 3, column 1");
        assert_eq!(place(99), "line 3, column 2");
    }
}
