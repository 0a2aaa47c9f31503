//! The verbs with which an operator controls a running server.

use clap::Subcommand;

use super::config::{self, ReloadFlags};
use super::drain::{self, DrainFlags};
use super::log_level::{self, LogLevelFlags};
use super::pause::{self, LaneFlags};
use super::queue::{self, QueueFlags};
use super::server_request::ConnectFlags;
use super::terminal::{ASKING, Display, with_spinner};
use super::upgrade::{self, UpgradeFlags};
use crate::client::ServerClient;

/// A verb that sends a request to a running server.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum OperatorVerb {
    /// Show the queue: running and queued jobs by lane and tenant, and what holds starts back.
    Queue(QueueFlags),
    /// Hold queued jobs back, in one lane or in all; running jobs continue.
    Pause(LaneFlags),
    /// Start queued jobs again after `pause`, in one lane or in all.
    Resume(LaneFlags),
    /// Refuse new jobs; queued and running jobs finish.
    Drain(DrainFlags),
    /// Replace a running server by another version of it; its jobs go on.
    Upgrade(UpgradeFlags),
    /// Show or change the log filter of a running server.
    LogLevel(LogLevelFlags),
    /// Reload the settings; those that need no restart apply at once.
    #[command(skip)]
    Reload(ReloadFlags),
}

impl OperatorVerb {
    /// Returns the flags that name the server and the caller's token.
    #[must_use]
    pub const fn server(&self) -> &ConnectFlags {
        match self {
            Self::Queue(flags) => &flags.server,
            Self::Pause(flags) | Self::Resume(flags) => &flags.server,
            Self::Drain(flags) => &flags.server,
            Self::Upgrade(flags) => &flags.server,
            Self::LogLevel(flags) => &flags.server,
            Self::Reload(flags) => &flags.server,
        }
    }

    /// Sends the request, prints the result, and returns the exit code: 0, or 1 if the request was
    /// refused or failed.
    pub async fn run(&self, client: &ServerClient, display: &Display) -> u8 {
        let done = match self {
            // It prints a message before it waits, and shows itself that it waits.
            Self::Drain(flags) => drain::run(flags, client, display).await,
            Self::Upgrade(flags) => {
                with_spinner(display, "upgrading the server", upgrade::run(flags, client)).await
            }
            Self::Queue(flags) => with_spinner(display, ASKING, queue::run(flags, client)).await,
            Self::Pause(flags) => with_spinner(display, ASKING, pause::pause(flags, client)).await,
            Self::Resume(flags) => {
                with_spinner(display, ASKING, pause::resume(flags, client)).await
            }
            Self::LogLevel(flags) => {
                with_spinner(display, ASKING, log_level::run(flags, client)).await
            }
            Self::Reload(flags) => {
                with_spinner(display, ASKING, config::reload_settings(flags, client)).await
            }
        };
        done.unwrap_or_else(|error| self.server().failure_output(&error)).print()
    }
}
