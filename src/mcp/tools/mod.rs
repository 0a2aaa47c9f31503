//! The six native tools, one file each; `call`, `job_wait` and `search` hold what they share:
//! arguments in, facts for a reply out.

mod call;
mod job_wait;
pub(super) mod list_jobs;
pub(super) mod read_output;
pub(super) mod run_command;
mod search;
pub(super) mod send_input;
pub(super) mod stop_jobs;
mod typed_echo;
pub(super) mod wait_jobs;

pub(super) use call::{
    CancelEffect, LongRuns, ProgressSender, ToolCall, ToolResponse, WaitEnd, reply_or_failure,
    wait_for, wait_with_progress,
};
pub(super) use run_command::{CallFacts, read_terms, reply_about_job, type_in};

pub(crate) use call::CallTurn;
