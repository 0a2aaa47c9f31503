//! Commands that a rule wants somebody's yes for.
//!
//! ```text
//! legacy   elicitation/create while the call waits          → submit, or a refusal
//! modern   input_required, the call comes again with a yes  → submit, or a refusal
//! modern   a task that is input_required, tasks/update      → the same, for clients that know tasks
//! others   the refusal says how to allow the command
//! ```
//!
//! The yard judges the command again when the yes comes, and takes it for that very command alone.

mod submit;
mod way;

pub(super) use submit::{Answered, submit};
