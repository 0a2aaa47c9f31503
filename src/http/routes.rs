//! All routes of the server, behind one guard.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get};
use axum::{Extension, Router};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::api::ApiState;
use super::api::ServerControl;
use super::auth::{Authenticator, Credential, WELL_KNOWN};
use super::guard::{HeadRules, RequestGuard, denied_response, guard_request};
use super::mcp_endpoint::McpEndpoint;
use super::probes::MetricsRenderer;
use super::probes::Readiness;
use super::settings::HttpServerSettings;
use super::{api, mcp_endpoint, probes};
use crate::mcp::Handler;
use crate::service::{CallerRole, JobService};

/// What the server leads to.
#[derive(Debug, Clone)]
pub struct HttpServices {
    /// Where jobs are.
    pub service: JobService,
    /// Answers MCP requests.
    pub handler: Handler,
    /// Renders the metrics.
    pub metrics: MetricsRenderer,
    /// Says whether work is taken.
    pub readiness: watch::Receiver<Readiness>,
    /// What an operator can ask of the server as a whole.
    pub control: ServerControl,
}

/// Paths that the MCP endpoint cannot have.
pub(super) const RESERVED_PATHS: [&str; 5] =
    ["/healthz", "/readyz", "/metrics", "/api", WELL_KNOWN];

/// All routes of a server that listens on `bound`.
pub(super) fn build_router(
    services: HttpServices,
    settings: &HttpServerSettings,
    bound: Option<SocketAddr>,
    streams: CancellationToken,
) -> Router {
    let HttpServices { service, handler, metrics, readiness, control } = services;
    let open = Route::ALL.into_iter().filter(|route| route.is_open());
    let guard = RequestGuard {
        head_rules: HeadRules::new(settings, bound),
        auth: settings.auth.clone(),
        open: open
            .map(|route| route.path(&settings.path))
            .chain(settings.auth.metadata_path())
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
            streams,
            readiness.clone(),
        )),
        api: Arc::new(ApiState::new(service.clone(), handler, control)),
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
        .fold(Router::new(), mount)
        .route("/api/{*rest}", any(api::no_such_path))
        .fallback(fallback(settings.auth.clone()))
        .layer(from_fn_with_state(Arc::new(guard), guard_request))
        .layer(from_fn_with_state(
            Arc::from(settings.path.as_str()),
            mcp_endpoint::refuse_in_json_rpc,
        ))
}

/// What stands behind the routes.
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
                // Boxed: it is large, and every layer above would carry it around.
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
            Route::Jobs
            | Route::Job
            | Route::JobOutput
            | Route::Queue
            | Route::QueuePause
            | Route::QueueResume
            | Route::Drain
            | Route::Reload
            | Route::LogLevel => api::api_route(route, Arc::clone(&self.api)),
        }
    }
}

/// Where clients find the authorization server, if there is one.
fn metadata_route(auth: Authenticator) -> MethodRouter {
    get(move |headers: HeaderMap| async move {
        auth.metadata(&headers).unwrap_or_else(|| StatusCode::NOT_FOUND.into_response())
    })
}

/// What is at a path that is no route: the metadata of a resource that is known by another path than
/// ours, as behind a proxy, or nothing. No route, since that path may have any signs in it.
fn fallback(auth: Authenticator) -> MethodRouter {
    let path = auth.metadata_path();
    any(move |request: Request| async move {
        let is_metadata = path.as_deref() == Some(request.uri().path());
        let found = is_metadata.then(|| auth.metadata(request.headers())).flatten();
        let nothing = (StatusCode::NOT_FOUND, "nothing here; MCP is at its own path\n");
        found.unwrap_or_else(|| nothing.into_response())
    })
}

/// Metrics tell of all tenants.
async fn scrape(
    metrics: MetricsRenderer,
    Extension(caller): Extension<Credential>,
    headers: HeaderMap,
) -> Response {
    match caller.require(CallerRole::Admin, &headers) {
        Ok(()) => metrics.response().await,
        Err(denied) => denied_response(denied),
    }
}

/// A path that leads somewhere. The server mounts exactly those in [`Route::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// MCP.
    Mcp,
    /// Where clients find the authorization server.
    ProtectedResource,
    /// The same, as clients look for it that know the path of MCP.
    ProtectedResourceOfMcp,
    /// Whether the process is alive.
    Healthz,
    /// Whether it takes work.
    Readyz,
    /// Metrics.
    Metrics,
    /// Jobs.
    Jobs,
    /// One job.
    Job,
    /// What a job wrote.
    JobOutput,
    /// How full the queue is.
    Queue,
    /// Stops starts.
    QueuePause,
    /// Starts go on.
    QueueResume,
    /// Takes no new jobs.
    Drain,
    /// Reads the configuration again.
    Reload,
    /// Which log lines are written.
    LogLevel,
}

impl Route {
    /// Every route.
    pub const ALL: [Self; 15] = [
        Self::Mcp,
        Self::ProtectedResource,
        Self::ProtectedResourceOfMcp,
        Self::Healthz,
        Self::Readyz,
        Self::Metrics,
        Self::Jobs,
        Self::Job,
        Self::JobOutput,
        Self::Queue,
        Self::QueuePause,
        Self::QueueResume,
        Self::Drain,
        Self::Reload,
        Self::LogLevel,
    ];

    /// Its path, where MCP is at `mcp`; names in braces stand for any segment.
    #[must_use]
    pub fn path(self, mcp: &str) -> String {
        match self {
            Self::Mcp => mcp.to_owned(),
            Self::ProtectedResource => WELL_KNOWN.to_owned(),
            Self::ProtectedResourceOfMcp => format!("{WELL_KNOWN}{mcp}"),
            Self::Healthz => "/healthz".to_owned(),
            Self::Readyz => "/readyz".to_owned(),
            Self::Metrics => "/metrics".to_owned(),
            Self::Jobs => "/api/v1/jobs".to_owned(),
            Self::Job => "/api/v1/jobs/{id}".to_owned(),
            Self::JobOutput => "/api/v1/jobs/{id}/output".to_owned(),
            Self::Queue => "/api/v1/queue".to_owned(),
            Self::QueuePause => "/api/v1/queue/pause".to_owned(),
            Self::QueueResume => "/api/v1/queue/resume".to_owned(),
            Self::Drain => "/api/v1/drain".to_owned(),
            Self::Reload => "/api/v1/reload".to_owned(),
            Self::LogLevel => "/api/v1/log-level".to_owned(),
        }
    }

    /// Whether it needs no token: a probe has none, and who looks for a way to get one neither.
    pub(super) const fn is_open(self) -> bool {
        match self {
            Self::ProtectedResource
            | Self::ProtectedResourceOfMcp
            | Self::Healthz
            | Self::Readyz => true,
            Self::Mcp
            | Self::Metrics
            | Self::Jobs
            | Self::Job
            | Self::JobOutput
            | Self::Queue
            | Self::QueuePause
            | Self::QueueResume
            | Self::Drain
            | Self::Reload
            | Self::LogLevel => false,
        }
    }
}
