//! What the MCP room is told at start-up: plain values, already checked.

use std::time::Duration;

use super::dialect::{Dialect, DialectSettings};

/// Settings of the MCP surface.
#[derive(Debug, Clone)]
pub struct McpSettings {
    /// Which tools are offered, in this order.
    pub dialects: Vec<Dialect>,
    /// What the server calls itself.
    pub server_name: ServerName,
    /// What the dialects' tools are told.
    pub dialect: DialectSettings,
    /// Which form a tool's answer takes.
    pub result_format: ResultFormat,
    /// How long `run_command` and `wait_jobs` wait when the caller does not say.
    pub wait_default: Duration,
    /// The longest wait of one call whose client gets progress.
    pub wait_max: Duration,
    /// The longest wait of one call whose client gets none: many give up after a minute.
    pub wait_max_quiet: Duration,
    /// How often a waiting call sends progress.
    pub progress_every: Duration,
    /// The most that one answer may take, in tokens, when the caller does not say.
    pub max_tokens: u64,
    /// The page of `read_output` when the caller does not say.
    pub page_bytes: usize,
    /// The most output that a caller may ask for in one page.
    pub max_page_bytes: usize,
    /// How long one search or query may take.
    pub search_time: Duration,
    /// How long `run_command` waits before it answers with a task, where its client knows tasks.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerName {
    /// All that it is.
    Shellyard,
    /// As the server that `execute_command` comes from: its tools, and nothing more.
    McpzShell,
}

/// Which form a tool's answer takes. Each form is complete by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultFormat {
    /// Text only: what most clients show to a model.
    Text,
    /// `structuredContent`, with the verdict line as text for old clients.
    Structured,
    /// Both, each complete.
    Both,
}
