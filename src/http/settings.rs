//! Settings of the HTTP server: plain values that are already validated.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::auth::Authenticator;
use super::connection_table::JobDetection;
use super::legacy_session::SessionKey;

#[derive(Debug, Clone)]
pub struct HttpServerSettings {
    /// The TCP address to listen on; `None`: only the unix socket. Any address but loopback needs a
    /// token.
    pub bind: Option<SocketAddr>,
    pub socket: Option<SocketPath>,
    pub routes: OfferedRoutes,
    /// The PEM file of a certificate chain. With it and its key, the TCP address speaks TLS.
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    /// The path of the MCP endpoint, starting with `/`.
    pub path: String,
    /// Host names that are accepted besides loopback and the bound address: `name`, `name:port`, or
    /// `*` for any.
    pub allowed_hosts: Vec<String>,
    /// Origins that are accepted besides our own: `scheme://host[:port]`.
    pub allowed_origins: Vec<String>,
    pub auth: Authenticator,
    pub job_detection: JobDetection,
    /// `true` if jobs of this server may call it like any other client.
    pub allow_jobs: bool,
    pub max_body_bytes: usize,
    pub max_header_bytes: usize,
    /// The time limit for a request head. A connection that is idle for this long is closed.
    pub header_timeout: Duration,
    /// The time limit for a request body.
    pub body_timeout: Duration,
    /// The time that a client may leave sent bytes unread.
    pub write_timeout: Duration,
    /// The limit for bytes that wait in memory until clients read them, over all connections. Above
    /// it, the connections whose bytes have waited longest are closed.
    pub max_unread_bytes: usize,
    /// The limit for open connections. A further connection replaces the one that has been idle
    /// longest.
    pub max_connections: usize,
    /// The limit for open connections per address.
    pub max_connections_per_address: usize,
    /// The limit for legacy sessions. Further ones are refused; tenants with few sessions may open some
    /// beyond it.
    pub max_sessions: usize,
    /// The idle time after which a legacy session ends. A session with a call in flight or an open
    /// stream is not idle.
    pub session_idle: Duration,
    /// The time after which a legacy client with a call in flight and no open stream counts as gone.
    pub session_hang_up: Duration,
    /// Signs the ids of legacy sessions. Without it, no session is continued after a restart.
    pub session_key: Option<SessionKey>,
    /// The interval between comments on a silent event stream.
    pub keep_alive_every: Duration,
    /// The time limit for a shutdown.
    pub shutdown_grace: Duration,
}

impl Default for HttpServerSettings {
    fn default() -> Self {
        Self {
            bind: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 8000))),
            socket: None,
            routes: OfferedRoutes::All,
            tls_cert: None,
            tls_key: None,
            path: "/mcp".to_owned(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            auth: Authenticator::default(),
            job_detection: JobDetection::off(),
            allow_jobs: false,
            max_body_bytes: 4 * 1024 * 1024,
            max_header_bytes: 32 * 1024,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            max_unread_bytes: 64 * 1024 * 1024,
            max_connections: 8192,
            max_connections_per_address: 4096,
            max_sessions: 2000,
            session_idle: Duration::from_secs(3600),
            session_hang_up: Duration::from_secs(30),
            session_key: None,
            keep_alive_every: Duration::from_secs(15),
            shutdown_grace: Duration::from_secs(5),
        }
    }
}

/// The routes that a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferedRoutes {
    All,
    /// The API and the probes of health: no MCP, and no metrics.
    ApiOnly,
}

/// The path of the unix socket to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketPath {
    /// The default path. A server that also has a TCP address starts without the socket if another
    /// server uses it.
    Default(PathBuf),
    /// A path from the settings. The server does not start without it.
    Configured(PathBuf),
}

impl SocketPath {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Default(path) | Self::Configured(path) => path,
        }
    }
}
