//! Submissions of callers outside MCP: the fields of a request, read and admitted as those of
//! `run_command` are.

use std::time::Instant;

use rmcp::model::JsonObject;
use serde_json::Value;
use thiserror::Error;

use super::args::{ArgError, Args};
use super::handler::Handler;
use super::schema::{ArgKind, ArgSpec, build_schema};
use super::tools::{read_terms, type_in};
use crate::service::{
    CallerIdentity, JobHandle, Submission, SubmitError, TenantClient, TerminalSize,
};
use crate::spec::{CallMode, JobClient, JobProgram, LargeOutput, Priority, Stdin, StreamMode};

/// The fields of a request.
const FIELDS: [ArgSpec; 20] = [
    ArgSpec::optional("command", ArgKind::Text, "Shell command line"),
    ArgSpec::optional(
        "program",
        ArgKind::Text,
        "Program to run without a shell, instead of command",
    ),
    ArgSpec::optional("args", ArgKind::Texts, "Arguments of the program"),
    ArgSpec::optional("directory", ArgKind::Text, "Working directory"),
    ArgSpec::optional("env", ArgKind::Pairs, "Variables to add to the environment"),
    ArgSpec::with_empty(
        "stdin",
        ArgKind::Text,
        "Standard input; \"\" is none. Without this field the input stays open for POST /input",
    ),
    ArgSpec::optional("timeout_s", ArgKind::Seconds, "Then the process tree is killed"),
    ArgSpec::optional("description", ArgKind::Text, "Shown in lists"),
    ArgSpec::optional("lane", ArgKind::Text, "Queue lane"),
    ArgSpec::optional(
        "priority",
        ArgKind::Choice(&["low", "normal", "high"]),
        "Order among the waiting jobs of the tenant",
    ),
    ArgSpec::optional("terminal", ArgKind::Flag, "Run in a terminal"),
    ArgSpec::optional("rows", ArgKind::Whole, "Height of the terminal"),
    ArgSpec::optional("columns", ArgKind::Whole, "Width of the terminal"),
    ArgSpec::optional(
        "streams",
        ArgKind::Choice(&["merged", "separate"]),
        "separate: stdout and stderr apart, not in order",
    ),
    ArgSpec::optional(
        "on_large_output",
        ArgKind::Choice(&["spill", "truncate", "error"]),
        "Keep all, keep both ends, or stop",
    ),
    ArgSpec::optional(
        "confinement",
        ArgKind::Choice(&["none", "default", "workspace-write", "read-only"]),
        "Sandbox profile; it can only be tighter than the tenant's",
    ),
    ArgSpec::optional("network", ArgKind::Choice(&["on", "off"]), "Network access"),
    ArgSpec::optional(
        "limits",
        ArgKind::Object,
        "memory (2 GB), cpu_s, processes, open_files, file_size, nice",
    ),
    ArgSpec::optional("key", ArgKind::Text, "Same key, same job: a retry runs nothing twice"),
    ArgSpec::optional("shell", ArgKind::Text, "Path of the shell for command"),
];

/// The reason why a request submitted no job.
#[derive(Debug, Error)]
pub enum JobRequestError {
    /// The text says which field is not valid, and why.
    #[error("{0}")]
    Fields(String),
    #[error("refused, nothing was run: {0}")]
    Submit(#[from] SubmitError),
}

impl From<ArgError> for JobRequestError {
    fn from(error: ArgError) -> Self {
        Self::Fields(error.to_string())
    }
}

/// A request for a job, read but not admitted.
struct JobRequest {
    submission: Submission,
    /// The text to type into the terminal.
    typed: Option<String>,
}

/// Returns the JSON schema of a request.
#[must_use]
pub fn job_request_schema() -> Value {
    Value::Object(build_schema(&FIELDS))
}

impl Handler {
    /// Submits the job of a request by the program `client`.
    ///
    /// # Errors
    /// If a field is not valid, or the job is not accepted.
    pub async fn submit_job(
        &self,
        caller: CallerIdentity,
        client: &JobClient,
        fields: JsonObject,
    ) -> Result<JobHandle, JobRequestError> {
        let JobRequest { submission, typed } = JobRequest::read(fields)?;
        let called = Instant::now();
        let job = self.client_named(caller, client).submit(submission).await?;
        // The key may have returned a job that an earlier request started.
        let is_new = job.status().submitted >= called;
        if let Some(text) = typed.filter(|_| is_new) {
            let job = job.clone();
            tokio::spawn(async move {
                job.started().await;
                type_in(job, text).await;
            });
        }
        Ok(job)
    }

    fn client_named(&self, caller: CallerIdentity, client: &JobClient) -> TenantClient {
        let named = self.shared.service.tenant_client(caller, &client.name);
        match &client.version {
            Some(version) => named.with_client_version(version),
            None => named,
        }
    }
}

impl JobRequest {
    fn read(fields: JsonObject) -> Result<Self, ArgError> {
        let mut args = Args::new(Some(fields), &FIELDS)?;
        let program = read_program(&mut args)?;
        let text = args.text("stdin")?;
        let has_terminal = args.flag("terminal")?;
        let (stdin, typed) = match (has_terminal, text) {
            (true, text) => (Stdin::Terminal, text.filter(|text| !text.is_empty())),
            (false, Some(text)) => (Stdin::Text(text), None),
            (false, None) => (Stdin::Open, None),
        };
        let terminal_size = read_size(&mut args)?;
        let streams = args.choice("streams", &StreamMode::WORDS)?;
        if has_terminal && streams == Some(StreamMode::Separate) {
            return Err(ArgError::Conflict(
                "a terminal has only one stream; leave `terminal` or `streams` out",
            ));
        }
        if !has_terminal && terminal_size.is_some() {
            return Err(ArgError::Conflict("`rows` and `columns` are for a job with `terminal`"));
        }
        let submission = Submission {
            cwd: args.text("directory")?.map(Into::into),
            env: args.pairs("env")?,
            stdin,
            terminal_size,
            streams,
            timeout: args.seconds("timeout_s")?,
            on_large_output: args.choice("on_large_output", &LargeOutput::WORDS)?,
            description: args.text("description")?,
            lane: args.text("lane")?,
            priority: args.choice("priority", &Priority::WORDS)?,
            call_mode: CallMode::Background,
            confinement: read_terms(&mut args)?,
            key: args.text("key")?,
            shell: args.text("shell")?,
            ..Submission::new(program)
        };
        Ok(Self { submission, typed })
    }
}

fn read_program(args: &mut Args) -> Result<JobProgram, ArgError> {
    let arguments = args.texts("args")?;
    match (args.text("command")?, args.text("program")?, arguments) {
        (Some(command), None, None) => Ok(JobProgram::Shell(command)),
        (None, Some(program), args) => {
            Ok(JobProgram::Direct { program, args: args.unwrap_or_default() })
        }
        (Some(_), None, Some(_)) => {
            Err(ArgError::Conflict("`args` are for a `program`; put them into `command`"))
        }
        (Some(_), Some(_), _) => {
            Err(ArgError::Conflict("give `command` or `program`, and not both"))
        }
        (None, None, _) => Err(ArgError::Conflict(
            "there is nothing to run: give `command`, or `program` and `args`",
        )),
    }
}

fn read_size(args: &mut Args) -> Result<Option<TerminalSize>, ArgError> {
    let sizes = 1..=u64::from(TerminalSize::MAX);
    let rows = args.whole("rows", sizes.clone())?.and_then(|rows| u16::try_from(rows).ok());
    let columns = args.whole("columns", sizes)?.and_then(|columns| u16::try_from(columns).ok());
    match (rows, columns) {
        (Some(rows), Some(columns)) => Ok(Some(TerminalSize { rows, columns })),
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => {
            Err(ArgError::Conflict("`rows` and `columns` belong together; give both"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn read(given: &Value) -> Result<JobRequest, ArgError> {
        JobRequest::read(given.as_object().cloned().unwrap())
    }

    #[test]
    fn a_request_names_a_command_or_a_program() {
        let shell = read(&json!({"command": "ls -l", "timeout_s": 1.5})).unwrap().submission;
        assert_eq!(shell.program, JobProgram::Shell("ls -l".into()));
        assert_eq!((shell.timeout, shell.stdin), (Some(Duration::from_millis(1500)), Stdin::Open));
        let direct = read(&json!({"program": "ls", "args": ["-l"], "stdin": ""})).unwrap();
        let program = JobProgram::Direct { program: "ls".into(), args: vec!["-l".into()] };
        assert_eq!(direct.submission.program, program);
        assert_eq!(direct.submission.stdin, Stdin::Text(String::new()));
        for (given, words) in [
            (json!({}), "nothing to run"),
            (json!({"args": ["-l"]}), "nothing to run"),
            (json!({"command": "ls", "program": "ls"}), "not both"),
            (json!({"command": "ls", "args": ["-l"]}), "into `command`"),
            (json!({"command": "ls", "cwd": "/"}), "unknown argument `cwd`"),
            (json!({"command": "ls", "limits": {"memroy": 5}}), "`memory`"),
        ] {
            let error = read(&given).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(words), "{given}: {error}");
        }
    }

    #[test]
    fn a_terminal_has_a_size_and_one_stream() {
        let given =
            json!({"command": "x", "terminal": true, "rows": 24, "columns": 80, "stdin": "y\n"});
        let request = read(&given).unwrap();
        assert_eq!(request.submission.stdin, Stdin::Terminal);
        assert_eq!(request.submission.terminal_size, Some(TerminalSize { rows: 24, columns: 80 }));
        assert_eq!(request.typed.as_deref(), Some("y\n"));
        for given in [
            json!({"command": "x", "rows": 24, "columns": 80}),
            json!({"command": "x", "terminal": true, "rows": 24}),
            json!({"command": "x", "terminal": true, "rows": 24, "columns": 80_000}),
            json!({"command": "x", "terminal": true, "streams": "separate"}),
        ] {
            assert!(read(&given).is_err(), "{given}");
        }
    }
}
