//! The six native tools, one file each; `call` and `search` hold what they share, and
//! `wait_jobs` has the wait of `run_command` too: arguments in, facts for a reply out.

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
