//! `execute_command`: shell text; its output and its return code back.

use std::io;
use std::time::Duration;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::run::{captured, reserve, submit, to_its_end};
use crate::mcp::args::{ArgError, Args};
use crate::mcp::reply::Foreign;
use crate::mcp::schema::{Field, Kind};
use crate::mcp::tools::Call;
use crate::outcome::Outcome;
use crate::spec::{Program, Stream};
use crate::telemetry::events;
use crate::yard::{JobHandle, Refused, Submission, SubmitError};

const FIELDS: [Field; 1] = [Field::required("command", Kind::Text, "")];

/// The return code of whatever has none of its own.
const NO_CODE: i32 = -1;

pub(super) const ABOUT: &str = "Execute a shell command and return its output";

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "Shell command to execute"}
        },
        "required": ["command"]
    })
}

pub(super) async fn call(call: Call<'_>, arguments: JsonObject) -> Foreign {
    let command = match command(arguments) {
        Ok(command) => command,
        Err(text) => return Foreign::failure(text),
    };
    let Ran { output, return_code } = match execute(call, &command).await {
        Ok(ran) => ran,
        Err(NotRun::Denied) => Ran::without_code("Command denied by security policy".to_owned()),
        Err(NotRun::Failed(why)) => {
            tell(call, events::command_failed, &why);
            Ran::without_code(format!("Failed to execute: {why}"))
        }
    };
    let mut fields = JsonObject::new();
    fields.insert("command".into(), command.into());
    fields.insert("output".into(), output.into());
    fields.insert("return_code".into(), return_code.into());
    Foreign::pretty(fields)
}

fn command(arguments: JsonObject) -> Result<String, String> {
    const MISSING: &str = "Missing command argument";
    let mut args = Args::new(Some(arguments), &FIELDS).map_err(|error| match error {
        ArgError::Missing { .. } => MISSING.to_owned(),
        ArgError::Unknown { .. }
        | ArgError::WrongType { .. }
        | ArgError::NotAllowed { .. }
        | ArgError::Conflict(_) => error.to_string(),
    })?;
    match args.text("command") {
        Ok(command) => command.ok_or_else(|| MISSING.to_owned()),
        Err(error) => Err(format!("{MISSING}: {error}")),
    }
}

/// What the reply says of a command.
struct Ran {
    output: String,
    return_code: i32,
}

impl Ran {
    const fn without_code(output: String) -> Self {
        Self { output, return_code: NO_CODE }
    }
}

/// Why a command has no output of its own.
enum NotRun {
    Denied,
    Failed(String),
}

impl From<SubmitError> for NotRun {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Rules(
                Refused::ByPolicy(_)
                | Refused::NeedsApproval { .. }
                | Refused::NotApproved { .. }
                | Refused::Directory { .. }
                | Refused::Confined { .. }
                | Refused::OutsideRoot { .. },
            ) => Self::Denied,
            SubmitError::Rules(Refused::Unreadable(_) | Refused::NoAudit { .. })
            | SubmitError::EmptyCommand
            | SubmitError::TooLong { .. }
            | SubmitError::Timeout { .. }
            | SubmitError::EnvName { .. }
            | SubmitError::UnknownLane { .. }
            | SubmitError::Confinement(_)
            | SubmitError::Refused(_) => Self::Failed(error.to_string()),
        }
    }
}

async fn execute(call: Call<'_>, command: &str) -> Result<Ran, NotRun> {
    let settings = &call.settings.dialect.execute_command;
    let job = submit(
        call,
        Submission {
            timeout: Some(settings.timeout.min(call.desk.max_timeout())),
            shell: Some(settings.shell.clone()),
            ..Submission::new(Program::Shell(command.to_owned()))
        },
    )
    .await?;
    tell(call, events::command_executing, command);
    let ending = to_its_end(call, &job).await;
    let (return_code, note) = match ending.outcome {
        Outcome::Exited { code } => (code, None),
        Outcome::Signaled { .. } => (NO_CODE, None),
        Outcome::TimedOut { after } => {
            let alive: Vec<u32> = ending.survivors.into_iter().chain(job.unattributed()).collect();
            (NO_CODE, Some(timed_out(after, &alive)))
        }
        Outcome::Stopped { by } => (NO_CODE, Some(format!("Command stopped ({})", by.word()))),
        Outcome::Limit { which } => (NO_CODE, Some(format!("Command stopped: {which}"))),
        Outcome::FailedToStart(why) => return Err(NotRun::Failed(why.to_string())),
        Outcome::Lost { why } => return Err(NotRun::Failed(why)),
    };
    let output = output(call, &job).await.map_err(|error| NotRun::Failed(error.to_string()))?;
    tell(call, events::command_exited, &return_code.to_string());
    Ok(Ran { output: with_note(output, note), return_code })
}

fn timed_out(after: Duration, survivors: &[u32]) -> String {
    let left = if survivors.is_empty() {
        "everything it had started was killed".to_owned()
    } else {
        format!("these processes may be of it and are alive: {survivors:?}")
    };
    format!("Command timed out after {}s; {left}", after.as_secs_f64())
}

/// Everything that it wrote to stdout, then what it wrote to stderr.
async fn output(call: Call<'_>, job: &JobHandle) -> io::Result<String> {
    let most = call.settings.dialect.execute_command.max_output;
    let _memory = reserve(job, most.saturating_mul(2)).await?;
    let mut output = stream(call, job, Stream::Stdout).await?;
    if call.settings.dialect.execute_command.stderr {
        output += &stream(call, job, Stream::Stderr).await?;
    }
    Ok(output)
}

async fn stream(call: Call<'_>, job: &JobHandle, stream: Stream) -> io::Result<String> {
    let most = call.settings.dialect.execute_command.max_output;
    let captured = captured(job, Some(stream), most).await?;
    let shown = captured.bytes.len();
    let cut = captured.is_cut.then(|| {
        let name = stream.name();
        format!("[{name} cut after its first {shown} bytes; job {} keeps all of it]", job.id())
    });
    Ok(with_note(captured.text(), cut))
}

/// The text, and a line of ours after it.
fn with_note(mut text: String, note: Option<String>) -> String {
    let Some(note) = note else { return text };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text + &note + "\n"
}

/// Tells something on stderr, where that is wished, without its secrets.
fn tell(call: Call<'_>, event: impl FnOnce(&str), text: &str) {
    if call.settings.dialect.execute_command.verbose {
        event(&call.desk.redactor().mask_text(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_command_is_taken() {
        let of = |given: Value| command(given.as_object().cloned().unwrap_or_default());
        assert_eq!(of(json!({"command": "ls -la"})), Ok("ls -la".to_owned()));
        for missing in [json!({}), json!({"command": null})] {
            assert_eq!(of(missing), Err("Missing command argument".to_owned()));
        }
        for (bad, said) in [
            (json!({"command": 7}), "Missing command argument: argument `command` must be a text"),
            (json!({"command": "ls", "cwd": "/"}), "unknown argument `cwd`"),
        ] {
            let error = of(bad).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
    }

    #[test]
    fn what_a_timeout_left_alive_is_told() {
        let after = Duration::from_millis(1500);
        let killed = "Command timed out after 1.5s; everything it had started was killed";
        assert_eq!(timed_out(after, &[]), killed);
        assert!(timed_out(after, &[7]).ends_with("may be of it and are alive: [7]"));
    }

    #[test]
    fn a_note_stands_on_a_line_of_its_own() {
        for (text, expected) in [("", "N\n"), ("a", "a\nN\n"), ("a\n", "a\nN\n")] {
            assert_eq!(with_note(text.to_owned(), Some("N".to_owned())), expected);
        }
        assert_eq!(with_note("a".to_owned(), None), "a");
    }
}
