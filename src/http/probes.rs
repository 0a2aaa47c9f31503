//! The pages for monitoring: `/healthz`, `/readyz`, `/metrics`, and `/runbooks/NAME.md`, to which
//! alerts and dashboards link.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::api::{Coding, encode_whole};
use crate::service::JobService;

/// The readiness of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// The server shuts down and takes no work.
    Draining,
    /// Another server takes over; its listeners are those of this one.
    Replaced,
}

/// Answers `/healthz`: a process that answers is alive.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Answers `/readyz`: 200 while the server takes work, 503 as soon as it refuses work: it drains,
/// whether an operator or a shutdown asked for that, or another server takes over.
pub(super) async fn readyz(readiness: watch::Receiver<Readiness>, service: JobService) -> Response {
    let is_draining = service.queue_overview().await.draining;
    let readiness = *readiness.borrow();
    match readiness {
        // Work is refused a moment after a shutdown has begun.
        Readiness::Ready | Readiness::Draining if !is_draining => {
            (StatusCode::OK, "ready\n").into_response()
        }
        Readiness::Ready | Readiness::Draining | Readiness::Replaced => draining_response(),
    }
}

/// The response while the server takes no work.
pub(super) fn draining_response() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response()
}

/// Renders all metrics on demand.
#[derive(Clone)]
pub struct MetricsRenderer {
    render: Arc<Render>,
    /// Allows one rendering at a time: a disk that never answers blocks one thread, not one more
    /// per scrape.
    turn: Arc<Semaphore>,
}

/// The time limit for rendering. Scrapers give up after ten seconds.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(5);

type Render = dyn Fn() -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync;

impl MetricsRenderer {
    /// Creates a renderer that calls `render` once per scrape.
    pub fn new<F>(render: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = String> + Send + 'static,
    {
        let render: Arc<Render> = Arc::new(move || Box::pin(render()));
        Self { render, turn: Arc::new(Semaphore::new(1)) }
    }

    /// Returns the metrics in a coding that these headers accept, or 503 if the server or its disk
    /// does not answer in time.
    pub(super) async fn response(&self, headers: &HeaderMap) -> Response {
        self.response_within(SCRAPE_TIMEOUT, Coding::from_headers(headers)).await
    }

    async fn response_within(&self, time_limit: Duration, coding: Coding) -> Response {
        match timeout(time_limit, self.render_in_turn(coding)).await {
            Ok(Some(body)) => metrics_response(body, coding),
            Ok(None) | Err(_) => {
                let text = "metrics are not available right now: the server is busy, or its disk does not answer\n";
                (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
            }
        }
    }

    async fn render_in_turn(&self, coding: Coding) -> Option<Vec<u8>> {
        let turn = Arc::clone(&self.turn).acquire_owned().await.ok()?;
        let text = (self.render)();
        // The task keeps its turn until it ends, even if nobody waits for it any more.
        let rendering = tokio::spawn(async move {
            let _turn = turn;
            let text = text.await.into_bytes();
            if coding == Coding::Identity { Ok(text) } else { compress(coding, text).await }
        });
        rendering.await.ok()?.ok()
    }
}

/// Compresses the text on a blocking thread: it takes about a millisecond.
async fn compress(coding: Coding, text: Vec<u8>) -> io::Result<Vec<u8>> {
    let compressed = tokio::task::spawn_blocking(move || encode_whole(coding, text)).await;
    compressed.map_err(io::Error::other).flatten()
}

fn metrics_response(body: Vec<u8>, coding: Coding) -> Response {
    let kind = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    let mut response = (kind, [(VARY, "accept-encoding")], body).into_response();
    if coding != Coding::Identity {
        let name = HeaderValue::from_static(coding.name());
        response.headers_mut().insert(CONTENT_ENCODING, name);
    }
    response
}

impl fmt::Debug for MetricsRenderer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricsRenderer(…)")
    }
}

/// The path above all pages.
const FOLDER: &str = "/runbooks/";

/// The content type: browsers show plain text, and download Markdown.
const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// Each page with its name.
const PAGES: [(&str, &str); 9] = [
    ("README", include_str!("../../docs/runbooks/README.md")),
    ("ShellyardDown", include_str!("../../docs/runbooks/ShellyardDown.md")),
    ("ShellyardJournalDegraded", include_str!("../../docs/runbooks/ShellyardJournalDegraded.md")),
    ("ShellyardOrphans", include_str!("../../docs/runbooks/ShellyardOrphans.md")),
    ("ShellyardOwnFailures", include_str!("../../docs/runbooks/ShellyardOwnFailures.md")),
    ("ShellyardQueueStalled", include_str!("../../docs/runbooks/ShellyardQueueStalled.md")),
    ("ShellyardRejecting", include_str!("../../docs/runbooks/ShellyardRejecting.md")),
    ("ShellyardSaturated", include_str!("../../docs/runbooks/ShellyardSaturated.md")),
    ("ShellyardStoreNearlyFull", include_str!("../../docs/runbooks/ShellyardStoreNearlyFull.md")),
];

/// Answers a request for a page; `None` if its path is not that of a page.
pub(super) fn runbook_response(method: &Method, path: &str) -> Option<Response> {
    let page = find_page(path)?;
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Some(StatusCode::METHOD_NOT_ALLOWED.into_response());
    }
    Some(([(CONTENT_TYPE, PLAIN_TEXT)], page).into_response())
}

/// Returns the path of every page. They need no token: whoever follows the link of an alert has none,
/// and they are the same on every server.
pub(super) fn list_runbook_paths() -> impl Iterator<Item = String> {
    PAGES.iter().map(|(name, _)| format!("{FOLDER}{name}.md"))
}

fn find_page(path: &str) -> Option<&'static str> {
    let name = path.strip_prefix(FOLDER)?;
    let name = name.strip_suffix(".md").unwrap_or(name);
    PAGES.iter().find(|(page, _)| *page == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn a_blocked_rendering_times_out_and_is_started_once() {
        let render_count = Arc::new(AtomicUsize::new(0));
        let release = Arc::new(Notify::new());
        let counter = Arc::clone(&render_count);
        let released = Arc::clone(&release);
        let metrics = MetricsRenderer::new(move || {
            counter.fetch_add(1, Ordering::SeqCst);
            let released = Arc::clone(&released);
            async move {
                released.notified().await;
                "up 1\n".to_owned()
            }
        });
        for _ in 0..3 {
            let response = metrics.response_within(Duration::from_millis(10), Coding::Gzip).await;
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        }
        assert_eq!(render_count.load(Ordering::SeqCst), 1);
        // Releases the blocked rendering, then a new one.
        release.notify_one();
        let next = tokio::spawn(async move { metrics.response(&HeaderMap::new()).await });
        while render_count.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
        release.notify_one();
        assert_eq!(next.await.unwrap().status(), StatusCode::OK);
    }

    #[test]
    fn every_runbook_has_its_page() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbooks");
        let files = fs::read_dir(folder).unwrap().flatten();
        let files: BTreeSet<String> =
            files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        let pages: BTreeSet<String> = PAGES.iter().map(|(name, _)| format!("{name}.md")).collect();
        assert_eq!(pages, files);
        assert_eq!(list_runbook_paths().count(), PAGES.len());
        for (name, text) in PAGES {
            assert_eq!(find_page(&format!("/runbooks/{name}.md")), Some(text));
            assert_eq!(find_page(&format!("/runbooks/{name}")), Some(text));
        }
        assert_eq!(find_page("/runbooks/../secret.md"), None);
        assert_eq!(find_page("/runbooks"), None);
    }
}
