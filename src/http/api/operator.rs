//! `/server`, `/queue`, `/drain`, `/reload`, `/log-level` and `/upgrade`: the server that answers, and
//! what an operator sees and changes in it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Extension;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::request::{ApiError, ApiState, OperatorRequest, QueryParams, json_response};
use crate::http::auth::Credential;
use crate::service::{AfterDrain, CallerIdentity, QueueOverview};
use crate::spec::JobClient;
use crate::telemetry::audit::format_rfc3339;
use crate::telemetry::{LogFilter, LogFilterStatus};

/// The settings that a reload changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReloadedSettings {
    /// Keys whose new values are in effect.
    pub live: Vec<String>,
    /// Keys whose new values take effect after a restart.
    pub restart: Vec<String>,
}

type ReloadFn =
    dyn Fn(CallerIdentity) -> BoxFuture<'static, Result<ReloadedSettings, String>> + Send + Sync;

/// The operations on the server as a whole. Clones are cheap.
#[derive(Clone)]
pub struct ServerControl {
    reload: Arc<ReloadFn>,
    after_drain: watch::Sender<AfterDrain>,
    log_filter: LogFilter,
    upgrade: Option<UpgradeControl>,
}

impl ServerControl {
    /// Creates the operations. `reload` reads the settings again and returns what changed;
    /// `after_drain` receives what to do once the server has drained; `log_filter` changes
    /// the filter of log lines; `upgrade` replaces the server, if its jobs outlive it.
    #[must_use]
    pub fn new(
        reload: impl Fn(CallerIdentity) -> BoxFuture<'static, Result<ReloadedSettings, String>>
        + Send
        + Sync
        + 'static,
        after_drain: watch::Sender<AfterDrain>,
        log_filter: LogFilter,
        upgrade: Option<UpgradeControl>,
    ) -> Self {
        Self { reload: Arc::new(reload), after_drain, log_filter, upgrade }
    }
}

impl fmt::Debug for ServerControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerControl").finish_non_exhaustive()
    }
}

/// The process that serves the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiProcess {
    pub kind: ServerKind,
    pub pid: u32,
    pub started: SystemTime,
}

/// The way in which a server was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// A server of many clients.
    Serve,
    /// The server of one client, on its standard input and output.
    Stdio,
}

impl ServerKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Stdio => "stdio",
        }
    }
}

/// Describes the server, and the client of a server that has only one.
pub(in crate::http) async fn describe_server(
    State(api): State<Arc<ApiState>>,
    uri: Uri,
) -> Result<Response, ApiError> {
    QueryParams::parse(uri.query(), &[])?;
    let ApiProcess { kind, pid, started } = api.process;
    let mut fields = json!({
        "kind": kind.word(),
        "pid": pid,
        "version": env!("CARGO_PKG_VERSION"),
        "started_at": format_rfc3339(started),
        "directory": api.service.default_directory().to_string_lossy(),
    });
    let client = match kind {
        ServerKind::Serve => None,
        ServerKind::Stdio => api.handler.first_client(),
    };
    if let Some(JobClient { name, version, .. }) = client {
        fields["client"] = json!(name);
        if let Some(version) = version {
            fields["client_version"] = json!(version);
        }
    }
    Ok(json_response(&fields))
}

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
            return Err(ApiError::bad_body("`undo` and `exit` contradict each other"));
        }
        (true, false) => {
            // A later drain must not end a server that was told to stay.
            api.control.after_drain.send_replace(AfterDrain::Stay);
            api.service.end_drain(caller).await;
        }
        (false, true) => {
            api.service.begin_drain(AfterDrain::Exit, caller).await;
            api.control.after_drain.send_replace(AfterDrain::Exit);
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
    let changes = (api.control.reload)(request.caller).await.map_err(ApiError::Reload)?;
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
    Ok(filter_response(api.control.log_filter.status()))
}

/// Sets the log filter, for a while or until the next change.
pub(in crate::http) async fn set_log_level(
    State(api): State<Arc<ApiState>>,
    OperatorRequest { caller, body }: OperatorRequest<LogLevelArgs>,
) -> Result<Response, ApiError> {
    let LogLevelArgs { filter, for_s } = body;
    let log_filter = &api.control.log_filter;
    let done = match (filter, parse_for_s(for_s)?) {
        (None, None) => {
            log_filter.reset();
            format!("{}, as configured", log_filter.status().filter)
        }
        (None, Some(_)) => {
            return Err(ApiError::bad_body(
                "`for_s` says how long a `filter` holds, and there is none",
            ));
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
    let why = "`for_s` must be a number of seconds above 0, at most a week";
    fits.map(Some).ok_or_else(|| ApiError::bad_body(why))
}

fn filter_response(status: LogFilterStatus) -> Response {
    let LogFilterStatus { filter, configured, remaining } = status;
    let for_s = remaining.map(|time| time.as_secs_f64().ceil() as u64);
    json_response(&without_nulls(
        json!({"filter": filter, "configured": configured, "for_s": for_s}),
    ))
}

/// The running server among those that its keeper has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerGeneration {
    /// Counts the servers of one keeper from 1.
    pub number: u64,
    pub pid: u32,
    /// The reason why the server before this one ended, or why an upgrade was undone.
    pub last_failure: Option<String>,
}

type UpgradeFn = dyn Fn(Option<PathBuf>) -> BoxFuture<'static, Result<(), String>> + Send + Sync;

/// The upgrade of a server whose jobs outlive it. Clones are cheap.
#[derive(Clone)]
pub struct UpgradeControl {
    generation: ServerGeneration,
    begin: Arc<UpgradeFn>,
}

impl UpgradeControl {
    /// Creates the control. `begin` checks the settings and the program (`None` = the one that was
    /// started) and begins the upgrade, or says why not.
    #[must_use]
    pub fn new(
        generation: ServerGeneration,
        begin: impl Fn(Option<PathBuf>) -> BoxFuture<'static, Result<(), String>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { generation, begin: Arc::new(begin) }
    }

    fn response(&self) -> Response {
        let mut fields = json!({
            "generation": self.generation.number,
            "pid": self.generation.pid,
            "version": env!("CARGO_PKG_VERSION"),
        });
        if let Some(why) = &self.generation.last_failure {
            fields["last_failure"] = json!(why);
        }
        json_response(&fields)
    }
}

impl fmt::Debug for UpgradeControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpgradeControl")
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

/// The body of an upgrade request.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct UpgradeArgs {
    /// The path of the new program; `None`: the path that the server was started with.
    #[serde(default)]
    program: Option<PathBuf>,
}

/// Answers with the generation of the running server.
pub(in crate::http) async fn generation(
    State(api): State<Arc<ApiState>>,
    _: OperatorRequest,
) -> Result<Response, ApiError> {
    Ok(find_control(&api)?.response())
}

/// Begins an upgrade. The response describes the server that is replaced.
pub(in crate::http) async fn upgrade(
    State(api): State<Arc<ApiState>>,
    Extension(credential): Extension<Credential>,
    OperatorRequest { caller, body }: OperatorRequest<UpgradeArgs>,
) -> Result<Response, ApiError> {
    let control = find_control(&api)?;
    // A token must not be enough to run any file of this machine outside of jobs and their rules.
    if body.program.is_some() && !credential.is_own_user() {
        let why = "only the server's own user can name another program, through the unix socket";
        return Err(ApiError::Upgrade(why.to_owned()));
    }
    (control.begin)(body.program).await.map_err(ApiError::Upgrade)?;
    api.service.record_upgrade(caller);
    Ok(control.response())
}

fn find_control(api: &ApiState) -> Result<&UpgradeControl, ApiError> {
    let why =
        "jobs do not outlive this server (`server.durability` is \"off\"); restart it instead";
    api.control.upgrade.as_ref().ok_or_else(|| ApiError::Upgrade(why.to_owned()))
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
