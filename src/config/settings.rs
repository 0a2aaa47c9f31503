//! The checked values.
//!
//! Every field has a key in `config/default.toml` and every key a field: unknown and
//! missing fields both fail the read. Ranges were checked before, per layer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

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
    /// Where output is kept.
    pub output: OutputSettings,
    /// What stays after the end.
    pub retention: RetentionSettings,
    /// The server as a whole.
    pub server: ServerSettings,
    /// Logs.
    pub log: LogSettings,
}

/// `[http]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpSettings {
    /// Address and port to listen on.
    pub bind: SocketAddr,
    /// The path of the MCP endpoint.
    pub path: String,
    /// Host names that are allowed beside loopback and the bound address.
    pub allowed_hosts: Vec<String>,
    /// Web origins that are allowed.
    pub allowed_origins: Vec<String>,
    /// A file with one bearer token per line.
    #[serde(deserialize_with = "path_or_none")]
    pub token_file: Option<PathBuf>,
    /// The largest request body, in bytes.
    pub max_body: usize,
    /// The largest request head, in bytes; at least the 8 KiB that hyper needs.
    pub max_headers: usize,
    /// How long a client may take to send a request's head.
    #[serde(rename = "header_timeout_s", deserialize_with = "seconds")]
    pub header_timeout: Duration,
    /// Connections at one time.
    pub max_connections: usize,
}

impl HttpSettings {
    /// Whether anyone on the network could call without a token: `serve` must refuse that.
    #[must_use]
    pub fn is_open_to_anyone(&self) -> bool {
        !self.bind.ip().to_canonical().is_loopback() && self.token_file.is_none()
    }
}

/// `[mcp]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpSettings {
    /// What a tool result carries.
    pub result_format: ResultFormat,
    /// The wait of run_command when the caller does not say.
    #[serde(rename = "wait_s", deserialize_with = "seconds")]
    pub wait: Duration,
    /// The longest that a call blocks without progress.
    #[serde(rename = "max_wait_s", deserialize_with = "seconds")]
    pub max_wait: Duration,
    /// The longest that a call blocks with progress.
    #[serde(rename = "max_wait_with_progress_s", deserialize_with = "seconds")]
    pub max_wait_with_progress: Duration,
    /// The time between two progress notifications.
    #[serde(rename = "progress_s", deserialize_with = "seconds")]
    pub progress: Duration,
    /// The most that one reply may take, in tokens.
    pub max_tokens: u64,
    /// The page of read_output when the caller does not say.
    pub page_bytes: usize,
    /// The largest page that a caller may ask for.
    pub max_page_bytes: usize,
    /// Whether cancelling a run_command that still waits ends its job.
    pub cancel_stops_job: bool,
}

/// What a tool result carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultFormat {
    /// Text only.
    Text,
    /// Structured content only.
    Structured,
    /// Both.
    Both,
}

/// `[queue]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
    /// Jobs that run at one time; 0 = by the number of cores, see [`QueueSettings::slots_for`].
    pub slots: usize,
    /// Jobs that may wait for a slot.
    pub max_queued: usize,
    /// Lanes by name, each with its slots.
    pub lanes: BTreeMap<String, usize>,
}

impl QueueSettings {
    /// The slots on a machine with this many cores.
    #[must_use]
    pub const fn slots_for(&self, cores: usize) -> usize {
        match self.slots {
            0 => 2 * cores,
            slots => slots,
        }
    }
}

/// `[job]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSettings {
    /// The shell for command text.
    #[serde(deserialize_with = "shell")]
    pub shell: Shell,
    /// The deadline when the caller does not say.
    #[serde(rename = "timeout_s", deserialize_with = "seconds")]
    pub timeout: Duration,
    /// The longest deadline that a caller may ask for.
    #[serde(rename = "max_timeout_s", deserialize_with = "seconds")]
    pub max_timeout: Duration,
    /// From SIGTERM to SIGKILL.
    #[serde(rename = "grace_s", deserialize_with = "seconds")]
    pub grace: Duration,
    /// Bytes that a job may write.
    pub max_output: u64,
    /// Lines that a job may write; `None` = no bound.
    #[serde(deserialize_with = "zero_is_none")]
    pub max_lines: Option<u64>,
    /// Draining ends after this long without a byte.
    #[serde(rename = "drain_quiet_ms", deserialize_with = "milliseconds")]
    pub drain_quiet: Duration,
    /// Draining ends after this long in any case.
    #[serde(rename = "drain_max_ms", deserialize_with = "milliseconds")]
    pub drain_max: Duration,
    /// Where jobs run when the caller does not say; `None` = the server's own directory.
    #[serde(deserialize_with = "path_or_none")]
    pub cwd: Option<PathBuf>,
}

/// The shell for command text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shell {
    /// The best that the machine has.
    Auto,
    /// This one.
    At(PathBuf),
}

/// `[policy]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySettings {
    /// Nothing else may run, where there is any.
    pub allow: Vec<String>,
    /// These may never run.
    pub deny: Vec<String>,
    /// These need somebody's yes.
    pub ask: Vec<String>,
    /// Allowed command prefixes in the form of the `run_shell_command` tool.
    #[serde(rename = "coreTools")]
    pub core_tools: Vec<String>,
    /// Denied command prefixes in the same form.
    #[serde(rename = "excludeTools")]
    pub exclude_tools: Vec<String>,
    /// Denied commands in the form of the `shell` tool.
    pub blocked_commands: Vec<String>,
    /// Directories that jobs may run in, where there is any.
    pub allowed_directories: Vec<PathBuf>,
    /// What becomes of text that cannot be judged.
    pub uncertain: Uncertain,
}

/// What becomes of text that cannot be judged while any list is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Uncertain {
    /// It is refused.
    Refuse,
    /// It runs, and the audit says so.
    Allow,
}

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

/// `[output]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputSettings {
    /// Bytes of a job's output that are kept in memory.
    pub memory: usize,
    /// From here on the output of a job is large.
    pub large: u64,
    /// What becomes of a job that writes that much.
    pub on_large_output: OnLargeOutput,
    /// Bytes of output that are kept of all jobs together.
    pub max_store: u64,
    /// Bytes of output that are kept of the jobs of one tenant.
    pub max_tenant: u64,
    /// Finished output of so many bytes is compressed; `None` = never.
    #[serde(deserialize_with = "zero_is_none")]
    pub compress_from: Option<u64>,
    /// How long one search or query may take.
    #[serde(rename = "search_s", deserialize_with = "seconds")]
    pub search: Duration,
}

/// What becomes of a job that writes a lot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnLargeOutput {
    /// All of it is kept.
    Spill,
    /// Its middle is not kept.
    Truncate,
    /// It is ended.
    Error,
}

/// `[retention]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionSettings {
    /// Finished jobs that stay readable.
    pub max_finished: usize,
    /// How long they do; `None` = no bound.
    #[serde(rename = "max_age_s", deserialize_with = "zero_seconds_is_none")]
    pub max_age: Option<Duration>,
    /// What they may store; `None` = no bound.
    #[serde(deserialize_with = "zero_is_none")]
    pub max_bytes: Option<u64>,
    /// Finished jobs of each tenant that stay readable; `None` = no bound of its own.
    #[serde(deserialize_with = "zero_is_none")]
    pub tenant_max_finished: Option<u64>,
    /// How long they do; `None` = no bound of its own.
    #[serde(rename = "tenant_max_age_s", deserialize_with = "zero_seconds_is_none")]
    pub tenant_max_age: Option<Duration>,
    /// What those of each tenant may store; `None` = no bound of its own.
    #[serde(deserialize_with = "zero_is_none")]
    pub tenant_max_bytes: Option<u64>,
}

/// `[server]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    /// Where spill files go; resolved, never empty. It may not exist yet.
    pub data_dir: PathBuf,
    /// How long running jobs get on shutdown before they are ended.
    #[serde(rename = "drain_s", deserialize_with = "seconds")]
    pub drain: Duration,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
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

fn seconds<'de, D: Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(input)?).map_err(serde::de::Error::custom)
}

fn milliseconds<'de, D: Deserializer<'de>>(input: D) -> Result<Duration, D::Error> {
    u64::deserialize(input).map(Duration::from_millis)
}

fn zero_is_none<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    Ok(Some(u64::deserialize(input)?).filter(|&number| number > 0))
}

fn zero_seconds_is_none<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Duration>, D::Error> {
    Ok(Some(seconds(input)?).filter(|time| !time.is_zero()))
}

fn path_or_none<'de, D: Deserializer<'de>>(input: D) -> Result<Option<PathBuf>, D::Error> {
    let text = String::deserialize(input)?;
    Ok((!text.is_empty()).then(|| text.into()))
}

fn shell<'de, D: Deserializer<'de>>(input: D) -> Result<Shell, D::Error> {
    let text = String::deserialize(input)?;
    Ok(if text == "auto" { Shell::Auto } else { Shell::At(text.into()) })
}
