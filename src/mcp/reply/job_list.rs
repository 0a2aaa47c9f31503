//! The state of jobs in replies: the structured form of one job, which has one flat shape for all tools,
//! replies about several jobs with one part per job, and lists with one line per job.
//!
//! A field that does not apply is absent; no field is null.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::budget::json_size;
use super::format::{count, exact, kill_note, millis, rough, shorten_to_line, thousands};
use super::shown_output::{OutputEncoding, ShownOutput, short_fields};
use super::snapshot::{
    JobSnapshot, SlotHolder, State, ending_text, lost_output, position_text, verdict, why_queued,
};
use crate::confinement::GrantedConfinement;
use crate::ids::JobId;
use crate::mcp::resources;
use crate::mcp::settings::{ResultFormat, ToolDialect};
use crate::outcome::{JobEnding, LimitKind, LivingProcesses, Outcome, signal_name};
use crate::output::PageEnd;
use crate::service::{FindError, QueuePosition};
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
        let mut text = verdict(job, shown);
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
        let mut fields = job_fields(job, None);
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
    let mut fields = job_fields(job, shown);
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
    parts.extend(lost_output(&job.output));
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
            parts.extend(format_remains(&job.survivors));
            parts
        }
    }
}

/// Counts the living processes of an ended job.
fn format_remains(alive: &LivingProcesses) -> Option<String> {
    match alive {
        LivingProcesses::Unreadable => Some("processes may still be running".to_owned()),
        LivingProcesses::Known(pids) => {
            let number = count(pids.len() as u64, "process", "processes");
            (!pids.is_empty()).then(|| format!("{number} still running"))
        }
    }
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

/// The most jobs with a line of their own.
const MAX_LINES_OF_JOBS: usize = 3;
/// The most further jobs that are named by their numbers.
const MAX_NUMBERS: usize = 20;

/// The call that follows a line about a job: one that the server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextCall {
    /// The native tools.
    Native,
    /// `read_shell_output`, beside `run_shell_command`.
    ReadShellOutput,
    /// The server offers no tool that takes the number of a job.
    Hidden,
}

impl NextCall {
    pub(crate) fn for_dialects(dialects: &[ToolDialect]) -> Self {
        if dialects.contains(&ToolDialect::Native) {
            Self::Native
        } else if dialects.contains(&ToolDialect::RunShellCommand) {
            Self::ReadShellOutput
        } else {
            Self::Hidden
        }
    }

    /// Returns the call about one job.
    fn for_job(self, job: &JobSnapshot) -> Option<String> {
        let id = job.job;
        match (self, &job.state) {
            (Self::Native, State::Finished(_)) => Some(format!("read_output(job={id})")),
            (Self::Native, State::Queued(_) | State::Running(_) | State::Stopping) => {
                Some(format!("wait_jobs(jobs=[{id}])"))
            }
            (Self::ReadShellOutput, _) => Some(format!("read_shell_output(job={id})")),
            (Self::Hidden, _) => None,
        }
    }

    /// Returns the call about several jobs.
    const fn for_jobs(self) -> Option<&'static str> {
        match self {
            Self::Native => Some("list_jobs()"),
            Self::ReadShellOutput => Some("read_shell_output(job=…)"),
            Self::Hidden => None,
        }
    }
}

/// Formats one line for each job, with the command that it runs; beyond a few, the last line has the
/// numbers of the others. `None` if there is no job.
pub(crate) fn format_unreported(jobs: &[(JobSnapshot, String)], next: NextCall) -> Option<String> {
    let (first, others) = jobs.split_at(jobs.len().min(MAX_LINES_OF_JOBS));
    let mut lines: Vec<String> =
        first.iter().map(|(job, command)| format_unreported_job(job, command, next)).collect();
    if !others.is_empty() {
        let others: Vec<JobId> = others.iter().map(|(job, _)| job.job).collect();
        let line = format!("{}, whose calls were given up too", format_numbers(&others));
        lines.push(append_call(line, next.for_jobs()));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn format_unreported_job(job: &JobSnapshot, command: &str, next: NextCall) -> String {
    let state = match &job.state {
        State::Queued(None) => "is starting".to_owned(),
        State::Queued(Some(_)) => "is still queued".to_owned(),
        State::Running(_) => "is still running".to_owned(),
        State::Stopping => "is being stopped".to_owned(),
        State::Finished(ending) => format!("has ended, {}", ending_text(job, ending)),
    };
    let line = format!("job {} ({}) {state}", job.job, shorten_to_line(command));
    append_call(line, next.for_job(job).as_deref())
}

fn append_call(line: String, call: Option<&str>) -> String {
    match call {
        Some(call) => format!("{line}: {call}"),
        None => line,
    }
}

/// Formats the numbers of jobs, such as `and jobs 4, 5`; beyond a bound they are counted.
fn format_numbers(jobs: &[JobId]) -> String {
    let numbers: Vec<String> = jobs.iter().take(MAX_NUMBERS).map(JobId::to_string).collect();
    let word = if jobs.len() == 1 { "job" } else { "jobs" };
    let others = match jobs.len().saturating_sub(MAX_NUMBERS) {
        0 => String::new(),
        others => format!(" and {} more", thousands(others as u64)),
    };
    format!("and {word} {}{others}", numbers.join(", "))
}

/// Returns the fields about a job and the position of its shown output. The output itself is not
/// included, because it may be large.
pub(crate) fn job_fields(job: &JobSnapshot, shown: Option<&ShownOutput>) -> JsonObject {
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
    fields.put_if(job.output.dropped_at_most, "dropped_at_most", true);
    let removed = job.output.removed_bytes + job.output.cut_bytes;
    fields.put_if(removed > 0, "removed_bytes", removed);
    fields.put_if(job.waits_for_input(), "waiting_for_input", true);
    if let Some(prompt) = &job.prompt {
        fields.put("prompt", prompt.as_str());
    }
    // Empty, if they are there and cannot be read.
    fields.put_if(!job.survivors.is_empty(), "background_pids", job.survivors.pids());
    fields.put_if(!job.set_aside.is_empty(), "set_aside", job.set_aside_paths());
    fields.put_if(!job.refused.first.is_empty(), "refused_programs", job.refused_programs());
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

fn put_outcome(fields: &mut ReplyFields, ending: &JobEnding, alive: &LivingProcesses) {
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
        Outcome::Limit { which } => {
            fields.put("limit", which.word());
            if let LimitKind::Memory { peak, .. } = which {
                fields.put("peak_memory_bytes", *peak);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_jobs_are_named_by_their_numbers_up_to_a_bound() {
        let jobs: Vec<JobId> = (4..30).map(JobId::local).collect();
        assert_eq!(format_numbers(&jobs[..1]), "and job 4");
        assert_eq!(format_numbers(&jobs[..2]), "and jobs 4, 5");
        assert!(format_numbers(&jobs).ends_with("22, 23 and 6 more"), "{}", format_numbers(&jobs));
    }

    #[test]
    fn living_processes_of_an_ended_job_are_counted() {
        for (alive, expected) in [
            (LivingProcesses::default(), None),
            (LivingProcesses::Known(vec![7]), Some("1 process still running")),
            (LivingProcesses::Known(vec![6, 7]), Some("2 processes still running")),
            (LivingProcesses::Unreadable, Some("processes may still be running")),
        ] {
            assert_eq!(format_remains(&alive).as_deref(), expected, "{alive:?}");
        }
    }

    #[test]
    fn the_next_call_is_one_that_the_server_offers() {
        use ToolDialect::{Execute, Native, RunShellCommand};
        for (dialects, expected) in [
            (&[Native][..], NextCall::Native),
            (&[RunShellCommand, Native][..], NextCall::Native),
            (&[Execute, RunShellCommand][..], NextCall::ReadShellOutput),
            (&[Execute][..], NextCall::Hidden),
        ] {
            assert_eq!(NextCall::for_dialects(dialects), expected, "{dialects:?}");
        }
    }
}
