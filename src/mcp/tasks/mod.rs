//! Tasks (`io.modelcontextprotocol/tasks`): a call that goes on after its answer.
//!
//! ```text
//! tools/call run_command ─ not over after the grace ─▶ CreateTaskResult (the id is a ticket of the job)
//! tasks/get     ticket → job → status, last line; once it is over, what the call would have answered
//! tasks/cancel  ticket → job → its whole tree is ended
//! tasks/update  the yes or no to a command that a rule wants to be asked; until then there is no job
//! ```
//!
//! Only clients of the modern era that declare the extension get one, and only from `run_command`:
//! the tools of other documents answer as those say. Nothing is kept for a task: it is its job,
//! or what becomes that job when somebody agrees, seen through a ticket that nobody can guess and that is good for one tenant alone. So it lives
//! as long as the job is kept, and any connection of its tenant may ask for it.

mod clock;
mod look;
mod parked;
mod serve;

pub(super) use look::created;
pub(super) use parked::created_parked;
pub(super) use serve::{are_known_to, cancel, get, update};
