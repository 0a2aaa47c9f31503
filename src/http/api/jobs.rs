//! `/jobs`, `/jobs/{id}` and `/jobs/{id}/output`: the state of jobs in the structured form of the
//! tools' replies, and the bytes that they wrote.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use futures_util::stream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;

use super::negotiation::{Coding, Encoder, Plan, Tag, plan};
use super::request::{Api, ApiError, Params, json, operator};
use crate::ids::{JobId, TenantId};
use crate::mcp::JobState;
use crate::service::{CallerIdentity, ContentKind, JobOutput, RawReader, TenantClient};
use crate::spec::Stream;
use crate::telemetry::events;

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 200;

const STATES: [(&str, Option<JobState>); 5] = [
    ("queued", Some(JobState::Queued)),
    ("running", Some(JobState::Running)),
    ("stopping", Some(JobState::Stopping)),
    ("finished", Some(JobState::Finished)),
    ("all", None),
];

/// Whose jobs are asked for.
#[derive(Debug, Clone, Copy)]
enum Whose {
    Own,
    All,
}

/// Whose jobs a caller sees: its own tenant's, or, for an operator, those of the one it names.
pub(super) fn seen_as(
    caller: CallerIdentity,
    params: &Params<'_>,
) -> Result<CallerIdentity, ApiError> {
    match params.value("tenant") {
        None => Ok(caller),
        Some(name) => {
            operator(caller)?;
            Ok(CallerIdentity { tenant: TenantId::parse(name)?, ..caller })
        }
    }
}

/// The newest jobs, newest first: the caller's own, or all for an operator.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<CallerIdentity>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let params = Params::read(uri.query(), &["all", "limit", "state", "tenant"])?;
    let limit = params.count("limit", MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT);
    let state = params.choice("state", &STATES)?.flatten();
    match params.choice("all", &[("1", Whose::All), ("0", Whose::Own)])?.unwrap_or(Whose::Own) {
        Whose::Own => Ok(json(&api.handler.jobs(seen_as(caller, &params)?, state, limit).await)),
        Whose::All => {
            operator(caller)?;
            Ok(json(&api.handler.all_jobs(state, limit).await))
        }
    }
}

/// How one job stands.
pub(super) async fn show(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<CallerIdentity>,
    Path(job): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let params = Params::read(uri.query(), &["tenant"])?;
    Ok(json(&api.handler.job(seen_as(caller, &params)?, job.parse()?).await?))
}

const STREAMS: [(&str, Stream); 2] = [("stdout", Stream::Stdout), ("stderr", Stream::Stderr)];
const USES: [(&str, Use); 2] = [("1", Use::Download), ("0", Use::View)];

/// Bytes of the job that could not be kept and so are not in the answer, where there are such.
const DROPPED_BYTES: HeaderName = HeaderName::from_static("x-shellyard-dropped-bytes");

/// What the client does with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    View,
    Download,
}

#[derive(Debug, Clone, Copy)]
struct Wish {
    job: JobId,
    stream: Option<Stream>,
    purpose: Use,
}

impl Wish {
    fn read(client: &TenantClient, job: &str, params: &Params<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            job: client.job(job.parse()?),
            stream: params.choice("stream", &STREAMS)?,
            purpose: params.choice("download", &USES)?.unwrap_or(Use::View),
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

    /// A name for content that will never change: job, stream, length, and the server that
    /// counted them.
    fn tag(&self, output: &JobOutput, server: u64) -> Option<Tag> {
        let stream = self.stream.map_or("output", Stream::name);
        let tenant = self.job.tenant();
        let job = self.job;
        let name = format!("{server:x}-{tenant}-{job}-{stream}-{}", output.length());
        output.is_complete().then(|| Tag::new(name))
    }
}

/// Sends what a job wrote.
pub(super) async fn output(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<CallerIdentity>,
    Path(job): Path<String>,
    Parts { method, uri, headers, .. }: Parts,
) -> Result<Response, ApiError> {
    let params = Params::read(uri.query(), &["stream", "download", "tenant"])?;
    let client = api.service.tenant_client(seen_as(caller, &params)?, "api");
    let wish = Wish::read(&client, &job, &params)?;
    let output = client.output(wish.job, wish.stream).await?;
    let tag = wish.tag(&output, api.server);
    let plan = plan(&method, &headers, output.length(), tag.as_ref());
    let reply = Reply { api: &api, wish, output, tag };
    match plan {
        Plan::Outside => Err(ApiError::Outside { length: reply.output.length() }),
        Plan::NotModified(coding) => reply.not_modified(coding),
        Plan::Whole(coding) => reply.whole(coding).await,
        Plan::Part(range) => reply.part(range).await,
    }
}

/// An answer in the making.
struct Reply<'a> {
    api: &'a Api,
    wish: Wish,
    output: JobOutput,
    tag: Option<Tag>,
}

impl Reply<'_> {
    fn not_modified(&self, coding: Coding) -> Result<Response, ApiError> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        self.describe(response.headers_mut(), coding)?;
        Ok(response)
    }

    async fn whole(self, coding: Coding) -> Result<Response, ApiError> {
        let length = self.output.length();
        // An encoder takes memory: while too many are at work, bytes go out as they are.
        let permit = match coding {
            Coding::Identity => None,
            Coding::Gzip | Coding::Zstd => Arc::clone(&self.api.encoders).try_acquire_owned().ok(),
        };
        let coding = if permit.is_some() { coding } else { Coding::Identity };
        let (kind, mut sending) = self.open(0..length, coding).await?;
        sending.permit = permit;
        let mut response = Response::new(sending.into_body());
        let headers = response.headers_mut();
        self.describe(headers, coding)?;
        self.describe_content(headers, kind)?;
        match coding {
            Coding::Identity => set(headers, CONTENT_LENGTH, &length.to_string())?,
            Coding::Gzip | Coding::Zstd => set(headers, CONTENT_ENCODING, coding.name())?,
        }
        Ok(response)
    }

    async fn part(self, range: Range<u64>) -> Result<Response, ApiError> {
        let total = self.output.length();
        let length = range.end - range.start;
        let content_range = format!("bytes {}-{}/{total}", range.start, range.end - 1);
        let (kind, sending) = self.open(range, Coding::Identity).await?;
        let mut response = Response::new(sending.into_body());
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let headers = response.headers_mut();
        self.describe(headers, Coding::Identity)?;
        self.describe_content(headers, kind)?;
        set(headers, CONTENT_RANGE, &content_range)?;
        set(headers, CONTENT_LENGTH, &length.to_string())?;
        Ok(response)
    }

    /// What kind of content it is, and the bytes of a range, ready to be read.
    async fn open(
        &self,
        range: Range<u64>,
        coding: Coding,
    ) -> Result<(ContentKind, Sending), ApiError> {
        let job = self.wish.job;
        let output = &self.output;
        let unreadable = |error: &io::Error| events::output_unreadable(job, error);
        let hole = output.first_hole(range.clone()).await.inspect_err(unreadable)?;
        if let Some(hole) = hole {
            return Err(ApiError::NotKept { hole });
        }
        let kind = output.kind().await.inspect_err(unreadable)?;
        let blocks = output.read(range).await.inspect_err(unreadable)?;
        let encoder = Encoder::new(coding)?;
        Ok((kind, Sending { job, blocks, encoder, permit: None }))
    }

    /// What holds for every answer about this output.
    fn describe(&self, headers: &mut HeaderMap, coding: Coding) -> Result<(), ApiError> {
        set(headers, VARY, "accept-encoding")?;
        // A copy may be kept, but it has to be asked for again: jobs go on, and are freed.
        set(headers, CACHE_CONTROL, "private, no-cache")?;
        let dropped = self.output.dropped_bytes();
        if dropped > 0 {
            set(headers, DROPPED_BYTES, &dropped.to_string())?;
        }
        match &self.tag {
            Some(tag) => set(headers, ETAG, &tag.of(coding)),
            None => Ok(()),
        }
    }

    /// What holds for an answer with content. It is written by any program, so that a browser
    /// must not guess what it is, nor run it as a page of ours.
    fn describe_content(&self, headers: &mut HeaderMap, kind: ContentKind) -> Result<(), ApiError> {
        let mime = match kind {
            ContentKind::Text => "text/plain; charset=utf-8",
            ContentKind::Known(mime) => mime,
            ContentKind::Bytes => "application/octet-stream",
        };
        set(headers, CONTENT_TYPE, mime)?;
        set(headers, ACCEPT_RANGES, "bytes")?;
        set(headers, X_CONTENT_TYPE_OPTIONS, "nosniff")?;
        set(headers, CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox")?;
        match self.wish.purpose {
            Use::View => Ok(()),
            Use::Download => {
                let name = self.wish.file_name(kind);
                set(headers, CONTENT_DISPOSITION, &format!("attachment; filename=\"{name}\""))
            }
        }
    }
}

/// None of our values has a character that a header cannot have.
fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) -> Result<(), ApiError> {
    headers.insert(name, HeaderValue::from_str(value).map_err(io::Error::other)?);
    Ok(())
}

/// Bytes on their way to a client.
pub(super) struct Sending {
    pub(super) job: JobId,
    pub(super) blocks: RawReader,
    pub(super) encoder: Encoder,
    /// Held while an encoder is.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

impl Sending {
    /// The body. Nothing is read ahead and no thread is held between two blocks: a slow reader
    /// costs one block, and one that hangs up ends the reading. A read that fails breaks the
    /// connection, so that no client takes a part for the whole.
    pub(super) fn into_body(self) -> Body {
        Body::from_stream(stream::try_unfold(self, next))
    }

    /// Reads and encodes the next bytes to send.
    async fn advance(mut self) -> io::Result<Option<(Bytes, Self)>> {
        while let Some(block) = self.blocks.next_block().await? {
            let (ready, sending) = self.encode(move |encoder| encoder.push(block)).await?;
            self = sending;
            if !ready.is_empty() {
                return Ok(Some((ready.into(), self)));
            }
        }
        let (rest, sending) = self.encode(Encoder::finish).await?;
        Ok((!rest.is_empty()).then_some((rest.into(), sending)))
    }

    /// Uses the encoder, off the runtime where it compresses.
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

async fn next(sending: Sending) -> io::Result<Option<(Bytes, Sending)>> {
    let job = sending.job;
    sending.advance().await.inspect_err(|error| events::output_unreadable(job, error))
}
