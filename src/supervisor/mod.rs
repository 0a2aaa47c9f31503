//! The supervisor: one actor that decides which job starts next, starts each under an actor
//! of its own, and outlives the failure of any of them.
//!
//! The door is [`Supervisor`]. Who waits and who may start is decided in `queue/`, who is
//! freed in `retention.rs`, and when the system stalls too much for another start in
//! `pressure.rs`; all are pure. `registry.rs` keeps who is known, `freed.rs` who was, and
//! `sampler.rs` looks at the system. `spending/` counts CPU time and starts of tenants;
//! `control.rs` is for whoever runs the server.
//!
//! Should the actor fail after all, the warden (`warden.rs`) starts a new one, which takes over
//! what is known (`estate.rs`). Those who ask or tell reach whoever supervises (`address.rs`).

mod actor;
mod address;
mod control;
mod door;
mod estate;
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
#[cfg(test)]
mod tests;
mod warden;
mod watches;

pub use actor::SupervisorSettings;
pub use door::{Admission, AtEnd, FindError, Supervisor};
pub use freed::{Freed, Scope};
pub use pressure::{Levels, Pressure, PressureWatch, Resource, read_pressure};
pub use queue::{
    LaneLimits, LaneOverview, QueueLimits, QueueOverview, QueuePlace, TenantLimits, TenantOverview,
    UnknownLane, WaitsFor,
};
pub use refusal::{FullQueue, Refusal, TenantBound};
pub use retention::{Bounds, Retention};
