//! `run --queue`: submits the command to a running server, follows its output and returns its exit
//! code.

use hyper::header::HeaderValue;
use serde_json::{Map, Value, json};

use super::attach::{SessionEnd, SessionSettings, describe_ended_job, run_session};
use super::job_view::{OUR_FAILURE, TRY_LATER, signal_exit_code};
use super::run::RunFlags;
use super::server_request::{ServerRequestError, send_post};
use super::server_set::{FoundJob, FoundServer, ServerLabel};
use super::terminal::{Display, VerbOutput, format_with_causes, read_terminal_size, with_spinner};
use crate::client::ServerClient;

/// The name by which lists show jobs of this verb.
const USER_AGENT: &str = concat!("shellyard-run/", env!("CARGO_PKG_VERSION"));

/// Submits the command, and follows the job unless it is detached. Returns the exit code.
pub async fn run(flags: &RunFlags, client: ServerClient, display: &Display) -> u8 {
    let submitting = with_spinner(display, "submitting the job", submit(flags, client, display));
    let output = match submitting.await {
        Ok(job) if flags.queue.detach => Ok(VerbOutput::result(format!("{}\n", job.number))),
        Ok(job) => follow(&job, display).await,
        Err(error) => Err(error),
    };
    let output = output.unwrap_or_else(|error| VerbOutput {
        code: match error.code() {
            "queue_full" | "tenant_limit" | "rate_limited" => TRY_LATER,
            _ => OUR_FAILURE,
        },
        ..VerbOutput::failure(&format_with_causes(&error))
    });
    output.print()
}

async fn submit(
    flags: &RunFlags,
    client: ServerClient,
    display: &Display,
) -> Result<FoundJob, ServerRequestError> {
    let is_local = client.target().is_local();
    let client = client.with_header("user-agent", HeaderValue::from_static(USER_AGENT));
    let state = send_post(&client, "/api/v1/jobs", &job_fields(flags, is_local, display)).await?;
    let number = state["job"].to_string();
    let server = FoundServer { name: ServerLabel::Given, client };
    Ok(FoundJob { server, name: number.clone(), number, tenant: None, state })
}

/// Returns the request. A server on this machine runs the command in our own directory.
fn job_fields(flags: &RunFlags, is_local: bool, display: &Display) -> Value {
    let mut fields = Map::new();
    let mut words = flags.words.iter();
    if flags.shell {
        fields.insert("command".into(), flags.words.join(" ").into());
    } else {
        fields.insert("program".into(), words.next().cloned().unwrap_or_default().into());
        fields.insert("args".into(), words.cloned().collect::<Vec<_>>().into());
    }
    let directory = match &flags.cwd {
        Some(directory) => Some(directory.clone()),
        None if is_local => std::env::current_dir().ok(),
        None => None,
    };
    let directory = directory.map(|path| std::path::absolute(&path).unwrap_or(path));
    let limits = flags.confine.limit_fields();
    let size = read_terminal_size();
    let has_terminal = flags.wants_terminal(display);
    let optional = [
        ("directory", directory.map(|path| json!(path.to_string_lossy()))),
        ("env", (!flags.env.is_empty()).then(|| flags.env.iter().cloned().collect::<Value>())),
        ("timeout_s", flags.timeout.map(|time| json!(time.as_secs_f64()))),
        ("stdin", flags.queue.detach.then(|| json!(""))),
        ("terminal", has_terminal.then_some(Value::Bool(true))),
        ("rows", has_terminal.then(|| json!(size.rows))),
        ("columns", has_terminal.then(|| json!(size.columns))),
        ("lane", flags.queue.lane.as_ref().map(|text| json!(text))),
        ("priority", flags.queue.priority.as_ref().map(|text| json!(text))),
        ("key", flags.queue.key.as_ref().map(|text| json!(text))),
        ("description", flags.queue.description.as_ref().map(|text| json!(text))),
        ("confinement", flags.confine.confinement.as_ref().map(|text| json!(text))),
        ("network", flags.confine.network.as_ref().map(|text| json!(text))),
        ("limits", (!limits.is_empty()).then(|| limits.into())),
    ];
    let given = optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    fields.extend(given);
    Value::Object(fields)
}

/// Shows the output of the job until it ends, and returns its exit code. Ctrl-C stops the job.
async fn follow(job: &FoundJob, display: &Display) -> Result<VerbOutput, ServerRequestError> {
    let is_raw = job.state["terminal"] == true && display.is_terminal && display.has_keyboard;
    let settings = SessionSettings {
        is_raw,
        has_input: true,
        redraws: false,
        detach_keys: None,
        tail: None,
        stops_job: true,
    };
    match run_session(job, &settings, display).await? {
        SessionEnd::JobEnded | SessionEnd::Detached => describe_ended_job(job, false).await,
        SessionEnd::Signaled(signal) => {
            let name = &job.name;
            let message = format!(
                "job {name} may go on; `shellyard logs {name}` and `shellyard stop {name}` reach it when its server is back"
            );
            Ok(VerbOutput { code: signal_exit_code(signal), ..VerbOutput::failure(&message) })
        }
        SessionEnd::ReaderGone => {
            // Nobody reads the output, so the command gets the signal that tells it so.
            let body = json!({ "signal": "SIGPIPE" });
            send_post(&job.server.client, &job.url("/stop", &[]), &body).await?;
            Ok(VerbOutput::exit_code(signal_exit_code(libc::SIGPIPE)))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::{Cli, Command};
    use super::*;

    fn fields(line: &str) -> Value {
        let Command::Run(flags) = Cli::try_parse_from(line.split_whitespace()).unwrap().command
        else {
            panic!("not run")
        };
        job_fields(&flags, false, &Display::default())
    }

    #[test]
    fn a_request_has_what_the_flags_say() {
        assert_eq!(fields("shellyard run -q ls -la"), json!({"program": "ls", "args": ["-la"]}));
        let line = "shellyard run --queue --shell --timeout 10m --env A=b --lane build --key k \
                    --priority high --memory 2G --cpu 1m -- make all";
        let expected = json!({
            "command": "make all", "timeout_s": 600.0, "env": {"A": "b"}, "lane": "build",
            "key": "k", "priority": "high", "limits": {"memory": "2G", "cpu_s": 60},
        });
        assert_eq!(fields(line), expected);
        let detached = fields("shellyard run -qd --cwd /x true");
        assert_eq!((&detached["stdin"], &detached["directory"]), (&json!(""), &json!("/x")));
    }
}
