//! The service's one door: submit, find, list, stop, drain; and files. Transports and tools know
//! nothing of actors; whatever runs the jobs stands behind this.

mod approval;
mod asking;
mod confining;
#[cfg(test)]
mod confining_tests;
mod desk;
mod door;
mod empty_waits;
mod files;
mod gate;
mod identity;
mod output;
mod parked;
mod queueing;
mod refused;
mod seen;
mod spilled;
mod submission;
mod tenancy;
#[cfg(test)]
mod tests;
mod ticket;

pub use approval::{Consent, Matter, NoConsent, Question};
pub use asking::Submitted;
pub use confining::{Bound, ConfineError, Confining, LimitTerms, NetworkRule, Terms};
pub use desk::Desk;
pub use door::{Yard, YardSettings};
pub use files::{FileError, FileKind, FilePage, Listed, Listing, Written};
pub use gate::{AuditTrail, OnAuditFailure, Rules};
pub use identity::{Identity, Role};
pub use output::{ContentKind, JobOutput};
pub use parked::{Fate, Parked};
pub use queueing::{AfterDrain, Tuning};
pub use refused::Refused;
pub use submission::{Caller, Defaults, LaneDefaults, Logged, Submission, SubmitError, Within};

pub use crate::job::{
    Input, InputEnd, InputError, JobHandle, JobSettings, Key, Liveness, Phase, Status, StopWish,
    Variables,
};
pub use crate::output::RawReader;
pub use crate::process::sandbox::{HostOffer, OnUnavailable, Unavailable};
pub use crate::spec::DEFAULT_LANE;
pub use crate::supervisor::{
    Bounds, FindError, LaneLimits, LaneOverview, Levels, Pressure, PressureWatch, QueueLimits,
    QueueOverview, QueuePlace, Resource, Retention, TenantLimits, TenantOverview, UnknownLane,
    WaitsFor,
};
pub use crate::telemetry::QueueFigures;
