//! What is known of a job at one moment.

use std::time::{Duration, Instant};

use crate::outcome::Ending;

/// A snapshot of a job, taken without asking its actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Where it stands.
    pub phase: Phase,
    /// When it was accepted.
    pub submitted: Instant,
    /// When its process was started, if it was.
    pub started: Option<Instant>,
}

/// Where a job stands, as its users see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for a slot.
    Queued,
    /// Its process runs.
    Running,
    /// Its tree is being ended.
    Stopping,
    /// It ended.
    Finished(Ending),
}

impl Status {
    pub(super) fn queued_now() -> Self {
        Self { phase: Phase::Queued, submitted: Instant::now(), started: None }
    }

    /// How it ended, once it has.
    #[must_use]
    pub const fn ending(&self) -> Option<&Ending> {
        match &self.phase {
            Phase::Finished(ending) => Some(ending),
            Phase::Queued | Phase::Running | Phase::Stopping => None,
        }
    }

    /// From the start to the end, or to now; zero when it never started.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.map_or(Duration::ZERO, |started| self.until().duration_since(started))
    }

    /// From acceptance to the start; to the end, or to now, when it never started.
    #[must_use]
    pub fn queued_for(&self) -> Duration {
        self.started.unwrap_or_else(|| self.until()).duration_since(self.submitted)
    }

    fn until(&self) -> Instant {
        self.ending().map_or_else(Instant::now, |ending| ending.at)
    }
}

/// A look at a running job's processes, so that quiet is not taken for dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Liveness {
    /// How many processes are alive.
    pub processes: usize,
    /// CPU time that they have used so far.
    pub cpu: Duration,
    /// Their resident memory.
    pub rss_bytes: u64,
    /// One of them is blocked reading the job's standard input.
    pub waiting_for_input: bool,
}
