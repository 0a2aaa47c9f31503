//! How many jobs run, within which bounds, and what may run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::confinement::OwnConfinement;
use super::read::{milliseconds, path_or_none, seconds, shell, zero_is_none};

/// `[queue]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
    /// Jobs that run at one time; 0 = by the number of cores, see [`QueueSettings::slots_for`].
    pub slots: usize,
    /// Jobs that may wait for a slot.
    pub max_queued: usize,
    /// Lanes by name.
    pub lanes: BTreeMap<String, LaneSettings>,
}

/// `[queue.lanes.NAME]`
// Unknown keys were refused before, and serde cannot do that beside a flattened field.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LaneSettings {
    /// Its jobs that run at one time; `None` = as many as there are slots.
    pub slots: Option<usize>,
    /// Its jobs that may wait; `None` = as many as the queue takes.
    pub max_queued: Option<usize>,
    /// The deadline of its jobs when the caller does not say.
    pub timeout_s: Option<f64>,
    /// The priority of its jobs when the caller does not say.
    pub priority: Option<Priority>,
    /// How its jobs are confined.
    #[serde(flatten)]
    pub confining: OwnConfinement,
}

/// Which of a tenant's waiting jobs comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// After the others.
    Low,
    /// In the order of arrival.
    Normal,
    /// Before the others.
    High,
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
    /// It runs in the `read-only` sandbox without network.
    Confine,
    /// It runs, and the audit says so.
    Allow,
}
