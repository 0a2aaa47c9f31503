//! The service's one door: submit, find, list, stop, drain. Transports and tools know nothing
//! of actors; whatever runs the jobs stands behind this.

mod door;
mod gate;
mod output;
mod submission;
#[cfg(test)]
mod tests;

pub use door::{Yard, YardSettings};
pub use gate::{AuditTrail, OnAuditFailure, Refused, Rules};
pub use output::{ContentKind, JobOutput};
pub use submission::{Caller, DEFAULT_LANE, Defaults, Submission, SubmitError};

pub use crate::job::{
    Input, InputEnd, InputError, JobHandle, JobSettings, Key, Liveness, Phase, Status, StopWish,
};
pub use crate::output::RawReader;
pub use crate::supervisor::{Bounds, FindError, QueueLimits, QueuePlace, Retention};
