//! The supervisor: one actor that decides which job starts next, starts each under an actor
//! of its own, and outlives the failure of any of them.
//!
//! The door is [`Supervisor`]. Who waits and who may start is decided in `queue.rs`, who is
//! known and who is forgotten in `registry.rs`; both are pure.

mod actor;
mod door;
mod queue;
mod registry;

pub use actor::SupervisorSettings;
pub use door::{Admission, Refusal, Supervisor};
pub use queue::{QueueLimits, QueuePlace};
