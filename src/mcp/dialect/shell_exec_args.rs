//! The values that callers of `shell_exec` and `read_file_chunk` send and receive: arguments, cursors,
//! the URIs of spilled output, and errors.

use std::time::Duration;
use std::{fmt, io};

use anstream::adapter::strip_str;
use rmcp::model::JsonObject;
use serde_json::{Value, json};
use thiserror::Error;

use super::read_file_chunk::PageLimits;
use super::run::{CallGivenUp, DialectReply};
use crate::TaskLimit;
use crate::ids::{JobId, JobNumber};
use crate::mcp::args::{ArgError, ArgKind, ArgSpec, Args};
use crate::mcp::resources::{Cursor, ParsedCursor, shorten_cursor};
use crate::outcome::{StartError, format_not_run};
use crate::output::json::QueryError;
use crate::output::pattern::{LinePattern, PatternError};
use crate::output::{GzipError, ReadBusy, json};
use crate::service::{Submission, SubmitError};
use crate::spec::{JobProgram, LargeOutput, Stream};

pub(in crate::mcp) const ABOUT: &str = "Executes shell commands in a controlled environment. Supports \
    pagination via `limit_bytes` and `next_cursor`: send the same call again with \
    page.cursor = next_cursor, nothing is run twice. Automatically spills large outputs to file \
    with `spill_uri`, to be read with read_file_chunk.";

const FIELDS: [ArgSpec; 13] = [
    ArgSpec::required("cmd", ArgKind::Text, ""),
    ArgSpec::optional("args", ArgKind::Texts, ""),
    ArgSpec::optional("cwd", ArgKind::Text, ""),
    ArgSpec::optional("env", ArgKind::Pairs, ""),
    ArgSpec::optional("page", ArgKind::Pairs, ""),
    ArgSpec::optional("on_large_output", ArgKind::Text, ""),
    ArgSpec::optional("json_path", ArgKind::Text, ""),
    ArgSpec::optional("grep", ArgKind::Text, ""),
    ArgSpec::optional("zip", ArgKind::Flag, ""),
    ArgSpec::optional("mime", ArgKind::Flag, ""),
    ArgSpec::optional("summary", ArgKind::Flag, ""),
    ArgSpec::optional("ansi_strip", ArgKind::Flag, ""),
    ArgSpec::optional("newline", ArgKind::Text, ""),
];

/// The arguments inside `page`.
const PAGE_FIELDS: [ArgSpec; 3] = [
    ArgSpec::optional("cursor", ArgKind::Text, ""),
    ArgSpec::optional("limit_bytes", ArgKind::Whole, ""),
    ArgSpec::optional("limit_lines", ArgKind::Whole, ""),
];

pub(in crate::mcp) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "cmd": {"type": "string", "description": "Program; shell text where args is left out"},
            "args": {"type": "array", "items": {"type": "string"}},
            "cwd": {"type": "string"},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
            "page": {
                "type": "object",
                "properties": {
                    "cursor": {
                        "type": "string",
                        "description": "A next_cursor as returned; bytes:0 or none runs the command"
                    },
                    "limit_bytes": {"type": "integer", "minimum": 4, "default": 65536},
                    "limit_lines": {"type": "integer", "minimum": 1, "default": 2000}
                }
            },
            "on_large_output": {
                "type": "string", "enum": ["spill", "truncate", "error"], "default": "spill"
            },
            "json_path": {"type": "string", "description": "JMESPath on JSON output"},
            "grep": {"type": "string", "description": "Regex: only lines that match"},
            "zip": {"type": "boolean", "default": false, "description": "Spill as gzip"},
            "mime": {"type": "boolean", "default": true, "description": "Detect the MIME type"},
            "summary": {"type": "boolean", "default": false, "description": "Count lines, errors"},
            "ansi_strip": {"type": "boolean", "default": true},
            "newline": {"type": "string", "enum": ["\n", "\r\n", "keep"], "default": "\n"}
        },
        "required": ["cmd"]
    })
}

/// The page size if the call does not set one.
const DEFAULT_LIMITS: PageLimits = PageLimits { bytes: 65_536, lines: 2000 };
/// The smallest page: one character always fits.
const MIN_BYTES: u64 = 4;

/// The arguments of `shell_exec`. Everything that can be checked without output is checked before
/// anything runs.
#[derive(Debug, Clone)]
pub(super) struct ShellExecArgs {
    pub(super) submission: Submission,
    /// The position at which to continue in an earlier run.
    pub(super) cursor: Option<StdoutCursor>,
    pub(super) limits: PageLimits,
    pub(super) large_output: LargeOutputMode,
    pub(super) filter: OutputFilter,
    pub(super) style: TextStyle,
    pub(super) format: SpillFormat,
    pub(super) wants_mime: bool,
    pub(super) wants_summary: bool,
}

/// The treatment of output that is larger than a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LargeOutputMode {
    /// Keep it and return its URI.
    Spill,
    /// Keep it and return its URI, however small it is.
    SpillAlways,
    /// Return one page of it.
    Truncate,
    /// Fail and stop the command.
    Error,
}

const LARGE_OUTPUT_MODES: [(&str, LargeOutputMode); 3] = [
    ("spill", LargeOutputMode::SpillAlways),
    ("truncate", LargeOutputMode::Truncate),
    ("error", LargeOutputMode::Error),
];
const NEWLINES: [(&str, Newline); 3] =
    [("\n", Newline::Lf), ("\r\n", Newline::CrLf), ("keep", Newline::Keep)];

impl ShellExecArgs {
    pub(super) fn read(mut arguments: JsonObject, max_page: usize) -> Result<Self, ExecError> {
        let page = arguments.remove("page").unwrap_or_default();
        for on_by_default in ["mime", "ansi_strip"] {
            let value = arguments.entry(on_by_default).or_insert(Value::Null);
            if value.is_null() {
                *value = true.into();
            }
        }
        let mut args = Args::strict(arguments, &FIELDS)?;
        let (cursor, limits) = read_page(page, max_page)?;
        let args = Self {
            submission: read_submission(&mut args)?,
            cursor,
            limits,
            large_output: args
                .choice("on_large_output", &LARGE_OUTPUT_MODES)?
                .unwrap_or(LargeOutputMode::Spill),
            filter: read_filter(&mut args)?,
            style: TextStyle {
                escapes: if args.flag("ansi_strip")? { Escapes::Strip } else { Escapes::Keep },
                newline: args.choice("newline", &NEWLINES)?.unwrap_or(Newline::Lf),
            },
            format: if args.flag("zip")? { SpillFormat::Gzip } else { SpillFormat::Plain },
            wants_mime: args.flag("mime")?,
            wants_summary: args.flag("summary")?,
        };
        match (args.format, args.large_output) {
            (SpillFormat::Gzip, LargeOutputMode::Truncate | LargeOutputMode::Error) => {
                Err(ArgError::Conflict(
                    "`zip` packs what is spilled; leave on_large_output out, or say \"spill\"",
                )
                .into())
            }
            (SpillFormat::Gzip, LargeOutputMode::Spill | LargeOutputMode::SpillAlways)
            | (SpillFormat::Plain, _) => Ok(args),
        }
    }

    /// The offset at which the page starts.
    pub(super) fn start(&self) -> u64 {
        self.cursor.map_or(0, |cursor| cursor.offset)
    }
}

fn read_submission(args: &mut Args) -> Result<Submission, ArgError> {
    let cmd = args.text("cmd")?.unwrap_or_default();
    let program = match args.texts("args")? {
        Some(args) if !args.is_empty() => JobProgram::Direct { program: cmd, args },
        Some(_) | None => JobProgram::Shell(cmd),
    };
    let mut env = args.pairs("env")?;
    // The same variables in another order mean the same run.
    env.sort();
    Ok(Submission {
        cwd: args.text("cwd")?.map(Into::into),
        env,
        // Every page must be there to be read, whatever the setting for other jobs.
        on_large_output: Some(LargeOutput::Spill),
        ..Submission::new(program)
    })
}

fn read_page(
    page: Value,
    max_page: usize,
) -> Result<(Option<StdoutCursor>, PageLimits), ExecError> {
    let mut args = Args::strict(check_page_object(page)?.unwrap_or_default(), &PAGE_FIELDS)?;
    let cursor = match args.text_or_number("cursor")? {
        Some(given) if !given.is_empty() => {
            Some(StdoutCursor::parse(&given).ok_or(ExecError::BadCursor { given })?)
        }
        Some(_) | None => None,
    };
    let bytes = args.whole("limit_bytes", MIN_BYTES..=max_page as u64)?;
    let lines = args.whole("limit_lines", 1..=u64::MAX)?;
    let size = |number: Option<u64>, default| {
        number.map_or(default, |number| usize::try_from(number).unwrap_or(usize::MAX))
    };
    let limits = PageLimits {
        bytes: size(bytes, DEFAULT_LIMITS.bytes.min(max_page)),
        lines: size(lines, DEFAULT_LIMITS.lines),
    };
    Ok((cursor, limits))
}

fn check_page_object(page: Value) -> Result<Option<JsonObject>, ArgError> {
    match page {
        Value::Null => Ok(None),
        Value::Object(page) => Ok(Some(page)),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(ArgError::WrongType {
                name: "page".to_owned(),
                expected: "an object, such as {\"limit_bytes\": 65536}".to_owned(),
                given: page.to_string().chars().take(60).collect(),
            })
        }
    }
}

fn read_filter(args: &mut Args) -> Result<OutputFilter, ExecError> {
    match (args.text("grep")?, args.text("json_path")?) {
        (None, None) => Ok(OutputFilter::None),
        (Some(pattern), None) => Ok(OutputFilter::Grep(LinePattern::new(&pattern)?)),
        (None, Some(expression)) => {
            json::check_expression(&expression)?;
            Ok(OutputFilter::Query(expression))
        }
        (Some(_), Some(_)) => {
            Err(ArgError::Conflict("give `grep` or `json_path`, not both").into())
        }
    }
}

/// The run whose output a call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageSource {
    /// A new run of the command.
    New,
    /// The latest run of the same command in the caller's session.
    Latest(StdoutCursor),
    /// The run of the same command with this number.
    Named(JobNumber, StdoutCursor),
}

impl PageSource {
    /// Decides by the cursor. Without a job number, the first byte is no position that any reply
    /// returned: the document's first request has it, and runs the command.
    pub(super) const fn from_cursor(cursor: Option<StdoutCursor>) -> Self {
        match cursor {
            None => Self::New,
            Some(cursor) => match cursor.given.job {
                Some(number) => Self::Named(number, cursor),
                None if cursor.offset == 0 => Self::New,
                None => Self::Latest(cursor),
            },
        }
    }
}

/// The changes that are made to output text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextStyle {
    pub(crate) escapes: Escapes,
    pub(crate) newline: Newline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escapes {
    Strip,
    Keep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Newline {
    Lf,
    CrLf,
    Keep,
}

impl TextStyle {
    /// No change: every byte as it was written.
    pub(crate) const AS_WRITTEN: Self = Self { escapes: Escapes::Keep, newline: Newline::Keep };

    pub(super) fn apply(self, text: String) -> String {
        let text = match self.escapes {
            Escapes::Strip if text.contains('\x1b') => strip_escapes(&text),
            Escapes::Strip | Escapes::Keep => text,
        };
        match self.newline {
            Newline::Lf if text.contains('\r') => text.replace("\r\n", "\n"),
            Newline::CrLf => text.replace("\r\n", "\n").replace('\n', "\r\n"),
            Newline::Lf | Newline::Keep => text,
        }
    }
}

/// Removes escape codes, line by line: an unterminated code must not hide the following lines.
fn strip_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.trim_end_matches(['\r', '\n']);
        plain.extend(strip_str(content));
        plain.push_str(&line[content.len()..]);
    }
    plain
}

/// The part of stdout that a call asks for.
#[derive(Debug, Clone)]
pub(super) enum OutputFilter {
    None,
    /// Only lines that match.
    Grep(LinePattern),
    /// Only the result of this JMESPath expression.
    Query(String),
}

/// The start of each spill URI.
const SPILL_PREFIX: &str = "mcp://tmp/exec-";

/// The form in which spilled output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpillFormat {
    Plain,
    Gzip,
}

/// The URI of the spilled output of one stream of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpillUri {
    pub(crate) ticket: String,
    pub(crate) stream: Stream,
    pub(crate) format: SpillFormat,
}

impl fmt::Display for SpillUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = match self.stream {
            Stream::Stdout => "out",
            Stream::Stderr => "err",
        };
        let format = match self.format {
            SpillFormat::Plain => "",
            SpillFormat::Gzip => ".gz",
        };
        write!(f, "{SPILL_PREFIX}{}.{stream}{format}", self.ticket)
    }
}

impl SpillUri {
    /// Parses a spill URI. It names a run by its ticket and never a path.
    pub(crate) fn parse(uri: &str) -> Option<Self> {
        let name = uri.strip_prefix(SPILL_PREFIX)?;
        let (name, format) = match name.strip_suffix(".gz") {
            Some(name) => (name, SpillFormat::Gzip),
            None => (name, SpillFormat::Plain),
        };
        let (ticket, stream) = match name.rsplit_once('.')? {
            (ticket, "out") => (ticket.to_owned(), Stream::Stdout),
            (ticket, "err") => (ticket.to_owned(), Stream::Stderr),
            _ => return None,
        };
        Some(Self { ticket, stream, format })
    }
}

/// A position in stdout and the cursor that named it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StdoutCursor {
    pub(crate) offset: u64,
    pub(crate) given: ParsedCursor,
}

impl StdoutCursor {
    /// Parses a cursor; only byte cursors are valid here.
    pub(super) fn parse(cursor: &str) -> Option<Self> {
        let given: ParsedCursor = cursor.parse().ok()?;
        match given.cursor {
            Cursor::Bytes(offset) => Some(Self { offset, given }),
            Cursor::Line(_) => None,
        }
    }
}

/// The next step after a cursor of `shell_exec` that cannot be used.
const RUN_AGAIN: &str = "nothing was run; call without page.cursor, or with \"bytes:0\", to run \
    the command, then send the next_cursor of its reply as it is";

/// The reason why a call returned no page. Its text is the reply.
#[derive(Debug, Error)]
pub(crate) enum ExecError {
    #[error(transparent)]
    Args(#[from] ArgError),
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    Query(QueryError),
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    NotStarted(StartError),
    #[error(transparent)]
    Pack(#[from] GzipError),
    #[error("page.cursor `{}` is not a cursor of shell_exec; {RUN_AGAIN}", shorten_cursor(.given))]
    BadCursor { given: String },
    #[error(
        "`{}` is not a cursor of read_file_chunk; leave cursor out to read from the beginning, then send the next_cursor of each reply as it is", shorten_cursor(.given)
    )]
    BadFileCursor { given: String },
    #[error(
        "page.cursor `{}` has nothing to read: no run of this command in this session is kept; {RUN_AGAIN}", .0.with_job_last()
    )]
    NeverRan(ParsedCursor),
    #[error(
        "page.cursor `{}` names a run that is not known or no longer kept; {RUN_AGAIN}", .0.with_job_last()
    )]
    UnknownRun(ParsedCursor),
    #[error(
        "page.cursor `{}` belongs to another command; nothing was run; send it with the same cmd, args, cwd and env as the call that returned it", .0.with_job_last()
    )]
    OtherCommand(ParsedCursor),
    #[error(
        "cursor `{}` belongs to another output than this uri; send it with the uri of the call that returned it, or leave cursor out to read from the beginning", .0.with_job_last()
    )]
    OtherUri(ParsedCursor),
    #[error(
        "cursor `{}` lies past the end of the output, which has {total} bytes; send a next_cursor as it was returned: a reply without one was the last page", .given.with_job_last()
    )]
    PastEnd { given: ParsedCursor, total: u64 },
    #[error(
        "`{given}` is not the address of any kept output; use a spill_uri as it was returned, while its run is kept"
    )]
    UnknownUri { given: String },
    #[error(
        "the output is larger than a page of {bytes} bytes and {lines} lines (on_large_output is \"error\"); what there is of it is kept: the same call with on_large_output \"spill\" and page.cursor \"bytes:0@{job}\" reads it and runs nothing"
    )]
    TooLarge { bytes: usize, lines: usize, job: JobId },
    #[error("the command {}; call again", format_not_run(*.0))]
    NotRun(Duration),
    #[error("the command was lost: {why}; what it wrote is kept")]
    Lost { why: String },
    #[error("the call was cancelled")]
    Cancelled,
    #[error(transparent)]
    GivenUp(#[from] CallGivenUp),
    #[error(transparent)]
    Busy(#[from] ReadBusy),
    #[error("the output could not be read: {0}; try again")]
    Read(#[from] io::Error),
}

impl From<QueryError> for ExecError {
    fn from(error: QueryError) -> Self {
        Self::Query(error.explain_no_thread(TaskLimit::explain))
    }
}

impl From<ExecError> for DialectReply {
    fn from(error: ExecError) -> Self {
        Self::failure(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_args(given: Value) -> Result<ShellExecArgs, ExecError> {
        ShellExecArgs::read(given.as_object().cloned().unwrap_or_default(), 1 << 20)
    }

    #[test]
    fn the_defaults_match_the_document() {
        let args = parse_args(json!({"cmd": "ls", "args": ["-la"], "page": null})).unwrap();
        assert_eq!(args.limits, PageLimits { bytes: 65_536, lines: 2000 });
        assert_eq!(args.large_output, LargeOutputMode::Spill);
        assert_eq!(args.style, TextStyle { escapes: Escapes::Strip, newline: Newline::Lf });
        assert!(args.cursor.is_none() && args.wants_mime && !args.wants_summary);
    }

    #[test]
    fn only_a_returned_cursor_reads_an_earlier_run() {
        let source = |text: &str| PageSource::from_cursor(StdoutCursor::parse(text));
        let cursor = |text: &str| StdoutCursor::parse(text).unwrap();
        let named = |text: &str| PageSource::Named(JobNumber::new(7), cursor(text));
        assert_eq!(PageSource::from_cursor(None), PageSource::New);
        assert_eq!((source("bytes:0"), source("0")), (PageSource::New, PageSource::New));
        assert_eq!(source("bytes:5"), PageSource::Latest(cursor("bytes:5")));
        assert_eq!(source("bytes:0@7"), named("bytes:0@7"));
        assert_eq!(source("bytes:5@7"), named("bytes:5@7"));
    }

    #[test]
    fn the_order_of_variables_does_not_matter() {
        let env =
            |text: &str| parse_args(serde_json::from_str(text).unwrap()).unwrap().submission.env;
        let one = env(r#"{"cmd": "ls", "env": {"B": "2", "A": "1"}}"#);
        assert_eq!(one, env(r#"{"cmd": "ls", "env": {"A": "1", "B": "2"}}"#));
    }

    #[test]
    fn invalid_arguments_are_refused_before_anything_runs() {
        for (given, expected) in [
            (json!({"page": {}}), "`cmd`"),
            (json!({"cmd": "x", "page": 7}), "`page`"),
            (json!({"cmd": "x", "page": {"curser": "bytes:1"}}), "did you mean `cursor`"),
            (json!({"cmd": "x", "page": {"cursor": "line:2"}}), "`line:2` is not a cursor"),
            (json!({"cmd": "x", "page": {"limit_bytes": 3}}), "from 4 to 1048576"),
            (json!({"cmd": "x", "page": {"limit_lines": 0}}), "`limit_lines`"),
            (json!({"cmd": "x", "on_large_output": "explode"}), "spill, truncate, error"),
            (json!({"cmd": "x", "grep": "("}), "regular expression"),
            (json!({"cmd": "x", "json_path": "a["}), "JMESPath"),
            (json!({"cmd": "x", "json_path": "a", "grep": "a"}), "not both"),
            (json!({"cmd": "x", "zip": true, "on_large_output": "error"}), "`zip`"),
            (json!({"cmd": "x", "newline": "cr"}), "`newline`"),
        ] {
            let error = parse_args(given.clone()).unwrap_err().to_string();
            assert!(error.contains(expected), "{given}: {error}");
        }
    }

    #[test]
    fn only_a_written_spill_uri_parses() {
        for stream in [Stream::Stdout, Stream::Stderr] {
            for format in [SpillFormat::Plain, SpillFormat::Gzip] {
                let spill_uri = SpillUri { ticket: "7-ab".to_owned(), stream, format };
                assert_eq!(SpillUri::parse(&spill_uri.to_string()), Some(spill_uri));
            }
        }
        for uri in ["", "mcp://tmp/exec-7-ab", "mcp://tmp/../etc/passwd", "file:///x.out", "7.out"]
        {
            assert_eq!(SpillUri::parse(uri), None, "{uri}");
        }
    }
}
