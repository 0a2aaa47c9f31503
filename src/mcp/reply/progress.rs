//! What a client that waits is told in between.

use super::verdict::verdict;
use super::words::{count, rough};
use crate::mcp::snapshot::Snapshot;
use crate::output::excerpt::{Budget, tail};
use crate::yard::JobHandle;

/// The last output line, with room for any usual one.
const LAST_LINE: Budget = Budget { max_lines: 1, ..Budget::of_bytes(200) };

/// How far the first of these jobs that is not over has come.
pub(crate) async fn progress_line<'a>(jobs: impl IntoIterator<Item = &'a JobHandle>) -> String {
    let open = jobs.into_iter().find(|job| job.status().ending().is_none());
    match open {
        Some(job) => line(job).await,
        None => String::new(),
    }
}

/// How a job stands, in one line, with its last line of output.
pub(crate) async fn status_line(now: &Snapshot, job: &JobHandle) -> String {
    let mut text = verdict(now, None);
    if let Some(last) = last_line(job).await {
        text.push_str(" · ");
        text.push_str(&last);
    }
    text
}

async fn line(job: &JobHandle) -> String {
    let status = job.status();
    if status.started.is_none() {
        return format!("job {} queued {}", job.id(), rough(status.queued_for()));
    }
    let output = job.output().progress();
    let lines = count(output.lines + u64::from(output.open_line), "line", "lines");
    let mut text = format!("job {} running {} · {lines}", job.id(), rough(status.elapsed()));
    if let Some(last) = last_line(job).await {
        text.push_str(" · ");
        text.push_str(&last);
    }
    text
}

async fn last_line(job: &JobHandle) -> Option<String> {
    let tail = job.output().read_if_idle_with(|log| tail(log, LAST_LINE)).await;
    let section = tail?.sections.pop()?;
    let text = section.text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
