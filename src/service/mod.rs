//! The API that transports and tools use: submit, find, list, stop, drain; and files. They know
//! nothing of actors.

mod admission;
mod approval;
mod awaiting_approval;
mod confinement;
mod files;
mod handle;
mod output;
mod submission;
mod tenancy;
mod tenant_client;
#[cfg(test)]
mod tests;

pub use admission::{AuditTrail, OnAuditFailure, Refused, Rules};
pub use approval::{Consent, Matter, NoConsent, Question};
pub use awaiting_approval::{Fate, Parked, Submitted};
pub use confinement::{Bound, ConfineError, Confining, LimitTerms, NetworkRule, Terms};
pub use files::{FileError, FileKind, FilePage, Listed, Listing, Written};
pub use handle::{AfterDrain, Tuning, Yard, YardSettings};
pub use output::{ContentKind, JobOutput};
pub use submission::{Caller, Defaults, LaneDefaults, Logged, Submission, SubmitError, Within};
pub use tenancy::{Identity, Role};
pub use tenant_client::Desk;

pub use crate::job::{
    Input, InputEnd, InputError, JobHandle, JobSettings, Key, Liveness, Phase, Status, StopWish,
    Variables,
};
pub use crate::output::RawReader;
pub use crate::process::sandbox::{HostOffer, OnUnavailable, Unavailable};
pub use crate::spec::DEFAULT_LANE;
pub use crate::supervisor::{
    Bounds, FindError, HostResource, LaneLimits, LaneOverview, Levels, Pressure, PressureWatch,
    QueueLimits, QueueOverview, QueuePlace, Retention, TenantLimits, TenantOverview, UnknownLane,
    WaitsFor,
};
pub use crate::telemetry::QueueStats;
