//! All settings together.

use serde::Deserialize;

use super::{
    AuditSettings, EnvironmentSettings, ExecuteCommandSettings, ExecuteSettings, HttpSettings,
    JobSettings, LogSettings, McpSettings, OutputSettings, PolicySettings, QueueSettings,
    RedactSettings, RetentionSettings, RunShellCommandSettings, ServerSettings, ShellToolSettings,
};

/// Every setting, complete and in range.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The HTTP server.
    pub http: HttpSettings,
    /// The MCP tools.
    pub mcp: McpSettings,
    /// How many jobs run and wait.
    pub queue: QueueSettings,
    /// Defaults and bounds of one job.
    pub job: JobSettings,
    /// What may run.
    pub policy: PolicySettings,
    /// What jobs find in their environment.
    pub environment: EnvironmentSettings,
    /// What is masked.
    pub redact: RedactSettings,
    /// What is written down about each decision.
    pub audit: AuditSettings,
    /// The tool `shell`.
    pub shell_tool: ShellToolSettings,
    /// The tool `execute`.
    pub execute: ExecuteSettings,
    /// The tool `run_shell_command`.
    pub run_shell_command: RunShellCommandSettings,
    /// The tool `execute_command`.
    pub execute_command: ExecuteCommandSettings,
    /// Where output is kept.
    pub output: OutputSettings,
    /// What stays after the end.
    pub retention: RetentionSettings,
    /// The server as a whole.
    pub server: ServerSettings,
    /// Logs.
    pub log: LogSettings,
}
