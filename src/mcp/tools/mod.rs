//! The six tools, one file each: arguments in, facts for an answer out.

mod call;
mod catalogue;
mod confinement;
mod grep;
mod list_jobs;
mod place;
mod read_output;
mod response;
mod run_command;
mod send_input;
mod stop_jobs;
mod until;
mod wait_event;
mod wait_jobs;

pub(super) use call::Call;
pub(super) use catalogue::ToolName;
pub(super) use response::Response;
pub(super) use run_command::answer_about;
