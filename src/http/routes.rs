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

use super::api::Api;
use super::api::Operations;
use super::auth::{Auth, Credential, WELL_KNOWN};
use super::guard::{Gate, Guard, enter, refused};
use super::mcp_endpoint::McpMount;
use super::probes::MetricsText;
use super::probes::Readiness;
use super::settings::HttpSettings;
use super::{api, mcp_endpoint, probes};
use crate::mcp::Handler;
use crate::service::{CallerRole, JobService};

/// What the server leads to.
#[derive(Debug, Clone)]
pub struct Doors {
    /// Where jobs are.
    pub service: JobService,
    /// Answers MCP requests.
    pub handler: Handler,
    /// Renders the metrics.
    pub metrics: MetricsText,
    /// Says whether work is taken.
    pub readiness: watch::Receiver<Readiness>,
    /// What an operator can ask of the server as a whole.
    pub operations: Operations,
}

/// Paths that the MCP endpoint cannot have.
pub(super) const TAKEN: [&str; 5] = ["/healthz", "/readyz", "/metrics", "/api", WELL_KNOWN];

/// All routes of a server that listens on `bound`.
pub(super) fn routes(
    doors: Doors,
    settings: &HttpSettings,
    bound: Option<SocketAddr>,
    streams: CancellationToken,
) -> Router {
    let Doors { service, handler, metrics, readiness, operations } = doors;
    let open = Route::ALL.into_iter().filter(|route| route.is_open());
    let gate = Gate {
        guard: Guard::new(settings, bound),
        auth: settings.auth.clone(),
        open: open
            .map(|route| route.path(&settings.path))
            .chain(settings.auth.metadata_path())
            .collect(),
        max_body_bytes: settings.max_body_bytes,
        body_timeout: settings.body_timeout,
        allow_jobs: settings.allow_jobs,
    };
    let house = House {
        mcp: Arc::new(McpMount::new(handler.clone(), settings, bound, streams, readiness.clone())),
        api: Arc::new(Api::new(service.clone(), handler, operations)),
        service,
        auth: settings.auth.clone(),
        metrics,
        readiness,
    };
    let mount =
        |router: Router, route: Route| router.route(&route.path(&settings.path), house.lead(route));
    Route::ALL
        .into_iter()
        .fold(Router::new(), mount)
        .route("/api/{*rest}", any(api::no_such_path))
        .fallback(elsewhere(settings.auth.clone()))
        .layer(from_fn_with_state(Arc::new(gate), enter))
        .layer(from_fn_with_state(Arc::from(settings.path.as_str()), mcp_endpoint::at_endpoint))
}

/// What stands behind the routes.
struct House {
    mcp: Arc<McpMount>,
    api: Arc<Api>,
    service: JobService,
    auth: Auth,
    metrics: MetricsText,
    readiness: watch::Receiver<Readiness>,
}

impl House {
    fn lead(&self, route: Route) -> MethodRouter {
        match route {
            Route::Mcp => {
                let mcp = Arc::clone(&self.mcp);
                // Boxed: it is large, and every layer above would carry it around.
                any(move |request: Request| Box::pin(Arc::clone(&mcp).serve(request)))
            }
            Route::ProtectedResource | Route::ProtectedResourceOfMcp => metadata(self.auth.clone()),
            Route::Healthz => get(probes::alive),
            Route::Readyz => {
                let readiness = self.readiness.clone();
                let service = self.service.clone();
                get(move || probes::ready(readiness, service))
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
            | Route::LogLevel => api::lead(route, Arc::clone(&self.api)),
        }
    }
}

/// Where clients find the authorization server, if there is one.
fn metadata(auth: Auth) -> MethodRouter {
    get(move |headers: HeaderMap| async move {
        auth.metadata(&headers).unwrap_or_else(|| StatusCode::NOT_FOUND.into_response())
    })
}

/// What is at a path that is no route: the metadata of a resource that is known by another path than
/// ours, as behind a proxy, or nothing. No route, since that path may have any signs in it.
fn elsewhere(auth: Auth) -> MethodRouter {
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
    metrics: MetricsText,
    Extension(caller): Extension<Credential>,
    headers: HeaderMap,
) -> Response {
    match caller.require(CallerRole::Admin, &headers) {
        Ok(()) => metrics.response().await,
        Err(denied) => refused(denied),
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
