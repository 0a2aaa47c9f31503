//! The reasons why a job is not accepted.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use thiserror::Error;

use super::registry::format_size;
use crate::ids::JobId;
use crate::spec::KeyDifference;

/// The reason why a job was not accepted. No trace of the job is kept.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SubmitRefusal {
    /// The queue is full.
    #[error("{full}; {retry} [queue_full]")]
    QueueFull {
        /// The scope of the bound.
        full: FullQueue,
        /// The time at which there may be room.
        retry: Retry,
    },
    /// The tenant has reached one of its limits.
    #[error("{bound}; {retry} [tenant_limit]")]
    TenantLimit {
        bound: TenantBound,
        /// The time at which the tenant may have more.
        retry: Retry,
    },
    /// The tenant started too many jobs in too short a time.
    #[error(
        "too many starts: at most {per_minute} a minute (starts_per_minute); {} [rate_limited]",
        Retry::In(*retry_after)
    )]
    RateLimited {
        /// The number of starts that the tenant may have.
        per_minute: NonZeroU32,
        /// The time until the next start is accepted.
        retry_after: Duration,
    },
    /// The key already names the job of another request.
    #[error(
        "key {key:?} already names job {job}, which was submitted with {difference}; use another key for this job [key_conflict]"
    )]
    KeyConflict { key: String, job: JobId, difference: KeyDifference },
    /// The server drains: it accepts no new jobs.
    #[error("the server is draining and takes no new jobs; submit to another or try later")]
    Draining,
    /// The server is shutting down.
    #[error("the server is shutting down and takes no new jobs; submit to another or try later")]
    Closed,
    /// The supervisor failed while it accepted the job.
    #[error("the server failed while it took the job, which does not run; try again [interrupted]")]
    Interrupted,
}

/// The queue that is full. It does not say how many jobs wait: most of them may belong to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FullQueue {
    /// The whole queue, over all lanes.
    All,
    Lane {
        lane: String,
    },
}

/// The quota that a tenant has used up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenantBound {
    /// Waiting jobs of the tenant.
    Queued {
        /// The number of jobs that may wait.
        limit: usize,
    },
    Cpu {
        /// CPU time that the tenant's jobs used within an hour.
        used: Duration,
        /// CPU time that the tenant's jobs may use.
        limit: Duration,
    },
    /// Stored output of the tenant's running jobs.
    Stored {
        /// The number of bytes that may be kept.
        limit: u64,
        /// The name of the setting with this limit.
        setting: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    In(Duration),
    /// Once an operator has resumed the queue or the lane.
    Resumed,
    /// Once a running job of the tenant has ended.
    JobEnded,
}

impl Retry {
    const fn after(self) -> Option<Duration> {
        match self {
            Self::In(time) => Some(time),
            Self::Resumed | Self::JobEnded => None,
        }
    }
}

impl SubmitRefusal {
    /// Returns the stable code word of the refusal.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::QueueFull { .. } => "queue_full",
            Self::TenantLimit { .. } => "tenant_limit",
            Self::RateLimited { .. } => "rate_limited",
            Self::KeyConflict { .. } => "key_conflict",
            Self::Draining | Self::Closed => "draining",
            Self::Interrupted => "interrupted",
        }
    }

    /// Returns the time until a retry may succeed, if it is known.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::QueueFull { retry, .. } | Self::TenantLimit { retry, .. } => retry.after(),
            Self::RateLimited { retry_after, .. } => Some(*retry_after),
            Self::KeyConflict { .. } | Self::Draining | Self::Closed | Self::Interrupted => None,
        }
    }
}

impl fmt::Display for FullQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("the queue is full (queue.max_queued)"),
            Self::Lane { lane } => {
                write!(f, "lane {lane} is full (queue.lanes.{lane}.max_queued)")
            }
        }
    }
}

impl fmt::Display for TenantBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queued { limit } => {
                let wait = if *limit == 1 { "waits" } else { "wait" };
                write!(f, "{limit} of your jobs {wait} already, which is your limit (max_queued)")
            }
            Self::Cpu { used, limit } => write!(
                f,
                "your jobs used {}s of CPU time within an hour, your limit is {}s (cpu_s_per_hour)",
                used.as_secs(),
                limit.as_secs()
            ),
            Self::Stored { limit, setting } => write!(
                f,
                "your stored output is at its limit of {}, and your running jobs hold it ({setting})",
                format_size(*limit)
            ),
        }
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = match self {
            Self::In(after) => after,
            Self::Resumed => return f.write_str("try again when it is resumed"),
            Self::JobEnded => {
                return f.write_str("try again when one of them has ended, or stop one");
            }
        };
        // Rounded up: a moment too early would be refused again.
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        match seconds.max(1) {
            seconds @ ..100 => write!(f, "try again in about {seconds}s"),
            seconds => write!(f, "try again in about {} minutes", seconds.div_ceil(60)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_the_bound_is_and_when_to_come_back() {
        let bound = TenantBound::Queued { limit: 3 };
        let seconds = Duration::from_secs;
        let used = TenantBound::Cpu { used: seconds(61), limit: seconds(60) };
        let full = FullQueue::Lane { lane: "build".into() };
        let stored = TenantBound::Stored { limit: 65_536, setting: "tenants.ci.max_stored".into() };
        for (refusal, code, words) in [
            (
                SubmitRefusal::QueueFull { full: FullQueue::All, retry: Retry::Resumed },
                "queue_full",
                "the queue is full (queue.max_queued); try again when it is resumed",
            ),
            (
                SubmitRefusal::QueueFull { full, retry: Retry::In(Duration::from_millis(11_001)) },
                "queue_full",
                "lane build is full (queue.lanes.build.max_queued); try again in about 12s",
            ),
            (
                SubmitRefusal::TenantLimit { bound, retry: Retry::In(Duration::ZERO) },
                "tenant_limit",
                "3 of your jobs wait already, which is your limit (max_queued); try again in about 1s",
            ),
            (
                SubmitRefusal::TenantLimit { bound: used, retry: Retry::In(seconds(100)) },
                "tenant_limit",
                "your jobs used 61s of CPU time within an hour, your limit is 60s (cpu_s_per_hour); try again in about 2 minutes",
            ),
            (
                SubmitRefusal::TenantLimit { bound: stored, retry: Retry::JobEnded },
                "tenant_limit",
                "your stored output is at its limit of 64 KiB, and your running jobs hold it (tenants.ci.max_stored); try again when one of them has ended, or stop one",
            ),
            (
                SubmitRefusal::RateLimited {
                    per_minute: NonZeroU32::MIN,
                    retry_after: seconds(60),
                },
                "rate_limited",
                "too many starts: at most 1 a minute (starts_per_minute); try again in about 60s",
            ),
            (
                SubmitRefusal::Interrupted,
                "interrupted",
                "the server failed while it took the job, which does not run; try again",
            ),
        ] {
            assert_eq!(refusal.code(), code);
            assert_eq!(refusal.to_string(), format!("{words} [{code}]"));
        }
    }
}
