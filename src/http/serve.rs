//! The accept loop: every connection bounded, and a shutdown that comes to an end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::error::HttpError;
use super::routes::{API, Doors, TAKEN, routes};
use super::settings::HttpSettings;

/// What answers on their way get before the open streams are closed.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// A pause after a failed accept: most often the process is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// hyper's own lower bound for its buffer.
const MIN_HEADER_BYTES: usize = 8192;

/// An HTTP server that listens, but does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    bound: SocketAddr,
    settings: HttpSettings,
}

impl Server {
    /// Listens, or says why not. An address that others can reach is refused without a token.
    pub async fn bind(settings: HttpSettings) -> Result<Self, HttpError> {
        let bind = settings.bind;
        if !bind.ip().to_canonical().is_loopback() && settings.tokens.is_empty() {
            return Err(HttpError::TokenRequired { bind });
        }
        if !is_usable(&settings.path) {
            return Err(HttpError::BadPath { path: settings.path });
        }
        let failed = |source| HttpError::Bind { bind, source };
        let listener = TcpListener::bind(bind).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, bound, settings })
    }

    /// Where it listens: the port is the real one, also where 0 was asked for.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.bound
    }

    /// Answers until `shutdown`; then takes nothing new, lets answers on their way finish,
    /// closes open streams, and returns within the configured grace.
    pub async fn serve(self, doors: Doors, shutdown: CancellationToken) {
        let streams = CancellationToken::new();
        let router = routes(doors, &self.settings, self.bound, streams.clone());
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let slots = Arc::new(Semaphore::new(self.settings.max_connections));
        loop {
            let (stream, slot) = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = accept(&self.listener, &slots) => accepted,
            };
            let connection =
                Connection { stream, router: router.clone(), watcher: graceful.watcher() };
            connections.spawn(connection.run(http1(&self.settings), slot));
            while connections.try_join_next().is_some() {}
        }
        drop(self.listener);
        close(graceful, &streams, self.settings.shutdown_grace).await;
        // Whoever is left had its time.
        connections.shutdown().await;
    }
}

/// Whether the MCP endpoint can be there: a plain path, of which no other route takes any.
fn is_usable(path: &str) -> bool {
    path.starts_with('/')
        && !path.contains(['{', '}', '?', '#', '*'])
        && !path.starts_with(API)
        && !TAKEN.contains(&path)
}

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed, so a permit is always had.
    let slot = Arc::clone(slots).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, slot),
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn http1(settings: &HttpSettings) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        // Without a timer hyper's header timeout never fires.
        .timer(TokioTimer::new())
        .header_read_timeout(settings.header_timeout)
        .max_buf_size(settings.max_header_bytes.max(MIN_HEADER_BYTES));
    builder
}

struct Connection {
    stream: TcpStream,
    router: Router,
    watcher: Watcher,
}

impl Connection {
    async fn run(self, builder: http1::Builder, _slot: Option<OwnedSemaphorePermit>) {
        // Small events must not wait for each other: 40 ms per call otherwise.
        if let Err(error) = self.stream.set_nodelay(true) {
            tracing::debug!(%error, "no TCP_NODELAY");
        }
        let service = TowerToHyperService::new(self.router);
        let connection = builder.serve_connection(TokioIo::new(self.stream), service);
        if let Err(error) = self.watcher.watch(connection).await {
            tracing::debug!(%error, "connection ended");
        }
    }
}

async fn close(graceful: GracefulShutdown, streams: &CancellationToken, grace: Duration) {
    let deadline = Instant::now() + grace;
    let mut finished = std::pin::pin!(graceful.shutdown());
    if timeout(LAST_WORDS.min(grace), &mut finished).await.is_err() {
        streams.cancel();
        if timeout_at(deadline, finished).await.is_err() {
            tracing::warn!("connections were still open at the end of the shutdown");
        }
    }
    streams.cancel();
}

#[cfg(test)]
mod tests {
    use super::super::settings::Token;
    use super::*;

    fn on(bind: &str) -> HttpSettings {
        HttpSettings { bind: bind.parse().unwrap(), ..HttpSettings::default() }
    }

    #[tokio::test]
    async fn an_address_that_others_reach_needs_a_token() {
        for bind in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let refused = Server::bind(on(bind)).await.unwrap_err();
            assert_eq!(refused.code(), "token_required", "{bind}");
            assert!(refused.to_string().contains("--token-file"), "{refused}");
        }
        let with_token = HttpSettings { tokens: vec![Token::new("t".into())], ..on("0.0.0.0:0") };
        Server::bind(with_token).await.unwrap();
        assert!(Server::bind(on("127.0.0.1:0")).await.unwrap().local_addr().port() > 0);
    }

    #[tokio::test]
    async fn a_taken_address_or_path_is_refused_by_name() {
        let first = Server::bind(on("127.0.0.1:0")).await.unwrap();
        let taken = on(&first.local_addr().to_string());
        assert_eq!(Server::bind(taken).await.unwrap_err().code(), "bind_failed");
        for path in ["", "mcp", "/metrics", "/{id}", "/api", "/api/v1/jobs"] {
            let settings = HttpSettings { path: path.to_owned(), ..on("127.0.0.1:0") };
            assert_eq!(Server::bind(settings).await.unwrap_err().code(), "bad_path", "{path}");
        }
    }
}
