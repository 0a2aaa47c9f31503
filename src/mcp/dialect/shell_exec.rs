//! `shell_exec`: a command whose output comes in pages; `read_file_chunk` reads what was spilled.
//!
//! A call with a cursor reads on in the output of a command that was run before, and runs nothing
//! again. Offsets count the bytes of stdout as they were written; what a page shows of them may be
//! shorter, since escape codes and `\r` are taken out on the way.

use std::io;
use std::sync::Arc;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use super::read_file_chunk::{
    Address, Chunk, Escapes, ExecError, Filter, Limits, Newline, Packing, Piece, Place, Style,
    mime_of, piece, place, stream_piece, total,
};
use super::run::DialectReply;
use super::run::{submit, to_its_end};
use crate::mcp::args::{ArgError, Args};
use crate::mcp::cursor::{Cursor, ParsedCursor};
use crate::mcp::reply::progress_line;
use crate::mcp::schema::{Field, Kind};
use crate::mcp::tools::{Call, Turn, WaitEnd, wait_for};
use crate::outcome::{JobEnding, Outcome, StopBy, signal_name};
use crate::output::ScanDeadline;
use crate::output::pattern::LinePattern;
use crate::output::redaction::Redactor;
use crate::output::views::ViewOptions;
use crate::output::{
    BlockingReader, LogReader, StreamCounts, count_lines, count_lines_and_errors, json,
    stream_offset, views,
};
use crate::service::{JobHandle, StopWish, Submission};
use crate::spec::{JobProgram, Stream};

pub(super) const ABOUT: &str = "Executes shell commands in a controlled environment. Supports \
    pagination via `limit_bytes` and `next_cursor`: send the same call again with \
    page.cursor = next_cursor, nothing is run twice. Automatically spills large outputs to file \
    with `spill_uri`, to be read with read_file_chunk.";

const FIELDS: [Field; 13] = [
    Field::required("cmd", Kind::Text, ""),
    Field::optional("args", Kind::Texts, ""),
    Field::optional("cwd", Kind::Text, ""),
    Field::optional("env", Kind::Pairs, ""),
    Field::optional("page", Kind::Pairs, ""),
    Field::optional("on_large_output", Kind::Text, ""),
    Field::optional("json_path", Kind::Text, ""),
    Field::optional("grep", Kind::Text, ""),
    Field::optional("zip", Kind::Flag, ""),
    Field::optional("mime", Kind::Flag, ""),
    Field::optional("summary", Kind::Flag, ""),
    Field::optional("ansi_strip", Kind::Flag, ""),
    Field::optional("newline", Kind::Text, ""),
];

/// The arguments inside of `page`.
const PAGE_FIELDS: [Field; 3] = [
    Field::optional("cursor", Kind::Text, ""),
    Field::optional("limit_bytes", Kind::Whole, ""),
    Field::optional("limit_lines", Kind::Whole, ""),
];

pub(crate) fn schema() -> Value {
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
                    "cursor": {"type": "string", "description": "A next_cursor; opaque"},
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

/// The page of a call that does not say.
const DEFAULT_LIMITS: Limits = Limits { bytes: 65_536, lines: 2000 };
/// One character always fits.
const MIN_BYTES: u64 = 4;

/// What a call asks for. All that can be checked without output is checked before anything runs.
#[derive(Debug, Clone)]
struct Wish {
    submission: Submission,
    /// Where to read on, in a run that there is already.
    cursor: Option<Place>,
    limits: Limits,
    large: Large,
    filter: Filter,
    style: Style,
    packing: Packing,
    wants_mime: bool,
    wants_summary: bool,
}

/// What to do with output that is larger than a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Large {
    /// Keep it, and say where it is.
    Spill,
    /// The same, however small it is.
    SpillAlways,
    /// Give one page of it.
    Truncate,
    /// Fail, and end the command.
    Error,
}

const LARGE: [(&str, Large); 3] =
    [("spill", Large::SpillAlways), ("truncate", Large::Truncate), ("error", Large::Error)];
const NEWLINES: [(&str, Newline); 3] =
    [("\n", Newline::Lf), ("\r\n", Newline::CrLf), ("keep", Newline::Keep)];

impl Wish {
    fn read(mut arguments: JsonObject, max_page: usize) -> Result<Self, ExecError> {
        let page = arguments.remove("page").unwrap_or_default();
        for on_by_default in ["mime", "ansi_strip"] {
            let value = arguments.entry(on_by_default).or_insert(Value::Null);
            if value.is_null() {
                *value = true.into();
            }
        }
        let mut args = Args::strict(arguments, &FIELDS)?;
        let (cursor, limits) = read_page(page, max_page)?;
        let wish = Self {
            submission: submission(&mut args)?,
            cursor,
            limits,
            large: args.choice("on_large_output", &LARGE)?.unwrap_or(Large::Spill),
            filter: filter(&mut args)?,
            style: Style {
                escapes: if args.flag("ansi_strip")? { Escapes::Strip } else { Escapes::Keep },
                newline: args.choice("newline", &NEWLINES)?.unwrap_or(Newline::Lf),
            },
            packing: if args.flag("zip")? { Packing::Gzip } else { Packing::Plain },
            wants_mime: args.flag("mime")?,
            wants_summary: args.flag("summary")?,
        };
        match (wish.packing, wish.large) {
            (Packing::Gzip, Large::Truncate | Large::Error) => Err(ArgError::Conflict(
                "`zip` packs what is spilled; leave on_large_output out, or say \"spill\"",
            )
            .into()),
            (Packing::Gzip, Large::Spill | Large::SpillAlways) | (Packing::Plain, _) => Ok(wish),
        }
    }

    /// Where the page starts.
    fn start(&self) -> u64 {
        self.cursor.map_or(0, |cursor| cursor.offset)
    }
}

fn submission(args: &mut Args) -> Result<Submission, ArgError> {
    let cmd = args.text("cmd")?.unwrap_or_default();
    let program = match args.texts("args")? {
        Some(args) => JobProgram::Direct { program: cmd, args },
        None => JobProgram::Shell(cmd),
    };
    let mut env = args.pairs("env")?;
    // Whoever sends the same variables in another order means the same run.
    env.sort();
    Ok(Submission { cwd: args.text("cwd")?.map(Into::into), env, ..Submission::new(program) })
}

fn read_page(page: Value, max_page: usize) -> Result<(Option<Place>, Limits), ExecError> {
    let mut args = Args::strict(page_object(page)?.unwrap_or_default(), &PAGE_FIELDS)?;
    let cursor = args.text_or_number("cursor")?.map(|cursor| place(&cursor)).transpose()?;
    let bytes = args.whole("limit_bytes", MIN_BYTES..=max_page as u64)?;
    let lines = args.whole("limit_lines", 1..=u64::MAX)?;
    let size = |number: Option<u64>, default| {
        number.map_or(default, |number| usize::try_from(number).unwrap_or(usize::MAX))
    };
    let limits = Limits {
        bytes: size(bytes, DEFAULT_LIMITS.bytes.min(max_page)),
        lines: size(lines, DEFAULT_LIMITS.lines),
    };
    Ok((cursor, limits))
}

fn page_object(page: Value) -> Result<Option<JsonObject>, ArgError> {
    match page {
        Value::Null => Ok(None),
        Value::Object(page) => Ok(Some(page)),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(ArgError::WrongType {
                name: "page".to_owned(),
                wanted: "an object, such as {\"limit_bytes\": 65536}".to_owned(),
                given: page.to_string().chars().take(60).collect(),
            })
        }
    }
}

fn filter(args: &mut Args) -> Result<Filter, ExecError> {
    match (args.text("grep")?, args.text("json_path")?) {
        (None, None) => Ok(Filter::None),
        (Some(pattern), None) => Ok(Filter::Grep(LinePattern::new(&pattern)?)),
        (None, Some(expression)) => {
            json::check_expression(&expression)?;
            Ok(Filter::Query(expression))
        }
        (Some(_), Some(_)) => {
            Err(ArgError::Conflict("give `grep` or `json_path`, not both").into())
        }
    }
}

/// A run that has ended, and how.
#[derive(Debug)]
struct Run {
    job: JobHandle,
    ending: JobEnding,
}

/// The run that a call is about, at its end. Nothing is run where there is one already.
async fn target(call: Call<'_>, wish: &Wish) -> Result<Run, ExecError> {
    match wish.cursor {
        None => run(call, wish).await,
        Some(place) => match earlier(call, wish, place).await? {
            Some(job) => {
                Turn::end(call.request);
                at_its_end(call, job).await
            }
            None => run(call, wish).await,
        },
    }
}

/// The run that a cursor reads on in. The very start of a command that never ran is where every
/// run begins, and names none.
async fn earlier(
    call: Call<'_>,
    wish: &Wish,
    Place { offset, given }: Place,
) -> Result<Option<JobHandle>, ExecError> {
    let mut same = call.client.list_same_command(&wish.submission).await?.into_iter();
    match given.job {
        None => match same.find(has_run) {
            None if offset > 0 => Err(ExecError::NeverRan(given)),
            latest => Ok(latest),
        },
        Some(number) => {
            let id = call.client.job(number);
            match same.find(|job| job.id() == id) {
                Some(job) => Ok(Some(job)),
                None if call.client.find(id).await.is_ok() => Err(ExecError::OtherCommand(given)),
                None => Err(ExecError::UnknownRun(given)),
            }
        }
    }
}

/// Whether there is a run to read on in: one that could not start, or that its caller gave up, is
/// none.
fn has_run(job: &JobHandle) -> bool {
    job.status().ending().is_none_or(|ending| match ending.outcome {
        Outcome::FailedToStart(_) | Outcome::Stopped { by: StopBy::Cancel } => false,
        Outcome::Exited { .. }
        | Outcome::Signaled { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Stopped { by: StopBy::Client | StopBy::Shutdown }
        | Outcome::Limit { .. }
        | Outcome::Lost { .. } => true,
    })
}

async fn run(call: Call<'_>, wish: &Wish) -> Result<Run, ExecError> {
    let job = submit(call, wish.submission.clone()).await?;
    let ending = match wish.large {
        Large::Error => {
            let guard = stop_when_large(&job, wish.limits.bytes as u64);
            tokio::join!(to_its_end(call, &job), guard).0
        }
        Large::Spill | Large::SpillAlways | Large::Truncate => to_its_end(call, &job).await,
    };
    Ok(Run { job, ending })
}

/// Waits for a run that another call may still wait for: giving up does not end it.
async fn at_its_end(call: Call<'_>, job: JobHandle) -> Result<Run, ExecError> {
    let limit = call.client.max_timeout();
    match wait_for(call, limit, job.finished(), || progress_line([&job])).await {
        WaitEnd::Done(ending) => Ok(Run { job, ending }),
        WaitEnd::Over => Err(ExecError::StillRuns(limit)),
        WaitEnd::Cancelled => Err(ExecError::Cancelled),
    }
}

/// Ends a job that writes more than it may; returns when the job has ended or is told to.
async fn stop_when_large(job: &JobHandle, limit: u64) {
    tokio::select! {
        _ = job.finished() => {}
        () = exceeded(job.output(), limit) => {
            job.stop(StopWish { by: StopBy::Client, signal: None, grace: None });
        }
    }
}

/// Whether either stream has more than `limit` bytes.
fn is_large(log: &LogReader, limit: u64) -> bool {
    let progress = log.progress();
    [Stream::Stdout, Stream::Stderr].iter().any(|stream| progress.bytes_of(Some(*stream)) > limit)
}

/// Returns once either stream has more than `limit` bytes; never, if none ever has.
async fn exceeded(log: &LogReader, limit: u64) {
    loop {
        let progress = log.progress();
        if is_large(log, limit) {
            return;
        }
        if progress.closed {
            return std::future::pending().await;
        }
        log.wait_past(progress.total_bytes).await;
    }
}

/// The memory for each byte of a page: as it was written, as text and in a reply.
const MEMORY_PER_BYTE: usize = 8;
/// The memory of everything beside the pages.
const BASE_MEMORY: usize = 4 * 1024 * 1024;
/// What is read for a preview. Its secrets are masked before it is cut.
const PREVIEW_READ: Limits = Limits { bytes: 4096, lines: 10 };
/// What a preview shows.
const PREVIEW_CHARS: usize = 500;
/// What a reply says about a run's output.
#[derive(Debug)]
struct Reading {
    /// The page of stdout.
    page: Piece,
    /// The first page of stderr; empty on later ones.
    stderr: Piece,
    stderr_lines: u64,
    mime: Option<&'static str>,
    /// Of stdout and of stderr.
    summary: Option<(StreamCounts, StreamCounts)>,
    head: String,
    tail: String,
}

impl Reading {
    /// The memory that it takes to read it all.
    fn memory_of(log: &LogReader, wish: &Wish) -> usize {
        let pages = BASE_MEMORY + 2 * MEMORY_PER_BYTE * wish.limits.bytes;
        match wish.filter {
            Filter::None | Filter::Grep(_) => pages,
            Filter::Query(_) => pages + json::query_memory(log, Some(Stream::Stdout)),
        }
    }

    /// Reads it all. A query takes at most `memory` bytes.
    fn of(
        log: &BlockingReader,
        wish: &Wish,
        redactor: &Redactor,
        memory: usize,
        patience: &ScanDeadline,
    ) -> Result<Self, ExecError> {
        let start = wish.start();
        let page =
            piece(log, &wish.filter, start, wish.limits, memory, patience)?.without_half_newline();
        // Later pages leave stderr to the first one.
        let stderr_from = if start == 0 { 0 } else { total(log, Stream::Stderr) };
        let summary = wish.wants_summary.then(|| {
            io::Result::Ok((
                count_lines_and_errors(log, Stream::Stdout)?,
                count_lines_and_errors(log, Stream::Stderr)?,
            ))
        });
        Ok(Self {
            page,
            stderr: stream_piece(log, Stream::Stderr, stderr_from, wish.limits)?,
            stderr_lines: count_lines(log, Stream::Stderr)?,
            mime: wish.wants_mime.then(|| mime_of(log, Stream::Stdout)).transpose()?,
            summary: summary.transpose()?,
            head: head(log, redactor)?,
            tail: tail(log, redactor)?,
        })
    }

    /// The page and stderr as the reply holds them.
    fn chunks(&self, wish: &Wish, redactor: &Redactor) -> (Chunk, Chunk) {
        let chunk = |piece: &Piece| Chunk::of(piece.bytes.clone(), wish.style, redactor);
        (chunk(&self.page), chunk(&self.stderr))
    }
}

fn head(log: &BlockingReader, redactor: &Redactor) -> io::Result<String> {
    let shown = preview(&stream_piece(log, Stream::Stdout, 0, PREVIEW_READ)?.bytes, redactor);
    let end = shown.char_indices().nth(PREVIEW_CHARS).map_or(shown.len(), |(at, _)| at);
    Ok(shown[..end].to_owned())
}

fn tail(log: &BlockingReader, redactor: &Redactor) -> io::Result<String> {
    let Limits { bytes, lines } = PREVIEW_READ;
    let from = log.tail_start(Some(Stream::Stdout), bytes, lines)?;
    let start = stream_offset(log, Stream::Stdout, from)?;
    let shown = preview(&stream_piece(log, Stream::Stdout, start, PREVIEW_READ)?.bytes, redactor);
    let from = shown.char_indices().rev().nth(PREVIEW_CHARS - 1).map_or(0, |(at, _)| at);
    Ok(shown[from..].to_owned())
}

/// Bytes as a person would look at them; nothing where they are no text.
fn preview(bytes: &[u8], redactor: &Redactor) -> String {
    if views::is_binary(bytes) {
        return String::new();
    }
    views::render_text(&redactor.mask_bytes(bytes), ViewOptions::default()).text
}

pub(super) async fn call(call: Call<'_>, arguments: JsonObject) -> DialectReply {
    match shell_exec(call, arguments).await {
        Ok(fields) => DialectReply::fields(fields),
        Err(error) => error.into(),
    }
}

async fn shell_exec(call: Call<'_>, arguments: JsonObject) -> Result<JsonObject, ExecError> {
    let wish = Arc::new(Wish::read(arguments, call.settings.max_page_bytes)?);
    let run = target(call, &wish).await?;
    let end = End::of(&run.ending.outcome)?;
    let reading = read(call, &run, &wish).await?;
    let is_large = is_large(run.job.output(), wish.limits.bytes as u64);
    if wish.large == Large::Error && (is_large || reading.page.span.has_more) {
        return Err(ExecError::TooLarge { limits: wish.limits, job: run.job.id() });
    }
    let spilled = spilled(call, &run, &wish, &reading).await?;
    let mut fields = JsonObject::new();
    end.write(&mut fields);
    write_chunks(&mut fields, reading.chunks(&wish, &call.client.redactor()), &reading);
    write_place(&mut fields, &run, &wish, &reading);
    write_extras(&mut fields, &reading);
    spilled.write(&mut fields);
    Ok(fields)
}

/// How the command ended.
struct End {
    /// Null where it did not exit by itself: what was ended never reads as a success.
    exit_code: Value,
    /// What happened instead.
    error: Option<String>,
}

impl End {
    fn of(outcome: &Outcome) -> Result<Self, ExecError> {
        let error = match outcome {
            Outcome::Exited { code } => {
                return Ok(Self { exit_code: (*code).into(), error: None });
            }
            Outcome::FailedToStart(why) => return Err(ExecError::NotStarted(why.clone())),
            Outcome::Lost { why } => return Err(ExecError::Lost { why: why.clone() }),
            Outcome::Signaled { signal, .. } => format!("killed by {}", signal_name(*signal)),
            Outcome::TimedOut { after } => format!("timed out after {}s", after.as_secs()),
            Outcome::Stopped { by } => format!("stopped ({})", by.word()),
            Outcome::Limit { which } => which.to_string(),
        };
        Ok(Self { exit_code: Value::Null, error: Some(error) })
    }

    fn write(self, fields: &mut JsonObject) {
        fields.insert("exit_code".into(), self.exit_code);
        insert_some(fields, "error", self.error);
    }
}

async fn read(call: Call<'_>, run: &Run, wish: &Arc<Wish>) -> Result<Reading, ExecError> {
    let log = run.job.output();
    let redactor = call.client.redactor();
    let wish = Arc::clone(wish);
    let memory = call.reserve(log, Reading::memory_of(log, &wish)).await?;
    let most = memory.bytes();
    let scan = move |log: &BlockingReader, patience: &_| {
        Reading::of(log, &wish, &redactor, most, patience)
    };
    let (reading, _memory) = call.scan(log, memory, scan).await?;
    reading
}

/// Where the rest is, if there is any.
struct Spilled {
    stdout: Option<Address>,
    stderr: Option<Address>,
}

impl Spilled {
    fn write(self, fields: &mut JsonObject) {
        let address = |address: Address| address.to_string();
        fields.insert("spill_uri".into(), self.stdout.map(address).into());
        insert_some(fields, "stderr_spill_uri", self.stderr.map(address));
    }
}

async fn spilled(
    call: Call<'_>,
    run: &Run,
    wish: &Wish,
    reading: &Reading,
) -> Result<Spilled, ExecError> {
    let is_paged = reading.page.span.start > 0 || reading.page.span.has_more;
    let wants_stdout = match wish.large {
        Large::Spill => is_paged,
        Large::SpillAlways => true,
        Large::Truncate | Large::Error => false,
    };
    let ticket = call.client.ticket(run.job.id());
    let at = |stream, packing| Address { ticket: ticket.clone(), stream, packing };
    if wants_stdout && wish.packing == Packing::Gzip {
        // Packed now, so that this reply says it if it cannot be.
        call.client.gzip_output(&run.job, Stream::Stdout).await?;
    }
    Ok(Spilled {
        stdout: wants_stdout.then(|| at(Stream::Stdout, wish.packing)),
        stderr: reading.stderr.span.has_more.then(|| at(Stream::Stderr, Packing::Plain)),
    })
}

fn write_chunks(fields: &mut JsonObject, (stdout, stderr): (Chunk, Chunk), reading: &Reading) {
    let plain = if stdout.encoding().is_none() { "text/plain" } else { "application/octet-stream" };
    fields.insert("mime".into(), reading.mime.unwrap_or(plain).into());
    insert_some(fields, "encoding", stdout.encoding());
    insert_some(fields, "stderr_encoding", stderr.encoding());
    fields.insert("stdout_chunk".into(), stdout.into_text().into());
    fields.insert("stderr_chunk".into(), stderr.into_text().into());
}

fn write_place(fields: &mut JsonObject, run: &Run, wish: &Wish, reading: &Reading) {
    let page = &reading.page;
    let is_cut = wish.large == Large::Truncate && page.span.has_more;
    page.span.write(fields);
    fields.insert("line_count".into(), page.lines().into());
    fields.insert("stderr_count".into(), reading.stderr_lines.into());
    fields.insert(
        "truncated".into(),
        (is_cut || page.gap_bytes > 0 || reading.stderr.span.has_more).into(),
    );
    insert_some(fields, "matches", page.matches);
    let next =
        ParsedCursor { job: Some(run.job.id().job_number()), cursor: Cursor::Bytes(page.span.end) };
    insert_some(fields, "next_cursor", (page.span.has_more && !is_cut).then(|| next.place_first()));
}

fn write_extras(fields: &mut JsonObject, reading: &Reading) {
    fields.insert("head_preview".into(), reading.head.as_str().into());
    fields.insert("tail_preview".into(), reading.tail.as_str().into());
    let summary = |(stdout, stderr): &(StreamCounts, StreamCounts)| {
        json!({
            "lines": stdout.lines,
            "errors": stdout.errors,
            "stderr_lines": stderr.lines,
            "stderr_errors": stderr.errors,
        })
    };
    insert_some(fields, "summary", reading.summary.as_ref().map(summary));
}

fn insert_some(fields: &mut JsonObject, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        fields.insert(name.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wish(given: Value) -> Result<Wish, ExecError> {
        Wish::read(given.as_object().cloned().unwrap_or_default(), 1 << 20)
    }

    #[test]
    fn the_defaults_are_those_of_the_document() {
        let wish = wish(json!({"cmd": "ls", "args": ["-la"], "page": null})).unwrap();
        assert_eq!(wish.limits, Limits { bytes: 65_536, lines: 2000 });
        assert_eq!(wish.large, Large::Spill);
        assert_eq!(wish.style, Style { escapes: Escapes::Strip, newline: Newline::Lf });
        assert!(wish.cursor.is_none() && wish.wants_mime && !wish.wants_summary);
    }

    #[test]
    fn the_order_of_variables_does_not_matter() {
        let env = |text: &str| wish(serde_json::from_str(text).unwrap()).unwrap().submission.env;
        let one = env(r#"{"cmd": "ls", "env": {"B": "2", "A": "1"}}"#);
        assert_eq!(one, env(r#"{"cmd": "ls", "env": {"A": "1", "B": "2"}}"#));
    }

    #[test]
    fn what_cannot_be_done_is_said_before_anything_runs() {
        for (given, said) in [
            (json!({"page": {}}), "`cmd`"),
            (json!({"cmd": "x", "page": 7}), "`page`"),
            (json!({"cmd": "x", "page": {"curser": "bytes:1"}}), "did you mean `cursor`"),
            (json!({"cmd": "x", "page": {"cursor": "line:2"}}), "counts bytes"),
            (json!({"cmd": "x", "page": {"limit_bytes": 3}}), "from 4 to 1048576"),
            (json!({"cmd": "x", "page": {"limit_lines": 0}}), "`limit_lines`"),
            (json!({"cmd": "x", "on_large_output": "explode"}), "spill, truncate, error"),
            (json!({"cmd": "x", "grep": "("}), "regular expression"),
            (json!({"cmd": "x", "json_path": "a["}), "JMESPath"),
            (json!({"cmd": "x", "json_path": "a", "grep": "a"}), "not both"),
            (json!({"cmd": "x", "zip": true, "on_large_output": "error"}), "`zip`"),
            (json!({"cmd": "x", "newline": "cr"}), "`newline`"),
        ] {
            let error = wish(given.clone()).unwrap_err().to_string();
            assert!(error.contains(said), "{given}: {error}");
        }
    }
}
