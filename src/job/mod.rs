//! One actor per job: it starts the process, follows it, ends it, and publishes its outcome.
//!
//! The public handle is [`JobHandle`]. Status is a `watch` and output is a reader, so both work
//! while the actor is busy and after it is gone; only requests (stop, input) go through its
//! mailbox. What a job does next is decided by the pure function in `state.rs`; `actor.rs`
//! translates messages into events and effects into actions; `output_pump.rs` moves bytes from the
//! pipes into the log, on a thread of its own while there are many. `JobGuard` owns a job and is
//! handed over from the supervisor to the job's actor.

mod actor;
mod gate_events;
mod handle;
mod job_guard;
mod messages;
mod output_pump;
mod overuse;
mod standard_streams;
mod start;
mod state;
#[cfg(test)]
pub(crate) mod tests;
mod watchdog;

pub use handle::{
    JobHandle, JobPhase, JobStatus, JobTimes, Liveness, RefusedStarts, StopReceipt, StopRequest,
    StreamError, measure_cpu,
};
pub use job_guard::{
    JobGuard, accepted_record, create_job, ended_record, keep_name, log_name, restore_finished_job,
    restore_open_job, starting_record,
};
pub use messages::PumpGate;
pub use standard_streams::{InputError, InputReceipt, JobInput, KeyPress, PromptRule, StdinEnd};
pub use start::{JobVariables, SharedJobSettings};
pub use watchdog::Watchdog;
