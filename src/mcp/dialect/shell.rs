//! `shell`: runs a shell command with a timeout; the reply is a sentence and metadata.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::run::{
    CallGivenUp, CapturedOutput, CapturedStream, DialectReply, ReplyText, SlotWait, format_pretty,
    stream_to_end, submit,
};
use crate::mcp::args::{ArgError, ArgKind, ArgSpec, Args};
use crate::mcp::reply::{describe_stop, mask, millis};
use crate::mcp::settings::{ResultFormat, ShellDialectSettings};
use crate::mcp::tools::ToolCall;
use crate::outcome::{JobEnding, Outcome, StartError, format_not_run, signal_name};
use crate::output::views;
use crate::output::views::{Ansi, Charset, Fold, LongLines, ViewOptions};
use crate::policy::PolicyRefusal;
use crate::service::{
    AdmissionError, CommandLogging, JobHandle, MissingCommand, Submission, SubmitError,
};
use crate::spec::JobProgram;

const FIELDS: [ArgSpec; 5] = [
    ArgSpec::required("command", ArgKind::Text, ""),
    ArgSpec::optional("working_directory", ArgKind::Text, ""),
    ArgSpec::optional("timeout", ArgKind::Whole, ""),
    ArgSpec::optional("environment", ArgKind::Pairs, ""),
    ArgSpec::optional(MAX_OUTPUT_SIZE, ArgKind::Whole, ""),
];

const MAX_OUTPUT_SIZE: &str = "max_output_size";

pub(in crate::mcp) const ABOUT: &str = "Execute shell commands with timeout and output capture";

pub(in crate::mcp) fn schema(settings: &ShellDialectSettings) -> Value {
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
            },
            MAX_OUTPUT_SIZE: {
                "type": "integer",
                "description": "Most bytes of stdout, and of stderr, in the result (optional)",
                "minimum": 1,
                "maximum": settings.max_output
            }
        },
        "required": ["command"],
        "additionalProperties": false
    })
}

pub(in crate::mcp) async fn call(call: ToolCall<'_>, arguments: JsonObject) -> DialectReply {
    let settings = &call.settings.dialect.shell;
    let args = match ShellArgs::read(arguments, settings) {
        Ok(args) => args,
        // No command ran, so nothing is written to the abort file.
        Err(error) => return DialectReply::failure(error.to_string()),
    };
    let result = match run(call, args).await {
        Ok(result) => result,
        // The command may still succeed, so nothing is written to the abort file.
        Err(given_up) => return DialectReply::failure(given_up.to_string()),
    };
    if let Some(path) = settings.abort_file.as_ref().filter(|_| result.is_error) {
        let mut text = format!("{}\n{}", result.text, format_pretty(&result.fields));
        mask(&mut text, &call.client.redactor());
        call.client.write_abort_file(path.clone(), text).await;
    }
    result.into_reply(call.settings.result_format)
}

struct ShellArgs {
    submission: Submission,
    /// The most bytes of each stream in the result.
    max_output: usize,
}

impl ShellArgs {
    fn read(arguments: JsonObject, settings: &ShellDialectSettings) -> Result<Self, ArgError> {
        let mut args = Args::strict(arguments, &FIELDS)?;
        let command = args.text("command")?.unwrap_or_default();
        let timeout = args.whole("timeout", 1..=settings.max_timeout.as_secs())?;
        let max_output = args.whole(MAX_OUTPUT_SIZE, 1..=settings.max_output as u64)?;
        let submission = Submission {
            cwd: args.text("working_directory")?.map(Into::into),
            env: args.pairs("environment")?,
            timeout: Some(timeout.map_or(settings.default_timeout, Duration::from_secs)),
            logged: if settings.log_commands { CommandLogging::Yes } else { CommandLogging::No },
            ..Submission::new(JobProgram::Shell(command))
        };
        let max_output = max_output.and_then(|bytes| usize::try_from(bytes).ok());
        Ok(Self { submission, max_output: max_output.unwrap_or(settings.max_output) })
    }
}

async fn run(call: ToolCall<'_>, args: ShellArgs) -> Result<ShellResult, CallGivenUp> {
    let command = args.submission.program.display();
    let slot_wait = SlotWait::AtMost(call.settings.dialect.shell.max_timeout);
    let job = match submit(call, args.submission, slot_wait).await {
        Ok(job) => job,
        Err(error) => return Ok(build_refusal(command, &error)),
    };
    let ending = stream_to_end(call, &job, args.max_output).await?;
    Ok(match CapturedOutput::read_each(&job, args.max_output).await {
        Ok(output) => {
            let suggestion = suggest_next_step(call, &job, &ending, &output).await;
            build_result(&job, &ending, &output, suggestion)
        }
        Err(error) => {
            let text = format!("The output of the command could not be read: {error}");
            let mut fields = JsonObject::new();
            fields.insert("command".into(), command.into());
            fields.insert("job".into(), job.id().number().into());
            ShellResult { text, fields, is_error: true }
        }
    })
}

/// The sentence of a reply, and its metadata.
struct ShellResult {
    text: String,
    fields: JsonObject,
    is_error: bool,
}

impl ShellResult {
    /// Builds the reply. The content block or the structured content, as the format says, has all of
    /// the metadata; `_meta` has it without the output, so that no byte is sent twice.
    fn into_reply(self, format: ResultFormat) -> DialectReply {
        let Self { text, fields, is_error } = self;
        let mut bare = fields.clone();
        bare.retain(|name, _| !is_output_field(name));
        let mut meta = JsonObject::new();
        meta.insert("metadata".into(), Value::Object(bare));
        let (detail, structured) = match format {
            ResultFormat::Text => (Some(fields), None),
            ResultFormat::Structured => (None, Some(fields)),
            ResultFormat::Both => (Some(fields.clone()), Some(fields)),
        };
        DialectReply {
            detail: detail.map(ReplyText::Pretty),
            structured,
            meta: Some(meta),
            is_error,
            ..DialectReply::text(text)
        }
    }
}

/// `true` for a field that carries output, as text or as base64.
fn is_output_field(name: &str) -> bool {
    let name = name.strip_suffix("_base64").unwrap_or(name);
    matches!(name, "stdout" | "stderr" | "partial_stdout" | "partial_stderr")
}

/// Builds the reply to a refused command; nothing was run.
fn build_refusal(command: String, error: &SubmitError) -> ShellResult {
    let mut text = match error {
        SubmitError::Rules(AdmissionError::Unreadable(error)) => {
            format!("Command refused, nothing was run: {}", format_start_error(error))
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
    fields.insert("command".into(), command.into());
    fields.insert("error".into(), text.as_str().into());
    fields.insert("error_code".into(), error.code().into());
    if let SubmitError::Rules(error) = error
        && let Some(alternative) = suggest_alternative(error)
    {
        text = format!("{text}\n{alternative}");
        fields.insert("suggestion".into(), alternative.into());
    }
    ShellResult { text, fields, is_error: true }
}

/// Suggests what to do instead of something that the rules refuse; `None` if the error says so.
fn suggest_alternative(error: &AdmissionError) -> Option<String> {
    Some(match error {
        AdmissionError::Directory { allowed, settings, .. } => format!(
            "Give one of {}, or a directory below, as working_directory; or ask for another entry \
             in {settings}",
            allowed.join(", ")
        ),
        AdmissionError::ByPolicy(refusal) => suggest_policy_alternative(refusal)?,
        AdmissionError::NotApproved { .. } => {
            "Do it without that command, or ask the user first".to_owned()
        }
        AdmissionError::OutsideRoot { .. }
        | AdmissionError::Redirected { .. }
        | AdmissionError::NeedsApproval { .. }
        | AdmissionError::Confined { .. }
        | AdmissionError::Unreadable(_)
        | AdmissionError::NoGate { .. }
        | AdmissionError::ByVariable(_)
        | AdmissionError::NotPlain { .. }
        | AdmissionError::NoAudit { .. } => return None,
    })
}

fn suggest_policy_alternative(refusal: &PolicyRefusal) -> Option<String> {
    Some(match refusal {
        PolicyRefusal::Denied { rule, .. } => format!(
            "Leave that command out, or reach the same by one that is not blocked, such as moving \
             files away instead of removing them; or ask for a change of {}",
            strip_rule_index(&rule.location)
        ),
        PolicyRefusal::MayBeDenied { .. } => {
            "Write the value out, so that it can be checked before the command runs".to_owned()
        }
        PolicyRefusal::NotAllowed { .. } => {
            "Use a command that is on the allow list, or ask for another entry in policy.allow"
                .to_owned()
        }
        PolicyRefusal::Uncertain { .. } => return None,
    })
}

/// The setting without the index of the rule in it.
fn strip_rule_index(location: &str) -> &str {
    location.split('[').next().unwrap_or(location)
}

/// Suggests what to do about a command that was not found or must not be executed.
async fn suggest_next_step(
    call: ToolCall<'_>,
    job: &JobHandle,
    ending: &JobEnding,
    output: &CapturedOutput,
) -> Option<String> {
    let stderr = output.stderr.text();
    if let Some(MissingCommand::HasSimilar { names }) =
        call.client.explain_missing_command(job, ending, &stderr).await
    {
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
        | Outcome::NotRun { .. }
        | Outcome::Limit { .. }
        | Outcome::FailedToStart(_)
        | Outcome::Lost { .. } => None,
    }
}

fn build_result(
    job: &JobHandle,
    ending: &JobEnding,
    output: &CapturedOutput,
    suggestion: Option<String>,
) -> ShellResult {
    let mut fields = JsonObject::new();
    fields.insert("command".into(), job.spec().program.display().into());
    fields.insert("working_directory".into(), job.spec().cwd.display().to_string().into());
    let names = if let Outcome::TimedOut { after } = ending.outcome {
        fields.insert("timeout_seconds".into(), after.as_secs().into());
        ["partial_stdout", "partial_stderr"]
    } else {
        put_ending(&mut fields, ending);
        fields.insert("execution_time_ms".into(), millis(job.status().elapsed()).into());
        ["stdout", "stderr"]
    };
    let streams = [&output.stdout, &output.stderr];
    let forms = streams.map(|stream| StreamForm::new(&stream.bytes));
    let is_complete = forms.iter().all(StreamForm::is_complete);
    if !is_complete || streams.iter().any(|stream| stream.is_cut) {
        // The job that keeps the bytes which are not here.
        fields.insert("job".into(), job.id().number().into());
    }
    for ((name, stream), form) in names.into_iter().zip(streams).zip(forms) {
        put_stream(&mut fields, name, stream, form);
    }
    let mut text = summarize_ending(ending);
    if let Some(suggestion) = suggestion {
        text = format!("{text}\n{suggestion}");
        fields.insert("suggestion".into(), suggestion.into());
    }
    ShellResult { text, fields, is_error: !matches!(ending.outcome, Outcome::Exited { code: 0 }) }
}

fn summarize_ending(ending: &JobEnding) -> String {
    match &ending.outcome {
        Outcome::Exited { code: 0 } => "Command executed successfully".to_owned(),
        Outcome::Exited { code } => format!("Command failed with exit code {code}"),
        Outcome::Signaled { signal, .. } => {
            format!("Command terminated by signal {signal} ({})", signal_name(*signal))
        }
        Outcome::TimedOut { after } => {
            format!("Command timed out after {} seconds", after.as_secs())
        }
        Outcome::Stopped { by } => format!("Command {}", describe_stop(*by)),
        Outcome::NotRun { by, waited } => {
            format!("Command {} ({})", format_not_run(*waited), describe_stop(*by))
        }
        Outcome::Limit { which } => format!("Command ended: {which}"),
        Outcome::FailedToStart(error) => {
            format!("Command could not be started: {}", format_start_error(error))
        }
        Outcome::Lost { why } => format!("Command lost: {why}"),
    }
}

/// The error text; this tool names the directory argument differently.
fn format_start_error(error: &StartError) -> String {
    match error {
        StartError::BadCwd { cwd, why } => {
            format!("cannot run in `{cwd}`: {why}; give an existing directory as working_directory")
        }
        StartError::NotFound { .. }
        | StartError::NotExecutable { .. }
        | StartError::Refused { .. }
        | StartError::TooLong { .. }
        | StartError::NulByte { .. }
        | StartError::Confinement { .. }
        | StartError::NoWorkspace { .. }
        | StartError::OutOfProcesses { .. }
        | StartError::OutOfFiles { .. }
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
        Outcome::NotRun { waited, .. } => {
            fields.insert("not_run".into(), true.into());
            fields.insert("waited_ms".into(), millis(*waited).into());
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

/// The text of a whole stream, with nothing taken out.
const WHOLE: ViewOptions = ViewOptions { ansi: Ansi::Keep, fold: Fold::Off, long: LongLines::Keep };

/// The form of a stream in the metadata. Each form has the bytes once.
enum StreamForm {
    Text(String),
    /// Text of another character set, which says how to get the bytes back.
    Decoded {
        text: String,
        charset: String,
    },
    /// Text with some bytes that are no text, shown as `�`.
    Damaged {
        text: String,
        bad_bytes: usize,
    },
    Binary,
}

impl StreamForm {
    fn new(bytes: &[u8]) -> Self {
        let charset = Charset::detect(bytes);
        if views::is_binary_in(bytes, charset) {
            return Self::Binary;
        }
        if let Ok(text) = str::from_utf8(bytes) {
            return Self::Text(text.to_owned());
        }
        let view = views::render_text_in(bytes, charset, WHOLE);
        match charset.name() {
            Some(charset) if view.bad_bytes == 0 => Self::Decoded { text: view.text, charset },
            Some(_) | None => Self::Damaged { text: view.text, bad_bytes: view.bad_bytes },
        }
    }

    /// `true` if the form has every byte.
    const fn is_complete(&self) -> bool {
        match self {
            Self::Text(_) | Self::Decoded { .. } | Self::Binary => true,
            Self::Damaged { .. } => false,
        }
    }
}

/// Adds a stream: as text, or for binary data as a description and base64.
fn put_stream(fields: &mut JsonObject, name: &str, stream: &CapturedStream, form: StreamForm) {
    let mut put = |suffix: &str, value: Value| fields.insert(format!("{name}{suffix}"), value);
    match form {
        StreamForm::Text(text) => {
            put("", text.into());
        }
        StreamForm::Decoded { text, charset } => {
            put("", text.into());
            put("_charset", charset.into());
        }
        StreamForm::Damaged { text, bad_bytes } => {
            put("", text.into());
            put("_invalid_bytes", bad_bytes.into());
        }
        StreamForm::Binary => {
            let mime = views::mime(&stream.bytes);
            let total = stream.total_bytes;
            let part = if stream.is_cut {
                format!("the first {} are in", stream.bytes.len())
            } else {
                "see".to_owned()
            };
            put("", format!("[binary output: {mime}, {total} bytes; {part} {name}_base64]").into());
            put("_base64", STANDARD.encode(&stream.bytes).into());
        }
    }
    if stream.is_cut {
        put("_truncated", true.into());
        put("_bytes", stream.total_bytes.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: Value) -> Result<ShellArgs, ArgError> {
        let given = given.as_object().cloned().unwrap_or_default();
        ShellArgs::read(given, &ShellDialectSettings::default())
    }

    #[test]
    fn the_timeout_is_the_default_or_within_bounds() {
        let timeout = |given| read(given).unwrap().submission.timeout.unwrap().as_secs();
        assert_eq!(timeout(json!({"command": "x"})), 300);
        assert_eq!(timeout(json!({"command": "x", "timeout": 1800})), 1800);
        for bad in [json!(0), json!(1801), json!(-1), json!(1.5), json!("soon")] {
            let error = read(json!({"command": "x", "timeout": bad})).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("`timeout`"), "{error}");
        }
    }

    fn streamed(bytes: &[u8], is_cut: bool, total_bytes: u64) -> JsonObject {
        let mut fields = JsonObject::new();
        let stream = CapturedStream { bytes: bytes.to_vec(), is_cut, total_bytes };
        put_stream(&mut fields, "stdout", &stream, StreamForm::new(bytes));
        fields
    }

    #[test]
    fn binary_output_is_base64_and_its_size_is_that_of_the_output() {
        let bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xfe";
        let fields = streamed(bytes, true, 4096);
        let text = fields["stdout"].as_str().unwrap();
        assert!(text.contains("image/png, 4096 bytes; the first 18 are in"), "{text}");
        assert_eq!(fields["stdout_base64"], STANDARD.encode(bytes));
        assert_eq!(
            (&fields["stdout_truncated"], &fields["stdout_bytes"]),
            (&true.into(), &4096.into())
        );
    }

    #[test]
    fn text_of_another_character_set_is_decoded_and_not_repeated() {
        let bytes = b"caf\xe9 \xe0 la cr\xe8me br\xfbl\xe9e\n".repeat(4);
        let fields = streamed(&bytes, false, bytes.len() as u64);
        assert!(fields["stdout"].as_str().unwrap().starts_with("café à la crème brûlée\n"));
        assert_eq!(fields["stdout_charset"], "windows-1252");
        assert_eq!(fields.len(), 2, "{fields:?}");
    }

    #[test]
    fn text_with_a_bad_byte_stays_readable_and_says_so() {
        let fields = streamed(b"ok \xff ok\n", false, 8);
        assert_eq!(fields["stdout"], "ok \u{fffd} ok\n");
        assert_eq!(fields["stdout_invalid_bytes"], 1);
        assert_eq!(fields.len(), 2, "{fields:?}");
    }
}
