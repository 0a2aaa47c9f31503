//! Every setting, complete and in range: of the server and its clients here, of jobs in
//! `job_settings.rs`.
//!
//! Every field has a key in `config/default.toml` and every key a field: unknown and missing
//! fields both fail the read. Ranges were checked before, per layer. Where a module has a settings
//! struct of its own with the same keys, that struct is filled directly.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::job_settings::{
    AuditSection, ConfinementSection, EnvironmentSection, JobSection, OutputSection, PolicySection,
    QueueSection, RedactSection, RetentionSection, TenantSection,
};
use crate::mcp::{ExecuteCommandSettings, McpSettings, RunShellCommandSettings};
use crate::service::{LimitTerms, PressureWatch, TenantLimits};
use crate::setting_values::{address_or_none, path_or_none, seconds, text_or_none};

/// Every setting, complete and in range.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The HTTP server.
    pub http: HttpSection,
    /// Tokens of an authorization server.
    pub oauth: OauthSection,
    /// The MCP tools.
    pub mcp: McpSettings,
    /// How many jobs run and wait.
    pub queue: QueueSection,
    /// What each tenant may have.
    pub quota: TenantLimits,
    /// Tenants that differ.
    #[serde(default)]
    pub tenants: BTreeMap<String, TenantSection>,
    /// When new jobs are held back.
    pub pressure: PressureWatch,
    /// Defaults and bounds of one job.
    pub job: JobSection,
    /// What may run.
    pub policy: PolicySection,
    /// What jobs find in their environment.
    pub environment: EnvironmentSection,
    /// How far jobs are shut in.
    pub confinement: ConfinementSection,
    /// What one job may use up.
    pub limits: LimitTerms,
    /// What is masked.
    pub redact: RedactSection,
    /// What is written down about each decision.
    pub audit: AuditSection,
    /// The tool `shell`.
    pub shell_tool: ShellToolSection,
    /// The tool `execute`.
    pub execute: ExecuteSection,
    /// The tool `run_shell_command`.
    pub run_shell_command: RunShellCommandSettings,
    /// The tool `execute_command`.
    pub execute_command: ExecuteCommandSettings,
    /// Where output is kept.
    pub output: OutputSection,
    /// What stays after the end.
    pub retention: RetentionSection,
    /// The server as a whole.
    pub server: ServerSection,
    /// Logs.
    pub log: LogSection,
    /// Traces.
    pub trace: TraceSection,
}

impl Settings {
    /// The address on which anyone on the network could call without a token, if there is one:
    /// `serve` must refuse that.
    #[must_use]
    pub fn address_open_to_anyone(&self) -> Option<SocketAddr> {
        let bind = self.http.bind.filter(|bind| !bind.ip().to_canonical().is_loopback())?;
        let asks = self.http.token_file.is_some() || !self.oauth.issuer.is_empty();
        (!asks).then_some(bind)
    }
}

/// `[http]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSection {
    /// Address and port to listen on; `None` = only the socket.
    #[serde(deserialize_with = "address_or_none")]
    pub bind: Option<SocketAddr>,
    /// The unix socket.
    #[serde(deserialize_with = "socket")]
    pub socket: SocketSetting,
    /// The path of the MCP endpoint.
    pub path: String,
    /// Host names that are allowed beside loopback and the bound address.
    pub allowed_hosts: Vec<String>,
    /// Web origins that are allowed.
    pub allowed_origins: Vec<String>,
    /// The file with the bearer tokens; `None` = `tokens` in the data directory, if it is there.
    #[serde(deserialize_with = "path_or_none")]
    pub token_file: Option<PathBuf>,
    /// `true` if jobs of this server may call it.
    pub allow_jobs: bool,
    /// The certificate chain.
    #[serde(deserialize_with = "path_or_none")]
    pub tls_cert: Option<PathBuf>,
    /// Its key.
    #[serde(deserialize_with = "path_or_none")]
    pub tls_key: Option<PathBuf>,
    /// The largest request body, in bytes.
    pub max_body: usize,
    /// The largest request head, in bytes; at least the 8 KiB that hyper needs.
    pub max_headers: usize,
    /// How long a client may take to send a request's head.
    #[serde(rename = "header_timeout_s", deserialize_with = "seconds")]
    pub header_timeout: Duration,
    /// How long a client may take to send a request's body.
    #[serde(rename = "body_timeout_s", deserialize_with = "seconds")]
    pub body_timeout: Duration,
    /// How long a client may leave what is sent to it unread.
    #[serde(rename = "write_timeout_s", deserialize_with = "seconds")]
    pub write_timeout: Duration,
    /// What may wait in memory for all clients to read it, in bytes.
    pub max_unread: usize,
    /// Connections at one time.
    pub max_connections: usize,
    /// Connections of one address at one time.
    pub max_connections_per_address: usize,
    /// How long a legacy session may be idle.
    #[serde(rename = "session_idle_s", deserialize_with = "seconds")]
    pub session_idle: Duration,
}

/// The unix socket of `serve`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketSetting {
    /// The usual one, in the data directory.
    Usual,
    /// This one.
    At(PathBuf),
    /// None.
    Off,
}

/// `[server]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSection {
    /// Where spill files go; resolved, never empty. It may not exist yet.
    pub data_dir: PathBuf,
    /// How long running jobs get on shutdown before they are ended.
    #[serde(rename = "drain_s", deserialize_with = "seconds")]
    pub drain: Duration,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSection {
    /// How a line looks.
    pub format: LogFormat,
    /// What is logged.
    pub filter: String,
}

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Human,
    /// For programs.
    Json,
}

/// `[trace]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceSection {
    /// The collector that spans go to.
    #[serde(deserialize_with = "text_or_none")]
    pub otlp_endpoint: Option<String>,
    /// Of the traces that begin here, the share that is sent.
    pub sample: f64,
}

/// `[oauth]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OauthSection {
    /// Who signs tokens; empty = no OAuth.
    pub issuer: String,
    /// The public URL of the MCP endpoint.
    pub resource: String,
    /// The audience of tokens; empty = the resource.
    pub audience: String,
    /// A file or a URL with the issuer's keys; empty = by the issuer's metadata.
    pub jwks: String,
    /// Keys are fetched again after this long.
    #[serde(rename = "jwks_refresh_s", deserialize_with = "seconds")]
    pub jwks_refresh: Duration,
    /// The claim whose value is the tenant.
    pub tenant_claim: String,
    /// Values of that claim and their tenants, `VALUE=TENANT`.
    pub tenants: Vec<String>,
    /// The scope of those who run commands.
    pub run_scope: String,
    /// The scope of those who read.
    pub read_scope: String,
    /// The scope of those who see all tenants.
    pub admin_scope: String,
    /// How far clocks may be apart.
    #[serde(rename = "leeway_s", deserialize_with = "seconds")]
    pub leeway: Duration,
}

/// `[shell_tool]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellToolSection {
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
pub struct ExecuteSection {
    /// Bytes of both streams that a reply holds.
    pub max_output_bytes: usize,
    /// Whether all of them are logged.
    pub log_full_output: bool,
    /// Bytes of each stream that are logged otherwise.
    pub log_output_bytes: usize,
}

fn socket<'de, D: Deserializer<'de>>(input: D) -> Result<SocketSetting, D::Error> {
    let text = String::deserialize(input)?;
    Ok(match text.as_str() {
        "" => SocketSetting::Usual,
        "none" => SocketSetting::Off,
        _ => SocketSetting::At(text.into()),
    })
}
