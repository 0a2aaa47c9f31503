//! The typed settings. `config/default.toml` documents each key.
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

use crate::confinement::{Backend, SandboxProfile};
use crate::environment::Inherit;
use crate::exec_gate::Enforcement;
use crate::journal::Durability;
use crate::mcp::{ExecuteCommandSettings, McpSettings, RunShellCommandSettings};
use crate::process::shell::ShellChoice;
use crate::service::{
    ConfinementTerms, LimitTerms, NetworkRule, OnAuditFailure, OnUnavailable, PressureWatch,
    TenantLimits,
};
use crate::setting_values::{
    deserialize_address_or_none, deserialize_milliseconds, deserialize_path_or_none,
    deserialize_seconds, deserialize_some_seconds, deserialize_text_or_none, deserialize_word,
    deserialize_zero_as_none, deserialize_zero_seconds_as_none,
};
use crate::spec::{LargeOutput, Priority, StreamMode};

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

/// The section `[queue]` of the settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSection {
    /// The number of jobs that hold a slot at one time (idle jobs hold none); 0 = by the number of
    /// cores, see
    /// [`QueueSection::slots_for`].
    pub slots: usize,
    pub max_queued: usize,
    /// The time after which a running job that does not use the machine gives its slot back;
    /// `None` = never.
    #[serde(rename = "idle_s", deserialize_with = "deserialize_zero_seconds_as_none")]
    pub idle_after: Option<Duration>,
    pub max_idle: usize,
    pub lanes: BTreeMap<String, LaneSection>,
}

/// The section `[queue.lanes.NAME]` of the settings.
// Without `deny_unknown_fields`, which serde does not support next to a flattened field. The schema
// refuses unknown keys before.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LaneSection {
    /// `None` = all slots of the queue.
    pub slots: Option<usize>,
    /// `None` = the limit of the queue.
    pub max_queued: Option<usize>,
    /// The timeout of its jobs, if the caller does not set one.
    #[serde(rename = "timeout_s", deserialize_with = "deserialize_some_seconds")]
    pub timeout: Option<Duration>,
    /// The priority of its jobs, if the caller does not set one.
    #[serde(deserialize_with = "deserialize_priority")]
    pub priority: Option<Priority>,
    #[serde(flatten)]
    pub confinement_terms: ConfinementTerms,
}

impl QueueSection {
    /// Returns the number of slots on a machine with this many cores.
    #[must_use]
    pub const fn slots_for(&self, cores: usize) -> usize {
        match self.slots {
            0 => 2 * cores,
            slots => slots,
        }
    }
}

/// The section `[job]` of the settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSection {
    #[serde(deserialize_with = "deserialize_shell")]
    pub shell: ShellChoice,
    /// The pipes of a job's output, if the caller does not choose.
    #[serde(deserialize_with = "deserialize_stream_mode")]
    pub streams: StreamMode,
    /// The timeout, if the caller does not set one.
    #[serde(rename = "timeout_s", deserialize_with = "deserialize_seconds")]
    pub timeout: Duration,
    /// The longest timeout that a caller may ask for.
    #[serde(rename = "max_timeout_s", deserialize_with = "deserialize_seconds")]
    pub max_timeout: Duration,
    /// The time between SIGTERM and SIGKILL.
    #[serde(rename = "grace_s", deserialize_with = "deserialize_seconds")]
    pub grace: Duration,
    /// The most bytes that a job may write.
    pub max_output: u64,
    /// The most lines that a job may write; `None` = no limit.
    #[serde(deserialize_with = "deserialize_zero_as_none")]
    pub max_lines: Option<u64>,
    /// The time without output after which draining ends.
    #[serde(rename = "drain_quiet_ms", deserialize_with = "deserialize_milliseconds")]
    pub drain_quiet: Duration,
    /// The time after which draining ends in any case.
    #[serde(rename = "drain_max_ms", deserialize_with = "deserialize_milliseconds")]
    pub drain_max: Duration,
    /// The default directory of jobs; `None` = the server's working directory.
    #[serde(deserialize_with = "deserialize_path_or_none")]
    pub cwd: Option<PathBuf>,
}

/// The section `[policy]` of the settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySection {
    /// Commands that may run; if the list is not empty, no others may.
    pub allow: Vec<String>,
    /// Commands that never run.
    pub deny: Vec<String>,
    /// Commands that need the user's approval.
    pub ask: Vec<String>,
    /// Allowed command prefixes in the form of the `run_shell_command` tool.
    #[serde(rename = "coreTools")]
    pub core_tools: Vec<String>,
    /// Denied command prefixes in the same form.
    #[serde(rename = "excludeTools")]
    pub exclude_tools: Vec<String>,
    /// Denied commands in the form of the `shell` tool.
    pub blocked_commands: Vec<String>,
    /// Directories in which jobs may run; empty = any.
    pub allowed_directories: Vec<PathBuf>,
    pub uncertain: UncertainPolicy,
    /// The way in which an allow list is enforced.
    pub enforce: Enforcement,
    /// Programs that may start anything, if the allow list names them.
    pub opens: Vec<String>,
}

/// The treatment of text that the policy cannot judge, if any list is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UncertainPolicy {
    Refuse,
    /// The text runs in the `read-only` sandbox without network.
    Confine,
    /// The text runs, and the audit log notes that.
    Allow,
}

/// The section `[tenants.NAME]` of the settings. `None` = the value for every tenant, 0 = no limit.
// Without `deny_unknown_fields`, which serde does not support next to a flattened field. The schema
// refuses unknown keys before.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TenantSection {
    /// The share of the slots while other tenants wait too.
    pub weight: Option<u32>,
    pub max_running: Option<u64>,
    pub max_queued: Option<u64>,
    pub starts_per_minute: Option<u64>,
    pub cpu_s_per_hour: Option<u64>,
    /// The most bytes of stored output.
    pub max_stored: Option<u64>,
    /// Variables of the tenant's jobs, as `NAME=VALUE`.
    pub environment: Vec<String>,
    /// The user of this host that the tenant's jobs run as; `None` = the server's.
    #[serde(deserialize_with = "deserialize_text_or_none")]
    pub user: Option<String>,
    /// The directory in which the tenant's jobs start.
    #[serde(deserialize_with = "deserialize_path_or_none")]
    pub workspace: Option<PathBuf>,
    /// Further directories in which the tenant's jobs may run.
    pub allowed_directories: Vec<PathBuf>,
    #[serde(flatten)]
    pub confinement_terms: ConfinementTerms,
}

/// The section `[confinement]` of the settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfinementSection {
    #[serde(deserialize_with = "deserialize_profile")]
    pub profile: SandboxProfile,
    pub network: NetworkRule,
    /// The treatment of a job whose confinement the host does not support.
    #[serde(deserialize_with = "deserialize_on_unavailable")]
    pub on_unavailable: OnUnavailable,
    /// The strongest mechanism that is used.
    #[serde(deserialize_with = "deserialize_backend")]
    pub backend: Backend,
    /// The directories that jobs may write; empty = the directory in which a job runs.
    pub workspace: Vec<PathBuf>,
    /// Paths that jobs cannot read, in addition to the usual places of credentials.
    pub hide: Vec<PathBuf>,
    /// The paths of the home directory, `/tmp` and `/run` that jobs can read.
    pub show: Vec<PathBuf>,
    /// The files that jobs cannot write in a workspace: paths below it, or below the home directory if
    /// they start with `~/`.
    pub protect: Vec<PathBuf>,
}

/// The section `[environment]` of the settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentSection {
    /// The set of the server's variables that jobs inherit.
    pub inherit: Inherit,
    /// Names and patterns that are passed on as well.
    pub pass: Vec<String>,
    /// Names and patterns that are never passed on.
    pub drop: Vec<String>,
    /// Variables that every job gets, as `NAME=VALUE`.
    pub set: Vec<String>,
}

/// The section `[redact]` of the settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedactSection {
    /// `true` if known kinds of secrets are masked.
    pub builtin: bool,
    /// Regular expressions for further secrets.
    pub patterns: Vec<String>,
    /// `true` if output is masked before it is stored.
    pub at_write: bool,
}

/// The section `[audit]` of the settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditSection {
    pub enabled: bool,
    /// `None` = `audit.jsonl` in the data directory.
    #[serde(deserialize_with = "deserialize_path_or_none")]
    pub file: Option<PathBuf>,
    /// The size at which the file is rotated.
    pub max_bytes: u64,
    /// The number of rotated files that are kept.
    pub keep: usize,
    /// The most bytes of lines that wait in memory while the log cannot be written.
    pub max_queued: u64,
    pub on_failure: OnAuditFailure,
}

/// The section `[output]` of the settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputSection {
    /// The bytes of a job's output that are kept in memory.
    pub memory: usize,
    /// The size from which the output of a job is large.
    pub large: u64,
    #[serde(deserialize_with = "deserialize_large_output")]
    pub on_large_output: LargeOutput,
    /// The most bytes of stored output of all jobs together.
    pub max_store: u64,
    /// The most bytes of stored output of one tenant's jobs.
    pub max_tenant: u64,
    /// The size from which finished output is compressed; `None` = never.
    #[serde(deserialize_with = "deserialize_zero_as_none")]
    pub compress_from: Option<u64>,
    /// The most bytes of memory for all reads of output at one time.
    pub read_memory: usize,
    /// The time limit of one search or query.
    #[serde(rename = "search_s", deserialize_with = "deserialize_seconds")]
    pub search: Duration,
}

/// The section `[retention]` of the settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionSection {
    /// The number of finished jobs that are kept.
    pub max_finished: usize,
    /// The time for which they are kept; `None` = no limit.
    #[serde(rename = "max_age_s", deserialize_with = "deserialize_zero_seconds_as_none")]
    pub max_age: Option<Duration>,
    /// The most bytes of their output; `None` = no limit.
    #[serde(deserialize_with = "deserialize_zero_as_none")]
    pub max_bytes: Option<u64>,
    /// The number of finished jobs of each tenant that are kept; `None` = no limit for single tenants.
    #[serde(deserialize_with = "deserialize_zero_as_none")]
    pub tenant_max_finished: Option<u64>,
    /// The time for which they are kept; `None` = no limit for single tenants.
    #[serde(rename = "tenant_max_age_s", deserialize_with = "deserialize_zero_seconds_as_none")]
    pub tenant_max_age: Option<Duration>,
    /// The most bytes of their output; `None` = no limit for single tenants.
    #[serde(deserialize_with = "deserialize_zero_as_none")]
    pub tenant_max_bytes: Option<u64>,
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

fn deserialize_shell<'de, D: Deserializer<'de>>(input: D) -> Result<ShellChoice, D::Error> {
    let text = String::deserialize(input)?;
    Ok(if text == "auto" { ShellChoice::Auto } else { ShellChoice::Path(text) })
}

fn deserialize_priority<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Priority>, D::Error> {
    deserialize_word(input, &Priority::WORDS).map(Some)
}

fn deserialize_profile<'de, D: Deserializer<'de>>(input: D) -> Result<SandboxProfile, D::Error> {
    deserialize_word(input, &SandboxProfile::WORDS)
}

fn deserialize_large_output<'de, D: Deserializer<'de>>(input: D) -> Result<LargeOutput, D::Error> {
    deserialize_word(input, &LargeOutput::WORDS)
}

fn deserialize_stream_mode<'de, D: Deserializer<'de>>(input: D) -> Result<StreamMode, D::Error> {
    deserialize_word(input, &StreamMode::WORDS)
}

fn deserialize_on_unavailable<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<OnUnavailable, D::Error> {
    deserialize_word(
        input,
        &[("refuse", OnUnavailable::Refuse), ("degrade", OnUnavailable::Degrade)],
    )
}

/// Reads the strongest backend; `auto` allows all.
fn deserialize_backend<'de, D: Deserializer<'de>>(input: D) -> Result<Backend, D::Error> {
    let words = [
        ("auto", Backend::Namespaces),
        ("namespaces", Backend::Namespaces),
        ("landlock", Backend::Landlock),
        ("seccomp", Backend::Seccomp),
        ("none", Backend::Nothing),
    ];
    deserialize_word(input, &words)
}
