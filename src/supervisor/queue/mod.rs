//! The queue, which decides which job starts next. Pure: no clock, no actors.
//!
//! **Between tenants** slots are shared by weight, in virtual time (`line.rs`): each tenant has a
//! tag, the smallest is served, and a start moves it on by the inverse of the tenant's weight. A
//! tenant that was idle starts at the present, before tenants that were served already, so its
//! first job starts next. A tenant that just had its share is remembered until virtual time has
//! reached its tag, so submitting one job at a time brings no advantage.
//!
//! **Inside a tenant** each lane has a line (`line.rs`): by priority, then by arrival, except that
//! jobs whose callers wait pass background jobs. Between its lanes the best first job among those that
//! have room comes next.
//!
//! **Cost.** Each lane keeps the tenants that could start something there in the order of their
//! turns (`fair.rs`). Every operation touches one tenant in each lane, so it costs O(lanes · log
//! n), and never searches all jobs or tenants. Only `find_position` counts blocks of a line, one per
//! few hundred jobs. Only a change of limits visits every tenant.
//!
//! `limits.rs` has what keeps jobs from being accepted or started: limits, pauses, the pressure on
//! the host, and the refusals. `position.rs` explains to callers why a job waits.

mod fair;
mod limits;
mod line;
mod position;

#[cfg(test)]
mod tests;

pub use fair::{EnqueueRequest, Queue};
pub use limits::{
    FullQueue, Hold, HostResource, LaneLimits, Pressure, PressureLevels, PressureWatch,
    QueueLimits, Retry, SubmitRefusal, TenantBound, TenantLimits, UnknownLane, format_size,
};
pub use position::{
    Ages, HoldingJob, HoldingJobs, LaneOverview, QueueOverview, QueuePosition, TenantOverview,
    WaitsFor, collect_queue_stats,
};
