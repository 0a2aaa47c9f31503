//! Which path leads where, behind one guard.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Extension, Router};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::api::{self, Api};
use super::arrival::{Arrival, Peer};
use super::auth::{Auth, Credential, Denied, WELL_KNOWN, until_it_ends};
use super::body::{self, BodyError};
use super::guard::Guard;
use super::health::{self, Readiness};
use super::mcp_mount::McpMount;
use super::metrics::MetricsText;
use super::settings::HttpSettings;
use crate::mcp::Handler;
use crate::telemetry::{self, events};
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
    let Doors { yard, handler, metrics, readiness } = doors;
    let api = Api::new(yard, handler.clone());
    let mcp = McpMount::new(handler, settings, bound, streams);
    let gate = Arc::new(Gate {
        guard: Guard::new(settings, bound),
        auth: settings.auth.clone(),
        open: open_paths(&settings.path),
        max_body_bytes: settings.max_body_bytes,
        body_timeout: settings.body_timeout,
    });
    Router::new()
        .route(&settings.path, any(move |request: Request| mcp.clone().serve(request)))
        .nest("/api/v1", api::routes(api))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(move || async move { health::ready(&readiness) }))
        .route("/metrics", get(move |caller, headers| scrape(metrics, caller, headers)))
        .merge(metadata(&settings.auth, &settings.path))
        .fallback(|| async { (StatusCode::NOT_FOUND, "nothing here; MCP is at its own path\n") })
        .layer(from_fn_with_state(gate, enter))
}

/// Paths that need no token: a probe has none, and who looks for a way to get one neither.
fn open_paths(mcp: &str) -> [String; 4] {
    let [whole, mcp] = metadata_paths(mcp);
    ["/healthz".to_owned(), "/readyz".to_owned(), whole, mcp]
}

fn metadata_paths(mcp: &str) -> [String; 2] {
    [WELL_KNOWN.to_owned(), format!("{WELL_KNOWN}{mcp}")]
}

/// Where clients find the authorization server, if there is one.
fn metadata(auth: &Auth, mcp: &str) -> Router {
    metadata_paths(mcp).iter().fold(Router::new(), |router, path| {
        let auth = auth.clone();
        let answer = move |headers: HeaderMap| async move {
            auth.metadata(&headers).unwrap_or_else(|| StatusCode::NOT_FOUND.into_response())
        };
        router.route(path, get(answer))
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

struct Gate {
    guard: Guard,
    auth: Auth,
    open: [String; 4],
    max_body_bytes: usize,
    body_timeout: Duration,
}

impl Gate {
    /// Who sends a request. Over the unix socket no token is needed: its user was checked. Where
    /// tenants are told apart that does not hold for jobs, which are some tenant's.
    async fn identify(
        &self,
        headers: &HeaderMap,
        arrival: Option<Arrival>,
    ) -> Result<Credential, Denied> {
        let is_trusted = match arrival {
            Some(Arrival::Unix { peer: Peer::User }) => true,
            Some(Arrival::Unix { peer: Peer::Job }) => !self.auth.asks(),
            Some(Arrival::Tcp(_)) | None => false,
        };
        if is_trusted && !headers.contains_key(AUTHORIZATION) {
            return Ok(self.auth.same_user());
        }
        self.auth.identify(headers).await
    }
}

/// Lets a request in, its body read, or says why not.
async fn enter(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let arrival = request.extensions().get::<Arrival>().copied();
    if let Err(refusal) = gate.guard.check(request.headers(), arrival) {
        events::http_refused(refusal.counted_as());
        return refusal.into_response();
    }
    let (mut parts, body) = request.into_parts();
    let mut caller = None;
    if !gate.open.iter().any(|open| open == parts.uri.path()) {
        match gate.identify(&parts.headers, arrival).await {
            Ok(credential) => {
                parts.extensions.insert(credential.identity);
                parts.extensions.insert(credential.clone());
                caller = Some(credential);
            }
            Err(denied) => return refused(denied),
        }
    }
    match body::read(body, gate.max_body_bytes, gate.body_timeout).await {
        Ok(body) => {
            let response = next.run(Request::from_parts(parts, Body::from(body))).await;
            match caller {
                Some(caller) => until_it_ends(response, caller),
                None => response,
            }
        }
        Err(error) => {
            events::http_refused(telemetry::Refusal::Body);
            refused_body(error, gate.max_body_bytes)
        }
    }
}

pub(super) fn refused(denied: Denied) -> Response {
    events::http_refused(telemetry::Refusal::Auth);
    denied.into_response()
}

fn refused_body(error: BodyError, limit: usize) -> Response {
    let (status, text) = match error {
        BodyError::TooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "the request is larger than {limit} bytes; write large input to a file and name that\n"
            ),
        ),
        BodyError::TooSlow => {
            (StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive\n".to_owned())
        }
        BodyError::Broken => {
            (StatusCode::BAD_REQUEST, "the request could not be read to its end\n".to_owned())
        }
    };
    (status, text).into_response()
}
