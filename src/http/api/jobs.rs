//! `/jobs` and `/jobs/{id}`: how jobs stand, in the structured form of the tools' replies.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::error::ApiError;
use super::order::operator;
use super::query::Params;
use super::routes::Api;
use crate::ids::Tenant;
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

/// Whose jobs are asked for.
#[derive(Debug, Clone, Copy)]
enum Whose {
    Own,
    All,
}

/// Whose jobs a caller sees: its own tenant's, or, for an operator, those of the one it names.
pub(super) fn seen_as(caller: Identity, params: &Params<'_>) -> Result<Identity, ApiError> {
    match params.value("tenant") {
        None => Ok(caller),
        Some(name) => {
            operator(caller)?;
            Ok(Identity { tenant: Tenant::named(name)?, ..caller })
        }
    }
}

/// The newest jobs, newest first: the caller's own, or all for an operator.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Identity>,
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
    Extension(caller): Extension<Identity>,
    Path(job): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    let params = Params::read(uri.query(), &["tenant"])?;
    Ok(json(&api.handler.job(seen_as(caller, &params)?, job.parse()?).await?))
}

pub(super) fn json(value: &Value) -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (headers, value.to_string()).into_response()
}
