//! `attach`: the terminal of a running job in the user's own, until the job ends or the user detaches.

use clap::Args;
use serde_json::json;

use super::detach_keys::{DetachKeys, parse_detach_keys};
use super::display::Display;
use super::exit_code::{OUR_FAILURE, signal_exit_code};
use super::job_name::{JobName, parse_job_name};
use super::job_verb::ASKING;
use super::job_view::JobView;
use super::server_request::ServerRequestError;
use super::server_set::{FoundJob, JobScopeFlags, ServerSet};
use super::session::{SessionEnd, SessionSettings, run_session};
use super::spinner::with_spinner;
use super::terminal::VerbOutput;
use super::wait::{OutageNotices, wait_for_end};

/// The number of earlier lines that are shown.
const EARLIER_LINES: u32 = 50;

const HELP: &str = "\
Keys go to the job; Ctrl-P Ctrl-Q detaches, and the job goes on. The exit code is that of the job,
or 0 after detaching. Start such a job with `shellyard run --queue COMMAND` on a terminal, or with
the argument tty of run_command.";

/// Flags of the verb `attach`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = HELP)]
pub struct AttachFlags {
    /// The job: its number, or SERVER/NUMBER.
    #[arg(value_name = "JOB", value_parser = parse_job_name)]
    pub job: JobName,
    /// The keys that detach, such as ctrl-] or ~,.
    #[arg(long, value_name = "KEYS", default_value = "ctrl-p,ctrl-q", value_parser = parse_detach_keys)]
    pub detach_keys: DetachKeys,
    /// Only watch; send nothing to the job.
    #[arg(long)]
    pub no_stdin: bool,
    #[command(flatten)]
    pub jobs: JobScopeFlags,
}

/// Connects the terminal with the job.
pub(super) async fn run(
    flags: &AttachFlags,
    servers: &ServerSet,
    display: &Display,
) -> Result<VerbOutput, ServerRequestError> {
    let finding = servers.find_job(&flags.job, flags.jobs.scope());
    let job = with_spinner(display, ASKING, finding).await?;
    let view = JobView(&job.state);
    if view.is_finished() {
        let state = view.state_cell().text;
        return Err(ServerRequestError::Unusable(format!(
            "job {0} has finished ({state}); `shellyard logs {0}` prints its output",
            job.name
        )));
    }
    let has_terminal = job.state["terminal"] == true;
    let settings = SessionSettings {
        is_raw: has_terminal && display.has_keyboard && display.is_terminal && !flags.no_stdin,
        has_input: !flags.no_stdin,
        redraws: true,
        detach_keys: Some(flags.detach_keys.clone()),
        tail: Some(EARLIER_LINES),
        stops_job: false,
    };
    let end = run_session(&job, &settings, display).await?;
    describe_end(&job, end, flags.jobs.server.json).await
}

/// Returns the exit code of the job if it ended, and what to do next if not.
async fn describe_end(
    job: &FoundJob,
    end: SessionEnd,
    is_json: bool,
) -> Result<VerbOutput, ServerRequestError> {
    let name = &job.name;
    let code = match end {
        SessionEnd::JobEnded => return describe_ended_job(job, is_json).await,
        SessionEnd::Detached => 0,
        SessionEnd::Signaled(signal) => signal_exit_code(signal),
        SessionEnd::ReaderGone => signal_exit_code(libc::SIGPIPE),
    };
    if is_json {
        let stdout = format!("{:#}\n", json!({ "detached": true }));
        return Ok(VerbOutput { stdout, stderr: String::new(), code });
    }
    let stderr = format!(
        "detached from job {name}, which goes on; `shellyard attach {name}` returns to it\n"
    );
    Ok(VerbOutput { stdout: String::new(), stderr, code })
}

/// Returns the exit code of a job that has just ended, and how it ended.
pub(super) async fn describe_ended_job(
    job: &FoundJob,
    is_json: bool,
) -> Result<VerbOutput, ServerRequestError> {
    let state = wait_for_end(job, None, &OutageNotices::default()).await?;
    let view = JobView(&state);
    let code = view.exit_code().unwrap_or(OUR_FAILURE);
    if is_json {
        return Ok(VerbOutput { stdout: format!("{state:#}\n"), stderr: String::new(), code });
    }
    let why = view.explain_end();
    let stderr = why.map(|why| format!("shellyard: job {}: {why}\n", job.name));
    Ok(VerbOutput { stdout: String::new(), stderr: stderr.unwrap_or_default(), code })
}
