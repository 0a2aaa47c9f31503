//! `/jobs/{id}/output`: the bytes that a job wrote, from a byte, a number of last lines or a time on,
//! or (`follow=1`) as the job writes them.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use futures_util::stream;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::negotiation::{Coding, ContentTag, Encoder, ResponsePlan, plan_response};
use super::request::{ApiError, ApiState, JobAccess, QueryParams};
use crate::ids::JobId;
use crate::service::{
    CallerIdentity, ContentKind, ForeignAccess, Hole, JobHandle, JobOutput, JobOutputReader,
    OutputPiece, RawReader, StartAt,
};
use crate::spec::Stream;
use crate::telemetry::events;

pub(super) const STREAM_VALUES: [(&str, Stream); 2] =
    [("stdout", Stream::Stdout), ("stderr", Stream::Stderr)];
const DOWNLOAD_VALUES: [(&str, OutputUse); 2] =
    [("1", OutputUse::Download), ("0", OutputUse::View)];

/// The number of output bytes that could not be kept and so are missing from the response, if any.
const DROPPED_BYTES: HeaderName = HeaderName::from_static("x-shellyard-dropped-bytes");

/// The holes of the requested output: positions whose bytes are not in the response.
const HOLES: HeaderName = HeaderName::from_static("x-shellyard-holes");

/// The position of the first byte, in a response that starts at lines, at a time or at a position.
const START: HeaderName = HeaderName::from_static("x-shellyard-start");

/// The parameters of the route.
pub(in crate::http) const PARAMS: [&str; 7] =
    ["download", "follow", "from", "since", "stream", "tail", "tenant"];

pub(super) const FOLLOW_VALUES: [(&str, bool); 2] = [("1", true), ("0", false)];

/// The use that the client makes of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputUse {
    View,
    Download,
}

#[derive(Debug, Clone, Copy)]
struct OutputRequest {
    job: JobId,
    stream: Option<Stream>,
    purpose: OutputUse,
}

impl OutputRequest {
    fn read(job: JobId, params: &QueryParams<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            job,
            stream: params.choice("stream", &STREAM_VALUES)?,
            purpose: params.choice("download", &DOWNLOAD_VALUES)?.unwrap_or(OutputUse::View),
        })
    }

    /// `job-12-stderr.log`
    fn file_name(&self, kind: ContentKind) -> String {
        let stream = self.stream.map(|stream| format!("-{}", stream.name())).unwrap_or_default();
        let ending = match kind {
            ContentKind::Text => "log",
            ContentKind::Known(_) | ContentKind::Bytes => "bin",
        };
        format!("job-{}{stream}.{ending}", self.job)
    }

    /// The tag of content that will never change: job, stream, length, and the server that counted
    /// them.
    fn tag(&self, output: &JobOutput, server: u64) -> Option<ContentTag> {
        let stream = self.stream.map_or("output", Stream::name);
        let tenant = self.job.tenant();
        let job = self.job;
        let name = format!("{server:x}-{tenant}-{job}-{stream}-{}", output.length());
        output.is_complete().then(|| ContentTag::new(name))
    }
}

/// Sends the output of a job.
pub(in crate::http) async fn job_output(
    State(api): State<Arc<ApiState>>,
    Extension(caller): Extension<CallerIdentity>,
    Path(job): Path<String>,
    Parts { method, uri, headers, .. }: Parts,
) -> Result<Response, ApiError> {
    let params = QueryParams::parse(uri.query(), &PARAMS)?;
    let access = JobAccess::new(caller, &params)?;
    let start = read_start(&params, "from")?;
    let follows = params.choice("follow", &FOLLOW_VALUES)?.unwrap_or(false);
    let job = access.find(&api, &job, ForeignAccess::ReadOutput).await?;
    let request = OutputRequest::read(job.id(), &params)?;
    if follows {
        let start = start.unwrap_or(StartAt::Position(0));
        return follow_response(&api, &job, request.stream, start).await;
    }
    let output = JobOutput::open(&job, request.stream)?;
    if let Some(start) = start {
        let position = output.find_start(start).await?;
        let response = OutputResponse { api: &api, request, output, tag: None };
        if matches!(start, StartAt::Position(_)) {
            response.refuse_hole(position).await?;
        }
        return response.from(position).await;
    }
    let has_holes = output.find_first_hole(0..output.length()).await?.is_some();
    // Of output with holes, positions are not those of the body: no part of it can be asked for by
    // its tag.
    let tag = request.tag(&output, api.server).filter(|_| !has_holes);
    let plan = plan_response(&method, &headers, output.length(), tag.as_ref());
    let response = OutputResponse { api: &api, request, output, tag };
    match plan {
        ResponsePlan::Outside => Err(ApiError::Outside { length: response.output.length() }),
        ResponsePlan::NotModified(coding) => response.not_modified(coding),
        ResponsePlan::Whole(coding) => response.whole(coding).await,
        ResponsePlan::Part(range) => response.part(range).await,
    }
}

/// The response to a request for output.
struct OutputResponse<'a> {
    api: &'a ApiState,
    request: OutputRequest,
    output: JobOutput,
    tag: Option<ContentTag>,
}

impl OutputResponse<'_> {
    fn not_modified(&self, coding: Coding) -> Result<Response, ApiError> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        self.describe(response.headers_mut(), coding)?;
        Ok(response)
    }

    async fn whole(self, coding: Coding) -> Result<Response, ApiError> {
        // An encoder takes memory: while too many are active, bytes are sent uncompressed.
        let permit = match coding {
            Coding::Identity => None,
            Coding::Gzip | Coding::Zstd => Arc::clone(&self.api.encoders).try_acquire_owned().ok(),
        };
        let coding = if permit.is_some() { coding } else { Coding::Identity };
        let (kind, mut body) = self.open(0..self.output.length(), coding).await?;
        body.permit = permit;
        let length = body.blocks.bytes_left();
        let holes = format_holes(body.blocks.holes());
        let mut response = Response::new(body.into_body());
        let headers = response.headers_mut();
        self.describe(headers, coding)?;
        self.describe_content(headers, kind)?;
        set_holes(headers, &holes)?;
        match coding {
            Coding::Identity => set_header(headers, CONTENT_LENGTH, &length.to_string())?,
            Coding::Gzip | Coding::Zstd => set_header(headers, CONTENT_ENCODING, coding.name())?,
        }
        Ok(response)
    }

    /// Answers with everything from a position on.
    async fn from(self, start: u64) -> Result<Response, ApiError> {
        let length = self.output.length();
        if start > length {
            return Err(ApiError::Outside { length });
        }
        let (kind, body) = self.open(start..length, Coding::Identity).await?;
        let sent = body.blocks.bytes_left();
        let holes = format_holes(body.blocks.holes());
        let mut response = Response::new(body.into_body());
        let headers = response.headers_mut();
        self.describe(headers, Coding::Identity)?;
        self.describe_content(headers, kind)?;
        set_holes(headers, &holes)?;
        set_header(headers, START, &start.to_string())?;
        set_header(headers, CONTENT_LENGTH, &sent.to_string())?;
        Ok(response)
    }

    /// Answers with the bytes of a range up to its first hole: those after it are not at the positions
    /// that a client would take them for.
    async fn part(self, range: Range<u64>) -> Result<Response, ApiError> {
        self.refuse_hole(range.start).await?;
        let total = self.output.length();
        let holes = self.output.find_holes(range.clone()).await?;
        let end = holes.first().map_or(range.end, |hole| hole.range.start);
        let range = range.start..end;
        let length = range.end - range.start;
        let content_range = format!("bytes {}-{}/{total}", range.start, range.end - 1);
        let (kind, body) = self.open(range, Coding::Identity).await?;
        let mut response = Response::new(body.into_body());
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let headers = response.headers_mut();
        self.describe(headers, Coding::Identity)?;
        self.describe_content(headers, kind)?;
        if !holes.is_empty() {
            set_header(headers, HOLES, &format_holes(&holes))?;
        }
        set_header(headers, CONTENT_RANGE, &content_range)?;
        set_header(headers, CONTENT_LENGTH, &length.to_string())?;
        Ok(response)
    }

    /// Returns the kind of the content, and the bytes of a range, ready to be read.
    async fn open(
        &self,
        range: Range<u64>,
        coding: Coding,
    ) -> Result<(ContentKind, OutputBody), ApiError> {
        let job = self.request.job;
        let output = &self.output;
        let unreadable = |error: &io::Error| events::output_unreadable(job, error);
        let kind = output.kind().await.inspect_err(unreadable)?;
        let blocks = output.read(range).await.inspect_err(unreadable)?;
        let encoder = Encoder::new(coding)?;
        Ok((kind, OutputBody { job, blocks, encoder, permit: None }))
    }

    /// Refuses a request that names a position whose byte was not kept.
    async fn refuse_hole(&self, position: u64) -> Result<(), ApiError> {
        let rest = position..self.output.length();
        match self.output.find_first_hole(rest).await? {
            Some(hole) if hole.start <= position => Err(ApiError::NotKept { hole }),
            Some(_) | None => Ok(()),
        }
    }

    /// Sets the headers of every response about this output.
    fn describe(&self, headers: &mut HeaderMap, coding: Coding) -> Result<(), ApiError> {
        set_header(headers, VARY, "accept-encoding")?;
        // Caches may store a copy but must revalidate it: jobs continue, and their output is freed.
        set_header(headers, CACHE_CONTROL, "private, no-cache")?;
        set_dropped_bytes(headers, self.output.dropped_bytes())?;
        match &self.tag {
            Some(tag) => set_header(headers, ETAG, &tag.etag(coding)),
            None => Ok(()),
        }
    }

    /// Sets the headers of a response with content.
    fn describe_content(&self, headers: &mut HeaderMap, kind: ContentKind) -> Result<(), ApiError> {
        let mime = match kind {
            ContentKind::Text => "text/plain; charset=utf-8",
            ContentKind::Known(mime) => mime,
            ContentKind::Bytes => "application/octet-stream",
        };
        set_content_type(headers, mime)?;
        set_header(headers, ACCEPT_RANGES, "bytes")?;
        match self.request.purpose {
            OutputUse::View => Ok(()),
            OutputUse::Download => {
                let name = self.request.file_name(kind);
                set_header(
                    headers,
                    CONTENT_DISPOSITION,
                    &format!("attachment; filename=\"{name}\""),
                )
            }
        }
    }
}

/// Formats holes for a header: `100-200:truncated`, the first position and the one after the last, and
/// the reason.
fn format_holes(holes: &[Hole]) -> String {
    let hole = |hole: &Hole| format!("{}-{}:{}", hole.range.start, hole.range.end, hole.why.word());
    holes.iter().map(hole).collect::<Vec<_>>().join(", ")
}

/// Names the holes of the response, if there are any. Positions are then not those of the body, so no
/// client may take it for a part of a download.
fn set_holes(headers: &mut HeaderMap, holes: &str) -> Result<(), ApiError> {
    if holes.is_empty() {
        return Ok(());
    }
    headers.remove(ACCEPT_RANGES);
    set_header(headers, HOLES, holes)
}

fn set_dropped_bytes(headers: &mut HeaderMap, dropped: u64) -> Result<(), ApiError> {
    if dropped == 0 { Ok(()) } else { set_header(headers, DROPPED_BYTES, &dropped.to_string()) }
}

/// Names the type of the content. Any program may have written it, so a browser must neither guess
/// its type nor run it as a page of ours.
fn set_content_type(headers: &mut HeaderMap, mime: &str) -> Result<(), ApiError> {
    set_header(headers, CONTENT_TYPE, mime)?;
    set_header(headers, X_CONTENT_TYPE_OPTIONS, "nosniff")?;
    set_header(headers, CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox")
}

/// Sets a header. None of our values contains a character that is invalid in headers.
fn set_header(headers: &mut HeaderMap, name: HeaderName, value: &str) -> Result<(), ApiError> {
    headers.insert(name, HeaderValue::from_str(value).map_err(io::Error::other)?);
    Ok(())
}

/// The body of an output response.
struct OutputBody {
    job: JobId,
    blocks: RawReader,
    encoder: Encoder,
    /// Held while the encoder exists.
    permit: Option<OwnedSemaphorePermit>,
}

impl OutputBody {
    /// Converts into a body. Nothing is read ahead and no thread is held between two blocks: a slow
    /// reader costs one block, and a reader that hangs up ends the reading. A failed read breaks
    /// the connection, so that no client takes a part for the whole.
    fn into_body(self) -> Body {
        Body::from_stream(stream::try_unfold(self, next_chunk))
    }

    /// Reads and encodes the next bytes to send.
    async fn advance(mut self) -> io::Result<Option<(Bytes, Self)>> {
        while let Some(block) = self.blocks.next_block().await? {
            let (ready, body) = self.encode(move |encoder| encoder.push(block)).await?;
            self = body;
            if !ready.is_empty() {
                return Ok(Some((ready.into(), self)));
            }
        }
        let (rest, body) = self.encode(Encoder::finish).await?;
        Ok((!rest.is_empty()).then_some((rest.into(), body)))
    }

    /// Uses the encoder, on a blocking thread if it compresses.
    async fn encode(
        mut self,
        act: impl FnOnce(&mut Encoder) -> io::Result<Vec<u8>> + Send + 'static,
    ) -> io::Result<(Vec<u8>, Self)> {
        let is_cheap = match &self.encoder {
            Encoder::Identity | Encoder::Ended => true,
            Encoder::Gzip(_) | Encoder::Zstd(_) => false,
        };
        let run = move || Ok((act(&mut self.encoder)?, self));
        if is_cheap { run() } else { spawn_blocking(run).await.map_err(io::Error::other)? }
    }
}

async fn next_chunk(body: OutputBody) -> io::Result<Option<(Bytes, OutputBody)>> {
    let job = body.job;
    body.advance().await.inspect_err(|error| events::output_unreadable(job, error))
}

/// Sends the output of a job from `start` on, until it is complete. Its length is not known, so the
/// connection breaks if the output cannot be sent to its end: no client takes a part for the whole.
async fn follow_response(
    api: &ApiState,
    job: &JobHandle,
    stream: Option<Stream>,
    start: StartAt,
) -> Result<Response, ApiError> {
    let reader = JobOutputReader::open(job, stream, start).await?;
    let position = reader.position();
    let holes = reader.find_holes().await?;
    let dropped = job.output().progress().dropped_bytes;
    let body = FollowBody { job: job.id(), reader, streams: api.streams.clone() };
    let mut response = Response::new(Body::from_stream(stream::try_unfold(body, FollowBody::next)));
    let headers = response.headers_mut();
    set_header(headers, START, &position.to_string())?;
    set_holes(headers, &format_holes(&holes))?;
    set_dropped_bytes(headers, dropped)?;
    // A program decides what it writes next, so the beginning does not tell the type.
    set_content_type(headers, "application/octet-stream")?;
    set_header(headers, CACHE_CONTROL, "no-store")?;
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// The body of a response that follows a job.
struct FollowBody {
    job: JobId,
    reader: JobOutputReader,
    /// Cancelled when the server ends.
    streams: CancellationToken,
}

impl FollowBody {
    async fn next(mut self) -> io::Result<Option<(Bytes, Self)>> {
        loop {
            let piece = tokio::select! {
                biased;
                piece = self.reader.peek() => piece,
                () = self.streams.cancelled() => Err(io::ErrorKind::ConnectionAborted.into()),
            };
            match piece.inspect_err(|error| self.report(error))? {
                OutputPiece::Bytes { bytes, .. } => {
                    self.reader.advance(bytes.len() as u64);
                    return Ok(Some((bytes.into(), self)));
                }
                OutputPiece::Missing(hole) => {
                    self.reader.advance(hole.range.end - hole.range.start);
                }
                OutputPiece::Lost(lost) => self.reader.mark_loss_known(lost.bytes),
                OutputPiece::End => return Ok(None),
            }
        }
    }

    fn report(&self, error: &io::Error) {
        if error.kind() != io::ErrorKind::ConnectionAborted {
            events::output_unreadable(self.job, error);
        }
    }
}

/// The most lines of a tail.
pub(crate) const MAX_TAIL: usize = 1_000_000;

/// Reads the start of a request; `name` is the parameter with a byte position. A position stands
/// alone; `tail` and `since` together are the last lines since a time.
pub(super) fn read_start(
    params: &QueryParams<'_>,
    name: &'static str,
) -> Result<Option<StartAt>, ApiError> {
    let lines = params.count_from("tail", 0, MAX_TAIL)?;
    let since = params.value("since").map(read_since).transpose()?;
    if let Some(text) = params.value(name) {
        if lines.is_some() || since.is_some() {
            let why = format!("give `{name}` alone, without `tail` and `since`");
            return Err(ApiError::bad_query(name, &why));
        }
        let bad = |_| ApiError::bad_query(name, "it must be a number of bytes");
        return Ok(Some(StartAt::Position(text.parse().map_err(bad)?)));
    }
    Ok(match (lines, since) {
        (None, None) => None,
        (Some(lines), None | Some(Since::Always)) => Some(StartAt::LastLines(lines)),
        (None, Some(Since::Always)) => Some(StartAt::Position(0)),
        (None, Some(Since::Time(since))) => Some(StartAt::Time(since)),
        (Some(lines), Some(Since::Time(since))) => Some(StartAt::LastLinesSince { lines, since }),
    })
}

/// The time of `since`.
#[derive(Debug, Clone, Copy)]
enum Since {
    Time(Instant),
    /// A time before this host was started, which includes everything.
    Always,
}

fn read_since(text: &str) -> Result<Since, ApiError> {
    let ago = parse_age(text, SystemTime::now()).ok_or_else(|| {
        let why = "it must be a time such as 2026-11-15T04:01:21Z, or a number of seconds ago";
        ApiError::bad_query("since", why)
    })?;
    Ok(Instant::now().checked_sub(ago).map_or(Since::Always, Since::Time))
}

/// Returns how long before `now` a time is, at least zero; `None` if the text is neither a time nor a
/// number of seconds.
fn parse_age(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    // A plus sign may be written as it is, or as a query escapes it.
    let text = text.replace("%2B", "+").replace("%2b", "+").replace("%3A", ":").replace("%3a", ":");
    let time = OffsetDateTime::parse(&text, &Rfc3339).ok()?;
    Some(now.duration_since(SystemTime::from(time)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Option<StartAt>, ApiError> {
        read_start(&QueryParams::parse(Some(query), &["from", "tail", "since"])?, "from")
    }

    #[test]
    fn a_start_is_a_byte_or_lines_or_a_time() {
        assert_eq!(read("").unwrap(), None);
        assert_eq!(read("from=7").unwrap(), Some(StartAt::Position(7)));
        assert_eq!(read("tail=0").unwrap(), Some(StartAt::LastLines(0)));
        assert!(matches!(read("since=0.5").unwrap(), Some(StartAt::Time(_))));
        assert!(read("since=2026-01-01T00:00:00Z").unwrap().is_some());
        // No clock reaches back that far.
        assert_eq!(read("since=1e19").unwrap(), Some(StartAt::Position(0)));
        let both = read("tail=3&since=0.5").unwrap();
        assert!(matches!(both, Some(StartAt::LastLinesSince { lines: 3, .. })), "{both:?}");
        assert_eq!(read("tail=3&since=1e19").unwrap(), Some(StartAt::LastLines(3)));
        for bad in [
            "from=-1",
            "from=x",
            "tail=-1",
            "since=yesterday",
            "since=-1",
            "tail=1&from=0",
            "since=1&from=0",
        ] {
            assert_eq!(read(bad).unwrap_err().code(), "bad_query", "{bad}");
        }
    }

    #[test]
    fn times_are_utc_or_have_an_offset() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        for (text, seconds) in [
            ("60", 60),
            ("1970-01-12T13:46:39Z", 1),
            ("1970-01-12T15:46:39+02:00", 1),
            ("1970-01-12T15:46:39%2B02:00", 1),
            ("1970-01-13T00:00:00Z", 0),
        ] {
            assert_eq!(parse_age(text, now), Some(Duration::from_secs(seconds)), "{text}");
        }
    }
}
