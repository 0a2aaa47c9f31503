//! The first line of an answer: what became of the job, in one line.

use super::confined;
use super::shown::{Form, Shown};
use super::words::{bound, count, exact, kill_note, rough, size, soon, thousands};
use crate::mcp::snapshot::{Snapshot, State};
use crate::outcome::{Ending, LimitKind, Outcome, StopBy, signal_name};
use crate::telemetry::DropReason;
use crate::yard::{DEFAULT_LANE, QueuePlace};

/// What became of a job, in one line; with what is shown of its output, if any is.
pub(crate) fn verdict(job: &Snapshot, shown: Option<&Shown>) -> String {
    let mut parts = match &job.state {
        State::Queued(_) => queued(job),
        State::Running(_) => vec![format!("running {}", rough(job.elapsed)), name(job)],
        State::Stopping => vec![format!("stopping, ran {}", rough(job.elapsed)), name(job)],
        State::Finished(ending) => finished(job, ending),
    };
    parts.extend(amount(job, shown));
    parts.extend(remarks(job, shown));
    parts.extend(shown.and_then(Shown::spans_text));
    parts.join(" · ")
}

fn name(job: &Snapshot) -> String {
    format!("job {}", job.job)
}

fn queued(job: &Snapshot) -> Vec<String> {
    match &job.state {
        State::Queued(Some(place)) => {
            let mut parts = vec!["queued".to_owned(), position(place), name(job)];
            parts.extend(why_queued(place));
            parts
        }
        State::Queued(None) | State::Running(_) | State::Stopping | State::Finished(_) => {
            vec!["starting".to_owned(), name(job)]
        }
    }
}

/// `position 3 of 12`, with the lane where it is not the usual one.
pub(super) fn position(place: &QueuePlace) -> String {
    let QueuePlace { position, length, lane, .. } = place;
    let lane = if lane == DEFAULT_LANE { String::new() } else { format!(" in lane {lane}") };
    format!("position {} of {}{lane}", thousands(*position as u64), thousands(*length as u64))
}

/// What it waits for, and when it may start.
pub(super) fn why_queued(place: &QueuePlace) -> impl Iterator<Item = String> {
    let estimate = place.estimate.map(|time| format!("in about {}", soon(time)));
    std::iter::once(place.waits_for.to_string()).chain(estimate)
}

fn finished(job: &Snapshot, ending: &Ending) -> Vec<String> {
    let mut parts = vec![ended(job, ending)];
    match ending.outcome {
        Outcome::Stopped { .. } if job.never_started() => {}
        // The time is in the words already, or there was none.
        Outcome::TimedOut { .. } | Outcome::FailedToStart(_) => {}
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::Stopped { .. }
        | Outcome::Limit { .. }
        | Outcome::Lost { .. } => parts.push(exact(job.elapsed)),
    }
    parts.push(name(job));
    parts
}

pub(super) fn ended(job: &Snapshot, ending: &Ending) -> String {
    let what = match &ending.outcome {
        Outcome::Stopped { .. } if job.never_started() => {
            return "stopped while queued, never started".to_owned();
        }
        Outcome::Exited { code } => return format!("exit {code}{}", masked(*code, ending)),
        Outcome::Signaled { signal, core } => {
            let core = if *core { " (core dumped)" } else { "" };
            return format!("killed by {}{core}", signal_name(*signal));
        }
        Outcome::TimedOut { after } => format!("timed out after {}", bound(*after)),
        Outcome::Stopped { by: StopBy::Client } => "stopped on request".to_owned(),
        Outcome::Stopped { by: StopBy::Cancel } => "stopped: its call was cancelled".to_owned(),
        Outcome::Stopped { by: StopBy::Shutdown } => "stopped: server shutdown".to_owned(),
        Outcome::Limit { which: LimitKind::OutputBytes(limit) } => {
            format!("output limit of {} reached", size(*limit))
        }
        Outcome::Limit { which: LimitKind::OutputLines(limit) } => {
            format!("output limit of {} reached", count(*limit, "line", "lines"))
        }
        Outcome::Limit { which: LimitKind::LargeOutput(limit) } => {
            format!("output over {}, which on_large_output makes an error", size(*limit))
        }
        Outcome::Limit { which: LimitKind::Memory { limit, peak } } => {
            format!("out of memory: limit {}, peak {}", size(*limit), size(*peak))
        }
        Outcome::Limit { which: LimitKind::Cpu(limit) } => {
            format!("CPU limit of {} reached", bound(*limit))
        }
        Outcome::Limit { which: LimitKind::Processes(limit) } => {
            format!("process limit of {} reached", thousands(*limit))
        }
        Outcome::Limit { which: LimitKind::FileSize(limit) } => {
            format!("file size limit of {} reached", size(*limit))
        }
        Outcome::FailedToStart(error) => format!("failed to start: {error}"),
        Outcome::Lost { why } => format!("lost: {why}"),
    };
    match ending.kill {
        Some(note) => format!("{what}, {}", kill_note(note, &job.survivors)),
        None => what,
    }
}

/// ` (pipeline 1|0)`, where a failure inside a pipeline hides behind exit 0.
///
/// 141 is a program that wrote into a closed pipe, as in `yes | head -1`: no failure.
fn masked(code: i32, ending: &Ending) -> String {
    let codes = &ending.pipeline;
    let hides = |codes: &[i32]| codes.iter().any(|code| *code != 0 && *code != 141);
    match codes.split_last() {
        Some((_, before)) if code == 0 && hides(before) => {
            let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
            format!(" (pipeline {})", codes.join("|"))
        }
        Some(_) | None => String::new(),
    }
}

/// How much it wrote: told where not all of it is shown, and of a job that may write more.
fn amount(job: &Snapshot, shown: Option<&Shown>) -> Option<String> {
    let lines = count(job.lines(), "line", "lines");
    let cut = shown.is_some_and(Shown::is_cut);
    match (&job.state, job.quiet_for) {
        (State::Queued(_), _) => None,
        (State::Running(_) | State::Stopping, None) => Some("no output yet".to_owned()),
        (State::Running(_) | State::Stopping, Some(quiet)) => {
            Some(format!("{lines}, last output {} ago", rough(quiet)))
        }
        (State::Finished(_), _) if !cut => None,
        (State::Finished(ending), _) => match ending.outcome {
            Outcome::TimedOut { .. } => Some(lines),
            Outcome::Exited { .. }
            | Outcome::Signaled { .. }
            | Outcome::Stopped { .. }
            | Outcome::Limit { .. }
            | Outcome::FailedToStart(_)
            | Outcome::Lost { .. } => Some(format!("{lines}, {}", size(job.output.total_bytes))),
        },
    }
}

/// What else must not go unnoticed.
fn remarks(job: &Snapshot, shown: Option<&Shown>) -> Vec<String> {
    let mut remarks = Vec::new();
    if job.waits_for_input() {
        remarks.push("waiting for input".to_owned());
    }
    remarks.extend(confined::remark(job.confinement));
    remarks.extend(job.doubt.as_ref().map(|doubt| format!("sandboxed because {doubt}")));
    remarks.extend(survivors(&job.survivors));
    if job.output.dropped_bytes > 0 {
        let why = job.output.dropped_why.map(|why| dropped_why(why, job)).unwrap_or_default();
        let dropped = size(job.output.dropped_bytes);
        remarks.push(format!("{dropped} of output could not be kept{why}"));
    }
    if job.output.removed_bytes > 0 {
        let removed = size(job.output.removed_bytes);
        remarks.push(format!("{removed} in the middle not kept (on_large_output: truncate)"));
    }
    if job.output.cut_bytes > 0 {
        let cut = size(job.output.cut_bytes);
        remarks.push(format!("{cut} lost (their file was cut by another program)"));
    }
    if let Some(gap) = shown.map(|shown| shown.gap_bytes).filter(|gap| *gap > 0) {
        remarks.push(format!("{} missing here", size(gap)));
    }
    remarks.extend(shown.and_then(form));
    if let Some(bad) = shown.map(|shown| shown.bad_bytes).filter(|bad| *bad > 0) {
        let bytes = count(bad, "byte", "bytes");
        remarks.push(format!("{bytes} not text, shown as \u{fffd} or ␀"));
    }
    remarks
}

/// Why bytes were dropped, in words that say whose limit it was.
fn dropped_why(reason: DropReason, job: &Snapshot) -> String {
    let why = match reason {
        DropReason::DiskFull => "disk full",
        DropReason::IoError => "the disk cannot be written",
        DropReason::StoreFull => "output.max_store reached",
        DropReason::TenantFull => "output.max_tenant reached",
        DropReason::OwnFull => {
            return format!(" (tenants.{}.max_stored reached)", job.job.tenant().name());
        }
        DropReason::Cut => "the file was cut by another program",
    };
    format!(" ({why})")
}

/// How the text is to be understood, where it is not plain text.
fn form(shown: &Shown) -> Option<String> {
    let bytes = format!("of bytes {} to {}", shown.start, shown.end);
    match &shown.form {
        Form::Text | Form::Binary { .. } => None,
        Form::Decoded { charset } => Some(format!("decoded from {charset}")),
        Form::Base64 => Some(format!("base64 {bytes}")),
        Form::Hexdump => Some(format!("hexdump {bytes}")),
    }
}

fn survivors(pids: &[u32]) -> Option<String> {
    const NAMED: usize = 8;
    let named: Vec<String> = pids.iter().take(NAMED).map(ToString::to_string).collect();
    let more = if pids.len() > NAMED { ", …" } else { "" };
    match pids {
        [] => None,
        [pid] => Some(format!("1 process still running (pid {pid})")),
        [_, ..] => Some(format!(
            "{} processes still running (pids {}{more})",
            thousands(pids.len() as u64),
            named.join(", ")
        )),
    }
}
