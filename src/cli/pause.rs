//! `pause` and `resume`: hold queued jobs back, in one lane or in all, and start them again.

use clap::Args;
use serde_json::{Value, json};

use super::server_request::{ConnectFlags, ServerRequestError, send_post};
use super::terminal::VerbOutput;
use crate::client::ServerClient;

/// Flags of `pause` and `resume`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct LaneFlags {
    /// Only this lane; jobs that name no lane are in `default`.
    #[arg(long, value_name = "LANE")]
    pub lane: Option<String>,
    #[command(flatten)]
    pub server: ConnectFlags,
}

impl LaneFlags {
    fn request_body(&self) -> Value {
        self.lane.as_ref().map_or_else(|| json!({}), |lane| json!({ "lane": lane }))
    }

    /// Returns the part of the queue that the flags select, with its own counts.
    fn counts<'q>(&self, queue: &'q Value) -> &'q Value {
        self.lane.as_ref().map_or(queue, |lane| &queue["lanes"][lane])
    }

    /// Returns the name of the paused part of the queue, and the flag that selects it.
    fn target(&self) -> (String, String) {
        match &self.lane {
            None => ("the queue".to_owned(), String::new()),
            Some(lane) => (format!("lane {lane}"), format!(" --lane {lane}")),
        }
    }
}

/// Holds queued jobs back.
pub(super) async fn pause(
    flags: &LaneFlags,
    client: &ServerClient,
) -> Result<VerbOutput, ServerRequestError> {
    let queue = send_post(client, "/api/v1/queue/pause", &flags.request_body()).await?;
    let (target, flag) = flags.target();
    let advice = format!("running jobs continue; `shellyard resume{flag}` starts jobs again");
    let done = format!("{target} is paused");
    Ok(flags.server.success_output(&queue, || queue_message(&done, flags.counts(&queue), &advice)))
}

/// Starts queued jobs again.
pub(super) async fn resume(
    flags: &LaneFlags,
    client: &ServerClient,
) -> Result<VerbOutput, ServerRequestError> {
    let queue = send_post(client, "/api/v1/queue/resume", &flags.request_body()).await?;
    let (target, _) = flags.target();
    let advice = describe_remaining_pause(&queue).unwrap_or_else(|| "jobs start again".to_owned());
    let done = format!("{target} is resumed");
    Ok(flags.server.success_output(&queue, || queue_message(&done, flags.counts(&queue), &advice)))
}

/// Returns which part of the queue is still paused and the command that resumes it.
pub(super) fn describe_remaining_pause(queue: &Value) -> Option<String> {
    if queue["paused"] == true {
        return Some("the queue is still paused: `shellyard resume`".to_owned());
    }
    let lanes = queue["lanes"].as_object()?;
    let (lane, _) = lanes.iter().find(|(_, lane)| lane["paused"] == true)?;
    Some(format!("lane {lane} is still paused: `shellyard resume --lane {lane}`"))
}

fn queue_message(done: &str, counts: &Value, advice: &str) -> VerbOutput {
    let stderr = format!("{done} ({}); {advice}\n", format_counts(counts));
    VerbOutput { stderr, ..VerbOutput::default() }
}

/// Formats the counts of the queue or of a lane as `1 running, 2 queued`.
pub(super) fn format_counts(counts: &Value) -> String {
    format!("{} running, {} queued", counts["running"], counts["queued"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_still_paused_is_named_with_the_command_that_resumes_it() {
        let queue = |all: bool, build: bool| {
            let lanes = json!({"build": {"paused": build}, "default": {"paused": false}});
            json!({"paused": all, "lanes": lanes})
        };
        assert_eq!(describe_remaining_pause(&queue(false, false)), None);
        assert!(describe_remaining_pause(&queue(true, true)).unwrap().contains("the queue"));
        assert!(
            describe_remaining_pause(&queue(false, true)).unwrap().contains("resume --lane build")
        );
    }
}
