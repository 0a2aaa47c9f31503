//! Requests to the API: the shared state, query parameters, request bodies, errors as JSON, and the
//! access of a caller to jobs: whose they are, what its role permits, and the audit entry if they
//! belong to another tenant.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::operator::{ApiProcess, ServerControl};
use crate::ids::{JobNumberError, TenantError, TenantId};
use crate::mcp::{DigestError, Handler, JobRequestError};
use crate::service::{
    CallerIdentity, CallerRole, FindError, FollowError, ForeignAccess, InputError, JobHandle,
    JobService, StreamError, SubmitError, SubmitRefusal, TenantClient, UnknownLane,
};
use crate::setting_values::FilterError;

/// Checks that the caller may change what concerns all tenants.
pub(super) fn require_operator(caller: CallerIdentity) -> Result<(), ApiError> {
    match caller.role {
        CallerRole::Admin => Ok(()),
        CallerRole::Metrics | CallerRole::Read | CallerRole::Run => Err(ApiError::NotAdmin),
    }
}

/// A request of an operator. Extraction fails for any other caller.
#[derive(Debug)]
pub(in crate::http) struct OperatorRequest<T = EmptyBody> {
    pub(super) caller: CallerIdentity,
    pub(super) body: T,
}

/// The body of a request without arguments.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct EmptyBody {}

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OperatorRequest<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        // The guard identifies the caller of every request that gets here.
        let caller = *request.extensions().get::<CallerIdentity>().ok_or(ApiError::NotAdmin)?;
        require_operator(caller)?;
        // Arguments belong in the body: a query parameter would be silently ignored.
        QueryParams::parse(request.uri().query(), &[])?;
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|error| ApiError::BadBody { why: error.to_string() })?;
        Ok(Self { caller, body: parse_body(&body)? })
    }
}

/// Parses a JSON body; an empty one is the default.
pub(super) fn parse_body<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, ApiError> {
    if body.is_empty() {
        return Ok(T::default());
    }
    // serde would read a list as the fields of the type, in order.
    let fields: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|error| ApiError::BadBody { why: error.to_string() })?;
    serde_json::from_value(fields.into())
        .map_err(|error| ApiError::BadBody { why: error.to_string() })
}

/// Query parameters; each name is known and occurs once.
#[derive(Debug)]
pub(super) struct QueryParams<'a> {
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> QueryParams<'a> {
    /// Parses a query; `known` are the accepted names.
    pub(super) fn parse(query: Option<&'a str>, known: &[&str]) -> Result<Self, ApiError> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !known.contains(&name) {
                return Err(ApiError::bad_query(
                    name,
                    &format!("known parameters: {}", known.join(", ")),
                ));
            }
            if pairs.iter().any(|(given, _)| *given == name) {
                return Err(ApiError::bad_query(name, "give it once"));
            }
            pairs.push((name, value));
        }
        Ok(Self { pairs })
    }

    /// Returns the value of a parameter that must be one of these words.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, ApiError> {
        let Some(given) = self.value(name) else { return Ok(None) };
        let chosen = choices.iter().find(|(word, _)| *word == given);
        chosen.map(|(_, value)| Some(*value)).ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            ApiError::bad_query(name, &format!("it must be one of {}", words.join(", ")))
        })
    }

    /// Returns a parameter that must be an integer from 1 to `most`.
    pub(super) fn count(&self, name: &str, most: usize) -> Result<Option<usize>, ApiError> {
        self.count_from(name, 1, most)
    }

    /// Returns a parameter that must be an integer from `least` to `most`.
    pub(super) fn count_from(
        &self,
        name: &str,
        least: usize,
        most: usize,
    ) -> Result<Option<usize>, ApiError> {
        let Some(given) = self.value(name) else { return Ok(None) };
        let number = given.parse().ok().filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| {
            ApiError::bad_query(name, &format!("it must be a number from {least} to {most}"))
        })
    }

    /// The text of a parameter, if present.
    pub(super) fn value(&self, name: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(given, _)| *given == name).map(|(_, value)| *value)
    }
}

/// The reason why an API request failed.
#[derive(Debug, Error)]
pub(in crate::http) enum ApiError {
    #[error(transparent)]
    BadJob(#[from] JobNumberError),
    #[error("the parameter `{name}` is not valid: {why}")]
    BadQuery { name: String, why: String },
    #[error("{}", describe_find_error(.0))]
    Job(#[from] FindError),
    #[error("{}", describe_stream_error(*.0))]
    Stream(#[from] StreamError),
    #[error(
        "there is nothing here; jobs are at /api/v1/jobs, the output of job 12 at /api/v1/jobs/12/output"
    )]
    NoSuchPath,
    #[error("only {allowed} is possible here")]
    Method { allowed: &'static str },
    #[error("this needs a token with the role admin")]
    NotAdmin,
    #[error("this token may only look at jobs (role read-only); this needs one with the role run")]
    ReadOnly,
    #[error("the body is not valid: {why}")]
    BadBody { why: String },
    #[error(transparent)]
    Submit(SubmitError),
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    Lane(#[from] UnknownLane),
    #[error("not reloaded, the old settings stay in force: {0}")]
    Reload(String),
    #[error("not upgraded, the running server stays: {0}")]
    Upgrade(String),
    #[error("{0}; the old filter stays in force")]
    LogFilter(#[from] FilterError),
    #[error(transparent)]
    Tenant(#[from] TenantError),
    #[error(
        "the range starts after the end of the output, which has {length} bytes; ask for one that starts before byte {length}"
    )]
    Outside { length: u64 },
    #[error(
        "bytes {} to {} of the output were not kept; ask for `Range: bytes=` of those before or after them", .hole.start, .hole.end - 1
    )]
    NotKept { hole: Range<u64> },
    #[error("the output could not be read ({0}); check the disk, then try again")]
    Read(#[from] io::Error),
    #[error("{message}")]
    Busy { code: &'static str, message: String },
}

/// Describes a job that cannot be found. The text of the error itself names a tool of MCP.
fn describe_find_error(error: &FindError) -> String {
    match error {
        FindError::Unknown { id } => {
            format!("there is no job {id}; `GET /api/v1/jobs` lists the jobs there are")
        }
        FindError::Freed { .. } | FindError::Unavailable { .. } => error.to_string(),
    }
}

/// Describes a stream that cannot be read by itself. The text of the error itself names a tool of MCP.
fn describe_stream_error(error: StreamError) -> String {
    let (job, why) = match error {
        StreamError::OnePipe(job) => (job, "it writes stdout and stderr to one pipe"),
        StreamError::Terminal(job) => (job, "it runs in a terminal, which has only one"),
    };
    format!(
        "job {job} has no separate streams: {why}; read its output without `stream`, or submit the command with `\"streams\": \"separate\"` and without a terminal"
    )
}

impl From<DigestError> for ApiError {
    fn from(error: DigestError) -> Self {
        match error {
            DigestError::Find(error) => Self::Job(error),
            DigestError::Busy(error) => {
                Self::Busy { code: error.code(), message: error.to_string() }
            }
            DigestError::Read(error) => Self::Read(error),
        }
    }
}

impl From<FollowError> for ApiError {
    fn from(error: FollowError) -> Self {
        match error {
            FollowError::Stream(error) => Self::Stream(error),
            FollowError::Outside { length } => Self::Outside { length },
            FollowError::Read(error) => Self::Read(error),
        }
    }
}

impl From<JobRequestError> for ApiError {
    fn from(error: JobRequestError) -> Self {
        match error {
            JobRequestError::Fields(why) => Self::BadBody { why },
            JobRequestError::Submit(error) => Self::Submit(error),
        }
    }
}

impl ApiError {
    /// Creates the error for an unusable body; `why` says what would work.
    pub(super) fn bad_body(why: &str) -> Self {
        Self::BadBody { why: why.to_owned() }
    }

    /// Creates the error for an unusable parameter; `why` says what would work.
    pub(super) fn bad_query(name: &str, why: &str) -> Self {
        Self::BadQuery { name: name.chars().take(40).collect(), why: why.to_owned() }
    }

    /// Returns the stable code word of the error.
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::BadJob(_) => "bad_job",
            Self::BadQuery { .. } => "bad_query",
            Self::Job(error) => error.code(),
            Self::Stream(error) => error.code(),
            Self::NoSuchPath => "no_such_path",
            Self::Method { .. } => "method_not_allowed",
            Self::NotAdmin | Self::ReadOnly => "forbidden",
            Self::BadBody { .. } => "bad_body",
            Self::Submit(error) => error.code(),
            Self::Input(error) => error.code(),
            Self::Lane(_) => "unknown_lane",
            Self::Reload(_) => "not_reloaded",
            Self::Upgrade(_) => "not_upgraded",
            Self::LogFilter(error) => error.code(),
            Self::Tenant(_) => "bad_tenant",
            Self::Outside { .. } => "range_not_satisfiable",
            Self::NotKept { .. } => "not_kept",
            Self::Read(_) => "read_failed",
            Self::Busy { code, .. } => code,
        }
    }

    const fn status(&self) -> StatusCode {
        match self {
            Self::BadJob(_)
            | Self::BadQuery { .. }
            | Self::BadBody { .. }
            | Self::Lane(_)
            | Self::LogFilter(_)
            | Self::Tenant(_) => StatusCode::BAD_REQUEST,
            Self::NotAdmin | Self::ReadOnly => StatusCode::FORBIDDEN,
            Self::Reload(_) | Self::Upgrade(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Job(FindError::Unknown { .. }) | Self::Stream(_) | Self::NoSuchPath => {
                StatusCode::NOT_FOUND
            }
            Self::Submit(error) => submit_status(error),
            Self::Input(_) => StatusCode::CONFLICT,
            Self::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::Outside { .. } => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::Job(FindError::Freed { .. }) | Self::NotKept { .. } => StatusCode::GONE,
            Self::Job(FindError::Unavailable { .. }) | Self::Busy { .. } => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Read(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// Returns the status for a job that was not accepted. A refusal by the rules is not 403, which would
/// say that another token may do it.
const fn submit_status(error: &SubmitError) -> StatusCode {
    match error {
        SubmitError::EmptyCommand
        | SubmitError::TooLong { .. }
        | SubmitError::Timeout { .. }
        | SubmitError::EnvName { .. }
        | SubmitError::UnknownLane { .. } => StatusCode::BAD_REQUEST,
        SubmitError::Confinement(_) | SubmitError::Rules(_) => StatusCode::UNPROCESSABLE_ENTITY,
        SubmitError::Refused(refusal) => match refusal {
            SubmitRefusal::QueueFull { .. }
            | SubmitRefusal::TenantLimit { .. }
            | SubmitRefusal::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
            SubmitRefusal::KeyConflict { .. } => StatusCode::CONFLICT,
            SubmitRefusal::Draining | SubmitRefusal::Closed | SubmitRefusal::Interrupted => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        },
    }
}

/// The role that a refused caller lacks, as an extension of the response.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct MissingRole(pub(in crate::http) CallerRole);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = json!({"error": {"code": self.code(), "message": self.to_string()}});
        let kind = [(CONTENT_TYPE, "application/json")];
        let mut response = (self.status(), kind, body.to_string()).into_response();
        let headers = response.headers_mut();
        match self {
            Self::Method { allowed } => {
                headers.insert(ALLOW, HeaderValue::from_static(allowed));
            }
            Self::Outside { length } => {
                let total = HeaderValue::try_from(format!("bytes */{length}"));
                headers.extend(total.ok().map(|total| (CONTENT_RANGE, total)));
            }
            Self::Submit(error) => {
                let wait = error.retry_after().map(|wait| wait.as_secs().max(1));
                headers.extend(wait.map(|wait| (RETRY_AFTER, wait.into())));
            }
            Self::NotAdmin => {
                response.extensions_mut().insert(MissingRole(CallerRole::Admin));
            }
            Self::ReadOnly => {
                response.extensions_mut().insert(MissingRole(CallerRole::Run));
            }
            Self::BadJob(_)
            | Self::BadQuery { .. }
            | Self::Input(_)
            | Self::Job(_)
            | Self::Stream(_)
            | Self::NoSuchPath
            | Self::BadBody { .. }
            | Self::Lane(_)
            | Self::Reload(_)
            | Self::Upgrade(_)
            | Self::LogFilter(_)
            | Self::Tenant(_)
            | Self::NotKept { .. }
            | Self::Read(_)
            | Self::Busy { .. } => {}
        }
        response
    }
}

/// The limit for responses that are compressed at a time: each encoder takes a megabyte or more.
const MAX_ENCODERS: usize = 16;

/// The shared state of the API.
#[derive(Debug)]
pub(in crate::http) struct ApiState {
    pub(super) service: JobService,
    pub(super) handler: Handler,
    pub(super) control: ServerControl,
    pub(super) process: ApiProcess,
    /// Cancelled when open responses must end, because the server does.
    pub(super) streams: CancellationToken,
    /// A random number that tells the content of this server's jobs from that of another server
    /// with the same job numbers.
    pub(super) server: u64,
    pub(super) encoders: Arc<Semaphore>,
}

impl ApiState {
    /// Creates the state of the API; `handler` renders its jobs.
    pub(in crate::http) fn new(
        service: JobService,
        handler: Handler,
        control: ServerControl,
        process: ApiProcess,
        streams: CancellationToken,
    ) -> Self {
        // Without randomness the tags of all servers are alike: worse for caches, still correct for
        // ranges.
        let server = getrandom::u64().unwrap_or_default();
        let encoders = Arc::new(Semaphore::new(MAX_ENCODERS));
        Self { service, handler, control, process, streams, server, encoders }
    }
}

/// Creates a JSON response that must not be cached.
pub(super) fn json_response(value: &Value) -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (headers, value.to_string()).into_response()
}

/// The name under which a request that names no program submits jobs.
pub(super) const DEFAULT_CLIENT: &str = "api";

/// The jobs that one request is about: those of one tenant.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobAccess {
    /// The sender of the request.
    pub(super) caller: CallerIdentity,
    /// The sender in the place of the tenant whose jobs these are.
    pub(super) identity: CallerIdentity,
}

impl JobAccess {
    /// Returns the access of a caller: to its own tenant or, for an operator, to the tenant in the
    /// query.
    pub(super) fn new(caller: CallerIdentity, params: &QueryParams<'_>) -> Result<Self, ApiError> {
        let identity = match params.value("tenant") {
            None => caller,
            Some(name) => {
                require_operator(caller)?;
                CallerIdentity { tenant: TenantId::parse(name)?, ..caller }
            }
        };
        Ok(Self { caller, identity })
    }

    /// Returns the access of a caller that changes a job. The tenant is the only parameter of such a
    /// request.
    pub(super) fn to_change(caller: CallerIdentity, uri: &Uri) -> Result<Self, ApiError> {
        let params = QueryParams::parse(uri.query(), &["tenant"])?;
        require_run_role(caller)?;
        Self::new(caller, &params)
    }

    pub(super) fn client(&self, api: &ApiState) -> TenantClient {
        api.service.tenant_client(self.identity, DEFAULT_CLIENT)
    }

    /// `true` if the jobs are those of another tenant than the caller's.
    pub(super) fn is_foreign(&self) -> bool {
        self.caller.tenant != self.identity.tenant
    }

    /// Finds a job, and records what is done with it if it is another tenant's.
    pub(super) async fn find(
        &self,
        api: &ApiState,
        job: &str,
        access: ForeignAccess,
    ) -> Result<JobHandle, ApiError> {
        let client = self.client(api);
        let job = client.find(client.job_id(job.parse()?)).await?;
        if self.is_foreign() {
            api.service.record_foreign_access(access, job.id(), self.caller);
        }
        Ok(job)
    }
}

/// Checks that the caller may run, stop and type.
pub(super) fn require_run_role(caller: CallerIdentity) -> Result<(), ApiError> {
    if caller.role >= CallerRole::Run { Ok(()) } else { Err(ApiError::ReadOnly) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [(&str, u8); 2] = [("one", 1), ("two", 2)];

    #[test]
    fn known_parameters_are_read() {
        let params =
            QueryParams::parse(Some("word=two&count=7"), &["word", "count", "more"]).unwrap();
        assert_eq!(params.choice("word", &WORDS).unwrap(), Some(2));
        assert_eq!(params.count("count", 10).unwrap(), Some(7));
        assert_eq!(params.count("more", 10).unwrap(), None);
        assert!(QueryParams::parse(None, &[]).is_ok() && QueryParams::parse(Some(""), &[]).is_ok());
    }

    #[test]
    fn an_unusable_parameter_is_refused_by_name() {
        for query in ["wrod=two", "word=two&word=one", "word"] {
            let read = QueryParams::parse(Some(query), &["word", "count"]);
            let error = read.and_then(|params| params.choice("word", &WORDS)).unwrap_err();
            assert_eq!(error.code(), "bad_query", "{query}");
        }
        for count in ["0", "11", "-1", "x", ""] {
            let query = format!("count={count}");
            let params = QueryParams::parse(Some(&query), &["count"]).unwrap();
            assert!(params.count("count", 10).is_err(), "{count}");
        }
    }
}
