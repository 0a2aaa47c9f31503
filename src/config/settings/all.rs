//! All settings together.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Deserialize;

use super::{
    AuditSettings, ConfinementSettings, EnvironmentSettings, ExecuteCommandSettings,
    ExecuteSettings, HttpSettings, JobSettings, LimitSettings, LogSettings, McpSettings,
    OauthSettings, OutputSettings, PolicySettings, PressureSettings, QueueSettings, QuotaSettings,
    RedactSettings, RetentionSettings, RunShellCommandSettings, ServerSettings, ShellToolSettings,
    TenantSettings, TraceSettings,
};

/// Every setting, complete and in range.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The HTTP server.
    pub http: HttpSettings,
    /// Tokens of an authorization server.
    pub oauth: OauthSettings,
    /// The MCP tools.
    pub mcp: McpSettings,
    /// How many jobs run and wait.
    pub queue: QueueSettings,
    /// What each tenant may have.
    pub quota: QuotaSettings,
    /// Tenants that differ.
    #[serde(default)]
    pub tenants: BTreeMap<String, TenantSettings>,
    /// When new jobs are held back.
    pub pressure: PressureSettings,
    /// Defaults and bounds of one job.
    pub job: JobSettings,
    /// What may run.
    pub policy: PolicySettings,
    /// What jobs find in their environment.
    pub environment: EnvironmentSettings,
    /// How far jobs are shut in.
    pub confinement: ConfinementSettings,
    /// What one job may use up.
    pub limits: LimitSettings,
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
    /// Traces.
    pub trace: TraceSettings,
}

impl Settings {
    /// The address on which anyone on the network could call without a token, if there is one:
    /// `serve` must refuse that.
    #[must_use]
    pub fn open_to_anyone(&self) -> Option<SocketAddr> {
        let bind = self.http.bind.filter(|bind| !bind.ip().to_canonical().is_loopback())?;
        let asks = self.http.token_file.is_some() || !self.oauth.issuer.is_empty();
        (!asks).then_some(bind)
    }
}
