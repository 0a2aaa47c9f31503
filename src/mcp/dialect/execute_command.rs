//! `execute_command` and its file tools: shell text in, output and return code back. `read_file`,
//! `write_file` and `list_directory` work below the working directory.

use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::run::{
    CallGivenUp, DialectReply, SlotWait, read_stream, reserve_memory, submit, wait_for_end,
};
use crate::mcp::args::{ArgError, ArgKind, ArgSpec, Args};
use crate::mcp::reply::describe_stop;
use crate::mcp::tools::ToolCall;
use crate::outcome::{LivingProcesses, Outcome, format_not_run};
use crate::service::{
    AdmissionError, CommandLogging, DirectoryEntry, DirectoryListing, FilePage, JobHandle,
    Submission, SubmitError, WriteOutcome,
};
use crate::spec::{JobProgram, Stream};
use crate::telemetry::events;

const FIELDS: [ArgSpec; 1] = [ArgSpec::required("command", ArgKind::Text, "")];

/// The return code of a command that did not exit by itself.
const NO_CODE: i32 = -1;

pub(in crate::mcp) const ABOUT: &str = "Execute a shell command and return its output";

pub(in crate::mcp) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "Shell command to execute"}
        },
        "required": ["command"]
    })
}

pub(in crate::mcp) async fn call(call: ToolCall<'_>, arguments: JsonObject) -> DialectReply {
    let command = match read_command(arguments) {
        Ok(command) => command,
        Err(text) => return DialectReply::failure(text),
    };
    let CommandResult { output, return_code } = match execute(call, &command).await {
        Ok(ran) => ran,
        Err(CommandError::Denied) => {
            CommandResult::without_code("Command denied by security policy".to_owned())
        }
        Err(CommandError::Failed(why)) => {
            log_event(call, events::command_failed, &why);
            CommandResult::without_code(format!("Failed to execute: {why}"))
        }
    };
    let mut fields = JsonObject::new();
    fields.insert("command".into(), command.into());
    fields.insert("output".into(), output.into());
    fields.insert("return_code".into(), return_code.into());
    DialectReply::pretty(fields)
}

fn read_command(arguments: JsonObject) -> Result<String, String> {
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

/// The part of the reply that depends on the command's run.
struct CommandResult {
    output: String,
    return_code: i32,
}

impl CommandResult {
    const fn without_code(output: String) -> Self {
        Self { output, return_code: NO_CODE }
    }
}

/// The reason why a command did not run to an end that has output.
enum CommandError {
    Denied,
    Failed(String),
}

impl From<CallGivenUp> for CommandError {
    fn from(error: CallGivenUp) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<SubmitError> for CommandError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Rules(
                AdmissionError::ByPolicy(_)
                | AdmissionError::NeedsApproval { .. }
                | AdmissionError::NotApproved { .. }
                | AdmissionError::Directory { .. }
                | AdmissionError::Redirected { .. }
                | AdmissionError::Confined { .. }
                | AdmissionError::NoGate { .. }
                | AdmissionError::ByVariable(_)
                | AdmissionError::NotPlain { .. }
                | AdmissionError::OutsideRoot { .. },
            ) => Self::Denied,
            SubmitError::Rules(AdmissionError::Unreadable(_) | AdmissionError::NoAudit { .. })
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

async fn execute(call: ToolCall<'_>, command: &str) -> Result<CommandResult, CommandError> {
    let settings = &call.settings.dialect.execute_command;
    let max_timeout = call.client.max_timeout();
    let submission = Submission {
        timeout: Some(settings.timeout.min(max_timeout)),
        shell: Some(settings.shell.clone()),
        logged: CommandLogging::No,
        ..Submission::new(JobProgram::Shell(command.to_owned()))
    };
    let job = submit(call, submission, SlotWait::AtMost(max_timeout)).await?;
    log_event(call, events::command_executing, command);
    let ending = wait_for_end(call, &job).await?;
    let (return_code, note) = match ending.outcome {
        Outcome::Exited { code } => (code, None),
        Outcome::Signaled { .. } => (NO_CODE, None),
        Outcome::TimedOut { after } => {
            (NO_CODE, Some(format_timeout_note(after, &ending.survivors)))
        }
        Outcome::Stopped { by } => (NO_CODE, Some(format!("Command {}", describe_stop(by)))),
        Outcome::Limit { which } => (NO_CODE, Some(format!("Command stopped: {which}"))),
        Outcome::NotRun { waited, .. } => return Err(CommandError::Failed(format_not_run(waited))),
        Outcome::FailedToStart(why) => return Err(CommandError::Failed(why.to_string())),
        Outcome::Lost { why } => return Err(CommandError::Failed(why)),
    };
    let output =
        read_output(call, &job).await.map_err(|error| CommandError::Failed(error.to_string()))?;
    log_event(call, events::command_exited, &return_code.to_string());
    Ok(CommandResult { output: append_note(output, note), return_code })
}

fn format_timeout_note(after: Duration, survivors: &LivingProcesses) -> String {
    let left = match survivors {
        LivingProcesses::Known(pids) if pids.is_empty() => {
            "everything it had started was killed".to_owned()
        }
        LivingProcesses::Known(pids) => format!("these processes of it are alive: {pids:?}"),
        LivingProcesses::Unreadable => "processes of it may still be alive".to_owned(),
    };
    format!("Command timed out after {}s; {left}", after.as_secs_f64())
}

/// Returns everything that the job wrote to stdout, then, if configured, to stderr.
async fn read_output(call: ToolCall<'_>, job: &JobHandle) -> io::Result<String> {
    let most = call.settings.dialect.execute_command.max_output;
    let _memory = reserve_memory(job, most.saturating_mul(2)).await?;
    let mut output = read_text(call, job, Stream::Stdout).await?;
    if call.settings.dialect.execute_command.stderr {
        output += &read_text(call, job, Stream::Stderr).await?;
    }
    Ok(output)
}

async fn read_text(call: ToolCall<'_>, job: &JobHandle, stream: Stream) -> io::Result<String> {
    let most = call.settings.dialect.execute_command.max_output;
    let captured = read_stream(job, Some(stream), most).await?;
    let shown = captured.bytes.len();
    let cut = captured.is_cut.then(|| {
        let name = stream.name();
        format!("[{name} cut after its first {shown} bytes; job {} keeps all of it]", job.id())
    });
    Ok(append_note(captured.text(), cut))
}

/// Appends a note on a line of its own.
fn append_note(mut text: String, note: Option<String>) -> String {
    let Some(note) = note else { return text };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text + &note + "\n"
}

/// Logs an event on stderr with secrets masked, if `verbose` is set.
fn log_event(call: ToolCall<'_>, event: impl FnOnce(&str), text: &str) {
    if call.settings.dialect.execute_command.verbose {
        event(&call.client.redactor().mask_text(text));
    }
}

const READ_FILE_FIELDS: [ArgSpec; 2] =
    [ArgSpec::required("path", ArgKind::Text, ""), ArgSpec::optional("offset", ArgKind::Whole, "")];

pub(in crate::mcp) const READ_FILE_ABOUT: &str = "Read a file in the working directory";

pub(in crate::mcp) fn read_file_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Path of the file"},
            "offset": {"type": "integer", "minimum": 0, "description": "First byte to read"}
        },
        "required": ["path"]
    })
}

pub(in crate::mcp) async fn read_file(call: ToolCall<'_>, arguments: JsonObject) -> DialectReply {
    let (path, offset) = match read_file_args(arguments) {
        Ok(args) => args,
        Err(error) => return DialectReply::failure(error.to_string()),
    };
    let most = call.settings.dialect.execute_command.max_output;
    match call.client.read_file(&path, offset, most).await {
        Ok(page) => DialectReply::pretty(read_file_fields(path, offset, &page)),
        Err(error) => DialectReply::failure(error.to_string()),
    }
}

fn read_file_args(arguments: JsonObject) -> Result<(String, u64), ArgError> {
    let mut args = Args::strict(arguments, &READ_FILE_FIELDS)?;
    let path = args.text("path")?.unwrap_or_default();
    // A seek accepts no larger offset.
    Ok((path, args.whole("offset", 0..=i64::MAX as u64)?.unwrap_or(0)))
}

fn read_file_fields(path: String, offset: u64, page: &FilePage) -> JsonObject {
    let (encoding, content, shown) = encode_content(page);
    let mut fields = JsonObject::new();
    fields.insert("path".into(), path.into());
    fields.insert("encoding".into(), encoding.into());
    fields.insert("content".into(), content.into());
    fields.insert("size".into(), page.size.into());
    fields.insert("truncated".into(), page.is_truncated.into());
    if page.is_truncated {
        fields.insert("next_offset".into(), (offset + shown as u64).into());
    }
    fields
}

/// Returns the encoding, the encoded content, and the number of file bytes in it. Content that is
/// not UTF-8 becomes base64, so that no byte is lost. A character that the page cuts in two is left
/// to the next page.
fn encode_content(page: &FilePage) -> (&'static str, String, usize) {
    let bytes = &page.bytes;
    let whole = match std::str::from_utf8(bytes) {
        Ok(_) => Some(bytes.len()),
        Err(error) if page.is_truncated && error.error_len().is_none() => Some(error.valid_up_to()),
        Err(_) => None,
    };
    match whole.filter(|length| *length > 0 || bytes.is_empty()) {
        Some(length) => ("utf-8", String::from_utf8_lossy(&bytes[..length]).into_owned(), length),
        None => ("base64", STANDARD.encode(bytes), bytes.len()),
    }
}

const WRITE_FILE_FIELDS: [ArgSpec; 2] =
    [ArgSpec::required("path", ArgKind::Text, ""), ArgSpec::required("content", ArgKind::Text, "")];

pub(in crate::mcp) const WRITE_FILE_ABOUT: &str = "Write a file in the working directory";

pub(in crate::mcp) fn write_file_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Path of the file"},
            "content": {"type": "string", "description": "All of its new content"}
        },
        "required": ["path", "content"]
    })
}

pub(in crate::mcp) async fn write_file(call: ToolCall<'_>, arguments: JsonObject) -> DialectReply {
    let (path, content) = match write_file_args(arguments) {
        Ok(args) => args,
        Err(error) => return DialectReply::failure(error.to_string()),
    };
    let bytes = content.len();
    match call.client.write_file(&path, content).await {
        Ok(written) => DialectReply::pretty(write_file_fields(path, bytes, written)),
        Err(error) => DialectReply::failure(error.to_string()),
    }
}

fn write_file_args(arguments: JsonObject) -> Result<(String, String), ArgError> {
    let mut args = Args::strict(arguments, &WRITE_FILE_FIELDS)?;
    let path = args.text("path")?.unwrap_or_default();
    Ok((path, args.text("content")?.unwrap_or_default()))
}

fn write_file_fields(path: String, bytes: usize, written: WriteOutcome) -> JsonObject {
    let is_new = match written {
        WriteOutcome::Created => true,
        WriteOutcome::Replaced => false,
    };
    let mut fields = JsonObject::new();
    fields.insert("path".into(), path.into());
    fields.insert("bytes_written".into(), bytes.into());
    fields.insert("created".into(), is_new.into());
    fields
}

/// The most entries that a reply lists.
const MAX_ENTRIES: usize = 10_000;

const LIST_DIRECTORY_FIELDS: [ArgSpec; 1] = [ArgSpec::optional("path", ArgKind::Text, "")];

pub(in crate::mcp) const LIST_DIRECTORY_ABOUT: &str = "List a directory in the working directory";

pub(in crate::mcp) fn list_directory_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "description": "Path of the directory; default: the working directory"
            }
        }
    })
}

pub(in crate::mcp) async fn list_directory(
    call: ToolCall<'_>,
    arguments: JsonObject,
) -> DialectReply {
    let path = match list_directory_args(arguments) {
        Ok(path) => path,
        Err(error) => return DialectReply::failure(error.to_string()),
    };
    match call.client.list_directory(&path, MAX_ENTRIES).await {
        Ok(listing) => DialectReply::pretty(list_directory_fields(path, listing)),
        Err(error) => DialectReply::failure(error.to_string()),
    }
}

fn list_directory_args(arguments: JsonObject) -> Result<String, ArgError> {
    let path = Args::strict(arguments, &LIST_DIRECTORY_FIELDS)?.text("path")?;
    Ok(path.unwrap_or_else(|| ".".to_owned()))
}

fn list_directory_fields(path: String, listing: DirectoryListing) -> JsonObject {
    let entry = |DirectoryEntry { name, kind, size }| json!({"name": name, "type": kind.word(), "size": size});
    let entries: Vec<Value> = listing.entries.into_iter().map(entry).collect();
    let mut fields = JsonObject::new();
    fields.insert("path".into(), path.into());
    fields.insert("entries".into(), entries.into());
    fields.insert("truncated".into(), listing.is_truncated.into());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_command_argument_is_accepted() {
        let parse = |given: Value| read_command(given.as_object().cloned().unwrap_or_default());
        assert_eq!(parse(json!({"command": "ls -la"})), Ok("ls -la".to_owned()));
        for missing in [json!({}), json!({"command": null})] {
            assert_eq!(parse(missing), Err("Missing command argument".to_owned()));
        }
        for (bad, expected) in [
            (json!({"command": 7}), "Missing command argument: argument `command` must be a text"),
            (json!({"command": "ls", "cwd": "/"}), "unknown argument `cwd`"),
        ] {
            let error = parse(bad).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_timeout_reports_surviving_processes() {
        let after = Duration::from_millis(1500);
        let killed = "Command timed out after 1.5s; everything it had started was killed";
        assert_eq!(format_timeout_note(after, &LivingProcesses::default()), killed);
        for (survivors, left) in [
            (LivingProcesses::Known(vec![7]), "these processes of it are alive: [7]"),
            (LivingProcesses::Unreadable, "processes of it may still be alive"),
        ] {
            let note = format_timeout_note(after, &survivors);
            assert!(note.ends_with(left), "{note}");
        }
    }

    #[test]
    fn a_note_is_on_its_own_line() {
        for (text, expected) in [("", "N\n"), ("a", "a\nN\n"), ("a\n", "a\nN\n")] {
            assert_eq!(append_note(text.to_owned(), Some("N".to_owned())), expected);
        }
        assert_eq!(append_note("a".to_owned(), None), "a");
    }

    #[track_caller]
    fn check(bytes: &[u8], is_truncated: bool, expected: (&str, &str, usize)) {
        let page = FilePage { bytes: bytes.to_vec(), is_truncated, size: 9 };
        let (encoding, content, shown) = encode_content(&page);
        assert_eq!((encoding, content.as_str(), shown), expected);
    }

    #[test]
    fn text_stays_text_and_no_byte_is_lost() {
        check(b"", false, ("utf-8", "", 0));
        check("é\n".as_bytes(), false, ("utf-8", "é\n", 3));
        check(b"a\xc3", true, ("utf-8", "a", 1));
        check(b"a\xc3", false, ("base64", "YcM=", 2));
        check(b"a\xff", true, ("base64", "Yf8=", 2));
        // Reading one byte at a time still makes progress.
        check(b"\xc3", true, ("base64", "ww==", 1));
    }

    #[test]
    fn a_cut_file_has_the_next_offset() {
        let page = FilePage { bytes: b"ab".to_vec(), is_truncated: true, size: 9 };
        assert_eq!(read_file_fields("f".to_owned(), 5, &page)["next_offset"], 7);
        let last = FilePage { is_truncated: false, ..page };
        assert!(!read_file_fields("f".to_owned(), 5, &last).contains_key("next_offset"));
    }
}
