//! Settings of jobs: how many run, within which bounds, what may run, and what is kept.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::confinement::{Backend, SandboxProfile};
use crate::environment::Inherit;
use crate::process::shell::ShellChoice;
use crate::service::{ConfinementTerms, NetworkRule, OnAuditFailure, OnUnavailable};
use crate::setting_values::{
    milliseconds, path_or_none, seconds, some_seconds, word, zero_is_none, zero_seconds_is_none,
};
use crate::spec::{LargeOutput, Priority};

/// `[queue]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSection {
    /// Jobs that run at one time; 0 = by the number of cores, see [`QueueSection::slots_for`].
    pub slots: usize,
    /// Jobs that may wait for a slot.
    pub max_queued: usize,
    /// Lanes by name.
    pub lanes: BTreeMap<String, LaneSection>,
}

/// `[queue.lanes.NAME]`
// Unknown keys were refused before, and serde cannot do that beside a flattened field.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LaneSection {
    /// Its jobs that run at one time; `None` = as many as there are slots.
    pub slots: Option<usize>,
    /// Its jobs that may wait; `None` = as many as the queue takes.
    pub max_queued: Option<usize>,
    /// The deadline of its jobs when the caller does not say.
    #[serde(rename = "timeout_s", deserialize_with = "some_seconds")]
    pub timeout: Option<Duration>,
    /// The priority of its jobs when the caller does not say.
    #[serde(deserialize_with = "priority")]
    pub priority: Option<Priority>,
    /// How its jobs are confined.
    #[serde(flatten)]
    pub confining: ConfinementTerms,
}

impl QueueSection {
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
pub struct JobSection {
    /// The shell for command text.
    #[serde(deserialize_with = "shell")]
    pub shell: ShellChoice,
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

/// `[policy]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySection {
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
    pub uncertain: UncertainPolicy,
}

/// What becomes of text that cannot be judged while any list is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UncertainPolicy {
    /// It is refused.
    Refuse,
    /// It runs in the `read-only` sandbox without network.
    Confine,
    /// It runs, and the audit says so.
    Allow,
}

/// `[tenants.NAME]`: what is not given is as for every tenant; 0 = no bound.
// Unknown keys were refused before, and serde cannot do that beside a flattened field.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TenantSection {
    /// Its share of the slots beside others that wait.
    pub weight: Option<u32>,
    /// Jobs that run at one time.
    pub max_running: Option<u64>,
    /// Jobs that wait.
    pub max_queued: Option<u64>,
    /// Jobs that start in a minute.
    pub starts_per_minute: Option<u64>,
    /// CPU seconds in an hour.
    pub cpu_s_per_hour: Option<u64>,
    /// Bytes of output that are kept.
    pub max_stored: Option<u64>,
    /// Variables of its jobs, `NAME=VALUE`.
    pub environment: Vec<String>,
    /// How its jobs are confined.
    #[serde(flatten)]
    pub confining: ConfinementTerms,
}

/// `[confinement]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfinementSection {
    /// What a job may do to its surroundings.
    #[serde(deserialize_with = "profile")]
    pub profile: SandboxProfile,
    /// Whether it has a network.
    pub network: NetworkRule,
    /// What becomes of a job that this host cannot confine as asked.
    #[serde(deserialize_with = "on_unavailable")]
    pub on_unavailable: OnUnavailable,
    /// The strongest means that is used.
    #[serde(deserialize_with = "backend")]
    pub backend: Backend,
    /// Where jobs may write; empty = the directory in which a job runs.
    pub workspace: Vec<PathBuf>,
    /// What they shall not read, beside the usual places.
    pub hide: Vec<PathBuf>,
    /// The part of the home directory that they see, as names below it or full paths.
    pub show: Vec<PathBuf>,
    /// The files that they must not write in a workspace, as names below it, or below the home directory
    /// where they begin with `~/`.
    pub protect: Vec<PathBuf>,
}

/// `[environment]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentSection {
    /// What is taken over from the server's own environment.
    pub inherit: Inherit,
    /// Names and patterns that are passed on as well.
    pub pass: Vec<String>,
    /// Names and patterns that are never passed on.
    pub drop: Vec<String>,
    /// Variables that every job gets, `NAME=VALUE`.
    pub set: Vec<String>,
}

/// `[redact]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedactSection {
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
pub struct AuditSection {
    /// Whether an audit log is written.
    pub enabled: bool,
    /// Where; `None` = `audit.jsonl` in the data directory.
    #[serde(deserialize_with = "path_or_none")]
    pub file: Option<PathBuf>,
    /// A file larger than this is rotated.
    pub max_bytes: u64,
    /// Rotated files that are kept.
    pub keep: usize,
    /// Bytes of lines that may wait in memory while the log does not answer.
    pub max_queued: u64,
    /// What a failed write leads to.
    pub on_failure: OnAuditFailure,
}

/// `[output]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputSection {
    /// Bytes of a job's output that are kept in memory.
    pub memory: usize,
    /// From here on the output of a job is large.
    pub large: u64,
    /// What becomes of a job that writes that much.
    #[serde(deserialize_with = "large_output")]
    pub on_large_output: LargeOutput,
    /// Bytes of output that are kept of all jobs together.
    pub max_store: u64,
    /// Bytes of output that are kept of the jobs of one tenant.
    pub max_tenant: u64,
    /// Finished output of so many bytes is compressed; `None` = never.
    #[serde(deserialize_with = "zero_is_none")]
    pub compress_from: Option<u64>,
    /// Bytes of memory that all reads of output may take at one time.
    pub read_memory: usize,
    /// How long one search or query may take.
    #[serde(rename = "search_s", deserialize_with = "seconds")]
    pub search: Duration,
}

/// `[retention]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetentionSection {
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

fn shell<'de, D: Deserializer<'de>>(input: D) -> Result<ShellChoice, D::Error> {
    let text = String::deserialize(input)?;
    Ok(if text == "auto" { ShellChoice::Auto } else { ShellChoice::Path(text) })
}

fn priority<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Priority>, D::Error> {
    word(input, &Priority::WORDS).map(Some)
}

fn profile<'de, D: Deserializer<'de>>(input: D) -> Result<SandboxProfile, D::Error> {
    word(input, &SandboxProfile::WORDS)
}

fn large_output<'de, D: Deserializer<'de>>(input: D) -> Result<LargeOutput, D::Error> {
    word(input, &LargeOutput::WORDS)
}

fn on_unavailable<'de, D: Deserializer<'de>>(input: D) -> Result<OnUnavailable, D::Error> {
    word(input, &[("refuse", OnUnavailable::Refuse), ("degrade", OnUnavailable::Degrade)])
}

/// `auto` is the strongest that the host has.
fn backend<'de, D: Deserializer<'de>>(input: D) -> Result<Backend, D::Error> {
    let words = [
        ("auto", Backend::Namespaces),
        ("namespaces", Backend::Namespaces),
        ("landlock", Backend::Landlock),
        ("seccomp", Backend::Seccomp),
        ("none", Backend::Nothing),
    ];
    word(input, &words)
}
