//! `stop`: ends jobs with their whole process trees.

use std::time::Duration;

use clap::Args;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::flags::parse_time;
use super::job_view::JobView;
use super::server_request::{ServerRequestError, send_post};
use super::server_set::{JobName, JobScopeFlags, ServerSet, parse_job_name};
use super::terminal::{Display, VerbOutput, format_with_causes, read_width, with_spinner};
use super::text_layout::wrap_text;
use super::wait::{OutageNotices, wait_for_end};
use crate::outcome::parse_signal;

/// The time that a job gets to end, on top of its grace period.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// Flags of the verb `stop`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct StopFlags {
    /// The jobs: numbers, or SERVER/NUMBER.
    #[arg(value_name = "JOB", required = true, value_parser = parse_job_name)]
    pub names: Vec<JobName>,
    /// The signal to send first, such as INT, SIGHUP or 9; the default is SIGTERM.
    #[arg(short, long, value_name = "SIGNAL", value_parser = parse_signal_name)]
    pub signal: Option<String>,
    /// The time until SIGKILL follows, such as 30s; the default is the server's.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub grace: Option<Duration>,
    /// Return at once, and not when the jobs have ended.
    #[arg(long)]
    pub no_wait: bool,
    #[command(flatten)]
    pub jobs: JobScopeFlags,
}

fn parse_signal_name(text: &str) -> Result<String, String> {
    let known = parse_signal(text).map(|_| text.to_owned());
    known.ok_or_else(|| "give the name or number of a signal, such as INT, SIGHUP or 9".to_owned())
}

impl StopFlags {
    fn request_body(&self) -> Value {
        let mut body = json!({});
        if let Some(signal) = &self.signal {
            body["signal"] = json!(signal);
        }
        if let Some(grace) = self.grace {
            body["grace_s"] = json!(grace.as_secs_f64());
        }
        body
    }
}

/// Stops all named jobs. A job that cannot be stopped does not keep the others running.
pub(super) async fn run(
    flags: &StopFlags,
    servers: &ServerSet,
    display: &Display,
) -> Result<VerbOutput, ServerRequestError> {
    let notices = OutageNotices::with_spinner(display);
    let stops = join_all(flags.names.iter().map(|name| stop(flags, servers, name, &notices)));
    let mut results = with_spinner(display, "stopping", stops).await;
    if results.len() == 1
        && let Some(Err(error)) = results.pop_if(|result| result.is_err())
    {
        return Err(error);
    }
    let code = u8::from(results.iter().any(Result::is_err));
    if flags.jobs.server.json {
        let jobs = results.iter().zip(&flags.names).map(|(result, name)| match result {
            Ok(stopped) => stopped.state.clone(),
            Err(error) => json!({ "name": name.to_string(), "error": error_fields(error) }),
        });
        let jobs: Vec<Value> = jobs.collect();
        return Ok(VerbOutput::json(&json!({ "jobs": jobs }), code));
    }
    let mut output = VerbOutput::exit_code(code);
    for (result, name) in results.iter().zip(&flags.names) {
        match result {
            Ok(stopped) => {
                let width = read_width(&std::io::stdout());
                output.stdout.push_str(&stopped.format(width, display.has_colors));
            }
            Err(error) => {
                let text = format_with_causes(error);
                output.stderr.push_str(&format!("shellyard: {name}: {text}\n"));
            }
        }
    }
    Ok(output)
}

fn error_fields(error: &ServerRequestError) -> Value {
    json!({ "code": error.code(), "message": format_with_causes(error) })
}

/// A job after the request to stop it.
struct StopResult {
    name: String,
    was_finished: bool,
    state: Value,
}

impl StopResult {
    /// Formats the result as `3: stopped by a client; tree ended (SIGTERM)`.
    fn format(&self, width: Option<usize>, has_colors: bool) -> String {
        let view = JobView(&self.state);
        let cell = view.state_cell();
        let text = match (self.was_finished, view.explain_end()) {
            (true, _) => format!("had already finished ({})", cell.text),
            (false, Some(why)) => why,
            (false, None) => cell.text,
        };
        // Sequences have no width, so that colours come last.
        let wrapped = wrap_text(&format!("{}: {text}", self.name), width);
        let start = self.name.len() + ": ".len();
        let (name, text) = wrapped.split_at(start.min(wrapped.len()));
        format!("{name}{}\n", cell.tone.paint(text, has_colors))
    }
}

async fn stop(
    flags: &StopFlags,
    servers: &ServerSet,
    name: &JobName,
    notices: &OutageNotices,
) -> Result<StopResult, ServerRequestError> {
    let job = servers.find_job(name, flags.jobs.scope()).await?;
    let was_finished = JobView(&job.state).is_finished();
    let url = job.url("/stop", &[]);
    let mut state = send_post(&job.server.client, &url, &flags.request_body()).await?;
    if !flags.no_wait && !JobView(&state).is_finished() {
        let grace = flags.grace.unwrap_or_default();
        let deadline = Instant::now() + grace + END_TIMEOUT;
        state = wait_for_end(&job, Some(deadline), notices).await?;
    }
    Ok(StopResult { name: job.name, was_finished, state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_job_is_told_from_a_stopped_one() {
        let stopped = |was_finished, state| {
            StopResult { name: "3".into(), was_finished, state }.format(None, false)
        };
        let exited = json!({"state": "finished", "outcome": "exited", "exit_code": 0});
        assert_eq!(stopped(true, exited), "3: had already finished (exit 0)\n");
        let ended = json!({"state": "finished", "outcome": "stopped", "stopped_by": "client",
                           "killed": "tree ended (SIGTERM)"});
        assert_eq!(stopped(false, ended), "3: stopped by a client; tree ended (SIGTERM)\n");
        assert_eq!(stopped(false, json!({"state": "stopping"})), "3: stopping\n");
    }

    #[test]
    fn colours_do_not_take_room_on_a_line() {
        let state = json!({"state": "finished", "outcome": "stopped", "stopped_by": "client",
                           "killed": "tree ended (SIGTERM)"});
        let result = StopResult { name: "3".into(), was_finished: false, state };
        let plain = result.format(Some(40), false);
        assert!(
            plain.lines().count() == 2 && plain.lines().all(|line| line.len() <= 40),
            "{plain}"
        );
        let colored = result.format(Some(40), true);
        let (name, text) = colored.split_at(3);
        assert!(name == "3: " && text.starts_with('\u{1b}'), "{colored:?}");
        let sequences = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
        assert_eq!(sequences.replace_all(&colored, ""), plain);
    }
}
