//! One actor per job: it starts the process, follows it, ends it, and publishes its outcome.
//!
//! The public handle is [`JobHandle`]. Status is a `watch` and output is a reader, so both work
//! while the actor is busy and after it is gone; only requests (stop, input) go through its
//! mailbox. What a job does next is decided by the pure function in `state.rs`; `actor.rs`
//! translates messages into events and effects into actions; `output_pump.rs` moves bytes from the
//! pipes into the log, and `flood.rs` does so on a thread of its own while there are many.

mod actor;
mod flood;
mod follow;
mod handle;
mod input_wait;
mod job_guard;
mod messages;
mod output_pump;
mod overuse;
mod pipe_reader;
mod pump_gate;
mod records;
mod start;
mod state;
mod stdin_writer;
#[cfg(test)]
pub(crate) mod tests;
mod timers;
mod watchdog;

pub use actor::SharedJobSettings;
pub use handle::{
    JobHandle, JobPhase, JobStatus, JobTimes, Liveness, StopRequest, StreamError, measure_cpu,
};
pub use input_wait::PromptRule;
pub use job_guard::{
    JobGuard, PreviousEnd, create_job, keep_name, log_name, restore_finished_job, restore_open_job,
};
pub use pump_gate::PumpGate;
pub use records::{accepted_record, ended_record, starting_record};
pub use start::JobVariables;
pub use stdin_writer::{InputError, InputReceipt, JobInput, KeyPress, StdinEnd};
pub use watchdog::Watchdog;
