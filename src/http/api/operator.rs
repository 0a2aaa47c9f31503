//! `/queue`, `/drain`, `/reload`, `/log-level`: what an operator sees and changes in a running
//! server.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::request::{ApiError, ApiState, OperatorRequest, json_response};
use crate::service::{AfterDrain, QueueOverview};
use crate::telemetry::LogFilterStatus;

/// The body of a request to pause or resume starts.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct LaneArgs {
    /// One lane; `None`: all lanes.
    #[serde(default)]
    lane: Option<String>,
}

/// The body of a drain request.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct DrainArgs {
    /// Accept new jobs again.
    #[serde(default)]
    undo: bool,
    /// Exit once no job is queued or running.
    #[serde(default)]
    exit: bool,
}

/// Answers with the queue by lane and by tenant, and what holds it back.
pub(in crate::http) async fn queue(
    State(api): State<Arc<ApiState>>,
    _: OperatorRequest,
) -> Result<Response, ApiError> {
    Ok(json_response(&queue_fields(&api.service.queue_overview().await)))
}

/// Pauses starts, in one lane or in all.
pub(in crate::http) async fn pause(
    State(api): State<Arc<ApiState>>,
    request: OperatorRequest<LaneArgs>,
) -> Result<Response, ApiError> {
    api.service.pause(request.body.lane, request.caller).await?;
    Ok(json_response(&queue_fields(&api.service.queue_overview().await)))
}

/// Resumes starts, in one lane or in all.
pub(in crate::http) async fn resume(
    State(api): State<Arc<ApiState>>,
    request: OperatorRequest<LaneArgs>,
) -> Result<Response, ApiError> {
    api.service.resume(request.body.lane, request.caller).await?;
    Ok(json_response(&queue_fields(&api.service.queue_overview().await)))
}

/// Stops accepting new jobs; accepted jobs continue.
pub(in crate::http) async fn drain(
    State(api): State<Arc<ApiState>>,
    OperatorRequest { caller, body }: OperatorRequest<DrainArgs>,
) -> Result<Response, ApiError> {
    match (body.undo, body.exit) {
        (true, true) => {
            let why = "`undo` and `exit` contradict each other".to_owned();
            return Err(ApiError::BadBody { why });
        }
        (true, false) => {
            // A later drain must not end a server that was told to stay.
            api.control.set_after_drain(AfterDrain::Stay);
            api.service.end_drain(caller).await;
        }
        (false, true) => {
            api.service.begin_drain(AfterDrain::Exit, caller).await;
            api.control.set_after_drain(AfterDrain::Exit);
        }
        (false, false) => api.service.begin_drain(AfterDrain::Stay, caller).await,
    }
    Ok(json_response(&queue_fields(&api.service.queue_overview().await)))
}

/// Reads the configuration again.
pub(in crate::http) async fn reload(
    State(api): State<Arc<ApiState>>,
    request: OperatorRequest,
) -> Result<Response, ApiError> {
    let changes = api.control.reload(request.caller).await.map_err(ApiError::Reload)?;
    Ok(json_response(&json!({"applied": changes.live, "needs_restart": changes.restart})))
}

/// Renders the queue overview as JSON. A limit that is not set is omitted.
fn queue_fields(queue: &QueueOverview) -> Value {
    let lanes = queue.lanes.iter().map(|(name, lane)| {
        let fields = without_nulls(json!({
            "running": lane.running + lane.idle,
            "idle": lane.idle,
            "slots": lane.limits.slots,
            "queued": lane.queued,
            "max_queued": lane.limits.max_queued,
            "paused": lane.paused,
        }));
        (name.clone(), fields)
    });
    let tenants = queue.tenants.iter().map(|(tenant, own)| {
        let limits = own.limits;
        let fields = without_nulls(json!({
            "weight": limits.weight,
            "running": own.running + own.idle,
            "idle": own.idle,
            "max_running": limits.max_running,
            "queued": own.queued,
            "max_queued": limits.max_queued,
            "starts_per_minute": limits.starts_per_minute,
            "stored_bytes": own.stored_bytes,
            "max_stored": own.max_stored,
            "cpu_s": own.cpu_used.as_secs(),
            "cpu_s_per_hour": limits.cpu_per_hour.map(|time| time.as_secs()),
        }));
        (tenant.name().to_owned(), fields)
    });
    let waiting =
        queue.waiting.iter().map(|(reason, jobs)| (reason.word().to_owned(), json!(jobs)));
    without_nulls(json!({
        "slots": queue.slots,
        "running": queue.running + queue.idle,
        "idle": queue.idle,
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

fn without_nulls(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    value
}

/// The longest time for a temporary filter: what must last longer belongs in the settings.
const MAX_FILTER_TIME: Duration = Duration::from_hours(7 * 24);

/// The body of a request to change the log filter.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct LogLevelArgs {
    /// The new filter; `None` restores the configured one.
    #[serde(default)]
    filter: Option<String>,
    /// The time in seconds after which the configured filter returns.
    #[serde(default)]
    for_s: Option<f64>,
}

/// Answers with the current log filter.
pub(in crate::http) async fn log_level(
    State(api): State<Arc<ApiState>>,
    _: OperatorRequest,
) -> Result<Response, ApiError> {
    Ok(filter_response(api.control.log_filter().status()))
}

/// Sets the log filter, for a while or until the next change.
pub(in crate::http) async fn set_log_level(
    State(api): State<Arc<ApiState>>,
    OperatorRequest { caller, body }: OperatorRequest<LogLevelArgs>,
) -> Result<Response, ApiError> {
    let LogLevelArgs { filter, for_s } = body;
    let log_filter = api.control.log_filter();
    let done = match (filter, parse_for_s(for_s)?) {
        (None, None) => {
            log_filter.reset();
            format!("{}, as configured", log_filter.status().filter)
        }
        (None, Some(_)) => {
            let why = "`for_s` says how long a `filter` holds, and there is none".to_owned();
            return Err(ApiError::BadBody { why });
        }
        (Some(filter), time) => {
            log_filter.set_override(&filter, time)?;
            time.map_or_else(|| filter.clone(), |time| format!("{filter} for {time:?}"))
        }
    };
    api.service.record_log_filter(&done, caller);
    Ok(filter_response(log_filter.status()))
}

fn parse_for_s(seconds: Option<f64>) -> Result<Option<Duration>, ApiError> {
    let Some(seconds) = seconds else { return Ok(None) };
    let time = Duration::try_from_secs_f64(seconds).ok();
    let fits = time.filter(|time| !time.is_zero() && *time <= MAX_FILTER_TIME);
    let why = "`for_s` must be a number of seconds above 0, at most a week".to_owned();
    fits.map(Some).ok_or(ApiError::BadBody { why })
}

fn filter_response(status: LogFilterStatus) -> Response {
    let LogFilterStatus { filter, configured, remaining } = status;
    let for_s = remaining.map(|time| time.as_secs_f64().ceil() as u64);
    json_response(&without_nulls(
        json!({"filter": filter, "configured": configured, "for_s": for_s}),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_time_is_above_zero_and_at_most_a_week() {
        assert_eq!(parse_for_s(None).unwrap(), None);
        assert_eq!(parse_for_s(Some(0.5)).unwrap(), Some(Duration::from_millis(500)));
        assert_eq!(parse_for_s(Some(604_800.0)).unwrap(), Some(MAX_FILTER_TIME));
        for bad in [0.0, -1.0, 604_801.0, f64::NAN, f64::INFINITY] {
            assert_eq!(parse_for_s(Some(bad)).unwrap_err().code(), "bad_body", "{bad}");
        }
    }
}
