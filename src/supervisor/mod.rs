//! The supervisor: one actor that decides which job starts next, starts each under an actor
//! of its own, and outlives the failure of any of them.
//!
//! The door is [`Supervisor`]. Who waits and who may start is decided in `queue.rs`, who is
//! freed in `retention.rs`; both are pure. `registry.rs` keeps who is known, `freed.rs` who was.

mod actor;
mod door;
mod freed;
mod queue;
mod registry;
mod retention;

pub use actor::SupervisorSettings;
pub use door::{Admission, FindError, Refusal, Supervisor};
pub use freed::{Freed, Scope};
pub use queue::{QueueLimits, QueuePlace};
pub use retention::{Bounds, Retention};
