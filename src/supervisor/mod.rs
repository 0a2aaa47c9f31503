//! The supervisor: one actor that decides which job starts next, starts each under an actor
//! of its own, and outlives the failure of any of them.
//!
//! The public handle is [`Supervisor`]. Who waits and who may start is decided in `queue/`, who is
//! freed in `retention.rs`, and when the system stalls too much for another start in
//! `pressure.rs`; all are pure. `registry.rs` keeps the jobs that are known and why others were
//! freed. `spending.rs` counts CPU time and starts of tenants. `restore.rs` takes over the jobs of a
//! previous server.
//!
//! Should the actor fail after all, the root supervisor (`root_supervisor.rs`) starts a new one,
//! which takes over what is known. Callers reach the actor that supervises now (`address.rs`).

mod accept;
mod activity;
mod actor;
mod address;
mod handle;
mod on_job_end;
mod pressure;
pub mod queue;
mod queue_stats;
mod refusal;
mod registry;
mod restore;
mod restored_jobs;
mod retention;
mod root_supervisor;
mod spending;
#[cfg(test)]
mod tests;

pub use crate::spec::{JobKey, KeyDifference};
pub use actor::SupervisorSettings;
pub use address::read_pressure;
pub use handle::{SubmitRequest, Supervisor};
pub use on_job_end::OnJobEnd;
pub use pressure::{HostResource, Pressure, PressureLevels, PressureWatch};
pub use queue::{
    HoldingJob, HoldingJobs, LaneLimits, LaneOverview, QueueLimits, QueueOverview, QueuePosition,
    TenantLimits, TenantOverview, UnknownLane, WaitsFor,
};
pub use refusal::{FullQueue, SubmitRefusal, TenantBound};
pub use registry::{FindError, FreedCause, RetentionScope};
pub use restored_jobs::{RestoredJob, RestoredJobs, RestoredStage};
pub use retention::{Retention, RetentionBounds};
