//! The hint, which is the `→` line of a reply: the next call to make.

use super::body::{OutputEncoding, ShownOutput};
use crate::confinement::{Confinement, NetworkAccess};
use std::time::Duration;

use super::format::{size, soon};
use crate::ids::JobId;
use crate::mcp::snapshot::{JobSnapshot, State};
use crate::outcome::{JobEnding, Outcome};
use crate::output::{LogProgress, PageEnd};
use crate::service::MissingCommand;

/// Returns the hint after a reply about one job; `None` if nothing is left to do.
pub(crate) fn hint_after_job(job: &JobSnapshot, shown: Option<&ShownOutput>) -> Option<String> {
    let id = job.job;
    match &job.state {
        State::Running(_) if job.waits_for_input() => Some(format!(
            "send_input(job={id}, text=\"…\\n\") answers it; stop_jobs(jobs=[{id}]) ends it"
        )),
        State::Queued(_) | State::Running(_) | State::Stopping => Some(wait_text(&[id])),
        State::Finished(_) if shown.is_some_and(ShownOutput::is_binary) => {
            Some(format!("read_output(job={id}, view=\"raw\") gives the bytes as base64"))
        }
        State::Finished(ending) => {
            let cut = shown.and_then(|shown| shown.cut.as_ref()).map(|cut| {
                let line = cut.first_hidden;
                let kept = kept_output(ending, &job.output);
                format!(
                    "{kept}: read_output(job={id}, line={line}) or read_output(job={id}, grep=\"…\")"
                )
            });
            let withheld = shown.and_then(|shown| hint_withheld(job, shown.text()));
            let hints: Vec<String> =
                sandbox_hint(job, shown).into_iter().chain(withheld).chain(cut).collect();
            (!hints.is_empty()).then(|| hints.join("; "))
        }
    }
}

/// Says what the likely mistake is if a command was not found.
pub(crate) fn hint_missing_command(missing: &MissingCommand) -> String {
    match missing {
        MissingCommand::HoldsArguments { program, argument } => format!(
            "with args, command is the program alone: command={program:?}, args=[{argument:?}, …]"
        ),
        MissingCommand::NotInDirectory { path, directory } => format!(
            "{path} is not in {}, where the job started: give another cwd",
            directory.display()
        ),
        MissingCommand::HasSimilar { names } => format!("did you mean {}?", names.join(", ")),
    }
}

/// The most withheld variables that are named.
const MAX_WITHHELD: usize = 3;

/// Says which variables that the output names the job did not get.
fn hint_withheld(job: &JobSnapshot, output: &str) -> Option<String> {
    let names = job.withheld_variables.iter().filter(|name| has_name(output, name));
    let names: Vec<&str> = names.take(MAX_WITHHELD).map(String::as_str).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    (!names.is_empty()).then(|| {
        format!("{} {verb} set but withheld from jobs (environment.pass)", names.join(", "))
    })
}

/// `true` if the text contains this name, and not only as a part of a longer one.
fn has_name(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part)
    })
}

/// Says how much of the output can still be read.
fn kept_output(ending: &JobEnding, output: &LogProgress) -> String {
    match (&ending.outcome, output.lost_bytes()) {
        // Output past the limit was never read from the pipe.
        (Outcome::Limit { which }, 0) if which.is_output_limit() => {
            "log kept up to the limit".to_owned()
        }
        (_, 0) => "full log kept".to_owned(),
        (_, lost) => format!("{} of output lost, the rest kept", size(lost)),
    }
}

/// Says that the key named the job of an earlier call, followed by the next hint.
pub(crate) fn hint_reused_key(key: &str, next: Option<&str>) -> String {
    let key: String = key.chars().take(60).collect();
    let notice = format!("key {key:?} named this job before; nothing was run again");
    match next {
        Some(next) => format!("{notice}; {next}"),
        None => notice,
    }
}

/// Returns how to wait for jobs that still run; `None` if there are none.
pub(crate) fn hint_wait_for_jobs(jobs: &[JobId]) -> Option<String> {
    (!jobs.is_empty()).then(|| wait_text(jobs))
}

fn wait_text(jobs: &[JobId]) -> String {
    format!(
        "wait_jobs(jobs=[{}]) returns on exit; do other work meanwhile, do not poll",
        list_numbers(jobs)
    )
}

/// Says that the output of these jobs is not shown, followed by the next hint.
pub(crate) fn hint_no_room(jobs: &[JobId], next: Option<String>) -> Option<String> {
    if jobs.is_empty() {
        return next;
    }
    let notice =
        format!("no room for the output of jobs [{}]: read_output(job=…)", list_numbers(jobs));
    Some(next.map_or(notice.clone(), |next| format!("{notice}; {next}")))
}

/// Lists the numbers of the first jobs.
pub(super) fn list_numbers(jobs: &[JobId]) -> String {
    const NAMED: usize = 50;
    let named: Vec<String> = jobs.iter().take(NAMED).map(ToString::to_string).collect();
    named.join(",") + if jobs.len() > NAMED { ",…" } else { "" }
}

/// Returns how to continue reading after a page.
pub(crate) fn hint_after_page(job: &JobSnapshot, shown: &ShownOutput) -> Option<String> {
    let id = job.job;
    let start = shown.start;
    let end = shown.end;
    let (raw, view) = match shown.form {
        OutputEncoding::Text | OutputEncoding::Decoded { .. } => {
            return hint_after_text(job, shown);
        }
        OutputEncoding::Base64 => (None, "view=\"raw\", "),
        OutputEncoding::Hexdump => (None, "view=\"hexdump\", "),
        OutputEncoding::Binary { .. } => (
            Some(format!(
                "these bytes: read_output(job={id}, view=\"raw\", cursor=\"bytes:{start}\")"
            )),
            "",
        ),
    };
    let more = (shown.end_kind == PageEnd::More)
        .then(|| format!("more: read_output(job={id}, {view}cursor=\"bytes:{end}\")"));
    let hints: Vec<String> = raw.into_iter().chain(more).collect();
    (!hints.is_empty()).then(|| hints.join("; "))
}

fn hint_after_text(job: &JobSnapshot, shown: &ShownOutput) -> Option<String> {
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

/// After this many timed-out waits in a row the hint tells the caller to do something else.
const MAX_TIMED_OUT_WAITS: u32 = 3;

/// A wait that timed out before anything happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimedOutWait {
    /// The number of timed-out waits in a row of this caller for these jobs, including this one.
    pub(crate) consecutive: u32,
    /// The length of this wait, if it was shorter than requested.
    pub(crate) shortened_to: Option<Duration>,
    /// The offset from which `until` was searched, if the caller had already seen what is before.
    pub(crate) searched_from: Option<u64>,
}

impl TimedOutWait {
    /// Returns the hint about jobs that still run: the next call, and not to poll.
    pub(crate) fn hint(self, open: &[JobId], next: Option<String>) -> Option<String> {
        let [first, others @ ..] = open else { return next };
        if self.consecutive >= MAX_TIMED_OUT_WAITS {
            let waits = self.consecutive;
            let jobs = list_numbers(open);
            let them = if others.is_empty() { "it" } else { "them" };
            return Some(format!(
                "{waits} waits in a row brought nothing: stop polling, do other work or end your \
                 turn; read_output(job={first}, view=\"tail\") shows how far job {first} is, \
                 stop_jobs(jobs=[{jobs}]) ends {them}"
            ));
        }
        let cut =
            self.shortened_to.map(|most| format!("{} is the longest wait of one call", soon(most)));
        let searched = self.searched_from.map(|from| {
            format!("until was looked for from cursor=\"bytes:{from}\" on: what is before was shown to you")
        });
        let hints: Vec<String> = searched.into_iter().chain(cut).chain(next).collect();
        (!hints.is_empty()).then(|| hints.join("; "))
    }
}

/// Messages of programs that may not write.
const NO_WRITE: [&str; 3] =
    ["read-only file system", "permission denied", "operation not permitted"];

/// Messages of programs that have no network.
const NO_NETWORK: [&str; 6] = [
    "name resolution",
    "could not resolve",
    "network is unreachable",
    "enetunreach",
    "eai_again",
    "address family not supported",
];

/// Explains a failure by the sandbox, if the job's output reads like that.
fn sandbox_hint(job: &JobSnapshot, shown: Option<&ShownOutput>) -> Option<String> {
    if matches!(job.ending()?.outcome, Outcome::Exited { code: 0 }) {
        return None;
    }
    let Confinement { profile, network } = job.confinement.effective;
    if !profile.restricts_files() && network != NetworkAccess::Off {
        return None;
    }
    let text = shown?.text().to_lowercase();
    let says = |signs: &[&str]| signs.iter().any(|sign| text.contains(sign));
    if profile.restricts_files() && says(&NO_WRITE) {
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
    fn hints_stop_polling_and_explain_a_shortened_wait() {
        let open = [JobNumber::new(7).for_tenant(TenantId::LOCAL)];
        let hint = |consecutive, shortened_to, open: &[JobId]| {
            TimedOutWait { consecutive, shortened_to, searched_from: None }
                .hint(open, Some("next".to_owned()))
                .unwrap()
        };
        assert_eq!(hint(1, None, &open), "next");
        let cut = hint(2, Some(Duration::from_secs(50)), &open);
        assert_eq!(cut, "50s is the longest wait of one call; next");
        let enough = hint(3, None, &open);
        assert!(enough.starts_with("3 waits in a row brought nothing: stop polling"), "{enough}");
        let next =
            "read_output(job=7, view=\"tail\") shows how far job 7 is, stop_jobs(jobs=[7]) ends it";
        assert!(enough.ends_with(next), "{enough}");
        assert_eq!(hint(9, None, &[]), "next", "all jobs have ended");
        let searched = TimedOutWait { consecutive: 1, shortened_to: None, searched_from: Some(40) };
        let searched = searched.hint(&open, Some("next".to_owned())).unwrap();
        assert!(
            searched.starts_with("until was looked for from cursor=\"bytes:40\" on"),
            "{searched}"
        );
        assert!(searched.ends_with("; next"), "{searched}");
    }
}
