//! `/metrics`: what the telemetry room renders, as Prometheus reads it.

use std::fmt;
use std::sync::Arc;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

/// Renders all metrics now.
#[derive(Clone)]
pub struct MetricsText(Arc<dyn Fn() -> String + Send + Sync>);

impl MetricsText {
    /// Renders with `render`, which is called once per scrape.
    pub fn new(render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(render))
    }

    pub(super) fn response(&self) -> Response {
        ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], (self.0)()).into_response()
    }
}

impl fmt::Debug for MetricsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricsText(…)")
    }
}
