//! What an operator changes, as a span of the trace that the request names.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

use crate::http::route::Route;
use crate::mcp::context_of_headers;
use crate::telemetry::spans::{Span, SpanKind};

/// Answers a request at `route` inside a span of its own, if it may change something.
pub(super) async fn traced(route: Route, request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let route = route.path("");
    let parent = context_of_headers(request.headers());
    let name = format!("{} {route}", request.method());
    let mut span = Span::begin(SpanKind::Server, name, parent.as_ref());
    span.note("http.request.method", request.method().as_str());
    span.note("http.route", route.as_str());
    let response = next.run(request).instrument(span.log().clone()).await;
    let status = response.status();
    span.note("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.fail(&status);
    }
    response
}
