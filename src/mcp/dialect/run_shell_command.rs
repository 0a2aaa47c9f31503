//! `run_shell_command`: a command line for bash, in the foreground or in the background.

use std::path::Path;
use std::time::Duration;

use rmcp::model::JsonObject;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::run::DialectReply;
use super::run::{Captured, Output, submit, to_its_end};
use crate::mcp::args::{ArgError, Args};
use crate::mcp::schema::{Field, Kind};
use crate::mcp::tools::Call;
use crate::outcome::{JobEnding, Outcome, StartError};
use crate::service::{AdmissionError, DirectoryScope, JobHandle, Submission, SubmitError};
use crate::spec::JobProgram;

const SHELL: &str = "bash";

/// What a command in the background gets to start; the reply does not wait for a full queue.
const START: Duration = Duration::from_secs(1);
/// The same for one that does not wait in line, on a host that is busy.
const SLOW_START: Duration = Duration::from_secs(10);

/// What it then gets to write, or to fail at once. Nobody waits longer for a server's first words.
const FIRST_MOMENT: Duration = Duration::from_millis(150);

const FIELDS: [Field; 4] = [
    Field::required("command", Kind::Text, ""),
    Field::optional("description", Kind::Text, ""),
    Field::optional("directory", Kind::Text, ""),
    // Its absence has an error of its own.
    Field::optional(IS_BACKGROUND, Kind::Flag, ""),
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

pub(super) async fn call(call: Call<'_>, arguments: JsonObject) -> DialectReply {
    run(call, arguments)
        .await
        .unwrap_or_else(|text| DialectReply::failure(format!("Error: {text}")))
}

async fn run(call: Call<'_>, arguments: JsonObject) -> Result<DialectReply, String> {
    let wish = Wish::read(arguments)?;
    let mut submission = wish.submission;
    let marker = &call.settings.dialect.run_shell_command.marker;
    submission.env.extend(marker.iter().map(|name| (name.clone(), "1".to_owned())));
    let job = submit(call, submission).await.map_err(|error| refused(&error))?;
    let ending = match wish.mode {
        Mode::Foreground => Some(to_its_end(call, &job).await),
        Mode::Background => at_once(call, &job).await,
    };
    let output = Output::each(&job, call.settings.max_page_bytes).await;
    let output = output.map_err(|error| format!("the output cannot be read: {error}"))?;
    let report =
        Report { command: wish.command, mode: wish.mode, output, ending, pids: job.survivors() };
    let failed =
        matches!(&report.ending, Some(JobEnding { outcome: Outcome::FailedToStart(_), .. }));
    Ok(DialectReply { is_error: failed, ..report.reply(&job) })
}

/// A directory is given by another argument here than elsewhere.
fn refused(error: &SubmitError) -> String {
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

/// How the shell of a job in the background has ended, which it does at once; nothing where the
/// job still waits for its turn.
async fn at_once(call: Call<'_>, job: &JobHandle) -> Option<JobEnding> {
    if timeout(START, job.started()).await.is_err() {
        if call.client.queue_position(job.id()).await.is_some() {
            return None;
        }
        // It has left the line: it is being started.
        timeout(SLOW_START, job.started()).await.ok()?;
    }
    Some(job.finished().await)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Foreground,
    Background,
}

#[derive(Debug)]
struct Wish {
    submission: Submission,
    mode: Mode,
    command: String,
}

impl Wish {
    fn read(arguments: JsonObject) -> Result<Self, String> {
        if arguments.get(IS_BACKGROUND).is_none_or(Value::is_null) {
            return Err(format!(
                "missing argument `{IS_BACKGROUND}`: it must be given for every command; say true \
                 for servers, watchers and daemons that go on running, false for a command to wait \
                 for"
            ));
        }
        let wish = Self::from_args(arguments).map_err(|error| error.to_string())?;
        if wish.command.trim().is_empty() {
            return Err("`command` is empty; give a command to run".to_owned());
        }
        match &wish.submission.cwd {
            Some(cwd) if cwd.is_absolute() => Err(format!(
                "`directory` must be relative to the project root, but `{}` is a full path",
                cwd.display()
            )),
            Some(_) | None => Ok(wish),
        }
    }

    fn from_args(arguments: JsonObject) -> Result<Self, ArgError> {
        let mut args = Args::strict(arguments, &FIELDS)?;
        let command = args.text("command")?.unwrap_or_default();
        let mode = if args.flag(IS_BACKGROUND)? { Mode::Background } else { Mode::Foreground };
        let (text, stays) = in_shell(&command, mode);
        let submission = Submission {
            cwd: args.text("directory")?.map(Into::into),
            description: described(args.text("description")?, mode),
            shell: Some(SHELL.to_owned()),
            within: DirectoryScope::DefaultDirectory,
            drain_max: stays.then_some(FIRST_MOMENT),
            ..Submission::new(JobProgram::Shell(text))
        };
        Ok(Self { submission, mode, command })
    }
}

/// What the shell is given, and whether something is to stay when the shell has ended. A command
/// in the background goes on without its shell, and so takes no slot from those that are waited
/// for.
fn in_shell(command: &str, mode: Mode) -> (String, bool) {
    let text = command.trim_end();
    let is_left_behind = text.ends_with('&') && !text.ends_with("&&");
    match mode {
        Mode::Foreground => (command.to_owned(), is_left_behind),
        Mode::Background if is_left_behind => (command.to_owned(), true),
        // On lines of its own: the text may end in a comment or in a here-document.
        Mode::Background => (format!("(\n{command}\n) &"), true),
    }
}

/// The description as it is shown: it tells what runs in the background.
fn described(description: Option<String>, mode: Mode) -> Option<String> {
    match (description, mode) {
        (description, Mode::Foreground) => description,
        (Some(description), Mode::Background) => Some(format!("{description} [background]")),
        (None, Mode::Background) => Some("[background]".to_owned()),
    }
}

/// Everything that a reply tells.
#[derive(Debug)]
struct Report {
    command: String,
    mode: Mode,
    output: Output,
    /// Nothing while it waits for its turn.
    ending: Option<JobEnding>,
    pids: Vec<u32>,
}

impl Report {
    fn reply(&self, job: &JobHandle) -> DialectReply {
        let rows = self.rows(job);
        let text: Vec<String> = rows.iter().map(|(name, value)| row(name, value)).collect();
        let fields = rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        DialectReply { structured: Some(fields), ..DialectReply::text(text.join("\n")) }
    }

    /// The document's fields, in its order.
    fn rows(&self, job: &JobHandle) -> Vec<(&'static str, Value)> {
        let spec = job.spec();
        let description =
            spec.description.as_ref().map(|text| ("Description", json!(one_line(text))));
        let (error, code, signal) = self.ended(job);
        let rows = [
            ("Directory", json!(displayed(&spec.cwd))),
            ("Stdout", json!(shown(&self.output.stdout, job))),
            ("Stderr", json!(shown(&self.output.stderr, job))),
            ("Error", json!(error)),
            ("Exit Code", json!(code)),
            ("Signal", json!(signal)),
            ("Background PIDs", json!(self.pids)),
        ];
        let command = ("Command", json!(self.command));
        // By this number its output can be read, and what is left of it be stopped.
        let number = (self.mode == Mode::Background || !self.pids.is_empty())
            .then(|| ("Job", json!(job.id().number())));
        std::iter::once(command).chain(description).chain(rows).chain(number).collect()
    }

    /// Error, exit code and signal. The end of the shell that leaves a command in the background
    /// is not the end of that command.
    fn ended(&self, job: &JobHandle) -> (Option<String>, Option<i32>, Option<i32>) {
        match (self.mode, &self.ending) {
            (_, None) => {
                let id = job.id();
                (Some(format!("queued as job {id}: it starts when a slot is free")), None, None)
            }
            (Mode::Background, Some(ending))
                if matches!(ending.outcome, Outcome::Exited { code: 0 }) =>
            {
                let ended = "the command ended at once; Stdout and Stderr say what it wrote";
                (self.pids.is_empty().then(|| ended.to_owned()), None, None)
            }
            (Mode::Background | Mode::Foreground, Some(ending)) => ended(ending),
        }
    }
}

/// A text that cannot pass for more than one row.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

fn displayed(path: &Path) -> String {
    path.display().to_string()
}

/// The text, and what of it is missing.
fn shown(captured: &Captured, job: &JobHandle) -> String {
    let mut text = captured.text();
    if captured.is_cut {
        text.push_str(&format!(
            "\n[… cut here; all of it is kept as the output of job {}]",
            job.id()
        ));
    }
    text
}

/// `Stdout: (empty)` for nothing, as the document's own tool writes it.
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

/// Error, exit code and signal of a job.
fn ended(ending: &JobEnding) -> (Option<String>, Option<i32>, Option<i32>) {
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
        Outcome::Limit { which } => (Some(which.to_string()), None, None),
        Outcome::FailedToStart(error) => (Some(error.to_string()), None, None),
        Outcome::Lost { why } => (Some(why.clone()), None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(given: Value) -> String {
        Wish::read(given.as_object().cloned().unwrap_or_default()).unwrap_err()
    }

    #[test]
    fn how_it_runs_must_be_said() {
        for given in [json!({"command": "ls"}), json!({"command": "ls", IS_BACKGROUND: null})] {
            let said = refused(given);
            assert!(said.contains(IS_BACKGROUND) && said.contains("every command"), "{said}");
        }
        assert!(
            refused(json!({"command": "ls", IS_BACKGROUND: "maybe"})).contains("true or false")
        );
    }

    #[test]
    fn a_command_in_the_background_goes_on_without_its_shell() {
        for (command, mode, text, stays) in [
            ("ls", Mode::Foreground, "ls", false),
            ("a && b", Mode::Foreground, "a && b", false),
            ("srv & ", Mode::Foreground, "srv & ", true),
            ("srv &", Mode::Background, "srv &", true),
            ("srv # now", Mode::Background, "(\nsrv # now\n) &", true),
        ] {
            assert_eq!(in_shell(command, mode), (text.to_owned(), stays), "{command}");
        }
    }

    #[test]
    fn what_runs_in_the_background_says_so() {
        assert_eq!(
            described(Some("Start".into()), Mode::Background).unwrap(),
            "Start [background]"
        );
        assert_eq!(described(None, Mode::Background).unwrap(), "[background]");
        assert_eq!(described(None, Mode::Foreground), None);
    }

    #[test]
    fn the_directory_is_relative() {
        let said = refused(json!({"command": "ls", "directory": "/etc", IS_BACKGROUND: false}));
        assert!(said.contains("relative to the project root"), "{said}");
    }
}
