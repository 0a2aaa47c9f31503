use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{MethodRouter, any, get, post};
use tracing::Instrument;

use super::request::{ApiError, ApiState};
use super::{jobs, operator};
use crate::http::auth::Credential;
use crate::http::routes::Route;
use crate::mcp::trace_context_from_headers;
use crate::service::CallerRole;
use crate::telemetry::spans::{SpanKind, TraceSpan};

/// Returns the handler of an API route; 404 for all other routes.
pub(in crate::http) fn api_route(route: Route, api: Arc<ApiState>) -> MethodRouter {
    const READ: &str = "GET, HEAD";
    const CHANGE: &str = "POST";
    const READ_OR_PUT: &str = "GET, HEAD, PUT";
    let (router, allowed) = match route {
        Route::Jobs => (get(jobs::list_jobs), READ),
        Route::Job => (get(jobs::show_job), READ),
        Route::JobOutput => (get(jobs::job_output), READ),
        Route::Queue => (get(operator::queue), READ),
        Route::QueuePause => (post(operator::pause), CHANGE),
        Route::QueueResume => (post(operator::resume), CHANGE),
        Route::Drain => (post(operator::drain), CHANGE),
        Route::Reload => (post(operator::reload), CHANGE),
        Route::LogLevel => (get(operator::log_level).put(operator::set_log_level), READ_OR_PUT),
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
    // The API answers 403 only for a missing role.
    if response.status() == StatusCode::FORBIDDEN
        && let Some(Err(denied)) = caller.map(|caller| caller.require(CallerRole::Admin, &headers))
    {
        denied.put_challenge(&mut response);
    }
    response
}

/// Answers paths that are not a route of the API.
pub(in crate::http) async fn no_such_path() -> ApiError {
    ApiError::NoSuchPath
}

/// Answers a request at `route` in its own span if the request may change something.
pub(super) async fn in_span(route: Route, request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let route = route.path("");
    let parent = trace_context_from_headers(request.headers());
    let name = format!("{} {route}", request.method());
    let mut span = TraceSpan::start(SpanKind::Server, name, parent.as_ref());
    span.set_attribute("http.request.method", request.method().as_str());
    span.set_attribute("http.route", route.as_str());
    let response = next.run(request).instrument(span.log().clone()).await;
    let status = response.status();
    span.set_attribute("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.set_error(&status);
    }
    response
}
