//! The addresses of job output: cursors, which are positions in a log, and URIs, at which the output of
//! each job is a resource with lists, contents and completions.

use std::str::FromStr;
use std::time::Duration;
use std::{fmt, io, iter};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::ErrorData;
use rmcp::model::{
    CompleteRequestParams, CompletionInfo, ListResourcesResult, MetaObject, ReadResourceResult,
    Reference, Resource, ResourceContents, ResourceTemplate,
};
use thiserror::Error;

use crate::ids::JobNumber;
use crate::output::redaction::Redactor;
use crate::output::views::{Ansi, Fold, LongLines, ViewOptions};
use crate::output::{
    BlockingReader, LogRange, LogRangeRequest, LogReader, PageEnd, ReadBusy, scan_with, views,
};
use crate::service::{FindError, JobHandle, TenantClient};
use crate::spec::Stream;

/// Memory of a read beside its contents.
const BASE_MEMORY: usize = 1024 * 1024;
/// Memory per byte of a resource: as written, as text, and in the reply.
const MEMORY_PER_BYTE: usize = 3;
/// The longest wait for memory.
const MEMORY_WAIT: Duration = Duration::from_secs(10);
/// Jobs on one page of the list.
const PAGE: usize = 100;

/// Lists the jobs' outputs, newest first, from the cursor on if one is given.
pub(super) async fn list(
    client: &TenantClient,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    let before = cursor.map(parse_list_cursor).transpose()?;
    let mut jobs = client.list().await;
    jobs.retain(|job| before.is_none_or(|before| job.id().job_number() < before));
    let is_all = jobs.len() <= PAGE;
    jobs.truncate(PAGE);
    let next = jobs.last().filter(|_| !is_all).map(|job| format!("before:{}", job.id()));
    let redactor = client.redactor();
    let resources = build_resource_entries(&jobs, &redactor).await;
    let mut result = ListResourcesResult::with_all_items(resources);
    result.next_cursor = next;
    Ok(result)
}

/// Parses the cursor of a list. It names the job before which the page begins, not a count, so that
/// new jobs move nothing.
fn parse_list_cursor(cursor: &str) -> Result<JobNumber, ErrorData> {
    cursor.strip_prefix("before:").and_then(|id| id.parse().ok()).ok_or_else(|| {
        let message = "unknown cursor: give a nextCursor of resources/list, or leave it out";
        ErrorData::invalid_params(message, None)
    })
}

/// Returns the URI templates of all outputs.
pub(super) fn list_templates() -> Vec<ResourceTemplate> {
    const ABOUT: [(&str, &str); TEMPLATES.len()] = [
        ("job output", "What a job wrote, both streams in the order in which they came"),
        ("job stream", "What a job with separate streams wrote on one: stdout or stderr"),
        ("part of a job's output", "Bytes from start, up to end where that is given"),
        ("part of a job's stream", "Bytes from start, counted in that stream"),
        ("job digest", "The facts of a job's output: failures, errors, counts, rare lines"),
    ];
    let template = |(uri, (name, about)): (&str, (&str, &str))| {
        ResourceTemplate::new(uri, name).with_description(about).with_mime_type("text/plain")
    };
    TEMPLATES.into_iter().zip(ABOUT).map(template).collect()
}

/// Reads the output at this URI, at most `max_bytes`.
pub(super) async fn read(
    client: &TenantClient,
    uri: &str,
    max_bytes: usize,
) -> Result<ReadResourceResult, ErrorData> {
    let (parsed_uri, job) = find(client, uri).await?;
    let redactor = client.redactor();
    let memory = job.output().reserve(BASE_MEMORY + MEMORY_PER_BYTE * max_bytes, MEMORY_WAIT);
    let memory = memory.await.map_err(busy_error)?;
    let read = move |log: &BlockingReader| {
        Ok((read_resource_contents(log, &parsed_uri, max_bytes, &redactor), memory))
    };
    let read = job.output().read_with(read).await.map_err(ContentsError::Read);
    match read.and_then(|(contents, _memory)| contents) {
        Ok(contents) => Ok(ReadResourceResult::new(vec![contents])),
        Err(error @ ContentsError::Outside { .. }) => {
            Err(ErrorData::invalid_params(error.to_string(), None))
        }
        Err(error @ ContentsError::Read(_)) => {
            Err(ErrorData::internal_error(error.to_string(), None))
        }
    }
}

/// Finds the job at a URI, and checks that it has the stream that the URI names.
pub(super) async fn find(
    client: &TenantClient,
    uri: &str,
) -> Result<(OutputUri, JobHandle), ErrorData> {
    let parsed_uri = OutputUri::parse(uri).map_err(|error| match error {
        OutputUriError::Foreign => not_found_error(uri, &error.to_string()),
        OutputUriError::Range => {
            let given = shorten_uri(uri);
            ErrorData::invalid_params(format!("`{given}` names no part; {error}"), None)
        }
    })?;
    let job = find_job(client, uri, parsed_uri.job).await?;
    job.check_stream(parsed_uri.stream).map_err(|error| {
        let data = serde_json::json!({ "uri": uri, "error_code": error.code() });
        ErrorData::resource_not_found(error.to_string(), Some(data))
    })?;
    Ok((parsed_uri, job))
}

/// Finds the job that a URI names.
pub(super) async fn find_job(
    client: &TenantClient,
    uri: &str,
    job: JobNumber,
) -> Result<JobHandle, ErrorData> {
    client.find(client.job_id(job)).await.map_err(|error| match error {
        FindError::Unknown { .. } => not_found_error(uri, &error.to_string()),
        FindError::Freed { .. } => {
            let data = serde_json::json!({ "uri": uri, "error_code": error.code() });
            ErrorData::resource_not_found(error.to_string(), Some(data))
        }
        FindError::Unavailable { .. } => ErrorData::internal_error(error.to_string(), None),
    })
}

fn not_found_error(uri: &str, why: &str) -> ErrorData {
    let data = serde_json::json!({ "uri": uri });
    let message = format!("there is no resource `{}`; {why}", shorten_uri(uri));
    ErrorData::resource_not_found(message, Some(data))
}

fn shorten_uri(uri: &str) -> String {
    uri.chars().take(80).collect()
}

pub(super) fn busy_error(error: ReadBusy) -> ErrorData {
    let data = serde_json::json!({ "error_code": error.code() });
    ErrorData::internal_error(error.to_string(), Some(data))
}

/// Bytes from which the server detects the media type of an output.
const SAMPLE: usize = 8 * 1024;
/// Characters of a command or description in the list.
const ABOUT_CHARS: usize = 200;

/// The reason why a resource cannot be read.
#[derive(Debug, Error)]
enum ContentsError {
    #[error(
        "start={start} is behind the end: there are {total_bytes} bytes; give a start from 0 to {total_bytes}"
    )]
    Outside { start: u64, total_bytes: u64 },
    #[error("the output could not be read ({0}); check the disk, then try again")]
    Read(#[from] io::Error),
}

/// Returns the list entries of these jobs' outputs.
async fn build_resource_entries(jobs: &[JobHandle], redactor: &Redactor) -> Vec<Resource> {
    let logs: Vec<LogReader> = jobs.iter().map(|job| job.output().clone()).collect();
    let detect_mime = |log: &BlockingReader| Some(views::mime(&read_head(log, None).ok()?));
    let mimes = move |logs: &[BlockingReader]| logs.iter().map(detect_mime).collect();
    let mimes: io::Result<Vec<_>> = scan_with(&logs, Duration::ZERO, mimes).await;
    // Unreadable output is listed too; reading it reports the error.
    let mimes = mimes.unwrap_or_default().into_iter().chain(iter::repeat(None));
    jobs.iter().zip(mimes).map(|(job, mime)| build_resource_entry(job, mime, redactor)).collect()
}

fn build_resource_entry(job: &JobHandle, mime: Option<&str>, redactor: &Redactor) -> Resource {
    let spec = job.spec();
    let about = spec.description.clone().unwrap_or_else(|| spec.program.display());
    let about: String = redactor.mask_text(&about).chars().take(ABOUT_CHARS).collect();
    let resource = Resource::new(output_uri(job.id()), format!("job {} output", job.id()))
        .with_description(about)
        .with_size(job.output().progress().total_bytes);
    match mime {
        Some(mime) => resource.with_mime_type(mime),
        None => resource,
    }
}

/// Returns the output at a URI, at most `max_bytes` of it: text with secrets masked, or base64 if
/// it is binary. The metadata has the total size, the byte range, and the URI of the next part if
/// there is, or may be, more.
fn read_resource_contents(
    log: &BlockingReader,
    parsed_uri: &OutputUri,
    max_bytes: usize,
    redactor: &Redactor,
) -> Result<ResourceContents, ContentsError> {
    let OutputUri { stream, range: ByteRange { start, end }, .. } = *parsed_uri;
    let part = log.read_range(&LogRangeRequest { stream, start, end, max_bytes })?;
    if start > part.total_bytes {
        return Err(ContentsError::Outside { start, total_bytes: part.total_bytes });
    }
    let head = read_head(log, stream)?;
    // The beginning decides what the whole output is; the requested part may be longer than the
    // sample.
    let first = if start == 0 && part.bytes.len() > head.len() { &part.bytes } else { &head };
    let contents = if views::is_binary(first) || views::is_binary(&part.bytes) {
        ResourceContents::blob(STANDARD.encode(&part.bytes), parsed_uri.uri())
    } else {
        let options = ViewOptions { ansi: Ansi::Strip, fold: Fold::Off, long: LongLines::Keep };
        let text = views::render_text(&part.bytes, options).text;
        ResourceContents::text(redactor.mask_text(&text).into_owned(), parsed_uri.uri())
    };
    Ok(contents
        .with_mime_type(views::mime(first))
        .with_meta(build_position_meta(&part, parsed_uri)))
}

/// Reads the first bytes of an output.
fn read_head(log: &BlockingReader, stream: Option<Stream>) -> io::Result<Vec<u8>> {
    let request = LogRangeRequest { stream, start: 0, end: Some(SAMPLE as u64), max_bytes: SAMPLE };
    Ok(log.read_range(&request)?.bytes)
}

/// Returns the metadata about a part: its byte range and the URI of the next one.
fn build_position_meta(part: &LogRange, parsed_uri: &OutputUri) -> MetaObject {
    let mut meta = MetaObject::default();
    meta.insert("total_bytes".to_owned(), part.total_bytes.into());
    meta.insert("bytes_start".to_owned(), part.start.into());
    meta.insert("bytes_end".to_owned(), part.end.into());
    let dropped = part.progress.dropped_bytes;
    let gap = part.gap_bytes;
    for (name, bytes) in [("dropped_bytes", dropped), ("gap_bytes", gap)] {
        if bytes > 0 {
            meta.insert(name.to_owned(), bytes.into());
        }
    }
    let is_past = parsed_uri.range.end.is_some_and(|end| end <= part.start);
    match part.end_kind {
        // None of the requested bytes are kept: the output continues here.
        PageEnd::Complete if gap > 0 && is_past && part.end < part.total_bytes => {
            let range = ByteRange { start: part.end, end: None };
            meta.insert("next".to_owned(), OutputUri { range, ..*parsed_uri }.uri().into());
        }
        PageEnd::Complete => {}
        PageEnd::More | PageEnd::CaughtUp => {
            let range = ByteRange { start: part.end, ..parsed_uri.range };
            meta.insert("next".to_owned(), OutputUri { range, ..*parsed_uri }.uri().into());
        }
    }
    meta
}

/// Returns the values of the argument that start with its current text; jobs newest first.
pub(super) async fn complete(
    client: &TenantClient,
    request: &CompleteRequestParams,
) -> Result<CompletionInfo, ErrorData> {
    check_template(&request.r#ref)?;
    let argument = &request.argument;
    let values = match argument.name.as_str() {
        "job" => client.list().await.iter().map(|job| job.id().to_string()).collect(),
        "stream" => [Stream::Stdout, Stream::Stderr].map(|it| it.name().to_owned()).to_vec(),
        // An offset can be any number.
        "start" | "end" => Vec::new(),
        _ => {
            return Err(completion_error(
                "the arguments of the templates are job, stream, start and end",
            ));
        }
    };
    complete_prefix(&argument.value, values)
}

fn check_template(of: &Reference) -> Result<(), ErrorData> {
    if let Reference::Resource(template) = of
        && TEMPLATES.contains(&template.uri.as_str())
    {
        return Ok(());
    }
    Err(completion_error("resources/templates/list lists the templates, and there are no prompts"))
}

fn completion_error(why: &str) -> ErrorData {
    ErrorData::invalid_params(format!("there is nothing to complete: {why}"), None)
}

/// Returns the matching values that fit in one reply, and the total number.
fn complete_prefix(given: &str, mut values: Vec<String>) -> Result<CompletionInfo, ErrorData> {
    values.retain(|value| value.starts_with(given));
    let total = values.len();
    values.truncate(CompletionInfo::MAX_VALUES);
    let has_more = total > values.len();
    CompletionInfo::with_pagination(values, u32::try_from(total).ok(), has_more)
        .map_err(|error| ErrorData::internal_error(error, None))
}

/// The URI templates of job outputs and their digests.
pub(super) const TEMPLATES: [&str; 5] = [
    "shellyard://jobs/{job}/output",
    "shellyard://jobs/{job}/output/{stream}",
    "shellyard://jobs/{job}/output{?start,end}",
    "shellyard://jobs/{job}/output/{stream}{?start,end}",
    "shellyard://jobs/{job}/digest",
];

/// The URI of a job's output, of one stream of it, or of a part of either:
/// `shellyard://jobs/12/output/stderr?start=100&end=200`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutputUri {
    pub(super) job: JobNumber,
    /// A single stream; offsets then count the bytes of that stream.
    pub(super) stream: Option<Stream>,
    pub(super) range: ByteRange,
}

/// A range of bytes from `start` to `end`, which is not included; to the end if `end` is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ByteRange {
    pub(super) start: u64,
    pub(super) end: Option<u64>,
}

impl ByteRange {
    /// The range of a whole output.
    pub(super) const WHOLE: Self = Self { start: 0, end: None };
}

/// The reason why a text is not the URI of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum OutputUriError {
    #[error("job outputs are at {}", TEMPLATES[0])]
    Foreign,
    #[error(
        "a range reads ?start=100&end=200: whole numbers, start not above end, either may be left out"
    )]
    Range,
}

impl OutputUri {
    /// Parses the URI of an output.
    pub(super) fn parse(uri: &str) -> Result<Self, OutputUriError> {
        let (path, query) = uri.split_once('?').map_or((uri, None), |(path, it)| (path, Some(it)));
        let (job, stream) = parse_job_and_stream(path).ok_or(OutputUriError::Foreign)?;
        let range = query.map_or(Ok(ByteRange::WHOLE), parse_range)?;
        Ok(Self { job, stream, range })
    }

    /// Formats the URI as text.
    pub(super) fn uri(&self) -> String {
        let stream = self.stream.map(|stream| format!("/{}", stream.name())).unwrap_or_default();
        let whole = format!("{}{stream}", output_uri(self.job));
        match self.range {
            ByteRange::WHOLE => whole,
            ByteRange { start, end: None } => format!("{whole}?start={start}"),
            ByteRange { start, end: Some(end) } => format!("{whole}?start={start}&end={end}"),
        }
    }
}

/// Returns the URI of a job's whole output.
pub(super) fn output_uri(job: impl fmt::Display) -> String {
    format!("shellyard://jobs/{job}/output")
}

fn parse_job_and_stream(path: &str) -> Option<(JobNumber, Option<Stream>)> {
    let (job, rest) = path.strip_prefix("shellyard://jobs/")?.split_once('/')?;
    let stream = match rest {
        "output" => None,
        "output/stdout" => Some(Stream::Stdout),
        "output/stderr" => Some(Stream::Stderr),
        _ => return None,
    };
    Some((job.parse().ok()?, stream))
}

fn parse_range(query: &str) -> Result<ByteRange, OutputUriError> {
    let mut start = None;
    let mut end = None;
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').ok_or(OutputUriError::Range)?;
        let position: u64 = value.parse().map_err(|_| OutputUriError::Range)?;
        let earlier = match name {
            "start" => start.replace(position),
            "end" => end.replace(position),
            _ => return Err(OutputUriError::Range),
        };
        if earlier.is_some() {
            return Err(OutputUriError::Range);
        }
    }
    let start = start.unwrap_or(0);
    if end.is_some_and(|end| end < start) {
        return Err(OutputUriError::Range);
    }
    Ok(ByteRange { start, end })
}

/// A position in a log. A cursor carries no server state: it survives a reconnect and may be used
/// twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cursor {
    /// The byte at this offset, counted from 0.
    Bytes(u64),
    /// The first byte of this line, counted from 1.
    Line(u64),
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(offset) => write!(f, "bytes:{offset}"),
            Self::Line(line) => write!(f, "line:{line}"),
        }
    }
}

/// A cursor as a client sends it: `bytes:N`, `line:N`, a bare `N` (bytes), each with or without
/// `job:J:` before it or `@J` after it. White space around it does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedCursor {
    pub job: Option<JobNumber>,
    pub cursor: Cursor,
}

impl fmt::Display for ParsedCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.job {
            Some(job) => write!(f, "job:{job}:{}", self.cursor),
            None => self.cursor.fmt(f),
        }
    }
}

impl ParsedCursor {
    /// Formats the cursor with the job last, as in `bytes:12@7`, for clients that expect the
    /// position first.
    #[must_use]
    pub fn with_job_last(&self) -> String {
        let place = self.cursor;
        self.job.map_or_else(|| place.to_string(), |job| format!("{place}@{job}"))
    }
}

/// The error for a text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CursorError {
    #[error(
        "`{given}` is not a cursor; use a next_cursor as it was returned, or `bytes:N` (N from 0) or `line:N` (N from 1)"
    )]
    Malformed { given: String },
    #[error(
        "cursor `{given}` lies before the start of the output; `bytes:0` and `line:1` are the first places"
    )]
    BeforeStart { given: String },
    #[error("cursor `{given}` is too large; the largest is `bytes:{max}`", max = u64::MAX)]
    TooLarge { given: String },
}

impl CursorError {
    /// Returns the stable code word of the error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Malformed { .. } | Self::BeforeStart { .. } | Self::TooLarge { .. } => {
                "bad_cursor"
            }
        }
    }
}

impl FromStr for ParsedCursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let malformed = || CursorError::Malformed { given: shorten_cursor(text) };
        let named = match text.strip_prefix("job:") {
            None => text.split_once('@').map(|(place, job)| (job, place)),
            Some(rest) => Some(rest.split_once(':').ok_or_else(malformed)?),
        };
        let (job, place) = match named {
            None => (None, text),
            Some((job, place)) => (Some(job.parse().map_err(|_| malformed())?), place),
        };
        let cursor = match place.split_once(':') {
            None => Cursor::Bytes(parse_number(place, text)?),
            Some(("bytes", offset)) => Cursor::Bytes(parse_number(offset, text)?),
            Some(("line", line)) => match parse_number(line, text)? {
                0 => return Err(CursorError::BeforeStart { given: shorten_cursor(text) }),
                line => Cursor::Line(line),
            },
            Some(_) => return Err(malformed()),
        };
        Ok(Self { job, cursor })
    }
}

fn parse_number(digits: &str, whole: &str) -> Result<u64, CursorError> {
    let all_digits =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let given = shorten_cursor(whole);
    match digits.strip_prefix('-') {
        Some(rest) if all_digits(rest) => Err(CursorError::BeforeStart { given }),
        None if all_digits(digits) => digits.parse().map_err(|_| CursorError::TooLarge { given }),
        Some(_) | None => Err(CursorError::Malformed { given }),
    }
}

/// Returns enough of the text to recognise it in a message.
pub(super) fn shorten_cursor(given: &str) -> String {
    given.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn completions_without_room_are_counted() {
        let values = |count: u64| (1..=count).rev().map(|job| job.to_string()).collect();
        let some = complete_prefix("1", values(12)).unwrap();
        assert_eq!(some.values, ["12", "11", "10", "1"]);
        assert_eq!((some.total, some.has_more), (Some(4), Some(false)));
        let many = complete_prefix("", values(250)).unwrap();
        assert_eq!((many.values.len(), many.total, many.has_more), (100, Some(250), Some(true)));
    }

    #[test]
    fn only_our_own_templates_are_completed() {
        check_template(&Reference::for_resource(TEMPLATES[3])).unwrap();
        for foreign in [Reference::for_resource("file:///{path}"), Reference::for_prompt("x")] {
            assert_eq!(check_template(&foreign).unwrap_err().code.0, -32602);
        }
    }

    const OUTPUT: &str = "shellyard://jobs/12/output";

    fn parsed_uri(stream: Option<Stream>, start: u64, end: Option<u64>) -> OutputUri {
        OutputUri { job: JobNumber::new(12), stream, range: ByteRange { start, end } }
    }

    #[test]
    fn a_uri_names_job_stream_and_range() {
        for (uri, expected) in [
            (OUTPUT.to_owned(), parsed_uri(None, 0, None)),
            (format!("{OUTPUT}/stderr"), parsed_uri(Some(Stream::Stderr), 0, None)),
            (format!("{OUTPUT}?start=5"), parsed_uri(None, 5, None)),
            (
                format!("{OUTPUT}/stdout?start=5&end=9"),
                parsed_uri(Some(Stream::Stdout), 5, Some(9)),
            ),
            (format!("{OUTPUT}?start=0&end=0"), parsed_uri(None, 0, Some(0))),
        ] {
            assert_eq!(OutputUri::parse(&uri), Ok(expected));
            assert_eq!(expected.uri(), uri);
        }
        assert_eq!(OutputUri::parse(&format!("{OUTPUT}?end=9")), Ok(parsed_uri(None, 0, Some(9))));
        assert_eq!(TEMPLATES[0].replace("{job}", "12"), output_uri(JobNumber::new(12)));
    }

    #[test]
    fn an_unknown_uri_differs_from_an_invalid_range() {
        for uri in [
            "",
            "shellyard://jobs/0/output",
            "shellyard://jobs/x/output",
            "http://jobs/1/output",
            "shellyard://jobs/1/output/",
            "shellyard://jobs/1/output/both",
            "shellyard://jobs/1",
        ] {
            assert_eq!(OutputUri::parse(uri), Err(OutputUriError::Foreign), "{uri}");
        }
        for query in [
            "",
            "start",
            "start=",
            "start=-1",
            "start=x",
            "start=9&end=5",
            "from=1",
            "start=1&start=2",
        ] {
            let uri = format!("{OUTPUT}?{query}");
            assert_eq!(OutputUri::parse(&uri), Err(OutputUriError::Range), "{uri}");
        }
    }

    #[track_caller]
    fn check(text: &str, job: Option<u64>, cursor: Cursor) {
        assert_eq!(
            text.parse(),
            Ok(ParsedCursor { job: job.map(JobNumber::new), cursor }),
            "{text:?}"
        );
    }

    #[test]
    fn every_allowed_form_is_read() {
        check("bytes:0", None, Cursor::Bytes(0));
        check(" bytes:12\n", None, Cursor::Bytes(12));
        check("12", None, Cursor::Bytes(12));
        check("line:1", None, Cursor::Line(1));
        check("job:7:bytes:12", Some(7), Cursor::Bytes(12));
        check("job:7:line:3", Some(7), Cursor::Line(3));
        check("job:7:12", Some(7), Cursor::Bytes(12));
        check("bytes:12@7", Some(7), Cursor::Bytes(12));
        check("bytes:18446744073709551615", None, Cursor::Bytes(u64::MAX));
    }

    #[test]
    fn each_mistake_has_its_own_message() {
        let error = |text: &str| text.parse::<ParsedCursor>().unwrap_err().to_string();
        for text in [
            "",
            "bytes:",
            "bytes:x",
            "byte:1",
            "bytes:+1",
            "bytes:1:2",
            "job:0:bytes:1",
            "job:x:bytes:1",
            "job:1",
            "job:1:bytes:2@3",
            "bytes:1@",
            "bytes:1@0",
            "bytes:1@2@3",
            "bytes:1.5",
            "bytes:--1",
            "line:",
            "bytes: 1",
        ] {
            assert!(error(text).contains("is not a cursor"), "{text:?}: {}", error(text));
        }
        assert!(error("bytes:-1").contains("before the start"));
        assert!(error("-5").contains("before the start"));
        assert!(error("line:0").contains("before the start"));
        assert!(error("bytes:18446744073709551616").contains("too large"));
        assert!(error(&"9".repeat(100_000)).len() < 300);
    }

    proptest! {
        #[test]
        fn a_written_cursor_parses_back(place in any::<u64>(), job in 1..u64::MAX) {
            for cursor in [Cursor::Bytes(place), Cursor::Line(place.max(1))] {
                for job in [None, Some(JobNumber::new(job))] {
                    let given = ParsedCursor { job, cursor };
                    prop_assert_eq!(given.to_string().parse(), Ok(given));
                    prop_assert_eq!(given.with_job_last().parse(), Ok(given));
                }
            }
        }

        #[test]
        fn no_input_breaks_the_parser(text in "\\PC*|(job:)?[0-9:-]*(bytes|line)?:?[0-9-]*") {
            let parsed = text.parse::<ParsedCursor>();
            prop_assert!(parsed.is_ok() || parsed.is_err_and(|error| error.code() == "bad_cursor"));
        }
    }
}
