//! The supervisor: one actor that decides which job starts next, starts each under an actor
//! of its own, and outlives the failure of any of them.
//!
//! The public handle is [`Supervisor`]. Who waits and who may start is decided in `queue/`, who is
//! freed by `FinishedJobs` in `registry.rs`; both are pure. `registry.rs` also keeps the jobs that
//! are known and why others were freed. `accept.rs` takes jobs over from callers and from a previous server, and watches for
//! their ends. `usage.rs` counts the CPU time and starts of tenants, and finds idle jobs.
//!
//! Should the actor fail after all, the root supervisor (`root_supervisor.rs`) starts a new one,
//! which takes over what is known. Callers reach the actor that supervises now.

mod accept;
mod actor;
mod handle;
pub mod queue;
mod registry;
mod root_supervisor;
#[cfg(test)]
mod tests;
mod usage;

pub use crate::spec::{JobKey, KeyDifference};
pub use accept::{OnJobEnd, RestoredJob, RestoredJobs, RestoredStage};
pub use actor::SupervisorSettings;
pub use handle::{SubmitRequest, Supervisor, read_pressure};
pub use queue::{
    FullQueue, HoldingJob, HoldingJobs, HostResource, LaneLimits, LaneOverview, Pressure,
    PressureLevels, PressureWatch, QueueLimits, QueueOverview, QueuePosition, SubmitRefusal,
    TenantBound, TenantLimits, TenantOverview, UnknownLane, WaitsFor,
};
pub use registry::{FindError, FreedCause, Retention, RetentionBounds, RetentionScope};
