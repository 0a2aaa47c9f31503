//! The router of the server: every route, behind one guard.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get, post};
use axum::{Extension, Router};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::api::{
    ApiError, ApiProcess, ApiState, MissingRole, ServerControl, event_stream, job_actions, jobs,
    openapi, operator, output, server, upgrade,
};
use super::auth::{Authenticator, Credential, WELL_KNOWN};
use super::guard::{HeadRules, METRICS_PATH, RequestGuard, denied_response, guard_request};
use super::mcp_endpoint::McpEndpoint;
use super::probes::{MetricsRenderer, Readiness};
use super::runbooks::{list_runbook_paths, runbook_response};
use super::settings::{HttpServerSettings, OfferedRoutes};
use super::{mcp_endpoint, probes};
use crate::mcp::{Handler, trace_context_from_headers};
use crate::service::JobService;
use crate::telemetry::spans::{SpanKind, TraceSpan};

/// The services that the routes call.
#[derive(Debug, Clone)]
pub struct HttpServices {
    pub service: JobService,
    pub handler: Handler,
    pub metrics: MetricsRenderer,
    pub readiness: watch::Receiver<Readiness>,
    pub control: ServerControl,
    pub process: ApiProcess,
}

/// Paths of other routes, which the MCP endpoint cannot use.
pub(super) const RESERVED_PATHS: [&str; 6] =
    ["/healthz", "/readyz", METRICS_PATH, "/api", WELL_KNOWN, "/runbooks"];

/// Builds the router of a server that listens on `bound`. Cancelling `streams` ends all open
/// responses and MCP sessions.
pub(super) fn build_router(
    services: HttpServices,
    settings: &HttpServerSettings,
    bound: Option<SocketAddr>,
    streams: CancellationToken,
) -> Router {
    let HttpServices { service, handler, metrics, readiness, control, process } = services;
    let public = Route::ALL.into_iter().filter(|route| route.is_public());
    let guard = RequestGuard {
        head_rules: HeadRules::new(settings, bound),
        auth: settings.auth.clone(),
        public_paths: public
            .map(|route| route.path(&settings.path))
            .chain(settings.auth.metadata_path())
            .chain(list_runbook_paths())
            .collect(),
        max_body_bytes: settings.max_body_bytes,
        body_timeout: settings.body_timeout,
        allow_jobs: settings.allow_jobs,
    };
    let handlers = RouteHandlers {
        mcp: Arc::new(McpEndpoint::new(
            handler.clone(),
            settings,
            bound,
            streams.clone(),
            readiness.clone(),
        )),
        api: Arc::new(ApiState::new(service.clone(), handler, control, process, streams)),
        service,
        auth: settings.auth.clone(),
        metrics,
        readiness,
    };
    let mount = |router: Router, route: Route| {
        router.route(&route.path(&settings.path), handlers.handler_for(route))
    };
    Route::ALL
        .into_iter()
        .filter(|route| route.is_offered(settings.routes))
        .fold(Router::new(), mount)
        .route("/api/{*rest}", any(no_such_path))
        .fallback(fallback(settings.auth.clone()))
        .layer(from_fn_with_state(Arc::new(guard), guard_request))
        .layer(from_fn_with_state(
            Arc::from(settings.path.as_str()),
            mcp_endpoint::refuse_in_json_rpc,
        ))
}

/// The handlers behind the routes.
struct RouteHandlers {
    mcp: Arc<McpEndpoint>,
    api: Arc<ApiState>,
    service: JobService,
    auth: Authenticator,
    metrics: MetricsRenderer,
    readiness: watch::Receiver<Readiness>,
}

impl RouteHandlers {
    fn handler_for(&self, route: Route) -> MethodRouter {
        match route {
            Route::Mcp => {
                let mcp = Arc::clone(&self.mcp);
                // Boxed: the future is large, and every layer above would carry it around.
                any(move |request: Request| Box::pin(Arc::clone(&mcp).serve(request)))
            }
            Route::ProtectedResource | Route::ProtectedResourceOfMcp => {
                metadata_route(self.auth.clone())
            }
            Route::Healthz => get(probes::healthz),
            Route::Readyz => {
                let readiness = self.readiness.clone();
                let service = self.service.clone();
                get(move || probes::readyz(readiness, service))
            }
            Route::Metrics => {
                let metrics = self.metrics.clone();
                get(move |caller, headers| scrape(metrics, caller, headers))
            }
            Route::Server
            | Route::OpenApi
            | Route::Jobs
            | Route::Job
            | Route::JobOutput
            | Route::JobDigest
            | Route::JobStream
            | Route::JobStop
            | Route::JobInput
            | Route::JobResize
            | Route::Queue
            | Route::QueuePause
            | Route::QueueResume
            | Route::Drain
            | Route::Reload
            | Route::LogLevel
            | Route::Upgrade => api_route(route, Arc::clone(&self.api)),
        }
    }
}

/// The OAuth metadata that names the authorization server; 404 without OAuth.
fn metadata_route(auth: Authenticator) -> MethodRouter {
    get(move |headers: HeaderMap| async move {
        auth.metadata(&headers).unwrap_or_else(|| StatusCode::NOT_FOUND.into_response())
    })
}

/// Answers paths that are not a route: with the OAuth metadata of a resource that clients know by
/// another path than ours, as behind a proxy, with a runbook, or with 404. It is not a route because
/// that path may contain any characters.
fn fallback(auth: Authenticator) -> MethodRouter {
    let path = auth.metadata_path();
    any(move |request: Request| async move {
        let is_metadata = path.as_deref() == Some(request.uri().path());
        let found = is_metadata.then(|| auth.metadata(request.headers())).flatten();
        let found = found.or_else(|| runbook_response(request.method(), request.uri().path()));
        let nothing = (
            StatusCode::NOT_FOUND,
            "nothing here; the MCP endpoint is at another path (http.path)\n",
        );
        found.unwrap_or_else(|| nothing.into_response())
    })
}

/// Answers `/metrics`. Metrics show all tenants, so they need the role metrics or admin.
async fn scrape(
    metrics: MetricsRenderer,
    Extension(caller): Extension<Credential>,
    headers: HeaderMap,
) -> Response {
    match caller.require_metrics(&headers) {
        Ok(()) => metrics.response(&headers).await,
        Err(denied) => denied_response(denied),
    }
}

/// A route of the server. The server mounts exactly the routes in [`Route::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    Mcp,
    /// OAuth metadata that names the authorization server.
    ProtectedResource,
    /// The same metadata at the path for clients that know the MCP path.
    ProtectedResourceOfMcp,
    Healthz,
    Readyz,
    Metrics,
    Server,
    OpenApi,
    Jobs,
    Job,
    JobOutput,
    JobDigest,
    JobStream,
    JobStop,
    JobInput,
    JobResize,
    Queue,
    QueuePause,
    QueueResume,
    Drain,
    Reload,
    LogLevel,
    Upgrade,
}

impl Route {
    pub const ALL: [Self; 23] = [
        Self::Mcp,
        Self::ProtectedResource,
        Self::ProtectedResourceOfMcp,
        Self::Healthz,
        Self::Readyz,
        Self::Metrics,
        Self::Server,
        Self::OpenApi,
        Self::Jobs,
        Self::Job,
        Self::JobOutput,
        Self::JobDigest,
        Self::JobStream,
        Self::JobStop,
        Self::JobInput,
        Self::JobResize,
        Self::Queue,
        Self::QueuePause,
        Self::QueueResume,
        Self::Drain,
        Self::Reload,
        Self::LogLevel,
        Self::Upgrade,
    ];

    /// The path of the route when the MCP endpoint is at `mcp`. A name in braces matches any
    /// segment.
    #[must_use]
    pub fn path(self, mcp: &str) -> String {
        match self {
            Self::Mcp => mcp.to_owned(),
            Self::ProtectedResource => WELL_KNOWN.to_owned(),
            Self::ProtectedResourceOfMcp => format!("{WELL_KNOWN}{mcp}"),
            Self::Healthz => "/healthz".to_owned(),
            Self::Readyz => "/readyz".to_owned(),
            Self::Metrics => METRICS_PATH.to_owned(),
            Self::Server => "/api/v1/server".to_owned(),
            Self::OpenApi => "/api/v1/openapi.json".to_owned(),
            Self::Jobs => "/api/v1/jobs".to_owned(),
            Self::Job => "/api/v1/jobs/{id}".to_owned(),
            Self::JobOutput => "/api/v1/jobs/{id}/output".to_owned(),
            Self::JobDigest => "/api/v1/jobs/{id}/digest".to_owned(),
            Self::JobStream => "/api/v1/jobs/{id}/stream".to_owned(),
            Self::JobStop => "/api/v1/jobs/{id}/stop".to_owned(),
            Self::JobInput => "/api/v1/jobs/{id}/input".to_owned(),
            Self::JobResize => "/api/v1/jobs/{id}/resize".to_owned(),
            Self::Queue => "/api/v1/queue".to_owned(),
            Self::QueuePause => "/api/v1/queue/pause".to_owned(),
            Self::QueueResume => "/api/v1/queue/resume".to_owned(),
            Self::Drain => "/api/v1/drain".to_owned(),
            Self::Reload => "/api/v1/reload".to_owned(),
            Self::LogLevel => "/api/v1/log-level".to_owned(),
            Self::Upgrade => "/api/v1/upgrade".to_owned(),
        }
    }

    /// `true` if a server that offers these routes has this one.
    const fn is_offered(self, offered: OfferedRoutes) -> bool {
        match offered {
            OfferedRoutes::All => true,
            OfferedRoutes::ApiOnly => !matches!(
                self,
                Self::Mcp | Self::ProtectedResource | Self::ProtectedResourceOfMcp | Self::Metrics
            ),
        }
    }

    /// `true` if the route needs no token: a health probe has none, and neither does a client that
    /// looks for the way to get one.
    pub(super) const fn is_public(self) -> bool {
        match self {
            Self::ProtectedResource
            | Self::ProtectedResourceOfMcp
            | Self::Healthz
            | Self::Readyz => true,
            Self::Mcp
            | Self::Metrics
            | Self::Server
            | Self::OpenApi
            | Self::Jobs
            | Self::Job
            | Self::JobOutput
            | Self::JobDigest
            | Self::JobStream
            | Self::JobStop
            | Self::JobInput
            | Self::JobResize
            | Self::Queue
            | Self::QueuePause
            | Self::QueueResume
            | Self::Drain
            | Self::Reload
            | Self::LogLevel
            | Self::Upgrade => false,
        }
    }
}

/// Returns the handler of an API route; 404 for all other routes.
fn api_route(route: Route, api: Arc<ApiState>) -> MethodRouter {
    const READ: &str = "GET, HEAD";
    const CHANGE: &str = "POST";
    const READ_OR_PUT: &str = "GET, HEAD, PUT";
    const READ_OR_POST: &str = "GET, HEAD, POST";
    let (router, allowed) = match route {
        Route::Server => (get(server::describe_server), READ),
        Route::OpenApi => (get(openapi::describe_api), READ),
        Route::Jobs => (get(jobs::list_jobs).post(job_actions::submit_job), READ_OR_POST),
        Route::Job => (get(jobs::show_job), READ),
        Route::JobOutput => (get(output::job_output), READ),
        Route::JobDigest => (get(jobs::job_digest), READ),
        Route::JobStream => (get(event_stream::job_stream), READ),
        Route::JobStop => (post(job_actions::stop_job), CHANGE),
        Route::JobInput => (post(job_actions::send_input), CHANGE),
        Route::JobResize => (post(job_actions::resize_terminal), CHANGE),
        Route::Queue => (get(operator::queue), READ),
        Route::QueuePause => (post(operator::pause), CHANGE),
        Route::QueueResume => (post(operator::resume), CHANGE),
        Route::Drain => (post(operator::drain), CHANGE),
        Route::Reload => (post(operator::reload), CHANGE),
        Route::LogLevel => (get(operator::log_level).put(operator::set_log_level), READ_OR_PUT),
        Route::Upgrade => (get(upgrade::generation).post(upgrade::upgrade), READ_OR_POST),
        Route::Mcp
        | Route::ProtectedResource
        | Route::ProtectedResourceOfMcp
        | Route::Healthz
        | Route::Readyz
        | Route::Metrics => (any(no_such_path), READ),
    };
    router
        .layer(from_fn(move |request, next| in_span(route, request, next)))
        .fallback(async move || ApiError::Method { allowed })
        .layer(from_fn(add_challenge))
        .with_state(api)
}

/// Tells a refused caller that can get more rights which scope to request.
async fn add_challenge(request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Credential>().cloned();
    let headers = request.headers().clone();
    let mut response = next.run(request).await;
    if let Some(MissingRole(role)) = response.extensions().get().copied()
        && let Some(Err(denied)) = caller.map(|caller| caller.require(role, &headers))
    {
        denied.put_challenge(&mut response);
    }
    response
}

/// Answers paths that are not a route of the API.
async fn no_such_path() -> ApiError {
    ApiError::NoSuchPath
}

/// Answers a request at `route` in its own span if the request may change something.
async fn in_span(route: Route, request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let route = route.path("");
    let parent = trace_context_from_headers(request.headers());
    let name = format!("{} {route}", request.method());
    let mut span = TraceSpan::start(SpanKind::Server, name, parent.as_ref());
    span.set_attribute("http.request.method", request.method().as_str());
    span.set_attribute("http.route", route.as_str());
    let response = next.run(request).instrument(span.log_span().clone()).await;
    let status = response.status();
    span.set_attribute("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.set_error(&status);
    }
    response
}
