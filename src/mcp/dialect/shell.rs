//! `shell`: runs a shell command with a deadline; the reply is a sentence and metadata.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::run::{CapturedOutput, CapturedStream, submit, wait_for_end};
use super::run::{DialectReply, ReplyText};
use crate::mcp::args::{ArgError, Args};
use crate::mcp::schema::{ArgKind, ArgSpec};
use crate::mcp::settings::ShellDialectSettings;
use crate::mcp::tools::ToolCall;
use crate::outcome::{JobEnding, Outcome, StartError, signal_name};
use crate::output::views;
use crate::service::{AdmissionError, CommandLogging, JobHandle, Submission, SubmitError};
use crate::spec::JobProgram;

const FIELDS: [ArgSpec; 4] = [
    ArgSpec::required("command", ArgKind::Text, ""),
    ArgSpec::optional("working_directory", ArgKind::Text, ""),
    ArgSpec::optional("timeout", ArgKind::Whole, ""),
    ArgSpec::optional("environment", ArgKind::Pairs, ""),
];

pub(super) const ABOUT: &str = "Execute shell commands with timeout and output capture";

pub(super) fn schema(settings: &ShellDialectSettings) -> Value {
    let default = settings.default_timeout.as_secs();
    let most = settings.max_timeout.as_secs();
    json!({
        "type": "object",
        "properties": {
            "command": {
                "type": "string",
                "description": "The shell command to execute",
                "minLength": 1
            },
            "working_directory": {
                "type": "string",
                "description": "Working directory for command execution (optional, defaults to current directory)"
            },
            "timeout": {
                "type": "integer",
                "description": format!(
                    "Command timeout in seconds (optional, defaults to {default} seconds{})",
                    if default.is_multiple_of(60) { format!(" / {} minutes", default / 60) } else { String::new() }
                ),
                "minimum": 1,
                "maximum": most,
                "default": default
            },
            "environment": {
                "type": "object",
                "description": "Additional environment variables to set (optional)",
                "additionalProperties": {"type": "string"}
            }
        },
        "required": ["command"]
    })
}

pub(super) async fn call(call: ToolCall<'_>, arguments: JsonObject) -> DialectReply {
    let settings = &call.settings.dialect.shell;
    let reply = match submission(arguments, settings) {
        Ok(submission) => run(call, submission).await,
        // No command ran, so nothing is written to the abort file.
        Err(text) => return DialectReply::failure(text),
    };
    if let Some(path) = settings.abort_file.as_ref().filter(|_| reply.is_error) {
        let reply = reply.clone().masked(&call.client.redactor());
        call.client.write_abort_file(path.clone(), reply.whole_text()).await;
    }
    reply
}

fn submission(
    arguments: JsonObject,
    settings: &ShellDialectSettings,
) -> Result<Submission, String> {
    let read = || {
        let mut args = Args::strict(arguments, &FIELDS)?;
        let command = args.text("command")?.unwrap_or_default();
        let timeout = args.whole("timeout", 1..=settings.max_timeout.as_secs())?;
        Ok(Submission {
            cwd: args.text("working_directory")?.map(Into::into),
            env: args.pairs("environment")?,
            timeout: Some(timeout.map_or(settings.default_timeout, Duration::from_secs)),
            logged: if settings.log_commands { CommandLogging::Yes } else { CommandLogging::No },
            ..Submission::new(JobProgram::Shell(command))
        })
    };
    read().map_err(|error: ArgError| error.to_string())
}

async fn run(call: ToolCall<'_>, submission: Submission) -> DialectReply {
    let command = json!(submission.program.display());
    let job = match submit(call, submission).await {
        Ok(job) => job,
        Err(error) => return refusal(command, &error),
    };
    let ending = wait_for_end(call, &job).await;
    match CapturedOutput::read_each(&job, call.settings.dialect.shell.max_output).await {
        Ok(output) => {
            let suggestion = suggestion(call, &ending, &output).await;
            reply(&job, &ending, &output, suggestion)
        }
        Err(error) => {
            DialectReply::failure(format!("The output of the command could not be read: {error}"))
        }
    }
}

/// Builds the reply to a refused command; nothing was run.
fn refusal(command: Value, error: &SubmitError) -> DialectReply {
    let text = match error {
        SubmitError::Rules(AdmissionError::Unreadable(error)) => {
            format!("Command refused, nothing was run: {}", start_error_text(error))
        }
        SubmitError::Rules(_) => format!("Permission denied, nothing was run: {error}"),
        SubmitError::EmptyCommand
        | SubmitError::TooLong { .. }
        | SubmitError::Timeout { .. }
        | SubmitError::EnvName { .. }
        | SubmitError::UnknownLane { .. }
        | SubmitError::Confinement(_)
        | SubmitError::Refused(_) => format!("Command refused, nothing was run: {error}"),
    };
    let mut fields = JsonObject::new();
    fields.insert("command".into(), command);
    fields.insert("error".into(), text.as_str().into());
    fields.insert("error_code".into(), error.code().into());
    DialectReply { is_error: true, ..with_metadata(text, fields) }
}

/// Suggests what to do about a command that was not found or must not be executed.
async fn suggestion(
    call: ToolCall<'_>,
    ending: &JobEnding,
    output: &CapturedOutput,
) -> Option<String> {
    let stderr = output.stderr.text();
    let names = call.client.similar_commands(ending, &stderr).await;
    if !names.is_empty() {
        return Some(format!("Command not found; did you mean {}?", names.join(", ")));
    }
    match ending.outcome {
        Outcome::Exited { code: 127 } => {
            Some("Command not found; check its name, or give its full path".to_owned())
        }
        Outcome::Exited { code: 126 } => Some(
            "Permission denied: the file is there but cannot be executed; make it executable \
             (chmod +x), or run it with its interpreter"
                .to_owned(),
        ),
        Outcome::Exited { code } if code != 0 && stderr.contains("Permission denied") => Some(
            "Permission denied: the user of the server may not do this; use a path that it may \
             use, or change the permissions"
                .to_owned(),
        ),
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Stopped { .. }
        | Outcome::Limit { .. }
        | Outcome::FailedToStart(_)
        | Outcome::Lost { .. } => None,
    }
}

fn reply(
    job: &JobHandle,
    ending: &JobEnding,
    output: &CapturedOutput,
    suggestion: Option<String>,
) -> DialectReply {
    let mut fields = JsonObject::new();
    fields.insert("command".into(), job.spec().program.display().into());
    fields.insert("working_directory".into(), job.spec().cwd.display().to_string().into());
    if let Outcome::TimedOut { after } = ending.outcome {
        fields.insert("timeout_seconds".into(), after.as_secs().into());
        put_stream(&mut fields, "partial_stdout", &output.stdout);
        put_stream(&mut fields, "partial_stderr", &output.stderr);
    } else {
        put_ending(&mut fields, ending);
        let elapsed = u64::try_from(job.status().elapsed().as_millis()).unwrap_or(u64::MAX);
        fields.insert("execution_time_ms".into(), elapsed.into());
        put_stream(&mut fields, "stdout", &output.stdout);
        put_stream(&mut fields, "stderr", &output.stderr);
    }
    if output.stdout.is_cut || output.stderr.is_cut {
        // The job that keeps the rest.
        fields.insert("job".into(), job.id().number().into());
    }
    let mut text = summary(ending);
    if let Some(suggestion) = suggestion {
        text = format!("{text}\n{suggestion}");
        fields.insert("suggestion".into(), suggestion.into());
    }
    let is_error = !matches!(ending.outcome, Outcome::Exited { code: 0 });
    DialectReply { is_error, ..with_metadata(text, fields) }
}

/// Builds a reply with the sentence, and the metadata in each place where a client may look for it.
fn with_metadata(text: String, fields: JsonObject) -> DialectReply {
    let mut meta = JsonObject::new();
    meta.insert("metadata".into(), Value::Object(fields.clone()));
    DialectReply {
        detail: Some(ReplyText::Pretty(fields.clone())),
        structured: Some(fields),
        meta: Some(meta),
        ..DialectReply::text(text)
    }
}

fn summary(ending: &JobEnding) -> String {
    match &ending.outcome {
        Outcome::Exited { code: 0 } => "Command executed successfully".to_owned(),
        Outcome::Exited { code } => format!("Command failed with exit code {code}"),
        Outcome::Signaled { signal, .. } => {
            format!("Command terminated by signal {signal} ({})", signal_name(*signal))
        }
        Outcome::TimedOut { after } => {
            format!("Command timed out after {} seconds", after.as_secs())
        }
        Outcome::Stopped { by } => format!("Command stopped ({})", by.word()),
        Outcome::Limit { which } => format!("Command ended: {which}"),
        Outcome::FailedToStart(error) => {
            format!("Command could not be started: {}", start_error_text(error))
        }
        Outcome::Lost { why } => format!("Command lost: {why}"),
    }
}

/// The error text; this tool names the directory argument differently.
fn start_error_text(error: &StartError) -> String {
    match error {
        StartError::BadCwd { cwd, why } => {
            format!("cannot run in `{cwd}`: {why}; give an existing directory as working_directory")
        }
        StartError::NotFound { .. }
        | StartError::NotExecutable { .. }
        | StartError::TooLong { .. }
        | StartError::NulByte { .. }
        | StartError::Confinement { .. }
        | StartError::NoWorkspace { .. }
        | StartError::OutOfProcesses { .. }
        | StartError::System { .. } => error.to_string(),
    }
}

fn put_ending(fields: &mut JsonObject, ending: &JobEnding) {
    let code = match &ending.outcome {
        Outcome::Exited { code } => Value::from(*code),
        Outcome::Signaled { signal, .. } => {
            fields.insert("signal".into(), (*signal).into());
            fields.insert("signal_name".into(), signal_name(*signal).into());
            Value::Null
        }
        Outcome::TimedOut { .. }
        | Outcome::Stopped { .. }
        | Outcome::Limit { .. }
        | Outcome::FailedToStart(_)
        | Outcome::Lost { .. } => Value::Null,
    };
    fields.insert("exit_code".into(), code);
}

/// Adds a stream as text; binary data is described instead. Bytes that are not valid UTF-8 are
/// added as base64 too.
fn put_stream(fields: &mut JsonObject, name: &str, stream: &CapturedStream) {
    if views::is_binary(&stream.bytes) {
        let mime = views::mime(&stream.bytes);
        let length = stream.bytes.len();
        let about = format!("[binary output: {mime}, {length} bytes; see {name}_base64]");
        fields.insert(name.to_owned(), about.into());
    } else {
        fields.insert(name.to_owned(), stream.text().into());
    }
    if str::from_utf8(&stream.bytes).is_err() || views::is_binary(&stream.bytes) {
        fields.insert(format!("{name}_base64"), STANDARD.encode(&stream.bytes).into());
    }
    if stream.is_cut {
        fields.insert(format!("{name}_truncated"), true.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: Value) -> Result<Submission, String> {
        submission(given.as_object().cloned().unwrap_or_default(), &ShellDialectSettings::default())
    }

    #[test]
    fn the_deadline_is_the_default_or_within_bounds() {
        let timeout = |given| read(given).unwrap().timeout.unwrap().as_secs();
        assert_eq!(timeout(json!({"command": "x"})), 300);
        assert_eq!(timeout(json!({"command": "x", "timeout": 1800})), 1800);
        for bad in [json!(0), json!(1801), json!(-1), json!(1.5), json!("soon")] {
            let error = read(json!({"command": "x", "timeout": bad})).unwrap_err();
            assert!(error.contains("`timeout`"), "{error}");
        }
    }

    #[test]
    fn binary_output_is_returned_whole_as_base64() {
        let mut fields = JsonObject::new();
        let bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xfe".to_vec();
        put_stream(&mut fields, "stdout", &CapturedStream { bytes: bytes.clone(), is_cut: true });
        assert!(fields["stdout"].as_str().unwrap().contains("image/png"));
        assert_eq!(fields["stdout_base64"], STANDARD.encode(bytes));
        assert_eq!(fields["stdout_truncated"], true);
    }
}
