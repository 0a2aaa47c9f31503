//! One actor per job: it starts the process, follows it, ends it, and tells how it went.
//!
//! The door is [`JobHandle`]. Status is a `watch` and output is a reader, so both work while
//! the actor is busy and after it is gone; only wishes (stop, input) go through its mailbox.
//! What a job does next is decided by the pure function in `state.rs`; `actor.rs` translates
//! messages into events and effects into acts; `pump.rs` moves bytes from the pipes into the log,
//! and `flood.rs` has a thread do so while there are many.

mod actor;
mod address;
mod birth;
mod exit;
mod feed;
mod flood;
mod following;
mod handle;
mod input;
mod last_look;
mod launch;
mod midwife;
mod overuse;
mod probe;
mod pump;
mod seat;
mod span;
mod state;
mod status;
mod tap;
#[cfg(test)]
pub(crate) mod tests;
mod timers;
mod typing;
mod variables;
mod watchdog;

pub use actor::JobSettings;
pub use handle::{JobHandle, StopWish};
pub use input::{Input, InputEnd, InputError, Key};
pub use seat::{JobSeat, Order, create};
pub use status::{Liveness, Phase, Status};
pub use variables::Variables;
