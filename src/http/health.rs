//! Probes: is the server alive, and does it take work.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;

use crate::yard::Yard;

/// Whether the server takes work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// It does.
    Ready,
    /// It is shutting down, and takes none.
    Draining,
}

/// `/healthz`: whoever answers is alive.
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// `/readyz`: 200 while work is taken, 503 while draining, by whosever wish.
pub(super) async fn ready(readiness: watch::Receiver<Readiness>, yard: Yard) -> Response {
    let wished = yard.queue_overview().await.draining;
    let readiness = *readiness.borrow();
    match if wished { Readiness::Draining } else { readiness } {
        Readiness::Ready => (StatusCode::OK, "ready\n").into_response(),
        Readiness::Draining => draining(),
    }
}

/// What those hear who come while no work is taken.
pub(super) fn draining() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response()
}
