//! Which path leads where, behind one guard.

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

use super::api::{self, Api};
use super::auth::{Auth, Credential, WELL_KNOWN};
use super::entry::{Gate, enter, refused};
use super::guard::Guard;
use super::health::{self, Readiness};
use super::mcp_mount::McpMount;
use super::metrics::MetricsText;
use super::operations::Operations;
use super::refusal;
use super::route::Route;
use super::settings::HttpSettings;
use crate::mcp::Handler;
use crate::yard::{Role, Yard};

/// What the server leads to.
#[derive(Debug, Clone)]
pub struct Doors {
    /// Where jobs are.
    pub yard: Yard,
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

/// The beginning of all paths of the API, where the MCP endpoint cannot be either.
pub(super) const API: &str = "/api/";

/// All routes of a server that listens on `bound`.
pub(super) fn routes(
    doors: Doors,
    settings: &HttpSettings,
    bound: Option<SocketAddr>,
    streams: CancellationToken,
) -> Router {
    let Doors { yard, handler, metrics, readiness, operations } = doors;
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
        api: Arc::new(Api::new(yard.clone(), handler, operations)),
        yard,
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
        .layer(from_fn_with_state(Arc::from(settings.path.as_str()), refusal::at_endpoint))
}

/// What stands behind the routes.
struct House {
    mcp: Arc<McpMount>,
    api: Arc<Api>,
    yard: Yard,
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
            Route::Healthz => get(health::alive),
            Route::Readyz => {
                let (readiness, yard) = (self.readiness.clone(), self.yard.clone());
                get(move || health::ready(readiness, yard))
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
    match caller.require(Role::Admin, &headers) {
        Ok(()) => metrics.response().await,
        Err(denied) => refused(denied),
    }
}
