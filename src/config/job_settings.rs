//! The typed settings of jobs: queue, limits, policy, sandbox, output and retention.
//! `config/default.toml` documents each key.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::confinement::{Backend, SandboxProfile};
use crate::environment::Inherit;
use crate::process::shell::ShellChoice;
use crate::service::{ConfinementTerms, NetworkRule, OnAuditFailure, OnUnavailable};
use crate::setting_values::{
    deserialize_milliseconds, deserialize_path_or_none, deserialize_seconds,
    deserialize_some_seconds, deserialize_word, deserialize_zero_as_none,
    deserialize_zero_seconds_as_none,
};
use crate::spec::{LargeOutput, Priority, StreamMode};

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
