//! What can be wrong with a pattern for masking.

use thiserror::Error;

/// A pattern that cannot be used for masking.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("redact pattern {index} `{pattern}` cannot be used: {message}; {suggestion}")]
pub struct RedactError {
    /// Its place in the list, counted from 0.
    pub index: usize,
    /// Its beginning, as it was given.
    pub pattern: String,
    /// What is wrong with it.
    pub message: String,
    /// What to do about it.
    pub suggestion: &'static str,
}

impl RedactError {
    pub(super) fn new(index: usize, pattern: &str, error: &regex::Error) -> Self {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        let message = last.trim_start_matches("error: ").to_owned();
        let suggestion = if message.contains("look-around") || message.contains("backreference") {
            "name the part to mask instead, as in `password=(?P<secret>\\S+)`"
        } else if matches!(error, regex::Error::CompiledTooBig(_)) {
            "use smaller repetitions, or fewer patterns"
        } else {
            "escape special characters with a backslash"
        };
        Self { index, pattern: pattern.chars().take(100).collect(), message, suggestion }
    }

    pub(super) fn empty(index: usize) -> Self {
        Self {
            index,
            pattern: String::new(),
            message: "it is empty".to_owned(),
            suggestion: "write a regular expression, or remove it",
        }
    }

    /// The stable word that programs may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "bad_redact_pattern"
    }
}
