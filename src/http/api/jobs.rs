//! `/jobs`, `/jobs/{id}` and `/jobs/{id}/digest`: the state of jobs and the facts of their output in
//! the structured form of the tools' replies.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use tokio::time::timeout;

use super::access::JobAccess;
use super::request::{ApiError, ApiState, QueryParams, json_response, require_operator};
use crate::mcp::{JobDetail, JobFilter, JobState};
use crate::service::{CallerIdentity, ForeignAccess, JobHandle};

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
