//! The one `→` line: what to do next.

use super::confined;
use super::shown::{Form, Shown};
use super::words::size;
use crate::ids::JobId;
use crate::mcp::snapshot::{Snapshot, State};
use crate::outcome::{Ending, Outcome};
use crate::output::{PageEnd, Progress};

/// What to do after an answer about one job; nothing where all is said.
pub(crate) fn after_job(job: &Snapshot, shown: Option<&Shown>) -> Option<String> {
    let id = job.job;
    match &job.state {
        State::Running(_) if job.waits_for_input() => Some(format!(
            "send_input(job={id}, text=\"…\\n\") answers it; stop_jobs(jobs=[{id}]) ends it"
        )),
        State::Queued(_) | State::Running(_) | State::Stopping => Some(wait_for(&[id])),
        State::Finished(_) if shown.is_some_and(Shown::is_binary) => {
            Some(format!("read_output(job={id}, view=\"raw\") gives the bytes as base64"))
        }
        State::Finished(ending) => {
            let cut = shown.and_then(|shown| shown.cut.as_ref()).map(|cut| {
                let (line, kept) = (cut.first_hidden, kept(ending, &job.output));
                format!(
                    "{kept}: read_output(job={id}, line={line}) or read_output(job={id}, grep=\"…\")"
                )
            });
            let said: Vec<String> = confined::hint(job, shown).into_iter().chain(cut).collect();
            (!said.is_empty()).then(|| said.join("; "))
        }
    }
}

/// What can still be read.
fn kept(ending: &Ending, output: &Progress) -> String {
    match (&ending.outcome, output.lost_bytes()) {
        // What it wrote past its limit was never taken.
        (Outcome::Limit { which }, 0) if which.is_of_output() => {
            "log kept up to the limit".to_owned()
        }
        (_, 0) => "full log kept".to_owned(),
        (_, lost) => format!("{} of output lost, the rest kept", size(lost)),
    }
}

/// That a key gave back a job of an earlier call, before what else there is to say.
pub(crate) fn reused_key(key: &str, next: Option<&str>) -> String {
    let key: String = key.chars().take(60).collect();
    let said = format!("key {key:?} named this job before; nothing was run again");
    match next {
        Some(next) => format!("{said}; {next}"),
        None => said,
    }
}

/// How to wait for jobs that are not over, where some are not.
pub(crate) fn wait_for_jobs(jobs: &[JobId]) -> Option<String> {
    (!jobs.is_empty()).then(|| wait_for(jobs))
}

fn wait_for(jobs: &[JobId]) -> String {
    format!(
        "wait_jobs(jobs=[{}]) returns on exit; do other work meanwhile, do not poll",
        list(jobs)
    )
}

/// That the output of these jobs is not shown, before what else there is to say.
pub(crate) fn no_room(jobs: &[JobId], next: Option<String>) -> Option<String> {
    if jobs.is_empty() {
        return next;
    }
    let said = format!("no room for the output of jobs [{}]: read_output(job=…)", list(jobs));
    Some(next.map_or(said.clone(), |next| format!("{said}; {next}")))
}

/// The numbers of the first jobs.
pub(super) fn list(jobs: &[JobId]) -> String {
    const NAMED: usize = 50;
    let named: Vec<String> = jobs.iter().take(NAMED).map(ToString::to_string).collect();
    named.join(",") + if jobs.len() > NAMED { ",…" } else { "" }
}

/// How to read on after a page.
pub(crate) fn after_page(job: &Snapshot, shown: &Shown) -> Option<String> {
    let (id, start, end) = (job.job, shown.start, shown.end);
    let (raw, view) = match shown.form {
        Form::Text | Form::Decoded { .. } => return after_text(job, shown),
        Form::Base64 => (None, "view=\"raw\", "),
        Form::Hexdump => (None, "view=\"hexdump\", "),
        Form::Binary { .. } => (
            Some(format!(
                "these bytes: read_output(job={id}, view=\"raw\", cursor=\"bytes:{start}\")"
            )),
            "",
        ),
    };
    let more = (shown.end_kind == PageEnd::More)
        .then(|| format!("more: read_output(job={id}, {view}cursor=\"bytes:{end}\")"));
    let said: Vec<String> = raw.into_iter().chain(more).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn after_text(job: &Snapshot, shown: &Shown) -> Option<String> {
    let (id, end) = (job.job, shown.end);
    match shown.end_kind {
        PageEnd::Complete => None,
        PageEnd::More => Some(format!("more: read_output(job={id}, cursor=\"bytes:{end}\")")),
        PageEnd::CaughtUp => Some(format!(
            "so far all: wait_jobs(jobs=[{id}]), then read_output(job={id}, cursor=\"bytes:{end}\")"
        )),
    }
}
