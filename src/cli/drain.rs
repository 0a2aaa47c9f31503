//! `drain`: no new jobs, and the end of those that there are.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::pause::{counts, still_paused};
use super::server_request::{ConnectFlags, ServerRequestError, get, post};
use super::terminal::VerbOutput;
use crate::client::ServerClient;

/// The time between two looks at a server that drains.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Flags of `drain`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct DrainFlags {
    /// Take new jobs again.
    #[arg(long, conflicts_with_all = ["exit", "wait"])]
    pub undo: bool,
    /// End the server once nothing waits or runs.
    #[arg(long)]
    pub exit: bool,
    /// Return when nothing waits or runs; with --exit, when the server has ended.
    #[arg(long)]
    pub wait: bool,
    /// Which server is asked.
    #[command(flatten)]
    pub server: ConnectFlags,
}

/// Drains the server, or undoes that.
pub(super) async fn run(
    flags: &DrainFlags,
    client: &ServerClient,
) -> Result<VerbOutput, ServerRequestError> {
    let wish = json!({ "undo": flags.undo, "exit": flags.exit });
    let queue = post(client, "/api/v1/drain", &wish).await?;
    if !flags.wait {
        return Ok(flags.server.success(&queue, || told(&begun(flags, &queue))));
    }
    if !flags.server.json {
        // The wait may be long.
        told(&begun(flags, &queue)).print();
    }
    let (last, words) = match wait(flags, client, queue).await? {
        End::Empty(queue) => (queue, "nothing waits or runs any more"),
        End::Gone(queue) => (queue, "the server has ended"),
    };
    Ok(flags.server.success(&last, || told(words)))
}

/// How the wait came to an end, with the last that was seen of the queue.
enum End {
    Empty(Value),
    Gone(Value),
}

async fn wait(
    flags: &DrainFlags,
    client: &ServerClient,
    mut queue: Value,
) -> Result<End, ServerRequestError> {
    loop {
        if queue["draining"] != true {
            return Err(ServerRequestError::Undone { target: client.target().to_string() });
        }
        if !flags.exit && queue["running"] == 0 && queue["queued"] == 0 {
            return Ok(End::Empty(queue));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
        queue = match get(client, "/api/v1/queue").await {
            Ok(queue) => queue,
            Err(error) if flags.exit && error.is_gone() => return Ok(End::Gone(queue)),
            Err(error) => return Err(error),
        };
    }
}

fn begun(flags: &DrainFlags, queue: &Value) -> String {
    let counts = counts(queue);
    if flags.undo {
        return format!("new jobs are taken again ({counts})");
    }
    let mut words = format!("no new jobs are taken ({counts})");
    if flags.exit {
        words.push_str("; the server ends when nothing waits or runs");
    }
    if queue["queued"] != 0
        && let Some(paused) = still_paused(queue)
    {
        words.push_str(&format!("; {paused}"));
    }
    format!("{words}; `shellyard drain --undo` takes it back")
}

fn told(words: &str) -> VerbOutput {
    VerbOutput { stderr: format!("{words}\n"), ..VerbOutput::default() }
}
