//! Which path of the API leads where.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{MethodRouter, any, get, post};
use tokio::sync::Semaphore;

use super::error::ApiError;
use super::traced::traced;
use super::{admin, jobs, log_level, output};
use crate::http::auth::Credential;
use crate::http::operations::Operations;
use crate::http::route::Route;
use crate::mcp::Handler;
use crate::yard::{Role, Yard};

/// Answers that are compressed at one time: each encoder takes a megabyte or more.
const MAX_ENCODERS: usize = 16;

/// What the API answers from.
#[derive(Debug)]
pub(in crate::http) struct Api {
    pub(super) yard: Yard,
    pub(super) handler: Handler,
    pub(super) operations: Operations,
    /// Sets the content of this server's jobs apart from that of another's with the same number.
    pub(super) server: u64,
    pub(super) encoders: Arc<Semaphore>,
}

impl Api {
    /// The API of one yard; `handler` writes its jobs down.
    pub(in crate::http) fn new(yard: Yard, handler: Handler, operations: Operations) -> Self {
        // Without randomness tags are those of any server: worse for caches, right for ranges.
        let server = getrandom::u64().unwrap_or_default();
        let encoders = Arc::new(Semaphore::new(MAX_ENCODERS));
        Self { yard, handler, operations, server, encoders }
    }
}

/// What answers at a route of the API; nothing stands behind the others here.
pub(in crate::http) fn lead(route: Route, api: Arc<Api>) -> MethodRouter {
    const READ: &str = "GET, HEAD";
    const CHANGE: &str = "POST";
    const READ_OR_PUT: &str = "GET, HEAD, PUT";
    let (router, allowed) = match route {
        Route::Jobs => (get(jobs::list), READ),
        Route::Job => (get(jobs::show), READ),
        Route::JobOutput => (get(output::send), READ),
        Route::Queue => (get(admin::queue), READ),
        Route::QueuePause => (post(admin::pause), CHANGE),
        Route::QueueResume => (post(admin::resume), CHANGE),
        Route::Drain => (post(admin::drain), CHANGE),
        Route::Reload => (post(admin::reload), CHANGE),
        Route::LogLevel => (get(log_level::show).put(log_level::choose), READ_OR_PUT),
        Route::Mcp
        | Route::ProtectedResource
        | Route::ProtectedResourceOfMcp
        | Route::Healthz
        | Route::Readyz
        | Route::Metrics => (any(no_such_path), READ),
    };
    router
        .layer(from_fn(move |request, next| traced(route, request, next)))
        .fallback(async move || ApiError::Method { allowed })
        .layer(from_fn(challenge))
        .with_state(api)
}

/// Tells a caller that was refused, and can get more rights, which scope to ask for.
async fn challenge(request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Credential>().cloned();
    let headers = request.headers().clone();
    let mut response = next.run(request).await;
    // The API refuses nobody for anything but the role.
    if response.status() == StatusCode::FORBIDDEN
        && let Some(Err(denied)) = caller.map(|caller| caller.require(Role::Admin, &headers))
    {
        denied.put_challenge(&mut response);
    }
    response
}

/// What answers where there is nothing.
pub(in crate::http) async fn no_such_path() -> ApiError {
    ApiError::NoSuchPath
}
