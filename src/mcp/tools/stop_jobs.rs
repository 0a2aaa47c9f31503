//! `stop_jobs`: ends the whole process tree of each job and reports the result.

use std::future::ready;
use std::time::Duration;

use futures_util::future::join_all;

use super::call::{ToolCall, wait_for};
use crate::ids::JobId;
use crate::mcp::args::{ArgError, ArgKind, ArgSpec, Args, ToolEffect, ToolSpec};
use crate::mcp::reply::{ReplyPart, ToolError, ToolReply, hint_after_stop};
use crate::outcome::{LivingProcesses, StopBy, parse_signal};
use crate::service::{FindError, JobHandle, StopRequest};

/// The time that a tree may take to end after SIGKILL.
const AFTER_KILL: Duration = Duration::from_secs(2);

/// The interval at which the surviving processes of an ended job are checked.
const SURVIVOR_CHECK_INTERVAL: Duration = Duration::from_millis(20);

pub(in crate::mcp) const SPEC: ToolSpec = ToolSpec {
    name: "stop_jobs",
    about: "Ends jobs with their whole process trees: the signal, then SIGKILL after grace_s. \
            Answers with what became of each. Their output stays readable.",
    effect: ToolEffect::Ends,
    fields: &[
        ArgSpec::required("jobs", ArgKind::Jobs, ""),
        ArgSpec::optional("signal", ArgKind::Text, "First signal (default SIGTERM)"),
        ArgSpec::with_empty("grace_s", ArgKind::Seconds, ""),
    ],
};

pub(in crate::mcp) async fn call(
    call: ToolCall<'_>,
    mut args: Args,
) -> Result<ToolReply, ToolError> {
    let jobs = args.jobs("jobs")?;
    if jobs.is_empty() {
        return Err(ArgError::Conflict("`jobs` is empty; name at least one, such as [12]").into());
    }
    let signal = args.text_or_number("signal")?.as_deref().map(read_signal).transpose()?;
    let stop_request = StopRequest { by: StopBy::Client, signal, grace: args.seconds("grace_s")? };
    let mut stopped = Vec::new();
    let mut missing = Vec::new();
    for job in jobs {
        match stop(call, call.client.job_id(job), stop_request).await {
            Ok(job) => stopped.push(job),
            Err(unknown) => missing.push(ReplyPart::for_missing(&unknown)),
        }
    }
    if stopped.is_empty() {
        return Ok(ToolReply::for_jobs(None, missing).with_failure());
    }
    let grace =
        stopped.iter().map(|it| stop_request.grace.unwrap_or(it.job.spec().limits.grace)).max();
    let limit = call.wait_limit(Some(grace.unwrap_or_default() + AFTER_KILL));
    let all_gone = join_all(stopped.iter().map(|it| wait_until_gone(&it.job)));
    wait_for(call, limit, all_gone, || ready("stopping".to_owned())).await;
    let mut parts = Vec::new();
    let mut snapshots = Vec::new();
    for StoppedJob { job, survivors } in &stopped {
        let now = call.snapshot(job).await;
        let ended = match &now.survivors {
            LivingProcesses::Known(left) => survivors.saturating_sub(left.len()),
            LivingProcesses::Unreadable => 0,
        };
        parts.push(ReplyPart::for_job(&now, None).with_ended(ended));
        snapshots.push(now);
    }
    parts.extend(missing);
    Ok(ToolReply::for_jobs(None, parts).with_hint(hint_after_stop(&snapshots)))
}

/// A job that was asked to stop.
struct StoppedJob {
    job: JobHandle,
    /// Processes that had outlived the job before the stop.
    survivors: usize,
}

async fn stop(
    call: ToolCall<'_>,
    job: JobId,
    stop_request: StopRequest,
) -> Result<StoppedJob, FindError> {
    // Counted before the stop, because they may be gone afterwards.
    let survivors = call.client.find(job).await?.survivors().pids().len();
    Ok(StoppedJob { job: call.client.stop(job, stop_request).await?, survivors })
}

/// Returns once the job has ended and no process of its tree is left.
async fn wait_until_gone(job: &JobHandle) {
    job.finished().await;
    while !job.survivors().is_empty() {
        tokio::time::sleep(SURVIVOR_CHECK_INTERVAL).await;
    }
}

fn read_signal(given: &str) -> Result<i32, ArgError> {
    parse_signal(given).ok_or_else(|| ArgError::NotAllowed {
        name: "signal",
        allowed: "a signal such as SIGINT, TERM or 9".to_owned(),
        given: format!("{:?}", given.chars().take(40).collect::<String>()),
    })
}
