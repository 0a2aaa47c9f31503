//! `/queue`, `/drain`, `/reload`: what an operator sees and changes while the server runs.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::error::ApiError;
use super::jobs::json as answer;
use super::query::Params;
use super::routes::Api;
use crate::yard::{AfterDrain, Identity, QueueOverview, Role};

/// Whoever may change what concerns all tenants.
pub(super) fn operator(caller: Identity) -> Result<(), ApiError> {
    match caller.role {
        Role::Admin => Ok(()),
        Role::Read | Role::Run => Err(ApiError::NotAdmin),
    }
}

/// Which part of the queue is meant.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    /// One lane; all of them where none is named.
    #[serde(default)]
    lane: Option<String>,
}

/// How the server shall drain.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Draining {
    /// Takes new jobs again.
    #[serde(default)]
    undo: bool,
    /// Ends the server once nothing waits or runs.
    #[serde(default)]
    exit: bool,
}

/// How full the queue is, by lane and by tenant, and what holds it back.
pub(super) async fn queue(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Identity>,
) -> Result<Response, ApiError> {
    operator(caller)?;
    Ok(answer(&shown(&api.yard.queue_overview().await)))
}

/// Nothing starts any more, in one lane or at all.
pub(super) async fn pause(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Identity>,
    uri: Uri,
    body: Bytes,
) -> Result<Response, ApiError> {
    operator(caller)?;
    // What is meant stands in the body: a lane in the address would be overlooked.
    Params::read(uri.query(), &[])?;
    api.yard.pause(read::<Which>(&body)?.lane, caller).await?;
    Ok(answer(&shown(&api.yard.queue_overview().await)))
}

/// Jobs start again, in one lane or at all.
pub(super) async fn resume(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Identity>,
    uri: Uri,
    body: Bytes,
) -> Result<Response, ApiError> {
    operator(caller)?;
    // What is meant stands in the body: a lane in the address would be overlooked.
    Params::read(uri.query(), &[])?;
    api.yard.resume(read::<Which>(&body)?.lane, caller).await?;
    Ok(answer(&shown(&api.yard.queue_overview().await)))
}

/// No new job is taken; those that are accepted go on.
pub(super) async fn drain(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Identity>,
    uri: Uri,
    body: Bytes,
) -> Result<Response, ApiError> {
    operator(caller)?;
    // What is meant stands in the body: a lane in the address would be overlooked.
    Params::read(uri.query(), &[])?;
    let wish: Draining = read(&body)?;
    match (wish.undo, wish.exit) {
        (true, true) => {
            let why = "`undo` and `exit` contradict each other".to_owned();
            return Err(ApiError::BadBody { why });
        }
        (true, false) => {
            // A later drain must not end a server that was asked to stay.
            api.operations.wish_after_drain(AfterDrain::Stay);
            api.yard.end_drain(caller).await;
        }
        (false, true) => {
            api.yard.begin_drain(AfterDrain::Exit, caller).await;
            api.operations.wish_after_drain(AfterDrain::Exit);
        }
        (false, false) => api.yard.begin_drain(AfterDrain::Stay, caller).await,
    }
    Ok(answer(&shown(&api.yard.queue_overview().await)))
}

/// Reads the configuration again.
pub(super) async fn reload(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Identity>,
) -> Result<Response, ApiError> {
    operator(caller)?;
    let changes = api.operations.reload(caller).await.map_err(ApiError::Reload)?;
    Ok(answer(&json!({"applied": changes.live, "needs_restart": changes.restart})))
}

/// The JSON of a body; an empty one says nothing.
pub(super) fn read<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, ApiError> {
    if body.is_empty() {
        return Ok(T::default());
    }
    // A list would be read as the fields of the type, in order.
    let fields: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|error| ApiError::BadBody { why: error.to_string() })?;
    serde_json::from_value(fields.into())
        .map_err(|error| ApiError::BadBody { why: error.to_string() })
}

/// The overview as JSON. What has no bound has no limit.
fn shown(queue: &QueueOverview) -> Value {
    let lanes = queue.lanes.iter().map(|(name, lane)| {
        let shown = without_nulls(json!({
            "running": lane.running,
            "slots": lane.limits.slots,
            "queued": lane.queued,
            "max_queued": lane.limits.max_queued,
            "paused": lane.paused,
        }));
        (name.clone(), shown)
    });
    let tenants = queue.tenants.iter().map(|(tenant, own)| {
        let limits = own.limits;
        let shown = without_nulls(json!({
            "weight": limits.weight,
            "running": own.running,
            "max_running": limits.max_running,
            "queued": own.queued,
            "max_queued": limits.max_queued,
            "starts_per_minute": limits.starts_per_minute,
            "stored_bytes": own.stored_bytes,
            "max_stored": own.max_stored,
            "cpu_s": own.cpu_used.as_secs(),
            "cpu_s_per_hour": limits.cpu_per_hour.map(|time| time.as_secs()),
        }));
        (tenant.name().to_owned(), shown)
    });
    let waiting =
        queue.waiting.iter().map(|(reason, jobs)| (reason.word().to_owned(), json!(jobs)));
    without_nulls(json!({
        "slots": queue.slots,
        "running": queue.running,
        "queued": queue.queued,
        "max_queued": queue.max_queued,
        "paused": queue.paused,
        "draining": queue.draining,
        "pressure": queue.pressure.map(|pressure| pressure.to_string()),
        "waiting": waiting.collect::<Map<_, _>>(),
        "estimate_ms": queue.estimate.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        "lanes": lanes.collect::<Map<_, _>>(),
        "tenants": tenants.collect::<Map<_, _>>(),
    }))
}

pub(super) fn without_nulls(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    value
}
