//! Settings of the MCP surface and of the dialects: plain values, already checked.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::setting_values::{seconds, text_or_none};

/// Settings of the MCP surface: `[mcp]`, and what other sections say about its tools.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpSettings {
    /// Which tools are offered, in this order.
    pub dialects: Vec<Dialect>,
    /// What the server calls itself.
    pub server_name: ServerName,
    /// What the dialects' tools are told.
    #[serde(skip)]
    pub dialect: DialectSettings,
    /// Which form a tool's answer takes.
    pub result_format: ResultFormat,
    /// How long `run_command` and `wait_jobs` wait when the caller does not say.
    #[serde(rename = "wait_s", deserialize_with = "seconds")]
    pub wait_default: Duration,
    /// The longest wait of one call whose client gets progress.
    #[serde(rename = "max_wait_with_progress_s", deserialize_with = "seconds")]
    pub wait_max: Duration,
    /// The longest wait of one call whose client gets none: many give up after a minute.
    #[serde(rename = "max_wait_s", deserialize_with = "seconds")]
    pub wait_max_quiet: Duration,
    /// How often a waiting call sends progress.
    #[serde(rename = "progress_s", deserialize_with = "seconds")]
    pub progress_every: Duration,
    /// The most that one answer may take, in tokens, when the caller does not say.
    pub max_tokens: u64,
    /// The page of `read_output` when the caller does not say.
    pub page_bytes: usize,
    /// The most output that a caller may ask for in one page.
    pub max_page_bytes: usize,
    /// How long one search or query may take.
    #[serde(skip)]
    pub search_time: Duration,
    /// How long `run_command` waits before it answers with a task, where its client knows tasks.
    #[serde(rename = "task_grace_s", deserialize_with = "seconds")]
    pub task_grace: Duration,
    /// Whether cancelling a waiting `run_command` also stops the job that it started.
    pub cancel_stops_job: bool,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self {
            dialects: vec![Dialect::Native],
            server_name: ServerName::Shellyard,
            dialect: DialectSettings::default(),
            result_format: ResultFormat::Text,
            wait_default: Duration::from_secs(30),
            wait_max: Duration::from_secs(600),
            wait_max_quiet: Duration::from_secs(50),
            progress_every: Duration::from_secs(5),
            max_tokens: 8000,
            page_bytes: 16 * 1024,
            max_page_bytes: 1024 * 1024,
            search_time: Duration::from_secs(10),
            task_grace: Duration::from_secs(2),
            cancel_stops_job: true,
        }
    }
}

/// What the server calls itself, and thus what it says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerName {
    /// All that it is.
    Shellyard,
    /// As the server that `execute_command` comes from: its tools, and nothing more.
    McpzShell,
}

/// Which form a tool's answer takes. Each form is complete by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultFormat {
    /// Text only: what most clients show to a model.
    Text,
    /// `structuredContent`, with the verdict line as text for old clients.
    Structured,
    /// Both, each complete.
    Both,
}

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
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunShellCommandSettings {
    /// The variable that is 1 for every command.
    #[serde(deserialize_with = "text_or_none")]
    pub marker: Option<String>,
}

impl Default for RunShellCommandSettings {
    fn default() -> Self {
        Self { marker: Some("QWEN_CODE".to_owned()) }
    }
}

/// Settings of `execute_command`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
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

/// A set of tools that can be offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Our own six tools.
    Native,
    /// `shell`.
    Shell,
    /// `execute`.
    Execute,
    /// `run_shell_command`.
    RunShellCommand,
    /// `execute_command`, `read_file`, `write_file`, `list_directory`.
    ExecuteCommand,
    /// `shell_exec`, `read_file_chunk`.
    ShellExec,
    /// What the conformance suite wants to find, which is more than tools.
    #[cfg(feature = "conformance")]
    Conformance,
}
