//! `drain`: the server refuses new jobs and finishes the accepted ones.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::pause::{describe_remaining_pause, format_counts};
use super::server_request::{ConnectFlags, ServerRequestError, get, send_post};
use super::terminal::{ASKING, Display, VerbOutput, with_spinner};
use crate::client::ServerClient;

/// The time between two requests for the state of a draining server.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Flags of the verb `drain`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct DrainFlags {
    /// Accept new jobs again.
    #[arg(long, conflicts_with_all = ["exit", "wait"])]
    pub undo: bool,
    /// End the server when no job is queued or running.
    #[arg(long)]
    pub exit: bool,
    /// Return when no job is queued or running; with --exit, when the server has ended.
    #[arg(long)]
    pub wait: bool,
    #[command(flatten)]
    pub server: ConnectFlags,
}

/// Drains the server, or undoes a drain.
pub(super) async fn run(
    flags: &DrainFlags,
    client: &ServerClient,
    display: &Display,
) -> Result<VerbOutput, ServerRequestError> {
    let body = json!({ "undo": flags.undo, "exit": flags.exit });
    let answer = send_post(client, "/api/v1/drain", &body);
    let queue = with_spinner(display, ASKING, answer).await?;
    if !flags.wait {
        return Ok(flags
            .server
            .success_output(&queue, || message_output(&format_first_message(flags, &queue))));
    }
    if !flags.server.json {
        // The wait may be long, so the first message is printed at once.
        message_output(&format_first_message(flags, &queue)).print();
    }
    let waiting = with_spinner(display, "waiting for the last job", wait(flags, client, queue));
    let (last, words) = match waiting.await? {
        DrainEnd::Empty(queue) => (queue, "no job is queued or running any more"),
        DrainEnd::ServerGone(queue) => (queue, "the server has ended"),
    };
    Ok(flags.server.success_output(&last, || message_output(words)))
}

/// The end of the wait, with the last state of the queue.
enum DrainEnd {
    Empty(Value),
    ServerGone(Value),
}

async fn wait(
    flags: &DrainFlags,
    client: &ServerClient,
    mut queue: Value,
) -> Result<DrainEnd, ServerRequestError> {
    loop {
        if queue["draining"] != true {
            return Err(ServerRequestError::DrainUndone { target: client.target().to_string() });
        }
        if !flags.exit && queue["running"] == 0 && queue["queued"] == 0 {
            return Ok(DrainEnd::Empty(queue));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        queue = match get(client, "/api/v1/queue").await {
            Ok(queue) => queue,
            Err(error) if flags.exit && error.is_gone() => return Ok(DrainEnd::ServerGone(queue)),
            Err(error) => return Err(error),
        };
    }
}

fn format_first_message(flags: &DrainFlags, queue: &Value) -> String {
    let counts = format_counts(queue);
    if flags.undo {
        return format!("new jobs are accepted again ({counts})");
    }
    let mut message = format!("new jobs are refused ({counts})");
    if flags.exit {
        message.push_str("; the server ends when no job is queued or running");
    }
    if queue["queued"] != 0
        && let Some(paused) = describe_remaining_pause(queue)
    {
        message.push_str(&format!("; {paused}"));
    }
    format!("{message}; `shellyard drain --undo` undoes the drain")
}

fn message_output(message: &str) -> VerbOutput {
    VerbOutput { stderr: format!("{message}\n"), ..VerbOutput::default() }
}
