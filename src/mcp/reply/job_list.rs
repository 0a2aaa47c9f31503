//! Replies about several jobs: one part for each, and lists of one line each.

use rmcp::model::JsonObject;
use serde_json::Value;

use super::body::Shown;
use super::budget::json_size;
use super::format::{count, exact, rough, size, thousands};
use super::verdict::{ended, position, why_queued};
use super::{structured, verdict};
use crate::mcp::settings::ResultFormat;
use crate::mcp::snapshot::{Snapshot, State};
use crate::outcome::Outcome;
use crate::service::FindError;

/// What an answer about several jobs says about one of them.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(super) text: String,
    pub(super) fields: JsonObject,
}

impl Part {
    /// A job that was found: its verdict, and its output if any is to be shown.
    pub(crate) fn job(job: &Snapshot, shown: Option<&Shown>) -> Self {
        let mut text = verdict::verdict(job, shown);
        if let Some(shown) = shown {
            push_block(&mut text, &shown.body());
        }
        Self { text, fields: fields_with_output(job, shown) }
    }

    /// What it takes in an answer, what stands between two of them included.
    pub(crate) fn size(&self, format: ResultFormat) -> usize {
        let text = self.text.len() + "\n\n".len();
        match format {
            ResultFormat::Text => text,
            ResultFormat::Structured | ResultFormat::Both => text.max(json_size(&self.fields) + 1),
        }
    }

    /// A job in a list: a line of its own, and what names it beside the usual fields.
    pub(crate) fn listed(job: &Snapshot, line: String, names: JsonObject) -> Self {
        let mut fields = structured::fields(job, None);
        fields.extend(names);
        Self { text: line, fields }
    }

    /// A job in which something was found: a line of its own, what was found, and what names it
    /// beside the usual fields.
    pub(crate) fn found(job: &Snapshot, line: String, shown: &Shown, names: JsonObject) -> Self {
        let mut part = Self { text: line, fields: fields_with_output(job, Some(shown)) };
        push_block(&mut part.text, &shown.text);
        part.fields.extend(names);
        part
    }

    /// The same, saying which line matched.
    pub(crate) fn with_match(self, line: u64) -> Self {
        self.with_sign(&format!("line {line} matches"), "matched_line", line)
    }

    /// The same, saying that it was quiet for as long as was asked.
    pub(crate) fn with_quiet(self) -> Self {
        self.with_sign("quiet", "quiet", true)
    }

    /// The same with one more word in its verdict, and its field.
    fn with_sign(mut self, word: &str, field: &str, value: impl Into<Value>) -> Self {
        let end_of_verdict = self.text.find('\n').unwrap_or(self.text.len());
        self.text.insert_str(end_of_verdict, &format!(" · {word}"));
        self.fields.insert(field.to_owned(), value.into());
        self
    }

    /// The same, saying how many lines of its output match, if that was asked for.
    pub(crate) fn with_matches(mut self, matches: Option<u64>) -> Self {
        if let Some(matches) = matches {
            let said = count(matches, "line matches", "lines match");
            self.text.push_str(&format!(" · {said}"));
            self.fields.insert("matches".into(), matches.into());
        }
        self
    }

    /// The same, saying how many processes that had outlived the job were ended.
    pub(crate) fn with_ended(mut self, processes: usize) -> Self {
        if processes > 0 {
            let said = count(processes as u64, "process", "processes");
            self.text.push_str(&format!(" · {said} ended"));
            self.fields.insert("ended_processes".into(), processes.into());
        }
        self
    }

    /// A job that was asked for but does not exist, or no longer.
    pub(crate) fn missing(error: &FindError) -> Self {
        let mut fields = JsonObject::new();
        fields.insert("job".into(), error.id().number().into());
        fields.insert("error".into(), error.to_string().into());
        fields.insert("error_code".into(), error.code().into());
        Self { text: error.to_string(), fields }
    }
}

/// The structured form of what is known about a job, with the output that is shown.
fn fields_with_output(job: &Snapshot, shown: Option<&Shown>) -> JsonObject {
    let mut fields = structured::fields(job, shown);
    if let Some(shown) = shown {
        fields.insert(shown.field().to_owned(), shown.head().into());
    }
    fields
}

/// Adds lines below what is there, without an empty last line.
fn push_block(text: &mut String, added: &str) {
    if let Some(added) = block(added) {
        text.push('\n');
        text.push_str(added);
    }
}

/// Lines without an empty last one, if there are any.
pub(super) fn block(lines: &str) -> Option<&str> {
    Some(lines.strip_suffix('\n').unwrap_or(lines)).filter(|block| !block.is_empty())
}

/// Characters of a command that a list shows.
const COMMAND_CHARS: usize = 100;
/// Characters of a command that the structured form of a list shows.
const NAME_CHARS: usize = 500;

/// How many jobs there are of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) queued: usize,
    pub(crate) running: usize,
    pub(crate) finished: usize,
}

/// The first line of a list: how many there are, and how many of those asked for are shown.
pub(crate) fn list_headline(counts: Counts, shown: usize, matching: usize) -> String {
    let Counts { queued, running, finished } = counts;
    let mut line = format!(
        "{} running, {} queued, {} finished",
        thousands(running as u64),
        thousands(queued as u64),
        thousands(finished as u64)
    );
    if matching < queued + running + finished {
        line.push_str(&format!(" · {}", count(matching as u64, "match", "matches")));
    }
    if shown < matching {
        line.push_str(&format!(" · showing the newest {}", thousands(shown as u64)));
    }
    line
}

/// A job in a list.
pub(crate) fn list_line(job: &Snapshot, command: &str, description: Option<&str>) -> String {
    let mut parts = state(job);
    let lost = job.output.lost_bytes();
    parts.extend((lost > 0).then(|| format!("{} of output lost", size(lost))));
    parts.extend(description.map(one_line));
    parts.push(one_line(command));
    format!("{} {}", job.job, parts.join(" · "))
}

fn state(job: &Snapshot) -> Vec<String> {
    match &job.state {
        State::Queued(None) => vec!["starting".to_owned()],
        State::Queued(Some(place)) => {
            let mut parts = vec!["queued".to_owned(), position(place)];
            parts.extend(why_queued(place));
            parts
        }
        State::Running(_) => open("running", job),
        State::Stopping => open("stopping, ran", job),
        State::Finished(ending) => {
            let mut parts = vec![ended(job, ending)];
            if !matches!(ending.outcome, Outcome::TimedOut { .. }) && !job.never_started() {
                parts.push(exact(job.elapsed));
            }
            parts.push(count(job.lines(), "line", "lines"));
            parts
        }
    }
}

fn open(word: &str, job: &Snapshot) -> Vec<String> {
    let mut parts = vec![format!("{word} {}", rough(job.elapsed))];
    parts.push(match job.quiet_for {
        Some(quiet) => format!("last output {} ago", rough(quiet)),
        None => "no output yet".to_owned(),
    });
    if job.waits_for_input() {
        parts.push("waiting for input".to_owned());
    }
    parts
}

/// A name as the structured form of a list has it: cut where it is huge.
pub(crate) fn clipped(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS) {
        None => name.to_owned(),
        Some((end, _)) => {
            let missing = name[end..].chars().count() as u64;
            format!("{}… [+{} chars]", &name[..end], thousands(missing))
        }
    }
}

/// Text on one line, cut where it is long.
pub(super) fn one_line(text: &str) -> String {
    let flat: String = text
        .trim()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(COMMAND_CHARS)
        .collect();
    if text.trim().chars().nth(COMMAND_CHARS).is_some() { flat + "…" } else { flat }
}
