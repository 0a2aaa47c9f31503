//! `/jobs` and `/jobs/{id}`: how jobs stand, in the structured form of the tools' replies.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::error::ApiError;
use super::query::Params;
use super::routes::Api;
use crate::mcp::JobState;
use crate::yard::Identity;

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 200;

const STATES: [(&str, Option<JobState>); 5] = [
    ("queued", Some(JobState::Queued)),
    ("running", Some(JobState::Running)),
    ("stopping", Some(JobState::Stopping)),
    ("finished", Some(JobState::Finished)),
    ("all", None),
];

/// The newest jobs, newest first.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Identity>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let params = Params::read(uri.query(), &["limit", "state"])?;
    let limit = params.count("limit", MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT);
    let state = params.choice("state", &STATES)?.flatten();
    Ok(json(&api.handler.jobs(caller, state, limit).await))
}

/// How one job stands.
pub(super) async fn show(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Identity>,
    Path(job): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    Params::read(uri.query(), &[])?;
    Ok(json(&api.handler.job(caller, job.parse()?).await?))
}

fn json(value: &Value) -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (headers, value.to_string()).into_response()
}
