//! What jobs find in their environment, what is masked, what is written down.

use std::path::PathBuf;

use serde::Deserialize;

use super::read::path_or_none;

/// `[environment]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentSettings {
    /// What is taken over from the server's own environment.
    pub inherit: Inherit,
    /// Names and patterns that are passed on as well.
    pub pass: Vec<String>,
    /// Names and patterns that are never passed on.
    pub drop: Vec<String>,
    /// Variables that every job gets, `NAME=VALUE`.
    pub set: Vec<String>,
}

/// What is taken over from the server's own environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Inherit {
    /// A short list that programs need.
    Core,
    /// Everything that is no secret.
    All,
}

/// `[redact]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedactSettings {
    /// Whether well-known forms of secrets are masked.
    pub builtin: bool,
    /// Further patterns.
    pub patterns: Vec<String>,
    /// Whether output is masked before it is stored.
    pub at_write: bool,
}

/// `[audit]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditSettings {
    /// Whether an audit log is written.
    pub enabled: bool,
    /// Where; `None` = `audit.jsonl` in the data directory.
    #[serde(deserialize_with = "path_or_none")]
    pub file: Option<PathBuf>,
    /// A file larger than this is rotated.
    pub max_bytes: u64,
    /// Rotated files that are kept.
    pub keep: usize,
    /// Bytes of lines that may wait in memory while the log does not answer.
    pub max_queued: u64,
    /// What a failed write leads to.
    pub on_failure: OnAuditFailure,
}

/// What a failed write to the audit log leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnAuditFailure {
    /// It is counted.
    Count,
    /// New work is refused until writing works again.
    Refuse,
}
