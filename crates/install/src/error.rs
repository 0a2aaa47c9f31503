//! The reasons why a settings file is left alone.

use thiserror::Error;

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
    #[must_use]
    pub fn of_byte(text: &str, byte: usize) -> Self {
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
