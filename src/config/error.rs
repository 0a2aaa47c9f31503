//! What can be wrong with a configuration.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use super::{ValueOrigin, schema};
use crate::bounded_read::BoundedReadError;
use crate::did_you_mean::closest;

/// Why there are no settings.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read the configuration file `{}`; check its path, kind and permissions", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// The reason.
        source: BoundedReadError,
    },
    /// Something in a layer is wrong; every problem is listed.
    #[error("{}", list(problems))]
    Invalid {
        /// All problems of all layers, in the order of the layers.
        problems: Vec<Problem>,
    },
}

impl ConfigError {
    /// The stable word that scripts may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "config_unreadable",
            Self::Invalid { .. } => "config_invalid",
        }
    }
}

fn list(problems: &[Problem]) -> String {
    let mut text = "the configuration is not valid; correct:".to_owned();
    for problem in problems {
        text.push_str(&format!("\n  {problem}"));
    }
    text
}

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{origin}: {trouble}")]
pub struct Problem {
    /// Where it was found.
    pub origin: ValueOrigin,
    /// What is wrong.
    pub trouble: ProblemKind,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProblemKind {
    /// The file is not TOML.
    #[error("not valid TOML: {0}")]
    Syntax(String),
    /// There is no such key or section.
    #[error("unknown key `{key}`{}", did_you_mean(suggestion.as_deref()))]
    UnknownKey {
        /// The key as it was written, with its section.
        key: String,
        /// What it was most likely meant to be.
        suggestion: Option<String>,
    },
    /// There is no such environment variable.
    #[error(
        "no setting has this variable{}",
        did_you_mean(suggestion.as_deref())
    )]
    UnknownVariable {
        /// What it was most likely meant to be.
        suggestion: Option<String>,
    },
    /// The value is not UTF-8.
    #[error("the value for `{key}` is not UTF-8 text")]
    NotText {
        /// Which setting.
        key: String,
    },
    /// A section was given a value.
    #[error("`{section}` is a section, not a value; write [{section}] and its keys below")]
    SectionExpected {
        /// The section.
        section: String,
    },
    /// A lane or a tenant has a name that cannot be used.
    #[error(
        "`{key}`: a lane's name is 1 to 32 of a-z, 0-9, `_` and `-`; a tenant's 1 to 64 of those and A-Z"
    )]
    FreeName {
        /// The key as it was written.
        key: String,
    },
    /// The value has the wrong type, or is out of its range.
    #[error("`{key}` cannot be {given}; it must be {allowed}{}", or_rather(*meant))]
    NotAllowed {
        /// Which setting.
        key: String,
        /// The value as it was written.
        given: String,
        /// What it may be.
        allowed: String,
        /// The word that was most likely meant.
        meant: Option<&'static str>,
    },
    /// Two settings contradict each other.
    #[error("`{key}` ({value}) must not be larger than `{bound}` ({bound_value}, {bound_origin})")]
    OutOfOrder {
        /// The setting that is too large.
        key: &'static str,
        /// Its value.
        value: String,
        /// The setting that bounds it.
        bound: &'static str,
        /// The bound's value.
        bound_value: String,
        /// Where the bound came from.
        bound_origin: Box<ValueOrigin>,
    },
}

fn or_rather(meant: Option<&str>) -> String {
    meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
}

fn did_you_mean(suggestion: Option<&str>) -> impl fmt::Display {
    match suggestion {
        Some(suggestion) => format!("; did you mean `{suggestion}`?"),
        None => "; `shellyard config init --stdout` lists all that exist".to_owned(),
    }
}

// "Did you mean …?"

/// Below this likeness a suggestion would be a guess.
const ALIKE: f64 = 0.65;

/// The known key or section that `key` was most likely meant to be.
pub(super) fn for_key(key: &str) -> Option<String> {
    let last = |key: &str| key.rsplit('.').next().map(str::to_owned);
    let keys = || schema::SETTINGS.iter().map(|setting| setting.key);
    // The right name in the wrong section is the surest sign.
    let moved = keys().find(|known| last(known) == last(key));
    moved
        .map(str::to_owned)
        .or_else(|| in_named(key))
        .or_else(|| closest(key, keys().chain(schema::sections()), ALIKE).map(str::to_owned))
}

/// The same of a key of a lane or a tenant, whose name must not count as likeness.
fn in_named(key: &str) -> Option<String> {
    let (inner, known) = schema::in_named(key)?;
    let meant = closest(inner, known, ALIKE)?;
    Some(format!("{}{meant}", key.strip_suffix(inner)?))
}

/// The variable that `name` was most likely meant to be.
pub(super) fn for_variable(name: &str) -> Option<String> {
    // The prefix is always right, so it must not count as likeness.
    let bare = |name: &str| name.trim_start_matches(schema::VARIABLE_PREFIX).to_owned();
    let known: Vec<_> =
        schema::SETTINGS.iter().map(|setting| bare(&schema::variable(setting.key))).collect();
    let found = closest(&bare(name), known.iter().map(String::as_str), ALIKE)?;
    Some(format!("{}{found}", schema::VARIABLE_PREFIX))
}

/// The word that `given` was most likely meant to be.
pub(super) fn for_word(given: &str, words: &[&'static str]) -> Option<&'static str> {
    closest(&given.to_lowercase(), words.iter().copied(), ALIKE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_find_what_was_meant() {
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
            assert_eq!(for_key(given).as_deref(), expected, "{given}");
        }
        assert_eq!(for_variable("SHELLYARD_QUEUE_SLOT").as_deref(), Some("SHELLYARD_QUEUE_SLOTS"));
        assert_eq!(for_variable("SHELLYARD_XYZZY"), None);
    }

    #[test]
    fn near_misses_of_a_word_find_it() {
        let words = ["none", "default", "workspace-write", "read-only"];
        for (given, expected) in [
            ("readonly", Some("read-only")),
            ("Workspace_Write", Some("workspace-write")),
            ("sandbox", None),
        ] {
            assert_eq!(for_word(given, &words), expected, "{given}");
        }
    }
}
