//! `pause` and `resume`: whether jobs start, in one lane or at all.

use clap::Args;
use serde_json::{Value, json};

use super::server_request::{ConnectFlags, ServerRequestError, post};
use super::terminal::VerbOutput;
use crate::client::ServerClient;

/// Flags of `pause` and `resume`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct LaneFlags {
    /// This lane alone; jobs that name no lane are in `default`.
    #[arg(long, value_name = "LANE")]
    pub lane: Option<String>,
    /// Which server is asked.
    #[command(flatten)]
    pub server: ConnectFlags,
}

impl LaneFlags {
    fn wish(&self) -> Value {
        self.lane.as_ref().map_or_else(|| json!({}), |lane| json!({ "lane": lane }))
    }

    /// What it is about, in words and in flags.
    fn what(&self) -> (String, String) {
        match &self.lane {
            None => ("the queue".to_owned(), String::new()),
            Some(lane) => (format!("lane {lane}"), format!(" --lane {lane}")),
        }
    }
}

/// Starts no more jobs.
pub(super) async fn pause(
    flags: &LaneFlags,
    client: &ServerClient,
) -> Result<VerbOutput, ServerRequestError> {
    let queue = post(client, "/api/v1/queue/pause", &flags.wish()).await?;
    let (what, flag) = flags.what();
    let after = format!("what runs goes on; `shellyard resume{flag}` starts jobs again");
    Ok(flags.server.success(&queue, || told(&format!("{what} is paused"), &queue, &after)))
}

/// Starts jobs again.
pub(super) async fn resume(
    flags: &LaneFlags,
    client: &ServerClient,
) -> Result<VerbOutput, ServerRequestError> {
    let queue = post(client, "/api/v1/queue/resume", &flags.wish()).await?;
    let (what, _) = flags.what();
    let after = still_paused(&queue).unwrap_or_else(|| "jobs start again".to_owned());
    Ok(flags.server.success(&queue, || told(&format!("{what} is resumed"), &queue, &after)))
}

/// What is still paused, and how that ends.
pub(super) fn still_paused(queue: &Value) -> Option<String> {
    if queue["paused"] == true {
        return Some("the queue is still paused: `shellyard resume`".to_owned());
    }
    let lanes = queue["lanes"].as_object()?;
    let (lane, _) = lanes.iter().find(|(_, lane)| lane["paused"] == true)?;
    Some(format!("lane {lane} is still paused: `shellyard resume --lane {lane}`"))
}

fn told(done: &str, queue: &Value, after: &str) -> VerbOutput {
    VerbOutput { stderr: format!("{done} ({}); {after}\n", counts(queue)), ..VerbOutput::default() }
}

/// `1 running, 2 queued`.
pub(super) fn counts(queue: &Value) -> String {
    format!("{} running, {} queued", queue["running"], queue["queued"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_still_paused_is_named_with_the_way_out() {
        let queue = |all: bool, build: bool| {
            let lanes = json!({"build": {"paused": build}, "default": {"paused": false}});
            json!({"paused": all, "lanes": lanes})
        };
        assert_eq!(still_paused(&queue(false, false)), None);
        assert!(still_paused(&queue(true, true)).unwrap().contains("the queue"));
        assert!(still_paused(&queue(false, true)).unwrap().contains("resume --lane build"));
    }
}
