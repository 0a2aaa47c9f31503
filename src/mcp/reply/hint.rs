//! The `→` line of a reply: the next call to make.

use super::body::{Form, Shown};
use crate::confinement::{Confinement, NetworkAccess};
use std::time::Duration;

use super::format::{size, soon};
use crate::ids::JobId;
use crate::mcp::snapshot::{Snapshot, State};
use crate::outcome::{JobEnding, Outcome};
use crate::output::{LogProgress, PageEnd};

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
                let line = cut.first_hidden;
                let kept = kept(ending, &job.output);
                format!(
                    "{kept}: read_output(job={id}, line={line}) or read_output(job={id}, grep=\"…\")"
                )
            });
            let said: Vec<String> = after_confined(job, shown).into_iter().chain(cut).collect();
            (!said.is_empty()).then(|| said.join("; "))
        }
    }
}

/// What can still be read.
fn kept(ending: &JobEnding, output: &LogProgress) -> String {
    match (&ending.outcome, output.lost_bytes()) {
        // What it wrote past its limit was never taken.
        (Outcome::Limit { which }, 0) if which.is_output_limit() => {
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
    let id = job.job;
    let start = shown.start;
    let end = shown.end;
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
    let id = job.job;
    let end = shown.end;
    match shown.end_kind {
        PageEnd::Complete => None,
        PageEnd::More => Some(format!("more: read_output(job={id}, cursor=\"bytes:{end}\")")),
        PageEnd::CaughtUp => Some(format!(
            "so far all: wait_jobs(jobs=[{id}]), then read_output(job={id}, cursor=\"bytes:{end}\")"
        )),
    }
}

/// From so many waits in a row on that brought nothing, a caller is told to do something else.
const TOO_MANY: u32 = 3;

/// A wait that was over before anything came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VainWait {
    /// It and those before it of the same caller for the same jobs.
    pub(crate) in_a_row: u32,
    /// How long it was, where that is less than was asked for.
    pub(crate) cut_to: Option<Duration>,
    /// Where a line was looked for, where what is before that was shown to the caller earlier.
    pub(crate) looked_from: Option<u64>,
}

impl VainWait {
    /// What to do next about jobs that go on: what else there is to say, and not to poll.
    pub(crate) fn said(self, open: &[JobId], next: Option<String>) -> Option<String> {
        let [first, others @ ..] = open else { return next };
        if self.in_a_row >= TOO_MANY {
            let waits = self.in_a_row;
            let jobs = list(open);
            let them = if others.is_empty() { "it" } else { "them" };
            return Some(format!(
                "{waits} waits in a row brought nothing: stop polling, do other work or end your \
                 turn; read_output(job={first}, view=\"tail\") shows how far job {first} is, \
                 stop_jobs(jobs=[{jobs}]) ends {them}"
            ));
        }
        let cut = self.cut_to.map(|most| format!("{} is the longest wait of one call", soon(most)));
        let looked = self.looked_from.map(|from| {
            format!("until was looked for from cursor=\"bytes:{from}\" on: what is before was shown to you")
        });
        let said: Vec<String> = looked.into_iter().chain(cut).chain(next).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

/// What programs say where they may not write.
const NO_WRITE: [&str; 3] =
    ["read-only file system", "permission denied", "operation not permitted"];

/// What programs say where there is no network.
const NO_NETWORK: [&str; 6] = [
    "name resolution",
    "could not resolve",
    "network is unreachable",
    "enetunreach",
    "eai_again",
    "address family not supported",
];

/// Why a job that failed may have failed, where what it wrote reads like that.
fn after_confined(job: &Snapshot, shown: Option<&Shown>) -> Option<String> {
    if matches!(job.ending()?.outcome, Outcome::Exited { code: 0 }) {
        return None;
    }
    let Confinement { profile, network } = job.confinement.effective;
    if !profile.limits_files() && network != NetworkAccess::Off {
        return None;
    }
    let text = shown?.text().to_lowercase();
    let says = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
    if profile.limits_files() && says(&NO_WRITE) {
        let places = job.writable.iter().map(|path| path.display().to_string());
        let places: Vec<String> = places.chain(["$TMPDIR".to_owned()]).collect();
        let places = places.join(" and ");
        let profile = profile.word();
        return Some(format!("the job may write only to {places} (confinement {profile})"));
    }
    let offline = network == NetworkAccess::Off && says(&NO_NETWORK);
    offline.then(|| format!("the job has no network (confinement {})", job.confinement.effective))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{JobNumber, TenantId};

    #[test]
    fn who_polls_is_told_to_stop_and_who_waited_long_why_it_came_back() {
        let open = [JobNumber::new(7).for_tenant(TenantId::LOCAL)];
        let said = |in_a_row, cut_to, open: &[JobId]| {
            VainWait { in_a_row, cut_to, looked_from: None }
                .said(open, Some("next".to_owned()))
                .unwrap()
        };
        assert_eq!(said(1, None, &open), "next");
        let cut = said(2, Some(Duration::from_secs(50)), &open);
        assert_eq!(cut, "50s is the longest wait of one call; next");
        let enough = said(3, None, &open);
        assert!(enough.starts_with("3 waits in a row brought nothing: stop polling"), "{enough}");
        let next =
            "read_output(job=7, view=\"tail\") shows how far job 7 is, stop_jobs(jobs=[7]) ends it";
        assert!(enough.ends_with(next), "{enough}");
        assert_eq!(said(9, None, &[]), "next", "all have ended");
        let looked = VainWait { in_a_row: 1, cut_to: None, looked_from: Some(40) };
        let looked = looked.said(&open, Some("next".to_owned())).unwrap();
        assert!(looked.starts_with("until was looked for from cursor=\"bytes:40\" on"), "{looked}");
        assert!(looked.ends_with("; next"), "{looked}");
    }
}
