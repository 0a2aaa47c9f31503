//! `/metrics`: what the telemetry room renders, as Prometheus reads it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

/// Renders all metrics now.
#[derive(Clone)]
pub struct MetricsText(Arc<Render>);

type Render = dyn Fn() -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync;

impl MetricsText {
    /// Renders with `render`, which is called once per scrape.
    pub fn new<F>(render: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = String> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(render())))
    }

    pub(super) async fn response(&self) -> Response {
        let text = (self.0)().await;
        ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
    }
}

impl fmt::Debug for MetricsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricsText(…)")
    }
}
