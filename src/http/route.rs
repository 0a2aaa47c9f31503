//! Every path there is.

use super::auth::WELL_KNOWN;

/// A path that leads somewhere. The server mounts exactly those in [`Route::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// MCP.
    Mcp,
    /// Where clients find the authorization server.
    ProtectedResource,
    /// The same, as clients look for it that know the path of MCP.
    ProtectedResourceOfMcp,
    /// Whether the process is alive.
    Healthz,
    /// Whether it takes work.
    Readyz,
    /// Metrics.
    Metrics,
    /// Jobs.
    Jobs,
    /// One job.
    Job,
    /// What a job wrote.
    JobOutput,
    /// How full the queue is.
    Queue,
    /// Stops starts.
    QueuePause,
    /// Starts go on.
    QueueResume,
    /// Takes no new jobs.
    Drain,
    /// Reads the configuration again.
    Reload,
    /// Which log lines are written.
    LogLevel,
}

impl Route {
    /// Every route.
    pub const ALL: [Self; 15] = [
        Self::Mcp,
        Self::ProtectedResource,
        Self::ProtectedResourceOfMcp,
        Self::Healthz,
        Self::Readyz,
        Self::Metrics,
        Self::Jobs,
        Self::Job,
        Self::JobOutput,
        Self::Queue,
        Self::QueuePause,
        Self::QueueResume,
        Self::Drain,
        Self::Reload,
        Self::LogLevel,
    ];

    /// Its path, where MCP is at `mcp`; names in braces stand for any segment.
    #[must_use]
    pub fn path(self, mcp: &str) -> String {
        match self {
            Self::Mcp => mcp.to_owned(),
            Self::ProtectedResource => WELL_KNOWN.to_owned(),
            Self::ProtectedResourceOfMcp => format!("{WELL_KNOWN}{mcp}"),
            Self::Healthz => "/healthz".to_owned(),
            Self::Readyz => "/readyz".to_owned(),
            Self::Metrics => "/metrics".to_owned(),
            Self::Jobs => "/api/v1/jobs".to_owned(),
            Self::Job => "/api/v1/jobs/{id}".to_owned(),
            Self::JobOutput => "/api/v1/jobs/{id}/output".to_owned(),
            Self::Queue => "/api/v1/queue".to_owned(),
            Self::QueuePause => "/api/v1/queue/pause".to_owned(),
            Self::QueueResume => "/api/v1/queue/resume".to_owned(),
            Self::Drain => "/api/v1/drain".to_owned(),
            Self::Reload => "/api/v1/reload".to_owned(),
            Self::LogLevel => "/api/v1/log-level".to_owned(),
        }
    }

    /// Whether it needs no token: a probe has none, and who looks for a way to get one neither.
    pub(super) const fn is_open(self) -> bool {
        match self {
            Self::ProtectedResource
            | Self::ProtectedResourceOfMcp
            | Self::Healthz
            | Self::Readyz => true,
            Self::Mcp
            | Self::Metrics
            | Self::Jobs
            | Self::Job
            | Self::JobOutput
            | Self::Queue
            | Self::QueuePause
            | Self::QueueResume
            | Self::Drain
            | Self::Reload
            | Self::LogLevel => false,
        }
    }
}
