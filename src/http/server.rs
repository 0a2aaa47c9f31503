//! The accept loop of the HTTP server: bounds every connection and ends a shutdown in time.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::connection::ConnectionServer;
use super::connection_table::ConnectionLimiter;
use super::connection_table::ConnectionLimits;
use super::guard::API_PREFIX;
use super::listen::HttpError;
use super::listen::{AcceptedStream, HttpListeners, InheritedListeners};
use super::peer::PeerAddress;
use super::probes::Readiness;
use super::routes::{HttpServices, RESERVED_PATHS, build_router};
use super::settings::HttpServerSettings;

/// The time that responses in progress get at shutdown before open streams are closed.
const RESPONSE_GRACE: Duration = Duration::from_millis(250);

/// The pause after a failed accept. The most common cause is that the process has no free file
/// descriptor, and one must be closed first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// An HTTP server that listens but does not answer yet.
#[derive(Debug)]
pub struct Server {
    listeners: HttpListeners,
    settings: HttpServerSettings,
}

impl Server {
    /// Binds all configured listeners. Refuses an address that other machines can reach if no token
    /// is required.
    pub async fn bind(settings: HttpServerSettings) -> Result<Self, HttpError> {
        Self::bind_or_reuse(settings, InheritedListeners::default()).await
    }

    /// Does the same, but uses the listeners of a previous server where they fit the settings.
    pub async fn bind_or_reuse(
        settings: HttpServerSettings,
        inherited: InheritedListeners,
    ) -> Result<Self, HttpError> {
        if let Some(bind) = settings.bind
            && !bind.ip().to_canonical().is_loopback()
            && !settings.auth.requires_token()
        {
            return Err(HttpError::TokenRequired { bind });
        }
        if !is_valid_mcp_path(&settings.path) {
            return Err(HttpError::BadPath { path: settings.path });
        }
        let listeners = HttpListeners::bind(&settings, inherited).await?;
        Ok(Self { listeners, settings })
    }

    /// The bound address, if any. The port is the real one, even if port 0 was configured.
    #[must_use]
    pub const fn local_addr(&self) -> Option<SocketAddr> {
        self.listeners.bound()
    }

    /// Returns the listeners with the names under which a keeper holds them.
    #[must_use]
    pub fn named_listeners(&self) -> Vec<(&'static str, BorrowedFd<'_>)> {
        self.listeners.named_fds()
    }

    /// `true` if callers over TCP need a token.
    #[must_use]
    pub fn requires_token(&self) -> bool {
        self.settings.auth.requires_token()
    }

    /// The path of the unix socket, if the server listens on one.
    #[must_use]
    pub fn socket_path(&self) -> Option<&Path> {
        self.listeners.socket_path()
    }

    /// Serves requests until `shutdown` is cancelled. Then accepts nothing new, lets responses in
    /// progress finish, closes open streams, and returns within the configured grace period.
    pub async fn serve(self, services: HttpServices, shutdown: CancellationToken) {
        let closing = CancellationToken::new();
        let streams = CancellationToken::new();
        let readiness = services.readiness.clone();
        let router =
            build_router(services, &self.settings, self.listeners.bound(), streams.clone());
        let server = Arc::new(ConnectionServer::new(router, &self.settings, closing.clone()));
        let limits = ConnectionLimits {
            all: self.settings.max_connections,
            per_address: self.settings.max_connections_per_address,
        };
        let limiter = ConnectionLimiter::new(limits, self.settings.max_unread_bytes);
        let mut connections = JoinSet::new();
        loop {
            let (incoming, peer_address) = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = accept(&self.listeners, &limiter) => accepted,
            };
            if let Some(permit) = limiter.admit(peer_address.into()) {
                connections.spawn(Arc::clone(&server).serve(incoming, peer_address, permit));
            }
            while connections.try_join_next().is_some() {}
        }
        match *readiness.borrow() {
            // The next server listens on the same socket.
            Readiness::Replaced => self.listeners.leave_socket_file(),
            Readiness::Ready | Readiness::Draining => drop(self.listeners),
        }
        closing.cancel();
        close_connections(&mut connections, &streams, self.settings.shutdown_grace).await;
        // The connections that are still open have used up the grace period.
        connections.shutdown().await;
    }
}

/// `true` if the MCP endpoint can be mounted at `path`: a plain path that no other route uses.
fn is_valid_mcp_path(path: &str) -> bool {
    path.starts_with('/')
        && !path.contains(['{', '}', '?', '#', '*'])
        && !path.starts_with(API_PREFIX)
        && !RESERVED_PATHS.contains(&path)
}

/// Accepts the next connection and retries after errors.
async fn accept(
    listeners: &HttpListeners,
    limiter: &ConnectionLimiter,
) -> (AcceptedStream, PeerAddress) {
    loop {
        match listeners.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                if let Some(Errno::MFILE | Errno::NFILE) = Errno::from_io_error(&error) {
                    limiter.close_longest_idle();
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn close_connections(
    connections: &mut JoinSet<()>,
    streams: &CancellationToken,
    grace: Duration,
) {
    let deadline = Instant::now() + grace;
    let mut finished = std::pin::pin!(async { while connections.join_next().await.is_some() {} });
    if timeout(RESPONSE_GRACE.min(grace), &mut finished).await.is_err() {
        streams.cancel();
        if timeout_at(deadline, finished).await.is_err() {
            tracing::warn!("connections were still open at the end of the shutdown");
        }
    }
    streams.cancel();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::auth::{AuthSettings, Authenticator, TokenFilePath};
    use crate::http::settings::SocketPath;

    fn on(bind: &str) -> HttpServerSettings {
        HttpServerSettings { bind: bind.parse().ok(), ..HttpServerSettings::default() }
    }

    #[tokio::test]
    async fn a_public_address_needs_a_token() {
        for bind in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
            let refused = Server::bind(on(bind)).await.unwrap_err();
            assert_eq!(refused.code(), "token_required", "{bind}");
            assert!(refused.to_string().contains("--token-file"), "{refused}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "t\n").unwrap();
        let token_file = TokenFilePath::Configured(file.path().into());
        let auth = Authenticator::open(AuthSettings { token_file, oauth: None }).unwrap();
        Server::bind(HttpServerSettings { auth, ..on("0.0.0.0:0") }).await.unwrap();
        assert!(Server::bind(on("127.0.0.1:0")).await.unwrap().local_addr().unwrap().port() > 0);
    }

    #[tokio::test]
    async fn an_address_or_path_in_use_is_refused_with_its_code() {
        let first = Server::bind(on("127.0.0.1:0")).await.unwrap();
        let taken = on(&first.local_addr().unwrap().to_string());
        assert_eq!(Server::bind(taken).await.unwrap_err().code(), "bind_failed");
        for path in ["", "mcp", "/metrics", "/{id}", "/api", "/api/v1/jobs"] {
            let settings = HttpServerSettings { path: path.to_owned(), ..on("127.0.0.1:0") };
            assert_eq!(Server::bind(settings).await.unwrap_err().code(), "bad_path", "{path}");
        }
    }

    #[tokio::test]
    async fn a_server_listens_on_an_address_or_a_socket_or_both() {
        let nowhere = HttpServerSettings { bind: None, ..HttpServerSettings::default() };
        assert_eq!(Server::bind(nowhere.clone()).await.unwrap_err().code(), "no_listener");
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("yard.sock");
        let given = Some(SocketPath::Configured(path.clone()));
        let only_socket = HttpServerSettings { socket: given.clone(), ..nowhere.clone() };
        let server = Server::bind(only_socket).await.unwrap();
        assert_eq!((server.local_addr(), server.socket_path()), (None, Some(path.as_path())));
        let usual = Some(SocketPath::Default(path.clone()));
        let second = HttpServerSettings { socket: usual.clone(), ..on("127.0.0.1:0") };
        let second = Server::bind(second).await.unwrap();
        assert!(second.local_addr().is_some() && second.socket_path().is_none());
        for taken in [
            HttpServerSettings { socket: given, ..on("127.0.0.1:0") },
            HttpServerSettings { socket: usual, ..nowhere },
        ] {
            assert_eq!(Server::bind(taken).await.unwrap_err().code(), "socket_in_use");
        }
    }
}
