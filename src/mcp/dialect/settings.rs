//! What the dialects are told at start-up: plain values, already checked.

use std::path::PathBuf;
use std::time::Duration;

/// Settings of all dialects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DialectSettings {
    /// Of `shell`.
    pub shell: ShellToolSettings,
    /// Of `execute`.
    pub execute: ExecuteSettings,
    /// Of `run_shell_command`.
    pub run_shell_command: RunShellCommandSettings,
    /// Of `execute_command`.
    pub execute_command: ExecuteCommandSettings,
}

/// Settings of `shell`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellToolSettings {
    /// The deadline when the caller does not say.
    pub default_timeout: Duration,
    /// The longest deadline that a caller may ask for.
    pub max_timeout: Duration,
    /// Bytes of each stream that a reply holds.
    pub max_output: usize,
    /// Whether each command is logged.
    pub log_commands: bool,
    /// A file that is written when a command fails.
    pub abort_file: Option<PathBuf>,
}

impl Default for ShellToolSettings {
    fn default() -> Self {
        Self {
            default_timeout: Duration::from_secs(300),
            max_timeout: Duration::from_secs(1800),
            max_output: 10_000_000,
            log_commands: true,
            abort_file: None,
        }
    }
}

/// Settings of `execute`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecuteSettings {
    /// Bytes of both streams together that a reply holds.
    pub max_output: usize,
    /// Bytes of each stream that are logged.
    pub logged: usize,
}

impl Default for ExecuteSettings {
    fn default() -> Self {
        Self { max_output: 40_000, logged: 2048 }
    }
}

/// Settings of `run_shell_command`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunShellCommandSettings {
    /// The variable that is 1 for every command.
    pub marker: Option<String>,
}

impl Default for RunShellCommandSettings {
    fn default() -> Self {
        Self { marker: Some("QWEN_CODE".to_owned()) }
    }
}

/// Settings of `execute_command`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecuteCommandSettings {
    /// The deadline of a command.
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

impl Default for ExecuteCommandSettings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            shell: "/bin/sh".to_owned(),
            stderr: true,
            verbose: false,
            max_output: 10_000_000,
        }
    }
}
