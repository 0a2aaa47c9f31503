//! Requests to the API: shared state, parameters, bodies of operators, and errors as JSON.

use std::ops::Range;
use std::sync::Arc;
use std::{fmt, io};

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_RANGE, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use thiserror::Error;
use tokio::sync::{Semaphore, watch};

use crate::filter::FilterError;
use crate::ids::{JobNumberError, TenantError};
use crate::mcp::Handler;
use crate::service::{AfterDrain, CallerIdentity, CallerRole, FindError, JobService, UnknownLane};
use crate::telemetry::LogFilter;

/// Whoever may change what concerns all tenants.
pub(super) fn require_operator(caller: CallerIdentity) -> Result<(), ApiError> {
    match caller.role {
        CallerRole::Admin => Ok(()),
        CallerRole::Read | CallerRole::Run => Err(ApiError::NotAdmin),
    }
}

/// An operator's request. Nobody else's becomes one.
#[derive(Debug)]
pub(super) struct OperatorRequest<T = EmptyBody> {
    /// The operator.
    pub(super) caller: CallerIdentity,
    /// What stands in the body.
    pub(super) body: T,
}

/// A body in which there is nothing to say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EmptyBody {}

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OperatorRequest<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        // The gate names the caller of every request that comes so far.
        let caller = *request.extensions().get::<CallerIdentity>().ok_or(ApiError::NotAdmin)?;
        require_operator(caller)?;
        // What is meant stands in the body: a wish in the address would be overlooked.
        QueryParams::parse(request.uri().query(), &[])?;
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|error| ApiError::BadBody { why: error.to_string() })?;
        Ok(Self { caller, body: parse_body(&body)? })
    }
}

/// The JSON of a body; an empty one says nothing.
fn parse_body<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, ApiError> {
    if body.is_empty() {
        return Ok(T::default());
    }
    // A list would be read as the fields of the type, in order.
    let fields: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|error| ApiError::BadBody { why: error.to_string() })?;
    serde_json::from_value(fields.into())
        .map_err(|error| ApiError::BadBody { why: error.to_string() })
}

/// `name=value` pairs, each name known and given once.
#[derive(Debug)]
pub(super) struct QueryParams<'a> {
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> QueryParams<'a> {
    /// Reads a query of which `known` are the names.
    pub(super) fn parse(query: Option<&'a str>, known: &[&str]) -> Result<Self, ApiError> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !known.contains(&name) {
                return Err(ApiError::bad_query(name, &format!("known are {}", known.join(", "))));
            }
            if pairs.iter().any(|(given, _)| *given == name) {
                return Err(ApiError::bad_query(name, "give it once"));
            }
            pairs.push((name, value));
        }
        Ok(Self { pairs })
    }

    /// One of these words.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, ApiError> {
        let Some(given) = self.value(name) else { return Ok(None) };
        let chosen = choices.iter().find(|(word, _)| *word == given);
        chosen.map(|(_, value)| Some(*value)).ok_or_else(|| {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            ApiError::bad_query(name, &format!("it is one of {}", words.join(", ")))
        })
    }

    /// A whole number from 1 to `most`.
    pub(super) fn count(&self, name: &str, most: usize) -> Result<Option<usize>, ApiError> {
        let Some(given) = self.value(name) else { return Ok(None) };
        let number = given.parse().ok().filter(|number| (1..=most).contains(number));
        number
            .map(Some)
            .ok_or_else(|| ApiError::bad_query(name, &format!("it is a number from 1 to {most}")))
    }

    /// The text of a parameter, where it was given.
    pub(super) fn value(&self, name: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(given, _)| *given == name).map(|(_, value)| *value)
    }
}

/// Why a request was not answered.
#[derive(Debug, Error)]
pub(in crate::http) enum ApiError {
    #[error(transparent)]
    BadJob(#[from] JobNumberError),
    #[error("the parameter `{name}` does not fit: {why}")]
    BadQuery { name: String, why: String },
    #[error(transparent)]
    Job(#[from] FindError),
    #[error(
        "there is nothing here; jobs are at /api/v1/jobs, what one wrote at /api/v1/jobs/12/output"
    )]
    NoSuchPath,
    #[error("only {allowed} is possible here")]
    Method { allowed: &'static str },
    #[error("this takes a token with the role admin")]
    NotAdmin,
    #[error("the body does not fit: {why}")]
    BadBody { why: String },
    #[error(transparent)]
    Lane(#[from] UnknownLane),
    #[error("not reloaded, the old settings hold: {0}")]
    Reload(String),
    #[error("{0}; the old filter holds")]
    LogFilter(#[from] FilterError),
    #[error(transparent)]
    Tenant(#[from] TenantError),
    #[error(
        "the range is outside of the {length} bytes that there are; ask for one that starts before them"
    )]
    Outside { length: u64 },
    #[error(
        "bytes {} to {} of the output were not kept; ask for `Range: bytes=` of those before or after them", .hole.start, .hole.end - 1
    )]
    NotKept { hole: Range<u64> },
    #[error("the output could not be read ({0}); it is still there if the disk is: try again")]
    Read(#[from] io::Error),
}

impl ApiError {
    /// A parameter that cannot be meant, and what would work.
    pub(super) fn bad_query(name: &str, why: &str) -> Self {
        Self::BadQuery { name: name.chars().take(40).collect(), why: why.to_owned() }
    }

    /// The stable word that clients may match on.
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::BadJob(_) => "bad_job",
            Self::BadQuery { .. } => "bad_query",
            Self::Job(error) => error.code(),
            Self::NoSuchPath => "no_such_path",
            Self::Method { .. } => "method_not_allowed",
            Self::NotAdmin => "forbidden",
            Self::BadBody { .. } => "bad_body",
            Self::Lane(_) => "unknown_lane",
            Self::Reload(_) => "not_reloaded",
            Self::LogFilter(error) => error.code(),
            Self::Tenant(_) => "bad_tenant",
            Self::Outside { .. } => "range_not_satisfiable",
            Self::NotKept { .. } => "not_kept",
            Self::Read(_) => "read_failed",
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
            Self::NotAdmin => StatusCode::FORBIDDEN,
            Self::Reload(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Job(FindError::Unknown { .. }) | Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::Outside { .. } => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::Job(FindError::Freed { .. }) | Self::NotKept { .. } => StatusCode::GONE,
            Self::Job(FindError::Unavailable { .. }) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Read(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

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
            Self::BadJob(_)
            | Self::BadQuery { .. }
            | Self::Job(_)
            | Self::NoSuchPath
            | Self::NotAdmin
            | Self::BadBody { .. }
            | Self::Lane(_)
            | Self::Reload(_)
            | Self::LogFilter(_)
            | Self::Tenant(_)
            | Self::NotKept { .. }
            | Self::Read(_) => {}
        }
        response
    }
}

/// Answers that are compressed at one time: each encoder takes a megabyte or more.
const MAX_ENCODERS: usize = 16;

/// What the API answers from.
#[derive(Debug)]
pub(in crate::http) struct ApiState {
    pub(super) service: JobService,
    pub(super) handler: Handler,
    pub(super) control: ServerControl,
    /// Sets the content of this server's jobs apart from that of another's with the same number.
    pub(super) server: u64,
    pub(super) encoders: Arc<Semaphore>,
}

impl ApiState {
    /// The API of one yard; `handler` writes its jobs down.
    pub(in crate::http) fn new(
        service: JobService,
        handler: Handler,
        control: ServerControl,
    ) -> Self {
        // Without randomness tags are those of any server: worse for caches, right for ranges.
        let server = getrandom::u64().unwrap_or_default();
        let encoders = Arc::new(Semaphore::new(MAX_ENCODERS));
        Self { service, handler, control, server, encoders }
    }
}

/// Settings that changed: those that hold from now on, and those that take a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReloadedSettings {
    /// Keys whose new values hold.
    pub live: Vec<String>,
    /// Keys whose new values take a restart.
    pub restart: Vec<String>,
}

type ReloadFn =
    dyn Fn(CallerIdentity) -> BoxFuture<'static, Result<ReloadedSettings, String>> + Send + Sync;

/// What an operator can ask of the server as a whole. A cheap clone.
#[derive(Clone)]
pub struct ServerControl {
    reload: Arc<ReloadFn>,
    after_drain: watch::Sender<AfterDrain>,
    log: LogFilter,
}

impl ServerControl {
    /// `reload` reads the settings again, and says what came of it; `after_drain` is told
    /// what becomes of the server once it has drained; `log` is which log lines are written.
    #[must_use]
    pub fn new(
        reload: impl Fn(CallerIdentity) -> BoxFuture<'static, Result<ReloadedSettings, String>>
        + Send
        + Sync
        + 'static,
        after_drain: watch::Sender<AfterDrain>,
        log: LogFilter,
    ) -> Self {
        Self { reload: Arc::new(reload), after_drain, log }
    }

    pub(super) async fn reload(&self, caller: CallerIdentity) -> Result<ReloadedSettings, String> {
        (self.reload)(caller).await
    }

    pub(super) const fn log(&self) -> &LogFilter {
        &self.log
    }

    pub(super) fn set_after_drain(&self, body: AfterDrain) {
        self.after_drain.send_replace(body);
    }
}

impl fmt::Debug for ServerControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operations").finish_non_exhaustive()
    }
}

/// An answer that nobody keeps a copy of.
pub(super) fn json_response(value: &Value) -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (headers, value.to_string()).into_response()
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
    fn what_cannot_be_meant_is_refused_by_name() {
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
