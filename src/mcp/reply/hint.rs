//! The one `→` line: what to do next.

use super::shown::{Form, Shown};
use crate::ids::JobId;
use crate::mcp::snapshot::{Snapshot, State};
use crate::output::PageEnd;

/// What to do after an answer about one job; nothing where all is said.
pub(crate) fn after_job(job: &Snapshot, shown: Option<&Shown>) -> Option<String> {
    let id = job.job;
    match &job.state {
        State::Running(_) if job.waits_for_input() => {
            Some(format!("send_input(job={id}, text=\"…\\n\") answers it; stop_jobs(jobs=[{id}]) ends it"))
        }
        State::Queued(_) | State::Running(_) | State::Stopping => Some(wait_for(&[id])),
        State::Finished(_) if shown.is_some_and(Shown::is_binary) => {
            Some(format!("read_output(job={id}, view=\"raw\") gives the bytes as base64"))
        }
        State::Finished(_) => shown.and_then(|shown| shown.first_hidden).map(|line| {
            format!(
                "full log kept: read_output(job={id}, line={line}) or read_output(job={id}, grep=\"…\")"
            )
        }),
    }
}

/// How to wait for jobs that are not over, where some are not.
pub(crate) fn wait_for_jobs(jobs: &[JobId]) -> Option<String> {
    (!jobs.is_empty()).then(|| wait_for(jobs))
}

fn wait_for(jobs: &[JobId]) -> String {
    let jobs: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    format!(
        "wait_jobs(jobs=[{}]) returns on exit; do other work meanwhile, do not poll",
        jobs.join(",")
    )
}

/// How to read on after a page.
pub(crate) fn after_page(job: &Snapshot, shown: &Shown) -> Option<String> {
    let id = job.job;
    match shown.end_kind {
        PageEnd::Complete => None,
        PageEnd::More if shown.form != Form::Text => {
            Some(format!("read_output(job={id}, view=\"raw\", cursor=\"bytes:{}\")", shown.end))
        }
        PageEnd::More => {
            Some(format!("more: read_output(job={id}, cursor=\"bytes:{}\")", shown.end))
        }
        PageEnd::CaughtUp => Some(format!(
            "so far all: wait_jobs(jobs=[{id}]), then read_output(job={id}, cursor=\"bytes:{}\")",
            shown.end
        )),
    }
}
