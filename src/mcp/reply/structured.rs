//! The structured form of a reply: one flat shape for all tools.
//!
//! A field that does not apply is absent; no field is null.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::body::{OutputEncoding, ShownOutput};
use super::format::{kill_note, shorten_to_line};
use super::summary::short_fields;
use crate::confinement::GrantedConfinement;
use crate::mcp::resources;
use crate::mcp::snapshot::{JobSnapshot, SlotHolder, State};
use crate::outcome::{JobEnding, LimitKind, Outcome, signal_name};
use crate::output::PageEnd;
use crate::service::QueuePosition;

/// Returns the fields about a job and the position of its shown output. The output itself is not
/// included, because it may be large.
pub(crate) fn fields(job: &JobSnapshot, shown: Option<&ShownOutput>) -> JsonObject {
    let mut fields = ReplyFields::default();
    fields.put("job", job.job.number());
    fields.put("state", state_word(&job.state));
    if let Some(ending) = job.ending() {
        put_outcome(&mut fields, ending, &job.survivors);
    }
    put_times(&mut fields, job);
    match shown {
        Some(shown) => put_output(&mut fields, shown),
        None => put_unread_output(&mut fields, job),
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
    if let Some(prompt) = &job.prompt {
        fields.put("prompt", prompt.as_str());
    }
    fields.put_if(!job.survivors.is_empty(), "background_pids", job.survivors.clone());
    fields.put("confinement", confinement_field(job.confinement, job.doubt.as_deref()));
    fields.put("uri", resources::output_uri(job.job));
    if let Some(trace_id) = job.trace_id {
        fields.put("trace_id", trace_id.to_string());
    }
    fields.0
}

#[derive(Default)]
struct ReplyFields(JsonObject);

impl ReplyFields {
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

fn put_outcome(fields: &mut ReplyFields, ending: &JobEnding, alive: &[u32]) {
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
        Outcome::NotRun { by, .. } => {
            fields.put("stopped_by", by.word());
            fields.put("not_run", true);
            return;
        }
        Outcome::Limit { which } => put_limit(fields, *which),
        Outcome::TimedOut { .. } => {}
    }
    if let Some(note) = ending.kill {
        fields.put("killed", kill_note(note, alive));
    }
    fields.put_if(!ending.pipeline.is_empty(), "pipeline_exit_codes", ending.pipeline.clone());
    fields.put("cpu_ms", millis(ending.usage.cpu));
    // Every process uses memory: 0 means that it was not measured.
    let max_rss = ending.usage.max_rss_bytes;
    fields.put_if(max_rss > 0, "max_rss_bytes", max_rss);
}

/// `true` unless the outcome says that no process was started.
const fn has_run(outcome: &Outcome) -> bool {
    !matches!(outcome, Outcome::FailedToStart(_) | Outcome::NotRun { .. })
}

fn put_limit(fields: &mut ReplyFields, which: LimitKind) {
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

fn put_times(fields: &mut ReplyFields, job: &JobSnapshot) {
    fields.put("queued_ms", millis(job.queued));
    match &job.state {
        State::Queued(place) => {
            if let Some(place) = place {
                put_queue_position(fields, place);
                put_holders(fields, &job.slot_holders, place.held_by.others);
            }
        }
        State::Running(liveness) => {
            fields.put("elapsed_ms", millis(job.elapsed));
            if let Some(liveness) = liveness {
                fields.put("cpu_ms", millis(liveness.cpu));
            }
        }
        State::Finished(ending) if !has_run(&ending.outcome) => {}
        State::Stopping | State::Finished(_) => fields.put("elapsed_ms", millis(job.elapsed)),
    }
    if let (None, Some(quiet)) = (job.ending(), job.quiet_for) {
        fields.put("last_output_ms_ago", millis(quiet));
    }
}

fn put_queue_position(fields: &mut ReplyFields, place: &QueuePosition) {
    fields.put("queue_position", place.position);
    fields.put("queue_length", place.length);
    fields.put("lane", place.lane.as_str());
    fields.put("waits_for", place.waits_for.to_string());
    if let Some(estimate) = place.estimate {
        fields.put("estimated_start_ms", millis(estimate));
    }
}

fn put_holders(fields: &mut ReplyFields, holders: &[SlotHolder], others: usize) {
    let holder = |holder: &SlotHolder| {
        let SlotHolder { job, command, elapsed, is_idle } = holder;
        json!({
            "job": job.number(),
            "command": shorten_to_line(command),
            "elapsed_ms": millis(*elapsed),
            "idle": is_idle,
        })
    };
    let named: Vec<Value> = holders.iter().map(holder).collect();
    fields.put_if(!named.is_empty(), "held_by", named);
    fields.put_if(others > 0, "held_by_others", others);
}

fn put_output(fields: &mut ReplyFields, shown: &ShownOutput) {
    match &shown.form {
        OutputEncoding::Text => {}
        OutputEncoding::Decoded { charset } => fields.put("charset", charset.as_str()),
        OutputEncoding::Base64 => fields.put("encoding", "base64"),
        OutputEncoding::Hexdump => fields.put("encoding", "hexdump"),
        OutputEncoding::Screen => fields.put("encoding", "screen"),
        OutputEncoding::Binary { mime } => fields.put("mime", mime.as_str()),
    }
    put_byte_range(fields, shown.start, shown.end, shown.end_kind);
    fields.put_if(shown.gap_bytes > 0, "gap_bytes", shown.gap_bytes);
    fields.put_if(shown.bad_bytes > 0, "bad_bytes", shown.bad_bytes);
    fields.put_if(shown.end_kind == PageEnd::More, "truncated", true);
    if let Some(cut) = &shown.cut {
        fields.put("tail", &shown.text[cut.tail..]);
        fields.put("tail_bytes_start", cut.tail_bytes.start);
    }
    if let Some(facts) = &shown.facts {
        fields.put("digest", short_fields(facts));
    }
}

/// Adds the position of a job's output that is not shown: reading starts at 0.
fn put_unread_output(fields: &mut ReplyFields, job: &JobSnapshot) {
    let never_ran = job.ending().is_some_and(|ending| !has_run(&ending.outcome));
    let end = match job.output.total_bytes {
        0 if job.output.closed || never_ran => PageEnd::Complete,
        0 => PageEnd::CaughtUp,
        _ => PageEnd::More,
    };
    put_byte_range(fields, 0, 0, end);
}

/// Returns the byte range that a reply is about without showing the bytes.
pub(super) fn byte_range_fields(start: u64, end: u64, end_kind: PageEnd) -> JsonObject {
    let mut fields = ReplyFields::default();
    put_byte_range(&mut fields, start, end, end_kind);
    fields.0
}

fn put_byte_range(fields: &mut ReplyFields, start: u64, end: u64, end_kind: PageEnd) {
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

/// Returns the sandbox of a job.
pub(super) fn confinement_field(granted: GrantedConfinement, doubt: Option<&str>) -> Value {
    let GrantedConfinement { requested, effective, backend } = granted;
    let mut field = json!({
        "profile": effective.profile.word(),
        "network": effective.network.word(),
        "backend": backend.word(),
        "degraded": granted.is_degraded(),
    });
    if let Some(doubt) = doubt {
        field["because"] = json!(doubt);
    }
    if granted.is_degraded() {
        field["asked"] =
            json!({"profile": requested.profile.word(), "network": requested.network.word()});
    }
    field
}
