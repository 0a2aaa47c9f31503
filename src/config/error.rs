//! Errors of the configuration, and suggestions for misspelled keys.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use super::{ValueOrigin, schema};
use crate::bounded_read::BoundedReadError;
use crate::did_you_mean::find_closest;

/// The reason why the settings could not be loaded.
#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("cannot read the configuration file `{}`; check its path, kind and permissions", path.display())]
    Unreadable { path: PathBuf, source: BoundedReadError },
    /// The configuration has mistakes; all of them are listed.
    #[error("{}", format_problems(problems))]
    Invalid {
        /// All problems of all layers, in the order of the layers.
        problems: Vec<Problem>,
    },
}

impl ConfigError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "config_unreadable",
            Self::Invalid { .. } => "config_invalid",
        }
    }
}

fn format_problems(problems: &[Problem]) -> String {
    let mut text = "the configuration is not valid; correct:".to_owned();
    for problem in problems {
        text.push_str(&format!("\n  {problem}"));
    }
    text
}

/// A mistake in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{origin}: {kind}")]
pub struct Problem {
    pub origin: ValueOrigin,
    pub kind: ProblemKind,
}

/// The kind of a mistake.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProblemKind {
    #[error("not valid TOML: {0}")]
    Syntax(String),
    #[error("not valid JSON: {0}")]
    Json(String),
    #[error("unknown key `{key}`{}", format_suggestion(suggestion.as_deref()))]
    UnknownKey {
        /// The key as it was written, with its section.
        key: String,
        suggestion: Option<String>,
    },
    #[error(
        "no setting has this variable{}",
        format_suggestion(suggestion.as_deref())
    )]
    UnknownVariable { suggestion: Option<String> },
    #[error("the value for `{key}` is not UTF-8 text")]
    NotText { key: String },
    /// A section has a value instead of keys.
    #[error("`{section}` is a section, not a value; write [{section}] and its keys below")]
    SectionExpected { section: String },
    /// The name of a lane or a tenant is not valid.
    #[error(
        "`{key}`: a lane's name is 1 to 32 of a-z, 0-9, `_` and `-`; a tenant's 1 to 64 of those and A-Z"
    )]
    InvalidName { key: String },
    /// The value has the wrong type, or is out of range.
    #[error("`{key}` cannot be {given}; it must be {allowed}{}", format_meant(*meant))]
    NotAllowed {
        key: String,
        /// The value as it was written.
        given: String,
        /// The description of the allowed values.
        allowed: String,
        meant: Option<&'static str>,
    },
    /// Two settings contradict each other.
    #[error("`{key}` ({value}) must not be larger than `{bound}` ({bound_value}, {bound_origin})")]
    OutOfOrder {
        /// The setting that is too large.
        key: &'static str,
        value: String,
        /// The setting that limits it.
        bound: &'static str,
        bound_value: String,
        bound_origin: Box<ValueOrigin>,
    },
}

fn format_meant(meant: Option<&str>) -> String {
    meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
}

fn format_suggestion(suggestion: Option<&str>) -> impl fmt::Display {
    match suggestion {
        Some(suggestion) => format!("; did you mean `{suggestion}`?"),
        None => "; `shellyard config init --stdout` lists all that exist".to_owned(),
    }
}

/// The least similarity of a suggestion; below it, it would be a guess.
const MIN_SIMILARITY: f64 = 0.65;

/// Suggests a known key or section in place of `key`.
pub(super) fn suggest_key(key: &str) -> Option<String> {
    let last = |key: &str| key.rsplit('.').next().map(str::to_owned);
    let keys = || schema::SETTINGS.iter().map(|setting| setting.key);
    // The right name in the wrong section is the most likely mistake.
    let moved = keys().find(|known| last(known) == last(key));
    moved.map(str::to_owned).or_else(|| suggest_key_of_named(key)).or_else(|| {
        find_closest(key, keys().chain(schema::list_sections()), MIN_SIMILARITY).map(str::to_owned)
    })
}

/// Suggests a key of a lane or a tenant. The name of the lane or tenant does not count as similarity.
fn suggest_key_of_named(key: &str) -> Option<String> {
    let (inner, known) = schema::split_named_key(key)?;
    let meant = find_closest(inner, known, MIN_SIMILARITY)?;
    Some(format!("{}{meant}", key.strip_suffix(inner)?))
}

/// Suggests a known variable in place of `name`.
pub(super) fn suggest_variable(name: &str) -> Option<String> {
    // The prefix is always right, so it does not count as similarity.
    let bare = |name: &str| name.trim_start_matches(schema::VARIABLE_PREFIX).to_owned();
    let known: Vec<_> =
        schema::SETTINGS.iter().map(|setting| bare(&schema::variable_name(setting.key))).collect();
    let found = find_closest(&bare(name), known.iter().map(String::as_str), MIN_SIMILARITY)?;
    Some(format!("{}{found}", schema::VARIABLE_PREFIX))
}

/// Suggests one of `words` in place of `given`.
pub(super) fn suggest_word(given: &str, words: &[&'static str]) -> Option<&'static str> {
    find_closest(&given.to_lowercase(), words.iter().copied(), MIN_SIMILARITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_in_keys_and_variables_get_a_suggestion() {
        let cases = [
            ("http.bnid", Some("http.bind")),
            ("htpp", Some("http")),
            ("queue.slot", Some("queue.slots")),
            ("http.slots", Some("queue.slots")),
            ("slots", Some("queue.slots")),
            ("queue.lane", Some("queue.lanes")),
            ("tenants.ci.confinment", Some("tenants.ci.confinement")),
            ("queue.lanes.gpu.open_file", Some("queue.lanes.gpu.open_files")),
            ("tenants.a-long-name.xyz", None),
            ("colour.scheme", None),
        ];
        for (given, expected) in cases {
            assert_eq!(suggest_key(given).as_deref(), expected, "{given}");
        }
        assert_eq!(
            suggest_variable("SHELLYARD_QUEUE_SLOT").as_deref(),
            Some("SHELLYARD_QUEUE_SLOTS")
        );
        assert_eq!(suggest_variable("SHELLYARD_XYZZY"), None);
    }

    #[test]
    fn typos_in_words_get_a_suggestion() {
        let words = ["none", "default", "workspace-write", "read-only"];
        for (given, expected) in [
            ("readonly", Some("read-only")),
            ("Workspace_Write", Some("workspace-write")),
            ("sandbox", None),
        ] {
            assert_eq!(suggest_word(given, &words), expected, "{given}");
        }
    }
}
