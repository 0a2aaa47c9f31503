//! Jobs.

use super::words::words;
use crate::confinement::{Backend, Profile};

words! {
    /// How far a command came that somebody must agree to.
    pub enum ApprovalStep {
        /// Somebody is asked.
        Asked = "asked",
        /// Somebody agreed to this run.
        Once = "once",
        /// Somebody agreed, and to the same runs of the tenant from then on.
        Tenant = "tenant",
        /// Somebody said no.
        Declined = "declined",
        /// Nobody said anything in time.
        NoAnswer = "no_answer",
        /// Whoever wanted it took it back.
        Withdrawn = "withdrawn",
        /// The client could not ask.
        CannotAsk = "cannot_ask",
        /// What was said answers no open question, or one about something else.
        NotAsked = "not_asked",
    }
}

words! {
    /// Why a job was not accepted.
    pub enum Rejection {
        /// There was nothing to run.
        EmptyCommand = "empty_command",
        /// The command was too long.
        TooLong = "too_long",
        /// The deadline was out of bounds.
        Timeout = "timeout",
        /// A variable's name cannot be one.
        Environment = "environment",
        /// There is no such lane.
        UnknownLane = "unknown_lane",
        /// It cannot be confined as it asks.
        Confinement = "confinement",
        /// A rule said no.
        Policy = "policy",
        /// Too many jobs wait already.
        QueueFull = "queue_full",
        /// The tenant has as much as it may have.
        TenantLimit = "tenant_limit",
        /// The tenant starts jobs faster than it may.
        RateLimited = "rate_limited",
        /// The caller may only read.
        Forbidden = "forbidden",
        /// The server is shutting down.
        Draining = "draining",
        /// The server failed over it.
        Interrupted = "interrupted",
    }
}

/// What a job's confinement lets it do.
pub(in crate::telemetry) const CONFINEMENT_PROFILES: [&str; 4] = [
    Profile::None.word(),
    Profile::Default.word(),
    Profile::WorkspaceWrite.word(),
    Profile::ReadOnly.word(),
];

/// What enforces it.
pub(in crate::telemetry) const CONFINEMENT_BACKENDS: [&str; 4] = [
    Backend::Namespaces.word(),
    Backend::Landlock.word(),
    Backend::Seccomp.word(),
    Backend::Nothing.word(),
];

/// Whether something is so.
pub(in crate::telemetry) const YES_OR_NO: [&str; 2] = ["true", "false"];
