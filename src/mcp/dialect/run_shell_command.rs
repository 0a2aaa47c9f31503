//! `run_shell_command`: runs a bash command line in the foreground or in the background.

use std::time::Duration;

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::run::DialectReply;
use super::run::{CapturedOutput, CapturedStream, submit, wait_for_end};
use crate::mcp::args::{ArgError, Args};
use crate::mcp::schema::{ArgKind, ArgSpec};
use crate::mcp::tools::ToolCall;
use crate::outcome::{JobEnding, Outcome, StartError, not_run_text};
use crate::service::{AdmissionError, DirectoryScope, JobHandle, Submission, SubmitError};
use crate::spec::{Inherit, JobProgram};

const SHELL: &str = "bash";

/// The wait for a background command to start; the reply does not wait for a full queue.
const START_WAIT: Duration = Duration::from_secs(1);
/// The wait for a command that has left the queue on a busy host.
const SLOW_START_WAIT: Duration = Duration::from_secs(10);

/// The wait after the start, for first output or an immediate failure.
const FIRST_OUTPUT_WAIT: Duration = Duration::from_millis(150);

const FIELDS: [ArgSpec; 4] = [
    ArgSpec::required("command", ArgKind::Text, ""),
    ArgSpec::optional("description", ArgKind::Text, ""),
    ArgSpec::optional("directory", ArgKind::Text, ""),
    // Optional here, because its absence has a special error text.
    ArgSpec::optional(IS_BACKGROUND, ArgKind::Flag, ""),
];

const IS_BACKGROUND: &str = "is_background";

pub(super) const ABOUT: &str = "Executes a shell command as `bash -c <command>`. Set \
    is_background=true for commands that go on running (servers, watchers, daemons), and false for \
    commands to wait for. Returns Command, Directory, Stdout, Stderr, Error, Exit Code, Signal and \
    Background PIDs.";

pub(super) fn schema() -> Value {
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

pub(super) async fn call(call: ToolCall<'_>, arguments: JsonObject) -> DialectReply {
    run(call, arguments)
        .await
        .unwrap_or_else(|text| DialectReply::failure(format!("Error: {text}")))
}

async fn run(call: ToolCall<'_>, arguments: JsonObject) -> Result<DialectReply, String> {
    let args = RunShellCommandArgs::read(arguments)?;
    let mut submission = args.submission;
    let marker = &call.settings.dialect.run_shell_command.marker;
    submission.env.extend(marker.iter().map(|name| (name.clone(), "1".to_owned())));
    let job = submit(call, submission).await.map_err(|error| refusal_text(&error))?;
    let ending = match args.mode {
        RunMode::Foreground => Some(wait_for_end(call, &job).await),
        RunMode::Background => wait_for_shell(call, &job).await,
    };
    let output = CapturedOutput::read_each(&job, call.settings.max_page_bytes).await;
    let output = output.map_err(|error| format!("the output cannot be read: {error}"))?;
    let report = CommandReport {
        command: args.command,
        mode: args.mode,
        output,
        ending,
        pids: job.survivors(),
    };
    let failed =
        matches!(&report.ending, Some(JobEnding { outcome: Outcome::FailedToStart(_), .. }));
    Ok(DialectReply { is_error: failed, ..report.reply(&job) })
}

/// The error text; this tool names the directory argument differently.
fn refusal_text(error: &SubmitError) -> String {
    match error {
        SubmitError::Rules(AdmissionError::Unreadable(StartError::BadCwd { cwd, why })) => {
            format!("cannot run in `{cwd}`: {why}; give an existing directory as `directory`")
        }
        SubmitError::Rules(_)
        | SubmitError::EmptyCommand
        | SubmitError::TooLong { .. }
        | SubmitError::Timeout { .. }
        | SubmitError::EnvName { .. }
        | SubmitError::UnknownLane { .. }
        | SubmitError::Confinement(_)
        | SubmitError::Refused(_) => error.to_string(),
    }
}

/// Waits for the shell of a background job, which exits at once. Returns `None` if the job is still
/// queued.
async fn wait_for_shell(call: ToolCall<'_>, job: &JobHandle) -> Option<JobEnding> {
    if timeout(START_WAIT, job.started()).await.is_err() {
        if call.client.queue_position(job.id()).await.is_some() {
            return None;
        }
        // The job has left the queue and is being started.
        timeout(SLOW_START_WAIT, job.started()).await.ok()?;
    }
    Some(job.finished().await)
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
    command: String,
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
        if args.command.trim().is_empty() {
            return Err("`command` is empty; give a command to run".to_owned());
        }
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
        let (text, stays) = shell_text(&command, mode);
        let submission = Submission {
            cwd: args.text("directory")?.map(Into::into),
            description: mark_background(args.text("description")?, mode),
            inherit: Inherit::All,
            shell: Some(SHELL.to_owned()),
            within: DirectoryScope::DefaultDirectory,
            drain_max: stays.then_some(FIRST_OUTPUT_WAIT),
            ..Submission::new(JobProgram::Shell(text))
        };
        Ok(Self { submission, mode, command })
    }
}

/// Returns the shell text, and `true` if processes stay behind when the shell exits. A background
/// command continues without its shell, so it takes no slot from commands that a caller waits for.
fn shell_text(command: &str, mode: RunMode) -> (String, bool) {
    let text = command.trim_end();
    let is_left_behind = text.ends_with('&') && !text.ends_with("&&");
    match mode {
        RunMode::Foreground => (command.to_owned(), is_left_behind),
        RunMode::Background if is_left_behind => (command.to_owned(), true),
        // On lines of its own, because the text may end in a comment or a here-document.
        RunMode::Background => (format!("(\n{command}\n) &"), true),
    }
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
    command: String,
    mode: RunMode,
    output: CapturedOutput,
    /// `None` while the job is queued.
    ending: Option<JobEnding>,
    pids: Vec<u32>,
}

impl CommandReport {
    fn reply(&self, job: &JobHandle) -> DialectReply {
        let rows = self.rows(job);
        let text: Vec<String> = rows.iter().map(|(name, value)| row(name, value)).collect();
        let fields = rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        DialectReply { structured: Some(fields), ..DialectReply::text(text.join("\n")) }
    }

    /// The fields of the document, in its order.
    fn rows(&self, job: &JobHandle) -> Vec<(&'static str, Value)> {
        let spec = job.spec();
        let description =
            spec.description.as_ref().map(|text| ("Description", json!(one_line(text))));
        let (error, code, signal) = self.exit_fields(job);
        let rows = [
            ("Directory", json!(spec.cwd.display().to_string())),
            ("Stdout", json!(stream_text(&self.output.stdout, job))),
            ("Stderr", json!(stream_text(&self.output.stderr, job))),
            ("Error", json!(error)),
            ("Exit Code", json!(code)),
            ("Signal", json!(signal)),
            ("Background PIDs", json!(self.pids)),
        ];
        let command = ("Command", json!(self.command));
        // With this number a caller can read the output and stop what is left of the job.
        let number = (self.mode == RunMode::Background || !self.pids.is_empty())
            .then(|| ("Job", json!(job.id().number())));
        std::iter::once(command).chain(description).chain(rows).chain(number).collect()
    }

    /// Returns error, exit code and signal. For a background command the end of its shell is not
    /// the end of the command.
    fn exit_fields(&self, job: &JobHandle) -> (Option<String>, Option<i32>, Option<i32>) {
        match (self.mode, &self.ending) {
            (_, None) => {
                let id = job.id();
                (Some(format!("queued as job {id}: it starts when a slot is free")), None, None)
            }
            (RunMode::Background, Some(ending))
                if matches!(ending.outcome, Outcome::Exited { code: 0 }) =>
            {
                let ended = "the command ended at once; Stdout and Stderr say what it wrote";
                (self.pids.is_empty().then(|| ended.to_owned()), None, None)
            }
            (RunMode::Background | RunMode::Foreground, Some(ending)) => exit_fields(ending),
        }
    }
}

/// Removes line breaks, so that the text stays in one row.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

/// Returns the text of a stream, with a note if it is cut.
fn stream_text(captured: &CapturedStream, job: &JobHandle) -> String {
    let mut text = captured.text();
    if captured.is_cut {
        text.push_str(&format!(
            "\n[… cut here; all of it is kept as the output of job {}]",
            job.id()
        ));
    }
    text
}

/// Formats one row; an empty stream reads `Stdout: (empty)`, as in the document's own tool.
fn row(name: &str, value: &Value) -> String {
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
fn exit_fields(ending: &JobEnding) -> (Option<String>, Option<i32>, Option<i32>) {
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
            (Some(format!("the command was stopped ({})", by.word())), None, None)
        }
        Outcome::NotRun { by, waited } => {
            let error = format!("the command {} ({})", not_run_text(*waited), by.word());
            (Some(error), None, None)
        }
        Outcome::Limit { which } => (Some(which.to_string()), None, None),
        Outcome::FailedToStart(error) => (Some(error.to_string()), None, None),
        Outcome::Lost { why } => (Some(why.clone()), None, None),
    }
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
    fn a_background_command_outlives_its_shell() {
        for (command, mode, text, stays) in [
            ("ls", RunMode::Foreground, "ls", false),
            ("a && b", RunMode::Foreground, "a && b", false),
            ("srv & ", RunMode::Foreground, "srv & ", true),
            ("srv &", RunMode::Background, "srv &", true),
            ("srv # now", RunMode::Background, "(\nsrv # now\n) &", true),
        ] {
            assert_eq!(shell_text(command, mode), (text.to_owned(), stays), "{command}");
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
