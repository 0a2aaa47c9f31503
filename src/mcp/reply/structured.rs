//! The structured form of an answer: one flat shape for all tools.
//!
//! What does not apply is absent; nothing is null.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::body::{Cut, Form, Shown};
use super::digest::short_fields;
use super::format::kill_note;
use crate::confinement::GrantedConfinement;
use crate::mcp::resources;
use crate::mcp::snapshot::{Snapshot, State};
use crate::outcome::{JobEnding, LimitKind, Outcome, signal_name};
use crate::output::PageEnd;
use crate::output::digest::Digest;
use crate::output::excerpt::ErrorLine;
use crate::service::QueuePlace;

/// Everything that is known about a job at one moment, and about the part of its output that is
/// shown: all but that output itself, which may be large.
pub(crate) fn fields(job: &Snapshot, shown: Option<&Shown>) -> JsonObject {
    let mut fields = Fields::default();
    fields.put("job", job.job.number());
    fields.put("state", state_word(&job.state));
    if let Some(ending) = job.ending() {
        outcome(&mut fields, ending, &job.survivors);
    }
    times(&mut fields, job);
    match shown {
        Some(shown) => output(&mut fields, shown),
        None => unread(&mut fields, job),
    }
    fields.put("total_bytes", job.output.total_bytes);
    fields.put("lines", job.lines());
    fields.put_if(job.output.dropped_bytes > 0, "dropped_bytes", job.output.dropped_bytes);
    if let Some(why) = job.output.dropped_why {
        fields.put("dropped_why", why.word());
    }
    let removed = job.output.removed_bytes + job.output.cut_bytes;
    fields.put_if(removed > 0, "removed_bytes", removed);
    fields.put_if(job.waits_for_input(), "waiting_for_input", true);
    fields.put_if(!job.survivors.is_empty(), "background_pids", job.survivors.clone());
    fields.put("confinement", confinement_field(job.confinement, job.doubt.as_deref()));
    fields.put("uri", resources::of_output(job.job));
    if let Some(trace_id) = job.trace_id {
        fields.put("trace_id", trace_id.to_string());
    }
    fields.0
}

#[derive(Default)]
struct Fields(JsonObject);

impl Fields {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    fn put_if(&mut self, applies: bool, name: &str, value: impl Into<Value>) {
        if applies {
            self.put(name, value);
        }
    }
}

const fn state_word(state: &State) -> &'static str {
    match state {
        State::Queued(_) => "queued",
        State::Running(_) => "running",
        State::Stopping => "stopping",
        State::Finished(_) => "finished",
    }
}

fn outcome(fields: &mut Fields, ending: &JobEnding, alive: &[u32]) {
    fields.put("outcome", ending.outcome.word());
    match &ending.outcome {
        Outcome::Exited { code } => fields.put("exit_code", *code),
        Outcome::Signaled { signal, .. } => fields.put("signal", signal_name(*signal)),
        Outcome::FailedToStart(error) => {
            fields.put("error", error.to_string());
            fields.put("error_code", error.code());
            return;
        }
        Outcome::Lost { why } => fields.put("error", why.as_str()),
        Outcome::Stopped { by } => fields.put("stopped_by", by.word()),
        Outcome::Limit { which } => limit(fields, *which),
        Outcome::TimedOut { .. } => {}
    }
    if let Some(note) = ending.kill {
        fields.put("killed", kill_note(note, alive));
    }
    fields.put_if(!ending.pipeline.is_empty(), "pipeline_exit_codes", ending.pipeline.clone());
    fields.put("cpu_ms", millis(ending.usage.cpu));
    // No process has none: 0 means that it was not measured.
    let max_rss = ending.usage.max_rss_bytes;
    fields.put_if(max_rss > 0, "max_rss_bytes", max_rss);
}

fn limit(fields: &mut Fields, which: LimitKind) {
    fields.put("limit", which.word());
    match which {
        LimitKind::Memory { peak, .. } => fields.put("peak_memory_bytes", peak),
        LimitKind::OutputBytes(_)
        | LimitKind::OutputLines(_)
        | LimitKind::LargeOutput(_)
        | LimitKind::Cpu(_)
        | LimitKind::Processes(_)
        | LimitKind::FileSize(_) => {}
    }
}

fn times(fields: &mut Fields, job: &Snapshot) {
    fields.put("queued_ms", millis(job.queued));
    match &job.state {
        State::Queued(place) => {
            if let Some(place) = place {
                queue_position(fields, place);
            }
        }
        State::Running(liveness) => {
            fields.put("elapsed_ms", millis(job.elapsed));
            if let Some(liveness) = liveness {
                fields.put("cpu_ms", millis(liveness.cpu));
            }
        }
        State::Finished(ending) if matches!(ending.outcome, Outcome::FailedToStart(_)) => {}
        State::Stopping | State::Finished(_) => fields.put("elapsed_ms", millis(job.elapsed)),
    }
    if let (None, Some(quiet)) = (job.ending(), job.quiet_for) {
        fields.put("last_output_ms_ago", millis(quiet));
    }
}

fn queue_position(fields: &mut Fields, place: &QueuePlace) {
    fields.put("queue_position", place.position);
    fields.put("queue_length", place.length);
    fields.put("lane", place.lane.as_str());
    fields.put("waits_for", place.waits_for.to_string());
    if let Some(estimate) = place.estimate {
        fields.put("estimated_start_ms", millis(estimate));
    }
}

fn output(fields: &mut Fields, shown: &Shown) {
    match &shown.form {
        Form::Text => {}
        Form::Decoded { charset } => fields.put("charset", charset.as_str()),
        Form::Base64 => fields.put("encoding", "base64"),
        Form::Hexdump => fields.put("encoding", "hexdump"),
        Form::Binary { mime } => fields.put("mime", mime.as_str()),
    }
    place(fields, shown.start, shown.end, shown.end_kind);
    fields.put_if(shown.gap_bytes > 0, "gap_bytes", shown.gap_bytes);
    fields.put_if(shown.bad_bytes > 0, "bad_bytes", shown.bad_bytes);
    fields.put_if(shown.end_kind == PageEnd::More, "truncated", true);
    if let Some(cut) = &shown.cut {
        beyond_cut(fields, &shown.text[cut.tail..], cut);
    }
    if let Some(before) = &shown.before {
        hidden(fields, before.errors_count, &before.errors, Some(&before.digest));
    }
}

/// The tail and the error lines before it: what a reader of the head alone must not miss.
fn beyond_cut(fields: &mut Fields, tail: &str, cut: &Cut) {
    fields.put("tail", tail);
    fields.put("tail_bytes_start", cut.tail_start);
    hidden(fields, cut.errors_count, &cut.errors, cut.digest.as_ref());
}

/// The errors in what is not shown, and what matters in all of it.
fn hidden(fields: &mut Fields, count: u64, errors: &[ErrorLine], digest: Option<&Digest>) {
    let error = |error: &ErrorLine| json!({"line": error.line, "text": error.text});
    let errors: Vec<Value> = errors.iter().map(error).collect();
    fields.put_if(count > 0, "hidden_errors_count", count);
    fields.put_if(!errors.is_empty(), "hidden_errors", errors);
    if let Some(digest) = digest {
        fields.put("digest", short_fields(digest));
    }
}

/// Of a job whose output is not shown: where to start reading it.
fn unread(fields: &mut Fields, job: &Snapshot) {
    let never_ran =
        job.ending().is_some_and(|ending| matches!(ending.outcome, Outcome::FailedToStart(_)));
    let end = match job.output.total_bytes {
        0 if job.output.closed || never_ran => PageEnd::Complete,
        0 => PageEnd::CaughtUp,
        _ => PageEnd::More,
    };
    place(fields, 0, 0, end);
}

/// Which bytes an answer is about that shows none of them.
pub(super) fn place_fields(start: u64, end: u64, end_kind: PageEnd) -> JsonObject {
    let mut fields = Fields::default();
    place(&mut fields, start, end, end_kind);
    fields.0
}

fn place(fields: &mut Fields, start: u64, end: u64, end_kind: PageEnd) {
    fields.put("bytes_start", start);
    fields.put("bytes_end", end);
    fields.put("end", end_word(end_kind));
    fields.put_if(end_kind != PageEnd::Complete, "next_cursor", format!("bytes:{end}"));
}

const fn end_word(end: PageEnd) -> &'static str {
    match end {
        PageEnd::More => "more",
        PageEnd::CaughtUp => "caught_up",
        PageEnd::Complete => "complete",
    }
}

pub(super) fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How a job is confined.
pub(super) fn confinement_field(granted: GrantedConfinement, doubt: Option<&str>) -> Value {
    let GrantedConfinement { requested: asked, effective: given, backend } = granted;
    let mut field = json!({
        "profile": given.profile.word(),
        "network": given.network.word(),
        "backend": backend.word(),
        "degraded": granted.is_degraded(),
    });
    if let Some(doubt) = doubt {
        field["because"] = json!(doubt);
    }
    if granted.is_degraded() {
        field["asked"] = json!({"profile": asked.profile.word(), "network": asked.network.word()});
    }
    field
}
