//! Which path leads where, behind one guard.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::api::{self, Api};
use super::arrival::Arrival;
use super::body::{self, BodyError};
use super::guard::Guard;
use super::health::{self, Readiness};
use super::mcp_mount::McpMount;
use super::metrics::MetricsText;
use super::settings::HttpSettings;
use crate::mcp::Handler;
use crate::telemetry::{self, events};
use crate::yard::{Identity, Yard};

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
pub(super) const TAKEN: [&str; 4] = ["/healthz", "/readyz", "/metrics", "/api"];

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
        max_body_bytes: settings.max_body_bytes,
        body_timeout: settings.body_timeout,
    });
    Router::new()
        .route(&settings.path, any(move |request: Request| mcp.clone().serve(request)))
        .nest("/api/v1", api::routes(api))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(move || async move { health::ready(&readiness) }))
        .route("/metrics", get(move || async move { metrics.response().await }))
        .fallback(|| async { (StatusCode::NOT_FOUND, "nothing here; MCP is at its own path\n") })
        .layer(from_fn_with_state(gate, enter))
}

struct Gate {
    guard: Guard,
    max_body_bytes: usize,
    body_timeout: Duration,
}

/// Lets a request in, its body read, or says why not.
async fn enter(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let arrival = request.extensions().get::<Arrival>().copied();
    if let Err(refusal) = gate.guard.check(request.uri().path(), request.headers(), arrival) {
        events::http_refused(refusal.counted_as());
        return refusal.into_response();
    }
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(Identity::LOCAL);
    match body::read(body, gate.max_body_bytes, gate.body_timeout).await {
        Ok(body) => next.run(Request::from_parts(parts, Body::from(body))).await,
        Err(error) => {
            events::http_refused(telemetry::Refusal::Body);
            refused_body(error, gate.max_body_bytes)
        }
    }
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
