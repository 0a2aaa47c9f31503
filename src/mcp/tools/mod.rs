//! The six native tools, one file each: arguments in, facts for a reply out. `call` and `search` hold
//! what they share; `run_command` uses the wait in `wait_jobs`.

mod call;
pub(super) mod list_jobs;
pub(super) mod read_output;
pub(super) mod run_command;
mod search;
pub(super) mod send_input;
pub(super) mod stop_jobs;
pub(super) mod wait_jobs;

pub(super) use call::{
    CancelEffect, LongRuns, ProgressSender, ToolCall, ToolResponse, WaitEnd, reply_or_failure,
    wait_for, wait_with_progress,
};
pub(super) use run_command::{CallFacts, read_terms, reply_about_job, type_in};

pub(crate) use call::{CallTurn, CancelNotice, CancelReason};
