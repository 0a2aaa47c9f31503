//! How far jobs are shut in, and what one may use up.

use std::path::PathBuf;

use serde::Deserialize;

/// `[confinement]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfinementSettings {
    /// What a job may do to its surroundings.
    pub profile: Profile,
    /// Whether it has a network.
    pub network: Network,
    /// What becomes of a job that this host cannot confine as asked.
    pub on_unavailable: OnUnavailable,
    /// The strongest means that is used.
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

/// What a job may do to its surroundings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Whatever the server's user may.
    None,
    /// The same, without reaching into other processes and the kernel.
    Default,
    /// It writes to its workspace only.
    WorkspaceWrite,
    /// It writes nowhere.
    ReadOnly,
}

/// Whether a job has a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// As its profile has it.
    Auto,
    /// It has.
    On,
    /// It has not.
    Off,
}

/// What becomes of a job that this host cannot confine as asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnUnavailable {
    /// It is not run.
    Refuse,
    /// It is run with what there is.
    Degrade,
}

/// The strongest means that is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The strongest that the host has.
    Auto,
    /// Namespaces.
    Namespaces,
    /// Landlock, with a filter of system calls.
    Landlock,
    /// A filter of system calls.
    Seccomp,
    /// None at all.
    None,
}

/// `[limits]`, where each is given, and what a lane or a tenant says of them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LimitSettings {
    /// Bytes of memory of all processes of a job.
    pub memory: Option<Bound<u64>>,
    /// Seconds of CPU time of all processes of a job.
    pub cpu_s: Option<Bound<f64>>,
    /// Processes and threads at one time.
    pub processes: Option<Bound<u64>>,
    /// Open files of each process.
    pub open_files: Option<Bound<u64>>,
    /// Bytes of each file that it writes.
    pub file_size: Option<Bound<u64>>,
    /// How much it gives way to others.
    pub nice: Option<u8>,
}

/// A bound on something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Bound<T> {
    /// In a word.
    Word(BoundWord),
    /// This much.
    AtMost(T),
}

/// A bound that is no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoundWord {
    /// By what the host has.
    Auto,
    /// There is no bound.
    None,
}

/// What a lane or a tenant says about the confinement of its jobs.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct OwnConfinement {
    /// What a job may do to its surroundings.
    pub confinement: Option<Profile>,
    /// Whether it has a network.
    pub network: Option<Network>,
    /// What it may use up.
    #[serde(flatten)]
    pub limits: LimitSettings,
}
