//! Each job's output as a resource: addresses, lists, contents and completions.

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

/// The memory of a read beside what it shows.
const BASE_MEMORY: usize = 1024 * 1024;
/// The memory for each byte of a resource: as it was written, as text and in an answer.
const MEMORY_PER_BYTE: usize = 3;
/// A read waits for memory at most this long.
const MEMORY_WAIT: Duration = Duration::from_secs(10);
/// So many jobs are on one page of the list.
const PAGE: usize = 100;

/// The newest jobs, newest first; from the cursor on where one is given.
pub(super) async fn list(
    client: &TenantClient,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    let before = cursor.map(before_of).transpose()?;
    let mut jobs = client.list().await;
    jobs.retain(|job| before.is_none_or(|before| job.id().job_number() < before));
    let is_all = jobs.len() <= PAGE;
    jobs.truncate(PAGE);
    let next = jobs.last().filter(|_| !is_all).map(|job| format!("before:{}", job.id()));
    let redactor = client.redactor();
    let resources = listed_resources(&jobs, &redactor).await;
    let mut result = ListResourcesResult::with_all_items(resources);
    result.next_cursor = next;
    Ok(result)
}

/// The job before which a page begins. A cursor names a job, not a number of them, so that jobs
/// that appear meanwhile move nothing.
fn before_of(cursor: &str) -> Result<JobNumber, ErrorData> {
    cursor.strip_prefix("before:").and_then(|id| id.parse().ok()).ok_or_else(|| {
        let message = "unknown cursor: give a nextCursor of resources/list, or leave it out";
        ErrorData::invalid_params(message, None)
    })
}

/// The address forms of all of them.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    const ABOUT: [(&str, &str); TEMPLATES.len()] = [
        ("job output", "What a job wrote, both streams in the order in which they came"),
        ("job stream", "What a job wrote on one stream: stdout or stderr"),
        ("part of a job's output", "Bytes from start, up to end where that is given"),
        ("part of a job's stream", "Bytes from start, counted in that stream"),
    ];
    let template = |(uri, (name, about)): (&str, (&str, &str))| {
        ResourceTemplate::new(uri, name).with_description(about).with_mime_type("text/plain")
    };
    TEMPLATES.into_iter().zip(ABOUT).map(template).collect()
}

/// The output at this address, up to `max_bytes`.
pub(super) async fn read(
    client: &TenantClient,
    uri: &str,
    max_bytes: usize,
) -> Result<ReadResourceResult, ErrorData> {
    let (address, job) = find(client, uri).await?;
    let redactor = client.redactor();
    let memory = job.output().reserve(BASE_MEMORY + MEMORY_PER_BYTE * max_bytes, MEMORY_WAIT);
    let memory = memory.await.map_err(busy)?;
    let read = move |log: &BlockingReader| {
        Ok((resource_contents(log, &address, max_bytes, &redactor), memory))
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

/// The job at an address.
pub(super) async fn find(
    client: &TenantClient,
    uri: &str,
) -> Result<(Address, JobHandle), ErrorData> {
    let given: String = uri.chars().take(80).collect();
    let not_found = |why: &str| {
        let data = serde_json::json!({ "uri": uri });
        ErrorData::resource_not_found(format!("there is no resource `{given}`; {why}"), Some(data))
    };
    let address = Address::parse(uri).map_err(|error| match error {
        AddressError::Foreign => not_found(&error.to_string()),
        AddressError::Range => {
            ErrorData::invalid_params(format!("`{given}` names no part; {error}"), None)
        }
    })?;
    let job = client.find(client.job(address.job)).await.map_err(|error| match error {
        FindError::Unknown { .. } => not_found(&error.to_string()),
        FindError::Freed { .. } => {
            let data = serde_json::json!({ "uri": uri, "error_code": error.code() });
            ErrorData::resource_not_found(error.to_string(), Some(data))
        }
        FindError::Unavailable { .. } => ErrorData::internal_error(error.to_string(), None),
    })?;
    Ok((address, job))
}

fn busy(error: ReadBusy) -> ErrorData {
    let data = serde_json::json!({ "error_code": error.code() });
    ErrorData::internal_error(error.to_string(), Some(data))
}

/// How much decides what kind of content an output is.
const SAMPLE: usize = 8 * 1024;
/// Characters of a command or description that are listed.
const ABOUT_CHARS: usize = 200;

/// Why the contents of a resource cannot be given.
#[derive(Debug, Error)]
pub(crate) enum ContentsError {
    #[error(
        "start={start} is behind the end: there are {total_bytes} bytes; give a start from 0 to {total_bytes}"
    )]
    Outside { start: u64, total_bytes: u64 },
    #[error("the output could not be read ({0}); it is still there if the disk is: try again")]
    Read(#[from] io::Error),
}

/// Returns what a list of resources says about the output of these jobs.
pub(crate) async fn listed_resources(jobs: &[JobHandle], redactor: &Redactor) -> Vec<Resource> {
    let logs: Vec<LogReader> = jobs.iter().map(|job| job.output().clone()).collect();
    let mimes = |logs: &[BlockingReader]| logs.iter().map(|log| mime(log).ok()).collect();
    let mimes: io::Result<Vec<_>> = scan_with(&logs, Duration::ZERO, mimes).await;
    // Output that cannot be read is listed all the same; reading it says why not.
    let mimes = mimes.unwrap_or_default().into_iter().chain(iter::repeat(None));
    jobs.iter().zip(mimes).map(|(job, mime)| listed_resource(job, mime, redactor)).collect()
}

fn mime(log: &BlockingReader) -> io::Result<&'static str> {
    Ok(views::mime(&head(log, None)?))
}

fn listed_resource(job: &JobHandle, mime: Option<&str>, redactor: &Redactor) -> Resource {
    let spec = job.spec();
    let about = spec.description.clone().unwrap_or_else(|| spec.program.display());
    let about: String = redactor.mask_text(&about).chars().take(ABOUT_CHARS).collect();
    let resource = Resource::new(of_output(job.id()), format!("job {} output", job.id()))
        .with_description(about)
        .with_size(job.output().progress().total_bytes);
    match mime {
        Some(mime) => resource.with_mime_type(mime),
        None => resource,
    }
}

/// The output at an address, at most `max_bytes` of it: text where it is text, with its secrets
/// masked, else base64. The metadata tells how much there is, which bytes these are, and the
/// address of the next ones where there are more, or may be.
pub(crate) fn resource_contents(
    log: &BlockingReader,
    address: &Address,
    max_bytes: usize,
    redactor: &Redactor,
) -> Result<ResourceContents, ContentsError> {
    let Address { stream, range: ByteRange { start, end }, .. } = *address;
    let part = log.read_range(&LogRangeRequest { stream, start, end, max_bytes })?;
    if start > part.total_bytes {
        return Err(ContentsError::Outside { start, total_bytes: part.total_bytes });
    }
    let head = head(log, stream)?;
    // The beginning tells what all of it is; what is shown may be more than that.
    let first = if start == 0 && part.bytes.len() > head.len() { &part.bytes } else { &head };
    let contents = if views::is_binary(first) || views::is_binary(&part.bytes) {
        ResourceContents::blob(STANDARD.encode(&part.bytes), address.uri())
    } else {
        let options = ViewOptions { ansi: Ansi::Strip, fold: Fold::Off, long: LongLines::Keep };
        let text = views::render_text(&part.bytes, options).text;
        ResourceContents::text(redactor.mask_text(&text).into_owned(), address.uri())
    };
    Ok(contents.with_mime_type(views::mime(first)).with_meta(place(&part, address)))
}

/// The first bytes of an output.
fn head(log: &BlockingReader, stream: Option<Stream>) -> io::Result<Vec<u8>> {
    let request = LogRangeRequest { stream, start: 0, end: Some(SAMPLE as u64), max_bytes: SAMPLE };
    Ok(log.read_range(&request)?.bytes)
}

/// Which bytes a part is, and where it goes on.
fn place(part: &LogRange, address: &Address) -> MetaObject {
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
    let is_past = address.range.end.is_some_and(|end| end <= part.start);
    match part.end_kind {
        // Nothing of what was asked for is there: this is where the output goes on.
        PageEnd::Complete if gap > 0 && is_past && part.end < part.total_bytes => {
            let range = ByteRange { start: part.end, end: None };
            meta.insert("next".to_owned(), Address { range, ..*address }.uri().into());
        }
        PageEnd::Complete => {}
        PageEnd::More | PageEnd::CaughtUp => {
            let range = ByteRange { start: part.end, ..address.range };
            meta.insert("next".to_owned(), Address { range, ..*address }.uri().into());
        }
    }
    meta
}

/// The values that the argument can have and that begin as it does so far: jobs newest first.
pub(super) async fn complete(
    client: &TenantClient,
    request: &CompleteRequestParams,
) -> Result<CompletionInfo, ErrorData> {
    check_template(&request.r#ref)?;
    let argument = &request.argument;
    let values = match argument.name.as_str() {
        "job" => client.list().await.iter().map(|job| job.id().to_string()).collect(),
        "stream" => [Stream::Stdout, Stream::Stderr].map(|it| it.name().to_owned()).to_vec(),
        // A position can be any number.
        "start" | "end" => Vec::new(),
        _ => return Err(refused("the arguments of the templates are job, stream, start and end")),
    };
    beginning_with(&argument.value, values)
}

fn check_template(of: &Reference) -> Result<(), ErrorData> {
    if let Reference::Resource(template) = of
        && TEMPLATES.contains(&template.uri.as_str())
    {
        return Ok(());
    }
    Err(refused("resources/templates/list lists the templates, and there are no prompts"))
}

fn refused(why: &str) -> ErrorData {
    ErrorData::invalid_params(format!("there is nothing to complete: {why}"), None)
}

/// As many of them as one answer holds, and how many there are.
fn beginning_with(given: &str, mut values: Vec<String>) -> Result<CompletionInfo, ErrorData> {
    values.retain(|value| value.starts_with(given));
    let total = values.len();
    values.truncate(CompletionInfo::MAX_VALUES);
    let has_more = total > values.len();
    CompletionInfo::with_pagination(values, u32::try_from(total).ok(), has_more)
        .map_err(|error| ErrorData::internal_error(error, None))
}

/// The forms of all such addresses, as URI templates.
pub(super) const TEMPLATES: [&str; 4] = [
    "shellyard://jobs/{job}/output",
    "shellyard://jobs/{job}/output/{stream}",
    "shellyard://jobs/{job}/output{?start,end}",
    "shellyard://jobs/{job}/output/{stream}{?start,end}",
];

/// The address of a job's output, of one stream of it, or of a part of either:
/// `shellyard://jobs/12/output/stderr?start=100&end=200`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) job: JobNumber,
    /// One stream alone; its positions then count its own bytes.
    pub(super) stream: Option<Stream>,
    pub(super) range: ByteRange,
}

/// Bytes from `start` on, up to `end` where one is named; `end` itself is not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ByteRange {
    pub(super) start: u64,
    pub(super) end: Option<u64>,
}

impl ByteRange {
    /// Everything.
    pub(super) const WHOLE: Self = Self { start: 0, end: None };
}

/// Why a text is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum AddressError {
    #[error("job outputs are at {}", TEMPLATES[0])]
    Foreign,
    #[error(
        "a range reads ?start=100&end=200: whole numbers, start not above end, either may be left out"
    )]
    Range,
}

impl Address {
    /// Reads an address.
    pub(super) fn parse(uri: &str) -> Result<Self, AddressError> {
        let (path, query) = uri.split_once('?').map_or((uri, None), |(path, it)| (path, Some(it)));
        let (job, stream) = job_and_stream(path).ok_or(AddressError::Foreign)?;
        let range = query.map_or(Ok(ByteRange::WHOLE), range)?;
        Ok(Self { job, stream, range })
    }

    /// The text that stands for it.
    pub(super) fn uri(&self) -> String {
        let stream = self.stream.map(|stream| format!("/{}", stream.name())).unwrap_or_default();
        let whole = format!("{}{stream}", of_output(self.job));
        match self.range {
            ByteRange::WHOLE => whole,
            ByteRange { start, end: None } => format!("{whole}?start={start}"),
            ByteRange { start, end: Some(end) } => format!("{whole}?start={start}&end={end}"),
        }
    }
}

/// The address of all of this job's output.
pub(super) fn of_output(job: impl fmt::Display) -> String {
    format!("shellyard://jobs/{job}/output")
}

fn job_and_stream(path: &str) -> Option<(JobNumber, Option<Stream>)> {
    let (job, rest) = path.strip_prefix("shellyard://jobs/")?.split_once('/')?;
    let stream = match rest {
        "output" => None,
        "output/stdout" => Some(Stream::Stdout),
        "output/stderr" => Some(Stream::Stderr),
        _ => return None,
    };
    Some((job.parse().ok()?, stream))
}

fn range(query: &str) -> Result<ByteRange, AddressError> {
    let mut start = None;
    let mut end = None;
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').ok_or(AddressError::Range)?;
        let position: u64 = value.parse().map_err(|_| AddressError::Range)?;
        let earlier = match name {
            "start" => start.replace(position),
            "end" => end.replace(position),
            _ => return Err(AddressError::Range),
        };
        if earlier.is_some() {
            return Err(AddressError::Range);
        }
    }
    let start = start.unwrap_or(0);
    if end.is_some_and(|end| end < start) {
        return Err(AddressError::Range);
    }
    Ok(ByteRange { start, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let values = |count: u64| (1..=count).rev().map(|job| job.to_string()).collect();
        let some = beginning_with("1", values(12)).unwrap();
        assert_eq!(some.values, ["12", "11", "10", "1"]);
        assert_eq!((some.total, some.has_more), (Some(4), Some(false)));
        let many = beginning_with("", values(250)).unwrap();
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

    fn address(stream: Option<Stream>, start: u64, end: Option<u64>) -> Address {
        Address { job: JobNumber::new(12), stream, range: ByteRange { start, end } }
    }

    #[test]
    fn an_address_names_job_stream_and_range() {
        for (uri, expected) in [
            (OUTPUT.to_owned(), address(None, 0, None)),
            (format!("{OUTPUT}/stderr"), address(Some(Stream::Stderr), 0, None)),
            (format!("{OUTPUT}?start=5"), address(None, 5, None)),
            (format!("{OUTPUT}/stdout?start=5&end=9"), address(Some(Stream::Stdout), 5, Some(9))),
            (format!("{OUTPUT}?start=0&end=0"), address(None, 0, Some(0))),
        ] {
            assert_eq!(Address::parse(&uri), Ok(expected));
            assert_eq!(expected.uri(), uri);
        }
        assert_eq!(Address::parse(&format!("{OUTPUT}?end=9")), Ok(address(None, 0, Some(9))));
        assert_eq!(TEMPLATES[0].replace("{job}", "12"), of_output(JobNumber::new(12)));
    }

    #[test]
    fn what_names_nothing_is_told_from_a_range_that_is_none() {
        for uri in [
            "",
            "shellyard://jobs/0/output",
            "shellyard://jobs/x/output",
            "http://jobs/1/output",
            "shellyard://jobs/1/output/",
            "shellyard://jobs/1/output/both",
            "shellyard://jobs/1",
        ] {
            assert_eq!(Address::parse(uri), Err(AddressError::Foreign), "{uri}");
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
            assert_eq!(Address::parse(&uri), Err(AddressError::Range), "{uri}");
        }
    }
}
