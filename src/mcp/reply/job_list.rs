//! Replies about several jobs: one part per job, and lists with one line per job.

use rmcp::model::JsonObject;
use serde_json::Value;

use super::body::ShownOutput;
use super::budget::json_size;
use super::format::{count, exact, rough, shorten_to_line, size, thousands};
use super::verdict::{ending_text, position_text, why_queued};
use super::{structured, verdict};
use crate::mcp::settings::ResultFormat;
use crate::mcp::snapshot::{JobSnapshot, State};
use crate::outcome::Outcome;
use crate::service::FindError;
use crate::spec::JobClient;

/// The part of a reply about several jobs that is about one of them.
#[derive(Debug, Clone)]
pub(crate) struct ReplyPart {
    pub(super) text: String,
    pub(super) fields: JsonObject,
}

/// The sign of an event in a reply: a word in the verdict, and a field.
#[derive(Debug, Clone)]
pub(crate) struct EventSign {
    pub(super) word: String,
    pub(super) field: &'static str,
    pub(super) value: Value,
}

impl EventSign {
    /// The sign of a line that matched.
    pub(crate) fn matched_line(line: u64) -> Self {
        Self { word: format!("line {line} matches"), field: "matched_line", value: line.into() }
    }

    /// The sign of a job that wrote nothing for the requested time.
    pub(crate) fn quiet() -> Self {
        Self { word: "quiet".to_owned(), field: "quiet", value: true.into() }
    }

    /// The sign of a job that had ended before the call.
    pub(crate) fn ended_before() -> Self {
        let word = "ended before this call".to_owned();
        Self { word, field: "ended_before", value: true.into() }
    }
}

impl ReplyPart {
    /// Creates the part for an existing job: its verdict, and its output if any is shown.
    pub(crate) fn for_job(job: &JobSnapshot, shown: Option<&ShownOutput>) -> Self {
        let mut text = verdict::verdict(job, shown);
        if let Some(shown) = shown {
            push_block(&mut text, &shown.body());
        }
        Self { text, fields: fields_with_output(job, shown) }
    }

    /// The size of this part in a reply, in bytes, including the separator.
    pub(crate) fn size(&self, format: ResultFormat) -> usize {
        let text = self.text.len() + "\n\n".len();
        match format {
            ResultFormat::Text => text,
            ResultFormat::Structured | ResultFormat::Both => text.max(json_size(&self.fields) + 1),
        }
    }

    /// Creates a list entry: a line, and naming fields beside the usual ones.
    pub(crate) fn for_list(job: &JobSnapshot, line: String, names: JsonObject) -> Self {
        let mut fields = structured::fields(job, None);
        fields.extend(names);
        Self { text: line, fields }
    }

    /// Creates the part for a job with matches: a line, the matches, and naming fields beside the
    /// usual ones.
    pub(crate) fn for_search(
        job: &JobSnapshot,
        line: String,
        shown: &ShownOutput,
        names: JsonObject,
    ) -> Self {
        let mut part = Self { text: line, fields: fields_with_output(job, Some(shown)) };
        push_block(&mut part.text, &shown.text);
        part.fields.extend(names);
        part
    }

    /// Adds the event that ended the wait for this job.
    pub(crate) fn with_sign(mut self, sign: Option<EventSign>) -> Self {
        if let Some(EventSign { word, field, value }) = sign {
            let end_of_verdict = self.text.find('\n').unwrap_or(self.text.len());
            self.text.insert_str(end_of_verdict, &format!(" · {word}"));
            self.fields.insert(field.to_owned(), value);
        }
        self
    }

    /// Adds how many lines of the output match, if that was counted.
    pub(crate) fn with_matches(mut self, matches: Option<u64>) -> Self {
        if let Some(matches) = matches {
            let counted = count(matches, "line matches", "lines match");
            self.text.push_str(&format!(" · {counted}"));
            self.fields.insert("matches".into(), matches.into());
        }
        self
    }

    /// Adds how many surviving processes of the job were ended.
    pub(crate) fn with_ended(mut self, processes: usize) -> Self {
        if processes > 0 {
            let counted = count(processes as u64, "process", "processes");
            self.text.push_str(&format!(" · {counted} ended"));
            self.fields.insert("ended_processes".into(), processes.into());
        }
        self
    }

    /// Creates the part for a job that does not exist, or no longer exists.
    pub(crate) fn for_missing(error: &FindError) -> Self {
        let mut fields = JsonObject::new();
        fields.insert("job".into(), error.id().number().into());
        fields.insert("error".into(), error.to_string().into());
        fields.insert("error_code".into(), error.code().into());
        Self { text: error.to_string(), fields }
    }
}

/// Returns the structured form of a job's state, with the shown output.
fn fields_with_output(job: &JobSnapshot, shown: Option<&ShownOutput>) -> JsonObject {
    let mut fields = structured::fields(job, shown);
    if let Some(shown) = shown {
        fields.insert(shown.field().to_owned(), shown.head().into());
    }
    fields
}

/// Appends lines without an empty last one.
fn push_block(text: &mut String, added: &str) {
    if let Some(added) = block(added) {
        text.push('\n');
        text.push_str(added);
    }
}

/// Returns lines without an empty last one; `None` if nothing is left.
pub(super) fn block(lines: &str) -> Option<&str> {
    Some(lines.strip_suffix('\n').unwrap_or(lines)).filter(|block| !block.is_empty())
}

/// Characters of a command in the structured form of a list.
const NAME_CHARS: usize = 500;

/// The number of jobs in each state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct JobCounts {
    pub(crate) queued: usize,
    pub(crate) running: usize,
    pub(crate) finished: usize,
    /// Finished jobs of which processes still run.
    pub(crate) surviving: usize,
}

/// Formats the first line of a list: how many jobs there are, and how many of those asked for are
/// shown.
pub(crate) fn list_headline(counts: JobCounts, shown: usize, matching: usize) -> String {
    let JobCounts { queued, running, finished, surviving } = counts;
    let mut line = format!(
        "{} running, {} queued, {} finished",
        thousands(running as u64),
        thousands(queued as u64),
        thousands(finished as u64)
    );
    if surviving > 0 {
        line.push_str(&format!(" ({} with processes still running)", thousands(surviving as u64)));
    }
    if matching < queued + running + finished {
        line.push_str(&format!(" · {}", count(matching as u64, "match", "matches")));
    }
    if shown < matching {
        line.push_str(&format!(" · showing the newest {}", thousands(shown as u64)));
    }
    line
}

/// Formats the line of a job in a list; `client` is the program that submitted it, if that is another
/// one than the reader.
pub(crate) fn list_line(
    job: &JobSnapshot,
    command: &str,
    description: Option<&str>,
    client: Option<&JobClient>,
) -> String {
    let mut parts = state_parts(job);
    let lost = job.output.lost_bytes();
    parts.extend((lost > 0).then(|| format!("{} of output lost", size(lost))));
    parts.extend(client.map(|client| format!("by {}", shorten_to_line(&client.display()))));
    parts.extend(description.map(shorten_to_line));
    parts.push(shorten_to_line(command));
    format!("{} {}", job.job, parts.join(" · "))
}

/// Returns the fields about the program that submitted a job.
pub(crate) fn client_fields(client: &JobClient) -> JsonObject {
    let mut fields = JsonObject::new();
    fields.insert("client".into(), client.name.as_str().into());
    if let Some(version) = &client.version {
        fields.insert("client_version".into(), version.as_str().into());
    }
    if let Some(directory) = &client.directory {
        fields.insert("client_directory".into(), directory.to_string_lossy().into());
    }
    fields
}

fn state_parts(job: &JobSnapshot) -> Vec<String> {
    match &job.state {
        State::Queued(None) => vec!["starting".to_owned()],
        State::Queued(Some(place)) => {
            let mut parts = vec!["queued".to_owned(), position_text(place)];
            parts.extend(why_queued(place));
            parts
        }
        State::Running(_) => open_job_parts("running", job),
        State::Stopping => open_job_parts("stopping, ran", job),
        State::Finished(ending) => {
            let mut parts = vec![ending_text(job, ending)];
            if !matches!(ending.outcome, Outcome::TimedOut { .. }) && !job.never_started() {
                parts.push(exact(job.elapsed));
            }
            parts.push(count(job.lines(), "line", "lines"));
            parts.extend(format_survivors(job.survivors.len()));
            parts
        }
    }
}

fn format_survivors(processes: usize) -> Option<String> {
    let processes = processes as u64;
    (processes > 0).then(|| format!("{} still running", count(processes, "process", "processes")))
}

fn open_job_parts(word: &str, job: &JobSnapshot) -> Vec<String> {
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

/// Shortens a name for the structured form of a list.
pub(crate) fn clipped(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS) {
        None => name.to_owned(),
        Some((end, _)) => {
            let missing = name[end..].chars().count() as u64;
            format!("{}… [+{} chars]", &name[..end], thousands(missing))
        }
    }
}
