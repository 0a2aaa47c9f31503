//! The tools of the dialects.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::read::{path_or_none, seconds};

/// `[shell_tool]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellToolSettings {
    /// The deadline when the caller does not say.
    #[serde(deserialize_with = "seconds")]
    pub default_timeout: Duration,
    /// The longest deadline that a caller may ask for.
    #[serde(deserialize_with = "seconds")]
    pub max_timeout: Duration,
    /// Bytes of each stream that a reply holds.
    pub max_output_size: usize,
    /// Directories that jobs may run in.
    pub allowed_directories: Vec<PathBuf>,
    /// Denied commands.
    pub blocked_commands: Vec<String>,
    /// Whether each command is logged.
    pub log_commands: bool,
    /// A file that is written when a command fails.
    #[serde(deserialize_with = "path_or_none")]
    pub abort_file: Option<PathBuf>,
}

/// `[execute]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecuteSettings {
    /// Bytes of both streams that a reply holds.
    pub max_output_bytes: usize,
    /// Whether all of them are logged.
    pub log_full_output: bool,
    /// Bytes of each stream that are logged otherwise.
    pub log_output_bytes: usize,
}

/// `[run_shell_command]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunShellCommandSettings {
    /// The variable that is 1 for every command; empty for none.
    pub marker: String,
}

/// `[execute_command]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecuteCommandSettings {
    /// The deadline of a command.
    #[serde(deserialize_with = "seconds")]
    pub timeout: Duration,
    /// The shell that runs it.
    pub shell: String,
    /// Whether the output holds what it wrote to stderr.
    pub stderr: bool,
    /// Whether each command is told on stderr.
    pub verbose: bool,
    /// Bytes of each stream, and of a file, that a reply holds.
    pub max_output: usize,
}
