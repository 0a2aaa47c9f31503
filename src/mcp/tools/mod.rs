//! The six tools, one file each: arguments in, facts for an answer out.

mod call;
pub(super) mod list_jobs;
pub(super) mod read_output;
pub(super) mod run_command;
mod search;
pub(super) mod send_input;
pub(super) mod stop_jobs;
pub(super) mod wait_jobs;

pub(super) use call::{Call, Response, WaitEnd, answer_of, wait_for};
pub(super) use run_command::answer_about;

pub(crate) use call::Turn;
