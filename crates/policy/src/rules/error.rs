//! Why a rule was not accepted.

use thiserror::Error;

/// A rule that does not make sense. No policy is built from a list that holds one.
#[derive(Debug, Error)]
pub enum RuleError {
    /// The rule says nothing.
    #[error("{place} is empty; write a program's name, or remove it")]
    Empty {
        /// Where it stands.
        place: String,
    },
    /// The regular expression does not compile.
    #[error("{place} is not a regular expression; correct {pattern:?}")]
    Regex {
        /// Where it stands.
        place: String,
        /// What was written.
        pattern: String,
        /// What is wrong with it.
        source: Box<regex::Error>,
    },
    /// A tool restriction that is almost, but not quite, one on the shell tool.
    #[error("{place} restricts {found:?}, which is no tool; did you mean {meant:?}?")]
    Tool {
        /// Where it stands.
        place: String,
        /// What was written.
        found: String,
        /// The nearest tool.
        meant: &'static str,
    },
    /// A shell line where one command is wanted.
    #[error(
        "{place} is {found:?}, which is a shell line; write one command, without quotes, and one rule for each"
    )]
    ShellLine {
        /// Where it stands.
        place: String,
        /// What was written.
        found: String,
    },
    /// A lane that there is not.
    #[error("{place} is for lane {lane:?}, which there is not; the lanes are {}", .known.join(", "))]
    UnknownLane {
        /// Where it stands.
        place: String,
        /// What was written.
        lane: String,
        /// The lanes there are.
        known: Vec<String>,
    },
    /// A scope that is none.
    #[error(
        "{place} begins with {found:?}; write [lane=NAME,…] or [tenant=NAME,…] before the rule"
    )]
    Scope {
        /// Where it stands.
        place: String,
        /// What was written.
        found: String,
    },
    /// A tool restriction whose parentheses do not match.
    #[error("{place} is {found:?}; write run_shell_command(PREFIX)")]
    Shape {
        /// Where it stands.
        place: String,
        /// What was written.
        found: String,
    },
}

impl RuleError {
    /// Where the rule stands: `policy.deny[2]`.
    #[must_use]
    pub fn place(&self) -> &str {
        match self {
            Self::Empty { place }
            | Self::Regex { place, .. }
            | Self::Tool { place, .. }
            | Self::ShellLine { place, .. }
            | Self::UnknownLane { place, .. }
            | Self::Scope { place, .. }
            | Self::Shape { place, .. } => place,
        }
    }

    /// The stable word that programs may match on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Empty { .. } => "rule_empty",
            Self::Regex { .. } => "rule_regex",
            Self::Tool { .. } => "rule_unknown_tool",
            Self::ShellLine { .. } => "rule_shell_line",
            Self::UnknownLane { .. } => "rule_unknown_lane",
            Self::Scope { .. } => "rule_scope",
            Self::Shape { .. } => "rule_malformed",
        }
    }
}
