//! The verbs with which people see and stop jobs, in all servers of theirs or in one.

use clap::Subcommand;

use super::attach::{self, AttachFlags};
use super::jobs::{self, JobsFlags};
use super::logs::{self, LogsFlags};
use super::server_request::ConnectFlags;
use super::server_set::ServerSet;
use super::show::{self, ShowJobFlags};
use super::stop::{self, StopFlags};
use super::terminal::{ASKING, Display, with_spinner};
use super::top::{self, TopFlags};
use super::wait::{self, WaitFlags};

/// A verb about jobs of one or several running servers.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum JobVerb {
    /// List jobs, newest first: of the shared server and of every client of this user.
    Jobs(JobsFlags),
    /// Print the output of a job, or follow it.
    Logs(LogsFlags),
    /// Show everything about one job: command, client, times, limits, outcome, processes.
    Show(ShowJobFlags),
    /// Wait until jobs have ended, and return the exit code of the first that failed.
    Wait(WaitFlags),
    /// Stop jobs with their whole process trees.
    Stop(StopFlags),
    /// Connect your terminal with a running job: see its output and type into it.
    Attach(AttachFlags),
    /// Watch load, queue and jobs on the whole screen; stop jobs and read their logs.
    Top(TopFlags),
}

impl JobVerb {
    /// Returns the flags that name the server and the caller's token.
    #[must_use]
    pub const fn server(&self) -> &ConnectFlags {
        match self {
            Self::Jobs(flags) => &flags.jobs.server,
            Self::Logs(flags) => &flags.jobs.server,
            Self::Show(flags) => &flags.jobs.server,
            Self::Wait(flags) => &flags.jobs.server,
            Self::Stop(flags) => &flags.jobs.server,
            Self::Attach(flags) => &flags.jobs.server,
            Self::Top(flags) => &flags.jobs.server,
        }
    }

    /// Sends the requests, prints the result, and returns the exit code.
    pub async fn run(&self, servers: &ServerSet, display: &Display) -> u8 {
        let done = match self {
            Self::Jobs(flags) if flags.watch => jobs::run(flags, servers, display).await,
            Self::Jobs(flags) => {
                with_spinner(display, ASKING, jobs::run(flags, servers, display)).await
            }
            Self::Logs(flags) => logs::run(flags, servers, display).await,
            Self::Show(flags) => show::run(flags, servers, display).await,
            Self::Wait(flags) => wait::run(flags, servers, display).await,
            Self::Stop(flags) => stop::run(flags, servers, display).await,
            Self::Attach(flags) => attach::run(flags, servers, display).await,
            Self::Top(flags) => top::run(flags, servers, display).await,
        };
        done.unwrap_or_else(|error| self.server().failure_output(&error)).print()
    }
}
