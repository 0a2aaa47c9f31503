//! The structured form of an answer: one flat shape for all tools.
//!
//! What does not apply is absent; nothing is null.

use rmcp::model::JsonObject;
use serde_json::Value;

use super::shown::{Form, Shown};
use crate::mcp::address;
use crate::mcp::snapshot::{Snapshot, State};
use crate::outcome::{Ending, Outcome, signal_name};
use crate::output::PageEnd;
use crate::spec::Stream;

/// Everything that is known about a job at one moment, with the part of its output that
/// is shown.
pub(crate) fn fields(job: &Snapshot, shown: Option<&Shown>) -> JsonObject {
    let mut fields = Fields::default();
    fields.put("job", job.job.number());
    fields.put("state", state_word(&job.state));
    if let Some(ending) = job.ending() {
        outcome(&mut fields, ending);
    }
    times(&mut fields, job);
    if let Some(shown) = shown {
        output(&mut fields, shown);
    }
    fields.put("total_bytes", job.output.total_bytes);
    fields.put("lines", job.lines());
    fields.put_if(job.output.dropped_bytes > 0, "dropped_bytes", job.output.dropped_bytes);
    fields.put_if(job.waits_for_input(), "waiting_for_input", true);
    fields.put_if(!job.survivors.is_empty(), "background_pids", job.survivors.clone());
    fields.put("uri", address::of_output(job.job));
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

fn outcome(fields: &mut Fields, ending: &Ending) {
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
        Outcome::TimedOut { .. } | Outcome::Stopped { .. } | Outcome::Limit { .. } => {}
    }
    fields.put_if(!ending.pipeline.is_empty(), "pipeline_exit_codes", ending.pipeline.clone());
    fields.put("cpu_ms", millis(ending.usage.cpu));
    fields.put("max_rss_bytes", ending.usage.max_rss_bytes);
}

fn times(fields: &mut Fields, job: &Snapshot) {
    fields.put("queued_ms", millis(job.queued));
    match &job.state {
        State::Queued(place) => {
            if let Some(place) = place {
                fields.put("queue_position", place.position);
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

fn output(fields: &mut Fields, shown: &Shown) {
    let name = match shown.stream {
        None => "output",
        Some(Stream::Stdout) => "stdout",
        Some(Stream::Stderr) => "stderr",
    };
    fields.put(name, shown.text.as_str());
    match &shown.form {
        Form::Text => {}
        Form::Base64 => fields.put("encoding", "base64"),
        Form::Binary { mime } => fields.put("mime", mime.as_str()),
    }
    fields.put("bytes_start", shown.start);
    fields.put("bytes_end", shown.end);
    fields.put("end", end_word(shown.end_kind));
    fields.put_if(
        shown.end_kind != PageEnd::Complete,
        "next_cursor",
        format!("bytes:{}", shown.end),
    );
    fields.put_if(shown.gap_bytes > 0, "gap_bytes", shown.gap_bytes);
    fields.put_if(shown.is_cut(), "truncated", true);
}

const fn end_word(end: PageEnd) -> &'static str {
    match end {
        PageEnd::More => "more",
        PageEnd::CaughtUp => "caught_up",
        PageEnd::Complete => "complete",
    }
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
