//! Which path of the API leads where.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tokio::sync::Semaphore;

use super::error::ApiError;
use super::{jobs, output};
use crate::mcp::Handler;
use crate::yard::Yard;

/// Answers that are compressed at one time: each encoder takes a megabyte or more.
const MAX_ENCODERS: usize = 16;

/// What the API answers from.
#[derive(Debug)]
pub(in crate::http) struct Api {
    pub(super) yard: Yard,
    pub(super) handler: Handler,
    /// Sets the content of this server's jobs apart from that of another's with the same number.
    pub(super) server: u64,
    pub(super) encoders: Arc<Semaphore>,
}

impl Api {
    /// The API of one yard; `handler` writes its jobs down.
    pub(in crate::http) fn new(yard: Yard, handler: Handler) -> Self {
        // Without randomness tags are those of any server: worse for caches, right for ranges.
        let server = getrandom::u64().unwrap_or_default();
        Self { yard, handler, server, encoders: Arc::new(Semaphore::new(MAX_ENCODERS)) }
    }
}

/// Everything below `/api/v1`.
pub(in crate::http) fn routes(api: Api) -> Router {
    Router::new()
        .route("/jobs", get(jobs::list).fallback(method))
        .route("/jobs/{id}", get(jobs::show).fallback(method))
        .route("/jobs/{id}/output", get(output::send).fallback(method))
        .fallback(async || ApiError::NoSuchPath)
        .with_state(Arc::new(api))
}

async fn method() -> ApiError {
    ApiError::Method
}
