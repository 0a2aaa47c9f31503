//! `wait`: returns when jobs have ended, with the exit code of the first that failed.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use futures_util::future::{join_all, try_join_all};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::flags::parse_time;
use super::job_connection::{LOST_MESSAGE, ServerOutage, get_same_job, next_retry};
use super::job_view::{JobView, OUR_FAILURE, TIMED_OUT};
use super::server_request::ServerRequestError;
use super::server_set::{FoundJob, JobName, JobScopeFlags, ServerSet, parse_job_name};
use super::terminal::{Display, VerbOutput, clear_spinner, print_message, with_spinner};
use super::text_layout::Tone;

/// The time that one request waits, in seconds: less than a response may take.
const REQUEST_WAIT_S: u64 = 15;

const HELP: &str = "\
Exit codes: of the job, or of several jobs the first that is not 0: the command's own; 124 if it
timed out (or --timeout passed), 125 if it reached a limit or was lost, 126 or 127 if it could not
be started, 128+N if signal N ended it: 143 after an ordinary stop, 137 if SIGKILL had to follow.
1 if a server cannot be asked.";

/// Flags of the verb `wait`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(after_help = HELP)]
pub struct WaitFlags {
    /// The jobs: numbers, or SERVER/NUMBER.
    #[arg(value_name = "JOB", required = true, value_parser = parse_job_name)]
    pub names: Vec<JobName>,
    /// Give up after this time, such as 10m; the jobs go on.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub timeout: Option<Duration>,
    #[command(flatten)]
    pub jobs: JobScopeFlags,
}

/// Waits until all named jobs have ended.
pub(super) async fn run(
    flags: &WaitFlags,
    servers: &ServerSet,
    display: &Display,
) -> Result<VerbOutput, ServerRequestError> {
    let found = flags.names.iter().map(|name| servers.find_job(name, flags.jobs.scope()));
    let jobs = try_join_all(found).await?;
    let deadline = flags.timeout.map(|time| Instant::now() + time);
    let label = if jobs.len() == 1 { "waiting for the job" } else { "waiting for the jobs" };
    let notices = OutageNotices::with_spinner(display);
    let waits = join_all(jobs.iter().map(|job| wait_for_end(job, deadline, &notices)));
    let ends = with_spinner(display, label, waits).await;
    let mut states = Vec::new();
    for end in ends {
        states.push(end?);
    }
    let code = states.iter().map(exit_code).find(|code| *code != 0).unwrap_or(0);
    if flags.jobs.server.json {
        return Ok(VerbOutput::json(&json!({ "jobs": states, "exit_code": code }), code));
    }
    let lines = jobs.iter().zip(&states);
    let stdout = lines.map(|(job, state)| format_end(job, state, display)).collect();
    Ok(VerbOutput { code, ..VerbOutput::result(stdout) })
}

fn exit_code(state: &Value) -> u8 {
    let view = JobView(state);
    let is_finished = view.is_finished();
    view.exit_code().unwrap_or(if is_finished { OUR_FAILURE } else { TIMED_OUT })
}

/// Formats the end of a job as `3: exit 0 after 1.2s`.
fn format_end(job: &FoundJob, state: &Value, display: &Display) -> String {
    let view = JobView(state);
    let cell = view.state_cell();
    let tone = if view.is_finished() { cell.tone } else { Tone::Warning };
    let state = match view.explain_end() {
        Some(why) => why,
        None if view.is_finished() => format!("{} after {}", cell.text, view.elapsed()),
        None => format!("still {}", cell.text),
    };
    format!("{}: {}\n", job.name, tone.paint(&state, display.has_colors))
}

/// The messages about servers that are away, one for all jobs of a server.
#[derive(Debug, Default)]
pub(super) struct OutageNotices {
    /// A spinner may stand in the line of the next message.
    has_spinner: bool,
    /// The addresses of the servers that are away.
    away: Mutex<BTreeSet<String>>,
}

impl OutageNotices {
    /// Messages for a verb that waits with a spinner.
    pub(super) fn with_spinner(display: &Display) -> Self {
        Self { has_spinner: display.has_messages, ..Self::default() }
    }

    fn print_outage(&self, job: &FoundJob) {
        if self.note_away(&job.server.target()) {
            self.print(LOST_MESSAGE);
        }
    }

    fn print_return(&self, job: &FoundJob) {
        if self.note_back(&job.server.target()) {
            self.print("the server is back");
        }
    }

    /// Returns `true` if this is news.
    fn note_away(&self, target: &str) -> bool {
        self.away.lock().unwrap_or_else(PoisonError::into_inner).insert(target.to_owned())
    }

    /// Returns `true` if this is news.
    fn note_back(&self, target: &str) -> bool {
        self.away.lock().unwrap_or_else(PoisonError::into_inner).remove(target)
    }

    fn print(&self, message: &str) {
        if self.has_spinner {
            clear_spinner();
        }
        print_message(message);
    }
}

/// Returns the state of a job once it has ended, or at the deadline. A server may go away for a
/// moment: jobs of a durable server outlive its restart.
pub(super) async fn wait_for_end(
    job: &FoundJob,
    deadline: Option<Instant>,
    notices: &OutageNotices,
) -> Result<Value, ServerRequestError> {
    let mut outage = ServerOutage::default();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let wait_s = left.map_or(REQUEST_WAIT_S, |left| left.as_secs().min(REQUEST_WAIT_S));
        let rest = match get_same_job(job, &[("wait_s", wait_s.to_string())]).await {
            Ok(state) if JobView(&state).is_finished() => return Ok(state),
            Ok(state) if left.is_some_and(|left| left.is_zero()) => return Ok(state),
            Ok(_) => {
                if outage.end() {
                    notices.print_return(job);
                }
                // Whole seconds are waited by the server, and the rest here.
                if wait_s == 0 { left.unwrap_or_default() } else { Duration::ZERO }
            }
            Err(error) if left.is_some_and(|left| left.is_zero()) => return Err(error),
            Err(error) => {
                let retry = next_retry(job, error, &mut outage)?;
                if retry.announce {
                    notices.print_outage(job);
                }
                retry.pause
            }
        };
        sleep(left.map_or(rest, |left| rest.min(left))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_one_server_share_its_messages() {
        let notices = OutageNotices::default();
        assert!(notices.note_away("a") && !notices.note_away("a") && notices.note_away("b"));
        assert!(notices.note_back("a") && !notices.note_back("a"));
    }

    #[test]
    fn a_job_that_still_runs_counts_as_timed_out() {
        assert_eq!(exit_code(&json!({"state": "running"})), 124);
        assert_eq!(exit_code(&json!({"state": "finished"})), 125);
        let ended = json!({"state": "finished", "outcome": "exited", "exit_code": 7});
        assert_eq!(exit_code(&ended), 7);
    }
}
