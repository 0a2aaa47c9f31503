//! `run_shell_command`: runs a bash command line in the foreground or in the background.
//!
//! `read_shell_output` reads the output of such a command from any byte on. The document of this dialect
//! has no such tool; without it, output above the limit of a reply and the later output of a background
//! command could not be read.

use std::io;
use std::time::Duration;

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::read_file_chunk::{OutputPage, PageLimits, read_stream_page};
use super::run::{DialectReply, SlotWait, reserve_memory, submit, wait_for_end};
use crate::ids::{JobId, JobNumber};
use crate::mcp::args::{ArgError, ArgKind, ArgSpec, Args};
use crate::mcp::reply::{MAX_LINES, describe_stop, fair_shares, trim_lines};
use crate::mcp::tools::ToolCall;
use crate::outcome::{JobEnding, Outcome, StartError, format_not_run};
use crate::service::{
    AdmissionError, DirectoryScope, FindError, JobHandle, JobPhase, Submission, SubmitError,
};
use crate::spec::{JobKind, JobProgram, Stream};

const SHELL: &str = "bash";

/// The wait for a background command to start; the reply does not wait for a full queue.
const START_WAIT: Duration = Duration::from_secs(1);
/// The wait for a command that has left the queue on a busy host.
const SLOW_START_WAIT: Duration = Duration::from_secs(10);

/// The wait after the start of a background command, for first output or an immediate end.
const FIRST_OUTPUT_WAIT: Duration = Duration::from_millis(150);

const FIELDS: [ArgSpec; 4] = [
    ArgSpec::required("command", ArgKind::Text, ""),
    ArgSpec::optional("description", ArgKind::Text, ""),
    ArgSpec::optional("directory", ArgKind::Text, ""),
    // Optional here, because its absence has a special error text.
    ArgSpec::optional(IS_BACKGROUND, ArgKind::Flag, ""),
];

const IS_BACKGROUND: &str = "is_background";

pub(in crate::mcp) const ABOUT: &str = "Executes a shell command as `bash -c <command>`. Set \
    is_background=true for commands that go on running (servers, watchers, daemons), and false for \
    commands to wait for. Returns Command, Directory, Stdout, Stderr, Error, Exit Code, Signal and \
    Background PIDs; Truncated if output is missing, and Job, with which read_shell_output reads \
    more.";

pub(in crate::mcp) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "Exact bash command to execute as `bash -c <command>`"},
            "description": {
                "type": "string",
                "description": "Brief description of the command for the user."
            },
            "directory": {
                "type": "string",
                "description": "Directory to run the command in, relative to the project root. Default: the project root."
            },
            IS_BACKGROUND: {
                "type": "boolean",
                "description": "Whether to run the command in the background. Must be given for every command: true for long-running processes, false for one-time commands."
            }
        },
        "required": ["command", IS_BACKGROUND]
    })
}

pub(in crate::mcp) async fn call(call: ToolCall<'_>, arguments: JsonObject) -> DialectReply {
    run(call, arguments)
        .await
        .unwrap_or_else(|text| DialectReply::failure(format!("Error: {text}")))
}

async fn run(call: ToolCall<'_>, arguments: JsonObject) -> Result<DialectReply, String> {
    let args = RunShellCommandArgs::read(arguments)?;
    let mut submission = args.submission;
    let marker = &call.settings.dialect.run_shell_command.marker;
    submission.env.extend(marker.iter().map(|name| (name.clone(), "1".to_owned())));
    let slot_wait = match args.mode {
        RunMode::Foreground => SlotWait::AtMost(call.client.max_timeout()),
        RunMode::Background => SlotWait::Unlimited,
    };
    let submitted = submit(call, submission, slot_wait).await;
    let job = submitted.map_err(|error| format_refusal(&error))?;
    let ending = match args.mode {
        RunMode::Foreground => Some(wait_for_end(call, &job).await?),
        RunMode::Background => wait_for_first_output(call, &job).await,
    };
    let most = call.settings.max_page_bytes;
    // The memory stays reserved until the reply is made.
    let _memory = reserve_memory(&job, most.saturating_mul(2)).await.map_err(format_read_error)?;
    let [stdout, stderr] = read_first_pages(&job, most).await.map_err(format_read_error)?;
    let state = CommandState::new(&job, ending);
    let report = CommandReport { mode: args.mode, stdout, stderr, state };
    let is_error = report.state.failed_to_start();
    Ok(DialectReply { is_error, ..build_row_reply(report.rows(&job)) })
}

/// Reads the first page of each stream: at most `most` bytes of each, and together at most
/// [`OUTPUT_LINES`], which they share evenly if both have many.
async fn read_first_pages(job: &JobHandle, most: usize) -> io::Result<[OutputPage; 2]> {
    let limits = PageLimits { bytes: most, lines: OUTPUT_LINES };
    let mut pages = [
        read_page(job, Stream::Stdout, 0, limits).await?,
        read_page(job, Stream::Stderr, 0, limits).await?,
    ];
    let lines = [&pages[0], &pages[1]].map(|page| decode_page(page).lines().count());
    let shares = fair_shares(&lines, OUTPUT_LINES);
    for (index, stream) in [Stream::Stdout, Stream::Stderr].into_iter().enumerate() {
        if shares[index] < lines[index] {
            let limits = PageLimits { lines: shares[index], ..limits };
            pages[index] = read_page(job, stream, 0, limits).await?;
        }
    }
    Ok(pages)
}

/// The error text if the output of a job cannot be read.
fn format_read_error(error: io::Error) -> String {
    format!("the output cannot be read: {error}")
}

/// The error text; this tool names the directory argument differently.
fn format_refusal(error: &SubmitError) -> String {
    match error {
        SubmitError::Rules(AdmissionError::Unreadable(StartError::BadCwd { cwd, why })) => {
            format!("cannot run in `{cwd}`: {why}; give an existing directory as `directory`")
        }
        SubmitError::Rules(_) => format!("refused, nothing was run: {error}"),
        SubmitError::EmptyCommand
        | SubmitError::TooLong { .. }
        | SubmitError::Timeout { .. }
        | SubmitError::EnvName { .. }
        | SubmitError::UnknownLane { .. }
        | SubmitError::Confinement(_)
        | SubmitError::Refused(_) => error.to_string(),
    }
}

/// Gives a background command a moment for its first output. Returns `None` unless the command has
/// ended by then.
async fn wait_for_first_output(call: ToolCall<'_>, job: &JobHandle) -> Option<JobEnding> {
    if timeout(START_WAIT, job.started()).await.is_err() {
        if call.client.queue_position(job.id()).await.is_some() {
            return None;
        }
        // The job has left the queue and is being started.
        timeout(SLOW_START_WAIT, job.started()).await.ok()?;
    }
    timeout(FIRST_OUTPUT_WAIT, job.finished()).await.ok()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunMode {
    Foreground,
    Background,
}

#[derive(Debug)]
struct RunShellCommandArgs {
    submission: Submission,
    mode: RunMode,
}

impl RunShellCommandArgs {
    fn read(arguments: JsonObject) -> Result<Self, String> {
        if arguments.get(IS_BACKGROUND).is_none_or(Value::is_null) {
            return Err(format!(
                "missing argument `{IS_BACKGROUND}`: it must be given for every command; say true \
                 for servers, watchers and daemons that go on running, false for a command to wait \
                 for"
            ));
        }
        let args = Self::from_args(arguments).map_err(|error| error.to_string())?;
        match &args.submission.cwd {
            Some(cwd) if cwd.is_absolute() => Err(format!(
                "`directory` must be relative to the project root, but `{}` is a full path",
                cwd.display()
            )),
            Some(_) | None => Ok(args),
        }
    }

    fn from_args(arguments: JsonObject) -> Result<Self, ArgError> {
        let mut args = Args::strict(arguments, &FIELDS)?;
        let command = args.text("command")?.unwrap_or_default();
        let mode =
            if args.flag(IS_BACKGROUND)? { RunMode::Background } else { RunMode::Foreground };
        let submission = Submission {
            cwd: args.text("directory")?.map(Into::into),
            description: mark_background(args.text("description")?, mode),
            shell: Some(SHELL.to_owned()),
            within: DirectoryScope::DefaultDirectory,
            drain_max: leaves_processes(&command).then_some(FIRST_OUTPUT_WAIT),
            kind: match mode {
                RunMode::Foreground => JobKind::Command,
                RunMode::Background => JobKind::Service,
            },
            ..Submission::new(JobProgram::Shell(command))
        };
        Ok(Self { submission, mode })
    }
}

/// `true` if a command ends with `&`: its shell exits, and its processes go on.
fn leaves_processes(command: &str) -> bool {
    let text = command.trim_end();
    text.ends_with('&') && !text.ends_with("&&")
}

/// Adds `[background]` to the description of a background command.
fn mark_background(description: Option<String>, mode: RunMode) -> Option<String> {
    match (description, mode) {
        (description, RunMode::Foreground) => description,
        (Some(description), RunMode::Background) => Some(format!("{description} [background]")),
        (None, RunMode::Background) => Some("[background]".to_owned()),
    }
}

/// The values of a reply.
#[derive(Debug)]
struct CommandReport {
    mode: RunMode,
    stdout: OutputPage,
    stderr: OutputPage,
    state: CommandState,
}

impl CommandReport {
    /// The fields of the document, in its order, and those that it does not have.
    fn rows(&self, job: &JobHandle) -> Vec<(&'static str, Value)> {
        let spec = job.spec();
        let mut rows = vec![("Command", json!(spec.program.display()))];
        if let Some(text) = &spec.description {
            rows.push(("Description", json!(join_lines(text))));
        }
        rows.push(("Directory", json!(spec.cwd.display().to_string())));
        rows.push(("Stdout", json!(decode_page(&self.stdout))));
        rows.push(("Stderr", json!(decode_page(&self.stderr))));
        rows.extend(self.state.rows());
        let cuts: Vec<String> = [(Stream::Stdout, &self.stdout), (Stream::Stderr, &self.stderr)]
            .into_iter()
            .filter_map(|(stream, page)| describe_cut(job, stream, page))
            .collect();
        let is_cut = !cuts.is_empty();
        if is_cut {
            rows.push(("Truncated", json!(cuts.join("; "))));
        }
        // With this number a caller can read the output later.
        if self.mode == RunMode::Background || !self.state.pids.is_empty() || is_cut {
            rows.push(("Job", json!(job.id().number())));
        }
        rows
    }
}

/// The state of a command at one moment, as both tools of this dialect show it.
#[derive(Debug)]
struct CommandState {
    /// `None` while the command waits in the queue or runs.
    ending: Option<JobEnding>,
    /// The number of the job that waits in the queue.
    queued: Option<JobId>,
    /// The processes that go on.
    pids: Vec<u32>,
}

impl CommandState {
    /// Reads the state of a job with this ending.
    pub(super) fn new(job: &JobHandle, ending: Option<JobEnding>) -> Self {
        let is_queued = job.status().phase == JobPhase::Queued;
        let pids = match ending {
            Some(_) => job.survivors().pids().to_vec(),
            None => job.pids(),
        };
        Self { ending, queued: is_queued.then(|| job.id()), pids }
    }

    fn failed_to_start(&self) -> bool {
        matches!(&self.ending, Some(JobEnding { outcome: Outcome::FailedToStart(_), .. }))
    }

    /// The last four fields of the document.
    pub(super) fn rows(&self) -> [(&'static str, Value); 4] {
        let (error, code, signal) = match (&self.ending, self.queued) {
            (Some(ending), _) => describe_exit(ending),
            (None, Some(id)) => {
                (Some(format!("queued as job {id}: it starts when a slot is free")), None, None)
            }
            (None, None) => (None, None, None),
        };
        [
            ("Error", json!(error)),
            ("Exit Code", json!(code)),
            ("Signal", json!(signal)),
            ("Background PIDs", json!(self.pids)),
        ]
    }
}

/// The most lines of the command in the text of a reply; its structured form has all of them.
const COMMAND_LINES: usize = 100;

/// Creates a reply with these fields, and the same as lines of text.
fn build_row_reply(rows: Vec<(&'static str, Value)>) -> DialectReply {
    let text = rows.iter().map(|(name, value)| match *name {
        "Command" => trim_lines(&format_row(name, value), COMMAND_LINES),
        _ => format_row(name, value),
    });
    let text: Vec<String> = text.collect();
    let fields = rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    DialectReply { structured: Some(fields), ..DialectReply::text(text.join("\n")) }
}

/// Replaces line breaks by spaces, so that the text stays in one row.
fn join_lines(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// The bytes of a page as text; invalid UTF-8 becomes `�`.
fn decode_page(page: &OutputPage) -> String {
    String::from_utf8_lossy(&page.bytes).into_owned()
}

/// Says how much of a stream is shown and which call reads on, if the page is not all of it.
fn describe_cut(job: &JobHandle, stream: Stream, page: &OutputPage) -> Option<String> {
    let next = format_next_call(job, stream, page)?;
    let shown = page.span.end;
    let total = page.span.total;
    let name = stream.name();
    Some(format!("{name} shows {shown} of {total} bytes, {next} reads on"))
}

/// Formats one row; an empty stream reads `Stdout: (empty)`, as in the document's own tool.
fn format_row(name: &str, value: &Value) -> String {
    let text = match value {
        Value::Null => "(none)".to_owned(),
        Value::String(text) if text.is_empty() => "(empty)".to_owned(),
        Value::String(text) => text.strip_suffix('\n').unwrap_or(text).to_owned(),
        Value::Array(items) if items.is_empty() => "(none)".to_owned(),
        Value::Array(items) => items.iter().map(Value::to_string).collect::<Vec<_>>().join(", "),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    };
    format!("{name}: {text}")
}

/// Returns error, exit code and signal of a job's ending.
fn describe_exit(ending: &JobEnding) -> (Option<String>, Option<i32>, Option<i32>) {
    match &ending.outcome {
        Outcome::Exited { code } => (None, Some(*code), None),
        Outcome::Signaled { signal, .. } => (None, None, Some(*signal)),
        Outcome::TimedOut { after } => {
            let seconds = after.as_secs_f64();
            (
                Some(format!("the command was ended after its deadline of {seconds} seconds")),
                None,
                None,
            )
        }
        Outcome::Stopped { by } => {
            (Some(format!("the command was {}", describe_stop(*by))), None, None)
        }
        Outcome::NotRun { by, waited } => {
            let error = format!("the command {} ({})", format_not_run(*waited), describe_stop(*by));
            (Some(error), None, None)
        }
        Outcome::Limit { which } => (Some(which.to_string()), None, None),
        Outcome::FailedToStart(error) => (Some(error.to_string()), None, None),
        Outcome::Lost { why } => (Some(why.clone()), None, None),
    }
}

pub(in crate::mcp) const READ_SHELL_OUTPUT: &str = "read_shell_output";

const READ_SHELL_OUTPUT_FIELDS: [ArgSpec; 4] = [
    ArgSpec::required("job", ArgKind::Whole, ""),
    ArgSpec::optional("stream", ArgKind::Choice(&STREAMS), ""),
    ArgSpec::optional("offset", ArgKind::Whole, ""),
    ArgSpec::optional("max_bytes", ArgKind::Whole, ""),
];

const STREAMS: [&str; 2] = [Stream::Stdout.name(), Stream::Stderr.name()];

/// The most lines for the fields of a reply beside the command and the output.
const OTHER_LINES: usize = 20;
/// The most lines of output in a reply of this dialect: some clients show no more of it.
const OUTPUT_LINES: usize = MAX_LINES - COMMAND_LINES - OTHER_LINES;

/// The smallest page: any UTF-8 character fits.
const MIN_BYTES: u64 = 4;

pub(in crate::mcp) const READ_SHELL_OUTPUT_ABOUT: &str = "Reads the output of a run_shell_command call: the rest if the \
    reply says Truncated, or what a background command has written since. Never runs anything. \
    Next Call reads on; it is none at the end.";

pub(in crate::mcp) fn read_shell_output_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "job": {"type": "integer", "description": "The field Job of the run_shell_command reply."},
            "stream": {"type": "string", "enum": STREAMS, "default": STREAMS[0]},
            "offset": {
                "type": "integer",
                "minimum": 0,
                "default": 0,
                "description": "First byte of the stream to read."
            },
            "max_bytes": {"type": "integer", "minimum": MIN_BYTES}
        },
        "required": ["job"]
    })
}

pub(in crate::mcp) async fn read_shell_output(
    call: ToolCall<'_>,
    arguments: JsonObject,
) -> DialectReply {
    read(call, arguments)
        .await
        .unwrap_or_else(|text| DialectReply::failure(format!("Error: {text}")))
}

async fn read(call: ToolCall<'_>, arguments: JsonObject) -> Result<DialectReply, String> {
    let max = call.settings.max_page_bytes;
    let args = ReadShellOutputArgs::read(arguments, max).map_err(|error| error.to_string())?;
    let most = args.max_bytes.unwrap_or(call.settings.page_bytes);
    let job = call.client.find(call.client.job_id(args.job)).await.map_err(format_find_error)?;
    // Taken before the read: the output of a command that has ended is complete.
    let state = CommandState::new(&job, job.status().ending().cloned());
    // The memory stays reserved until the reply is made.
    let _memory = reserve_memory(&job, most).await.map_err(format_read_error)?;
    let limits = PageLimits { bytes: most, lines: OUTPUT_LINES };
    let page =
        read_page(&job, args.stream, args.offset, limits).await.map_err(format_read_error)?;
    let mut rows = vec![
        ("Command", json!(job.spec().program.display())),
        ("Stream", json!(args.stream.name())),
        ("Output", json!(decode_page(&page))),
        ("Start", json!(page.span.start)),
        ("End", json!(page.span.end)),
        ("Total", json!(page.span.total)),
        ("Next Call", json!(format_next_call(&job, args.stream, &page))),
    ];
    rows.extend(state.rows());
    Ok(build_row_reply(rows))
}

/// The error text; the caller of this dialect may have no list of jobs.
fn format_find_error(error: FindError) -> String {
    match error {
        FindError::Unknown { id } => {
            format!("there is no job {id}; give the field Job of a run_shell_command reply")
        }
        FindError::Freed { .. } | FindError::Unavailable { .. } => error.to_string(),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct ReadShellOutputArgs {
    job: JobNumber,
    stream: Stream,
    offset: u64,
    max_bytes: Option<usize>,
}

impl ReadShellOutputArgs {
    fn read(arguments: JsonObject, max: usize) -> Result<Self, ArgError> {
        let mut args = Args::strict(arguments, &READ_SHELL_OUTPUT_FIELDS)?;
        let max_bytes = args.whole("max_bytes", MIN_BYTES..=max as u64)?;
        let words = [("stdout", Stream::Stdout), ("stderr", Stream::Stderr)];
        Ok(Self {
            job: args.job("job")?.ok_or(ArgError::Conflict("`job` is needed"))?,
            stream: args.choice("stream", &words)?.unwrap_or(Stream::Stdout),
            offset: args.whole("offset", 0..=u64::MAX)?.unwrap_or_default(),
            max_bytes: max_bytes.and_then(|bytes| usize::try_from(bytes).ok()),
        })
    }
}

/// Reads a page of a stream; offsets count only the bytes of that stream.
pub(super) async fn read_page(
    job: &JobHandle,
    stream: Stream,
    start: u64,
    limits: PageLimits,
) -> io::Result<OutputPage> {
    job.output().read_with(move |log| read_stream_page(log, stream, start, limits)).await
}

/// Returns the call that reads on after a page; `None` if the page ends with the stream.
fn format_next_call(job: &JobHandle, stream: Stream, page: &OutputPage) -> Option<String> {
    let is_cut = page.span.has_more && page.span.end < page.span.total;
    let id = job.id();
    let stream = stream.name();
    let offset = page.span.end;
    is_cut.then(|| format!("{READ_SHELL_OUTPUT}(job={id}, stream=\"{stream}\", offset={offset})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(given: Value) -> String {
        RunShellCommandArgs::read(given.as_object().cloned().unwrap_or_default()).unwrap_err()
    }

    #[test]
    fn is_background_is_required() {
        for given in [json!({"command": "ls"}), json!({"command": "ls", IS_BACKGROUND: null})] {
            let error = refused(given);
            assert!(error.contains(IS_BACKGROUND) && error.contains("every command"), "{error}");
        }
        assert!(
            refused(json!({"command": "ls", IS_BACKGROUND: "maybe"})).contains("true or false")
        );
    }

    #[test]
    fn an_ampersand_at_the_end_leaves_processes() {
        for (command, expected) in
            [("ls", false), ("a && b", false), ("a &&", false), ("srv & ", true), ("srv &", true)]
        {
            assert_eq!(leaves_processes(command), expected, "{command}");
        }
    }

    #[test]
    fn a_background_command_is_a_service_with_the_text_as_given() {
        for text in ["exit 3", "# comment", "echo a ) ; ( echo b", "srv &"] {
            let given = json!({"command": text, IS_BACKGROUND: true});
            let given = given.as_object().cloned().unwrap_or_default();
            let args = RunShellCommandArgs::read(given).unwrap();
            assert_eq!(args.submission.kind, JobKind::Service);
            assert_eq!(args.submission.program, JobProgram::Shell(text.to_owned()));
        }
    }

    #[test]
    fn the_description_marks_a_background_command() {
        assert_eq!(
            mark_background(Some("Start".into()), RunMode::Background).unwrap(),
            "Start [background]"
        );
        assert_eq!(mark_background(None, RunMode::Background).unwrap(), "[background]");
        assert_eq!(mark_background(None, RunMode::Foreground), None);
    }

    #[test]
    fn the_directory_is_relative() {
        let error = refused(json!({"command": "ls", "directory": "/etc", IS_BACKGROUND: false}));
        assert!(error.contains("relative to the project root"), "{error}");
    }
}
