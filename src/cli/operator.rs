//! What whoever runs a server asks of it while it runs.

use clap::Subcommand;

use super::config::{self, ReloadFlags};
use super::drain::{self, DrainFlags};
use super::jobs::{self, JobsFlags};
use super::log_level::{self, LogLevelFlags};
use super::pause::{self, LaneFlags};
use super::queue::{self, QueueFlags};
use super::server_request::ConnectFlags;
use crate::client::ServerClient;

/// What is asked of a running server.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum OperatorVerb {
    /// List the jobs of a running server, newest first.
    Jobs(JobsFlags),
    /// Tell how full the queue is, and what holds it back.
    Queue(QueueFlags),
    /// Start no more jobs, in one lane or at all; what runs goes on.
    Pause(LaneFlags),
    /// Start jobs again, in one lane or at all.
    Resume(LaneFlags),
    /// Take no new jobs; those that wait and run go on to their ends.
    Drain(DrainFlags),
    /// Tell or change which log lines a running server writes.
    LogLevel(LogLevelFlags),
    /// Read the settings again; those that need no restart hold at once.
    #[command(skip)]
    Reload(ReloadFlags),
}

impl OperatorVerb {
    /// Which server is asked, and by whom.
    #[must_use]
    pub const fn server(&self) -> &ConnectFlags {
        match self {
            Self::Jobs(flags) => &flags.server,
            Self::Queue(flags) => &flags.server,
            Self::Pause(flags) | Self::Resume(flags) => &flags.server,
            Self::Drain(flags) => &flags.server,
            Self::LogLevel(flags) => &flags.server,
            Self::Reload(flags) => &flags.server,
        }
    }

    /// Asks the server, says what came of it, and returns the exit code: 0, or 1 when it was
    /// refused or failed.
    pub async fn run(&self, client: &ServerClient) -> u8 {
        let done = match self {
            Self::Jobs(flags) => jobs::run(flags, client).await,
            Self::Queue(flags) => queue::run(flags, client).await,
            Self::Pause(flags) => pause::pause(flags, client).await,
            Self::Resume(flags) => pause::resume(flags, client).await,
            Self::Drain(flags) => drain::run(flags, client).await,
            Self::LogLevel(flags) => log_level::run(flags, client).await,
            Self::Reload(flags) => config::reload(flags, client).await,
        };
        done.unwrap_or_else(|error| self.server().failure(&error)).print()
    }
}
