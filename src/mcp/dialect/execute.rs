//! `execute`: runs a command or a program with arguments; the reply has seven fields.

use std::io;
use std::time::Duration;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::run::{CapturedOutput, CapturedStream, DialectReply, SlotWait, submit, wait_for_end};
use crate::mcp::args::{ArgError, ArgKind, ArgSpec, Args};
use crate::mcp::reply::millis;
use crate::mcp::tools::ToolCall;
use crate::outcome::{JobEnding, Outcome, format_not_run};
use crate::service::{JobHandle, Submission};
use crate::spec::{JobProgram, Stdin};
use crate::telemetry::events;

/// The shell for calls without `args`: `sh -c`.
const SHELL: &str = "/bin/sh";

const FIELDS: [ArgSpec; 4] = [
    ArgSpec::required("command", ArgKind::Text, ""),
    ArgSpec::optional("args", ArgKind::Texts, ""),
    ArgSpec::optional("stdin", ArgKind::Text, ""),
    ArgSpec::optional("timeout_ms", ArgKind::Whole, ""),
];

pub(in crate::mcp) const ABOUT: &str = "Runs a command and returns the captured output.";

pub(in crate::mcp) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "Command string or executable name."},
            "args": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Array of arguments. When present, the command is executed directly without a shell."
            },
            "stdin": {"type": "string", "description": "String content passed to stdin."},
            "timeout_ms": {
                "type": "integer",
                "minimum": 1,
                "description": "Timeout in milliseconds. The process is killed on timeout."
            }
        },
        "required": ["command"]
    })
}

pub(in crate::mcp) async fn call(call: ToolCall<'_>, arguments: JsonObject) -> DialectReply {
    match execute(call, arguments).await {
        Ok(reply) => reply,
        Err(text) => DialectReply::failure(text),
    }
}

async fn execute(call: ToolCall<'_>, arguments: JsonObject) -> Result<DialectReply, String> {
    let max_timeout = call.client.max_timeout();
    let submission = read_submission(arguments, millis(max_timeout))?;
    let submitted = submit(call, submission, SlotWait::AtMost(max_timeout)).await;
    let job = submitted.map_err(|error| format_failure(&error.to_string()))?;
    let ending =
        wait_for_end(call, &job).await.map_err(|given_up| format_failure(&given_up.to_string()))?;
    if let Some(why) = explain_missing_result(&ending.outcome) {
        return Err(format_failure(&why));
    }
    let most = call.settings.dialect.execute.max_output;
    let output = CapturedOutput::read_together(&job, most).await.map_err(format_read_failure)?;
    log_output(call, &job, &output);
    Ok(DialectReply::fields(build_fields(&job, &ending, &output)))
}

/// Says why a job has no result, in the document's words if it has some.
fn explain_missing_result(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::FailedToStart(_) => Some("spawn failed".to_owned()),
        Outcome::Lost { .. } => Some("wait failed".to_owned()),
        Outcome::NotRun { waited, .. } => Some(format_not_run(*waited)),
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Stopped { .. }
        | Outcome::Limit { .. } => None,
    }
}

fn format_read_failure(_: io::Error) -> String {
    format_failure("read failed")
}

fn format_failure(why: &str) -> String {
    format!("Error: execute: {why}")
}

/// Parses the arguments; `most` is the longest allowed deadline in milliseconds.
fn read_submission(arguments: JsonObject, most: u64) -> Result<Submission, String> {
    let read = || {
        let mut args = Args::strict(arguments, &FIELDS)?;
        let command = args.text("command")?.unwrap_or_default();
        let words = args.texts("args")?;
        let stdin = args.text("stdin")?;
        Ok((command, words, stdin, args.whole("timeout_ms", 1..=most)?))
    };
    let (command, words, stdin, timeout) =
        read().map_err(|error: ArgError| format!("Error: {error}"))?;
    if command.trim().is_empty() {
        return Err("Error: command: empty".to_owned());
    }
    let program = match words {
        Some(args) => JobProgram::Direct { program: command, args },
        None => JobProgram::Shell(command),
    };
    Ok(Submission {
        stdin: stdin.map_or(Stdin::Closed, Stdin::Text),
        timeout: timeout.map(Duration::from_millis),
        shell: Some(SHELL.to_owned()),
        ..Submission::new(program)
    })
}

fn build_fields(job: &JobHandle, ending: &JobEnding, output: &CapturedOutput) -> JsonObject {
    let exit_code = match ending.outcome {
        Outcome::Exited { code } => Value::from(code),
        Outcome::Signaled { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Stopped { .. }
        | Outcome::NotRun { .. }
        | Outcome::Limit { .. }
        | Outcome::FailedToStart(_)
        | Outcome::Lost { .. } => Value::Null,
    };
    let mut fields = JsonObject::new();
    fields.insert("stdout".into(), output.stdout.text().into());
    fields.insert("stderr".into(), output.stderr.text().into());
    fields.insert("exit_code".into(), exit_code);
    fields.insert("timed_out".into(), matches!(ending.outcome, Outcome::TimedOut { .. }).into());
    fields.insert("stdout_truncated".into(), output.stdout.is_cut.into());
    fields.insert("stderr_truncated".into(), output.stderr.is_cut.into());
    fields.insert("elapsed_ms".into(), millis(job.status().elapsed()).into());
    fields
}

/// Logs the beginning of the output, up to the configured size.
fn log_output(call: ToolCall<'_>, job: &JobHandle, output: &CapturedOutput) {
    let most = call.settings.dialect.execute.logged;
    let redactor = call.client.redactor();
    let shown = |stream: &CapturedStream| {
        let text = stream.text();
        let end = text.floor_char_boundary(most);
        redactor.mask_text(&text[..end]).into_owned()
    };
    events::output_logged(job.id(), &shown(&output.stdout), &shown(&output.stderr));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::StartError;

    #[test]
    fn each_failure_has_the_words_of_the_document() {
        let start = Outcome::FailedToStart(StartError::NotFound { program: "x".to_owned() });
        let lost = Outcome::Lost { why: "the actor failed".to_owned() };
        assert_eq!(
            format_failure(&explain_missing_result(&start).unwrap()),
            "Error: execute: spawn failed"
        );
        assert_eq!(
            format_failure(&explain_missing_result(&lost).unwrap()),
            "Error: execute: wait failed"
        );
        assert_eq!(
            format_read_failure(io::ErrorKind::TimedOut.into()),
            "Error: execute: read failed"
        );
        for code in [0, 1] {
            assert_eq!(explain_missing_result(&Outcome::Exited { code }), None);
        }
    }

    #[test]
    fn without_arguments_a_shell_reads_the_command() {
        let parse =
            |given: Value| read_submission(given.as_object().cloned().unwrap_or_default(), 10_000);
        let shell = parse(json!({"command": "echo hi", "timeout_ms": 1500})).unwrap();
        assert_eq!(shell.program, JobProgram::Shell("echo hi".to_owned()));
        assert_eq!(shell.timeout, Some(Duration::from_millis(1500)));
        let direct = parse(json!({"command": "echo", "args": []})).unwrap();
        assert!(matches!(direct.program, JobProgram::Direct { .. }));
        for empty in ["", " \n\t"] {
            assert_eq!(parse(json!({"command": empty})).unwrap_err(), "Error: command: empty");
        }
        assert!(parse(json!({})).unwrap_err().starts_with("Error: missing argument `command`"));
    }
}
