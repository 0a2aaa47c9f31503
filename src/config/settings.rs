//! The typed settings: those of the server and its clients here, those of jobs in `job_settings.rs`.
//! `config/default.toml` documents each key.
//!
//! Every field has a key in `config/default.toml`, and every key has a field: unknown and missing fields
//! are both errors. Ranges are checked before, in each layer. If another module has a settings struct
//! with the same keys, that struct is used directly.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::IntoDeserializer as _;
use serde::{Deserialize, Deserializer};

use super::job_settings::{
    AuditSection, ConfinementSection, EnvironmentSection, JobSection, OutputSection, PolicySection,
    QueueSection, RedactSection, RetentionSection, TenantSection,
};
use crate::journal::Durability;
use crate::mcp::{ExecuteCommandSettings, McpSettings, RunShellCommandSettings};
use crate::service::{LimitTerms, PressureWatch, TenantLimits};
use crate::setting_values::{
    deserialize_address_or_none, deserialize_path_or_none, deserialize_seconds,
    deserialize_text_or_none,
};

/// All settings, complete and checked.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub http: HttpSection,
    pub oauth: OauthSection,
    pub mcp: McpSettings,
    pub queue: QueueSection,
    pub quota: TenantLimits,
    #[serde(default)]
    pub tenants: BTreeMap<String, TenantSection>,
    pub pressure: PressureWatch,
    pub job: JobSection,
    pub policy: PolicySection,
    pub environment: EnvironmentSection,
    pub confinement: ConfinementSection,
    pub limits: LimitTerms,
    pub redact: RedactSection,
    pub audit: AuditSection,
    pub shell_tool: ShellToolSection,
    pub execute: ExecuteSection,
    pub run_shell_command: RunShellCommandSettings,
    pub execute_command: ExecuteCommandSettings,
    pub output: OutputSection,
    pub retention: RetentionSection,
    pub server: ServerSection,
    pub log: LogSection,
    pub trace: TraceSection,
}

impl Settings {
    /// Returns the address on which anyone on the network could call without a token, if there is one.
    /// `serve` must refuse such settings.
    #[must_use]
    pub fn find_open_address(&self) -> Option<SocketAddr> {
        let bind = self.http.bind.filter(|bind| !bind.ip().to_canonical().is_loopback())?;
        let has_auth = self.http.token_file.is_some() || !self.oauth.issuer.is_empty();
        (!has_auth).then_some(bind)
    }
}

/// The section `[http]` of the settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSection {
    /// `None` = only the unix socket.
    #[serde(deserialize_with = "deserialize_address_or_none")]
    pub bind: Option<SocketAddr>,
    #[serde(deserialize_with = "deserialize_socket")]
    pub socket: SocketSetting,
    pub path: String,
    /// The host names that are allowed besides loopback and the bound address.
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    /// `None` = the file `tokens` in the data directory, if it exists.
    #[serde(deserialize_with = "deserialize_path_or_none")]
    pub token_file: Option<PathBuf>,
    /// `true` if jobs of this server may call it.
    pub allow_jobs: bool,
    #[serde(deserialize_with = "deserialize_path_or_none")]
    pub tls_cert: Option<PathBuf>,
    #[serde(deserialize_with = "deserialize_path_or_none")]
    pub tls_key: Option<PathBuf>,
    /// The largest request body, in bytes.
    pub max_body: usize,
    /// The largest request head, in bytes; at least the 8 KiB that hyper needs.
    pub max_headers: usize,
    /// The time for a client to send the head of a request.
    #[serde(rename = "header_timeout_s", deserialize_with = "deserialize_seconds")]
    pub header_timeout: Duration,
    /// The time for a client to send the body of a request.
    #[serde(rename = "body_timeout_s", deserialize_with = "deserialize_seconds")]
    pub body_timeout: Duration,
    /// The time for a client to read what was sent to it.
    #[serde(rename = "write_timeout_s", deserialize_with = "deserialize_seconds")]
    pub write_timeout: Duration,
    /// Memory for data that clients have not read yet, in bytes.
    pub max_unread: usize,
    pub max_connections: usize,
    pub max_connections_per_address: usize,
    pub max_sessions: usize,
    /// The time after which idle sessions of legacy clients are ended.
    #[serde(rename = "session_idle_s", deserialize_with = "deserialize_seconds")]
    pub session_idle: Duration,
    /// The time after which a legacy client without any open stream counts as gone.
    #[serde(rename = "session_hang_up_s", deserialize_with = "deserialize_seconds")]
    pub session_hang_up: Duration,
}

/// The unix socket of `serve`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketSetting {
    /// The default one, in the data directory.
    Default,
    At(PathBuf),
    Off,
}

/// The section `[server]` of the settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSection {
    /// The data directory; resolved, never empty. It may not exist yet.
    pub data_dir: PathBuf,
    /// The durability of the journal of `serve`; `None` = jobs end with the server.
    #[serde(deserialize_with = "deserialize_durability")]
    pub durability: Option<Durability>,
    /// The time that running jobs get at shutdown before they are ended.
    #[serde(rename = "drain_s", deserialize_with = "deserialize_seconds")]
    pub drain: Duration,
}

/// The section `[log]` of the settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSection {
    pub format: LogFormat,
    pub filter: String,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Human,
    Json,
}

/// The section `[trace]` of the settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceSection {
    /// The URL of the collector that gets the spans.
    #[serde(deserialize_with = "deserialize_text_or_none")]
    pub otlp_endpoint: Option<String>,
    /// The share of the traces started by the server that is sent, 0 to 1.
    pub sample: f64,
}

/// The section `[oauth]` of the settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OauthSection {
    /// The URL of the authorization server; empty = no OAuth.
    pub issuer: String,
    /// The public URL of the MCP endpoint.
    pub resource: String,
    /// The audience of tokens; empty = the resource.
    pub audience: String,
    /// A file or a URL with the issuer's keys; empty = the URL in the issuer's metadata.
    pub jwks: String,
    /// The time after which keys are fetched again.
    #[serde(rename = "jwks_refresh_s", deserialize_with = "deserialize_seconds")]
    pub jwks_refresh: Duration,
    /// The claim whose value is the tenant.
    pub tenant_claim: String,
    /// A map from values of that claim to tenants, as `VALUE=TENANT`.
    pub tenants: Vec<String>,
    /// The scope that allows running commands.
    pub run_scope: String,
    /// The scope that allows reading jobs.
    pub read_scope: String,
    /// The scope that allows reading metrics and nothing else.
    pub metrics_scope: String,
    /// The scope that allows seeing all tenants.
    pub admin_scope: String,
    /// The allowed difference between clocks.
    #[serde(rename = "leeway_s", deserialize_with = "deserialize_seconds")]
    pub leeway: Duration,
}

/// The section `[shell_tool]` of the settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellToolSection {
    /// The timeout, if the caller does not set one.
    #[serde(deserialize_with = "deserialize_seconds")]
    pub default_timeout: Duration,
    /// The longest timeout that a caller may ask for.
    #[serde(deserialize_with = "deserialize_seconds")]
    pub max_timeout: Duration,
    /// The most bytes of each stream in a reply.
    pub max_output_size: usize,
    pub allowed_directories: Vec<PathBuf>,
    /// `true` if jobs run in a sandbox whose workspace is the allowed directories.
    pub confine_directories: bool,
    pub blocked_commands: Vec<String>,
    pub log_commands: bool,
    /// The file that is written when a command fails.
    #[serde(deserialize_with = "deserialize_path_or_none")]
    pub abort_file: Option<PathBuf>,
}

/// The section `[execute]` of the settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecuteSection {
    /// The most bytes of both streams together in a reply.
    pub max_output_bytes: usize,
    pub log_full_output: bool,
    /// The bytes of each stream that are logged if `log_full_output` is off.
    pub log_output_bytes: usize,
}

/// Reads "off" as `None`.
fn deserialize_durability<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<Option<Durability>, D::Error> {
    let word = String::deserialize(input)?;
    if word == "off" {
        return Ok(None);
    }
    Durability::deserialize(word.into_deserializer()).map(Some)
}

fn deserialize_socket<'de, D: Deserializer<'de>>(input: D) -> Result<SocketSetting, D::Error> {
    let text = String::deserialize(input)?;
    Ok(match text.as_str() {
        "" => SocketSetting::Default,
        "none" => SocketSetting::Off,
        _ => SocketSetting::At(text.into()),
    })
}
