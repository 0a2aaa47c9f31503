//! `/jobs` and the routes below it except for the output itself: requests that show jobs in the
//! structured form of the tools' replies, submit them, stop them, and type into them.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::header::{LOCATION, USER_AGENT};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::request::{
    ApiError, ApiState, DEFAULT_CLIENT, JobAccess, QueryParams, json_response, parse_body,
    require_operator, require_run_role,
};
use crate::mcp::{JobDetail, JobFilter, JobState};
use crate::outcome::{StopBy, parse_signal};
use crate::service::{
    CallerIdentity, ForeignAccess, JobHandle, JobInput, JobPhase, StdinEnd, StopRequest,
    TerminalSize,
};
use crate::spec::JobClient;

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 200;

/// The longest wait for the end of a job, in seconds.
const MAX_WAIT_S: usize = 60;

const STATE_VALUES: [(&str, Option<JobState>); 5] = [
    ("queued", Some(JobState::Queued)),
    ("running", Some(JobState::Running)),
    ("stopping", Some(JobState::Stopping)),
    ("finished", Some(JobState::Finished)),
    ("all", None),
];

/// The jobs that a list request covers.
#[derive(Debug, Clone, Copy)]
enum JobScope {
    Own,
    All,
}

/// The parameters of the list.
pub(super) const LIST_PARAMS: [&str; 5] = ["all", "job", "limit", "state", "tenant"];

/// The parameters of a single job.
pub(super) const SHOW_PARAMS: [&str; 2] = ["tenant", "wait_s"];

/// Lists jobs, newest first: the caller's own, or all for an operator.
pub(in crate::http) async fn list_jobs(
    State(api): State<Arc<ApiState>>,
    Extension(caller): Extension<CallerIdentity>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let params = QueryParams::parse(uri.query(), &LIST_PARAMS)?;
    let filter = JobFilter {
        state: params.choice("state", &STATE_VALUES)?.flatten(),
        number: params.value("job").map(str::parse).transpose()?,
        limit: params.count("limit", MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT),
    };
    match read_scope(&params)? {
        JobScope::Own => {
            let access = JobAccess::new(caller, &params)?;
            if access.is_foreign() {
                api.service.record_foreign_list(Some(access.identity.tenant), caller);
            }
            Ok(json_response(&api.handler.list_jobs(access.identity, filter).await))
        }
        JobScope::All => {
            require_operator(caller)?;
            api.service.record_foreign_list(None, caller);
            Ok(json_response(&api.handler.list_all_jobs(filter).await))
        }
    }
}

/// Reads whose jobs are listed. Those of one tenant and of all cannot be asked for together.
fn read_scope(params: &QueryParams<'_>) -> Result<JobScope, ApiError> {
    let scopes = [("1", JobScope::All), ("0", JobScope::Own)];
    let scope = params.choice("all", &scopes)?.unwrap_or(JobScope::Own);
    match (scope, params.value("tenant")) {
        (JobScope::All, Some(_)) => {
            Err(ApiError::bad_query("tenant", "give `all=1` or `tenant`, not both"))
        }
        (JobScope::All, None) | (JobScope::Own, _) => Ok(scope),
    }
}

/// Answers with the state of one job, at once or when it has finished.
pub(in crate::http) async fn show_job(
    State(api): State<Arc<ApiState>>,
    Extension(caller): Extension<CallerIdentity>,
    Path(job): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let params = QueryParams::parse(uri.query(), &SHOW_PARAMS)?;
    let wait = params.count_from("wait_s", 0, MAX_WAIT_S)?.unwrap_or(0);
    let access = JobAccess::new(caller, &params)?;
    let job = access.find(&api, &job, ForeignAccess::ReadState).await?;
    wait_for_end(&api, &job, Duration::from_secs(wait as u64)).await;
    let state = api.handler.describe_job(access.identity, &job, JobDetail::WithProcesses).await;
    Ok(json_response(&state))
}

/// Waits until the job has finished, the time is over, or another server takes over.
async fn wait_for_end(api: &ApiState, job: &JobHandle, time: Duration) {
    let ended = async {
        tokio::select! {
            _ = job.finished() => {}
            () = api.streams.cancelled() => {}
        }
    };
    // The state of the job says whether it has ended.
    timeout(time, ended).await.ok();
}

/// Answers with the facts of one job's output.
pub(in crate::http) async fn job_digest(
    State(api): State<Arc<ApiState>>,
    Extension(caller): Extension<CallerIdentity>,
    Path(job): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let params = QueryParams::parse(uri.query(), &["tenant"])?;
    let access = JobAccess::new(caller, &params)?;
    let job = access.find(&api, &job, ForeignAccess::ReadDigest).await?;
    Ok(json_response(&api.handler.digest_job(access.identity, &job).await?))
}

/// The wait until a job that is told to stop says so.
const STOP_WAIT: Duration = Duration::from_secs(1);

/// The longest time from a signal to SIGKILL, in seconds.
const MAX_GRACE_S: f64 = 86_400.0;

/// Submits a job. The response comes once it is accepted.
pub(in crate::http) async fn submit_job(
    State(api): State<Arc<ApiState>>,
    Extension(caller): Extension<CallerIdentity>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    QueryParams::parse(uri.query(), &[])?;
    require_run_role(caller)?;
    let fields: Map<String, Value> = parse_body(&body)?;
    let job = api.handler.submit_job(caller, &client_from_headers(&headers), fields).await?;
    let state = api.handler.describe_job(caller, &job, JobDetail::Summary).await;
    let mut response = json_response(&state);
    *response.status_mut() = StatusCode::ACCEPTED;
    let location = HeaderValue::try_from(format!("/api/v1/jobs/{}", job.id()));
    response.headers_mut().extend(location.ok().map(|path| (LOCATION, path)));
    Ok(response)
}

/// Returns the calling program by the first product of its `User-Agent`, such as `curl/8.5.0`.
fn client_from_headers(headers: &HeaderMap) -> JobClient {
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let product = agent.split_ascii_whitespace().next().unwrap_or(DEFAULT_CLIENT);
    let (name, version) = match product.split_once('/') {
        Some((name, version)) => (name, Some(version.to_owned())),
        None => (product, None),
    };
    let name = if name.is_empty() { DEFAULT_CLIENT } else { name };
    JobClient { name: name.to_owned(), version, directory: None }
}

/// The body of a request to stop a job.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StopArgs {
    /// The first signal: its number, or its name with or without `SIG`; SIGTERM by default.
    #[serde(default)]
    signal: Option<SignalArg>,
    /// The time from that signal to SIGKILL.
    #[serde(default)]
    grace_s: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum SignalArg {
    Number(i32),
    Name(String),
}

impl StopArgs {
    fn to_request(&self, by: StopBy) -> Result<StopRequest, ApiError> {
        let signal = match &self.signal {
            None => None,
            Some(SignalArg::Number(number)) => Some(number.to_string()),
            Some(SignalArg::Name(name)) => Some(name.clone()),
        };
        let bad_signal =
            || ApiError::bad_body("`signal` must be a signal such as \"SIGINT\", \"TERM\" or 9");
        let signal = signal.map(|text| parse_signal(&text).ok_or_else(bad_signal)).transpose()?;
        let bad_grace =
            || ApiError::bad_body("`grace_s` must be a number of seconds from 0 to 86400");
        let grace = self.grace_s.map(|seconds| {
            let allowed = Some(seconds).filter(|seconds| (0.0..=MAX_GRACE_S).contains(seconds));
            allowed.map(Duration::from_secs_f64).ok_or_else(bad_grace)
        });
        Ok(StopRequest { by, signal, grace: grace.transpose()? })
    }
}

/// Begins to stop a job, and answers with its state then.
pub(in crate::http) async fn stop_job(
    State(api): State<Arc<ApiState>>,
    Extension(caller): Extension<CallerIdentity>,
    Path(job): Path<String>,
    uri: Uri,
    body: Bytes,
) -> Result<Response, ApiError> {
    let access = JobAccess::to_change(caller, &uri)?;
    let args: StopArgs = parse_body(&body)?;
    let by = if access.is_foreign() { StopBy::Operator } else { StopBy::Client };
    let request = args.to_request(by)?;
    let job = access.find(&api, &job, ForeignAccess::Stop).await?;
    let job = access.client(&api).stop(job.id(), request).await?;
    wait_until_stopping(&job).await;
    Ok(json_response(&api.handler.describe_job(access.identity, &job, JobDetail::Summary).await))
}

/// Waits until the job's status shows that it is being stopped.
async fn wait_until_stopping(job: &JobHandle) {
    let mut status = job.watch_status();
    let is_stopping = status
        .wait_for(|status| matches!(status.phase, JobPhase::Stopping | JobPhase::Finished(_)));
    // The response shows the state, whatever it is.
    timeout(STOP_WAIT, is_stopping).await.ok();
}

/// The body of a request to type into a job.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InputArgs {
    #[serde(default)]
    text: Option<String>,
    /// Bytes that are not text.
    #[serde(default)]
    base64: Option<String>,
    /// `true` if the job reads the end of its input after these bytes.
    #[serde(default)]
    end: bool,
}

impl InputArgs {
    fn into_input(self) -> Result<JobInput, ApiError> {
        let bytes = match (self.text, self.base64) {
            (Some(_), Some(_)) => {
                return Err(ApiError::bad_body("give `text` or `base64`, and not both"));
            }
            (Some(text), None) => text.into_bytes(),
            (None, Some(encoded)) => STANDARD
                .decode(encoded)
                .map_err(|_| ApiError::bad_body("`base64` must be base64 with its padding"))?,
            (None, None) if self.end => Vec::new(),
            (None, None) => {
                return Err(ApiError::bad_body(
                    "there is nothing to send: give `text`, `base64` or `end`",
                ));
            }
        };
        let end = if self.end { StdinEnd::Close } else { StdinEnd::KeepOpen };
        Ok(JobInput { bytes, key: None, end })
    }
}

/// Types into a job. The response comes once the input is queued for it.
pub(in crate::http) async fn send_input(
    State(api): State<Arc<ApiState>>,
    Extension(caller): Extension<CallerIdentity>,
    Path(job): Path<String>,
    uri: Uri,
    body: Bytes,
) -> Result<Response, ApiError> {
    let access = JobAccess::to_change(caller, &uri)?;
    let input = parse_body::<InputArgs>(&body)?.into_input()?;
    let bytes = input.bytes.len();
    let job = access.find(&api, &job, ForeignAccess::Input { bytes }).await?;
    job.send_input(input).await?;
    Ok(json_response(&json!({"accepted_bytes": bytes})))
}

/// The body of a request to change the size of a terminal.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResizeArgs {
    #[serde(default)]
    rows: Option<u16>,
    #[serde(default)]
    columns: Option<u16>,
}

impl ResizeArgs {
    fn to_size(&self) -> Result<TerminalSize, ApiError> {
        let is_size = |size: &u16| (1..=TerminalSize::MAX).contains(size);
        match (self.rows.filter(is_size), self.columns.filter(is_size)) {
            (Some(rows), Some(columns)) => Ok(TerminalSize { rows, columns }),
            (_, _) => {
                Err(ApiError::bad_body("`rows` and `columns` must be numbers from 1 to 10000"))
            }
        }
    }
}

/// Changes the size of a job's terminal.
pub(in crate::http) async fn resize_terminal(
    State(api): State<Arc<ApiState>>,
    Extension(caller): Extension<CallerIdentity>,
    Path(job): Path<String>,
    uri: Uri,
    body: Bytes,
) -> Result<Response, ApiError> {
    let access = JobAccess::to_change(caller, &uri)?;
    let size = parse_body::<ResizeArgs>(&body)?.to_size()?;
    let job = access.find(&api, &job, ForeignAccess::Resize).await?;
    job.resize_terminal(size).await?;
    Ok(json_response(&json!({"rows": size.rows, "columns": size.columns})))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(body: &str) -> Result<StopRequest, ApiError> {
        parse_body::<StopArgs>(body.as_bytes())?.to_request(StopBy::Client)
    }

    #[test]
    fn a_stop_takes_a_signal_and_a_grace_period() {
        let plain = StopRequest { by: StopBy::Client, signal: None, grace: None };
        assert_eq!(stop("").unwrap(), plain);
        assert_eq!(stop("{}").unwrap(), plain);
        for signal in ["\"SIGINT\"", "\"int\"", "2", "\"2\""] {
            let request = stop(&format!("{{\"signal\": {signal}, \"grace_s\": 0.5}}")).unwrap();
            let grace = Some(Duration::from_millis(500));
            assert_eq!(request, StopRequest { signal: Some(2), grace, ..plain }, "{signal}");
        }
        for bad in [
            r#"{"signal": "SIGWHAT"}"#,
            r#"{"signal": 99}"#,
            r#"{"signal": []}"#,
            r#"{"grace_s": -1}"#,
            r#"{"grace_s": 1e9}"#,
            r#"{"grace": 1}"#,
            "[]",
        ] {
            assert_eq!(stop(bad).unwrap_err().code(), "bad_body", "{bad}");
        }
    }

    #[test]
    fn input_is_text_or_bytes_or_the_end() {
        let read = |body: &str| parse_body::<InputArgs>(body.as_bytes())?.into_input();
        assert_eq!(read(r#"{"text": "y\n"}"#).unwrap().bytes, b"y\n");
        let all = read(r#"{"base64": "/wo=", "end": true}"#).unwrap();
        assert_eq!((&all.bytes[..], all.end), (&b"\xff\n"[..], StdinEnd::Close));
        assert_eq!(read(r#"{"end": true}"#).unwrap().end, StdinEnd::Close);
        for bad in
            ["", "{}", r#"{"end": false}"#, r#"{"text": "a", "base64": ""}"#, r#"{"base64": "?"}"#]
        {
            assert_eq!(read(bad).unwrap_err().code(), "bad_body", "{bad}");
        }
    }

    #[test]
    fn the_user_agent_names_the_client() {
        let client = |agent: &'static str| {
            let headers = HeaderMap::from_iter([(USER_AGENT, HeaderValue::from_static(agent))]);
            let JobClient { name, version, .. } = client_from_headers(&headers);
            (name, version)
        };
        let named =
            |name: &str, version: Option<&str>| (name.to_owned(), version.map(str::to_owned));
        assert_eq!(client("curl/8.5.0 (x)"), named("curl", Some("8.5.0")));
        assert_eq!(client("mine"), named("mine", None));
        assert_eq!(client(""), named("api", None));
        assert_eq!(client("/1"), named("api", Some("1")));
    }
}
