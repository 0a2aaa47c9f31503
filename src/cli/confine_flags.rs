//! Flags that say how far a command is shut in, and what it may use up.

use clap::Args;

use super::flags::set;
use crate::config::FlagValue;

/// Flags of `run` about confinement and limits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Args)]
pub struct ConfineFlags {
    /// What it may do to its surroundings: none, default, workspace-write or read-only.
    #[arg(long, value_name = "PROFILE")]
    pub confinement: Option<String>,
    /// Whether it has a network: on, off or auto.
    #[arg(long, value_name = "ON|OFF")]
    pub network: Option<String>,
    /// The most memory that it may use, such as 2GB.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// The most CPU time that it may use.
    #[arg(long, value_name = "SECS")]
    pub cpu: Option<String>,
    /// The most processes that it may have at one time.
    #[arg(long, value_name = "N")]
    pub processes: Option<String>,
}

impl ConfineFlags {
    /// The settings that these flags stand for.
    pub(super) fn values(&self) -> impl Iterator<Item = FlagValue> {
        let values = [
            set("confinement.profile", "--confinement", self.confinement.as_ref()),
            set("confinement.network", "--network", self.network.as_ref()),
            set("limits.memory", "--memory", self.memory.as_ref()),
            set("limits.cpu_s", "--cpu", self.cpu.as_ref()),
            set("limits.processes", "--processes", self.processes.as_ref()),
        ];
        values.into_iter().flatten()
    }
}
