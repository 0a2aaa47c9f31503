//! The supervisor: one actor that decides which job starts next, starts each under an actor
//! of its own, and outlives the failure of any of them.
//!
//! The door is [`Supervisor`]. Who waits and who may start is decided in `queue/`, who is
//! freed in `retention.rs`, and when the system stalls too much for another start in
//! `pressure.rs`; all are pure. `registry.rs` keeps who is known, `freed.rs` who was, and
//! `sampler.rs` looks at the system. `spending/` counts CPU time and starts of tenants;
//! `control.rs` is for whoever runs the server.

mod actor;
mod control;
mod door;
mod figures;
mod freed;
mod looks;
mod pressure;
pub mod queue;
mod refusal;
mod registry;
mod retention;
mod room;
mod sampler;
mod spending;

pub use actor::SupervisorSettings;
pub use door::{Admission, FindError, Supervisor};
pub use freed::{Freed, Scope};
pub use pressure::{Levels, Pressure, PressureWatch, Resource};
pub use queue::{
    LaneLimits, LaneOverview, QueueLimits, QueueOverview, QueuePlace, TenantLimits, TenantOverview,
    UnknownLane, WaitsFor,
};
pub use refusal::{FullQueue, Refusal, TenantBound};
pub use retention::{Bounds, Retention};
